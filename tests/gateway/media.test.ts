import { Glob } from 'bun'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import type { ConversationName } from '../../src/generation/request.ts'
import { program } from '../program.ts'
import { startGateway, type Gateway } from '../server.ts'
import { until, type RawServer } from '../transport/raw-server.ts'
import { PROTOCOLS } from './asking.ts'
import { scriptedProvider } from './scripted.ts'
import { once, ofSqlite, ON_POSTGRES, sqlIn, storeOf, withStoreOption } from '../stores.ts'

/** Files and URLs in requests, and what of them reaches a provider. */

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=',
  'base64',
)
const PDF = Buffer.from('%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n', 'latin1')
const TXT = Buffer.from('Der Reiher heißt "Otto".\n')
const ZIP = Buffer.from('PK\x03\x04\x14\x00\x00\x00\x00\x00', 'latin1')

const KEY_OF_ANOTHER = 'sk-ai-v1-of-another-0123456789abcdef0123456789abcdef'

let provider: RawServer
/** Serves PNG, PDF and TXT at /a.png, /a.pdf, /a.txt, and a page at /page. */
let site: ReturnType<typeof Bun.serve>
/** Number of requests to /slow, which does not respond. */
let slow = 0
let gateway: Gateway
/** A gateway that fetches URLs of requests itself. */
let fetching: Gateway

const configFor = (requestUrls: boolean): string => {
  const own = PROTOCOLS.flatMap((protocol) => {
    const row = (suffix: string, options: string): string =>
      `  ${idOf(protocol)}${suffix}: ` +
      `{ protocol: ${protocol}, baseUrl: "${provider.url}/v1", apiKey: k, unlisted: true${options} }\n`
    return [
      row('', ', fetches: [], buckets: ["gs://bucket", "gs://shared/public/"]'),
      row('-shared', ', sharedIds: true'),
      row('-default', ''),
      row('-fetching', ', fetches: [image, file]'),
    ]
  })
  const builtIn = ['openai', 'anthropic', 'google', 'groq'].map(
    (id) => `  ${id}: { apiKey: k, baseUrl: "${provider.url}/v1" }\n`,
  )
  return `
limits: { requestsPerMinute: 1000000 }
keys: [{ key: ${KEY_OF_ANOTHER}, account: another }]
fetch: { requestUrls: ${requestUrls}, private: ["127.0.0.1:${site.port}"] }
providers:
${own.join('')}${builtIn.join('')}
models:
  both: { endpoints: [{ provider: own-chat, model: metered }, { provider: own-chat-fetching, model: metered }] }
  small-first:
    endpoints:
      - { provider: groq, model: metered, protocol: chat.completions }
      - { provider: own-chat, model: metered }
  priced: { endpoints: [{ provider: own-messages, model: metered }], price: { prompt: 1, completion: 1 } }
`
}

const IDS: Record<ConversationName, string> = {
  'chat.completions': 'own-chat',
  responses: 'own-responses',
  messages: 'own-messages',
  generateContent: 'own-gemini',
}
const idOf = (protocol: ConversationName): string => IDS[protocol]

beforeAll(async () => {
  provider = scriptedProvider()
  site = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      if (new URL(request.url).pathname === '/slow') {
        slow += 1
        await Promise.withResolvers().promise
      }
      const body = {
        '/a.png': PNG,
        '/a.pdf': PDF,
        '/a.txt': TXT,
        '/page': Buffer.from('<html>'),
        '/empty': Buffer.alloc(0),
      }[new URL(request.url).pathname]
      return body === undefined
        ? new Response('no', { status: 404 })
        : new Response(new Uint8Array(body), { headers: { 'content-type': 'image/png' } })
    },
  })
  gateway = await startGateway({ config: configFor(false) })
  fetching = await startGateway({ config: configFor(true) })
})
afterAll(async () => {
  await gateway?.stop()
  await fetching?.stop()
  site?.stop(true)
  provider?.stop()
})

async function upload(bytes: Uint8Array, name: string, key = gateway.key, at = gateway): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'user_data')
  form.set('file', new File([new Uint8Array(bytes)], name))
  const response = await fetch(`${at.url}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: form,
  })
  const { id } = (await response.json()) as { id: string }
  expect(response.status, id).toBe(200)
  return id
}

type Kind = 'image' | 'file'
type Destination = { protocol: ConversationName; model: string; key?: string; at?: Gateway; stream?: boolean }

/** A part of a message with a file or a URL in each protocol, and the path of that field. */
const PARTS: Record<
  ConversationName,
  {
    file: (id: string, kind: Kind) => object
    url: (url: string, kind: Kind) => object
    param: (source: 'file' | 'url', kind: Kind) => string
  }
> = {
  'chat.completions': {
    file: (file_id) => ({ type: 'file', file: { file_id } }),
    url: (url, kind) =>
      kind === 'image'
        ? { type: 'image_url', image_url: { url, detail: 'low' } }
        : { type: 'file', file: { file_data: url } },
    param: (source, kind) => {
      const field = source === 'file' ? 'file.file_id' : kind === 'image' ? 'image_url.url' : 'file.file_data'
      return `messages[0].content[1].${field}`
    },
  },
  responses: {
    file: (file_id, kind) => ({ type: `input_${kind}`, file_id }),
    url: (url, kind) => ({ type: `input_${kind}`, [`${kind}_url`]: url }),
    param: (source, kind) => `input[0].content[1].${source === 'file' ? 'file_id' : `${kind}_url`}`,
  },
  messages: {
    file: (file_id, kind) => ({ type: kind === 'image' ? 'image' : 'document', source: { type: 'file', file_id } }),
    url: (url, kind) => ({ type: kind === 'image' ? 'image' : 'document', source: { type: 'url', url } }),
    param: (source) => `messages[0].content[1].source.${source === 'file' ? 'file_id' : 'url'}`,
  },
  generateContent: {
    file: (id) => ({ fileData: { fileUri: id } }),
    url: (fileUri, kind) => ({ fileData: { fileUri, mimeType: kind === 'image' ? 'image/png' : 'application/pdf' } }),
    param: () => 'contents[0].parts[1].fileData.fileUri',
  },
}

function send(part: object, { protocol, model, key, at = gateway, stream = false }: Destination): Promise<Response> {
  const content = [{ type: 'text', text: 'Look' }, part]
  const [path, body] = {
    'chat.completions': ['/v1/chat/completions', { model, stream, messages: [{ role: 'user', content }] }],
    responses: [
      '/v1/responses',
      { model, stream, store: false, input: [{ role: 'user', content: [{ type: 'input_text', text: 'Look' }, part] }] },
    ],
    messages: ['/v1/messages', { model, stream, max_tokens: 10, messages: [{ role: 'user', content }] }],
    generateContent: [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      { contents: [{ role: 'user', parts: [{ text: 'Look' }, part] }] },
    ],
  }[protocol] as [string, object]
  // A number that a double cannot represent, to check that only the part is rewritten.
  const text = JSON.stringify({ ...body, zz_unknown: 'BIG' }).replace('"BIG"', '12345678901234567890.10')
  return fetch(at.url + path, { method: 'POST', headers: { authorization: `Bearer ${key ?? at.key}` }, body: text })
}

/** The last request that the provider received. */
const received = (): { text: string; body: unknown } => {
  const request = provider.requests.at(-1)!
  const text = Buffer.from(request.slice(request.indexOf('\r\n\r\n') + 4), 'latin1').toString()
  return { text, body: JSON.parse(text) as unknown }
}

/**
 * The media anywhere in a body of any protocol, as `type bytes`, and texts other than the prompt, as `text: ...`.
 */
function mediaIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(mediaIn)
  if (typeof value === 'string') return /^data:/.test(value) ? [value.replace(/^data:([^;]+);base64,/, '$1 ')] : []
  if (typeof value !== 'object' || value === null) return []
  const { mimeType, media_type: type, data, text } = value as Record<string, unknown>
  if (typeof data === 'string')
    return [(value as { type?: string }).type === 'text' ? `text: ${data}` : `${mimeType ?? type} ${data}`]
  return [
    ...(typeof text === 'string' && text !== 'Look' ? [`text: ${text}`] : []),
    ...Object.values(value).flatMap(mediaIn),
  ]
}

const inline = (type: string, bytes: Buffer): string => `${type} ${bytes.toString('base64')}`
const refusal = async (response: Response): Promise<{ status: number; message: string; param: string }> => {
  const { error } = (await response.json()) as {
    error: { message: string; param?: string; details?: { fieldViolations?: { field: string }[] }[] }
  }
  const param =
    error.param ??
    error.details?.find(({ fieldViolations }) => fieldViolations !== undefined)?.fieldViolations?.[0]?.field
  return {
    status: response.status,
    message: error.message,
    param: param ?? error.message.slice(0, error.message.indexOf(':')),
  }
}

/** The refusal of a request that no provider may see. */
const never = async (path: string, text: string): Promise<{ status: number; param: string; message: string }> => {
  const before = provider.requests.length
  const answer = await refusal(
    await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: text,
    }),
  )
  expect(provider.requests.length).toBe(before)
  return answer
}

describe('files', () => {
  const ids: Record<string, string> = {}
  beforeAll(async () => {
    for (const [name, bytes] of [
      ['a.png', PNG],
      ['a.pdf', PDF],
      ['a.txt', TXT],
      ['a.zip', ZIP],
    ] as const)
      ids[name] = await upload(bytes, name)
  })

  for (const client of PROTOCOLS) {
    for (const upstream of PROTOCOLS) {
      test.each([true, false])(
        `files of a client of ${client} are sent inline to a provider of ${upstream}, streamed: %p`,
        async (stream) => {
          const ask = async (name: string, kind: Kind): Promise<string[]> => {
            const response = await send(PARTS[client].file(ids[name]!, kind), {
              protocol: client,
              model: `${idOf(upstream)}/metered`,
              stream,
            })
            expect(response.status, await response.text()).toBe(200)
            expect(received().text.includes(ids[name]!)).toBe(false)
            // A body of the provider's own protocol is sent as the client wrote it.
            expect(received().text.includes('12345678901234567890.10')).toBe(client === upstream)
            return mediaIn(received().body)
          }
          expect(await ask('a.png', 'image')).toEqual([inline('image/png', PNG)])
          expect(await ask('a.pdf', 'file')).toEqual([inline('application/pdf', PDF)])
          const text = await ask('a.txt', 'file')
          expect(text.length).toBe(1)
          expect(
            text[0]!.startsWith('text/plain ') ? Buffer.from(text[0]!.slice(11), 'base64').toString() : text[0],
          ).toContain(TXT.toString())
        },
      )
    }

    test(`${client}: a file of another account is refused like an unknown one, before any call`, async () => {
      const native = await upload(PNG, 'a.png', await otherKey())
      const [deleted, expired] = [await upload(PNG, 'a.png'), await upload(PNG, 'a.png')]
      await fetch(`${gateway.url}/v1/files/${deleted}`, {
        method: 'DELETE',
        headers: { authorization: `Bearer ${gateway.key}` },
      })
      await sqlIn(gateway.data, 'UPDATE files SET expires_at = 1 WHERE id = ?', expired)
      // The file is deleted after it was found and before it is read.
      const lost = await upload(PNG, 'a.png')
      const [{ blob } = {}] = await sqlIn<{ blob: string }>(gateway.data, 'SELECT blob FROM files WHERE id = ?', lost)
      if (ON_POSTGRES) await sqlIn(gateway.data, 'DELETE FROM blob_chunks WHERE name = ?', blob!)
      for await (const path of new Glob(`**/${blob}`).scan({ cwd: gateway.data, absolute: true })) rmSync(path)
      const before = provider.requests.length
      const unknown = 'file-00000000000000000000000000000000'
      const answers = await Promise.all(
        [unknown, native, deleted, expired, lost, 'file-abcdefGHIJK'].map(async (id) => {
          const { status, message, param } = await refusal(
            await send(PARTS[client].file(id, 'image'), { protocol: client, model: `${idOf(client)}/metered` }),
          )
          return { status, message: message.replace(id, 'ID'), param }
        }),
      )
      for (const answer of answers) expect(answer).toEqual(answers[0]!)
      expect(answers[0]).toMatchObject({ status: 404, param: PARTS[client].param('file', 'image') })
      expect(provider.requests.length).toBe(before)
    })

    test(`${client}: a file of the wrong kind for its position is refused with 400 and its kind`, async () => {
      const cases: [string, Kind, string, string][] = []
      if (client === 'responses' || client === 'messages')
        cases.push(
          ['a.pdf', 'image', `${idOf(client)}/metered`, 'is application/pdf'],
          ['a.png', 'file', `${idOf(client)}/metered`, 'is image/png'],
        )
      cases.push([
        'a.zip',
        'file',
        client === 'messages'
          ? 'anthropic/metered'
          : client === 'generateContent'
            ? 'google/metered'
            : 'openai/metered',
        'is application/zip',
      ])
      for (const [name, kind, model, words] of cases) {
        const { status, message, param } = await refusal(
          await send(PARTS[client].file(ids[name]!, kind), { protocol: client, model }),
        )
        expect([status, param]).toEqual([400, PARTS[client].param('file', kind)])
        expect(message).toContain(words)
      }
    })
  }

  test('a file too large for one provider goes to another, or is refused with the limit', async () => {
    const large = await upload(Buffer.concat([PNG, Buffer.alloc(3_200_000)]), 'large.png')
    const part = PARTS['chat.completions'].file(large, 'image')
    const { status, message, param } = await refusal(
      await send(part, { protocol: 'chat.completions', model: 'groq/metered' }),
    )
    expect([status, param]).toEqual([400, 'messages[0].content[1].file.file_id'])
    expect(message).toMatch(/426\d{4} bytes.*Groq takes at most 4194304/)
    const passed = await send(part, { protocol: 'chat.completions', model: 'small-first' })
    expect([passed.status, passed.headers.get('x-sluice-provider')]).toEqual([200, 'own-chat'])
    await passed.text()
  })

  test('the reservation includes the cost of files', async () => {
    const book = await upload(Buffer.alloc(1_000_000, 'word '), 'book.txt')
    for (const part of [{ type: 'text', text: 'short' }, PARTS.messages.file(book, 'file')])
      await (await send(part, { protocol: 'messages', model: 'priced' })).text()
    const store = await storeOf(gateway)
    const held = (await store.ledger.generations(undefined, 1_000))
      .filter(({ model }) => model === 'priced')
      .map((record) => Number(record.held))
    await store.close()
    // One token per two bytes, at a dollar per million.
    expect(held[1]! - held[0]!).toBeGreaterThan(450_000_000)
  })

  test('a stored response keeps the id of a file, and a later turn reads the file again', async () => {
    const id = await upload(PNG, 'a.png')
    const post = (body: object): Promise<Response> =>
      fetch(`${gateway.url}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: JSON.stringify({ model: 'own-chat/metered', ...body }),
      })
    const first = (await (
      await post({ input: [{ role: 'user', content: [{ type: 'input_image', file_id: id }] }] })
    ).json()) as { id: string }
    const items = await (
      await fetch(`${gateway.url}/v1/responses/${first.id}/input_items`, {
        headers: { authorization: `Bearer ${gateway.key}` },
      })
    ).text()
    expect(items).toContain(id)
    expect(items).not.toContain('base64')
    expect((await post({ previous_response_id: first.id, input: 'Again' })).status).toBe(200)
    expect(mediaIn(received().body)).toContain(inline('image/png', PNG))
    await fetch(`${gateway.url}/v1/files/${id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${gateway.key}` },
    })
    const { status, param } = await refusal(await post({ previous_response_id: first.id, input: 'And again' }))
    expect([status, param]).toEqual([404, 'previous_response_id.content[0].file_id'])
  })

  test('fileUri accepts every form of a file name', async () => {
    for (const uri of [
      ids['a.png'],
      `files/${ids['a.png']}`,
      `${gateway.url}/v1/files/${ids['a.png']}`,
      `https://sluice.example/v1beta/files/${ids['a.png']}`,
    ]) {
      const response = await send(
        { fileData: { fileUri: uri } },
        { protocol: 'generateContent', model: 'own-gemini/metered' },
      )
      expect(response.status, await response.text()).toBe(200)
      expect(mediaIn(received().body)).toEqual([inline('image/png', PNG)])
    }
    for (const uri of ['files/abc', 'https://generativelanguage.googleapis.com/v1beta/files/abc'])
      expect(
        (
          await refusal(
            await send({ fileData: { fileUri: uri } }, { protocol: 'generateContent', model: 'own-gemini/metered' }),
          )
        ).status,
      ).toBe(404)
  })

  test('files are included when tokens are counted', async () => {
    const count = async (path: string, body: object): Promise<number> => {
      const response = await fetch(gateway.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: JSON.stringify(body),
      })
      const counted = (await response.json()) as { input_tokens?: number; totalTokens?: number }
      expect(response.status).toBe(200)
      return counted.input_tokens ?? counted.totalTokens!
    }
    const messages = (content: object[]): object => ({
      model: 'own-chat/metered',
      messages: [{ role: 'user', content }],
    })
    const text = { type: 'text', text: 'Look' }
    const book = await upload(Buffer.from('word '.repeat(1_000)), 'book.txt')
    const withoutFile = await count('/v1/messages/count_tokens', messages([text]))
    expect(
      await count('/v1/messages/count_tokens', messages([text, PARTS.messages.file(book, 'file')])),
    ).toBeGreaterThan(withoutFile + 900)
    const contents = (part: object): object => ({ contents: [{ parts: [{ text: 'Look' }, part] }] })
    for (const wrap of [(body: object) => body, (body: object) => ({ generateContentRequest: body })]) {
      const path = '/v1beta/models/own-chat/metered:countTokens'
      expect(await count(path, wrap(contents(PARTS.generateContent.file(ids['a.png']!, 'image'))))).toBeGreaterThan(
        (await count(path, wrap(contents({ text: 'x' })))) + 500,
      )
    }
  })
})

test('inline media are never taken for a stored file', async () => {
  const html = Buffer.from('<html><script>alert(1)</script>').toString('base64')
  const part = (protocol: ConversationName, type: string): object =>
    ({
      'chat.completions': { type: 'image_url', image_url: { url: `data:${type};base64,${html}` } },
      responses: { type: 'input_image', image_url: `data:${type};base64,${html}` },
      messages: { type: 'image', source: { type: 'base64', media_type: type, data: html } },
      generateContent: { inlineData: { mimeType: type, data: html } },
    })[protocol]
  for (const protocol of PROTOCOLS) {
    for (const upstream of PROTOCOLS) {
      // Google documents the types that may be inline, Anthropic the image types that its models accept.
      const listed = protocol === 'generateContent' || (upstream === 'messages' && protocol !== upstream)
      for (const type of listed ? ['image/png'] : ['image/png', 'image/svg+xml']) {
        const response = await send(part(protocol, type), { protocol, model: `${idOf(upstream)}/metered` })
        expect(response.status, await response.text()).toBe(200)
        expect(mediaIn(received().body)).toEqual([`${type} ${html}`])
      }
    }
    const response = await send(part(protocol, 'image/png'), { protocol, model: 'sandbox/chat' })
    expect(response.status, await response.text()).toBe(200)
  }
})

describe('ids that only a provider knows', () => {
  const user = { role: 'user', content: 'x' }
  const KEPT: [protocol: ConversationName, body: object, param: string][] = [
    ['responses', { input: 'x', prompt: { id: 'pmpt_1' } }, 'prompt.id'],
    [
      'responses',
      { input: 'x', tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
      'tools[0].vector_store_ids',
    ],
    [
      'messages',
      { max_tokens: 1, messages: [user], container: { skills: [{ type: 'custom', skill_id: 'skill_1' }] } },
      'container.skills[0].skill_id',
    ],
    ['chat.completions', { messages: [user], cached_content: 'cachedContents/1' }, 'cached_content'],
    [
      'chat.completions',
      { messages: [user], extra_body: { google: { cached_content: 'cachedContents/1' } } },
      'extra_body.google.cached_content',
    ],
    [
      'chat.completions',
      { messages: [user], tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
      'tools[0].vector_store_ids',
    ],
    ['chat.completions', { messages: [user], preset: 'sales' }, 'preset'],
    ['chat.completions', { messages: [user], thread_id: 'thread_1' }, 'thread_id'],
    ['chat.completions', { messages: [user], cache_id: 'cache_1' }, 'cache_id'],
    [
      'chat.completions',
      { messages: [user], search_parameters: { sources: [{ type: 'collections', collection_ids: ['c_1'] }] } },
      'search_parameters.sources[0].collection_ids',
    ],
    ['messages', { max_tokens: 1, messages: [user], user_profile_id: 'uprof_1' }, 'user_profile_id'],
    ['generateContent', { contents: [{ parts: [{ text: 'x' }] }], cachedContent: 'cachedContents/1' }, 'cachedContent'],
    [
      'generateContent',
      {
        contents: [{ parts: [{ text: 'x' }] }],
        tools: [{ fileSearch: { fileSearchStoreNames: ['fileSearchStores/1'] } }],
      },
      'tools[0].fileSearch.fileSearchStoreNames',
    ],
  ]
  const pathOf = (protocol: ConversationName, model: string): string =>
    ({
      'chat.completions': '/v1/chat/completions',
      responses: '/v1/responses',
      messages: '/v1/messages',
      generateContent: `/v1beta/models/${model}:generateContent`,
    })[protocol]

  test.each(KEPT)(
    "a provider's id in a request of %s is refused unless all accounts share it: %j",
    async (protocol, body, param) => {
      for (const upstream of PROTOCOLS) {
        const model = `${idOf(upstream)}${upstream === protocol ? '' : '-shared'}/metered`
        expect(await never(pathOf(protocol, model), JSON.stringify({ model, ...body }))).toMatchObject({
          status: 404,
          param,
          message: expect.stringContaining('sharedIds'),
        })
      }
      const model = `${idOf(protocol)}-shared/metered`
      const response = await fetch(gateway.url + pathOf(protocol, model), {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: JSON.stringify({ model, ...body }),
      })
      expect(response.status, await response.text()).toBe(200)
      expect(received().body).toMatchObject(body)
    },
  )

  test("a provider's id is refused in tools and blocks", async () => {
    const tool = (container: unknown): string =>
      JSON.stringify({ model: 'own-responses/metered', input: 'x', tools: [{ type: 'code_interpreter', container }] })
    expect(await never('/v1/responses', tool('cntr_1'))).toMatchObject({ status: 404, param: 'tools[0].container' })
    expect(await never('/v1/responses', tool({ type: 'auto', file_ids: ['file-1'] }))).toMatchObject({
      status: 404,
      param: 'tools[0].container.file_ids',
    })
    const block = JSON.stringify({
      model: 'own-messages/metered',
      max_tokens: 1,
      messages: [{ role: 'user', content: [{ type: 'container_upload', file_id: 'file_1' }] }],
    })
    for (const path of ['/v1/messages', '/v1/messages/count_tokens'])
      expect(await never(path, block)).toMatchObject({ status: 404, param: 'messages[0].content[0].file_id' })
  })

  test("a provider's id is found behind a repeated or escaped name", async () => {
    const chat = (file: string): string =>
      `{"model":"own-chat/metered","messages":[{"role":"user","content":[{"type":"file","file":${file}}]}]}`
    expect(
      await never('/v1/chat/completions', chat('{"file_id":"file-evil","file_id":null,"file_data":"JVBERi0="}')),
    ).toMatchObject({ status: 400, message: expect.stringContaining("'file_id' twice") })
    expect(
      await never('/v1/chat/completions', chat('{"file_id":"file-evil","file\\u005fid":null,"file_data":"JVBERi0="}')),
    ).toMatchObject({ status: 400, message: expect.stringContaining("'file_id' twice") })
    expect(await never('/v1/chat/completions', chat('{"file\\u005fid":"file-evil"}'))).toMatchObject({ status: 404 })
    const gemini = '{"contents":[{"parts":[{"fileData":{"fileUri":"files/evil","file\\u0055ri":"gs://a/b"}}]}]}'
    expect(await never('/v1beta/models/own-gemini/metered:generateContent', gemini)).toMatchObject({ status: 400 })
  })

  test("a provider's id is found in either of two members with the same name", async () => {
    const chat = (content: string): string => `{"model":"own-chat/metered","messages":[{"role":"user",${content}}]}`
    const message = (source: string): string =>
      '{"model":"own-messages/metered","max_tokens":1,' +
      `"messages":[{"role":"user","content":[{"type":"document",${source}}]}]}`
    const bodies: [path: string, body: string, name: string][] = [
      [
        '/v1/chat/completions',
        chat('"content":[{"type":"file","file":{"file_id":"file-evil"},"file":{"file_data":"JVBERi0="}}]'),
        'file',
      ],
      [
        '/v1/chat/completions',
        chat('"content":[{"type":"file","file":{"file_id":"file-evil"}}],"content":"Hello"'),
        'content',
      ],
      [
        '/v1/chat/completions',
        chat(
          '"content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/","url":"data:image/png;base64,AAAA"}}]',
        ),
        'url',
      ],
      [
        '/v1/messages',
        message(
          '"source":{"type":"file","file_id":"file-evil"},' +
            '"source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}',
        ),
        'source',
      ],
      [
        '/v1beta/models/own-gemini/metered:generateContent',
        '{"contents":[{"parts":[{"fileData":{"fileUri":"files/evil"},"fileData":null,"text":"x"}]}]}',
        'fileData',
      ],
    ]
    for (const [path, body, name] of bodies)
      expect(await never(path, body)).toMatchObject({
        status: 400,
        message: expect.stringContaining(`'${name}' twice`),
      })
  })

  test("a provider's id is refused where no file is allowed", async () => {
    const chat = (part: object): string =>
      JSON.stringify({ model: 'own-chat/metered', messages: [{ role: 'user', content: [part] }] })
    const bodies: [path: string, body: string, param: string][] = [
      ['/v1/chat/completions', chat({ type: 'input_file', file_id: 'file-evil' }), 'messages[0].content[0].file_id'],
      [
        '/v1/chat/completions',
        chat({ type: 'image_file', image_file: { file_id: 'file-evil' } }),
        'messages[0].content[0].image_file.file_id',
      ],
      [
        '/v1/responses',
        JSON.stringify({ model: 'own-responses/metered', input: [{ type: 'input_file', file_id: 'file-evil' }] }),
        'input[0].file_id',
      ],
      [
        '/v1/messages',
        JSON.stringify({
          model: 'own-messages/metered',
          max_tokens: 1,
          messages: [
            {
              role: 'user',
              content: [
                {
                  type: 'document',
                  source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=', file_id: 'file-evil' },
                },
              ],
            },
          ],
        }),
        'messages[0].content[0].source.file_id',
      ],
    ]
    for (const [path, body, param] of bodies) expect(await never(path, body)).toMatchObject({ status: 404, param })
  })
})

ofSqlite('files')('every request returns its share of the media memory, however it ends', async () => {
  const id = await upload(PNG, 'a.png')
  // Three of these fill the media memory, by the size in their row.
  await sqlIn(gateway.data, 'UPDATE files SET bytes = ? WHERE id = ?', 60 * 2 ** 20, id)
  const part = PARTS.generateContent.file(id, 'image')
  const ask = (script: string, stream: boolean, more: object = {}, signal?: AbortSignal): Promise<Response> =>
    fetch(
      `${gateway.url}/v1beta/models/google/${script}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: JSON.stringify({ contents: [{ parts: [part] }], ...more }),
        ...(signal === undefined ? {} : { signal }),
      },
    )
  const ends: [string, number, () => Promise<Response>][] = [
    ['whole', 200, () => ask('metered', false)],
    ['streamed', 200, () => ask('metered', true)],
    ['broken off', 200, () => ask('resets-midway', true)],
    ['in pieces', 502, () => ask('half', false)],
    ['refused', 400, () => ask('refuses-400', false)],
    ['failed', 502, () => ask('resets', true)],
    ['wrong', 400, () => ask('metered', false, { generationConfig: { candidateCount: 0 } })],
    [
      'counted',
      200,
      () =>
        fetch(`${gateway.url}/v1beta/models/google/metered:countTokens`, {
          method: 'POST',
          headers: { authorization: `Bearer ${gateway.key}` },
          body: JSON.stringify({ contents: [{ parts: [part] }] }),
        }),
    ],
  ]
  for (const [how, status, one] of ends) {
    for (let times = 0; times < 4; times++) {
      const response = await one()
      await response.text().catch(() => '')
      expect([how, response.status]).toEqual([how, status])
    }
  }
  const leaving = new AbortController()
  const before = provider.requests.length
  const held = [1, 2, 3].map(() => ask('silent', true, {}, leaving.signal).catch(() => undefined))
  await until(() => provider.requests.length === before + 3)
  const full = await ask('metered', false)
  expect([full.status, full.headers.get('retry-after')]).toEqual([503, '1'])
  leaving.abort()
  await Promise.all(held)
  // The gateway reads the change a little later.
  for (let tries = 0; tries < 100 && (await ask('metered', false)).status === 503; tries++) await Bun.sleep(50)
  for (let times = 0; times < 4; times++) expect((await ask('metered', false)).status).toBe(200)
})

describe('URLs', () => {
  const answer = async (part: object, destination: Destination): Promise<string> => {
    const before = provider.requests.length
    const response = await send(part, destination)
    if (response.status !== 200) {
      const { status, message, param } = await refusal(response)
      expect(provider.requests.length).toBe(before)
      return `${status} ${param} ${message}`
    }
    await response.text()
    return received().text.includes(`127.0.0.1:${site.port}`) ? 'passed on' : mediaIn(received().body).join()
  }

  for (const protocol of PROTOCOLS) {
    once.each(['image', 'file'] as const)(
      `${protocol}: a URL of a media type (%s) is passed on, fetched or refused`,
      async (kind) => {
        const part = PARTS[protocol].url(`http://127.0.0.1:${site.port}/a.${kind === 'image' ? 'png' : 'pdf'}`, kind)
        const id = idOf(protocol)
        const param = PARTS[protocol].param('url', kind)
        expect(await answer(part, { protocol, model: `${id}-fetching/metered` })).toBe('passed on')
        expect(await answer(part, { protocol, model: `${id}-fetching/metered`, at: fetching })).toBe('passed on')
        expect(await answer(part, { protocol, model: `${id}-default/metered` })).toBe('passed on')
        expect(
          await answer(PARTS[protocol].url('http://169.254.169.254/a', kind), {
            protocol,
            model: `${id}-default/metered`,
          }),
        ).toStartWith(`400 ${param} ${param}: must be a public`)
        expect(await answer(part, { protocol, model: `${id}-default/metered`, at: fetching })).toBe(
          kind === 'image' ? inline('image/png', PNG) : inline('application/pdf', PDF),
        )
        expect(await answer(part, { protocol, model: `${id}/metered`, at: fetching })).toBe(
          kind === 'image' ? inline('image/png', PNG) : inline('application/pdf', PDF),
        )
        expect(await answer(part, { protocol, model: `${id}/metered` })).toMatch(
          new RegExp(`^400 ${param.replace(/[[\].]/g, '\\$&')} .*does not fetch URLs.*fetch\\.requestUrls`),
        )
      },
    )

    once(`${protocol}: fetched content is checked, and a failed fetch is refused with its path`, async () => {
      const param = PARTS[protocol].param('url', 'image')
      const ask = (url: string): Promise<string> =>
        answer(PARTS[protocol].url(url, 'image'), { protocol, model: `${idOf(protocol)}/metered`, at: fetching })
      expect(await ask(`http://127.0.0.1:${site.port}/page`)).toStartWith(`400 ${param} ${param}: is text/html`)
      expect(await ask(`http://127.0.0.1:${site.port}/empty`)).toStartWith(`400 ${param} ${param}: is empty`)
      expect(await ask(`http://127.0.0.1:${site.port}/none`)).toStartWith(`400 ${param} ${param}: `)
      for (const url of [
        'http://127.0.0.1:1/',
        'http://169.254.169.254/latest',
        'http://localhost/',
        'http://user:pass@example.com/',
        'ftp://example.com/a.png',
        'file:///etc/passwd',
        'http://[::1]/',
      ])
        expect(await ask(url)).toStartWith(`400 ${param} ${param}: `)
    })

    once(`${protocol}: Google's own URIs are sent to generateContent providers only`, async () => {
      for (const url of ['gs://bucket/a.png', 'https://www.youtube.com/watch?v=x', 'https://youtu.be/x']) {
        const part = PARTS[protocol].url(url, 'image')
        for (const at of [gateway, fetching]) {
          const response = await send(part, { protocol, model: 'own-gemini/metered', at })
          expect(response.status, await response.text()).toBe(200)
          expect(received().text).toContain(url)
          expect(await answer(part, { protocol, model: 'own-chat/metered', at })).toMatch(/^400 .*generateContent/)
        }
      }
    })
  }

  for (const protocol of PROTOCOLS)
    once(`${protocol}: gs:// objects are named only below the buckets that the operator lists`, async () => {
      const ask = async (url: string, model = 'own-gemini/metered'): Promise<string> => {
        const response = await send(PARTS[protocol].url(url, 'image'), { protocol, model })
        return `${response.status} ${await response.text()}`
      }
      for (const url of ['gs://bucket/a.png', 'GS://bucket/b/c.png', 'gs://shared/public/a.png']) {
        expect(await ask(url)).toStartWith('200 ')
        expect(received().text).toContain(url)
      }
      const sent = provider.requests.length
      for (const url of [
        'gs://bucket-2/a.png',
        'gs://other/a.png',
        'gs://shared/a.png',
        'gs://shared/publicity.png',
        'gs://shared/public/../a.png',
        'gs://BUCKET/a.png',
      ])
        expect(await ask(url)).toMatch(/^403 .*providers\.<id>\.buckets/)
      for (const model of ['own-gemini-default/metered', 'own-gemini-shared/metered', 'google/metered'])
        expect(await ask('gs://bucket/a.png', model)).toMatch(/^403 .*providers\.<id>\.buckets/)
      expect(provider.requests.length).toBe(sent)
    })

  once('gs:// objects are found wherever a request may name a file', async () => {
    const other = 'gs://other/a.png'
    const path = '/v1beta/models/own-gemini/metered'
    const part = { file_data: { file_uri: other, mime_type: 'image/png' } }
    const text = { role: 'user', parts: [{ text: 'Look' }] }
    const bodies: [method: string, body: object, param: string][] = [
      ['generateContent', { contents: [{ parts: [part] }] }, 'contents[0].parts[0].file_data.file_uri'],
      [
        'generateContent',
        { contents: [{ parts: [{ functionResponse: { name: 'f', response: {}, parts: [part] } }] }] },
        'contents[0].parts[0].functionResponse.parts[0].file_data.file_uri',
      ],
      [
        'generateContent',
        { contents: [text], system_instruction: { parts: [part] } },
        'system_instruction.parts[0].file_data.file_uri',
      ],
      [
        'countTokens',
        { generateContentRequest: { contents: [{ parts: [part] }] } },
        'contents[0].parts[0].file_data.file_uri',
      ],
    ]
    for (const [method, body, param] of bodies)
      expect(await never(`${path}:${method}`, JSON.stringify(body))).toMatchObject({ status: 403, param })
    const result = { type: 'tool_result', tool_use_id: 't', content: [PARTS.messages.url(other, 'image')] }
    expect(
      await never(
        '/v1/messages',
        JSON.stringify({
          model: 'own-gemini/metered',
          max_tokens: 1,
          messages: [{ role: 'user', content: [result] }],
        }),
      ),
    ).toMatchObject({ status: 403, param: 'messages[0].content[0].content[0].source.url' })
  })

  once('a count of tokens has one request to count, under either name of its member', async () => {
    const path = '/v1beta/models/own-gemini/metered:countTokens'
    const request = (fileUri: string): object => ({ contents: [{ parts: [{ fileData: { fileUri } }] }] })
    for (const name of ['generateContentRequest', 'generate_content_request'])
      expect(await never(path, JSON.stringify({ [name]: request('files/evil') }))).toMatchObject({ status: 404 })
    for (const body of [
      { ...request('files/evil'), generateContentRequest: request('gs://bucket/a') },
      { ...request('gs://bucket/a'), generate_content_request: request('files/evil') },
      { generateContentRequest: request('gs://bucket/a'), generate_content_request: request('files/evil') },
    ])
      expect(await never(path, JSON.stringify(body))).toMatchObject({ status: 400 })
  })

  once('an endpoint that does not accept URLs is skipped', async () => {
    const part = PARTS['chat.completions'].url(`http://127.0.0.1:${site.port}/a.png`, 'image')
    const response = await send(part, { protocol: 'chat.completions', model: 'both' })
    expect([
      response.status,
      response.headers.get('x-sluice-provider'),
      response.headers.get('x-sluice-attempts'),
    ]).toEqual([200, 'own-chat-fetching', '1'])
    await response.text()
  })

  once('slow fetches of one account do not delay those of other accounts', async () => {
    const part = (path: string): object => ({
      type: 'image_url',
      image_url: { url: `http://127.0.0.1:${site.port}/${path}` },
    })
    const leaving = new AbortController()
    const body = JSON.stringify({
      model: 'own-chat/metered',
      messages: [{ role: 'user', content: Array.from({ length: 20 }, () => part('slow')) }],
    })
    const waits = fetch(`${fetching.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${fetching.key}` },
      body,
      signal: leaving.signal,
    }).catch(() => undefined)
    await until(() => slow > 0)
    const response = await send(part('a.png'), {
      protocol: 'chat.completions',
      model: 'own-chat/metered',
      key: KEY_OF_ANOTHER,
      at: fetching,
    })
    expect(response.status, await response.text()).toBe(200)
    leaving.abort()
    await waits
  })

  once('many URLs are fetched; one that fails, or too many, refuse the request', async () => {
    const parts = (count: number, last = 'a.png'): object[] =>
      Array.from({ length: count }, (_, index) => ({
        type: 'image_url',
        image_url: { url: `http://127.0.0.1:${site.port}/${index === count - 1 ? last : 'a.png'}` },
      }))
    const ask = (content: object[]): Promise<Response> =>
      fetch(`${fetching.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${fetching.key}` },
        body: JSON.stringify({ model: 'own-chat/metered', messages: [{ role: 'user', content }] }),
      })
    expect((await ask(parts(40))).status).toBe(200)
    expect(mediaIn(received().body)).toEqual(Array.from({ length: 40 }, () => inline('image/png', PNG)))
    expect(await refusal(await ask(parts(40, 'none')))).toMatchObject({
      status: 400,
      param: 'messages[0].content[39].image_url.url',
    })
    expect(await refusal(await ask(parts(101)))).toMatchObject({
      status: 400,
      param: 'messages[0].content[100].image_url.url',
      message: expect.stringContaining('100 are the most'),
    })
  })
})

let other: Promise<string> | undefined

/** A key of another account. */
const otherKey = (): Promise<string> => (other ??= makeOther())

async function makeOther(): Promise<string> {
  const options = await withStoreOption(['--data', gateway.data, '--json'])
  const sluice = (...words: string[]) => Bun.spawnSync([program(), ...words, ...options])
  sluice('accounts', 'create', 'other')
  const { text } = JSON.parse(sluice('keys', 'create', '--account', 'other').stdout.toString()) as { text: string }
  // The server reads changes of another process within two seconds.
  const isKnown = async (): Promise<boolean> =>
    (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${text}` } })).status === 200
  while (!(await isKnown())) await Bun.sleep(50)
  return text
}

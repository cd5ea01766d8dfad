import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { canaries, type Canaries } from '../transport/canary.ts'
import { LOCAL_HOSTS, LOCAL_URLS } from '../transport/local-hosts.ts'
import { rawServer, type RawServer } from '../transport/raw-server.ts'
import { gatedConfig, gatedProvider, type Gated } from './gated.ts'

/**
 * No URL of a client or a provider makes the server connect to private addresses. Every field with a URL is tried with
 * a list of hosts, some of which have listeners that must not be reached.
 */

const KEY = 'sk-ai-v1-outsideoutsideoutside1'
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg==',
  'base64',
)
const PDF = Buffer.from(
  '%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Count 0/Kids[]>>endobj\n' +
    'trailer<</Root 1 0 R>>\n%%EOF\n',
)

let canary: Canaries
let provider: Gated
/**
 * A site that represents the internet: exempt by host and port, it serves an image and a PDF, and redirects /to/URL to
 * that URL.
 */
let site: RawServer
/** A provider of images whose responses have the URL `painted`. */
let painter: ReturnType<typeof Bun.serve>
let painted = ''
let gateway: Gateway

beforeAll(async () => {
  canary = canaries()
  provider = gatedProvider()
  provider.open()
  site = rawServer((socket, request) => {
    const to = decodeURIComponent(/^GET \/to\/(\S+)/.exec(request)?.[1] ?? '')
    if (to !== '') socket.end(`HTTP/1.1 302 Found\r\nlocation: ${to}\r\ncontent-length: 0\r\n\r\n`)
    else {
      const bytes = request.startsWith('GET /pdf') ? PDF : PNG
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n\r\n`)
      socket.end(bytes)
    }
  })
  painter = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => Response.json({ created: 1, data: [{ url: painted }] }),
  })
  const baseUrl = `http://127.0.0.1:${painter.port}/v1`
  const config = gatedConfig({ plain: provider })
    .replace(
      /^providers: \{/m,
      `providers: { painter: { protocol: images, baseUrl: "${baseUrl}", apiKey: none, unlisted: true },`,
    )
    .replace(
      /^models: \{/m,
      'models: { painter/image: { endpoints: [{ provider: painter, model: m }], price: { image: 0.0001 } },',
    )
  gateway = await startGateway({
    config: `${config}keys: [{ key: "${KEY}" }]\nfetch: { requestUrls: true, private: ["127.0.0.1:${site.port}"] }\n`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop()
  await painter?.stop(true)
  site?.stop()
  canary?.stop()
})

/** A field with a URL: its request, and its path in an error. */
type Field = { path: string; param: string; body(url: string): object; headers?: Record<string, string> }

const chat = (param: string, part: (url: string) => object): Field => ({
  path: '/v1/chat/completions',
  param,
  body: (url) => ({
    model: 'plain/chat.completions',
    max_tokens: 9,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, part(url)] }],
  }),
})
const responses = (param: string, part: (url: string) => object): Field => ({
  path: '/v1/responses',
  param,
  body: (url) => ({
    model: 'plain/responses',
    max_output_tokens: 16,
    store: false,
    input: [{ role: 'user', content: [part(url)] }],
  }),
})
const messages = (param: string, block: (url: string) => object): Field => ({
  path: '/v1/messages',
  param,
  body: (url) => ({
    model: 'plain/messages',
    max_tokens: 9,
    messages: [{ role: 'user', content: [block(url), { type: 'text', text: 'What is this?' }] }],
  }),
})

const FIELDS: Record<string, Field> = {
  'chat image_url': chat('messages[0].content[1].image_url.url', (url) => ({ type: 'image_url', image_url: { url } })),
  'chat file': chat('messages[0].content[1].file.file_data', (url) => ({
    type: 'file',
    file: { filename: 'x.pdf', file_data: url },
  })),
  'responses input_image': responses('input[0].content[0].image_url', (image_url) => ({
    type: 'input_image',
    image_url,
    detail: 'auto',
  })),
  'responses input_file': responses('input[0].content[0].file_url', (file_url) => ({ type: 'input_file', file_url })),
  'responses mask of the image tool': {
    path: '/v1/responses',
    param: 'tools[0].input_image_mask.image_url',
    body: (image_url) => ({
      model: 'plain/responses',
      max_output_tokens: 16,
      store: false,
      input: 'Draw',
      tools: [{ type: 'image_generation', input_image_mask: { image_url } }],
    }),
  },
  'responses output of a tool': {
    path: '/v1/responses',
    param: 'input[1].output[0].image_url',
    body: (image_url) => ({
      model: 'plain/responses',
      max_output_tokens: 16,
      store: false,
      input: [
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url, detail: 'auto' }] },
      ],
    }),
  },
  'messages image': messages('messages[0].content[0].source.url', (url) => ({
    type: 'image',
    source: { type: 'url', url },
  })),
  'messages document': messages('messages[0].content[0].source.url', (url) => ({
    type: 'document',
    source: { type: 'url', url },
  })),
  'messages image in the result of a tool': {
    path: '/v1/messages',
    param: 'messages[2].content[0].content[0].source.url',
    body: (url) => ({
      model: 'plain/messages',
      max_tokens: 9,
      messages: [
        { role: 'user', content: 'Look' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source: { type: 'url', url } }] },
          ],
        },
      ],
      tools: [{ name: 'f', input_schema: { type: 'object' } }],
    }),
  },
  'generateContent fileUri': {
    path: '/v1beta/models/plain/generateContent:generateContent',
    param: 'contents[0].parts[0].fileData.fileUri',
    body: (fileUri) => ({
      contents: [
        { role: 'user', parts: [{ fileData: { fileUri, mimeType: 'image/png' } }, { text: 'What is this?' }] },
      ],
      generationConfig: { maxOutputTokens: 9 },
    }),
  },
}

const PREDICTIONS: Record<string, Field> = {
  'prediction webhook': {
    path: '/v1/predictions',
    param: 'webhook',
    body: (webhook) => ({ model: 'plain/chat.completions', input: { prompt: 'Hello' }, webhook }),
  },
}

const post = (path: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })

/** URLs of every kind, with the allowed port and with the ports of the listeners. */
const urls = (): string[] => [
  ...LOCAL_HOSTS.map(
    (host, index) =>
      [
        `http://${host}/`,
        `https://${host}/x.png`,
        `http://${host}:${canary.ports.v4}/`,
        `http://${host}:${canary.ports.v6}/`,
      ][index % 4]!,
  ),
  ...LOCAL_URLS.filter((url) => /^[a-z][\w+.-]*:/i.test(url) && !url.startsWith('data:')).map((url) =>
    url.replace('PORT', String(canary.ports.v4)),
  ),
  ...[
    '127.0.0.1',
    '[::1]',
    'localhost',
    '2130706433',
    '0x7f.1',
    '[::ffff:7f00:1]',
    '169.254.169.254',
    'metadata.google.internal',
  ].map((host) => `http://127.0.0.1:${site.port}/to/${encodeURIComponent(`http://${host}/`)}`),
  ...[canary.ports.v4, 80, 443].map(
    (port) => `http://127.0.0.1:${site.port}/to/${encodeURIComponent(`http://127.0.0.1:${port}/`)}`,
  ),
]

const ADDRESS = /\d+\.\d+\.\d+\.\d+|\[?[\da-f]*:[\da-f]*:|localhost|internal/i

/** Reads a refusal, which must not contain an address. */
async function refusal(response: Response): Promise<{ status: number; message: string }> {
  const text = await response.text()
  const { error } = JSON.parse(text) as { error?: { message: string } }
  if (error === undefined) throw new Error(`not refused: ${response.status} ${text.slice(0, 200)}`)
  expect(error.message).not.toMatch(ADDRESS)
  return { status: response.status, message: error.message }
}

/** Visits the items with a concurrency of 8. */
async function each<T>(items: readonly T[], visit: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items]
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let item = rest.pop(); item !== undefined; item = rest.pop()) await visit(item)
    }),
  )
}

describe.each(Object.entries(FIELDS))('%s', (name, { path, param, body }) => {
  test('a URL of an exempt host is fetched', async () => {
    const seen = { provider: provider.begun, site: site.requests.length }
    const response = await post(
      path,
      body(`http://127.0.0.1:${site.port}/${/file$|document$/.test(name) ? 'pdf' : 'image'}`),
    )
    expect(
      [response.status, provider.begun - seen.provider, site.requests.length - seen.site],
      await response.text(),
    ).toEqual([200, 1, 1])
  })

  test('a URL to a private address is not fetched, and the error reveals only that the URL is wrong', async () => {
    const seen = provider.begun
    await each(urls(), async (url) => {
      const { status, message } = await refusal(await post(path, body(url)))
      expect([url, status]).toEqual([url, 400])
      expect(message).toStartWith(`${param}: `)
    })
    expect(canary.reached).toEqual([])
    expect(provider.begun).toBe(seen)
  })
})

describe.each(Object.entries(PREDICTIONS))('%s', (_, { path, param, body }) => {
  test('a webhook to a private address is refused when the prediction is created', async () => {
    const seen = provider.begun
    await each(
      urls().filter((url) => !url.includes('/to/')),
      async (url) => {
        const { status, message } = await refusal(await post(path, body(url)))
        expect([url, status]).toEqual([url, 400])
        expect(message).toStartWith(`${param}: `)
      },
    )
    expect(canary.reached).toEqual([])
    expect(provider.begun).toBe(seen)
  })
})

test('a URL in the input of a prediction is passed to its provider and not fetched here', async () => {
  const input = (url: string): object => ({
    prompt: url,
    image: url,
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
  })
  await each(urls(), async (url) => {
    const response = await post(
      '/v1/predictions',
      { model: 'plain/chat.completions', input: input(url) },
      { prefer: 'wait=30' },
    )
    const { error } = (await response.json()) as { error?: string | { message: string } | null }
    expect([url, response.status === 400 || response.status === 201 || response.status === 200]).toEqual([url, true])
    if (typeof error === 'string' || error?.message !== undefined)
      expect(typeof error === 'string' ? error : error.message).not.toMatch(ADDRESS)
  })
  expect(canary.reached).toEqual([])
  expect(site.requests.filter((request) => !request.startsWith('GET '))).toEqual([])
})

test('a webhook that redirects is not followed', async () => {
  const webhook = `http://127.0.0.1:${site.port}/to/${encodeURIComponent(`http://127.0.0.1:${canary.ports.v4}/`)}`
  const seen = site.requests.length
  const response = await post(
    '/v1/predictions',
    { model: 'plain/chat.completions', input: { prompt: 'Hello' }, webhook, webhook_events_filter: ['completed'] },
    { prefer: 'wait=30' },
  )
  expect(response.status, await response.text()).toBeLessThan(300)
  for (let tries = 0; site.requests.length === seen && tries < 500; tries++) await Bun.sleep(10)
  expect(site.requests.length).toBe(seen + 1)
  expect(canary.reached).toEqual([])
})

test('an image URL of a provider that points to a private address is not fetched', async () => {
  for (const url of urls()) {
    painted = url
    const { status } = await refusal(await post('/v1/images/generations', { model: 'painter/image', prompt: 'A boat' }))
    expect([url, status]).toEqual([url, 502])
  }
  expect(canary.reached).toEqual([])
})

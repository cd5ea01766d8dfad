import { Glob } from 'bun'
import { beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import type { ConversationName } from '../../src/generation/request.ts'
import { until } from '../transport/raw-server.ts'
import { PROTOCOLS } from './asking.ts'
import { ofSqlite, ON_POSTGRES, sqlIn, storeOf } from '../stores.ts'
import {
  gateway,
  idOf,
  inline,
  KEY_OF_ANOTHER,
  mediaIn,
  PARTS,
  PDF,
  PNG,
  provider,
  received,
  refusal,
  send,
  TXT,
  upload,
  useMediaGateway,
  ZIP,
  type Kind,
} from './media-gateway.ts'

useMediaGateway()

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
      const native = await upload(PNG, 'a.png', KEY_OF_ANOTHER)
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

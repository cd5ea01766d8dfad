import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

const KEY = 'correct-horse-battery-staple'
const PROTOCOLS = ['chat.completions', 'responses', 'messages', 'generateContent', 'images'] as const

const upstream = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch(request) {
    const status = Number(new URL(request.url).pathname.split('/')[1])
    const message = `The key ${KEY} has no right`
    if (status !== 200)
      return Response.json(
        { type: 'error', error: { type: 'x', code: status, message, status: 'PERMISSION_DENIED' } },
        { status },
      )
    const error = JSON.stringify({ type: 'error', error: { type: 'api_error', code: 500, message } })
    return new Response(`event: error\ndata: ${error}\n\n`, { headers: { 'content-type': 'text/event-stream' } })
  },
})
const refusing = (status: number): string =>
  PROTOCOLS.map(
    (protocol) =>
      `  ${protocol.replace('.', '-').toLowerCase()}-${status}: { name: Acme, protocol: ${protocol}, ` +
      `baseUrl: "${upstream.url.origin}/${status}", apiKey: ${KEY} }`,
  ).join('\n')

let gateway: Gateway
beforeAll(async () => {
  const pooled =
    `  pooled: { protocol: messages, baseUrl: "${upstream.url.origin}/500", ` +
    `apiKeys: [{ name: key-1, key: ${KEY} }, { name: key-2, key: ${KEY}-2 }] }`
  gateway = await startGateway({
    config: `providers:\n${[200, 401, 402, 403].map(refusing).join('\n')}\n${pooled}\n`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstream.stop(true)
})

const send = (path: string, body: object): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const messages = [{ role: 'user', content: 'Hi' }]
const asked: Record<string, (model: string, stream: boolean) => Promise<Response>> = {
  'chat.completions': (model, stream) => send('/v1/chat/completions', { model, stream, messages }),
  responses: (model, stream) => send('/v1/responses', { model, stream, input: 'Hi' }),
  messages: (model, stream) => send('/v1/messages', { model, stream, max_tokens: 10, messages }),
  generateContent: (model, stream) =>
    send(`/v1/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`, {
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    }),
  images: (model, stream) => send('/v1/images/generations', { model, stream, prompt: 'A cat' }),
}
const providerOf = (protocol: string, status: number): string =>
  `${protocol.replace('.', '-').toLowerCase()}-${status}/m`

for (const status of [401, 402, 403])
  describe(`a ${status} of a provider is a 502 that names it`, () => {
    for (const client of PROTOCOLS)
      for (const provider of PROTOCOLS) {
        if ((provider === 'images') !== (client === 'images')) continue
        test(`${client} -> ${provider}`, async () => {
          const answer = await asked[client]!(providerOf(provider, status), false)
          const text = await answer.text()
          expect([answer.status, text]).toEqual([502, expect.stringContaining("Acme refused Sluice's credentials")])
          expect(text).not.toContain(KEY)
        })
      }
  })

describe('several keys of a provider', () => {
  const record = async (id: string): Promise<Record<string, unknown>> =>
    (await (
      await fetch(`${gateway.url}/v1/generation?id=${id}`, { headers: { authorization: `Bearer ${gateway.key}` } })
    ).json()) as Record<string, unknown>

  test('the record names the keys that were used, and nothing has their texts', async () => {
    const answer = await send('/v1/messages', { model: 'pooled/m', max_tokens: 10, messages })
    const text = await answer.text()
    expect([answer.status, answer.headers.get('x-sluice-provider')]).toEqual([500, 'pooled'])
    const data = await record(answer.headers.get('x-generation-id')!)
    // The first one is drawn.
    const used = (data.attempts as Record<string, unknown>[]).map(
      ({ provider, credential }) => `${provider}/${credential}`,
    )
    expect(used.sort()).toEqual(['pooled/key-1', 'pooled/key-2'])
    expect(JSON.stringify([...answer.headers]) + text + JSON.stringify(data)).not.toContain(KEY)
  })
})

describe('a configured key is hidden in an error within a stream', () => {
  for (const client of PROTOCOLS)
    for (const provider of PROTOCOLS)
      if ((provider === 'images') === (client === 'images'))
        test(`${client} -> ${provider}`, async () => {
          const text = await (await asked[client]!(providerOf(provider, 200), true)).text()
          expect(text).toContain('The key [hidden] has no right')
          expect(text).not.toContain(KEY)
        })
})

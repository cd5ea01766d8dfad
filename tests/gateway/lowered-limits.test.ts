import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { rawServer, until, type RawServer } from '../transport/raw-server.ts'
import { PROTOCOLS } from './asking.ts'
import { RESPONSE_PIECES } from './scripted.ts'
import type { ConversationName } from '../../src/generation/request.ts'

/** Answers in one piece whose output limit is more than the account can pay for. */

/** Clients of each protocol reach their own and one that is translated to. */
const OTHER: Record<ConversationName, ConversationName> = {
  'chat.completions': 'messages',
  messages: 'generateContent',
  generateContent: 'responses',
  responses: 'chat.completions',
}
const LIMIT = /"(max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens)":(\d+)/

let provider: RawServer
let gateway: Gateway
beforeAll(async () => {
  provider = rawServer((socket, request) => {
    const protocol = PROTOCOLS.find((one) => request.includes(`"up-${one}"`) || request.includes(`/up-${one}:`))!
    const body = JSON.stringify(RESPONSE_PIECES[protocol].whole({ prompt: 10, completion: 5 }))
    const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n'
    socket.end(`${head}content-length: ${body.length}\r\n\r\n${body}`)
  })
  gateway = await startGateway({
    config: [
      // 0.1 USD pay for 10,000 tokens of output.
      'billing: { unpriced: refuse, startingCredit: 0.1 }',
      `providers: ${JSON.stringify(
        Object.fromEntries(
          PROTOCOLS.map((protocol) => [`p-${protocol.toLowerCase()}`, { protocol, baseUrl: `${provider.url}/v1` }]),
        ),
      )}`,
      `models: ${JSON.stringify({
        ...Object.fromEntries(
          PROTOCOLS.map((protocol) => [
            `to-${protocol}`,
            {
              endpoints: [{ provider: `p-${protocol.toLowerCase()}`, model: `up-${protocol}` }],
              price: { completion: 10 },
              capabilities: { maxOutputTokens: 128_000 },
            },
          ]),
        ),
        // One whose output limit is not known.
        'to-unknown': { endpoints: [{ provider: 'p-messages', model: 'up-messages' }], price: { completion: 10 } },
      })}\n`,
    ].join('\n'),
  })
})
afterAll(async () => {
  await gateway?.stop()
  provider?.stop()
})

type Asked = {
  client: ConversationName
  to: ConversationName
  model?: string
  limit?: number
  /** The name of the limit, in chat completions. */
  name?: string
  stream?: boolean
  strict?: boolean
  /** Members added to the body. */
  more?: object
}
function ask({
  client,
  to,
  model = `to-${to}`,
  limit,
  name = 'max_tokens',
  stream = false,
  strict = false,
  more = {},
}: Asked): Promise<Response> {
  const messages = [{ role: 'user', content: 'Hello' }]
  const [path, body] = {
    'chat.completions': ['/v1/chat/completions', { model, stream, [name]: limit, messages }],
    responses: ['/v1/responses', { model, stream, max_output_tokens: limit, input: 'Hello', store: false }],
    messages: ['/v1/messages', { model, stream, max_tokens: limit, messages }],
    generateContent: [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent' : 'generateContent'}`,
      {
        contents: [{ role: 'user', parts: [{ text: 'Hello' }] }],
        ...(limit === undefined ? {} : { generationConfig: { maxOutputTokens: limit } }),
      },
    ],
  }[client] as [string, object]
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, ...(strict ? { 'x-sluice-strict': 'true' } : {}) },
    body: JSON.stringify({ ...body, ...more }),
  })
}

/** The output limit in the last request that the provider received. */
const sentLimit = (): number => Number(LIMIT.exec(provider.requests.at(-1)!)![2])

describe('a whole answer whose output limit cannot be paid', () => {
  for (const client of PROTOCOLS)
    for (const to of [client, OTHER[client]])
      test(`gets the largest limit that can be, and a report: ${client} over ${to}`, async () => {
        const before = provider.requests.length
        const response = await ask({ client, to, limit: 100_000 })
        expect(response.status, await response.clone().text()).toBe(200)
        await until(() => provider.requests.length > before)
        expect(sentLimit()).toBeWithin(9_000, 10_001)
        const losses = JSON.parse(response.headers.get('x-sluice-translation')!) as object[]
        expect(losses).toContainEqual({
          code: 'limit_lowered',
          path: expect.stringMatching(/max/),
          effect: 'approximated',
          reason: `lowered to ${sentLimit().toLocaleString('en')}: balance`,
        })
      })

  test('gets it also where it has no limit of its own', async () => {
    for (const client of PROTOCOLS.filter((one) => one !== 'messages')) {
      const response = await ask({ client, to: client })
      expect([client, response.status]).toEqual([client, 200])
      expect(sentLimit()).toBeWithin(9_000, 10_001)
    }
  })

  test('gets a lower limit than the one that is chosen where its provider requires one', async () => {
    const response = await ask({ client: 'chat.completions', to: 'messages', model: 'to-unknown' })
    expect(response.status).toBe(200)
    expect(sentLimit()).toBeWithin(9_000, 10_001)
    const losses = JSON.parse(response.headers.get('x-sluice-translation')!) as { code: string }[]
    expect(losses.map(({ code }) => code)).toEqual(['limit_required', 'limit_lowered'])
  })

  test('gets a report that names the limit as its client wrote it', async () => {
    for (const name of ['max_tokens', 'max_completion_tokens']) {
      const response = await ask({ client: 'chat.completions', to: 'chat.completions', limit: 100_000, name })
      expect(response.headers.get('x-sluice-translation')).toContain(`"path":"${name}"`)
      expect(sentLimit()).toBeWithin(9_000, 10_001)
    }
  })

  test('is refused where its client accepts no loss, and so is a stream', async () => {
    for (const stream of [false, true])
      expect((await ask({ client: 'messages', to: 'messages', limit: 100_000, strict: true, stream })).status).toBe(402)
  })

  test.each([
    [
      'messages',
      'it has a budget of reasoning below its limit',
      { thinking: { type: 'enabled', budget_tokens: 50_000 } },
    ],
    ['chat.completions', 'it requires every parameter', { provider: { require_parameters: true } }],
  ] as const)('is refused to a client of %s where %s', async (client, _, more) => {
    const before = provider.requests.length
    const asked = { client, to: client, limit: 100_000, more }
    expect([(await ask(asked)).status, provider.requests.length]).toEqual([402, before])
    expect((await ask({ ...asked, limit: 1_000, more: {} })).status).toBe(200)
  })

  test('keeps a limit that can be paid', async () => {
    const response = await ask({ client: 'messages', to: 'messages', limit: 5_000 })
    expect([response.status, sentLimit(), response.headers.get('x-sluice-translation')]).toEqual([200, 5_000, null])
  })
})

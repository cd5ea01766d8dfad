import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { startGateway, type Gateway } from '../server.ts'
import { COUNTED, framed, RESPONSE_PIECES } from './scripted.ts'

/** Requests without an output limit to a provider that requires one, for models whose own is not known. */

type Body = { model: string; max_tokens: number; stream?: boolean; thinking?: { budget_tokens: number } }
const bodies: Body[] = []

/** The limit of each of the provider's models. */
const LIMITS: Record<string, number> = { large: 200_000, small: 8_192, tiny: 4_096 }

const refusal = (message: string): Response =>
  Response.json({ type: 'error', error: { type: 'invalid_request_error', message } }, { status: 400 })

const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const body = (await request.json()) as Body
    bodies.push(body)
    const { model, max_tokens: limit, stream, thinking } = body
    const most = LIMITS[model]
    if (most === undefined) return refusal(`max_tokens: ${limit} is refused by ${model}`)
    if (limit > most) return refusal(`max_tokens: ${limit} > ${most}, which is the maximum allowed for ${model}`)
    if (thinking !== undefined && thinking.budget_tokens >= limit)
      return refusal('`max_tokens` must be greater than `thinking.budget_tokens`')
    const pieces = RESPONSE_PIECES.messages
    if (stream !== true) return Response.json(pieces.whole(COUNTED))
    const frames = [...pieces.begin(COUNTED), ...pieces.end(COUNTED), ...pieces.last(COUNTED)]
    return new Response(framed(frames), { headers: { 'content-type': 'text/event-stream' } })
  },
})

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: `providers: { terse: { protocol: messages, baseUrl: "http://127.0.0.1:${provider.port}/v1" } }\n`,
  })
})
beforeEach(() => void bodies.splice(0))
afterAll(async () => {
  await gateway?.stop()
  await provider.stop(true)
})

function ask(client: ConversationName, name: string, stream: boolean, more: object = {}): Promise<Response> {
  const model = `terse/${name}`
  const [path, body] = {
    'chat.completions': ['/v1/chat/completions', { model, stream, messages: [{ role: 'user', content: 'Hello' }] }],
    responses: ['/v1/responses', { model, stream, input: 'Hello', store: false }],
    generateContent: [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
    ],
  }[client as 'responses'] as [string, object]
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ ...body, ...more }),
  })
}

const lossesOf = (response: Response): string[] =>
  (JSON.parse(response.headers.get('x-sluice-translation')!) as { code: string; reason: string }[]).map(
    ({ code, reason }) => `${code}: ${reason}`,
  )
const limits = (): number[] => bodies.map(({ max_tokens }) => max_tokens)

describe('a model whose output limit is not known', () => {
  for (const client of ['chat.completions', 'responses', 'generateContent'] as const)
    for (const stream of [false, true])
      test(`has room for the turn of an agent: ${client}${stream ? ', streamed' : ''}`, async () => {
        const response = await ask(client, 'large', stream)
        expect([response.status, limits()]).toEqual([200, [32_768]])
        await response.text()
      })

  for (const client of ['chat.completions', 'responses', 'generateContent'] as const)
    for (const stream of [false, true])
      test(`is asked again with the limit that is named: ${client}${stream ? ', streamed' : ''}`, async () => {
        const response = await ask(client, 'small', stream)
        expect([response.status, limits()]).toEqual([200, [32_768, 8_192]])
        expect(response.headers.get('x-sluice-attempts')).toBe('2')
        expect(lossesOf(response)).toEqual([
          expect.stringMatching(/^limit_required: .*32768 tokens$/),
          'limit_lowered: lowered to 8,192: the provider allows no more',
        ])
        await response.text()
      })

  test('is asked again where a worker process writes the request', async () => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'Hello '.repeat(1_000_000) }] }]
    const response = await ask('chat.completions', 'small', true, { messages })
    expect([response.status, limits()]).toEqual([200, [32_768, 8_192]])
    await response.text()
  })

  test('leaves the response its room beside a budget of reasoning', async () => {
    const response = await ask('chat.completions', 'small', false, { reasoning_effort: 'high' })
    expect([response.status, limits()]).toEqual([200, [32_768, 8_192]])
    expect(bodies.map(({ thinking }) => thinking?.budget_tokens)).toEqual([24_576, 6_553])
    expect(lossesOf(response)).toContain('budget_adjusted: the output limit allows 6,553 tokens')
  })

  test('is asked again with a limit that every model accepts, where the refusal names none', async () => {
    const response = await ask('chat.completions', 'mute', false)
    expect([response.status, limits()]).toEqual([400, [32_768, 4_096]])
    expect(await response.text()).toContain('max_tokens: 4096 is refused by mute')
  })

  test('is not asked again where the client has chosen the limit', async () => {
    const response = await ask('chat.completions', 'small', false, { max_tokens: 20_000 })
    expect([response.status, limits()]).toEqual([400, [20_000]])
  })
})

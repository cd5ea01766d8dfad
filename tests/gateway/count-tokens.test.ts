import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { wrapSignature } from '../../src/generation/signature.ts'
import { startGateway, type Gateway } from '../server.ts'
import { COUNTED, RESPONSE_PIECES } from './scripted.ts'

/** Counts of tokens at a provider of the client's protocol: it is sent what a generation would send it. */

type Body = Record<string, unknown>
const calls: { path: string; body: Body }[] = []

const COUNTS: Record<string, [protocol: ConversationName, count: object]> = {
  messages: ['messages', { input_tokens: 7 }],
  responses: ['responses', { object: 'response.input_tokens', input_tokens: 7 }],
  generateContent: ['generateContent', { totalTokens: 7 }],
}
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const path = new URL(request.url).pathname
    calls.push({ path, body: (await request.json()) as Body })
    const name = path.includes('/messages') ? 'messages' : path.includes('/responses') ? 'responses' : 'generateContent'
    const [protocol, count] = COUNTS[name]!
    return Response.json(
      /count_tokens|input_tokens|:countTokens/.test(path) ? count : RESPONSE_PIECES[protocol].whole(COUNTED),
    )
  },
})

let gateway: Gateway
beforeAll(async () => {
  const baseUrl = `http://127.0.0.1:${provider.port}/v1`
  gateway = await startGateway({
    config: `providers:
  m: { protocol: messages, baseUrl: "${baseUrl}" }
  r: { protocol: responses, baseUrl: "${baseUrl}" }
  g: { protocol: generateContent, baseUrl: "${baseUrl}" }
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider.stop(true)
})

async function send(path: string, body: object): Promise<{ answer: Body; sent: Body }> {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as Body
  expect([response.status, answer.error]).toEqual([200, undefined])
  return { answer, sent: calls.at(-1)!.body }
}

const own = (provider: string): string => wrapSignature('b3duIHNpZ25hdHVyZQ==', { provider, model: 'model' })
const other = wrapSignature('b3RoZXIgc2lnbmF0dXJl', { provider: 'elsewhere', model: 'model' })

const messages = [
  { role: 'user', content: 'Add.' },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'Their thoughts.', signature: other },
      { type: 'thinking', thinking: 'Own thoughts.', signature: own('m') },
      { type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 1 } },
    ],
  },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '2' }] },
]
const reasons = { type: 'enabled', budget_tokens: 1024 }

test('a count of messages has the signatures that a generation would have', async () => {
  const body = { model: 'm/model', thinking: reasons, messages }
  const generation = await send('/v1/messages', { ...body, max_tokens: 2048 })
  const count = await send('/v1/messages/count_tokens', body)
  expect(count.answer).toEqual({ input_tokens: 7 })
  expect(JSON.stringify(generation.sent)).toContain('b3duIHNpZ25hdHVyZQ==')
  expect<object>({ ...count.sent, max_tokens: 2048 }).toEqual(generation.sent)
})

const reasoning = (id: string, signature: string): object => ({
  type: 'reasoning',
  id,
  summary: [],
  encrypted_content: signature,
})
const input = [
  { role: 'user', content: 'Add.' },
  reasoning('rs_1', other),
  reasoning('rs_2', own('r')),
  { type: 'function_call', call_id: 'call_1', name: 'add', arguments: '{"a":1}' },
  { type: 'function_call_output', call_id: 'call_1', output: '2' },
]

test('a count of responses has the signatures that a generation would have, and no member of generations', async () => {
  const body = { model: 'r/model', input }
  const generation = await send('/v1/responses', body)
  const count = await send('/v1/responses/input_tokens', body)
  expect(count.answer).toEqual({ object: 'response.input_tokens', input_tokens: 7 })
  expect(count.sent.input).toEqual(generation.sent.input)
  expect(JSON.stringify(count.sent)).not.toContain(other)
  expect(Object.keys(count.sent).toSorted()).toEqual(['input', 'model'])
})

const contents = [
  { role: 'user', parts: [{ text: 'Add.' }] },
  {
    role: 'model',
    parts: [
      { functionCall: { id: 'c1', name: 'add', args: { a: 1 } }, thoughtSignature: other },
      { functionCall: { id: 'c2', name: 'add', args: { a: 2 } }, thoughtSignature: own('g') },
    ],
  },
  {
    role: 'user',
    parts: ['c1', 'c2'].map((id) => ({ functionResponse: { id, name: 'add', response: { result: 2 } } })),
  },
]

test('a count of contents has the signatures that a generation would have, wrapped or not', async () => {
  const model = 'models/g/model'
  const generation = await send('/v1beta/models/g/model:generateContent', { contents })
  const count = await send('/v1beta/models/g/model:countTokens', { contents })
  expect(count.answer).toEqual({ totalTokens: 7 })
  expect(count.sent).toEqual(generation.sent)
  expect(JSON.stringify(count.sent)).not.toContain(other)
  const wrapped = await send('/v1beta/models/g/model:countTokens', { generateContentRequest: { model, contents } })
  expect(wrapped.sent).toEqual({
    generateContentRequest: { model: 'models/model', contents: generation.sent.contents },
  })
})

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** Bodies of too many things are refused on every route, before anything is done with them. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: 'limits: { elements: 1000, parts: 100, tools: 10, depth: 16 }\n' })
})
afterAll(() => gateway?.stop())

const post = async (path: string, body: object): Promise<{ status: number; text: string }> => {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}

const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n))
const nested = (levels: number): object => (levels === 0 ? {} : { a: nested(levels - 1) })

const message = { role: 'user', content: 'Hello' }
const chat = { model: 'sandbox/chat', messages: [message] }
const MESSAGES = { ...chat, max_tokens: 10 }

const ROUTES: [path: string, body: object, conversation: (count: number) => object][] = [
  ['/v1/chat/completions', chat, (count) => ({ messages: many(count, () => message) })],
  ['/v1/chat/completions', { ...chat, model: 'sandbox/gemini' }, (count) => ({ messages: many(count, () => message) })],
  ['/v1/messages', MESSAGES, (count) => ({ messages: many(count, () => message) })],
  ['/v1/messages/count_tokens', MESSAGES, (count) => ({ messages: many(count, () => message) })],
  ['/v1/responses', { model: 'sandbox/chat', input: 'Hello' }, (count) => ({ input: many(count, () => message) })],
  [
    '/v1beta/models/sandbox/gemini:generateContent',
    { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
    (count) => ({ contents: [{ role: 'user', parts: many(count, () => ({ text: 'Hello' })) }] }),
  ],
]

test.each(ROUTES)('%s refuses too many values, parts and tools, and too many levels: %j', async (path, body, turns) => {
  const refusals: [object, string][] = [
    [{ extra: many(1001, (n) => n) }, 'must have at most 1000 values, not '],
    [turns(120), 'must have at most 100 messages, parts, items and calls together, not '],
    [{ tools: many(11, (n) => ({ type: 'function', name: `f${n}` })) }, 'must have at most 10 tools, not 11'],
    [{ extra: nested(16) }, 'must not be nested deeper than 16 levels'],
  ]
  for (const [change, expected] of refusals) {
    const { status, text } = await post(path, { ...body, ...change })
    expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining(expected) })
  }
  expect((await post(path, { ...body, ...turns(90) })).status).toBe(200)
})

test('a prediction with too many messages is refused', async () => {
  const { status, text } = await post('/v1/predictions', {
    version: 'sandbox/text',
    input: { messages: many(120, () => message) },
  })
  expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining('limits.parts') })
})

test('a stored conversation may not grow beyond the number of parts', async () => {
  const turn = { model: 'sandbox/chat', input: many(60, () => message) }
  const first = await post('/v1/responses', turn)
  expect(first.status).toBe(200)
  const { id } = JSON.parse(first.text) as { id: string }
  expect((await post('/v1/responses', { ...turn, input: 'Hello', previous_response_id: id })).status).toBe(200)
  const { status, text } = await post('/v1/responses', { ...turn, previous_response_id: id })
  expect({ status, text }).toEqual({
    status: 400,
    text: expect.stringContaining('must have at most 100 items with the stored ones, not 121 (limits.parts)'),
  })
})

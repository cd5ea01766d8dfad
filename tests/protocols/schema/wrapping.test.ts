import { expect, test } from 'bun:test'
import type { GenerationEvent } from '../../../src/generation/event.ts'
import { protocols } from '../../../src/protocols/index.ts'
import { SchemaBudget, type Schema } from '../../../src/protocols/schema/schema.ts'
import { objectResponse, unwrap } from '../../../src/protocols/schema/wrapping.ts'
import { eventsOf, written } from '../../translating.ts'

/** Response schemas that are wrapped in an object, and the responses that are unwrapped. */

const SCHEMA = {
  $ref: '#/$defs/place',
  properties: { country: { type: 'string' } },
  $defs: { place: { type: 'object', properties: { city: { type: 'string' } } } },
}
/** Joining the two parts of these parameters takes 1,000 steps, so 200 tools use up the budget of a request. */
const PARAMETERS = {
  type: 'object',
  allOf: [{ properties: Object.fromEntries(Array.from({ length: 997 }, (_, n) => [`p${n}`, true])) }],
}

const chatRequest = (tools: number) => ({
  model: 'm',
  messages: [{ role: 'user', content: 'x' }],
  tools: Array.from({ length: tools }, (_, n) => ({
    type: 'function',
    function: { name: `f${n}`, parameters: { ...PARAMETERS, description: String(n) } },
  })),
  response_format: { type: 'json_schema', json_schema: { name: 'a', schema: SCHEMA } },
})

const responseWith = (text: string) => ({
  id: 'r',
  status: 'completed',
  output: [{ type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] }],
})

test.each([
  [1, false],
  [200, true],
])('a response to a request with %i tools is unwrapped exactly if its schema was wrapped', (tools, wrapped) => {
  const body = chatRequest(tools)
  const request = protocols['chat.completions'].serve.readRequest({
    body,
    text: JSON.stringify(body),
    headers: new Headers(),
  })
  const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
  const { body: sent, transforms } = written('responses', request, target, body)
  expect(JSON.stringify(sent).includes('"required":["answer"]')).toBe(wrapped)
  const events = eventsOf('responses', responseWith('{"answer":{"city":"Rome"}}'), { transforms })
  expect(events).toContainEqual({
    type: 'part-delta',
    part: expect.any(Number),
    text: wrapped ? '{"city":"Rome"}' : '{"answer":{"city":"Rome"}}',
  })
})

test('a choice of objects is wrapped, and an object is not', () => {
  const wraps = (schema: Schema): boolean => objectResponse({ type: 'schema', schema }, new SchemaBudget()).wrapped
  expect(wraps({ type: 'object', properties: {} })).toBe(false)
  for (const keyword of ['enum', 'const', 'not', 'anyOf', 'oneOf', 'allOf'])
    expect(wraps({ type: 'object', [keyword]: keyword === 'const' || keyword === 'not' ? {} : [{}] })).toBe(true)
})

test.each([
  ['{"answer":[{"a":"}]\\""}]}', '[{"a":"}]\\""}]'],
  [' {\n"answer" : "x\\\\"} ', '"x\\\\"'],
  ['{"answer":5}', '5'],
  ['{"other":5}', '{"other":5}'],
  ['plain', 'plain'],
  [`${'long '.repeat(80)}{"answer":5}`, `${'long '.repeat(80)}{"answer":5}`],
])('%j is unwrapped as %j, in whatever pieces it comes', (text, value) => {
  for (const length of [1, 3, 300, text.length]) {
    const transform = unwrap()
    const pieces = Array.from({ length: Math.ceil(text.length / length) }, (_, n) =>
      text.slice(n * length, (n + 1) * length),
    )
    // Twice, since a response may have several texts.
    for (const part of [0, 1]) {
      const events: GenerationEvent[] = [
        { type: 'part-start', part, head: { type: 'text' } },
        ...pieces.map((piece): GenerationEvent => ({ type: 'part-delta', part, text: piece })),
        { type: 'part-end', part },
      ]
      const sent = events.flatMap((event) => transform([event]))
      expect(sent.map((event) => (event.type === 'part-delta' ? event.text : '')).join('')).toBe(value)
      expect([sent.at(0), sent.at(-1)]).toEqual([events.at(0), events.at(-1)])
    }
    const other: GenerationEvent[] = [
      { type: 'part-start', part: 2, head: { type: 'reasoning' } },
      { type: 'part-delta', part: 2, text: '{"answer":5}' },
      { type: 'part-end', part: 2 },
    ]
    expect(transform(other)).toEqual(other)
  }
})

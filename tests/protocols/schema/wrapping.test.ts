import { expect, test } from 'bun:test'
import { protocols } from '../../../src/protocols/index.ts'
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

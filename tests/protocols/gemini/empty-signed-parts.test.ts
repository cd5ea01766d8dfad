import { expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { protocols } from '../../../src/protocols/index.ts'
import { contextOf, HELLO, type Json, sendTo } from '../../matrix/routes.ts'
import { eventsFor, readerFor } from '../../translating.ts'

/** Google's parts of a text and, in one without a text, its signature, through clients that return a message whole. */

const PARTS: Json[] = [
  { text: 'Let me look.' },
  { text: '', thoughtSignature: 'S1' },
  { functionCall: { id: 'c1', name: 'f', args: {} }, thoughtSignature: 'S2' },
]
const chunkOf = (parts: Json[], more: object = {}): Json => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...more }],
  responseId: 'up',
})

/** The parts that Google gets back in the next request. */
function returned(client: 'chat.completions' | 'messages', message: Json, result: Json): Json[] {
  const messages = [{ role: 'user', content: 'q' }, message, result]
  return sendTo('generateContent', contextOf(client, { ...HELLO[client], messages })).body.contents[1].parts
}

test('signatures in parts without a text come back there from chat completions, whole and in a stream', () => {
  const result = { role: 'tool', tool_call_id: 'c1', content: 'ok' }
  const context = contextOf('chat.completions')
  const { serve } = protocols['chat.completions']
  const answer = fold(eventsFor('generateContent', chunkOf(PARTS, { finishReason: 'STOP' }), {}, context.request))
  const { message } = (serve.writeResponse(answer, context) as Json).choices[0]
  expect(returned('chat.completions', message, result)).toEqual(PARTS)

  const reader = readerFor('generateContent', {}, context.request)
  const writer = serve.writer(context)
  const chunks = PARTS.map((part, at) => chunkOf([part], at === PARTS.length - 1 ? { finishReason: 'STOP' } : {}))
  const events = [...chunks.flatMap((chunk) => reader.read({ data: JSON.stringify(chunk) })), ...reader.end()]
  const deltas = events
    .flatMap((event) => writer.write(event))
    .filter(({ data }) => data.startsWith('{'))
    .flatMap(({ data }): Json[] => (JSON.parse(data) as Json).choices.map(({ delta }: Json) => delta))
  const streamed = { ...message, reasoning_details: deltas.flatMap((delta) => delta.reasoning_details ?? []) }
  expect(returned('chat.completions', streamed, result)).toEqual(PARTS)
})

test('signatures in parts without a text come back there from messages', () => {
  const context = contextOf('messages')
  const answer = fold(eventsFor('generateContent', chunkOf(PARTS, { finishReason: 'STOP' }), {}, context.request))
  const { content } = protocols.messages.serve.writeResponse(answer, context) as Json
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'ok' }] }
  expect(returned('messages', { role: 'assistant', content }, result)).toEqual(PARTS)
})

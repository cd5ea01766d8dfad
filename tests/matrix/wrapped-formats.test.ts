import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { readerFor } from '../translating.ts'
import { contextOf, HELLO, ROUTES, sendTo } from './routes.ts'
import { outputFormatOf } from './tool-requests.ts'
import { piecesOf, readWhole, type Response } from './tool-responses.ts'

/** Output formats that are not objects: OpenAI accepts only objects, so the value is sent as a member of one. */

const LIST = { type: 'array', items: { $ref: '#/$defs/Name' }, $defs: { Name: { type: 'string' } } }
const PERSON = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }

type OpenAi = 'chat.completions' | 'responses'

const routes = ROUTES.filter(
  (route): route is [ConversationName, OpenAi] =>
    (route[0] === 'messages' || route[0] === 'generateContent') &&
    (route[1] === 'chat.completions' || route[1] === 'responses'),
)

/** A response with one text, and its stream in pieces. */
const textOf: Record<OpenAi, (text: string, pieces: string[]) => Response> = {
  'chat.completions': (text, pieces) => ({
    whole: JSON.stringify({
      id: 'c',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: text } }],
    }),
    frames: [
      ...pieces.map((content) => JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content } }] })),
      JSON.stringify({ id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
      '[DONE]',
    ],
  }),
  responses: (text, pieces) => {
    const part = { type: 'output_text', text, annotations: [] }
    const item = { type: 'message', id: 'msg', role: 'assistant', status: 'completed', content: [part] }
    const position = { output_index: 0, item_id: 'msg', content_index: 0 }
    const response = { id: 'r', object: 'response', status: 'completed', output: [item] }
    return {
      whole: JSON.stringify(response),
      frames: [
        { type: 'response.created', response: { ...response, output: [] } },
        { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
        { type: 'response.content_part.added', ...position, part: { ...part, text: '' } },
        ...pieces.map((delta) => ({ type: 'response.output_text.delta', ...position, delta })),
        { type: 'response.output_text.done', ...position, text },
        { type: 'response.content_part.done', ...position, part },
        { type: 'response.output_item.done', output_index: 0, item },
        { type: 'response.completed', response },
      ].map((event) => JSON.stringify(event)),
    }
  },
}

/** The text that the client receives, whole and in a stream. */
function textsReceived(provider: OpenAi, context: TranslationContext, text: string, pieces: string[]): string[] {
  const { whole, frames } = textOf[provider](text, pieces)
  const reader = readerFor(provider, {}, context.request)
  const events = [...frames.flatMap((data) => reader.read({ data })), ...reader.end()]
  return [readWhole(provider, whole, context), fold(events)].map(({ parts }) =>
    parts.map((part) => (part.type === 'text' ? part.text : '')).join(''),
  )
}

const requestOf = (client: ConversationName, schema: object): TranslationContext =>
  contextOf(client, { ...HELLO[client], ...outputFormatOf[client](schema) })

test.each(routes)('a list of %s is a member of an object for %s', (client, provider) => {
  const { body } = sendTo(provider, requestOf(client, LIST))
  expect(body.response_format?.json_schema.schema ?? body.text.format.schema).toEqual({
    type: 'object',
    properties: { answer: { type: 'array', items: { type: 'string' } } },
    required: ['answer'],
    additionalProperties: false,
  })
})

test.each(routes)('clients of %s receive the value without the object that %s responds with', (client, provider) => {
  const context = requestOf(client, LIST)
  const value = fc.jsonValue().map((json) => JSON.stringify(json))
  const object = fc.constantFrom('{"answer":@}', ' {\n  "answer" : @\n}\n', '@')
  fc.assert(
    fc.property(value, object, fc.array(fc.nat(60), { maxLength: 8 }), (json, frame, cuts) => {
      // A response that is not such an object is received as it is.
      fc.pre(frame !== '@' || !/^\s*\{\s*"answer"/.test(json))
      const text = frame.replace('@', () => json)
      for (const received of textsReceived(provider, context, text, piecesOf(text, cuts)))
        expect(received.trimEnd()).toBe(json)
    }),
    { numRuns: 200 },
  )
})

test('an object that the client requested is received as it is', () => {
  const context = requestOf('generateContent', PERSON)
  expect(textsReceived('chat.completions', context, '{"answer":[1]}', ['{"answer":[1]}'])).toEqual([
    '{"answer":[1]}',
    '{"answer":[1]}',
  ])
})

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ConversationName } from '../../src/generation/request.ts'
import { contextOf, HELLO, type Json, ROUTES, sendTo } from './routes.ts'
import { callsAndResultsOf, pieceAt, spelled, toolsOf } from './tool-requests.ts'
import { callsReceived, piecesOf } from './tool-responses.ts'

/** Arguments of tool calls, which keep their spelling. */

/**
 * JSON with numbers that a double cannot represent or would be written as otherwise. No key is an index, since objects
 * of JavaScript have indexes first.
 */
const number = fc.constantFrom(
  '0',
  '-1',
  '12345678901234567890',
  '9007199254740993',
  '1.0',
  '-0',
  '1e21',
  '0.10',
  '1E+2',
  '-123456789012345678901234567890.5',
)
const key = fc
  .oneof(
    fc.constantFrom('a', 'b', 'input', 'args', '$ref', '__proto__', 'content', 'constructor'),
    fc.string({ minLength: 1, maxLength: 4, unit: 'grapheme' }),
  )
  .filter((text) => !/^\d+$/.test(text) && !text.includes('@'))
const { object } = fc.letrec<{ json: string; object: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    number,
    key.map((text) => JSON.stringify(text)),
    fc.constantFrom('true', 'null', '[]', '{}'),
    fc.array(tie('json'), { maxLength: 3 }).map((list) => `[${list.join(',')}]`),
    tie('object'),
  ),
  object: fc
    .uniqueArray(fc.tuple(key, tie('json')), { selector: ([name]) => name, maxLength: 4 })
    .map((entries) => `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`),
}))

const argumentsIn: Record<ConversationName, (body: string) => string> = {
  'chat.completions': (body) => (JSON.parse(body) as Json).messages[1].tool_calls[0].function.arguments,
  responses: (body) =>
    ((JSON.parse(body) as Json).input as Json[]).find(({ type }) => type === 'function_call')!.arguments,
  messages: (body) => pieceAt(body, 'messages', 1, 'content', 0, 'input'),
  generateContent: (body) => pieceAt(body, 'contents', 1, 'parts', 0, 'functionCall', 'args'),
}

test.each(ROUTES)(
  'arguments of %s are sent to %s and received from it as they are spelled, whole and in a stream',
  (client, provider) => {
    fc.assert(
      fc.property(object, fc.array(fc.nat(40), { maxLength: 3 }), (args, cuts) => {
        const context = contextOf(
          client,
          spelled({
            ...HELLO[client],
            ...toolsOf[client]([{ name: 'f' }]),
            ...callsAndResultsOf[client]([{ name: 'f', args }]),
          }),
        )
        expect(argumentsIn[provider](sendTo(provider, context).text)).toBe(args)
        const calls = [{ name: 'f', args, pieces: piecesOf(args, cuts) }]
        const { whole, stream } = callsReceived(client, provider, context, calls)
        expect([whole, stream]).toEqual([[{ name: 'f', args }], [{ name: 'f', args }]])
      }),
      { numRuns: 40 },
    )
  },
  60_000,
)

test.each(ROUTES.filter(([, provider]) => provider === 'chat.completions' || provider === 'responses'))(
  'arguments of nothing but white space are an empty object for %s from %s, whole and in a stream',
  (client, provider) => {
    const context = contextOf(client, spelled({ ...HELLO[client], ...toolsOf[client]([{ name: 'f' }]) }))
    const { whole, stream } = callsReceived(client, provider, context, [
      { name: 'f', args: ' \n', pieces: [' ', '\n'] },
    ])
    // A block of messages without deltas has the empty input with which it began.
    const streamed = client === 'messages' ? '' : '{}'
    expect([whole, stream]).toEqual([[{ name: 'f', args: '{}' }], [{ name: 'f', args: streamed }]])
  },
)

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { sentences } from '../../grammar.ts'
import { call, contextOf, eventsOf, framesOf, last, parsed, read, sentence, stop, text, type Any } from './fixtures.ts'

/** Responses that are written for a client of the Responses API and read again. */

const issuer = { provider: 'issuer', model: 'm1' }

test('a signed text, call and image have their signature on the next turn', () => {
  const context = contextOf()
  const events = [
    ...sentence(
      [text, ['t'], 'sig-t'],
      [call('c1'), ['{}'], 'sig-c'],
      [{ type: 'image', mediaType: 'image/png' }, ['aWlpaQ=='], 'sig-i'],
    ),
    stop,
  ]
  const { output } = last(parsed(framesOf(events, context)))
  const parts = read({ input: output }).turns[0]!.parts
  expect(parts).toEqual([
    { type: 'text', text: 't', signature: { data: 'sig-t', issuer } },
    { type: 'tool-call', id: 'c1', name: 'f', arguments: '{}', form: 'function', signature: { data: 'sig-c', issuer } },
    {
      type: 'image',
      source: { type: 'data', mediaType: 'image/png', data: 'aWlpaQ==' },
      signature: { data: 'sig-i', issuer },
    },
  ])
})

test('redacted reasoning and reasoning without a text stay different on the next turn', () => {
  const { output } = last(
    parsed(
      framesOf([
        ...sentence([{ type: 'reasoning', redacted: true }, [], 'a'], [{ type: 'reasoning' }, [], 'b'], [text, ['x']]),
        stop,
      ]),
    ),
  )
  expect(read({ input: output }).turns[0]!.parts).toMatchObject([
    { type: 'reasoning', redacted: true, text: '', signature: { data: 'a', issuer } },
    { type: 'reasoning', text: '', signature: { data: 'b', issuer } },
    { type: 'text' },
  ])
  expect((read({ input: output }).turns[0]!.parts[1] as Any).redacted).toBeUndefined()
})

/** A citation that comes after other items can be put back to its text in a whole answer, in a stream it cannot. */
const late = (events: GenerationEvent[]): boolean => {
  const kinds = events.flatMap((event) => (event.type === 'part-start' ? [event.head.type] : []))
  return kinds.some((kind, index) => kind === 'citation' && !['text', 'citation'].includes(kinds[index - 1] ?? ''))
}

test('a whole response is the one with which its stream ends', () => {
  fc.assert(
    fc.property(
      sentences({ errors: false }).filter((events) => !late(events)),
      (events) => {
        const answer = responses.serve.writeResponse(fold(events), contextOf()) as Any
        const streamed = last(parsed(framesOf(events)))
        const plain = (response: Any) =>
          JSON.parse(
            JSON.stringify(response, (key, value) =>
              key === 'completed_at' || (key === 'id' && /_[0-9a-f]{32}$/.test(value)) ? undefined : value,
            ),
          )
        expect(plain(answer)).toEqual(plain(streamed))
      },
    ),
    { numRuns: 200 },
  )
}, 60_000)

test('a response that is written and read again is the same', () => {
  const context = contextOf({}, { responseIdentity: { id: 'resp_1', model: 'a/b', createdAt: 1 } })
  const kinds = ['text', 'reasoning', 'refusal', 'tool-call', 'image'] as const
  fc.assert(
    fc.property(sentences({ kinds: [...kinds], errors: false }), (events) => {
      const before = fold(events),
        after = fold(eventsOf(framesOf(events, context)))
      const plain = (parts: Any[]) =>
        parts.flatMap((part): unknown[] =>
          part.type === 'reasoning'
            ? part.signature?.data.startsWith('part\0') || (part.text === '' && part.signature === undefined)
              ? []
              : [{ text: part.text, signature: part.signature }]
            : part.type === 'image'
              ? [part.source]
              : part.type === 'tool-call'
                ? [[part.id, part.name, part.arguments]]
                : part.text === ''
                  ? []
                  : [part.text],
        )
      expect(plain(after.parts)).toEqual(plain(before.parts))
      if (before.metered)
        expect(after.usage.inputTokens + after.usage.cacheReadTokens).toBe(
          before.usage.inputTokens + before.usage.cacheReadTokens,
        )
    }),
    { numRuns: 300 },
  )
}, 60_000)

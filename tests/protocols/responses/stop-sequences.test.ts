import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { checkGrammar } from '../../grammar.ts'
import { eventsOf, streamedEventsOf, written } from '../../translating.ts'
import { target } from './fixtures.ts'

/** Stop sequences of a client at a provider whose protocol has none. */

const requestWith = (...stop: string[]): GenerationRequest => ({
  model: 'a/b',
  system: [],
  turns: [],
  tools: [],
  sampling: { stop },
  stream: true,
  protocol: 'messages',
  extras: {},
})

/** Log probabilities of a text in which each character is a token. */
const scored = (text: string) => [...text].map((token) => ({ token, logprob: -1, bytes: null, top_logprobs: [] }))

const message = (text: string, more: object = {}) => ({
  type: 'message',
  id: 'm',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [], ...more }],
})
const completed = (...output: object[]) => ({
  id: 'up',
  model: 'um',
  status: 'completed',
  output,
  usage: { input_tokens: 5, output_tokens: 9, total_tokens: 14 },
})
const call = { type: 'function_call', id: 'fc', call_id: 'c1', name: 'f', arguments: '{}' }

const transformsOf = (request: GenerationRequest) => written('responses', request, target).transforms

function streamed(pieces: readonly string[], request: GenerationRequest, ...behind: object[]): GenerationEvent[] {
  const text = pieces.join('')
  const frames = [
    { type: 'response.created', response: { id: 'up', model: 'um' } },
    { type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'm', content: [] } },
    ...pieces.map((delta) => ({
      type: 'response.output_text.delta',
      output_index: 0,
      content_index: 0,
      delta,
      logprobs: scored(delta),
    })),
    { type: 'response.output_item.done', output_index: 0, item: message(text) },
    { type: 'response.completed', response: completed(message(text), ...behind) },
  ]
  const events = streamedEventsOf(
    'responses',
    frames.map((frame) => ({ data: JSON.stringify(frame) })),
    { transforms: transformsOf(request) },
  )
  checkGrammar(events)
  return events
}

const whole = (text: string, request: GenerationRequest, ...behind: object[]) => {
  const events = eventsOf('responses', completed(message(text, { logprobs: scored(text) }), ...behind), {
    transforms: transformsOf(request),
  })
  checkGrammar(events)
  return fold(events)
}

describe('a response', () => {
  test('ends at a stop sequence and names it, while the usage of the rest is counted', () => {
    for (const answer of [
      whole('one END two', requestWith('END'), call),
      fold(streamed(['one E', 'ND two'], requestWith('END'), call)),
    ]) {
      expect(answer).toMatchObject({
        parts: [{ type: 'text', text: 'one ' }],
        finish: { reason: 'stop-sequence', stopSequence: 'END' },
        usage: { outputTokens: 9 },
      })
      expect(answer.parts).toHaveLength(1)
    }
  })

  test('goes on where only the beginning of a sequence matches', () => {
    expect(fold(streamed(['one EN', 'OUGH E'], requestWith('END')))).toMatchObject({
      parts: [{ text: 'one ENOUGH E' }],
      finish: { reason: 'stop' },
    })
    expect(whole('one two', requestWith('END'), call)).toMatchObject({
      parts: [{ text: 'one two' }, { type: 'tool-call' }],
      finish: { reason: 'tool-calls' },
    })
  })

  test('keeps the citations before a stop sequence', () => {
    const cited = (start_index: number, end_index: number) => ({
      type: 'url_citation',
      url: 'https://e.com',
      title: 't',
      start_index,
      end_index,
    })
    expect(
      fold(
        eventsOf('responses', completed(message('one END two', { annotations: [cited(0, 3), cited(8, 11)] })), {
          transforms: transformsOf(requestWith('END')),
        }),
      ).parts,
    ).toMatchObject([{ text: 'one ', citations: [{ start: 0, end: 3 }] }])
  })

  test('ends at the same character, and with the log probabilities before it, however its pieces are cut', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 12 })
    fc.assert(
      fc.property(
        fc.array(letters, { maxLength: 8 }),
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 4 }), {
          minLength: 1,
          maxLength: 3,
        }),
        (pieces, stop) => {
          const request = requestWith(...stop)
          const text = pieces.join('')
          const ends = stop
            .flatMap((sequence) =>
              text.includes(sequence)
                ? [{ at: text.indexOf(sequence), end: text.indexOf(sequence) + sequence.length }]
                : [],
            )
            .sort((a, b) => a.end - b.end || a.at - b.at)
          const expected = ends.length === 0 ? text : text.slice(0, ends[0]!.at)
          for (const answer of [fold(streamed(pieces, request)), whole(text, request)]) {
            expect(answer.parts.map((part) => (part.type === 'text' ? part.text : '')).join('')).toBe(expected)
            const tokens = answer.parts.flatMap((part) => (part.type === 'text' ? (part.logprobs ?? []) : []))
            expect(tokens.map(({ token }) => token).join('')).toBe(expected)
          }
        },
      ),
    )
  })
})

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationResponse, type GenerationEvent } from '../../../src/generation/event.ts'
import type { Frame } from '../../../src/http/frames.ts'
import { writeResponse } from '../../../src/protocols/chat/write-response.ts'
import { checkGrammar, sentences } from '../../grammar.ts'
import { eventsOf, streamedEventsOf, withoutPaths } from '../../translating.ts'
import { contextWith, framesOf, START, withUniqueIds, type Json } from './building.ts'

/** Responses to clients of chat completions that are read again: as a response, or in the client's next request. */

const read = (frames: Frame[]): GenerationEvent[] => streamedEventsOf('chat.completions', frames)

/**
 * The content that a round trip keeps: neighbours of one kind are one part, unsigned empty parts are gone, and media
 * may be in another position.
 */
const contentOf = (answer: GenerationResponse): Json => {
  const text = (type: string): string =>
    answer.parts.map((part) => (part.type === type && 'text' in part ? (part.text as string) : '')).join('')
  return {
    text: text('text'),
    refusal: text('refusal'),
    reasoning: text('reasoning'),
    signatures: answer.parts.flatMap((part) =>
      part.type === 'reasoning' && part.signature !== undefined ? [part.signature.data] : [],
    ),
    calls: answer.parts.flatMap((part) =>
      part.type === 'tool-call' ? [[part.id, part.name, part.arguments === '' ? '{}' : part.arguments]] : [],
    ),
    images: answer.parts.flatMap((part) =>
      part.type === 'image' && part.source.type === 'data' ? [part.source.data] : [],
    ),
    usage: answer.metered ? answer.usage : undefined,
  }
}
/** Only reasoning keeps its signature. */
const withReasoningSigned = (events: GenerationEvent[]): GenerationEvent[] =>
  events.map((event) =>
    event.type === 'part-end' && heads(events)[event.part] !== 'reasoning'
      ? { type: 'part-end', part: event.part }
      : event,
  )
const heads = (events: GenerationEvent[]): string[] =>
  events.flatMap((event) => (event.type === 'part-start' ? [event.head.type] : []))
describe('round trips', () => {
  test('a stream that is written and read again has the same content', () => {
    fc.assert(
      fc.property(
        sentences({ errors: false, kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'citation'] }),
        (made) => {
          const sentence = withReasoningSigned(withUniqueIds(made))
          const events = read(framesOf(sentence))
          checkGrammar(events)
          expect(contentOf(fold(events))).toEqual(contentOf(fold(sentence)))
          expect(events.at(-1)!.type).toBe('finish')
        },
      ),
      { numRuns: 300 },
    )
  })

  test('a whole response that is written and read again has the same content', () => {
    fc.assert(
      fc.property(
        sentences({ errors: false, kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'citation'] }),
        (made) => {
          const answer = fold(withReasoningSigned(withUniqueIds(made)))
          const events = eventsOf('chat.completions', JSON.parse(JSON.stringify(writeResponse(answer, contextWith()))))
          checkGrammar(events)
          expect(contentOf(fold(events))).toEqual(contentOf(answer))
        },
      ),
      { numRuns: 300 },
    )
  })

  test('a stream that ends in an error is read with the same end', () => {
    fc.assert(
      fc.property(sentences(), (sentence) => {
        const events = read(framesOf(sentence))
        checkGrammar(events)
        const [sent, received] = [sentence.at(-1)!, events.at(-1)!]
        expect(received.type).toBe(sent.type)
        if (sent.type === 'error' && received.type === 'error')
          expect(received.error.message).toContain(sent.error.message)
      }),
      { numRuns: 200 },
    )
  })
})

const issuer = { provider: 'p', model: 'm' }
/** The parts of the response's message after its client sent it back. */
const replayed = (answer: GenerationResponse) => {
  const { choices } = JSON.parse(JSON.stringify(writeResponse(answer, contextWith({}, issuer)))) as Json
  const message = choices[0].message as Json
  if (message.content === null && message.tool_calls === undefined) message.content = ''
  return withoutPaths(contextWith({ messages: [{ role: 'user', content: 'hi' }, message] }).request.turns[1]!.parts)
}

describe('a response that its client sends back', () => {
  test('it keeps its reasoning, its signatures with their issuer, and its calls', () => {
    fc.assert(
      fc.property(
        sentences({ errors: false, kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image'] }),
        (made) => {
          const answer = fold(withUniqueIds(made))
          const parts = replayed(answer)
          expect(contentOf({ ...answer, parts, metered: false })).toEqual(contentOf({ ...answer, metered: false }))
          const signed = (all: GenerationResponse['parts']): unknown[] =>
            all.flatMap((part) =>
              part.type !== 'image' && 'signature' in part && part.signature !== undefined
                ? [[part.type, 'text' in part ? part.text : undefined, part.signature.data]]
                : [],
            )
          expect(signed(parts)).toEqual(signed(answer.parts))
          for (const part of parts)
            if ('signature' in part && part.signature !== undefined) expect(part.signature.issuer).toEqual(issuer)
        },
      ),
      { numRuns: 200 },
    )
  })

  test('a signature of a call, a text or an image stays with its part', () => {
    const image = {
      type: 'image',
      source: { type: 'data', mediaType: 'image/png', data: 'AAAA' },
      signature: { data: 'I', issuer },
    } as const
    const parts: GenerationResponse['parts'] = [
      { type: 'reasoning', form: 'summary', text: 'S' },
      { type: 'text', text: 'x', signature: { data: 'T', issuer } },
      image,
      { type: 'tool-call', id: 'c', name: 'f', form: 'function', arguments: '{}', signature: { data: 'C', issuer } },
    ]
    const answer: GenerationResponse = { ...fold([START, { type: 'finish', reason: 'stop', raw: 'stop' }]), parts }
    expect(replayed(answer)).toEqual(parts)
  })

  test('a summary stays one part with its encrypted entry', () => {
    const parts: GenerationResponse['parts'] = [
      { type: 'reasoning', form: 'summary', id: 'rs_1', text: 'S', signature: { data: 'D' } },
      { type: 'reasoning', redacted: true, text: '', signature: { data: 'R' } },
      { type: 'text', text: 'x' },
    ]
    const answer: GenerationResponse = {
      ...fold([
        { type: 'start', id: 'up', model: 'm' },
        { type: 'finish', reason: 'stop', raw: 'stop' },
      ]),
      parts,
    }
    expect(replayed(answer)).toEqual([
      { type: 'reasoning', form: 'summary', id: 'rs_1', text: 'S', signature: { data: 'D', issuer } },
      { type: 'reasoning', redacted: true, text: '', signature: { data: 'R', issuer } },
      { type: 'text', text: 'x' },
    ])
  })
})

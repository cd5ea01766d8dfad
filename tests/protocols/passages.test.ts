import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { GenerationRequest, ProtocolName } from '../../src/generation/request.ts'
import { cutAtPassages } from '../../src/protocols/passages.ts'
import { cutsAtPassages } from '../../src/protocols/transforms.ts'
import { checkGrammar } from '../grammar.ts'
import { streamedEventsOf, written } from '../translating.ts'

/** Streamed texts that are cut at the passages that they cite. */

const at = { output_index: 0, content_index: 0 }
const frame = (type: string, more: object) => ({ data: JSON.stringify({ type, ...more }) })
const delta = (text: string) => frame('response.output_text.delta', { ...at, delta: text })
const cite = (start_index: number, end_index: number, url: string) =>
  frame('response.output_text.annotation.added', {
    ...at,
    annotation: { type: 'url_citation', url, title: 'T', start_index, end_index },
  })
const completed = frame('response.completed', { response: { id: 'r', status: 'completed', output: [] } })

const eventsOf = (...frames: { data: string }[]): GenerationEvent[] => {
  const events = streamedEventsOf('responses', frames, { transforms: [{ type: 'cut-at-passages' }] })
  checkGrammar(events)
  return events
}

/** Each text with the addresses and ranges that it cites. */
const passagesOf = (...frames: { data: string }[]) =>
  fold(eventsOf(...frames)).parts.map((part) =>
    part.type === 'text'
      ? [part.text, ...(part.citations ?? []).map(({ url, start, end }) => `${url} ${start}-${end}`)]
      : part.type,
  )

describe('a text that is cut at its passages', () => {
  test('has each passage as a part of its own', () => {
    expect(
      passagesOf(delta('It is '), delta('warm'), cite(6, 10, 'a'), cite(6, 10, 'b'), delta(' here.'), completed),
    ).toEqual([['It is '], ['warm', 'a 0-4', 'b 0-4'], [' here.']])
  })

  test('begins or ends with a passage without an empty part beside it', () => {
    expect(
      passagesOf(delta('warm'), cite(0, 4, 'a'), delta(' and '), delta('dry'), cite(9, 12, 'b'), completed),
    ).toEqual([['warm', 'a 0-4'], [' and '], ['dry', 'b 0-3']])
  })

  test('is cut inside the piece that was held back', () => {
    expect(passagesOf(delta('one two three'), cite(4, 7, 'a'), completed)).toEqual([
      ['one '],
      ['two', 'a 0-3'],
      [' three'],
    ])
  })

  test('is not cut at a passage that has gone out: the citation follows the text', () => {
    expect(passagesOf(delta('one '), delta('two '), delta('three'), cite(0, 3, 'late'), completed)).toEqual([
      ['one two three', 'late 0-3'],
    ])
  })

  test('is cut at a passage whose citation came before its text', () => {
    expect(passagesOf(cite(0, 3, 'early'), delta('one two'), completed)).toEqual([['one', 'early 0-3'], [' two']])
  })

  test('keeps citations without a range behind it', () => {
    const annotation = { type: 'file_citation', file_id: 'f', filename: 'a.txt', index: 0 }
    expect(
      passagesOf(delta('one'), frame('response.output_text.annotation.added', { ...at, annotation }), completed),
    ).toEqual([['one', 'undefined undefined-undefined']])
  })

  test('leaves other parts as they are', () => {
    const call = { type: 'function_call', id: 'fc', call_id: 'c', name: 'f', arguments: '{}' }
    const item = frame('response.output_item.done', { output_index: 1, item: call })
    expect(passagesOf(delta('one'), cite(0, 3, 'a'), item, completed)).toEqual([['one', 'a 0-3'], 'tool-call'])
  })

  test('goes out but for its last piece, and all of it before an error', () => {
    const texts = (events: GenerationEvent[]) =>
      events.flatMap((event) => (event.type === 'part-delta' ? [event.text] : []))
    expect(texts(eventsOf(delta('one '), delta('two')))).toEqual(['one ', 'two'])
    const transform = cutAtPassages()
    const start: GenerationEvent = { type: 'part-start', part: 0, head: { type: 'text' } }
    const piece = (text: string): GenerationEvent => ({ type: 'part-delta', part: 0, text })
    expect(texts(transform([start, piece('one ')]))).toEqual([])
    expect(texts(transform([piece('two')]))).toEqual(['one '])
    expect(texts(transform([{ type: 'part-end', part: 0 }]))).toEqual(['two'])
  })
})

describe('the transform', () => {
  const request = (protocol: ProtocolName, more: Partial<GenerationRequest> = {}): GenerationRequest => ({
    model: 'a/b',
    system: [],
    turns: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
    tools: [],
    sampling: {},
    webSearch: {},
    stream: true,
    protocol,
    extras: {},
    ...more,
  })
  const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
  const cuts = (asked: GenerationRequest, provider: ProtocolName = 'responses') =>
    cutsAtPassages(written(provider, asked, target).transforms)

  test('is registered for clients that cite whole blocks, where the provider streams citations', () => {
    expect(cuts(request('messages'))).toBe(true)
    expect(cuts(request('chat.completions'))).toBe(false)
    expect(cuts(request('generateContent'))).toBe(false)
    expect(cuts(request('messages'), 'chat.completions')).toBe(false)
  })

  test('is not registered without a search, for a response in one piece, or with stop sequences', () => {
    const { webSearch: _, ...plain } = request('messages')
    expect(cuts(plain)).toBe(false)
    expect(cuts(request('messages', { stream: false }))).toBe(false)
    expect(cuts(request('messages', { sampling: { stop: ['END'] } }))).toBe(false)
  })
})

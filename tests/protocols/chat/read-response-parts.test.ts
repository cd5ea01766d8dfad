import { expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import { chunkOf, partsOf, read, stop, type Json } from './streaming.ts'

/** Parts of responses in the forms of single servers. */

const native = (kind: string, value: unknown): Json => ({ type: 'native', protocol: 'chat.completions', kind, value })
const text = (of: string, more: Json = {}): Json => ({ type: 'text', text: of, ...more })
const cites = (start_index: number, end_index: number): Json => ({
  type: 'url_citation',
  url_citation: { url: 'https://a.b', start_index, end_index },
})
const png = { type: 'image_url', image_url: 'data:image/png;base64,AAAA' }
const image = { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } }
const sources = (...urls: unknown[]): Json => ({ ...chunkOf({}), citations: urls })
const results = (...found: unknown[]): Json => ({ ...chunkOf({}), search_results: found })
const detail = (type: string, more: Json): Json =>
  chunkOf({ reasoning_details: [{ type: `reasoning.${type}`, ...more }] })
const call = (more: Json): Json => chunkOf({ tool_calls: [{ index: 0, id: 'c', ...more }] })
const called = (more: Json = {}): Json => ({
  ...{ type: 'tool-call', id: 'c', name: 'f', form: 'function', arguments: '{}' },
  ...more,
})
const f = { name: 'f', arguments: '{}' }
const reference = { type: 'reference', reference_ids: [1] }
const audio = { type: 'audio', source: { type: 'data', mediaType: 'audio/wav', data: 'AAEC' } }
const soFar = (delta: Json, content: string): Json => chunkOf(delta, { message: { role: 'assistant', content } })

const RESPONSES: [what: string, chunks: Json[], parts: Json[]][] = [
  [
    'search results without a list of URLs are sources, with their snippets',
    [chunkOf({ content: 'x' }), results(null, { url: 'https://a.b', title: '', snippet: 'S' })],
    [text('x', { citations: [{ url: 'https://a.b', citedText: 'S' }] })],
  ],
  [
    'the last list of sources counts, an empty one does not, and a cited source is not repeated',
    [
      sources('https://old.b'),
      chunkOf({ content: 'xy', annotations: [cites(0, 1)] }),
      sources('https://a.b', 5, 'https://c.d'),
      sources(),
    ],
    [
      text('xy', {
        citations: [{ url: 'https://a.b', start: 0, end: 1, native: cites(0, 1) }, { url: 'https://c.d' }],
      }),
    ],
  ],
  [
    'sources and citations without a text are native',
    [chunkOf({ annotations: [cites(0, 1)] })],
    [native('annotations', [cites(0, 1)])],
  ],
  ['sources alone are native', [sources('https://a.b')], [native('annotations', [])]],
  [
    'a citation counts in the whole content, and its part in itself',
    [chunkOf({ content: 'abc' }), chunkOf({ images: [png] }), chunkOf({ content: 'de', annotations: [cites(4, 5)] })],
    [text('abc'), image, text('de', { citations: [{ url: 'https://a.b', start: 1, end: 2, native: cites(4, 5) }] })],
  ],
  [
    'an annotation that is no citation is native',
    [chunkOf({ content: 'x', annotations: [{ type: 'odd' }] })],
    [text('x'), native('annotations', { type: 'odd' })],
  ],
  [
    'members of calls that are not read are native',
    [call({ type: 'function', weight: 2, function: { ...f, rank: 1 } })],
    [called(), native('tool_calls.weight', undefined), native('tool_calls.rank', undefined)],
  ],
  [
    'members of messages and of reasoning that are not read are native',
    [chunkOf({ mood: 'M' }), detail('text', { text: 'A', weight: 2 })],
    [{ type: 'reasoning', text: 'A' }, native('mood', undefined), native('reasoning_details.weight', undefined)],
  ],
  ['a call whose name never comes has none', [call({ function: { arguments: '{}' } })], [called({ name: '' })]],
  [
    'members of custom calls that are not read are native',
    [call({ type: 'custom', custom: { name: 'f', input: 'x', rank: 1 } })],
    [called({ form: 'custom', arguments: 'x' }), native('tool_calls.rank', undefined)],
  ],
  [
    'an empty function beside a custom call is not read',
    [call({ type: 'custom', function: {}, custom: { name: 'f', input: 'x' } })],
    [called({ form: 'custom', arguments: 'x' })],
  ],
  [
    'a call of an unknown type in the form of a function is one',
    [call({ type: 'odd', function: { name: 'f' } }), call({ type: 'odd', function: { arguments: '{}' } })],
    [called()],
  ],
  [
    'the deprecated single call is read in pieces',
    [chunkOf({ function_call: { name: 'f' } }), chunkOf({ function_call: { arguments: '{}' } })],
    [called({ id: expect.any(String) })],
  ],
  [
    'an empty single call is none',
    [chunkOf({ content: 'x', function_call: { name: '', arguments: '' } })],
    [text('x')],
  ],
  ['audio in one piece is a part', [chunkOf({ audio: { data: 'AAEC' } })], [audio]],
  [
    'a transcript beside a text is not read',
    [chunkOf({ content: 'x' }), chunkOf({ audio: { data: 'AAEC', transcript: 'y' } })],
    [text('x'), audio],
  ],
  [
    'thinking may be a text',
    [chunkOf({ content: [{ type: 'thinking', thinking: 'Hm' }] }), chunkOf({ content: 'x' })],
    [{ type: 'reasoning', text: 'Hm' }, text('x')],
  ],
  [
    'pieces of content are texts, images and native',
    [chunkOf({ content: [null, { type: 'text', text: '' }, { type: 'text', text: 'x' }, png, reference] })],
    [text('x'), image, native('reference', reference)],
  ],
  [
    'a message is not read again after native content in deltas',
    [soFar({ content: [reference] }, 'Hello')],
    [native('reference', reference)],
  ],
  [
    'a message is not read again after native content and audio in deltas',
    [soFar({ content: [reference], audio: { data: 'AAEC' } }, 'Hello')],
    [audio, native('reference', reference)],
  ],
  ['a message is not read again after audio in deltas', [soFar({ audio: { data: 'AAEC' } }, 'Hello')], [audio]],
  [
    'details with other indexes are parts of their own',
    [detail('text', { text: 'A', index: 0 }), detail('text', { text: 'B', index: 1 })],
    [
      { type: 'reasoning', text: 'A' },
      { type: 'reasoning', text: 'B' },
    ],
  ],
  [
    'details without an index go on with the reasoning before them',
    [chunkOf({ reasoning: 'A' }), detail('text', { text: 'B' })],
    [{ type: 'reasoning', text: 'AB' }],
  ],
  [
    'an encrypted entry with a format signs the summary before it, and others stand alone',
    [
      detail('encrypted', { data: 'D', format: 'odd', id: 'r' }),
      detail('summary', { summary: 'S', format: 'odd' }),
      detail('encrypted', { data: 'E', format: 'odd' }),
      detail('encrypted', { data: 'F', format: 'odd' }),
    ],
    [
      { type: 'reasoning', redacted: true, id: 'r', text: '', signature: { data: 'odd;encrypted\0r\0D' } },
      { type: 'reasoning', form: 'summary', text: 'S' },
      { type: 'reasoning', redacted: true, text: '', signature: { data: 'odd;summary\0\0E' } },
      { type: 'reasoning', redacted: true, text: '', signature: { data: 'odd;encrypted\0\0F' } },
    ],
  ],
]

test.each(RESPONSES)('%s', (_what, chunks, parts) => {
  expect(partsOf(...chunks, stop())).toEqual(parts as unknown as Part[])
})

test.each([
  ['a refusal that ends with `stop`', { refusal: 'No.' }, 'stop', 'refusal'],
  ['a refusal at the limit', { refusal: 'No.' }, 'length', 'length'],
  ['a call that ends with `stop`', { tool_calls: [{ index: 0, id: 'c', function: f }] }, 'stop', 'tool-calls'],
  ['a text', { content: 'x' }, 'stop', 'stop'],
])('the finish reason of %s', (_what, delta, raw, reason) => {
  expect(fold(read([chunkOf(delta), stop(raw)])).finish).toEqual({ reason, raw } as never)
})

test.each([
  ['eos', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop-sequence'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'content-filter'],
  ['sensitive', 'content-filter'],
  ['refusal', 'refusal'],
  ['function_call', 'stop'],
  ['odd', 'other'],
])('the finish reason %s of a text is %s', (raw, reason) => {
  expect(fold(read([chunkOf({ content: 'x' }), stop(raw)])).finish).toEqual({ reason, raw } as never)
})

test.each([
  ['image', { images: [png] }],
  ['native', { images: [{ image_url: 'https://a.b/c.png' }] }],
  ['reasoning', { reasoning: 'A' }],
  ['reasoning', { reasoning_details: [{ type: 'reasoning.encrypted', data: 'D' }] }],
  ['tool-call', { tool_calls: [{ index: 0, id: 'c', function: f }] }],
])('a citation comes before the %s behind its text', (type, delta) => {
  const heads = read([chunkOf({ content: 'xy', annotations: [cites(0, 1)] }), chunkOf(delta), stop()]).flatMap(
    (event) => (event.type === 'part-start' ? [event.head.type] : []),
  )
  expect(heads).toEqual(['text', 'citation', type] as typeof heads)
})

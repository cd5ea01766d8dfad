import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { framed } from '../gateway/scripted.ts'
import { responseOf } from './provider-replies.ts'
import {
  annotated,
  blocksOf,
  citedInBlocks,
  eventsOf,
  expectSources,
  grounded,
  inBlocks,
  replies,
  supportOf,
  translate,
  urlCitation,
  writeTo,
} from './citing.ts'
import { type Citation, readWireResponse } from './wire-reader.ts'
import { codesAndPaths, NAMES } from './routes.ts'

/**
 * Passages that a response cites, in the units of each protocol: UTF-16 inside Sluice, code points in OpenAI's, bytes
 * in Google's, blocks in Anthropic's.
 */

const sorted = (citations: Citation[]): string[] =>
  citations.map(({ url, title, passage }) => JSON.stringify([url, title, passage])).toSorted()

describe('a cited passage', () => {
  for (const provider of NAMES)
    for (const client of NAMES)
      for (const stream of [false, true])
        test(`of ${provider} is the same passage for ${client}${stream ? ' in a stream' : ''}`, () => {
          fc.assert(
            fc.property(replies, (reply) => {
              const response = responseOf(provider, reply)
              const { text, losses } = writeTo(client, eventsOf(provider, response, stream, client), stream)
              const sent = stream ? framed(response.frames) : JSON.stringify(response.whole)
              const from = readWireResponse(provider, sent, stream)
              const to = readWireResponse(client, text, stream)
              if (client !== 'messages') {
                expect(to.content.text).toBe(from.content.text)
                return expect(sorted(to.citations)).toEqual(sorted(from.citations))
              }
              expect(inBlocks(to.content.text)).toBe(inBlocks(from.content.text))
              // A block cannot begin in text that was streamed before its citation came.
              const isLate = losses.some(
                ({ code, path }) => code === 'response_citation_adjusted' && path === 'response.citations',
              )
              const citesBlank = citedInBlocks(from.citations).length < from.citations.length
              if (stream && (isLate || citesBlank)) expectSources(to.citations, from.citations)
              else expect(sorted(citedInBlocks(to.citations))).toEqual(sorted(citedInBlocks(from.citations)))
            }),
            { numRuns: 60 },
          )
        })
})

describe('offsets that are not valid', () => {
  const TEXT = 'Où? 🗼!'
  const odd = fc.oneof(fc.integer(), fc.double(), fc.constantFrom(null, undefined, '3', 1e400, -0, [2], {}))

  /** A response that cites these ranges of its text. */
  const citing: Record<ConversationName, (ranges: unknown[][]) => object> = {
    'chat.completions': (ranges) =>
      annotated['chat.completions'](
        TEXT,
        ranges.map(([start, end]) => urlCitation(start, end)),
      ),
    responses: (ranges) =>
      annotated.responses(
        TEXT,
        ranges.map(([start, end]) => urlCitation(start, end)),
      ),
    messages: (ranges) => {
      const citations = ranges.map(([start, end]) => ({
        type: 'char_location',
        cited_text: 'x',
        start_char_index: start,
        end_char_index: end,
      }))
      return { type: 'message', stop_reason: 'end_turn', content: [{ type: 'text', text: TEXT, citations }] }
    },
    generateContent: (ranges) =>
      grounded([{ text: TEXT }], {
        groundingSupports: ranges.map(([startIndex, endIndex, partIndex]) =>
          supportOf({ startIndex, endIndex, partIndex }, 0),
        ),
      }),
  }

  for (const provider of NAMES)
    for (const client of NAMES)
      test(`of ${provider} leave ${client} the whole text, and only passages of it are cited`, () => {
        fc.assert(
          fc.property(fc.array(fc.tuple(odd, odd, odd), { maxLength: 4 }), (ranges) => {
            const response = { whole: citing[provider](ranges), frames: [] }
            const { text } = writeTo(client, eventsOf(provider, response, false, client), false)
            const { content, citations } = readWireResponse(client, text, false)
            expect(content.text).toBe(TEXT)
            for (const { passage } of citations) expect(TEXT).toContain(passage)
          }),
          { numRuns: 100 },
        )
      })
})

describe('blocks of messages', () => {
  test('begin and end with the cited passages, and with the white space before them', () => {
    const { response, losses } = translate(
      'responses',
      annotated.responses('🗼 is in Paris, France.', [
        urlCitation(2, 13, 'https://b.com'),
        urlCitation(0, 1, 'https://a.com'),
        urlCitation(2, 13, 'https://c.com'),
      ]),
      'messages',
    )
    expect(blocksOf(response.content)).toEqual([
      ['🗼', 'https://a.com'],
      [' is in Paris', 'https://b.com', 'https://c.com'],
      [', France.'],
    ])
    expect(losses).toEqual([])
  })

  test('join passages that overlap, which is reported', () => {
    const { response, losses } = translate(
      'chat.completions',
      annotated['chat.completions']('one two three', [
        urlCitation(0, 7, 'https://a.com'),
        urlCitation(4, 13, 'https://b.com'),
      ]),
      'messages',
    )
    expect(blocksOf(response.content)).toEqual([['one two three', 'https://a.com', 'https://b.com']])
    expect(codesAndPaths(losses)).toEqual(['response_citation_adjusted response.citations'])
  })

  test('do not quote text of the response as text of the source', () => {
    const { response } = translate(
      'generateContent',
      grounded([{ text: 'In Paris.' }], {
        groundingSupports: [supportOf({ startIndex: 3, endIndex: 8, text: 'Paris' }, 0)],
      }),
      'messages',
    )
    expect(response.content[1]).toEqual({
      type: 'text',
      text: 'Paris',
      citations: [
        { type: 'web_search_result_location', url: 'https://e.com', title: 'E', cited_text: '', encrypted_index: '' },
      ],
    })
  })
})

describe("Google's grounding", () => {
  test('counts in a part or in the whole text, and its quoted text decides', () => {
    const parts = [{ text: 'Hmm.', thought: true }, { text: '🗼 a a' }, { text: ' a' }]
    const segments = [
      { partIndex: 2, startIndex: 1, endIndex: 2 },
      { partIndex: 1, startIndex: 7, endIndex: 8, text: 'a' },
      { startIndex: 5, endIndex: 6, text: 'a' },
      { startIndex: 8, endIndex: 10, text: 'a a' },
      { text: 'nowhere' },
    ]
    const whole = grounded(parts, { groundingSupports: segments.map((segment) => supportOf(segment, 0)) })
    const [part] = fold(eventsOf('generateContent', { whole, frames: [] }, false, 'responses')).parts.filter(
      ({ type }) => type === 'text',
    )
    expect(part).toMatchObject({
      text: '🗼 a a a',
      citations: [
        { start: 7, end: 8 },
        { start: 5, end: 6 },
        { start: 3, end: 4 },
        { start: 5, end: 8 },
        { url: 'https://e.com' },
        { url: 'https://f.com' },
      ],
    })
  })

  const [a, b] = [{ web: { uri: 'https://a.com', title: 'A' } }, { web: { uri: 'https://b.com', title: 'B' } }]
  const first = supportOf({ endIndex: 3, text: 'one' }, 0)
  const second = supportOf({ startIndex: 4, endIndex: 7, text: 'two' }, 1)

  test.each([
    ['new', { groundingChunks: [b], groundingSupports: [second] }],
    ['all', { groundingChunks: [a, b], groundingSupports: [first, second] }],
  ])('is complete in a stream that lists the %s sources later', (_, later) => {
    const chunk = (text: string, groundingMetadata: object, more: object = {}): object => ({
      candidates: [{ content: { role: 'model', parts: [{ text }] }, groundingMetadata, ...more }],
    })
    const frames = [
      chunk('one', { groundingChunks: [a], groundingSupports: [first] }),
      chunk(' two', later, { finishReason: 'STOP' }),
    ]
    const events = eventsOf('generateContent', { whole: {}, frames }, true, 'chat.completions')
    const { text } = writeTo('chat.completions', events, true)
    expect(readWireResponse('chat.completions', text, true).citations).toEqual([
      { url: 'https://a.com', title: 'A', passage: 'one' },
      { url: 'https://b.com', title: 'B', passage: 'two' },
    ])
  })

  test('reports the data of its searches as dropped', () => {
    const { losses } = translate(
      'generateContent',
      grounded([{ text: 'x' }], {
        webSearchQueries: ['where'],
        searchEntryPoint: { renderedContent: '<p>' },
        retrievalMetadata: {},
      }),
      'chat.completions',
    )
    expect(codesAndPaths(losses)).toEqual([
      'response_citation_adjusted response.citations',
      'response_content_native response.webSearchQueries',
      'response_content_native response.searchEntryPoint',
    ])
  })
})

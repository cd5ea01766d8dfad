import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { framed } from '../gateway/scripted.ts'
import { checkGrammar } from '../grammar.ts'
import { readerFor } from '../translating.ts'
import { type Reply, type ReplyPart, responseOf } from './provider-replies.ts'
import { blocksOf, END, expectSources, framesOf, inBlocks, replies, supportOf, urlCitation } from './citing.ts'
import { readWireResponse } from './wire-reader.ts'
import { codesAndPaths, contextOf, type Json, NAMES } from './routes.ts'

/** Citations that come while their text is streamed. */

/** The context of a request that streams and searches the web, so that its text is cut at cited passages. */
function searching(client: ConversationName) {
  const context = contextOf(client)
  return { ...context, request: { ...context.request, webSearch: {}, stream: true } }
}

const written = (context: TranslationContext, events: Parameters<typeof checkGrammar>[0]): string => {
  const writer = protocols.messages.serve.writer(context)
  return events
    .flatMap((event) => writer.write(event))
    .map(({ data }) => `data: ${data}\n\n`)
    .join('')
}

const position = { output_index: 0, content_index: 0 }
const delta = (text: string): object => ({ type: 'response.output_text.delta', ...position, delta: text })
const added = (annotation: Json): object => ({
  type: 'response.output_text.annotation.added',
  ...position,
  annotation,
})

describe('a stream of responses that cites each passage right after it', () => {
  const text = ['It is ', 'sunny 🗼 ', '([a](https://a.com)). ', 'And ', 'warm', '.']
  const cite = (passage: string, url: string): object => {
    const before = text.join('').split(passage)[0]!
    return added(urlCitation([...before].length, [...before, ...passage].length, url))
  }
  const frames = [
    { type: 'response.created', response: { id: 'r' } },
    { type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'm', content: [] } },
    ...text.slice(0, 3).map(delta),
    cite('([a](https://a.com))', 'https://a.com'),
    cite('([a](https://a.com))', 'https://b.com'),
    delta(text[3]!),
    cite('sunny', 'https://late.com'),
    delta(text[4]!),
    cite('warm', 'https://c.com'),
    delta(text[5]!),
    { type: 'response.completed', response: { id: 'r', status: 'completed', output: [] } },
  ]
  const context = searching('messages')
  const reader = readerFor('responses', {}, context.request)
  const events = [...framesOf(frames).map((frame) => reader.read(frame)), reader.end()]

  test('has events that match their grammar', () => checkGrammar(events.flat()))

  test('holds a piece of text back until the next event and no longer', () => {
    const texts = events.map((some) => some.flatMap((event) => (event.type === 'part-delta' ? [event.text] : [])))
    expect(texts.slice(2, 5)).toEqual([[], ['It is '], ['sunny 🗼 ']])
  })

  test('gives clients of messages a block for each cited passage', () => {
    const { earlierResponse } = readWireResponse('messages', written(context, events.flat()), true)
    expect(blocksOf(earlierResponse as Json[])).toEqual([
      ['It is sunny 🗼 '],
      ['([a](https://a.com))', 'https://a.com', 'https://b.com'],
      ['. And '],
      ['warm', 'https://c.com'],
      ['.', 'https://late.com'],
    ])
    expect(codesAndPaths(context.losses.losses)).toEqual(['response_citation_adjusted response.citations'])
  })
})

test('text and sources of a stream are complete wherever its citations come', () => {
  const cited = (text: string): ReplyPart => ({
    type: 'text',
    text,
    cite: { passage: text, url: 'https://example.com/', title: 'E' },
  })
  const later = fc.array(fc.nat(9), { minLength: 8, maxLength: 8 })
  const examples: [Reply, number[]][] = [
    // The citation of a text in one piece, after the part that holds it.
    [{ parts: [cited(' ')], ...END }, [5, 0, 0, 0, 0, 0, 0, 0]],
    // A citation before its text.
    [{ parts: [{ type: 'text', text: 'one, two, three, ' }, cited('four')], ...END }, [0, 0, 0, 0, 0, 0, 0, 0]],
  ]
  fc.assert(
    fc.property(replies, later, (reply, delays) => {
      const { frames } = responseOf('responses', reply)
      const isCitation = (frame: object | string): boolean =>
        (frame as Json).type === 'response.output_text.annotation.added'
      const moved = frames.filter((frame) => !isCitation(frame))
      const first = moved.findIndex((frame) => (frame as Json).type === 'response.output_text.delta')
      for (const [index, citation] of frames.filter(isCitation).entries())
        moved.splice(first + 1 + (delays[index]! % 3), 0, citation)
      const context = searching('messages')
      const reader = readerFor('responses', {}, context.request)
      const events = [...framesOf(moved).flatMap((frame) => reader.read(frame)), ...reader.end()]
      checkGrammar(events)
      const { content, citations } = readWireResponse('messages', written(context, events), true)
      const from = readWireResponse('responses', framed(frames), true)
      expect(inBlocks(content.text)).toBe(inBlocks(from.content.text))
      expectSources(citations, from.citations)
    }),
    { numRuns: 200, examples },
  )
})

describe('thousands of citations of a long text', () => {
  const COUNT = 2_000
  const SENTENCE = 'Zürich 😀 is nice. '
  const PARAGRAPH = SENTENCE.repeat(10)
  const paragraphs = Array.from({ length: COUNT }, () => PARAGRAPH)
  const codePoints = [...PARAGRAPH].length

  /** A long text, without citations and with them. */
  type Streams = { plain: object[]; cited: object[] }

  function streamsOfResponses(): Streams {
    const completed = { type: 'response.completed', response: { status: 'completed', output: [] } }
    return {
      plain: [{ type: 'response.created', response: {} }, ...paragraphs.map(delta), completed],
      cited: [
        { type: 'response.created', response: {} },
        ...paragraphs.flatMap((text, i) => [
          delta(text),
          added(urlCitation(i * codePoints, i * codePoints + 9, `https://e.com/${i}`)),
        ]),
        completed,
      ],
    }
  }

  function streamsOfMessages(): Streams {
    const citationOf = (index: number): object => ({
      type: 'web_search_result_location',
      url: `https://e.com/${index}`,
      title: 'E',
      cited_text: '',
      encrypted_index: '',
    })
    const streamOf = (blockOf: (text: string, index: number) => object): object[] => [
      { type: 'message_start', message: {} },
      ...paragraphs.flatMap((text, index) => [
        { type: 'content_block_start', index, content_block: blockOf(text, index) },
        { type: 'content_block_stop', index },
      ]),
      { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
      { type: 'message_stop' },
    ]
    return {
      plain: streamOf((text) => ({ type: 'text', text })),
      cited: streamOf((text, index) => ({ type: 'text', text, citations: [citationOf(index)] })),
    }
  }

  /** Each passage contains all those after it, and its quoted text, which decides, is not in the response. */
  function streamsOfGemini(): Streams {
    const chunks = paragraphs.map((text) => ({ candidates: [{ content: { parts: [{ text }] } }] }))
    const end = { finishReason: 'STOP' }
    const groundingMetadata = {
      groundingChunks: [{ web: { uri: 'https://e.com/', title: 'E' } }],
      groundingSupports: paragraphs.map((text, i) =>
        supportOf(
          {
            startIndex: i,
            endIndex: Buffer.byteLength(text) * (COUNT - i),
            ...(i % 2 === 0 ? {} : { text: `nowhere ${i}` }),
          },
          0,
        ),
      ),
    }
    return {
      plain: [...chunks, { candidates: [end] }],
      cited: [...chunks, { candidates: [{ ...end, groundingMetadata }] }],
    }
  }

  /** The processor time of a translation and the characters it writes: the least of three, or the first below `ms`. */
  function measure(
    provider: ConversationName,
    client: ConversationName,
    data: object[],
    ms = 0,
  ): { ms: number; length: number } {
    let least = measureOnce(provider, client, data)
    for (let more = 2; more > 0 && least.ms >= ms; more--) {
      const one = measureOnce(provider, client, data)
      if (one.ms < least.ms) least = one
    }
    return least
  }

  function measureOnce(
    provider: ConversationName,
    client: ConversationName,
    data: object[],
  ): { ms: number; length: number } {
    const context = searching(client)
    const frames = data.map((one) => ({ data: JSON.stringify(one) }))
    const begin = process.cpuUsage()
    const reader = readerFor(provider, {}, context.request)
    const writer = protocols[client].serve.writer(context)
    let length = 0
    for (const event of [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()])
      for (const frame of writer.write(event)) length += frame.data.length
    return { ms: process.cpuUsage(begin).user / 1_000, length }
  }

  const streams: [ConversationName, Streams][] = [
    ['responses', streamsOfResponses()],
    ['messages', streamsOfMessages()],
    ['generateContent', streamsOfGemini()],
  ]
  for (const [provider, { plain, cited }] of streams)
    for (const client of NAMES)
      test(`of ${provider} take ${client} time and space in proportion to their number`, () => {
        const without = measure(provider, client, plain)
        const mostMs = 40 * without.ms + 200
        const within = measure(provider, client, cited, mostMs)
        // Quadratic growth took 200 times as long, and hundreds of times the space.
        expect(within.ms).toBeLessThan(mostMs)
        expect(within.length).toBeLessThan(5 * without.length + 20 * COUNT * PARAGRAPH.length)
      })
})

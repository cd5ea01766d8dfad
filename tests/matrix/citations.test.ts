import { eventsFor, readerFor } from '../translating.ts'
import { LossReport, type Loss } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { framed } from '../gateway/scripted.ts'
import { checkGrammar } from '../grammar.ts'
import type { Any } from '../recorded/response-content.ts'
import { wireOf, type Reply, type ReplyPart } from './answering.ts'
import { bodyOf } from './asking.ts'
import { heard, type Citation } from './reading.ts'

/**
 * Passages that an answer cites, in the units of four protocols: UTF-16 within, code points at OpenAI's, bytes at
 * Google's, blocks at Anthropic's.
 */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

type Kept = TranslationContext

function exchangeOf(client: ConversationName): Kept {
  const body: Record<string, unknown> = {
    ...(client === 'generateContent' ? {} : { model: 'a/b' }),
    ...bodyOf(client, { turns: [{ user: 'hi' }] }, false),
  }
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000, issuer: { provider: 'p', model: 'm' } },
    losses: new LossReport(),
  }
}

const framesIn = (text: string): { event?: string; data: string }[] =>
  text
    .split('\n\n')
    .filter((block) => block.startsWith('data: ') || block.includes('\ndata: '))
    .map((block) => ({ data: block.slice(block.indexOf('data: ') + 6) }))

/** Events of a provider's answer, whole or streamed. */
function eventsOf(
  provider: ConversationName,
  { whole, frames }: { whole: object; frames: (object | string)[] },
  stream: boolean,
  client: ConversationName,
): GenerationEvent[] {
  const { request } = exchangeOf(client)
  if (!stream) return eventsFor(provider, JSON.parse(JSON.stringify(whole)), {}, request)
  const reader = readerFor(provider, {}, request)
  return [...framesIn(framed(frames)).flatMap((frame) => reader.read(frame)), ...reader.end()]
}

/** What the client reads, in the text of its protocol. */
function toldTo(
  client: ConversationName,
  events: GenerationEvent[],
  stream: boolean,
): { text: string; losses: Loss[] } {
  const context = exchangeOf(client)
  if (!stream)
    return {
      text: JSON.stringify(protocols[client].serve.writeResponse(fold(events), context)),
      losses: context.losses!.losses,
    }
  const writer = protocols[client].serve.writer(context)
  const text = events
    .flatMap((event) => writer.write(event))
    .map(({ data }) => `data: ${data}\n\n`)
    .join('')
  return { text, losses: context.losses!.losses }
}

const sorted = (citations: Citation[]): string[] =>
  citations.map(({ url, title, passage }) => JSON.stringify([url, title, passage])).toSorted()

const words = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }),
  fc.constantFrom('😀', '👨‍👩‍👧 ', 'e\u0301', '東京。', 'a\n\n', '\u{10ffff}', ' '),
)
const REPLY: Omit<Reply, 'parts'> = {
  ending: 'stop',
  usage: { prompt: 4, cached: 0, written: 0, completion: 2, reasoning: 0 },
}
const replies: fc.Arbitrary<Reply> = fc
  .array(fc.tuple(words, fc.boolean()), { minLength: 1, maxLength: 8 })
  .map((pieces) => ({
    parts: pieces.map(([text, cited], index) => ({
      type: 'text' as const,
      text,
      ...(cited ? { cite: { passage: text, url: `https://example.com/${index}`, title: `Über ${index}` } } : {}),
    })),
    ...REPLY,
  }))

describe('a cited passage is the same passage', () => {
  for (const provider of NAMES)
    for (const client of NAMES)
      for (const stream of [false, true])
        test(`${provider} -> ${client}${stream ? ', streamed' : ''}`, () => {
          fc.assert(
            fc.property(replies, (reply) => {
              const rawRequest = wireOf(provider, reply)
              const { text, losses } = toldTo(client, eventsOf(provider, rawRequest, stream, client), stream)
              const from = heard(
                provider,
                stream ? framed(rawRequest.frames) : JSON.stringify(rawRequest.whole),
                stream,
              )
              const to = heard(client, text, stream)
              expect(to.said.text).toBe(from.said.text)
              // A stream has told the text before it knows what of it is cited; a block cannot begin in what is told.
              if (
                client === 'messages' &&
                stream &&
                losses.some(({ path, effect }) => path === 'response.citations' && effect === 'approximated')
              ) {
                expect(to.citations.map(({ url }) => url).toSorted()).toEqual(
                  from.citations.map(({ url }) => url).toSorted(),
                )
                return
              }
              expect(sorted(to.citations)).toEqual(sorted(from.citations))
            }),
            { numRuns: 60 },
          )
        })
})

const url_citation = (start_index: unknown, end_index: unknown, url = 'https://e.com'): Any => ({
  type: 'url_citation',
  url,
  title: 'E',
  start_index,
  end_index,
})
const annotated: Record<'chat.completions' | 'responses', (text: string, annotations: Any[]) => object> = {
  'chat.completions': (text, annotations) => ({
    id: 'c',
    choices: [
      {
        index: 0,
        finish_reason: 'stop',
        message: {
          role: 'assistant',
          content: text,
          annotations: annotations.map(({ type, ...cited }) => ({ type, url_citation: cited })),
        },
      },
    ],
  }),
  responses: (text, annotations) => ({
    id: 'r',
    status: 'completed',
    output: [{ type: 'message', id: 'm', content: [{ type: 'output_text', text, annotations }] }],
  }),
}
const grounded = (parts: object[], grounding: object): object => ({
  candidates: [
    {
      content: { role: 'model', parts },
      finishReason: 'STOP',
      groundingMetadata: {
        groundingChunks: [{ web: { uri: 'https://e.com', title: 'E' } }, { web: { uri: 'https://f.com', title: 'F' } }],
        ...grounding,
      },
    },
  ],
})
const support = (segment: object, ...groundingChunkIndices: number[]): object => ({ segment, groundingChunkIndices })

const whole = (
  provider: ConversationName,
  body: object,
  client: ConversationName,
): { answer: Any; citations: Citation[]; losses: Loss[] } => {
  const { text, losses } = toldTo(client, eventsOf(provider, { whole: body, frames: [] }, false, client), false)
  return { answer: JSON.parse(text) as Any, citations: heard(client, text, false).citations, losses }
}

describe('offsets that are none', () => {
  const odd = fc.oneof(fc.integer(), fc.double(), fc.constantFrom(null, undefined, '3', 1e400, -0, [2], {}))
  for (const provider of NAMES)
    for (const client of NAMES)
      test(`${provider} -> ${client}: the text is whole, and nothing is cited that is not there`, () => {
        fc.assert(
          fc.property(fc.array(fc.tuple(odd, odd, odd), { maxLength: 4 }), (ranges) => {
            const annotations = ranges.map(([start, end]) => url_citation(start, end))
            const body =
              provider === 'chat.completions' || provider === 'responses'
                ? annotated[provider]('Où? 🗼!', annotations)
                : provider === 'messages'
                  ? {
                      type: 'message',
                      stop_reason: 'end_turn',
                      content: [
                        {
                          type: 'text',
                          text: 'Où? 🗼!',
                          citations: ranges.map(([start, end]) => ({
                            type: 'char_location',
                            cited_text: 'x',
                            start_char_index: start,
                            end_char_index: end,
                          })),
                        },
                      ],
                    }
                  : grounded([{ text: 'Où? 🗼!' }], {
                      groundingSupports: ranges.map(([startIndex, endIndex, partIndex]) =>
                        support({ startIndex, endIndex, partIndex }, 0),
                      ),
                    })
            const { text } = toldTo(client, eventsOf(provider, { whole: body, frames: [] }, false, client), false)
            const { said, citations } = heard(client, text, false)
            expect(said.text).toBe('Où? 🗼!')
            for (const { passage } of citations) expect('Où? 🗼!').toContain(passage)
          }),
          { numRuns: 100 },
        )
      })
})

describe('to blocks', () => {
  test('a text is cut where its passages begin and end', () => {
    const { answer, losses } = whole(
      'responses',
      annotated.responses('🗼 is in Paris, France.', [
        url_citation(2, 13, 'https://b.com'),
        url_citation(0, 1, 'https://a.com'),
        url_citation(2, 13, 'https://c.com'),
      ]),
      'messages',
    )
    expect(
      answer.content.map(({ text, citations }: Any) => [text, ...(citations ?? []).map(({ url }: Any) => url)]),
    ).toEqual([['🗼', 'https://a.com'], [' '], ['is in Paris', 'https://b.com', 'https://c.com'], [', France.']])
    expect(losses).toEqual([])
  })

  test('passages that overlap are one block, which is told', () => {
    const { answer, losses } = whole(
      'chat.completions',
      annotated['chat.completions']('one two three', [
        url_citation(0, 7, 'https://a.com'),
        url_citation(4, 13, 'https://b.com'),
      ]),
      'messages',
    )
    expect(
      answer.content.map(({ text, citations }: Any) => [text, ...(citations ?? []).map(({ url }: Any) => url)]),
    ).toEqual([['one two three', 'https://a.com', 'https://b.com']])
    expect(losses).toEqual([
      {
        code: 'response_citation_adjusted',
        path: 'response.citations',
        effect: 'approximated',
        reason: expect.any(String) as string,
      },
    ])
  })

  test('words of the answer are not told as words of the source', () => {
    const { answer } = whole(
      'generateContent',
      grounded([{ text: 'In Paris.' }], {
        groundingSupports: [support({ startIndex: 3, endIndex: 8, text: 'Paris' }, 0)],
      }),
      'messages',
    )
    expect(answer.content[1]).toEqual({
      type: 'text',
      text: 'Paris',
      citations: [
        { type: 'web_search_result_location', url: 'https://e.com', title: 'E', cited_text: '', encrypted_index: '' },
      ],
    })
  })
})

describe("Google's grounding", () => {
  test('counts in parts, or in the whole text, and its words decide', () => {
    const parts = [{ text: 'Hmm.', thought: true }, { text: '🗼 a a' }, { text: ' a' }]
    const segments = [
      { partIndex: 2, startIndex: 1, endIndex: 2 },
      { partIndex: 1, startIndex: 7, endIndex: 8, text: 'a' },
      { startIndex: 5, endIndex: 6, text: 'a' },
      { startIndex: 8, endIndex: 10, text: 'a a' },
      { text: 'nowhere' },
    ]
    const [part] = fold(
      eventsOf(
        'generateContent',
        { whole: grounded(parts, { groundingSupports: segments.map((segment) => support(segment, 0)) }), frames: [] },
        false,
        'responses',
      ),
    ).parts.filter(({ type }) => type === 'text')
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

  test('adds to its sources while it streams, and may say them all again', () => {
    const chunk = (text: string, groundingMetadata: object, more: object = {}): object => ({
      candidates: [{ content: { role: 'model', parts: [{ text }] }, groundingMetadata, ...more }],
    })
    const [a, b] = [{ web: { uri: 'https://a.com', title: 'A' } }, { web: { uri: 'https://b.com', title: 'B' } }]
    const first = support({ endIndex: 3, text: 'one' }, 0)
    const second = support({ startIndex: 4, endIndex: 7, text: 'two' }, 1)
    for (const later of [
      { groundingChunks: [b], groundingSupports: [second] },
      { groundingChunks: [a, b], groundingSupports: [first, second] },
    ]) {
      const { text } = toldTo(
        'chat.completions',
        eventsOf(
          'generateContent',
          {
            whole: {},
            frames: [
              chunk('one', { groundingChunks: [a], groundingSupports: [first] }),
              chunk(' two', later, { finishReason: 'STOP' }),
            ],
          },
          true,
          'chat.completions',
        ),
        true,
      )
      expect(heard('chat.completions', text, true).citations).toEqual([
        { url: 'https://a.com', title: 'A', passage: 'one' },
        { url: 'https://b.com', title: 'B', passage: 'two' },
      ])
    }
  })

  test('what more it says of its searches is told as left out', () => {
    const { losses } = whole(
      'generateContent',
      grounded([{ text: 'x' }], {
        webSearchQueries: ['where'],
        searchEntryPoint: { renderedContent: '<p>' },
        retrievalMetadata: {},
      }),
      'chat.completions',
    )
    expect(losses.map(({ path, effect }) => `${path} ${effect}`)).toEqual([
      'response.citations approximated',
      'response.webSearchQueries dropped',
      'response.searchEntryPoint dropped',
    ])
  })
})

describe('sources as providers of chat completions name them', () => {
  const answer = (message: Any, more: object = {}): object => ({
    id: 'c',
    choices: [
      { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'In Paris [1].', ...message } },
    ],
    ...more,
  })
  const told = (body: object): { sources: string[]; losses: string[] } => {
    const {
      answer: { content },
      losses,
    } = whole('chat.completions', body, 'messages')
    return {
      sources: content.flatMap(({ citations }: Any) =>
        (citations ?? []).map(({ url, title, cited_text }: Any) => [url, title, cited_text].join()),
      ),
      losses: losses.map(({ path, effect }) => `${path} ${effect}`),
    }
  }
  const found = { search_results: [{ title: 'A', url: 'https://a.com', snippet: 'words' }] }
  test.each([
    [
      'a list of addresses',
      answer({}, { citations: ['https://a.com', 'https://b.com'] }),
      ['https://a.com,,', 'https://b.com,,'],
    ],
    ['what was found for them', answer({}, { citations: ['https://a.com'], ...found }), ['https://a.com,A,words']],
    ['what was found alone', answer({}, found), ['https://a.com,A,words']],
    [
      'a list beside passages',
      answer(
        {
          annotations: [
            { type: 'url_citation', url_citation: { url: 'https://a.com', title: 'P', start_index: 3, end_index: 8 } },
          ],
        },
        { citations: ['https://a.com', 'https://b.com'] },
      ),
      ['https://a.com,P,', 'https://b.com,,'],
    ],
  ] as [string, object, string[]][])('%s', (_, body, sources) => expect(told(body).sources).toEqual(sources))

  test.each([
    [
      "a file's text",
      answer({ annotations: [{ type: 'file', file: { name: 'x.pdf', content: [] } }] }),
      'response.annotations',
    ],
    [
      'references to what tools found',
      answer({
        content: [
          { type: 'text', text: 'In Paris' },
          { type: 'reference', reference_ids: [1] },
        ],
      }),
      'response.reference',
    ],
    [
      'sources of no text',
      answer(
        { content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
        found,
      ),
      'response.annotations',
    ],
  ] as [string, object, string][])('%s are told as left out', (_, body, field) =>
    expect(told(body)).toEqual({ sources: [], losses: [`${field} dropped`] }),
  )

  test('a stream that calls a tool behind what it cites', () => {
    const chunk = (delta: object, finish_reason: string | null = null): object => ({
      choices: [{ index: 0, delta, finish_reason }],
    })
    const annotation = (start_index: number, end_index: number, url: string): object => ({
      annotations: [{ type: 'url_citation', url_citation: { url, title: 'E', start_index, end_index } }],
    })
    const frames = [
      chunk({ content: '🗼 one' }),
      chunk(annotation(2, 5, 'https://a.com')),
      chunk({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] }),
      chunk({ content: '🗼 two' }),
      chunk(annotation(7, 10, 'https://b.com')),
      chunk({}, 'stop'),
    ]
    for (const client of NAMES.filter((name) => name !== 'chat.completions')) {
      const events = eventsOf('chat.completions', { whole: {}, frames }, true, client)
      checkGrammar(events)
      const { citations } = heard(client, toldTo(client, events, true).text, true)
      expect(citations.map(({ url, passage }) => [url, passage])).toEqual(
        client === 'messages'
          ? [
              ['https://a.com', '🗼 one'],
              ['https://b.com', '🗼 two'],
            ]
          : [
              ['https://a.com', 'one'],
              ['https://b.com', 'two'],
            ],
      )
    }
  })
})

test('sources of nothing, and sources that nobody knows, are told as left out', () => {
  const files = [
    { type: 'file_path', file_id: 'f', index: 1 },
    { type: 'file_citation', file_id: 'f', filename: 'x.txt', index: 1 },
  ]
  const { answer, losses } = whole('responses', annotated.responses('In Paris.', files), 'generateContent')
  expect(answer.candidates[0].groundingMetadata).toEqual({
    groundingChunks: [{ retrievedContext: { title: 'x.txt' } }],
  })
  expect(losses.map(({ path, effect }) => `${path} ${effect}`)).toContain('response.citations dropped')
  for (const [parts, groundingChunks] of [
    [[{ functionCall: { name: 'f', args: {} } }], [{ web: { uri: 'https://a.com', title: 'A' } }]],
    [[{ text: 'x' }], [{ newer: {} }]],
  ] as const) {
    expect(
      whole('generateContent', grounded([...parts], { groundingChunks }), 'chat.completions').losses,
    ).toContainEqual(
      expect.objectContaining({ code: 'response_content_native', path: 'response.groundingChunks' }) as Loss,
    )
  }
})

test('of a stream whose provider cites a passage right behind it, the passage is a block of its own', () => {
  const text = ['It is ', 'sunny 🗼 ', '([a](https://a.com)). ', 'And ', 'warm', '.']
  const at = (passage: string): [number, number] => [
    [...text.join('').split(passage)[0]!].length,
    [...(text.join('').split(passage)[0]! + passage)].length,
  ]
  const annotation = (passage: string, url: string): object => ({
    type: 'response.output_text.annotation.added',
    output_index: 0,
    content_index: 0,
    annotation: url_citation(...at(passage), url),
  })
  const delta = (piece: string): object => ({
    type: 'response.output_text.delta',
    output_index: 0,
    content_index: 0,
    delta: piece,
  })
  const frames = [
    { type: 'response.created', response: { id: 'r' } },
    { type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'm', content: [] } },
    ...text.slice(0, 3).map(delta),
    annotation('([a](https://a.com))', 'https://a.com'),
    annotation('([a](https://a.com))', 'https://b.com'),
    delta(text[3]!),
    annotation('sunny', 'https://late.com'),
    delta(text[4]!),
    annotation('warm', 'https://c.com'),
    delta(text[5]!),
    { type: 'response.completed', response: { id: 'r', status: 'completed', output: [] } },
  ]
  const context = exchangeOf('messages')
  const request = { ...context.request, webSearch: {} }
  const reader = readerFor('responses', {}, request)
  const events = [...framesIn(framed(frames)).map((frame) => reader.read(frame)), reader.end()]
  checkGrammar(events.flat())
  // A piece waits for the next event, and no longer.
  expect(
    events
      .slice(3, 5)
      .flat()
      .flatMap((event) => (event.type === 'part-delta' ? [event.text] : [])),
  ).toEqual(['It is ', 'sunny 🗼 '].slice(0, 2))
  const writer = protocols.messages.serve.writer(context)
  const told = events
    .flat()
    .flatMap((event) => writer.write(event))
    .map(({ data }) => `data: ${data}\n\n`)
    .join('')
  const { again } = heard('messages', told, true)
  expect(
    (again as Any[]).map(({ text: piece, citations }) => [piece, ...(citations ?? []).map(({ url }: Any) => url)]),
  ).toEqual([
    ['It is sunny 🗼 '],
    ['([a](https://a.com))', 'https://a.com', 'https://b.com'],
    ['. And '],
    ['warm', 'https://c.com'],
    ['.', 'https://late.com'],
  ])
  expect(context.losses!.losses.map(({ path, effect }) => `${path} ${effect}`)).toEqual([
    'response.citations approximated',
  ])
})

test('wherever the citations come in such a stream, text and sources are whole', () => {
  const later = fc.array(fc.nat(9), { minLength: 8, maxLength: 8 })
  const cited = (text: string): ReplyPart => ({
    type: 'text',
    text,
    cite: { passage: text, url: 'https://example.com/', title: 'E' },
  })
  const examples: [Reply, number[]][] = [
    // Of a text in one piece, the citation comes behind the part that holds it, too.
    [{ parts: [cited(' ')], ...REPLY }, [5, 0, 0, 0, 0, 0, 0, 0]],
    // And before its text.
    [{ parts: [{ type: 'text', text: 'one, two, three, ' }, cited('four')], ...REPLY }, [0, 0, 0, 0, 0, 0, 0, 0]],
  ]
  fc.assert(
    fc.property(replies, later, (reply, delays) => {
      const { frames } = wireOf('responses', reply)
      const isCitation = (frame: object | string): boolean =>
        (frame as Any).type === 'response.output_text.annotation.added'
      const moved = frames.filter((frame) => !isCitation(frame))
      const first = moved.findIndex((frame) => (frame as Any).type === 'response.output_text.delta')
      for (const [index, citation] of frames.filter(isCitation).entries())
        moved.splice(first + 1 + (delays[index]! % 3), 0, citation)
      const context = exchangeOf('messages')
      const reader = readerFor('responses', {}, { ...context.request, webSearch: {} })
      const events = [...framesIn(framed(moved)).flatMap((frame) => reader.read(frame)), ...reader.end()]
      checkGrammar(events)
      const writer = protocols.messages.serve.writer(context)
      const { said, citations } = heard(
        'messages',
        events
          .flatMap((event) => writer.write(event))
          .map(({ data }) => `data: ${data}\n\n`)
          .join(''),
        true,
      )
      const from = heard('responses', framed(frames), true)
      expect(said.text).toBe(from.said.text)
      expect(citations.map(({ url }) => url).toSorted()).toEqual(from.citations.map(({ url }) => url).toSorted())
    }),
    { numRuns: 200, examples },
  )
})

describe('thousands of citations over a long text', () => {
  const piece = 'Zürich 😀 is nice. ',
    count = 2_000,
    long = 10 * piece.length
  const points = [...piece].length * 10
  const texts = Array.from({ length: count }, () => piece.repeat(10))
  const at = { output_index: 0, content_index: 0 }
  const delta = (text: string): object => ({ type: 'response.output_text.delta', ...at, delta: text })
  const streams: Partial<Record<ConversationName, { plain: object[]; cited: object[] }>> = {
    responses: {
      plain: [
        { type: 'response.created', response: {} },
        ...texts.map(delta),
        { type: 'response.completed', response: { status: 'completed', output: [] } },
      ],
      cited: [
        { type: 'response.created', response: {} },
        ...texts.flatMap((text, i) => [
          delta(text),
          {
            type: 'response.output_text.annotation.added',
            ...at,
            annotation: url_citation(i * points, i * points + 9, `https://e.com/${i}`),
          },
        ]),
        { type: 'response.completed', response: { status: 'completed', output: [] } },
      ],
    },
    messages: (() => {
      const blocks = (cited: boolean): object[] => [
        { type: 'message_start', message: {} },
        ...texts.flatMap((text, index) => [
          {
            type: 'content_block_start',
            index,
            content_block: {
              type: 'text',
              text,
              ...(cited
                ? {
                    citations: [
                      {
                        type: 'web_search_result_location',
                        url: `https://e.com/${index}`,
                        title: 'E',
                        cited_text: '',
                        encrypted_index: '',
                      },
                    ],
                  }
                : {}),
            },
          },
          { type: 'content_block_stop', index },
        ]),
        { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
        { type: 'message_stop' },
      ]
      return { plain: blocks(false), cited: blocks(true) }
    })(),
    generateContent: (() => {
      const chunks = texts.map((text) => ({ candidates: [{ content: { parts: [{ text }] } }] })),
        end = { finishReason: 'STOP' }
      // Each passage holds all those behind it, and its words, which decide, are nowhere.
      const supports = texts.map((_, i) =>
        support(
          {
            startIndex: i,
            endIndex: Buffer.byteLength(piece) * 10 * (count - i),
            ...(i % 2 === 0 ? {} : { text: `nowhere ${i}` }),
          },
          0,
        ),
      )
      return {
        plain: [...chunks, { candidates: [end] }],
        cited: [
          ...chunks,
          {
            candidates: [
              {
                ...end,
                groundingMetadata: {
                  groundingChunks: [{ web: { uri: 'https://e.com/', title: 'E' } }],
                  groundingSupports: supports,
                },
              },
            ],
          },
        ],
      }
    })(),
  }

  const timed = (
    provider: ConversationName,
    client: ConversationName,
    frames: object[],
  ): { ms: number; length: number } => {
    const context = exchangeOf(client),
      data = frames.map((frame) => ({ data: JSON.stringify(frame) }))
    const begun = performance.now()
    const reader = readerFor(provider, {}, { ...context.request, webSearch: {} }),
      writer = protocols[client].serve.writer(context)
    let length = 0
    for (const event of [...data.flatMap((frame) => reader.read(frame)), ...reader.end()])
      for (const frame of writer.write(event)) length += frame.data.length
    return { ms: performance.now() - begun, length }
  }

  for (const [provider, { plain, cited }] of Object.entries(streams))
    for (const client of NAMES)
      test(`${provider} -> ${client}: take no more than their share`, () => {
        const [without, within] = [
          timed(provider as ConversationName, client, plain),
          timed(provider as ConversationName, client, cited),
        ]
        // What grows with the square of their number took 200 times as long, and hundreds of times the room.
        expect(within.ms).toBeLessThan(40 * without.ms + 200)
        expect(within.length).toBeLessThan(5 * without.length + 20 * count * long)
      })
})

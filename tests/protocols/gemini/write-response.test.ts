import { describe, expect, test } from 'bun:test'
import { GatewayError, invalid } from '../../../src/error.ts'
import { fold, type FinishReason, type GenerationEvent } from '../../../src/generation/event.ts'
import { unwrapSignature } from '../../../src/generation/signature.ts'
import { writeError } from '../../../src/protocols/gemini/write-error.ts'
import { writeResponse } from '../../../src/protocols/gemini/write-response.ts'
import { GeminiResponseWriter } from '../../../src/protocols/gemini/write-response-stream.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { chunkOf, chunksOf, contextOf, eventsOf, hello, type Json } from './building.ts'

/** Responses to clients of generateContent, whole and streamed. */

const start: GenerationEvent = { type: 'start', id: 'up-1', model: 'up-model' }
const stop: GenerationEvent = { type: 'finish', reason: 'stop', raw: 'end_turn' }
const usage: GenerationEvent = {
  type: 'usage',
  usage: { inputTokens: 5, cacheReadTokens: 3, cacheWrite5mTokens: 2, outputTokens: 7, reasoningTokens: 4 },
}
const part = (
  number: number,
  head: Extract<GenerationEvent, { type: 'part-start' }>['head'],
  deltas: string[],
  signature?: string,
): GenerationEvent[] => [
  { type: 'part-start', part: number, head },
  ...deltas.map((text): GenerationEvent => ({ type: 'part-delta', part: number, text })),
  { type: 'part-end', part: number, ...(signature === undefined ? {} : { signature }) },
]
const tool = (args: string[], form: 'function' | 'custom' = 'function') =>
  part(0, { type: 'tool-call', id: 'c1', name: 'f', form }, args)
const partsOf = (chunks: Json[]) => chunks.flatMap((one) => one['candidates']?.[0]?.content?.parts ?? [])

describe('a stream', () => {
  test('has text as it comes, usage and reason in the last chunk, and an identity in each chunk', () => {
    const chunks = chunksOf([start, ...part(0, { type: 'text' }, ['Hel', 'lo']), usage, stop])
    expect(partsOf(chunks)).toEqual([{ text: 'Hel' }, { text: 'lo' }, { text: '' }])
    expect(chunks.map((one) => one['candidates'][0].finishReason)).toEqual([undefined, undefined, 'STOP'])
    expect(chunks.at(-1)!['usageMetadata']).toEqual({
      promptTokenCount: 10,
      candidatesTokenCount: 7,
      thoughtsTokenCount: 4,
      cachedContentTokenCount: 3,
      totalTokenCount: 21,
    })
    for (const one of chunks)
      expect(one).toMatchObject({
        responseId: 'gen-1',
        modelVersion: 'acme/model',
        createTime: '2023-11-14T22:13:20.000Z',
        candidates: [{ index: 0, content: { role: 'model' } }],
      })
  })

  test('has a call in one piece with its id', () => {
    expect(partsOf(chunksOf([start, ...tool(['{"b":1,', '"a":12345678901234567890}']), stop]))[0].functionCall.id).toBe(
      'c1',
    )
    const writer = new GeminiResponseWriter(contextOf())
    const data = [start, ...tool(['{"b":1,', '"a":12345678901234567890}'])]
      .flatMap((event) => writer.write(event))
      .map((frame) => frame.data)
      .join()
    expect(data).toContain('"args":{"b":1,"a":12345678901234567890}')
  })

  test('has {} for a call without arguments', () => {
    expect(partsOf(chunksOf([start, ...tool(['']), stop]))[0].functionCall.args).toEqual({})
  })

  test.each([['{"a":'], ['[1]'], ['nonsense'], [`{"a":"${'x'.repeat(40_000)}`]])(
    'has no call whose arguments are not an object, and says so at its end: %#',
    (text) => {
      const called = { type: 'finish', reason: 'tool-calls', raw: 'tool_calls' } as const
      const cut = { type: 'finish', reason: 'length', raw: 'length' } as const
      for (const [finish, expected] of [
        [called, { finishReason: 'MALFORMED_FUNCTION_CALL', finishMessage: 'Malformed function call: f' }],
        [cut, { finishReason: 'MAX_TOKENS' }],
      ] as const) {
        const events = [start, ...tool([text]), finish]
        const chunks = chunksOf(events)
        const whole = writeResponse(fold(events), contextOf()) as Json
        for (const [parts, candidate] of [
          [partsOf(chunks), chunks.at(-1)!.candidates[0]],
          [partsOf([whole]), whole.candidates[0]],
        ]) {
          expect(parts).toEqual([{ text: '' }])
          expect(candidate).toMatchObject(expected)
        }
      }
    },
  )

  test('has the calls beside one whose arguments are not an object', () => {
    const second = part(1, { type: 'tool-call', id: 'c2', name: 'g', form: 'function' }, ['{"b":1}'])
    const finish = { type: 'finish', reason: 'tool-calls', raw: 'tool_calls' } as const
    const issuer = { provider: 'p', model: 'm' }
    const events = [start, ...tool(['{']), ...second, finish]
    const whole = writeResponse(fold(events), contextOf(hello(), { issuer })) as Json
    const [call] = partsOf(chunksOf(events, contextOf(hello(), { issuer })))
    expect(call.functionCall).toEqual({ id: 'c2', name: 'g', args: { b: 1 } })
    expect(call.thoughtSignature).toBeString()
    expect(partsOf([whole])).toEqual([call])
  })

  test('has the free text of a custom tool as input', () => {
    expect(partsOf(chunksOf([start, ...tool(['a "b"'], 'custom'), stop]))[0].functionCall.args).toEqual({
      input: 'a "b"',
    })
  })

  test('only the first of several unsigned calls of another protocol has its issuer', () => {
    const issuer = { provider: 'p', model: 'm' }
    const second = part(1, { type: 'tool-call', id: 'c2', name: 'f', form: 'function' }, ['{}'])
    const events = [start, ...tool(['{}']), ...second, stop]
    const whole = writeResponse(fold(events), contextOf(hello(), { issuer })) as Json
    for (const parts of [partsOf([whole]), partsOf(chunksOf(events, contextOf(hello(), { issuer })))])
      expect(parts.slice(0, 2).map(({ thoughtSignature }) => typeof thoughtSignature)).toEqual(['string', 'undefined'])
  })

  test('has signatures wrapped with their issuer, and of redacted reasoning only the signature', () => {
    const issuer = { provider: 'p', model: 'm' }
    const events = [
      start,
      ...part(0, { type: 'reasoning' }, ['hm, ', 'so'], 'sig-0'),
      ...part(1, { type: 'reasoning', redacted: true }, [], 'sig-1'),
      ...part(2, { type: 'text' }, ['x'], 'sig-2'),
      stop,
    ]
    const parts = partsOf(chunksOf(events, contextOf(hello(), { issuer })))
    expect(
      parts.map(({ text, thought, thoughtSignature }) => [
        text,
        thought,
        thoughtSignature === undefined ? undefined : unwrapSignature(thoughtSignature),
      ]),
    ).toEqual([
      ['hm, ', true, undefined],
      ['so', true, { data: 'sig-0', issuer }],
      ['', true, { data: 'sig-1', issuer, note: 'hidden' }],
      ['x', undefined, undefined],
      ['', undefined, { data: 'sig-2', issuer }],
      ['', undefined, undefined],
    ])
  })

  test('has only the signature of reasoning that the client hides', () => {
    const context = contextOf(hello({ generationConfig: { thinkingConfig: { includeThoughts: false } } }))
    expect(partsOf(chunksOf([start, ...part(0, { type: 'reasoning' }, ['hm'], 's'), stop], context))).toEqual([
      { text: '', thought: true, thoughtSignature: 's' },
      { text: '' },
    ])
  })

  test('has citations in the last chunk with offsets in bytes of the whole text', () => {
    const citation = { url: 'https://example.com', title: 'T', start: 2, end: 4 }
    const chunks = chunksOf([
      start,
      ...part(0, { type: 'text' }, ['é. ']),
      ...part(1, { type: 'text' }, ['ö süß']),
      ...part(2, { type: 'citation', citation }, []),
      ...part(3, { type: 'citation', citation: { title: 'x.txt', citedText: 'Süß.' } }, []),
      stop,
    ])
    expect(chunks.at(-1)!['candidates'][0].groundingMetadata).toEqual({
      groundingChunks: [
        { web: { uri: 'https://example.com', title: 'T' } },
        { retrievedContext: { title: 'x.txt', text: 'Süß.' } },
      ],
      groundingSupports: [{ segment: { startIndex: 7, endIndex: 10, text: 'sü' }, groundingChunkIndices: [0] }],
    })
  })

  test('has an error as a data frame and as raw JSON, also where it is the first event', () => {
    const frames = new GeminiResponseWriter(contextOf()).write({
      type: 'error',
      error: new GatewayError('overloaded', 'Too much.'),
    })
    expect(frames.map(({ unprefixed }) => unprefixed)).toEqual([undefined, true])
    expect(frames[1]!.data).toBe(frames[0]!.data)
    expect(JSON.parse(frames[0]!.data)).toMatchObject({
      error: { code: 503, message: 'Too much.', status: 'UNAVAILABLE' },
    })
  })

  test.each<[FinishReason, string]>([
    ['stop', 'STOP'],
    ['stop-sequence', 'STOP'],
    ['tool-calls', 'STOP'],
    ['length', 'MAX_TOKENS'],
    ['content-filter', 'SAFETY'],
    ['refusal', 'SAFETY'],
    ['pause', 'OTHER'],
    ['other', 'OTHER'],
  ])('has for the reason %s the finishReason %s', (reason, finishReason) => {
    expect(chunksOf([start, { type: 'finish', reason, raw: 'x' }]).at(-1)!['candidates'][0].finishReason).toBe(
      finishReason,
    )
  })
})

describe('a whole response', () => {
  test('has all parts with their signatures, and sources of each part', () => {
    const citation = { url: 'https://example.com', start: 0, end: 1 }
    const answer = fold([
      start,
      ...part(0, { type: 'reasoning' }, ['hm'], 's0'),
      ...part(1, { type: 'text' }, ['é!'], 's1'),
      ...part(2, { type: 'citation', citation }, []),
      ...part(3, { type: 'tool-call', id: 'c', name: 'f', form: 'function' }, ['{}'], 's2'),
      ...part(4, { type: 'image', mediaType: 'image/png' }, ['AAAA'], 's3'),
      usage,
      { type: 'finish', reason: 'tool-calls', raw: '' },
    ])
    expect(writeResponse(answer, contextOf())).toMatchObject({
      candidates: [
        {
          content: {
            role: 'model',
            parts: [
              { text: 'hm', thought: true, thoughtSignature: 's0' },
              { text: 'é!', thoughtSignature: 's1' },
              { functionCall: { id: 'c', name: 'f', args: {} }, thoughtSignature: 's2' },
              { inlineData: { mimeType: 'image/png', data: 'AAAA' }, thoughtSignature: 's3' },
            ],
          },
          finishReason: 'STOP',
          index: 0,
          groundingMetadata: {
            groundingSupports: [{ segment: { partIndex: 1, startIndex: 0, endIndex: 2, text: 'é' } }],
          },
        },
      ],
      usageMetadata: { totalTokenCount: 21 },
      responseId: 'gen-1',
      modelVersion: 'acme/model',
    })
  })

  test("has the provider's reason where Google has none, and no hidden reasoning", () => {
    const context = contextOf(hello({ generationConfig: { thinkingConfig: { includeThoughts: false } } }))
    const write = (raw: string) =>
      writeResponse(
        fold([start, ...part(0, { type: 'reasoning' }, ['hm'], 's'), { type: 'finish', reason: 'other', raw }]),
        context,
      ) as { candidates: Record<string, unknown>[] }
    expect(write('odd').candidates[0]).toEqual({
      content: { role: 'model', parts: [{ text: '', thought: true, thoughtSignature: 's' }] },
      finishReason: 'OTHER',
      finishMessage: 'odd',
      index: 0,
    })
    expect(write('').candidates[0]).not.toHaveProperty('finishMessage')
  })

  test('without content has an empty text', () => {
    expect(writeResponse(fold([start, stop]), contextOf())).toMatchObject({
      candidates: [{ content: { parts: [{ text: '' }] }, finishReason: 'STOP' }],
    })
  })
})

test("metadata of a provider of the client's own protocol is written as it came", () => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: 'https://a' } }, { other: 1 }],
    searchEntryPoint: { renderedContent: '<b>' },
    webSearchQueries: ['q'],
  }
  const urlContextMetadata = { urlMetadata: [{ retrievedUrl: 'https://a' }] }
  const events = eventsOf([chunkOf([{ text: 'a' }], { finishReason: 'STOP', groundingMetadata, urlContextMetadata })])
  const expected = { groundingMetadata, urlContextMetadata }
  expect(partsOf(chunksOf(events))).toEqual([{ text: 'a' }, { text: '' }])
  expect(chunksOf(events).at(-1)!['candidates'][0]).toMatchObject(expected)
  expect(writeResponse(fold(events), contextOf())).toMatchObject({
    candidates: [{ ...expected, content: { parts: [{ text: 'a' }] } }],
  })
})

describe('an error body', () => {
  test('has the field of the error', () => {
    expect(writeError(invalid('contents[0].role', 'must be user'), 'req-1')).toMatchObject({
      error: {
        code: 400,
        status: 'INVALID_ARGUMENT',
        message: 'contents[0].role: must be user',
        details: expect.arrayContaining([
          {
            '@type': 'type.googleapis.com/google.rpc.BadRequest',
            fieldViolations: [{ field: 'contents[0].role', description: 'contents[0].role: must be user' }],
          },
        ]),
      },
    })
  })

  test('has a delay and a status', () => {
    expect(
      writeError(new GatewayError('rate_limit_exceeded', 'Slow down.', { retryAfterSeconds: 5 }), 'req-1'),
    ).toMatchObject({
      error: {
        code: 422,
        status: 'RESOURCE_EXHAUSTED',
        details: expect.arrayContaining([{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '5s' }]),
      },
    })
  })

  test('has the code, the metadata as texts, and the id of the request where there is one', () => {
    const detailsOf = (error: GatewayError, id?: string) => writeError(error, id).error.details
    const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'UPSTREAM_ERROR', domain: 'sluice' }
    expect(detailsOf(new GatewayError('upstream_error', 'x'))).toEqual([info])
    const error = new GatewayError('upstream_error', 'x', { details: { provider: 'p', tried: [1] } })
    expect(detailsOf(error, 'req-1')).toEqual([
      { ...info, metadata: { provider: 'p', tried: '[1]' } },
      { '@type': 'type.googleapis.com/google.rpc.RequestInfo', requestId: 'req-1' },
    ])
  })
})

describe('losses of a response', () => {
  const lossesOf = (events: GenerationEvent[]): { code: string; path: string }[] => {
    const losses = new LossReport()
    const context = { ...contextOf(), losses }
    const streamed = new LossReport()
    const writer = new GeminiResponseWriter({ ...context, losses: streamed })
    for (const event of events) writer.write(event)
    writeResponse(fold(events), context)
    const plain = (report: LossReport) => report.losses.map(({ code, path }) => ({ code, path }))
    const order = ({ code }: { code: string }) => code
    expect(plain(streamed).map(order).sort()).toEqual(plain(losses).map(order).sort())
    return plain(losses)
  }
  const citation = (fields: Json): GenerationEvent[] => [
    start,
    ...part(0, { type: 'text' }, ['a']),
    ...part(1, { type: 'citation', citation: fields }, []),
    stop,
  ]

  test('name arguments that are not complete', () => {
    expect(lossesOf([start, ...tool(['{"a":']), stop])).toEqual([
      { code: 'response_content_dropped', path: 'response.tool_calls.arguments' },
    ])
  })

  test('name a refusal, native content and bytes of tokens', () => {
    const native = { type: 'native', protocol: 'messages', kind: 'k', value: {} } as const
    const logprobs = [{ token: 'a', logprob: -1, bytes: [97] }]
    expect(
      lossesOf([
        start,
        ...part(0, { type: 'refusal' }, ['no']),
        ...part(1, native, []),
        { type: 'part-start', part: 2, head: { type: 'text' } },
        { type: 'part-delta', part: 2, text: 'a', logprobs },
        { type: 'part-end', part: 2 },
        stop,
      ]),
    ).toEqual([
      { code: 'response_content_as_text', path: 'response.refusal' },
      { code: 'response_content_native', path: 'response.k' },
      { code: 'response_field_adjusted', path: 'response.logprobs' },
    ])
  })

  test('name citations without a source or with more than a source', () => {
    expect(lossesOf(citation({ start: 0, end: 1 }))).toEqual([
      { code: 'response_citation_dropped', path: 'response.citations' },
    ])
    for (const fields of [
      { url: 'https://a', citedText: 'x' },
      { title: 'T', native: {} },
    ])
      expect(lossesOf(citation(fields))).toEqual([{ code: 'response_citation_adjusted', path: 'response.citations' }])
    for (const fields of [{ url: 'https://a' }, { title: 'T', citedText: 'x' }])
      expect(lossesOf(citation(fields))).toEqual([])
  })

  test('name usage and a finish reason that Google has no fields for', () => {
    const counted: GenerationEvent = { type: 'usage', usage: { cacheWrite5mTokens: 2, webSearches: 1 } }
    expect(lossesOf([start, counted, { type: 'finish', reason: 'refusal', raw: 'refusal' }])).toEqual([
      { code: 'response_finish_adjusted', path: 'response.finish_reason' },
      { code: 'response_usage_adjusted', path: 'response.usage' },
      { code: 'response_field_dropped', path: 'response.usage' },
    ])
  })
})

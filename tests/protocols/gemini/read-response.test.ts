import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import { chunkOf, eventsOf, requestOf, write } from './building.ts'

/** Responses of providers of generateContent, streamed and whole. */

const STOP = { finishReason: 'STOP' }
const last = (events: GenerationEvent[]) => events.at(-1)!
const partsOf = (chunks: unknown[]) => fold(eventsOf(chunks)).parts
const call = (functionCall: unknown, more = {}) => ({ functionCall, ...more })

describe('the end of a response', () => {
  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content-filter'],
    ['RECITATION', 'content-filter'],
    ['PROHIBITED_CONTENT', 'content-filter'],
    ['MALFORMED_FUNCTION_CALL', 'other'],
    ['NEW_REASON', 'other'],
  ] as const)('with finishReason %s is %s, and the reason is kept', (finishReason, reason) => {
    expect(last(eventsOf([chunkOf([{ text: 'a' }], { finishReason })]))).toEqual({
      type: 'finish',
      reason,
      raw: finishReason,
    })
  })

  test('with STOP after a call is tool-calls, and with another reason is not', () => {
    expect(last(eventsOf([chunkOf([call({ name: 'f' })], STOP)]))).toMatchObject({ reason: 'tool-calls', raw: 'STOP' })
    expect(last(eventsOf([chunkOf([call({ name: 'f' })], { finishReason: 'MAX_TOKENS' })]))).toMatchObject({
      reason: 'length',
    })
  })

  test('of a prompt that was blocked for a reason without a name is content-filter', () => {
    for (const blockReason of [null, {}, { toString: 1 }])
      expect(last(eventsOf([{ promptFeedback: { blockReason } }]))).toEqual({
        type: 'finish',
        reason: 'content-filter',
        raw: '',
      })
  })

  test('of a blocked prompt is content-filter', () => {
    expect(
      last(eventsOf([{ promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 3 } }])),
    ).toEqual({ type: 'finish', reason: 'content-filter', raw: 'SAFETY' })
  })

  test('has a reason also where the server sends numbers of protobuf', () => {
    expect(last(eventsOf([chunkOf([{ text: 'a' }], { finishReason: 2 })]))).toMatchObject({
      reason: 'length',
      raw: 'MAX_TOKENS',
    })
    expect(last(eventsOf([chunkOf([{ text: 'a' }], { finishReason: 0 })]))).toMatchObject({ type: 'error' })
  })

  test('is content-filter for feedback without a reason only where there is no candidate', () => {
    expect(last(eventsOf([{ promptFeedback: {} }]))).toMatchObject({ reason: 'content-filter' })
    for (const chunks of [
      [{ promptFeedback: {} }, chunkOf([{ text: 'a' }])],
      [chunkOf([{ text: 'a' }]), { promptFeedback: {} }],
    ])
      expect(last(eventsOf(chunks))).toMatchObject({ type: 'error' })
  })

  test('has the last of several finish reasons', () => {
    const events = eventsOf([
      chunkOf([{ text: 'a' }], STOP),
      chunkOf([{ text: 'b' }], STOP),
      chunkOf([{ text: 'c' }], { finishReason: 'MAX_TOKENS' }),
    ])
    expect(fold(events)).toMatchObject({ parts: [{ text: 'abc' }], finish: { reason: 'length' } })
  })

  test.each([[[chunkOf([{ text: 'a' }])]], [[]], [['not json', '[]', 'null', '{"this":1}']]])(
    'without a reason is an error: %j',
    (chunks) => {
      expect(last(eventsOf(chunks))).toMatchObject({
        type: 'error',
        error: { code: 'upstream_error', message: "The provider's stream ended before its answer was complete." },
      })
    },
  )

  test('is the first error in the stream', () => {
    const events = eventsOf([
      chunkOf([{ text: 'a' }]),
      { error: { code: 429, message: 'Too many.', status: 'RESOURCE_EXHAUSTED' } },
      chunkOf([{ text: 'b' }], STOP),
    ])
    expect(last(events)).toMatchObject({ type: 'error', error: { code: 'upstream_rate_limited' } })
    expect(events.filter((event) => event.type === 'part-delta')).toHaveLength(1)
  })

  test('is that of the first candidate, which is the response', () => {
    expect(
      partsOf([
        {
          candidates: [
            { index: 1, content: { parts: [{ text: 'b' }] } },
            { index: 0, content: { parts: [{ text: 'a' }] }, finishReason: 'STOP' },
          ],
        },
      ]),
    ).toEqual([{ type: 'text', text: 'a' }])
  })
})

test('ratings of the prompt and of the response are its filters', () => {
  const rating = { category: 'HARM_CATEGORY_HARASSMENT', probability: 'NEGLIGIBLE' }
  const blocked = { category: 'HARM_CATEGORY_HATE_SPEECH', probability: 'HIGH', blocked: true }
  const body = {
    promptFeedback: { safetyRatings: [rating] },
    candidates: [{ content: { parts: [{ text: 'a' }] }, safetyRatings: [blocked], finishReason: 'SAFETY' }],
  }
  expect(last(eventsOf([body]))).toMatchObject({
    reason: 'content-filter',
    filters: [
      { source: 'completion', blocked: true, results: { hate_speech: { filtered: true, severity: 'high' } } },
      {
        source: 'prompt',
        blocked: false,
        results: { harassment: { filtered: false, severity: 'safe' } },
        raw: [rating],
      },
    ],
  })
})

describe('parts of a response', () => {
  test('alternate between text and reasoning, of which pieces are joined', () => {
    expect(
      partsOf([
        chunkOf([{ text: 'x', thought: true }]),
        chunkOf([{ text: 'y', thought: true }]),
        chunkOf([{ text: 'a' }]),
        chunkOf([{ text: '' }]),
        chunkOf([{ text: 'b' }], STOP),
      ]),
    ).toEqual([
      { type: 'reasoning', form: 'summary', text: 'xy' },
      { type: 'text', text: 'ab' },
    ])
  })

  test('have the signatures of calls, text and empty last parts', () => {
    expect(
      partsOf([
        chunkOf([{ text: 'x', thought: true }]),
        chunkOf([call({ name: 'f', id: 'i' }, { thoughtSignature: 's1' })]),
        chunkOf([{ text: 'a' }]),
        chunkOf([{ text: '', thoughtSignature: 's2' }], STOP),
      ]),
    ).toEqual([
      { type: 'reasoning', form: 'summary', text: 'x' },
      { type: 'tool-call', id: 'i', name: 'f', arguments: '{}', form: 'function', signature: { data: 's1' } },
      { type: 'text', text: 'a' },
      { type: 'text', text: '', signature: { data: 's2' } },
    ])
    expect(partsOf([chunkOf([{ text: '', thought: true, thoughtSignature: 's' }], STOP)])).toEqual([
      { type: 'reasoning', redacted: true, text: '', signature: { data: 's' } },
    ])
    expect(partsOf([chunkOf([{ text: 'a' }, { thoughtSignature: 's' }], STOP)])).toEqual([
      { type: 'text', text: 'a' },
      { type: 'text', text: '', signature: { data: 's' } },
    ])
  })

  test('have log probabilities where they are text, and others are native', () => {
    const logprobsResult = { chosenCandidates: [{ token: 'a', logProbability: -1 }] }
    const ofText = partsOf([chunkOf([{ text: 'a' }], { ...STOP, logprobsResult })])
    expect(ofText).toMatchObject([{ type: 'text', logprobs: [{ token: 'a', logprob: -1 }] }])
    const native = { type: 'native', protocol: 'generateContent', kind: 'logprobs' }
    for (const part of [call({ name: 'f', id: 'i' }), { text: 'x', thought: true }])
      expect(partsOf([chunkOf([part], { ...STOP, logprobsResult })]).at(-1)).toMatchObject(native)
  })

  test('have arguments with numbers as they were spelled', () => {
    const text =
      '{"candidates":[{"content":{"parts":[{"functionCall":{"id":"i","name":"f",' +
      '"args":{"z":12345678901234567890,"a":1.0}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}'
    expect(fold(eventsOf([text]))).toMatchObject({
      parts: [{ arguments: '{"z":12345678901234567890,"a":1.0}' }],
      usage: { inputTokens: 3 },
    })
  })

  test('get ids of their response and position where calls have none', () => {
    const ids = partsOf([chunkOf([call({ name: 'f' }), call({ name: 'f' })], STOP)]).map(
      (part) => part.type === 'tool-call' && part.id,
    )
    expect(ids).toEqual(['call_up-1_0', 'call_up-1_1'])
    const nameless = () =>
      partsOf([{ candidates: [{ content: { parts: [call({ name: 'f' })] }, finishReason: 'STOP' }] }]).map(
        (part) => part.type === 'tool-call' && part.id,
      )[0]
    expect(nameless()).not.toBe(nameless())
  })

  test('have arguments that were streamed by JSON path', () => {
    const partial = (jsonPath: string, value: unknown) =>
      chunkOf([call({ partialArgs: [{ jsonPath, ...(value as object) }], willContinue: true })])
    const parts = partsOf([
      chunkOf([call({ name: 'f', id: '1', willContinue: true }, { thoughtSignature: 's' })]),
      partial('$.a', { stringValue: 'Hel', willContinue: true }),
      partial('$.a', { stringValue: 'lo' }),
      partial('$.list[0].n', { numberValue: 1.5 }),
      partial('$.list[9].b', { boolValue: false }),
      partial("$['x y'][0]", { nullValue: 'NULL_VALUE' }),
      partial('$.__proto__.p', { stringValue: 'q' }),
      partial(`$${'.deep'.repeat(65)}`, { stringValue: 'x' }),
      chunkOf([call({})]),
      chunkOf([call({ name: 'g', id: '2', willContinue: true })]),
      partial('$.b', { stringValue: 'x' }),
      chunkOf([call({})], STOP),
    ])
    expect(parts).toMatchObject([
      {
        name: 'f',
        arguments: '{"a":"Hello","list":[{"n":1.5},{"b":false}],"x y":[null],"__proto__":{"p":"q"}}',
        signature: { data: 's' },
      },
      { name: 'g', arguments: '{"b":"x"}' },
      { type: 'native', kind: 'functionCall.partialArgs' },
    ])
    expect(({} as Record<string, unknown>)['p']).toBeUndefined()
  })

  test('are images and audio, of which pieces are joined where base64 allows it', () => {
    const audio = (data: string) => chunkOf([{ inlineData: { mimeType: 'audio/L16;rate=24000', data } }])
    expect(
      partsOf([
        audio('AAAA'),
        audio('BBBB'),
        audio('CC=='),
        audio('DDDD'),
        chunkOf([{ inlineData: { mimeType: 'image/png', data: 'EEEE' } }], STOP),
      ]).map((part) =>
        part.type === 'audio' || part.type === 'image'
          ? [part.type, part.source.type === 'data' && part.source.data]
          : part,
      ),
    ).toEqual([
      ['audio', 'AAAABBBBCC=='],
      ['audio', 'DDDD'],
      ['image', 'EEEE'],
    ])
  })

  test("are native where only Google's protocol has them", () => {
    expect(
      partsOf([
        chunkOf(
          [{ executableCode: { code: 'x' }, thoughtSignature: 's' }, { codeExecutionResult: { output: 'y' } }],
          STOP,
        ),
      ]),
    ).toEqual([
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'executableCode',
        value: { executableCode: { code: 'x' }, thoughtSignature: 's' },
        steps: [{ type: 'code', id: '0', code: 'x' }],
      },
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'codeExecutionResult',
        value: { codeExecutionResult: { output: 'y' } },
        steps: [{ type: 'code-result', id: '0', output: 'y', failed: false }],
      },
    ])
  })

  test('keep their order around native ones, of which each program has an id for itself and its result', () => {
    const program = [{ executableCode: { code: 'x' } }, { codeExecutionResult: { output: 'y' } }]
    const parts = partsOf([
      chunkOf([{ text: 'a' }, { text: '', thoughtSignature: 's' }, ...program]),
      chunkOf([call({ name: 'f', id: 'i', willContinue: true }), ...program], STOP),
    ])
    expect(parts).toMatchObject([
      { type: 'text', text: 'a' },
      { type: 'text', text: '', signature: { data: 's' } },
      { steps: [{ type: 'code', id: '0' }] },
      { steps: [{ type: 'code-result', id: '0' }] },
      { type: 'tool-call', id: 'i' },
      { steps: [{ type: 'code', id: '1' }] },
      { steps: [{ type: 'code-result', id: '1' }] },
    ])
  })
})

test('citations have ranges in UTF-16 units, also where metadata come in a chunk of their own', () => {
  const grounding = {
    groundingChunks: [{ web: { uri: 'https://a', title: 'A' } }, { web: { uri: 'https://b' } }],
    groundingSupports: [{ segment: { startIndex: 5, endIndex: 11, text: 'süß.' }, groundingChunkIndices: [0] }],
    webSearchQueries: ['q1', 'q2'],
  }
  const answer = fold(
    eventsOf([
      chunkOf([{ text: '😀 ' }]),
      chunkOf([{ text: 'süß.' }]),
      { candidates: [{ groundingMetadata: grounding, finishReason: 'STOP' }], usageMetadata: { promptTokenCount: 1 } },
    ]),
  )
  expect(answer.parts).toMatchObject([
    { text: '😀 süß.', citations: [{ url: 'https://a', title: 'A', start: 3, end: 7 }, { url: 'https://b' }] },
    { type: 'native', kind: 'webSearchQueries', value: ['q1', 'q2'] },
  ])
  expect(answer.usage.webSearches).toBe(2)
})

test('a citation without its text has its offsets, and one of an earlier text part has no range', () => {
  const citationMetadata = {
    citationSources: [
      { startIndex: 5, endIndex: 10, uri: 'https://a' },
      { startIndex: 12, endIndex: 13, uri: 'https://b' },
    ],
  }
  const answer = fold(
    eventsOf([
      chunkOf([{ text: '😀 süß!' }, { text: 'hm', thought: true }, { text: 'x' }, { text: 'yz' }], {
        ...STOP,
        citationMetadata,
      }),
    ]),
  )
  expect(answer.parts.at(-1)).toEqual({
    type: 'text',
    text: 'xyz',
    citations: [{ url: 'https://a' }, { url: 'https://b', start: 1, end: 2 }],
  })
})

describe('the transforms of a request', () => {
  const request = requestOf({
    tools: [
      { type: 'custom', name: '9-lives' },
      { type: 'function', name: '1 f' },
    ],
  })
  const sentNames = (): string[] =>
    write(request).body.tools[0].functionDeclarations.map(({ name }: { name: string }) => name)

  test("restore the client's names of tools", () => {
    const [, name] = sentNames()
    expect(name).toMatch(/^[A-Za-z_][\w.:-]{0,63}$/)
    expect(fold(eventsOf([chunkOf([call({ name, args: { a: 1 } })], STOP)], request)).parts).toMatchObject([
      { name: '1 f', form: 'function', arguments: '{"a":1}' },
    ])
  })

  test('restore free text that was wrapped in an object', () => {
    const [name] = sentNames()
    expect(name).toMatch(/^[A-Za-z_][\w.:-]{0,63}$/)
    expect(fold(eventsOf([chunkOf([call({ name, args: { input: 'meow' } })], STOP)], request)).parts).toMatchObject([
      { name: '9-lives', form: 'custom', arguments: 'meow' },
    ])
  })

  test('restore free text that was streamed by JSON path', () => {
    const [name] = sentNames()
    const piece = (stringValue: string) =>
      chunkOf([call({ partialArgs: [{ jsonPath: '$.input', stringValue }], willContinue: true })])
    const chunks = [
      chunkOf([call({ name, id: '1', willContinue: true })]),
      piece('me'),
      piece('ow'),
      chunkOf([call({})], STOP),
    ]
    expect(fold(eventsOf(chunks, request)).parts).toMatchObject([
      { id: '1', name: '9-lives', form: 'custom', arguments: 'meow' },
    ])
  })
})

test('metadata that citations do not have are native content', () => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: 'https://a' } }, { other: 1 }],
    searchEntryPoint: { renderedContent: '<b>' },
    webSearchQueries: ['q'],
    retrievalMetadata: {},
  }
  const urlContextMetadata = { urlMetadata: [{ retrievedUrl: 'https://a' }] }
  const { parts } = fold(eventsOf([chunkOf([{ text: 'a' }], { ...STOP, groundingMetadata, urlContextMetadata })]))
  const native = (kind: string, value: unknown) => ({ type: 'native', protocol: 'generateContent', kind, value })
  expect(parts).toEqual([
    { type: 'text', text: 'a', citations: [{ url: 'https://a' }] },
    native('searchEntryPoint', { renderedContent: '<b>' }),
    native('webSearchQueries', ['q']),
    native('urlContextMetadata', urlContextMetadata),
    native('groundingChunks', [{ other: 1 }]),
  ] as unknown as typeof parts)
})

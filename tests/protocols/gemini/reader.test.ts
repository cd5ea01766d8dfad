import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import { gemini } from '../../../src/protocols/gemini/index.ts'
import { checkGrammar } from '../../grammar.ts'
import { asked, chunk, eventsOf } from './kit.ts'

/** Streams and answers of generateContent providers. */

const STOP = { finishReason: 'STOP' }
const last = (events: GenerationEvent[]) => events.at(-1)!
const partsOf = (chunks: unknown[]) => fold(eventsOf(chunks)).parts
const call = (functionCall: unknown, more = {}) => ({ functionCall, ...more })

describe('endings', () => {
  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content-filter'],
    ['RECITATION', 'content-filter'],
    ['PROHIBITED_CONTENT', 'content-filter'],
    ['MALFORMED_FUNCTION_CALL', 'other'],
    ['NEW_REASON', 'other'],
  ] as const)('%s is %s, the word kept', (finishReason, reason) => {
    expect(last(eventsOf([chunk([{ text: 'a' }], { finishReason })]))).toEqual({
      type: 'finish',
      reason,
      raw: finishReason,
    })
  })

  test('STOP with a call is a tool turn, a cut one is not', () => {
    expect(last(eventsOf([chunk([call({ name: 'f' })], STOP)]))).toMatchObject({ reason: 'tool-calls', raw: 'STOP' })
    expect(last(eventsOf([chunk([call({ name: 'f' })], { finishReason: 'MAX_TOKENS' })]))).toMatchObject({
      reason: 'length',
    })
  })

  test('a blocked prompt is a filtered answer', () => {
    expect(
      last(eventsOf([{ promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 3 } }])),
    ).toEqual({ type: 'finish', reason: 'content-filter', raw: 'SAFETY' })
  })

  test('a reason in protobuf numbers', () => {
    expect(last(eventsOf([chunk([{ text: 'a' }], { finishReason: 2 })]))).toMatchObject({
      reason: 'length',
      raw: 'MAX_TOKENS',
    })
    expect(last(eventsOf([chunk([{ text: 'a' }], { finishReason: 0 })]))).toMatchObject({ type: 'error' })
  })

  test('feedback without a reason blocks only where no candidate comes', () => {
    expect(last(eventsOf([{ promptFeedback: {} }]))).toMatchObject({ reason: 'content-filter' })
    expect(last(eventsOf([{ promptFeedback: {} }, chunk([{ text: 'a' }])]))).toMatchObject({ type: 'error' })
  })

  test('several finish reasons: the last holds, and nothing stands after the end', () => {
    const events = eventsOf([
      chunk([{ text: 'a' }], STOP),
      chunk([{ text: 'b' }], STOP),
      chunk([{ text: 'c' }], { finishReason: 'MAX_TOKENS' }),
    ])
    checkGrammar(events)
    expect(fold(events)).toMatchObject({ parts: [{ text: 'abc' }], finish: { reason: 'length' } })
  })

  test.each([[[chunk([{ text: 'a' }])]], [[]], [['not json', '[]', 'null', '{"this":1}']]])(
    'no reason is a cut answer: %j',
    (chunks) => {
      expect(last(eventsOf(chunks))).toMatchObject({
        type: 'error',
        error: { code: 'upstream_error', message: "The provider's stream ended before its answer was complete." },
      })
    },
  )

  test('an error in the stream ends it', () => {
    const events = eventsOf([
      chunk([{ text: 'a' }]),
      { error: { code: 429, message: 'Too many.', status: 'RESOURCE_EXHAUSTED' } },
      chunk([{ text: 'b' }], STOP),
    ])
    checkGrammar(events)
    expect(last(events)).toMatchObject({ type: 'error', error: { code: 'upstream_rate_limited' } })
    expect(events.filter((event) => event.type === 'part-delta')).toHaveLength(1)
  })

  test('only the first candidate is the answer', () => {
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

describe('parts', () => {
  test('text and thoughts alternate, pieces are joined', () => {
    expect(
      partsOf([
        chunk([{ text: 'x', thought: true }]),
        chunk([{ text: 'y', thought: true }]),
        chunk([{ text: 'a' }]),
        chunk([{ text: '' }]),
        chunk([{ text: 'b' }], STOP),
      ]),
    ).toEqual([
      { type: 'reasoning', form: 'summary', text: 'xy' },
      { type: 'text', text: 'ab' },
    ])
  })

  test('signatures: on a call, on text, on an empty last part, alone', () => {
    expect(
      partsOf([
        chunk([{ text: 'x', thought: true }]),
        chunk([call({ name: 'f', id: 'i' }, { thoughtSignature: 's1' })]),
        chunk([{ text: 'a' }]),
        chunk([{ text: '', thoughtSignature: 's2' }], STOP),
      ]),
    ).toEqual([
      { type: 'reasoning', form: 'summary', text: 'x' },
      { type: 'tool-call', id: 'i', name: 'f', arguments: '{}', form: 'function', signature: { data: 's1' } },
      { type: 'text', text: 'a', signature: { data: 's2' } },
    ])
    expect(partsOf([chunk([{ text: '', thought: true, thoughtSignature: 's' }], STOP)])).toEqual([
      { type: 'reasoning', redacted: true, text: '', signature: { data: 's' } },
    ])
  })

  test('arguments as they were spelled', () => {
    const text =
      '{"candidates":[{"content":{"parts":[{"functionCall":{"id":"i","name":"f","args":{"z":12345678901234567890,"a":1.0}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}'
    expect(fold(eventsOf([text]))).toMatchObject({
      parts: [{ arguments: '{"z":12345678901234567890,"a":1.0}' }],
      usage: { inputTokens: 3 },
    })
  })

  test('calls without an id get one of their own, per answer and place', () => {
    const ids = partsOf([chunk([call({ name: 'f' }), call({ name: 'f' })], STOP)]).map(
      (part) => part.type === 'tool-call' && part.id,
    )
    expect(ids).toEqual(['call_up-1_0', 'call_up-1_1'])
    const nameless = () =>
      partsOf([{ candidates: [{ content: { parts: [call({ name: 'f' })] }, finishReason: 'STOP' }] }]).map(
        (part) => part.type === 'tool-call' && part.id,
      )[0]
    expect(nameless()).not.toBe(nameless())
  })

  test('arguments by path, strings in pieces, several calls', () => {
    const partial = (jsonPath: string, value: unknown) =>
      chunk([call({ partialArgs: [{ jsonPath, ...(value as object) }], willContinue: true })])
    const parts = partsOf([
      chunk([call({ name: 'f', id: '1', willContinue: true }, { thoughtSignature: 's' })]),
      partial('$.a', { stringValue: 'Hel', willContinue: true }),
      partial('$.a', { stringValue: 'lo' }),
      partial('$.list[0].n', { numberValue: 1.5 }),
      partial('$.list[9].b', { boolValue: false }),
      partial("$['x y'][0]", { nullValue: 'NULL_VALUE' }),
      partial('$.__proto__.p', { stringValue: 'q' }),
      chunk([call({})]),
      chunk([call({ name: 'g', id: '2', willContinue: true })]),
      partial('$.b', { stringValue: 'x' }),
      chunk([call({})], STOP),
    ])
    expect(parts).toMatchObject([
      {
        name: 'f',
        arguments: '{"a":"Hello","list":[{"n":1.5},{"b":false}],"x y":[null],"__proto__":{"p":"q"}}',
        signature: { data: 's' },
      },
      { name: 'g', arguments: '{"b":"x"}' },
    ])
    expect(({} as Record<string, unknown>)['p']).toBeUndefined()
  })

  test('images and audio, joined where base64 can be', () => {
    const audio = (data: string) => chunk([{ inlineData: { mimeType: 'audio/L16;rate=24000', data } }])
    expect(
      partsOf([
        audio('AAAA'),
        audio('BBBB'),
        audio('CC=='),
        audio('DDDD'),
        chunk([{ inlineData: { mimeType: 'image/png', data: 'EEEE' } }], STOP),
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

  test("Google's own parts are foreign, whole", () => {
    expect(
      partsOf([
        chunk(
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
      },
      {
        type: 'native',
        protocol: 'generateContent',
        kind: 'codeExecutionResult',
        value: { codeExecutionResult: { output: 'y' } },
      },
    ])
  })

  test('tools that were renamed or freely worded come back as the client knows them', () => {
    const request = asked({ tools: [{ type: 'custom', name: '9-lives' }] })
    const sent = gemini.call.writeRequest(request, { provider: 'p', model: 'm', quirks: {}, capabilities: {} })
      .body as {
      tools: { functionDeclarations: { name: string }[] }[]
    }
    const name = sent.tools[0]!.functionDeclarations[0]!.name
    expect(name).toMatch(/^[A-Za-z_][\w.:-]{0,63}$/)
    expect(fold(eventsOf([chunk([call({ name, args: { input: 'meow' } })], STOP)], request)).parts).toMatchObject([
      { name: '9-lives', form: 'custom', arguments: 'meow' },
    ])
  })
})

test('citations: bytes become UTF-16 units, metadata may come alone', () => {
  const grounding = {
    groundingChunks: [{ web: { uri: 'https://a', title: 'A' } }, { web: { uri: 'https://b' } }],
    groundingSupports: [{ segment: { startIndex: 5, endIndex: 11, text: 'süß.' }, groundingChunkIndices: [0] }],
    webSearchQueries: ['q1', 'q2'],
  }
  const answer = fold(
    eventsOf([
      chunk([{ text: '😀 ' }]),
      chunk([{ text: 'süß.' }]),
      { candidates: [{ groundingMetadata: grounding, finishReason: 'STOP' }], usageMetadata: { promptTokenCount: 1 } },
    ]),
  )
  expect(answer.parts).toMatchObject([
    { text: '😀 süß.', citations: [{ url: 'https://a', title: 'A', start: 3, end: 7 }, { url: 'https://b' }] },
  ])
  expect(answer.usage.webSearches).toBe(2)
})

test('citations without their words, and of a text part before the last', () => {
  const citationMetadata = {
    citationSources: [
      { startIndex: 5, endIndex: 10, uri: 'https://a' },
      { startIndex: 12, endIndex: 13, uri: 'https://b' },
    ],
  }
  const answer = fold(
    eventsOf([
      chunk([{ text: '😀 süß!' }, { text: 'hm', thought: true }, { text: 'x' }, { text: 'yz' }], {
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

describe('usage', () => {
  const usageOf = (...all: unknown[]) =>
    fold(eventsOf([...all.map((usageMetadata) => ({ ...chunk([{ text: 'a' }]), usageMetadata })), chunk([], STOP)]))
      .usage

  test('the last word counts, a silent chunk takes nothing back', () => {
    expect(
      usageOf(
        { promptTokenCount: 10, candidatesTokenCount: 1 },
        { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 7 },
        { trafficType: 'ON_DEMAND' },
      ),
    ).toMatchObject({ inputTokens: 10, outputTokens: 5, reasoningTokens: 7 })
  })

  test('a chunk with some of the counts leaves the others', () => {
    expect(usageOf({ promptTokenCount: 10, thoughtsTokenCount: 7 }, { candidatesTokenCount: 5 })).toMatchObject({
      inputTokens: 10,
      outputTokens: 5,
      reasoningTokens: 7,
    })
  })

  test('cache inside, tool prompts beside, audio and images apart', () => {
    expect(
      usageOf({
        promptTokenCount: 100,
        cachedContentTokenCount: 40,
        toolUsePromptTokenCount: 5,
        promptTokensDetails: [{ modality: 'AUDIO', tokenCount: 20 }],
        candidatesTokenCount: 50,
        candidatesTokensDetails: [
          { modality: 'IMAGE', tokenCount: 30 },
          { modality: 'AUDIO', tokenCount: 5 },
        ],
      }),
    ).toMatchObject({
      inputTokens: 45,
      cacheReadTokens: 40,
      inputAudioTokens: 20,
      outputTokens: 15,
      outputImageTokens: 30,
      outputAudioTokens: 5,
    })
  })

  test('hostile counts are nothing', () => {
    expect(usageOf({ promptTokenCount: -5, cachedContentTokenCount: 9, candidatesTokenCount: 'x' })).toMatchObject({
      inputTokens: 0,
      cacheReadTokens: 0,
      outputTokens: 0,
    })
  })
})

describe('whole answers', () => {
  test('an array of chunks is a stream in one body', () => {
    expect(fold(gemini.call.readResponse([chunk([{ text: 'a' }]), chunk([{ text: 'b' }], STOP)], {})).parts).toEqual([
      { type: 'text', text: 'ab' },
    ])
    expect(() => gemini.call.readResponse([chunk([{ text: 'a' }])], {})).toThrow(/ended before/)
  })

  test.each([[null], ['<html>'], [{}], [{ error: { code: 503, message: 'x' } }], [{ error: 'x' }]])(
    '%j is no answer',
    (body) => {
      expect(() => gemini.call.readResponse(body, {})).toThrow()
    },
  )

  test('log probabilities', () => {
    const logprobsResult = {
      chosenCandidates: [{ token: 'a', logProbability: -0.5 }],
      topCandidates: [
        {
          candidates: [
            { token: 'a', logProbability: -0.5 },
            { token: 'b', logProbability: -1 },
          ],
        },
      ],
    }
    expect(fold(gemini.call.readResponse(chunk([{ text: 'a' }], { ...STOP, logprobsResult }), {})).parts).toMatchObject(
      [{ logprobs: [{ token: 'a', logprob: -0.5, top: [{ token: 'a' }, { token: 'b', logprob: -1 }] }] }],
    )
  })
})

test('whatever frames come, the events are one sentence', () => {
  const keys = [
    'candidates',
    'content',
    'parts',
    'text',
    'thought',
    'thoughtSignature',
    'functionCall',
    'name',
    'args',
    'partialArgs',
    'jsonPath',
    'stringValue',
    'willContinue',
    'inlineData',
    'mimeType',
    'data',
    'finishReason',
    'index',
    'usageMetadata',
    'promptTokenCount',
    'groundingMetadata',
    'groundingSupports',
    'segment',
    'groundingChunks',
    'web',
    'error',
    'code',
    'promptFeedback',
    'blockReason',
    'executableCode',
    'logprobsResult',
    'citationMetadata',
    'citations',
    'startIndex',
    'endIndex',
  ]
  const leaf = fc.constantFrom<unknown>(null, true, 0, -1, 5, '', 'text', 'STOP', 'image/png', '$.a[3].b', 'AAAA')
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 6 },
      leaf,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...keys), tie('value'), { maxKeys: 5 }),
    ),
  }))
  const part = fc.dictionary(
    fc.constantFrom('text', 'thought', 'thoughtSignature', 'functionCall', 'inlineData', 'executableCode'),
    value,
    { maxKeys: 3 },
  )
  const likely = fc.record(
    {
      candidates: fc.array(
        fc.record(
          {
            content: fc.record({ parts: fc.array(part) }),
            finishReason: leaf,
            groundingMetadata: value,
            citationMetadata: value,
            logprobsResult: value,
          },
          { requiredKeys: ['content'] },
        ),
      ),
      usageMetadata: value,
    },
    { requiredKeys: ['candidates'] },
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(value, likely, fc.string()), { maxLength: 6 }), (chunks) => {
      const events = eventsOf(chunks)
      checkGrammar(events)
    }),
    { numRuns: 500 },
  )
})

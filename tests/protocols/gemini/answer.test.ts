import { GoogleGenAI } from '@google/genai'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError, invalid } from '../../../src/error.ts'
import { fold, unfold, type FinishReason, type GenerationEvent } from '../../../src/generation/event.ts'
import { unwrapSignature } from '../../../src/generation/signature.ts'
import { gemini } from '../../../src/protocols/gemini/index.ts'
import { checkGrammar, sentences } from '../../grammar.ts'
import { chunksOf, eventsOf, exchangeOf, hello } from './kit.ts'

/** Answers of generateContent to clients, whole and streamed. */

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
const partsOf = (chunks: Record<string, any>[]) => chunks.flatMap((one) => one['candidates']?.[0]?.content?.parts ?? [])

describe('stream', () => {
  test('text goes out as it comes, usage and the reason in the last chunk, every chunk labelled', () => {
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

  test('a call goes whole when its part ends, with its id', () => {
    expect(partsOf(chunksOf([start, ...tool(['{"b":1,', '"a":12345678901234567890}']), stop]))[0].functionCall.id).toBe(
      'c1',
    )
    const writer = gemini.serve.writer(exchangeOf())
    const data = [start, ...tool(['{"b":1,', '"a":12345678901234567890}'])]
      .flatMap((event) => writer.write(event))
      .map((frame) => frame.data)
      .join()
    expect(data).toContain('"args":{"b":1,"a":12345678901234567890}')
  })

  test.each([[''], ['{"a":'], ['[1]'], ['nonsense']])('arguments %j that are no object become {}', (text) => {
    expect(partsOf(chunksOf([start, ...tool([text]), stop]))[0].functionCall.args).toEqual({})
  })

  test('free text for a custom tool is its input', () => {
    expect(partsOf(chunksOf([start, ...tool(['a "b"'], 'custom'), stop]))[0].functionCall.args).toEqual({
      input: 'a "b"',
    })
  })

  test('signatures are sealed for another maker, and hidden reasoning is only its signature', () => {
    const issuer = { provider: 'p', model: 'm' }
    const events = [
      start,
      ...part(0, { type: 'reasoning' }, ['hm, ', 'so'], 'sig-0'),
      ...part(1, { type: 'reasoning', redacted: true }, [], 'sig-1'),
      ...part(2, { type: 'text' }, ['x'], 'sig-2'),
      stop,
    ]
    const parts = partsOf(chunksOf(events, exchangeOf(hello(), { issuer })))
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

  test('reasoning a client does not want to see is left to its signature', () => {
    const context = exchangeOf(hello({ generationConfig: { thinkingConfig: { includeThoughts: false } } }))
    expect(partsOf(chunksOf([start, ...part(0, { type: 'reasoning' }, ['hm'], 's'), stop], context))).toEqual([
      { text: '', thought: true, thoughtSignature: 's' },
      { text: '' },
    ])
  })

  test('citations come with the finish, in bytes of the whole text', () => {
    const citation = { url: 'https://example.com', title: 'T', start: 2, end: 4 }
    const chunks = chunksOf([
      start,
      ...part(0, { type: 'text' }, ['é. ']),
      ...part(1, { type: 'text' }, ['ö süß']),
      ...part(2, { type: 'citation', citation }, []),
      stop,
    ])
    expect(chunks.at(-1)!['candidates'][0].groundingMetadata).toEqual({
      groundingChunks: [{ web: { uri: 'https://example.com', title: 'T' } }],
      groundingSupports: [{ segment: { startIndex: 7, endIndex: 10, text: 'sü' }, groundingChunkIndices: [0] }],
    })
  })

  test('an error is a bare object in a frame of its own, after one of the ordinary form, even as the first', () => {
    const frames = gemini.serve
      .writer(exchangeOf())
      .write({ type: 'error', error: new GatewayError('overloaded', 'Too much.') })
    expect(frames.map(({ bare }) => bare)).toEqual([undefined, true])
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
  ])('%s is %s', (reason, word) => {
    expect(chunksOf([start, { type: 'finish', reason, raw: 'x' }]).at(-1)!['candidates'][0].finishReason).toBe(word)
  })
})

describe('whole answer', () => {
  test('has the parts, signatures on them, sources per part', () => {
    const citation = { url: 'https://example.com', start: 0, end: 1 }
    const answer = fold([
      start,
      ...part(0, { type: 'reasoning' }, ['hm'], 's0'),
      ...part(1, { type: 'text' }, ['é!'], 's1'),
      ...part(2, { type: 'citation', citation }, []),
      ...part(3, { type: 'tool-call', id: 'c', name: 'f', form: 'function' }, ['{}'], 's2'),
      ...part(4, { type: 'image', mediaType: 'image/png' }, ['AAAA']),
      usage,
      { type: 'finish', reason: 'tool-calls', raw: '' },
    ])
    expect(gemini.serve.writeResponse(answer, exchangeOf())).toMatchObject({
      candidates: [
        {
          content: {
            role: 'model',
            parts: [
              { text: 'hm', thought: true, thoughtSignature: 's0' },
              { text: 'é!', thoughtSignature: 's1' },
              { functionCall: { id: 'c', name: 'f', args: {} }, thoughtSignature: 's2' },
              { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
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

  test("says the provider's word where Google has none, and hides unwanted thoughts", () => {
    const context = exchangeOf(hello({ generationConfig: { thinkingConfig: { includeThoughts: false } } }))
    const write = (raw: string) =>
      gemini.serve.writeResponse(
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

  test('of nothing is an empty text', () => {
    expect(gemini.serve.writeResponse(fold([start, stop]), exchangeOf())).toMatchObject({
      candidates: [{ content: { parts: [{ text: '' }] }, finishReason: 'STOP' }],
    })
  })
})

describe('error body', () => {
  test('names the field', () => {
    expect(gemini.serve.writeError(invalid('contents[0].role', 'must be user'), 'req-1')).toMatchObject({
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

  test('says when to come back, and its own status', () => {
    expect(
      gemini.serve.writeError(new GatewayError('rate_limit_exceeded', 'Slow down.', { retryAfterSeconds: 5 }), 'req-1'),
    ).toMatchObject({
      error: {
        code: 422,
        status: 'RESOURCE_EXHAUSTED',
        details: expect.arrayContaining([{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '5s' }]),
      },
    })
  })
})

/**
 * What can be told from an answer after a trip through the wire: Google joins texts and has fewer words for endings.
 */
const essence = (events: GenerationEvent[]) => {
  const { parts, usage: counted, metered } = fold(events)
  const joined: unknown[] = []
  for (const one of parts) {
    const last = joined.at(-1) as { type: string; text: string; signature?: unknown } | undefined
    if (one.type === 'text' || one.type === 'refusal' || one.type === 'reasoning') {
      const type = one.type === 'refusal' ? 'text' : one.type
      const signature = 'signature' in one ? one.signature : undefined
      if (last?.type === type && last.signature === undefined)
        Object.assign(last, { text: last.text + one.text, signature })
      else if (one.text !== '' || signature !== undefined) joined.push({ type, text: one.text, signature })
    } else if (one.type === 'tool-call')
      joined.push({ type: one.type, id: one.id, name: one.name, arguments: one.arguments, signature: one.signature })
    else if (one.type === 'image') joined.push({ type: one.type, source: one.source })
  }
  return {
    joined,
    input: metered ? counted.inputTokens : 0,
    cached: counted.cacheReadTokens,
    output: counted.outputTokens,
    reasoning: counted.reasoningTokens,
  }
}

test('read(write(x)) = x for any sentence, streamed and whole', () => {
  const arbitrary = sentences({
    errors: false,
    kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'citation'],
  })
  fc.assert(
    fc.property(arbitrary, (events) => {
      const streamed = eventsOf(chunksOf(events))
      checkGrammar(streamed)
      expect(essence(streamed)).toEqual(essence(events))
      const whole = gemini.call.readResponse(
        JSON.parse(JSON.stringify(gemini.serve.writeResponse(fold(events), exchangeOf()))),
        {},
      )
      checkGrammar(whole)
      expect(essence(whole)).toEqual(essence([...unfold(fold(events))]))
    }),
    { numRuns: 300 },
  )
})

test("Google's SDK accepts any sentence", async () => {
  let events: GenerationEvent[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch(request) {
      const context = exchangeOf()
      if (!new URL(request.url).pathname.endsWith(':streamGenerateContent'))
        return Response.json(gemini.serve.writeResponse(fold(events), context))
      const writer = gemini.serve.writer(context)
      return new Response(
        events
          .flatMap((event) => writer.write(event))
          .map((frame) => `${frame.bare === true ? '' : 'data: '}${frame.data}\n\n`)
          .join(''),
        { headers: { 'content-type': 'text/event-stream' } },
      )
    },
  })
  try {
    const { models } = new GoogleGenAI({ apiKey: 'none', httpOptions: { baseUrl: server.url.href } })
    const ask = { model: 'acme/model', contents: 'Hello' }
    for (const sentence of fc.sample(sentences({ errors: false }), { numRuns: 40, seed: 7 })) {
      events = sentence
      const answer = fold(events)
      const text = answer.parts
        .flatMap((one) => (one.type === 'text' || one.type === 'refusal' ? [one.text] : []))
        .join('')
      const calls = answer.parts.flatMap((one) => (one.type === 'tool-call' ? [one.id] : []))
      const whole = await models.generateContent(ask)
      expect(
        whole.candidates?.[0]?.content?.parts
          ?.flatMap((one) => (one.thought === true ? [] : [one.text ?? '']))
          .join(''),
      ).toBe(text)
      expect((whole.functionCalls ?? []).map((call) => call.id)).toEqual(calls as (string | undefined)[])
      let streamed = ''
      let finish: string | undefined
      const streamedCalls: (string | undefined)[] = []
      for await (const one of await models.generateContentStream(ask)) {
        streamed +=
          one.candidates?.[0]?.content?.parts
            ?.flatMap((piece) => (piece.thought === true ? [] : [piece.text ?? '']))
            .join('') ?? ''
        streamedCalls.push(...(one.functionCalls ?? []).map((call) => call.id))
        finish = one.candidates?.[0]?.finishReason
      }
      expect(streamed).toBe(text)
      expect(streamedCalls).toEqual(calls as (string | undefined)[])
      expect(finish).toBe(whole.candidates?.[0]?.finishReason)
    }
    events = [start, { type: 'error', error: new GatewayError('overloaded', 'Too much.') }]
    const failing = async () => {
      for await (const one of await models.generateContentStream(ask)) expect(one.candidates).toBeUndefined()
    }
    expect(failing()).rejects.toThrow(/Too much/)
    await failing().catch(() => undefined)
  } finally {
    await server.stop(true)
  }
})

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../../src/generation/event.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import { readResponse } from '../../../src/protocols/gemini/read-response.ts'
import { chunkOf, eventsOf } from './building.ts'

/** Usage, whole bodies and arbitrary frames of providers of generateContent. */

const STOP = { finishReason: 'STOP' }

describe('usage', () => {
  const usageOf = (...all: unknown[]) =>
    fold(eventsOf([...all.map((usageMetadata) => ({ ...chunkOf([{ text: 'a' }]), usageMetadata })), chunkOf([], STOP)]))
      .usage

  test('has the last value of each count, also where later chunks have none', () => {
    expect(
      usageOf(
        { promptTokenCount: 10, candidatesTokenCount: 1 },
        { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 7 },
        { trafficType: 'ON_DEMAND' },
      ),
    ).toMatchObject({ inputTokens: 10, outputTokens: 5, reasoningTokens: 7 })
  })

  test.each([
    ['no output', [], true],
    ['a text', [{ text: 'a' }], false],
    ['a call', [{ functionCall: { name: 'f', id: 'i' } }], false],
  ])('of a response with %s has an omitted count of output only where that is zero', (_, parts, isKnown) => {
    const all = eventsOf([{ ...chunkOf(parts, STOP), usageMetadata: { promptTokenCount: 3 } }])
    const reported = all.flatMap((event) => (event.type === 'usage' ? [event.usage] : [])).at(-1)
    expect([reported?.inputTokens, reported?.outputTokens]).toEqual([3, isKnown ? 0 : undefined])
  })

  test('has the service tier in which the response was served', () => {
    const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 1, serviceTier: 'flex' }
    const { service } = fold(eventsOf([{ ...chunkOf([{ text: 'a' }], STOP), usageMetadata }]))
    expect(service).toEqual({ service_tier: 'flex' })
  })

  test('keeps counts that a chunk does not have', () => {
    expect(usageOf({ promptTokenCount: 10, thoughtsTokenCount: 7 }, { candidatesTokenCount: 5 })).toMatchObject({
      inputTokens: 10,
      outputTokens: 5,
      reasoningTokens: 7,
    })
  })

  test('has disjoint counts of cached, audio and image tokens', () => {
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

  test('has the images of the prompt, and what the cache had of audio and images, apart', () => {
    expect(
      usageOf({
        promptTokenCount: 1_000,
        cachedContentTokenCount: 500,
        promptTokensDetails: [
          { modality: 'TEXT', tokenCount: 200 },
          { modality: 'AUDIO', tokenCount: 400 },
          { modality: 'IMAGE', tokenCount: 300 },
          { modality: 'VIDEO', tokenCount: 100 },
        ],
        cacheTokensDetails: [
          { modality: 'AUDIO', tokenCount: 350 },
          { modality: 'IMAGE', tokenCount: 150 },
        ],
        candidatesTokenCount: 90,
        candidatesTokensDetails: [{ modality: 'VIDEO', tokenCount: 80 }],
      }),
    ).toEqual({
      ...noUsage(),
      inputTokens: 300,
      inputAudioTokens: 50,
      inputImageTokens: 150,
      cacheReadTokens: 150,
      cacheReadAudioTokens: 350,
      outputTokens: 10,
      outputVideoTokens: 80,
    })
  })

  test('knows the modalities by their numbers, which gRPC gateways write', () => {
    const promptTokensDetails = [1, 2, 3, 4].map((modality) => ({ modality, tokenCount: 10 * modality }))
    expect(usageOf({ promptTokenCount: 100, promptTokensDetails, candidatesTokenCount: 1 })).toMatchObject({
      inputTokens: 40,
      inputImageTokens: 20,
      inputAudioTokens: 40,
    })
  })

  test('ignores counts that are not valid', () => {
    expect(usageOf({ promptTokenCount: -5, cachedContentTokenCount: 9, candidatesTokenCount: 'x' })).toMatchObject({
      inputTokens: 0,
      cacheReadTokens: 0,
      outputTokens: 0,
    })
  })
})

describe('a whole response', () => {
  test('has the message of an unusual end', () => {
    const detailsAt = (finishReason: string): unknown =>
      fold(readResponse(chunkOf([], { finishReason, finishMessage: 'No.' }))).finish.details
    expect([detailsAt('SAFETY'), detailsAt('STOP')]).toEqual(['No.', undefined])
  })

  test('may be an array of the chunks of a stream', () => {
    expect(fold(readResponse([chunkOf([{ text: 'a' }]), chunkOf([{ text: 'b' }], STOP)])).parts).toEqual([
      { type: 'text', text: 'ab' },
    ])
    expect(() => readResponse([chunkOf([{ text: 'a' }])])).toThrow(/ended before/)
  })

  test.each([
    [null],
    ['<html>'],
    [{}],
    [{ error: { code: 503, message: 'x' } }],
    [{ error: 'x' }],
    [{ candidates: 7 }],
  ])('%j is an error', (body) => {
    expect(() => readResponse(body)).toThrow()
  })

  test('has log probabilities', () => {
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
    expect(fold(readResponse(chunkOf([{ text: 'a' }], { ...STOP, logprobsResult }))).parts).toMatchObject([
      { logprobs: [{ token: 'a', logprob: -0.5, top: [{ token: 'a' }, { token: 'b', logprob: -1 }] }] },
    ])
  })
})

test('the events of any frames follow the grammar', () => {
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
      eventsOf(chunks)
    }),
    { numRuns: 500 },
  )
})

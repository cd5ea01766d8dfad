import { describe, expect, test } from 'bun:test'
import { countTokens as exactly } from 'gpt-tokenizer/encoding/o200k_base'
import type { GenerationRequest, Part } from '../../src/generation/request.ts'
import type { Usage } from '../../src/generation/usage.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import { countTokens, estimateInputTokens, worstCase } from '../../src/ledger/estimate.ts'

/** Token counts and worst cases. */

const PROSE = 'The quick brown fox jumps over the lazy dog,\nand then it goes home again: "Good night!" '
/** Random letters without repetition, which the tokeniser cannot cache. */
const letters = (length: number): string =>
  Array.from({ length }, (_, i) => String.fromCharCode(97 + (Bun.hash.cityHash32(String(i)) % 26))).join('')

/** The relative error of a count. */
const off = async (text: string, tokens = exactly(text)): Promise<number> =>
  Math.abs((await countTokens([text])) / tokens - 1)

describe('counted tokens', () => {
  test('short texts are counted exactly', async () => {
    for (const text of ['', 'a', PROSE, PROSE.repeat(40), '日本語のテキスト', '\ud800', ' '.repeat(100)])
      expect(await countTokens([text])).toBe(exactly(text))
    expect(await countTokens(['<|endoftext|>'])).toBe(exactly('<|endoftext|>', { disallowedSpecial: new Set() }))
    expect(await countTokens(['Hello', '', PROSE])).toBe(exactly('Hello') + exactly(PROSE))
  })

  test('long texts are counted nearly exactly', async () => {
    expect(await off(PROSE.repeat(500))).toBeLessThan(0.01)
    expect(await off(PROSE.repeat(5_000))).toBeLessThan(0.01)
    // Without spaces, and cut in the middle of characters.
    expect(await off('語'.repeat(3_000) + '😀'.repeat(500))).toBeLessThan(0.05)
  })

  test('a long run of one letter is counted fast, which takes the tokeniser minutes', async () => {
    // Eight letters are a token.
    expect(await off('a'.repeat(1_000_000), 125_000)).toBeLessThan(0.01)
    expect(await off(' '.repeat(1_000_000), 1_000_000 / 128)).toBeLessThan(0.1)
  })

  test('counting does not block the event loop', async () => {
    let turns = 0
    const others = setInterval(() => turns++, 1)
    await countTokens([letters(100_000)])
    clearInterval(others)
    expect(turns).toBeGreaterThan(10)
  })
})

test('the input estimate includes texts, turns and media', async () => {
  const image: Part = { type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } }
  const request: GenerationRequest = {
    model: 'm',
    sampling: {},
    stream: false,
    protocol: 'messages',
    extras: {},
    tools: [],
    system: [{ type: 'text', text: PROSE }],
    turns: [
      { role: 'user', parts: [{ type: 'text', text: 'Hello' }, image] },
      {
        role: 'assistant',
        parts: [{ type: 'tool-call', id: 'c', name: 'look_up', form: 'function', arguments: '{"word":"fox"}' }],
      },
      {
        role: 'tool',
        parts: [
          { type: 'tool-result', callId: 'c', form: 'function', content: [{ type: 'text', text: 'An animal' }, image] },
        ],
      },
    ],
  }
  const texts = [PROSE, 'Hello', 'look_up', '{"word":"fox"}', 'An animal']
  expect(await estimateInputTokens(request)).toBe(
    texts.reduce((sum, text) => sum + exactly(text), 0) + 2 * 1_000 + 3 * 4,
  )
})

test('the worst case has no more output tokens than a response can have, whatever the requested limit', () => {
  const worst = (more: Partial<GenerationRequest>): number =>
    worstCase({ system: [], turns: [], tools: [], ...more } as unknown as GenerationRequest, 100, undefined)
      .outputTokens
  expect(worst({ maxOutputTokens: 500, candidates: 2 })).toBe(1_000)
  // Above 2^53 a binary search for the fitting limit would not end; Infinity is not an amount.
  expect(worst({ maxOutputTokens: 1e19 })).toBe(1e9)
  expect(worst({ maxOutputTokens: 1e300, candidates: 1e300 })).toBe(1e9)
})

test('the worst case has as many images as requested, each with the tokens of a large one', () => {
  const worst = (
    more: Partial<GenerationRequest>,
    ...capabilities: Capabilities[]
  ): [images: number, outputTokens: number] => {
    const { images, outputTokens } = worstCase(
      { system: [], turns: [], tools: [], ...more } as unknown as GenerationRequest,
      100,
      1_000,
      capabilities,
    )
    return [images, outputTokens]
  }
  const draws: Capabilities = { output: ['text', 'image'] }
  expect(worst({ protocol: 'images', imageOutput: { count: 3 } })).toEqual([3, 3 * 7_865])
  expect(worst({ protocol: 'images', imageOutput: { count: 2, size: { width: 3_840, height: 2_160 } } })).toEqual([
    2,
    2 * 41_472,
  ])
  // The largest documented image at the best quality, 1536x1024, takes 6208 tokens.
  expect(worst({ protocol: 'images', imageOutput: { count: 1, size: { width: 16, height: 16 } } })[1]).toBeGreaterThan(
    6_208,
  )
  expect([worst({ outputModalities: ['text', 'image'] }), worst({ maxOutputTokens: 5, imageOutput: {} })]).toEqual([
    [1, 7_865],
    [1, 7_865],
  ])
  // Image models draw unless only text is requested; an images API makes nothing else.
  expect([
    worst({}),
    worst({}, {}),
    worst({}, { output: ['text'] }),
    worst({}, {}, draws),
    worst({ outputModalities: ['text'] }, draws),
  ]).toEqual([
    [0, 1_000],
    [0, 1_000],
    [0, 1_000],
    [1, 7_865],
    [0, 1_000],
  ])
  expect(
    worst(
      { tools: [{ type: 'native', protocol: 'responses', kind: 'image_generation', value: {} }] },
      { output: ['text'] },
    ),
  ).toEqual([1, 7_865])
  expect(worst({ outputModalities: ['text'] }, { api: 'images', output: ['image'] })).toEqual([1, 7_865])
})

test('the tool that draws is held for four calls, with images of its size', () => {
  const held = (more: object): Usage =>
    worstCase({ system: [], turns: [], tools: [], ...more } as unknown as GenerationRequest, 10, 1_000)
  const drawing = (value: object): Usage =>
    held({ tools: [{ type: 'native', protocol: 'responses', kind: 'image_generation', value }] })
  const usual = { imageToolInputTokens: 4_000, imageToolInputImageTokens: 4 * 7_865, imageToolOutputTokens: 0 }
  expect(drawing({ size: 'auto' })).toMatchObject({ ...usual, imageToolOutputImageTokens: 4 * 7_865 })
  expect(drawing({ size: '3840x2160' })).toMatchObject({ ...usual, imageToolOutputImageTokens: 4 * 41_472 })
  expect(held({ outputModalities: ['image'] })).toMatchObject(usual)
  expect(held({})).toMatchObject({ imageToolInputTokens: 0, imageToolOutputImageTokens: 0 })
})

describe('worst case input', () => {
  const worst = (more: Partial<GenerationRequest>, bodyBytes: number): ReturnType<typeof worstCase> =>
    worstCase({ system: [], turns: [], tools: [], ...more } as unknown as GenerationRequest, bodyBytes, 1_000)
  const data = (type: 'image' | 'audio' | 'file', mediaType: string, length: number): Part => ({
    type,
    source: { type: 'data', mediaType, data: 'A'.repeat(length) },
  })
  const user = (...parts: Part[]): Partial<GenerationRequest> => ({ turns: [{ role: 'user', parts }] })

  test('text counts one token for two bytes', () => {
    expect(worst({}, 101).inputTokens).toBe(51)
  })

  test('media count by their kind and size instead of as text, also inside tool results', () => {
    const image = data('image', 'image/png', 9_000)
    expect(worst(user(image), 9_100)).toMatchObject({
      inputTokens: 50,
      inputImageTokens: 4_000,
      inputAudioTokens: 0,
    })
    expect(worst(user(data('file', 'text/plain', 8_000)), 8_100).inputTokens).toBe(4_000 + 3_000 + 50)
    expect(worst(user(data('file', 'application/pdf', 8_000)), 8_100).inputTokens).toBe(4_000 + 750 + 50)
    const audio = worst(user(data('audio', 'audio/wav', 8_000)), 8_100)
    expect(audio).toMatchObject({ inputTokens: 50, inputAudioTokens: 4_000 + 60 })
    const result: Part = {
      type: 'tool-result',
      callId: 'c',
      form: 'function',
      content: [data('image', 'image/png', 9_000) as Extract<Part, { type: 'image' }>],
    }
    expect(worst({ turns: [{ role: 'tool', parts: [result] }] }, 9_100)).toMatchObject({
      inputTokens: 50,
      inputImageTokens: 4_000,
    })
  })

  test('a cache breakpoint makes all text a cache write of the longest lifetime', () => {
    const text = (ttl?: '5m' | '1h'): Part => ({ type: 'text', text: 'a', cache: ttl === undefined ? {} : { ttl } })
    expect(worst(user(text()), 100)).toMatchObject({ inputTokens: 0, cacheWrite5mTokens: 50, cacheWrite1hTokens: 0 })
    expect(worst(user(text(), text('1h')), 100)).toMatchObject({
      inputTokens: 0,
      cacheWrite5mTokens: 0,
      cacheWrite1hTokens: 50,
    })
  })

  test('a provider-native tool or web search counts ten searches', () => {
    const native = { type: 'native', protocol: 'responses', kind: 'web_search', value: {} } as const
    expect([worst({ tools: [native] }, 0).webSearches, worst({}, 0).webSearches]).toEqual([10, 0])
  })
})

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { FEE_ITEMS, isCounted, type FeeItem } from '../../src/config/terms.ts'
import {
  completionTokens,
  noUsage,
  IMAGE_TOOL_BUCKETS,
  OUTPUT_BUCKETS,
  PROMPT_BUCKETS,
  promptTokens,
  USAGE_BUCKETS,
  type Usage,
} from '../../src/generation/usage.ts'
import { decodeRates, encodeRates, ratesOf, type Price, type Rate } from '../../src/ledger/prices.ts'
import { rate, rateWorst } from '../../src/ledger/rating.ts'

const price = (text: Parameters<typeof ratesOf>[0]): Price => ({ version: 'v', model: 'm', rates: ratesOf(text) })
const lines = (usage: Partial<Usage>, text: Parameters<typeof ratesOf>[0]): [string, number, bigint, bigint][] =>
  rate({ ...noUsage(), ...usage }, price(text), 0).items.map(({ item, quantity, rate, bill }) => [
    item,
    quantity,
    rate,
    bill,
  ])

const FULL = {
  prompt: 1,
  input_cache_read: 2,
  input_cache_write_5_min: 3,
  input_cache_write_1_h: 4,
  input_audio: 5,
  completion: 6,
  reasoning: 7,
  output_audio: 8,
  output_image: 9,
  output_video: 10,
  input_image: 11,
  input_cache_read_audio: 12,
  image_tool_prompt: 13,
  image_tool_input_image: 14,
  image_tool_completion: 15,
  image_tool_output_image: 16,
  web_search: 0.01,
  image: 0.04,
  request: 0.005,
}
const TWO = { prompt: 1, completion: 10 }

test('each bucket counts as prompt, as output, as that of an image tool, or as searches or images', () => {
  const one: Usage = Object.assign(noUsage(), Object.fromEntries(USAGE_BUCKETS.map((bucket) => [bucket, 1])))
  expect([...PROMPT_BUCKETS, ...OUTPUT_BUCKETS, ...IMAGE_TOOL_BUCKETS, 'webSearches', 'images'].sort()).toEqual(
    [...USAGE_BUCKETS].sort(),
  )
  expect([promptTokens(one), completionTokens(one)]).toEqual([PROMPT_BUCKETS.length, OUTPUT_BUCKETS.length])
})

describe('lines of a bill', () => {
  test.each([
    ['inputTokens', 'prompt', 1_000_000_000n],
    ['cacheReadTokens', 'input_cache_read', 2_000_000_000n],
    ['cacheWrite5mTokens', 'input_cache_write_5_min', 3_000_000_000n],
    ['cacheWrite1hTokens', 'input_cache_write_1_h', 4_000_000_000n],
    ['inputAudioTokens', 'input_audio', 5_000_000_000n],
    ['outputTokens', 'completion', 6_000_000_000n],
    ['reasoningTokens', 'reasoning', 7_000_000_000n],
    ['outputAudioTokens', 'output_audio', 8_000_000_000n],
    ['outputImageTokens', 'output_image', 9_000_000_000n],
    ['outputVideoTokens', 'output_video', 10_000_000_000n],
    ['inputImageTokens', 'input_image', 11_000_000_000n],
    ['cacheReadAudioTokens', 'input_cache_read_audio', 12_000_000_000n],
    ['imageToolInputTokens', 'image_tool_prompt', 13_000_000_000n],
    ['imageToolInputImageTokens', 'image_tool_input_image', 14_000_000_000n],
    ['imageToolOutputTokens', 'image_tool_completion', 15_000_000_000n],
    ['imageToolOutputImageTokens', 'image_tool_output_image', 16_000_000_000n],
  ] as [keyof Usage, string, bigint][])('%s are billed as %s per million', (bucket, item, perMillion) => {
    expect(lines({ [bucket]: 3 }, FULL)).toEqual([
      [item, 3, perMillion, (perMillion * 3n) / 1_000_000n],
      ['request', 1, 5_000_000n, 5_000_000n],
    ])
  })

  test.each([
    ['webSearches', 'web_search', 10_000_000n],
    ['images', 'image', 40_000_000n],
  ] as [keyof Usage, string, bigint][])('%s are billed as %s per unit', (bucket, item, each) => {
    expect(lines({ [bucket]: 3 }, FULL)).toEqual([
      [item, 3, each, each * 3n],
      ['request', 1, 5_000_000n, 5_000_000n],
    ])
  })

  test('a fee for a request that searches is billed once, instead of one for each search', () => {
    const rates = { ...TWO, web_search: 0.014, search_request: 0.035 }
    expect(lines({ webSearches: 3 }, rates)).toEqual([['search_request', 1, 35_000_000n, 35_000_000n]])
    expect(lines({ webSearches: 1 }, rates)).toEqual([['search_request', 1, 35_000_000n, 35_000_000n]])
    expect(lines({ inputTokens: 1 }, rates)).toEqual([['prompt', 1, 1_000_000_000n, 1_000n]])
  })

  test('no usage gives the fee per request or no line', () => {
    expect(lines({}, FULL)).toEqual([['request', 1, 5_000_000n, 5_000_000n]])
    expect(lines({}, TWO)).toEqual([])
  })

  test('tokens whose item has no rate are part of the line that they fall back to', () => {
    expect(
      lines(
        {
          inputTokens: 1,
          cacheReadTokens: 2,
          cacheWrite5mTokens: 4,
          cacheWrite1hTokens: 8,
          inputAudioTokens: 16,
          outputTokens: 32,
          reasoningTokens: 64,
          outputAudioTokens: 128,
          outputImageTokens: 256,
        },
        TWO,
      ),
    ).toEqual([
      ['prompt', 31, 1_000_000_000n, 31_000n],
      ['completion', 480, 10_000_000_000n, 4_800_000n],
    ])
    expect(lines({ cacheWrite5mTokens: 4, cacheWrite1hTokens: 8 }, { ...TWO, input_cache_write_5_min: 2 })).toEqual([
      ['input_cache_write_5_min', 12, 2_000_000_000n, 24_000n],
    ])
    expect(lines({ cacheWrite5mTokens: 4, cacheWrite1hTokens: 8 }, { ...TWO, input_cache_write_1_h: 2 })).toEqual([
      ['prompt', 4, 1_000_000_000n, 4_000n],
      ['input_cache_write_1_h', 8, 2_000_000_000n, 16_000n],
    ])
    const audio = { ...TWO, input_audio: 3 }
    expect(lines({ cacheReadAudioTokens: 4 }, audio)).toEqual([['input_audio', 4, 3_000_000_000n, 12_000n]])
    expect(lines({ cacheReadAudioTokens: 4 }, { ...audio, input_cache_read: 2 })).toEqual([
      ['input_cache_read', 4, 2_000_000_000n, 8_000n],
    ])
  })

  test('tokens without any rate are listed at 0, as the last item that they fall back to', () => {
    const rates = { completion: 10 }
    expect(lines({ inputTokens: 1, cacheWrite1hTokens: 8 }, rates)).toEqual([['prompt', 9, 0n, 0n]])
    expect(lines({ cacheReadAudioTokens: 2 }, rates)).toEqual([['prompt', 2, 0n, 0n]])
  })

  test.each([
    ['reasoning', { reasoning: 20, output_audio: 15 }],
    ['output_video', { reasoning: 20, output_video: 25 }],
    ['completion', { reasoning: 5 }],
  ] as [FeeItem, Parameters<typeof ratesOf>[0]][])('output is held as %s, its most expensive kind', (item, rates) => {
    const usage = { ...noUsage(), inputTokens: 1, outputTokens: 3 }
    const { items } = rateWorst(usage, price({ ...TWO, ...rates }), 0)
    expect(items.map(({ item, quantity }) => [item, quantity])).toEqual([
      ['prompt', 1],
      [item, 3],
    ])
  })

  test('a search or image without a rate is listed at 0', () => {
    expect(lines({ webSearches: 2, images: 1 }, TWO)).toEqual([
      ['web_search', 2, 0n, 0n],
      ['image', 1, 0n, 0n],
    ])
  })
})

describe('tiers', () => {
  const TIERED = {
    prompt: [1, { over: 1000, rate: 2 }, { over: 5000, rate: 3 }],
    completion: [10, { over: 1000, rate: 20 }],
  } satisfies Parameters<typeof ratesOf>[0]

  test.each([
    [999, 1n, 10n],
    [1000, 1n, 10n],
    [1001, 2n, 20n],
    [5000, 2n, 20n],
    [5001, 3n, 20n],
  ])('a prompt of %p tokens has the rates of its tier', (tokens, prompt, completion) => {
    expect(lines({ inputTokens: tokens, outputTokens: 1 }, TIERED).map(([, , rate]) => rate)).toEqual([
      prompt * 1_000_000_000n,
      completion * 1_000_000_000n,
    ])
  })

  test('the tier depends on the whole prompt, cached or not, and not on output', () => {
    const parts = {
      inputTokens: 200,
      cacheReadTokens: 201,
      cacheWrite5mTokens: 200,
      cacheWrite1hTokens: 200,
      inputAudioTokens: 200,
    }
    expect(lines(parts, TIERED)[0]).toEqual(['prompt', 1001, 2_000_000_000n, 2_002_000n])
    expect(lines({ inputTokens: 1000, outputTokens: 9000 }, TIERED)[0]![2]).toBe(1_000_000_000n)
  })
})

describe('discounts', () => {
  test('a line and its discount are each rounded once, from the exact product', () => {
    // At 1.5 nano a token and half off, three are 4.5 -> 4 and 2.25 -> 2, one is 1.5 -> 2 and 0.75 -> 1.
    const usage = { ...noUsage(), inputTokens: 3, outputTokens: 1 }
    const rated = rate(usage, price({ prompt: 0.0015, completion: 0.0015 }), 5000)
    expect(rated.items.map(({ origin, discount, bill }) => [origin, discount, bill])).toEqual([
      [4n, 2n, 2n],
      [2n, 1n, 1n],
    ])
    // 10 % of 35 is 3.5 -> 4; of 34.6, which is billed as 35, it is 3.46 -> 3.
    const tenth = (each: number): bigint =>
      rate({ ...noUsage(), inputTokens: 1 }, price({ prompt: each }), 1000).items[0]!.discount
    expect([tenth(0.035), tenth(0.0346)]).toEqual([4n, 3n])
  })

  test('a discount of 100 % leaves a bill of 0', () => {
    expect(rate({ ...noUsage(), inputTokens: 7, images: 1 }, price(FULL), 10_000)).toMatchObject({ bill: 0n })
  })
})

/** Counts at the edges of rounding and tiers. */
const tokens = fc.oneof(
  fc.constant(0),
  fc.nat(3000),
  fc.nat(1e9),
  fc.maxSafeNat().map((n) => n % (1e11 + 1)),
  fc.constant(1e11),
)
const perMillion = fc.oneof(
  fc.constant(0n),
  fc.bigInt({ min: 0n, max: 9_999n }),
  fc.bigInt({ min: 0n, max: 10n ** 12n }),
  fc.constant(10n ** 12n),
)
const each = fc.bigInt({ min: 0n, max: 10n ** 11n })
const tiersOf = (rate: fc.Arbitrary<bigint>): fc.Arbitrary<Rate> =>
  fc.record({
    base: rate,
    tiers: fc
      .uniqueArray(fc.record({ over: fc.oneof(fc.nat(3000), fc.nat(1e9)), rate }), {
        maxLength: 3,
        selector: ({ over }) => over,
      })
      .map((tiers) => tiers.sort((a, b) => a.over - b.over)),
  })
const rates = fc.record(
  Object.fromEntries(
    FEE_ITEMS.map((item) => [
      item,
      isCounted(item) ? each.map((base) => ({ base, tiers: [] as Rate['tiers'] })) : tiersOf(perMillion),
    ]),
  ) as Record<FeeItem, fc.Arbitrary<Rate>>,
  { requiredKeys: [] },
)
const usages = fc.record({
  ...(Object.fromEntries(Object.keys(noUsage()).map((bucket) => [bucket, tokens])) as Record<
    keyof Usage,
    fc.Arbitrary<number>
  >),
  webSearches: fc.nat(1e6),
  images: fc.nat(1e6),
})
const discounts = fc.oneof(fc.constant(0), fc.constant(10_000), fc.nat(10_000))

/** Rounds an exact quotient independently of the code under test, by its decimal digits as text. */
function rounded(numerator: bigint, zeros: number): bigint {
  const text = String(numerator).padStart(zeros + 1, '0')
  const [whole, rest] = [BigInt(text.slice(0, text.length - zeros)), text.slice(text.length - zeros)]
  const half = '5'.padEnd(zeros, '0')
  return rest > half || (rest === half && /[13579]$/.test(String(whole))) ? whole + 1n : whole
}

describe('any usage at any price', () => {
  const assertAll = (check: (usage: Usage, rates: Price['rates'], discount: number) => void): void =>
    fc.assert(
      fc.property(usages, rates, discounts, (usage, of, discount) => check(usage, of, discount)),
      { numRuns: 400 },
    )
  const LARGEST = 2n ** 63n - 1n

  test('every line is rate x quantity, rounded once, never negative and within 64 bits', () => {
    assertAll((usage, of, discount) => {
      const rated = rate(usage, { version: 'v', model: 'm', rates: of }, discount)
      for (const { item, quantity, rate, origin, discount: off, bill } of rated.items) {
        const exact = rate * BigInt(quantity)
        expect(origin).toBe(isCounted(item) ? exact : rounded(exact, 6))
        expect(off).toBe(rounded(exact * BigInt(discount), isCounted(item) ? 4 : 10))
        expect(bill).toBe(origin - off)
        expect(off >= 0n && off <= origin).toBe(true)
        expect(quantity).toBeGreaterThan(0)
      }
      expect(rated.origin <= LARGEST).toBe(true)
    })
  })

  test('the largest possible bill is within 64 bits', () => {
    const most: Usage = {
      ...noUsage(),
      ...Object.fromEntries(Object.keys(noUsage()).map((bucket) => [bucket, 5e11])),
      webSearches: 1e6,
      images: 1e6,
    }
    for (const items of [
      FEE_ITEMS,
      FEE_ITEMS.filter((item) => ['prompt', 'completion', 'web_search', 'image', 'request'].includes(item)),
    ]) {
      const dearest = Object.fromEntries(
        items.map((item) => [item, { base: isCounted(item) ? 10n ** 11n : 10n ** 12n, tiers: [] }]),
      )
      const { origin } = rate(most, { version: 'v', model: 'm', rates: dearest }, 0)
      expect(origin > 6n * 10n ** 18n && origin <= LARGEST).toBe(true)
    }
  })

  test('sums are exact, whatever the order of the lines', () => {
    assertAll((usage, of, discount) => {
      const { items, origin, discount: off, bill } = rate(usage, { version: 'v', model: 'm', rates: of }, discount)
      for (const list of [items, items.toReversed()]) {
        expect([
          list.reduce((sum, line) => sum + line.origin, 0n),
          list.reduce((sum, line) => sum + line.discount, 0n),
          list.reduce((sum, line) => sum + line.bill, 0n),
        ]).toEqual([origin, off, bill])
      }
      expect(bill).toBe(origin - off)
      const reordered = Object.fromEntries(Object.entries(of).reverse())
      expect(rate(usage, { version: 'v', model: 'm', rates: reordered }, discount)).toEqual(
        rate(usage, { version: 'v', model: 'm', rates: of }, discount),
      )
    })
  })

  test('every token is on one line', () => {
    assertAll((usage, of) => {
      const counts = rate(usage, { version: 'v', model: 'm', rates: of }, 0)
        .items.filter(({ item }) => !isCounted(item))
        .map(({ quantity }) => BigInt(quantity))
      const { webSearches: _, images: __, ...buckets } = usage
      expect(counts.reduce((sum, n) => sum + n, 0n)).toBe(
        Object.values(buckets).reduce((sum, n) => sum + BigInt(n), 0n),
      )
      const drawn = IMAGE_TOOL_BUCKETS.reduce((sum, bucket) => sum + usage[bucket], 0)
      expect(promptTokens(usage) + completionTokens(usage) + drawn).toBe(
        Object.values(buckets).reduce((sum, n) => sum + n, 0),
      )
    })
  })

  test('one more token never lowers a bill, where no tier is cheaper than the one before it', () => {
    const rising = rates.map((of) =>
      Object.fromEntries(
        Object.entries(of).map(([item, { base, tiers }]) => {
          const sorted = [base, ...tiers.map(({ rate }) => rate)].sort((a, b) => (a < b ? -1 : 1))
          return [
            item,
            { base: sorted[0]!, tiers: tiers.map(({ over }, index) => ({ over, rate: sorted[index + 1]! })) },
          ]
        }),
      ),
    )
    fc.assert(
      fc.property(
        usages,
        rising,
        fc.constantFrom(...(Object.keys(noUsage()) as (keyof Usage)[])),
        fc.integer({ min: 1, max: 5000 }),
        (usage, of, bucket, more) => {
          const bill = (used: Usage): bigint => rate(used, { version: 'v', model: 'm', rates: of }, 0).bill
          expect(bill({ ...usage, [bucket]: usage[bucket] + more }) >= bill(usage)).toBe(true)
        },
      ),
      { numRuns: 400 },
    )
  })

  test('a cached token never costs more than a fresh one, unless the price says so', () => {
    assertAll((usage, { input_cache_read: cached, ...of }) => {
      const asFresh = { ...usage, inputTokens: usage.inputTokens + usage.cacheReadTokens, cacheReadTokens: 0 }
      const cheaper =
        cached === undefined || of.prompt === undefined
          ? of
          : {
              ...of,
              input_cache_read: {
                base: of.prompt.base / 2n,
                tiers: of.prompt.tiers.map(({ over, rate }) => ({ over, rate: rate / 2n })),
              },
            }
      const bill = (used: Usage): bigint => rate(used, { version: 'v', model: 'm', rates: cheaper }, 0).bill
      // Two lines are rounded separately, so they may differ by one nano-USD.
      expect(bill(usage) <= bill(asFresh) + 1n).toBe(true)
    })
  })

  test('decoding encoded rates gives the same rates', () => {
    fc.assert(fc.property(rates, (of) => expect(decodeRates(encodeRates(of))).toEqual(of)))
  })
})

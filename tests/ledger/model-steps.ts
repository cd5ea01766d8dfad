import * as fc from 'fast-check'
import type { GenerationEvent } from '../../src/generation/event.ts'
import type { Outcome } from '../../src/ledger/outcomes.ts'
import type { Limit } from './model-entries.ts'
import { WORD, type Rates, type Usage } from './model-pricing.ts'
import type { Death } from './rig.ts'

export const USD = 1_000_000_000n
export const MICRO = 1_000_000n
/** Small enough that a few requests hold all of it. */
export const [CREDIT, GIFT] = [USD / 2n, USD / 10n]
export const HOUR = 3_600_000

export const TIERS = {
  free: { usdPerMonth: 0, flows: { '5_hour': 3, '7_day': 8, monthly: 20 }, discount: 0 },
  pro: { usdPerMonth: 20, flows: { '5_hour': 12, '7_day': 30, monthly: 60 }, discount: 10 },
}

export const KEYS: { id: string; account: string; subscribed: boolean; limit?: Limit }[] = [
  { id: 'a-payg', account: 'a', subscribed: false },
  { id: 'a-daily', account: 'a', subscribed: false, limit: { amount: USD / 4n, period: 'day' } },
  { id: 'a-sub', account: 'a', subscribed: true },
  { id: 'a-sub-weekly', account: 'a', subscribed: true, limit: { amount: USD / 5n, period: 'week' } },
  { id: 'b-payg', account: 'b', subscribed: false },
  { id: 'b-once', account: 'b', subscribed: false, limit: { amount: USD / 4n, period: null } },
  { id: 'b-sub-monthly', account: 'b', subscribed: true, limit: { amount: USD / 5n, period: 'month' } },
]

/** Large as often as small, because small rates always fit. */
const rate = fc.record({
  base: fc.noBias(fc.bigInt(0n, 12n * USD)),
  tiers: fc.constantFrom<{ over: number; rate: bigint }[]>(
    [],
    [{ over: 2_000, rate: 15n * USD }],
    [
      { over: 500, rate: 3n * USD + 1n },
      { over: 9_000, rate: 20n * USD },
    ],
  ),
})
const fee = fc.record({ base: fc.bigInt(0n, USD / 50n), tiers: fc.constant<{ over: number; rate: bigint }[]>([]) })
export const rates: fc.Arbitrary<Rates> = fc.record(
  {
    prompt: rate,
    completion: rate,
    reasoning: rate,
    input_cache_read: rate,
    input_cache_write_5_min: rate,
    input_cache_write_1_h: rate,
    input_audio: rate,
    output_audio: rate,
    output_image: rate,
    web_search: fee,
    image: fee,
    request: fee,
  },
  { requiredKeys: ['prompt', 'completion'] },
)

const few = fc.nat({ max: 12_000 })
const many = fc.noBias(fc.nat({ max: 20_000 }))
const usage: fc.Arbitrary<Partial<Usage>> = fc.record(
  {
    inputTokens: few,
    outputTokens: fc.integer({ min: 1, max: 12_000 }),
    cacheReadTokens: few,
    reasoningTokens: few,
    cacheWrite5mTokens: few,
    cacheWrite1hTokens: few,
    inputAudioTokens: few,
    outputAudioTokens: few,
    outputImageTokens: few,
    webSearches: fc.nat({ max: 3 }),
    images: fc.nat({ max: 3 }),
  },
  { requiredKeys: ['outputTokens'] },
)

const which = fc.nat({ max: 1_000 })
const outcome = fc.constantFrom<Outcome>('completed', 'completed', 'client-left', 'failed', 'timed-out', 'shutdown')
export const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('admit' as const),
      key: fc.nat({ max: KEYS.length - 1 }),
      free: fc.constantFrom(false, false, false, true),
      input: many,
      output: many,
      candidates: fc.constantFrom(1, 1, 1, 2),
      mayEnd: fc.constantFrom(true, true, false),
      discount: fc.constantFrom(0, 500, 3_333, 10_000),
      penaltyTenths: fc.constantFrom(10, 15),
    }),
  },
  {
    weight: 14,
    arbitrary: fc.record({
      do: fc.constant('record' as const),
      which,
      what: fc.constantFrom(
        'text' as const,
        'reasoning' as const,
        'usage' as const,
        'usage' as const,
        'finish' as const,
        'image' as const,
        'burst' as const,
        'burst' as const,
      ),
      words: fc.integer({ min: 1, max: 300 }),
      usage,
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant('close' as const),
      which: fc.array(which, { minLength: 1, maxLength: 3 }),
      outcome,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('defer' as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('closeAgain' as const), which, outcome }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('post' as const),
      account: fc.constantFrom('a', 'b'),
      bonus: fc.boolean(),
      amount: fc.bigInt(-USD / 10n, USD / 8n),
      seen: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 60, 150, 6_000) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('jump' as const),
      ms: fc.constantFrom(1, HOUR, 5 * HOUR, 30 * HOUR, 169 * HOUR, 24 * 31 * HOUR, -HOUR, -30 * HOUR, -24 * 31 * HOUR),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('plan' as const),
      account: fc.constantFrom('a', 'b'),
      tier: fc.constantFrom('free', 'pro'),
      how: fc.constantFrom('now' as const, 'next' as const, 'end' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reprice' as const), rates }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('inspect' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('crash' as const),
      after: fc.constantFrom(0, 150, 150),
      death: fc.constantFrom<Death>('before', 'after'),
      which: fc.array(which, { maxLength: 2 }),
      outcome,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('takeOver' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fail' as const), times: fc.integer({ min: 1, max: 3 }) }) },
)
export type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never
export type Of<Name extends Step['do']> = Extract<Step, { do: Name }>

/** The events of a step in which something was received. */
export const eventsOf = (what: Of<'record'>['what'], words: number, usage: Partial<Usage>): GenerationEvent[] => {
  if (what === 'usage') return [{ type: 'usage', usage }]
  if (what === 'burst') return [{ type: 'usage', usage }, ...eventsOf('text', words, usage)]
  if (what === 'finish') return [{ type: 'finish', reason: 'stop', raw: 'stop' }]
  return [
    {
      type: 'part-start',
      part: 0,
      head: what === 'image' ? { type: 'image', mediaType: 'image/png' } : { type: what },
    },
    { type: 'part-delta', part: 0, text: WORD.repeat(words) },
  ]
}

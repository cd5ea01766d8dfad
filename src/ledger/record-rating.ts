import { noUsage, USAGE_BUCKETS } from '../generation/usage.ts'
import type { Nano } from '../money.ts'
import type { GenerationRecord } from '../store/store.ts'
import { OUTCOMES, type Outcome } from './outcomes.ts'
import { decodeRates, type Price } from './prices.ts'
import { rate, type Rating } from './rating.ts'

/** The price version in ratings of models without a price. */
const UNPRICED = 'unpriced'

/** The facts of a record that its rating follows from. */
type RatedRecord = Pick<GenerationRecord, 'usage' | 'price' | 'discount' | 'bill' | 'ending'>

/**
 * The rating of a stored generation at the price that is stored with it. The record's `bill` equals the rating's bill,
 * or its origin for a subscription. Throws where the stored rates cannot be read.
 */
export function ratingOf(record: RatedRecord): Rating {
  const { usage, price, discount } = record
  if (price === null || wasNotCharged(record))
    return { version: price?.version ?? UNPRICED, items: [], origin: 0n, discount: 0n, bill: 0n }
  return rate(usage, { ...price, rates: decodeRates(price.rates) }, discount)
}

/** Without this check, the fee per request would be expected of generations whose outcome is not charged. */
const wasNotCharged = ({ usage, bill, ending }: RatedRecord): boolean =>
  bill === 0n &&
  OUTCOMES[ending as Outcome]?.before !== 'reported' &&
  USAGE_BUCKETS.every((bucket) => usage[bucket] === 0)

/**
 * The least that can have been held for a generation, in nano-USD: every request has at least one token of text, read
 * or written to a cache, at the lowest rate for prompts of any size. Throws where the stored rates cannot be read.
 */
export function minimumHold({ price, discount, kind }: GenerationRecord): Nano {
  if (price === null) return 0n
  const rates = Object.entries(decodeRates(price.rates)).map(([item, { base, tiers }]) => [
    item,
    { base: tiers.reduce((least, tier) => (tier.rate < least ? tier.rate : least), base), tiers: [] },
  ])
  const lowest: Price = { ...price, rates: Object.fromEntries(rates) as Price['rates'] }
  const holds = (['inputTokens', 'cacheWrite5mTokens', 'cacheWrite1hTokens'] as const).map((bucket) => {
    const { origin, bill } = rate({ ...noUsage(), [bucket]: 1 }, lowest, discount)
    return kind === 'subscription' ? origin : bill
  })
  return holds.reduce((least, hold) => (hold < least ? hold : least))
}

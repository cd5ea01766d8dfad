import { noUsage } from '../generation/usage.ts'
import type { Nano } from '../money.ts'
import type { GenerationRecord } from '../store/store.ts'
import { OUTCOMES, type Outcome } from './outcomes.ts'
import { decodeRates, type Price } from './prices.ts'
import { rate, type Rating } from './rating.ts'

/** Stands as the version of a price where a model has none. */
const UNPRICED = 'unpriced'

/**
 * What a stored generation was charged for, line by line, at the price that is stored with it. Its bill is the
 * record's; for a
 * subscription its origin is. Throws where the stored rates cannot be read.
 */
export function ratingOf(record: GenerationRecord): Rating {
  const { usage, price, discount } = record
  if (price === null || wasReleased(record))
    return { version: price?.version ?? UNPRICED, items: [], origin: 0n, discount: 0n, bill: 0n }
  return rate(usage, { ...price, rates: decodeRates(price.rates) }, discount)
}

/** It ended in a way that is not charged: without this, its price's fee per request would be expected of it. */
const wasReleased = ({ usage, bill, ending }: GenerationRecord): boolean =>
  bill === 0n &&
  OUTCOMES[ending as Outcome]?.before !== 'reported' &&
  Object.keys(noUsage()).every((bucket) => usage[bucket as keyof typeof usage] === 0)

/**
 * What must have been held for a generation at the least: every request has a token of text, which is billed as read or
 * as written to a cache, at the lowest rate
 * that a prompt of any size has. 0 where that is worth nothing. Throws where the stored rates cannot be read.
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

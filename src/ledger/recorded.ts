import { noUsage } from '../generation/usage.ts'
import type { GenerationRecord } from '../store/store.ts'
import { ENDINGS, type Ending } from './endings.ts'
import { decodeRates } from './prices.ts'
import { rate, type Rating } from './rating.ts'

/** Stands as the version of a price where a model has none. */
const UNPRICED = 'unpriced'

/**
 * What a stored generation was charged for, line by line, at the price that is stored with it. Its bill is the record's; for a
 * subscription its origin is. Throws where the stored rates cannot be read.
 */
export function ratingOf(record: GenerationRecord): Rating {
  const { usage, price, discount } = record
  if (price === null || wasReleased(record)) return { version: price?.version ?? UNPRICED, items: [], origin: 0n, discount: 0n, bill: 0n }
  return rate(usage, { ...price, rates: decodeRates(price.rates) }, discount)
}

/** It ended in a way that is not charged: without this, its price's fee per request would be expected of it. */
const wasReleased = ({ usage, bill, ending }: GenerationRecord): boolean =>
  bill === 0n && ENDINGS[ending as Ending]?.before === 'nothing' && Object.keys(noUsage()).every((bucket) => usage[bucket as keyof typeof usage] === 0)

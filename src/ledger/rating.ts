import { FEE_ITEMS, isCounted } from '../config-schema.ts'
import { promptTokens, type Usage } from '../generation/usage.ts'
import { divideHalfEven, type Nano } from '../money.ts'
import type { FeeItem, Price, Rate } from './prices.ts'

/** One line of a bill. `quantity`: tokens, or a count; `rate`: nano-USD per million tokens, or per one. */
export type RatedItem = { item: FeeItem; quantity: number; rate: Nano; origin: Nano; discount: Nano; bill: Nano }

/** What a generation costs: `origin` at the list price, `bill = origin - discount`, every sum exact. `version`: the price's. */
export type Rating = { version: string; items: RatedItem[]; origin: Nano; discount: Nano; bill: Nano }

/** What each bucket of usage is billed as, and as what where the price has no rate for that. */
const BUCKETS: readonly { bucket: keyof Usage; item: FeeItem }[] = [
  { bucket: 'inputTokens', item: 'prompt' },
  { bucket: 'cacheReadTokens', item: 'input_cache_read' },
  { bucket: 'cacheWrite5mTokens', item: 'input_cache_write_5_min' },
  { bucket: 'cacheWrite1hTokens', item: 'input_cache_write_1_h' },
  { bucket: 'inputAudioTokens', item: 'input_audio' },
  { bucket: 'outputTokens', item: 'completion' },
  { bucket: 'reasoningTokens', item: 'reasoning' },
  { bucket: 'outputAudioTokens', item: 'output_audio' },
  { bucket: 'outputImageTokens', item: 'output_image' },
  { bucket: 'webSearches', item: 'web_search' },
  { bucket: 'images', item: 'image' },
]

const INSTEAD: Partial<Record<FeeItem, FeeItem>> = {
  input_cache_read: 'prompt', input_cache_write_5_min: 'prompt', input_cache_write_1_h: 'input_cache_write_5_min', input_audio: 'prompt',
  reasoning: 'completion', output_audio: 'completion', output_image: 'completion',
}

const MILLION = 1_000_000n
const WHOLE = 10_000n

/**
 * What a generation's usage costs at a price. A line for each fee item that was used: tokens whose item the price does not know are part of the line
 * whose rate they pay, and what has no rate at all is listed at 0. The fee per request is always part of it: do not rate what is not charged.
 * `discountBasisPoints`: 0 to 10000. Both amounts of a line are rounded once, half to even, from the exact product.
 */
export function rate(usage: Usage, price: Price, discountBasisPoints: number): Rating {
  const quantities: Partial<Record<FeeItem, number>> = {}
  for (const { bucket, item } of BUCKETS) {
    if (usage[bucket] === 0) continue
    const paid = paidAs(item, price.rates)
    quantities[paid] = (quantities[paid] ?? 0) + usage[bucket]
  }
  if (price.rates.request !== undefined) quantities.request = 1
  const rating: Rating = { version: price.version, items: [], origin: 0n, discount: 0n, bill: 0n }
  const prompt = promptTokens(usage)
  for (const item of FEE_ITEMS) {
    const quantity = quantities[item]
    if (quantity === undefined) continue
    const line = rateItem(item, quantity, rateAt(price.rates[item], prompt), discountBasisPoints)
    rating.items.push(line)
    rating.origin += line.origin
    rating.discount += line.discount
    rating.bill += line.bill
  }
  return rating
}

function rateItem(item: FeeItem, quantity: number, perUnit: Nano, discountBasisPoints: number): RatedItem {
  const unit = isCounted(item) ? 1n : MILLION
  const product = BigInt(quantity) * perUnit
  const origin = divideHalfEven(product, unit)
  const discount = discountBasisPoints === 0 ? 0n : divideHalfEven(product * BigInt(discountBasisPoints), unit * WHOLE)
  return { item, quantity, rate: perUnit, origin, discount, bill: origin - discount }
}

function paidAs(item: FeeItem, rates: Price['rates']): FeeItem {
  const instead = rates[item] === undefined ? INSTEAD[item] : undefined
  return instead === undefined ? item : paidAs(instead, rates)
}

function rateAt(rate: Rate | undefined, promptTokens: number): Nano {
  if (rate === undefined) return 0n
  return rate.tiers.findLast(({ over }) => promptTokens > over)?.rate ?? rate.base
}

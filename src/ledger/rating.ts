import { FEE_ITEMS, isCounted, type FeeItem } from '../config/terms.ts'
import { OUTPUT_BUCKETS, type OutputBucket, promptTokens, USAGE_BUCKETS, type Usage } from '../generation/usage.ts'
import { divideHalfEven, type Nano } from '../money.ts'
import type { Price, Rate } from './prices.ts'

/** One line of a bill. `quantity`: tokens, or a count; `rate`: nano-USD per million tokens, or per one. */
export type RatedItem = { item: FeeItem; quantity: number; rate: Nano; origin: Nano; discount: Nano; bill: Nano }

/**
 * The cost of a generation in nano-USD: `origin` at list price, `bill = origin - discount`; all sums are exact.
 * `version` is the price's.
 */
export type Rating = { version: string; items: RatedItem[]; origin: Nano; discount: Nano; bill: Nano }

/** The fee item of each usage bucket. */
const ITEM_OF: Readonly<Record<keyof Usage, FeeItem>> = {
  inputTokens: 'prompt',
  cacheReadTokens: 'input_cache_read',
  cacheWrite5mTokens: 'input_cache_write_5_min',
  cacheWrite1hTokens: 'input_cache_write_1_h',
  inputAudioTokens: 'input_audio',
  outputTokens: 'completion',
  reasoningTokens: 'reasoning',
  outputAudioTokens: 'output_audio',
  outputImageTokens: 'output_image',
  webSearches: 'search_request',
  images: 'image',
  inputImageTokens: 'input_image',
  cacheReadAudioTokens: 'input_cache_read_audio',
  outputVideoTokens: 'output_video',
  imageToolInputTokens: 'image_tool_prompt',
  imageToolInputImageTokens: 'image_tool_input_image',
  imageToolOutputTokens: 'image_tool_completion',
  imageToolOutputImageTokens: 'image_tool_output_image',
}

/** Where a price has no rate for an item, it is billed as the first of these for which it has one, else as the last. */
const FALLBACK_ITEMS: Partial<Record<FeeItem, readonly FeeItem[]>> = {
  search_request: ['web_search'],
  input_cache_read: ['prompt'],
  input_cache_read_audio: ['input_cache_read', 'input_audio', 'prompt'],
  input_cache_write_5_min: ['prompt'],
  input_cache_write_1_h: ['input_cache_write_5_min', 'prompt'],
  input_audio: ['prompt'],
  input_image: ['prompt'],
  reasoning: ['completion'],
  output_audio: ['completion'],
  output_image: ['completion'],
  output_video: ['completion'],
  image_tool_input_image: ['image_tool_prompt'],
  image_tool_output_image: ['image_tool_completion'],
}

const MILLION = 1_000_000n
const WHOLE = 10_000n

/** One line of a bill: the buckets it counts, and their rate in nano-USD per `unit` tokens. */
type Line = { item: FeeItem; buckets: readonly (keyof Usage)[]; rate: Rate | undefined; unit: bigint }

/** The lines of each price in the order of a bill, computed once: the same object rates all requests of a model. */
const LINES = new WeakMap<Price, readonly Line[]>()

/**
 * Rates usage at a price, with a line for each fee item used. Tokens whose item has no rate are part of the line that
 * they fall back to; those without any rate are listed at 0. The fee per request is always included: do not rate what
 * is not charged. `discountBasisPoints`: 0 to 10000. Both amounts of a line are rounded once, half to even, from the
 * exact product.
 */
export function rate(usage: Usage, price: Price, discountBasisPoints: number): Rating {
  const rating: Rating = { version: price.version, items: [], origin: 0n, discount: 0n, bill: 0n }
  const prompt = promptTokens(usage)
  for (const { item, buckets, rate, unit } of linesOf(price)) {
    let quantity = item === 'request' ? 1 : 0
    for (const bucket of buckets) quantity += usage[bucket]
    if (quantity === 0) continue
    if (item === 'search_request') quantity = 1
    const perUnit = rateAt(rate, prompt)
    const product = BigInt(quantity) * perUnit
    const origin = divideHalfEven(product, unit)
    const discount =
      discountBasisPoints === 0 ? 0n : divideHalfEven(product * BigInt(discountBasisPoints), unit * WHOLE)
    const bill = origin - discount
    rating.items.push({ item, quantity, rate: perUnit, origin, discount, bill })
    rating.origin += origin
    rating.discount += discount
    rating.bill += bill
  }
  return rating
}

/** Rates usage with its output as the most expensive kind, because the kind of output is not known in advance. */
export function rateWorst(usage: Usage, price: Price, discountBasisPoints: number): Rating {
  const { reasoning, output_audio, output_image, output_video } = price.rates
  if ((reasoning ?? output_audio ?? output_image ?? output_video) === undefined)
    return rate(usage, price, discountBasisPoints)
  const prompt = promptTokens(usage)
  const rateOf = (bucket: OutputBucket): Nano =>
    rateAt(linesOf(price).find(({ buckets }) => buckets.includes(bucket))?.rate, prompt)
  const mostExpensive = OUTPUT_BUCKETS.reduce((most, bucket) => (rateOf(bucket) > rateOf(most) ? bucket : most))
  return rate(
    mostExpensive === 'outputTokens' ? usage : { ...usage, outputTokens: 0, [mostExpensive]: usage.outputTokens },
    price,
    discountBasisPoints,
  )
}

function linesOf(price: Price): readonly Line[] {
  const known = LINES.get(price)
  if (known !== undefined) return known
  const { rates } = price
  const lines = FEE_ITEMS.map((item) => ({
    item,
    buckets: USAGE_BUCKETS.filter((bucket) => billedAs(ITEM_OF[bucket], rates) === item),
    rate: rates[item],
    unit: isCounted(item) ? 1n : MILLION,
  })).filter(({ item, buckets }) => buckets.length > 0 || (item === 'request' && rates.request !== undefined))
  LINES.set(price, lines)
  return lines
}

function billedAs(item: FeeItem, rates: Price['rates']): FeeItem {
  const fallbacks = rates[item] === undefined ? FALLBACK_ITEMS[item] : undefined
  return fallbacks?.find((fallback) => rates[fallback] !== undefined) ?? fallbacks?.at(-1) ?? item
}

function rateAt(rate: Rate | undefined, promptTokens: number): Nano {
  if (rate === undefined) return 0n
  return rate.tiers.findLast(({ over }) => promptTokens > over)?.rate ?? rate.base
}

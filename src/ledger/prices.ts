import type { Config } from '../config.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Nano } from '../money.ts'

/** What is charged for, in the order of a bill. */
export const FEE_ITEMS = [
  'prompt', 'input_cache_read', 'input_cache_write_5_min', 'input_cache_write_1_h', 'input_audio',
  'completion', 'reasoning', 'output_audio', 'output_image', 'web_search', 'image', 'request',
] as const
export type FeeItem = (typeof FEE_ITEMS)[number]

/** Fee items that are counted one by one; the others are tokens. */
export const PER_ONE: ReadonlySet<FeeItem> = new Set(['web_search', 'image', 'request'])

/** Nano-USD per million tokens, or per one for web_search, image and request. A tier's rate holds for the whole request when its prompt tokens are more than `over`; tiers ascend. */
export type Rate = { base: Nano; tiers: { over: number; rate: Nano }[] }

/** `version` changes when a rate does. */
export type Price = { version: string; model: string; rates: Partial<Record<FeeItem, Rate>> }

/** What models cost: the catalogue's prices and those of the configuration. */
export class Prices {
  constructor(_config: Config) {}

  /** What a client pays for a model as asked: the configuration's price of that id, else the catalogue's for the first endpoint that has one. undefined: nobody said. */
  of(_modelId: string, _endpoints: readonly Endpoint[]): Price | undefined {
    return undefined
  }

  /** What a provider's model costs us at list price. */
  cost(_provider: string, _model: string): Price | undefined {
    return undefined
  }
}

/** Rates as compact JSON, exactly: `{"prompt":["1250000000",200000,"2500000000"]}` is a base and one tier. */
export const encodeRates = (rates: Price['rates']): string =>
  JSON.stringify(Object.fromEntries(Object.entries(rates).map(([item, { base, tiers }]) => [item, [`${base}`, ...tiers.flatMap(({ over, rate }) => [over, `${rate}`])]])))

export const decodeRates = (text: string): Price['rates'] => Object.fromEntries(Object.entries(JSON.parse(text) as Record<FeeItem, (string | number)[]>).map(([item, [base, ...tiers]]) => [item, {
  base: BigInt(base!),
  tiers: tiers.flatMap((over, index) => (index % 2 === 0 ? [{ over: Number(over), rate: BigInt(tiers[index + 1]!) }] : [])),
}]))

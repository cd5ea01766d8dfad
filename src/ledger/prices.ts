import { createHash } from 'node:crypto'
import pricesFile from '../../catalog/prices.json'
import type { Config } from '../config/load.ts'
import type { PriceText, RateText } from '../config/model-settings.ts'
import { FEE_ITEMS, type FeeItem } from '../config/terms.ts'
import { nanoOf, type Nano } from '../money.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import { globs } from '../providers/catalog-rows.ts'
import type { StoredPrice } from '../store/store.ts'

export { FEE_ITEMS, type FeeItem } from '../config/schema.ts'

/**
 * Nano-USD per million tokens, or per one for web_search, image and request. A tier's rate holds for the whole request
 * when its prompt tokens are more than `over`; tiers ascend.
 */
export type Rate = { base: Nano; tiers: { over: number; rate: Nano }[] }

/** `version` changes when a rate does. */
export type Price = { version: string; model: string; rates: Partial<Record<FeeItem, Rate>> }

/**
 * Another price of the same model, from a day on (`2027-01-01`, UTC) or in some hours of every day (`01:00-04:00`,
 * UTC).
 */
export type PriceChange = { from?: string; hours?: string; prices: PriceText }

/**
 * One line of catalog/prices.json. `match`: the provider's names of the model, with `*` for any text and `#` for a
 * digit; a pattern behind `!` takes names out again.
 * `version`: the day on which the line's prices last changed. Of `turns` the last that holds replaces `prices`.
 */
export type PriceRow = {
  model: string
  match: string[]
  version: string
  prices: PriceText
  turns?: PriceChange[]
  why?: string
}

/**
 * catalog/prices.json. `own`: kept by hand, and asked first; `else`: providers whose lines are asked for names that a
 * provider's own lines do not know.
 */
export type PriceFile = {
  source: string
  imported: string
  changes: { imported: string; source: string; changed: string[] }[]
  own: Record<string, PriceRow[]>
  providers: Record<string, { else: string[]; models: PriceRow[] }>
}

/** A price and when it holds. */
export type TimedPrice = Omit<PriceChange, 'prices'> & { holds: (now: Date) => boolean; price: Price }
type Line = { matches: (model: string) => boolean; dated: TimedPrice[] }

/** Names whose price is remembered, as clients can think up any number. */
const REMEMBERED_MAX = 5_000

const NOBODY_SAID: readonly TimedPrice[] = []

/** What models cost: the catalogue's prices and those of the configuration. */
export class Prices {
  readonly #configured = new Map<string, readonly [TimedPrice]>()
  readonly #file: PriceFile
  readonly #now: () => number
  /** Lines by provider, read when the provider is first asked for. */
  readonly #lines = new Map<string, Line[]>()
  readonly #remembered = new Map<string, readonly TimedPrice[]>()

  /** Throws an Error for a price that is no amount. */
  constructor(config: Config, file = pricesFile as unknown as PriceFile, now: () => number = Date.now) {
    for (const { id, price } of config.models.values())
      if (price !== undefined) this.#configured.set(id, [{ holds: always, price: configuredPrice(id, price) }])
    this.#file = file
    this.#now = now
  }

  /**
   * What a client pays for a model as asked: the configuration's price of that model, else the catalogue's for the
   * first endpoint that has one. undefined: nobody said.
   */
  of(modelId: string, endpoints: readonly Pick<Endpoint, 'target' | 'listed'>[]): Price | undefined {
    return this.#holding(this.timed(modelId, endpoints))
  }

  /** Every price that `of` may give, at one time or another: the last that holds does. None: nobody said. */
  timed(modelId: string, endpoints: readonly Pick<Endpoint, 'target' | 'listed'>[]): readonly TimedPrice[] {
    // A short name of a listed model must not be a way around its price.
    const configured = this.#configured.get(endpoints[0]?.listed ?? modelId)
    if (configured !== undefined) return configured
    for (const { target } of endpoints) {
      const prices = this.#costs(target.provider, target.model)
      if (prices.length > 0) return prices
    }
    return NOBODY_SAID
  }

  /** What a provider's model costs us at list price. */
  cost(provider: string, model: string): Price | undefined {
    return this.#holding(this.#costs(provider, model))
  }

  #holding(prices: readonly TimedPrice[]): Price | undefined {
    if (prices.length < 2) return prices[0]?.price
    const now = new Date(this.#now())
    return prices.findLast(({ holds }) => holds(now))!.price
  }

  #costs(provider: string, model: string): readonly TimedPrice[] {
    const key = `${provider}/${model}`
    let dated = this.#remembered.get(key)
    if (dated === undefined) {
      dated = this.#find(provider, model) ?? NOBODY_SAID
      if (this.#remembered.size >= REMEMBERED_MAX) this.#remembered.clear()
      this.#remembered.set(key, dated)
    }
    return dated
  }

  #find(provider: string, model: string): TimedPrice[] | undefined {
    const name = model.toLowerCase()
    const found = this.#linesOf(provider).find(({ matches }) => matches(name))
    if (found !== undefined) return found.dated
    for (const other of this.#file.providers[provider]?.else ?? []) {
      const dated = this.#find(other, model)
      if (dated !== undefined) return dated
    }
    return undefined
  }

  #linesOf(provider: string): Line[] {
    const known = this.#lines.get(provider)
    if (known !== undefined) return known
    const { own, providers } = this.#file
    const rows = [
      ...(Object.hasOwn(own, provider) ? own[provider]! : []),
      ...(Object.hasOwn(providers, provider) ? providers[provider]!.models : []),
    ]
    const lines = rows.map((row) => ({ matches: matcher(row.match), dated: datedPrices(provider, row) }))
    this.#lines.set(provider, lines)
    return lines
  }
}

/** Whether a name in lower case is one of these. */
function matcher(match: string[]): (model: string) => boolean {
  const [out, within] = [
    match.filter((pattern) => pattern.startsWith('!')),
    match.filter((pattern) => !pattern.startsWith('!')),
  ]
  const exact = new Set(within.map((pattern) => pattern.toLowerCase()))
  const patterns = within.filter((pattern) => /[*#]/.test(pattern))
  if (patterns.length === 0) return (model) => exact.has(model)
  const [likely, unlikely] = [globs(patterns), globs(out.map((pattern) => pattern.slice(1)))]
  return (model) => (exact.has(model) || likely.test(model)) && !unlikely.test(model)
}

const always = (): boolean => true

function datedPrices(provider: string, { model, version, prices, turns = [] }: PriceRow): TimedPrice[] {
  const name = `${provider}/${model}`
  const later = turns.map(({ prices: other, ...when }) => ({
    ...when,
    holds: holding(when),
    price: { version: `${version}/${when.from ?? when.hours}`, model: name, rates: ratesOf(other) },
  }))
  return [{ holds: always, price: { version, model: name, rates: ratesOf(prices) } }, ...later]
}

/** Hours may pass midnight; both are UTC. */
function holding({ from, hours }: Omit<PriceChange, 'prices'>): (now: Date) => boolean {
  if (from !== undefined) return (now) => now.getTime() >= Date.parse(from)
  const [start = '', end = ''] = hours!.split('-')
  return (now) => {
    const time = now.toISOString().slice(11, 16)
    return end < start ? time >= start || time < end : time >= start && time < end
  }
}

/** The version of a price of the file says what the price is, so that it changes with it and comes back with it. */
function configuredPrice(model: string, price: PriceText): Price {
  const rates = ratesOf(price)
  return {
    version: `sluice.yaml:${createHash('sha256').update(encodeRates(rates)).digest('hex').slice(0, 8)}`,
    model,
    rates,
  }
}

/** USD as people write it -> rates, in the order of a bill. Throws an Error for what is no amount. */
export const ratesOf = (price: PriceText): Price['rates'] =>
  Object.fromEntries(FEE_ITEMS.flatMap((item) => (price[item] === undefined ? [] : [[item, rateOf(price[item])]])))

function rateOf(text: RateText): Rate {
  const [base, ...tiers] = typeof text === 'number' ? ([text] as [number]) : text
  return { base: nanoOf(base), tiers: tiers.map(({ over, rate }) => ({ over, rate: nanoOf(rate) })) }
}

const STORED = new WeakMap<Price, StoredPrice>()

/**
 * A price as it is kept with a record: the same object for the same price, as every request of its model asks for it.
 */
export function storedPrice(price: Price): StoredPrice {
  let stored = STORED.get(price)
  if (stored === undefined)
    STORED.set(price, (stored = { version: price.version, model: price.model, rates: encodeRates(price.rates) }))
  return stored
}

/** Rates as compact JSON, exactly: `{"prompt":["1250000000",200000,"2500000000"]}` is a base and one tier. */
export const encodeRates = (rates: Price['rates']): string =>
  JSON.stringify(
    Object.fromEntries(
      Object.entries(rates).map(([item, { base, tiers }]) => [
        item,
        [`${base}`, ...tiers.flatMap(({ over, rate }) => [over, `${rate}`])],
      ]),
    ),
  )

export const decodeRates = (text: string): Price['rates'] =>
  Object.fromEntries(
    Object.entries(JSON.parse(text) as Record<FeeItem, (string | number)[]>).map(([item, [base, ...tiers]]) => [
      item,
      {
        base: BigInt(base!),
        tiers: tiers.flatMap((over, index) =>
          index % 2 === 0 ? [{ over: Number(over), rate: BigInt(tiers[index + 1]!) }] : [],
        ),
      },
    ]),
  )

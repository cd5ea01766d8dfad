import { createHash } from 'node:crypto'
import pricesFile from '../../catalog/prices.json'
import type { Config } from '../config/load.ts'
import type { PriceText, RateText } from '../config/model-settings.ts'
import { FEE_ITEMS, type FeeItem } from '../config/terms.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import { nanoOf, type Nano } from '../money.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import { globs } from '../providers/catalog-rows.ts'
import type { StoredPrice } from '../store/store.ts'

/**
 * Nano-USD per million tokens, or per one of an item that is counted. A tier's rate holds for the whole request when
 * its prompt tokens are more than `over`; tiers ascend.
 */
export type Rate = { base: Nano; tiers: { over: number; rate: Nano }[] }

/** The rates of one model. Other rates have another `version`. */
export type Price = { version: string; model: string; rates: Partial<Record<FeeItem, Rate>> }

/** True for a model whose use costs nothing. */
export const isFree = (price: Price | undefined): boolean =>
  price === undefined ||
  Object.values(price.rates).every(({ base, tiers }) => base === 0n && tiers.every(({ rate }) => rate === 0n))

/**
 * Another price of the same model, in UTC: from a day on (`2027-01-01`), or in certain hours (`01:00-04:00`) of every
 * day, of some weekdays (`days`: `Mon-Fri`), or of those but some dates (`except`).
 */
export type PriceChange = { from?: string; hours?: string; days?: string; except?: string[]; prices: PriceText }

/**
 * One line of catalog/prices.json. `match`: the provider's names of the model, with `*` for any text and `#` for a
 * digit; a pattern behind `!` excludes names. `version`: the day on which the line's prices last changed. The last
 * change of `schedule` in force replaces `prices`.
 */
export type PriceRow = {
  model: string
  match: string[]
  version: string
  prices: PriceText
  schedule?: PriceChange[]
  why?: string
}

/**
 * catalog/prices.json. `own`: lines kept by hand, which come first; `else`: providers whose lines apply to names that a
 * provider's own lines do not match; `searchesApart`: those of them whose searches cost something else there.
 */
export type PriceFile = {
  source: string
  imported: string
  changes: { imported: string; source: string; changed: string[] }[]
  own: Record<string, PriceRow[]>
  providers: Record<string, { else: string[]; searchesApart?: string[]; models: PriceRow[] }>
}

/** A price and when it is in force. */
export type TimedPrice = Omit<PriceChange, 'prices'> & { isInForce: (now: Date) => boolean; price: Price }
type Line = { matches: (model: string) => boolean; prices: TimedPrice[] }

/** Model names whose prices are cached; clients can send any number of names. */
const CACHED_NAMES_MAX = 5_000

const UNPRICED: readonly TimedPrice[] = []

/** The prices of models: those of the configuration, else those of the catalogue. */
export class Prices {
  #configured = new Map<string, readonly [TimedPrice]>()
  readonly #file: PriceFile
  readonly #now: () => number
  /** Lines by provider, parsed at the first use of the provider. */
  readonly #lines = new Map<string, Line[]>()
  readonly #cached = new BoundedMap<string, readonly TimedPrice[]>(CACHED_NAMES_MAX)

  /** Throws an Error for a configured price that is not an amount. */
  constructor(config: Config, file = pricesFile as unknown as PriceFile, now: () => number = Date.now) {
    for (const { id, price } of config.models.values())
      if (price !== undefined) this.#configured.set(id, [{ isInForce: always, price: configuredPrice(id, price) }])
    this.#file = file
    this.#now = now
  }

  /** Takes over what is configured in another one. */
  replace(other: Prices): void {
    this.#configured = other.#configured
  }

  /**
   * The price of a model for clients: the configuration's, else the catalogue's for the first endpoint that has one;
   * undefined where neither has.
   */
  of(modelId: string, endpoints: readonly Pick<Endpoint, 'target' | 'listed'>[]): Price | undefined {
    return this.#inForce(this.timed(modelId, endpoints))
  }

  /** Every price that `of` may give at some time; of several, the last in force applies. Empty: no price. */
  timed(modelId: string, endpoints: readonly Pick<Endpoint, 'target' | 'listed'>[]): readonly TimedPrice[] {
    // A listed model keeps its configured price under its other names.
    const configured = this.#configured.get(endpoints[0]?.listed ?? modelId)
    if (configured !== undefined) return configured
    for (const { target } of endpoints) {
      const prices = this.#listPrices(target.provider, target.model)
      if (prices.length > 0) return prices
    }
    return UNPRICED
  }

  /** The price for clients of a provider's model that another one uses: the configuration's, else the list price. */
  named(provider: string, model: string): Price | undefined {
    return this.#configured.get(`${provider}/${model}`)?.[0].price ?? this.cost(provider, model)
  }

  /** The list price that a provider charges us for a model; undefined where it is not known. */
  cost(provider: string, model: string): Price | undefined {
    return this.#inForce(this.#listPrices(provider, model))
  }

  #inForce(prices: readonly TimedPrice[]): Price | undefined {
    if (prices.length < 2) return prices[0]?.price
    const now = new Date(this.#now())
    return prices.findLast(({ isInForce }) => isInForce(now))!.price
  }

  #listPrices(provider: string, model: string): readonly TimedPrice[] {
    const key = `${provider}/${model}`
    let prices = this.#cached.get(key)
    if (prices === undefined) {
      prices = this.#find(provider, model) ?? UNPRICED
      this.#cached.set(key, prices)
    }
    return prices
  }

  #find(provider: string, model: string): TimedPrice[] | undefined {
    const name = model.toLowerCase()
    const found = this.#linesOf(provider).find(({ matches }) => matches(name))
    if (found !== undefined) return found.prices
    const { else: others = [], searchesApart = [] } = this.#file.providers[provider] ?? {}
    for (const other of others) {
      const prices = this.#find(other, model)
      if (prices !== undefined) return searchesApart.includes(other) ? prices.map(withoutSearches) : prices
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
    const lines = rows.map((row) => ({ matches: matcher(row.match), prices: timedPrices(provider, row) }))
    this.#lines.set(provider, lines)
    return lines
  }
}

function withoutSearches({ price, ...when }: TimedPrice): TimedPrice {
  const { web_search: _, search_request: __, ...rates } = price.rates
  return { ...when, price: { ...price, version: `${price.version} without searches`, rates } }
}

/** A test of model names in lower case against the patterns of a line. */
export function matcher(match: readonly string[]): (model: string) => boolean {
  const [excluded, included] = [
    match.filter((pattern) => pattern.startsWith('!')),
    match.filter((pattern) => !pattern.startsWith('!')),
  ]
  const exact = new Set(included.map((pattern) => pattern.toLowerCase()))
  const patterns = included.filter((pattern) => /[*#]/.test(pattern))
  if (patterns.length === 0) return (model) => exact.has(model)
  const [includes, excludes] = [globs(patterns), globs(excluded.map((pattern) => pattern.slice(1)))]
  return (model) => (exact.has(model) || includes.test(model)) && !excludes.test(model)
}

const always = (): boolean => true

function timedPrices(provider: string, { model, version, prices, schedule = [] }: PriceRow): TimedPrice[] {
  const name = `${provider}/${model}`
  const later = schedule.map(({ prices: other, ...when }) => ({
    ...when,
    isInForce: inForce(when),
    price: { version: `${version}/${when.from ?? when.hours}`, model: name, rates: ratesOf(other) },
  }))
  return [{ isInForce: always, price: { version, model: name, rates: ratesOf(prices) } }, ...later]
}

const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']
const DAY = 86_400_000

/** Hours may span midnight; those after it are of the day on which they began. */
function inForce({ from, hours, days, except = [] }: Omit<PriceChange, 'prices'>): (now: Date) => boolean {
  if (from !== undefined) return (now) => now.getTime() >= Date.parse(from)
  const [start = '', end = ''] = hours!.split('-')
  const isDay = dayTest(days, except)
  return (now) => {
    const time = now.toISOString().slice(11, 16)
    if (time >= start) return (time < end || end < start) && isDay(now)
    return end < start && time < end && isDay(new Date(now.getTime() - DAY))
  }
}

function dayTest(days: string | undefined, except: readonly string[]): (day: Date) => boolean {
  if (days === undefined) return always
  const [first = 0, last = 0] = days.split('-').map((name) => WEEKDAYS.indexOf(name))
  return (day) => {
    const weekday = day.getUTCDay()
    return weekday >= first && weekday <= last && !except.includes(day.toISOString().slice(0, 10))
  }
}

const CONFIGURED = 'sluice.yaml:'

/** True for a price of the operator's own. */
export const isConfigured = ({ version }: Price): boolean => version.startsWith(CONFIGURED)

/** The version of a configured price is a hash of its rates, so that equal rates have the same version. */
function configuredPrice(model: string, price: PriceText): Price {
  const rates = ratesOf(price)
  return {
    version: `${CONFIGURED}${createHash('sha256').update(encodeRates(rates)).digest('hex').slice(0, 8)}`,
    model,
    rates,
  }
}

/** Configured USD -> rates in nano-USD, in the order of a bill. Throws an Error for what is not an amount. */
export const ratesOf = (price: PriceText): Price['rates'] =>
  Object.fromEntries(FEE_ITEMS.flatMap((item) => (price[item] === undefined ? [] : [[item, rateOf(price[item])]])))

function rateOf(text: RateText): Rate {
  const [base, ...tiers] = typeof text === 'number' ? ([text] as [number]) : text
  return { base: nanoOf(base), tiers: tiers.map(({ over, rate }) => ({ over, rate: nanoOf(rate) })) }
}

const STORED = new WeakMap<Price, StoredPrice>()

/** A price as it is stored with a record, cached by its object, because all requests of a model share it. */
export function storedPrice(price: Price): StoredPrice {
  let stored = STORED.get(price)
  if (stored === undefined)
    STORED.set(price, (stored = { version: price.version, model: price.model, rates: encodeRates(price.rates) }))
  return stored
}

/** Rates as compact, exact JSON: `{"prompt":["1250000000",200000,"2500000000"]}` is a base and one tier. */
export const encodeRates = (rates: Price['rates']): string =>
  JSON.stringify(
    Object.fromEntries(
      Object.entries(rates).map(([item, { base, tiers }]) => [
        item,
        [`${base}`, ...tiers.flatMap(({ over, rate }) => [over, `${rate}`])],
      ]),
    ),
  )

/** The inverse of `encodeRates`. Throws for text that is not its output. */
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

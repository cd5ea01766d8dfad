import feesFile from '../../catalog/tool-fees.json'
import { nanoOf, usdOf, type Nano } from '../money.ts'
import { globs } from '../providers/catalog-rows.ts'
import { isConfigured, matcher, type Price } from './prices.ts'

type FeeRow = { provider: string; tools: string[]; free?: string; why: string }

/** By provider, the tools that it runs for a fee beside the tokens that no fee item covers; `free`: a quota of it. */
const FEES: ReadonlyMap<string, ReadonlyMap<string, FeeRow>> = new Map(
  [...Map.groupBy(feesFile.fees as FeeRow[], ({ provider }) => provider)].map(([provider, rows]) => [
    provider,
    new Map(rows.flatMap((row) => row.tools.map((tool) => [tool, row]))),
  ]),
)

/** The providers that charge for each search, with the engines that do not cost what the model's price says. */
const SEARCHES: ReadonlyMap<string, readonly string[]> = new Map(
  (feesFile.searches as { provider: string; engines?: string[] }[]).map(({ provider, engines = [] }) => [
    provider,
    engines,
  ]),
)

const SEARCH_RATES = feesFile.searchRates.map(({ provider, engine, match, rate }) => ({
  provider,
  engine,
  matches: matcher(match),
  rate: nanoOf(rate),
}))

/** The rate of searches by this engine; undefined where it is that of the model's price. */
export const searchRate = (provider: string, model: string, engine: string): Nano | undefined =>
  SEARCH_RATES.find((row) => row.provider === provider && row.engine === engine && row.matches(model.toLowerCase()))
    ?.rate

/** By price and rate: the same object rates all requests of a model. */
const SEARCHED = new WeakMap<Price, Map<Nano, Price>>()

/** A list price with another rate of searches. The operator's own say all that is charged. */
export function withSearchRate(price: Price, rate: Nano | undefined): Price {
  if (rate === undefined || isConfigured(price)) return price
  let byRate = SEARCHED.get(price)
  if (byRate === undefined) SEARCHED.set(price, (byRate = new Map()))
  let result = byRate.get(rate)
  if (result === undefined) {
    const version = `${price.version} search ${usdOf(rate)}`
    result = { ...price, version, rates: { ...price.rates, web_search: { base: rate, tiers: [] } } }
    byRate.set(rate, result)
  }
  return result
}

/** By provider, the models that search for every request and do not report it. */
const SEARCHING: ReadonlyMap<string, RegExp> = new Map(
  feesFile.searchingModels.map(({ provider, match }) => [provider, globs(match)]),
)

/**
 * True for a tool whose fee the provider charges and no bill has. `isQuotaFree`: not one of which the operator has so
 * much for nothing that most never pay.
 */
export function hasUnbilledFee(provider: string, tool: string, isQuotaFree: boolean): boolean {
  const row = FEES.get(provider)?.get(tool)
  return row !== undefined && !(isQuotaFree && row.free !== undefined)
}

/** True for searches that the provider charges and a bill at this price would not have. `engine`: '' for its choice. */
export function hasUnbilledSearches(provider: string, { rates }: Price, engine: string): boolean {
  const engines = SEARCHES.get(provider)
  if (engines === undefined) return false
  return (rates.web_search === undefined && rates.search_request === undefined) || engines.includes(engine)
}

/** The same for a model that searches unasked: only a fee for each request is one for its searches. */
export const hasUnbilledSearching = (provider: string, model: string, { rates }: Price): boolean =>
  SEARCHING.get(provider)?.test(model) === true && rates.request === undefined

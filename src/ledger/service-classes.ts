import classesFile from '../../catalog/service-classes.json'
import type { Config } from '../config/load.ts'
import { isOfClass, type FeeItem } from '../config/terms.ts'
import { CLASS_MEMBERS, type ClassMember, type ServiceClass } from '../generation/service-class.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import { divideHalfEven, nanoOf, type Nano } from '../money.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import { withImageTool, type ImageTool } from './image-tool.ts'
import type { Price, Rate } from './prices.ts'
import { withSearchRate } from './tool-fees.ts'
import { matcher } from './prices.ts'

/** Factors on the token rates of a model, by class: `service_tier=priority`. */
type ClassFactors = Readonly<Record<string, number>>

/**
 * The classes of a generation: those that its model has a price for, and the one that was requested. `images`: the tool
 * that it has its provider draw with; `searchRate`: what its searches cost, where that is not what the price says.
 */
export type PricedClasses = {
  factors: ClassFactors
  requested: ServiceClass
  images?: ImageTool | undefined
  searchRate?: Nano | undefined
}

const PLAIN = classesFile.plain as Record<ClassMember, readonly string[]>
const ROWS = classesFile.factors.map(({ provider, match, class: name, factor }) => ({
  provider,
  matches: matcher(match),
  name,
  factor,
}))

/** Model names whose factors are cached; clients can send any number of names. */
const CACHED_NAMES_MAX = 5_000

/** Other names of classes: OpenAI's `priority` is `fast` since July 2026. */
const SAME = classesFile.same as Record<string, string>

/** The factor of a class, also under its other name. */
function factorIn(factors: ClassFactors, member: ClassMember, value: string): number | undefined {
  const name = `${member}=${value}`
  return factors[name] ?? factors[SAME[name] ?? name]
}

/** True for a value that means the service whose prices are the model's. */
export const isPlain = (member: ClassMember, value: string): boolean => PLAIN[member].includes(value)

/** The prices of service classes: those of the configuration, else those of the catalogue. */
export class ServiceClasses {
  readonly #configured: ReadonlyMap<string, ClassFactors>
  readonly #cached = new BoundedMap<string, ClassFactors>(CACHED_NAMES_MAX)

  constructor({ models }: Pick<Config, 'models'>) {
    this.#configured = new Map(
      [...models.values()].flatMap(({ id, classes }) => (classes === undefined ? [] : [[id, classes]])),
    )
  }

  /** The factors of a model. Of a class that several endpoints have, the largest counts. */
  of(modelId: string, endpoints: readonly Pick<Endpoint, 'target' | 'listed'>[]): ClassFactors {
    const factors: Record<string, number> = {}
    for (const { target } of endpoints)
      for (const [name, factor] of Object.entries(this.#listed(target.provider, target.model)))
        factors[name] = Math.max(factor, factors[name] ?? 0)
    return { ...factors, ...this.#configured.get(endpoints[0]?.listed ?? modelId) }
  }

  #listed(provider: string, model: string): ClassFactors {
    const key = `${provider}/${model}`
    let factors = this.#cached.get(key)
    if (factors === undefined) {
      const name = model.toLowerCase()
      const rows = ROWS.filter((row) => row.provider === provider && row.matches(name))
      factors = Object.fromEntries(rows.map((row) => [row.name, row.factor]))
      this.#cached.set(key, factors)
    }
    return factors
  }
}

/** The price that a hold has to cover: the provider may serve a request in the plain class instead. */
export const heldPrice = (price: Price, classes: PricedClasses | undefined): Price =>
  classes === undefined
    ? price
    : withImageTool(classPrice(price, classes, factorOf(classes.factors, classes.requested, 1)), classes.images ?? {})

/**
 * The price of the class in which a response was served; the requested one where its provider does not say. `images`:
 * the tool that it was drawn with.
 */
export function servedPrice(
  price: Price,
  classes: PricedClasses | undefined,
  served: ServiceClass | undefined,
  images: ImageTool = {},
): Price {
  const own =
    classes === undefined
      ? price
      : classPrice(price, classes, factorOf(classes.factors, { ...classes.requested, ...served }, 0))
  return withImageTool(own, images)
}

const classPrice = (price: Price, { searchRate }: PricedClasses, factor: number): Price =>
  scaled(withSearchRate(price, searchRate), factor)

function factorOf(factors: ClassFactors, service: ServiceClass, least: number): number {
  let product = 1
  for (const member of CLASS_MEMBERS) {
    const value = service[member]
    if (value !== undefined) product *= Math.max(least, factorIn(factors, member, value) ?? 1)
  }
  return product
}

/** The classes of a request without a factor, by member. */
export const unknownClasses = (factors: ClassFactors, service: ServiceClass): ClassMember[] =>
  CLASS_MEMBERS.filter((member) => {
    const value = service[member]
    return value !== undefined && !isPlain(member, value) && factorIn(factors, member, value) === undefined
  })

/** By price and factor: the same object rates all requests of a model. */
const SCALED = new WeakMap<Price, Map<number, Price>>()

/** A price with the rates of its own tokens multiplied; the other items cost the same in every class. */
function scaled(price: Price, factor: number): Price {
  if (factor === 1) return price
  let byFactor = SCALED.get(price)
  if (byFactor === undefined) SCALED.set(price, (byFactor = new Map()))
  let result = byFactor.get(factor)
  if (result === undefined) {
    const rates = Object.fromEntries(
      (Object.entries(price.rates) as [FeeItem, Rate][]).map(([item, rate]) => [
        item,
        isOfClass(item) ? scaledRate(rate, factor) : rate,
      ]),
    )
    result = { version: `${price.version} x${Number(factor.toFixed(9))}`, model: price.model, rates }
    byFactor.set(factor, result)
  }
  return result
}

function scaledRate({ base, tiers }: Rate, factor: number): Rate {
  const nano = nanoOf(Number(factor.toFixed(9)))
  const times = (rate: Nano): Nano => divideHalfEven(rate * nano, 1_000_000_000n)
  return { base: times(base), tiers: tiers.map(({ over, rate }) => ({ over, rate: times(rate) })) }
}

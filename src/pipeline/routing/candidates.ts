import type { Identity } from '../../accounts/keys.ts'
import type { Config } from '../../config/load.ts'
import { GatewayError } from '../../error.ts'
import type { ProtocolName } from '../../generation/request.ts'
import type { Price, Prices, Rate } from '../../ledger/prices.ts'
import { isObject } from '../../json/parse.ts'
import type { RoutingMembers } from '../../protocols/routing-members.ts'
import type { Catalogue, Endpoint } from '../../providers/catalogue.ts'
import type { RoutingPreferences } from '../../providers/routing/terms.ts'
import { readPreferences } from './preferences.ts'

export type Dropped = { endpoint: Endpoint; reason: string }

/** The endpoints that may serve a request, those that may not, and what the request prefers among the others. */
export type Candidates = {
  endpoints: readonly Endpoint[]
  /** The model of those that are only for requests which are too long for the others. */
  longer?: string | undefined
  dropped: readonly Dropped[]
  preferences: RoutingPreferences
}

/** A request as far as its candidates depend on it. `candidates`: once they were found. */
export type RoutedRequest = {
  identity: Pick<Identity, 'allows'>
  request: { headers?: Headers }
  routing?: RoutingMembers | undefined
  candidates?: Candidates | undefined
}

/** The conditions of a request on its endpoints. `provider`: behind `@`; `isUnread`: a provider reads them itself. */
type Conditions = {
  model: string
  provider: string | undefined
  identity: RoutedRequest['identity']
  protocol: ProtocolName
  preferences: RoutingPreferences
  isUnread: boolean
}

type Modules = {
  catalogue: Pick<Catalogue, 'endpoints' | 'named' | 'providerNames'>
  config: Pick<Config, 'models'>
  prices: Pick<Prices, 'of'>
}

const NONE: readonly Dropped[] = []
const NO_PREFERENCES: RoutingPreferences = {}

/** Finds the candidates of requests: the endpoints of their models that keep their preferences. */
export class CandidateFinder {
  readonly #modules: Modules
  /** Those of requests without preferences, by the endpoints of their model. */
  readonly #plain = new WeakMap<readonly Endpoint[], Candidates>()
  /** The only endpoint of a model, as one that reads members about routing itself. */
  readonly #routing = new WeakMap<Endpoint, readonly Endpoint[]>()

  constructor(modules: Modules) {
    this.#modules = modules
  }

  /**
   * The candidates of a request, at least one: those of its model, then those of the models that it falls back to.
   * Throws model_not_found, with a reason for each endpoint where none keeps the preferences, and invalid_request for
   * preferences that are not understood.
   */
  of(request: RoutedRequest, model: string, protocol: ProtocolName): Candidates {
    return (request.candidates ??= this.#find(request, model, protocol))
  }

  /** The same; undefined where that would be refused, which a later step reports. */
  tryOf(request: RoutedRequest, model: string, protocol: ProtocolName): Candidates | undefined {
    try {
      return this.of(request, model, protocol)
    } catch (error) {
      if (error instanceof GatewayError) return undefined
      throw error
    }
  }

  /** Reports whether the key of a request may use a model. */
  mayUse({ identity }: Pick<RoutedRequest, 'identity'>, model: string): boolean {
    return identity.allows(this.#modules.catalogue.named(model).model)
  }

  #find({ routing, request: { headers }, identity }: RoutedRequest, name: string, protocol: ProtocolName): Candidates {
    const { catalogue, config } = this.#modules
    const listed = catalogue.endpoints(name, protocol)
    const endpoints = this.#isForProvider(routing, listed, protocol) ? this.#readByProvider(listed[0]!) : listed
    const { model, strategy, provider } = catalogue.named(name)
    const members = readHere(routing, endpoints, protocol)
    const isUnread = members === undefined && isObject(routing?.provider)
    const read = readPreferences(members, headers, catalogue.providerNames)
    const configured = config.models.get(endpoints[0]!.listed ?? model)
    const fallbacks = read?.models ?? configured?.fallbacks ?? []
    const last = configured?.contextFallback
    if (read === undefined && name === model && fallbacks.length === 0 && last === undefined)
      return this.#withoutPreferences(endpoints)
    const others = new Set(last === undefined ? fallbacks : [...fallbacks, last])
    // Clients may list the model itself first.
    others.delete(name)
    const all = [...endpoints, ...[...others].flatMap((other) => this.#fallback(other, read, protocol))]
    const conditions: Conditions = {
      model,
      provider,
      identity,
      protocol,
      preferences: read ?? NO_PREFERENCES,
      isUnread,
    }
    const dropped: Dropped[] = []
    const kept = all.filter((endpoint) => {
      const reason = this.#reasonAgainst(endpoint, conditions)
      if (reason !== undefined) dropped.push({ endpoint, reason })
      return reason === undefined
    })
    if (kept.length === 0) throw nothingLeft(name, dropped)
    const preferences = { ...(strategy === undefined ? {} : { strategy }), ...withNames(read, kept) }
    return {
      endpoints: kept,
      dropped,
      preferences,
      longer: last === undefined || fallbacks.includes(last) ? undefined : last,
    }
  }

  #withoutPreferences(endpoints: readonly Endpoint[]): Candidates {
    let candidates = this.#plain.get(endpoints)
    if (candidates === undefined) {
      candidates = { endpoints, dropped: NONE, preferences: NO_PREFERENCES }
      this.#plain.set(endpoints, candidates)
    }
    return candidates
  }

  /**
   * Reports whether an order is that of the only provider, which routes requests itself: it names none of this server.
   * Sluice has no choice to make, and the provider judges its own protocol.
   */
  #isForProvider(routing: RoutingMembers | undefined, endpoints: readonly Endpoint[], protocol: ProtocolName): boolean {
    if (!isObject(routing?.provider) || endpoints.length !== 1 || endpoints[0]!.protocol !== protocol) return false
    const { order } = routing.provider
    if (!Array.isArray(order) || order.length === 0 || promises(routing.provider)) return false
    const { providerNames } = this.#modules.catalogue
    return order.every((name) => typeof name === 'string' && providerNames.isElsewhere(name))
  }

  #readByProvider(endpoint: Endpoint): readonly Endpoint[] {
    let endpoints = this.#routing.get(endpoint)
    if (endpoints === undefined) {
      const { target } = endpoint
      endpoints = [{ ...endpoint, target: { ...target, quirks: { ...target.quirks, routesItself: true } } }]
      this.#routing.set(endpoint, endpoints)
    }
    return endpoints
  }

  /** A configured fallback that is switched off is left out; one that the client names must exist. */
  #fallback(model: string, read: RoutingPreferences | undefined, protocol: ProtocolName): readonly Endpoint[] {
    try {
      return this.#modules.catalogue.endpoints(model, protocol).map((endpoint) => ({ ...endpoint, fallback: model }))
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      const at = read?.models?.indexOf(model) ?? -1
      if (at < 0) return []
      throw error.with({ message: `models[${at}]: ${error.message}`, param: `models[${at}]` })
    }
  }

  /** Why an endpoint may not serve a request. */
  #reasonAgainst(endpoint: Endpoint, conditions: Conditions): string | undefined {
    const { model, provider, identity, protocol, preferences, isUnread } = conditions
    const { fallback } = endpoint
    const reason = this.#unkept(endpoint, preferences, fallback ?? model)
    if (reason !== undefined) return reason
    if (provider !== undefined && !isNamed(endpoint, provider)) return `not the provider behind @, ${provider}`
    if (fallback !== undefined && !identity.allows(fallback)) return `the key may not use ${fallback}`
    // Members that are left to the provider of the model are promises to the client all the same.
    return isUnread && !readsItself(endpoint, protocol) ? `provider: is for the provider of ${model} alone` : undefined
  }

  /** The first preference that an endpoint does not keep, or of which it is not known. */
  #unkept(endpoint: Endpoint, preferences: RoutingPreferences, model: string): string | undefined {
    const { only, ignore, order, allowFallbacks, dataCollection, zdr, quantizations, regions, maxPrice } = preferences
    const { routing } = endpoint
    if (only?.some((name) => isNamed(endpoint, name)) === false) return 'not among only'
    if (ignore?.some((name) => isNamed(endpoint, name)) === true) return 'among ignore'
    if (allowFallbacks === false && order?.some((name) => isNamed(endpoint, name)) === false)
      return 'not among order, and allow_fallbacks is false'
    if (dataCollection === 'deny') {
      const { retains, trains } = routing.dataPolicy
      if (retains === true || trains === true) return `its provider ${retains === true ? 'stores' : 'trains with'} data`
      if (retains === undefined || trains === undefined) return 'its data policy is not known'
    }
    if (zdr === true && routing.zdr !== true)
      return routing.zdr === false ? 'without zero data retention' : 'its data retention is not known'
    if (quantizations?.includes(routing.quantization ?? 'unknown') === false)
      return `its quantization is ${routing.quantization ?? 'not known'}`
    if (regions !== undefined && (routing.region === undefined || !regions.includes(routing.region)))
      return `its region is ${routing.region ?? 'not known'}`
    return maxPrice === undefined ? undefined : tooExpensive(this.#modules.prices.of(model, [endpoint]), maxPrice)
  }
}

/** The endpoints of a request, and those that are only for one that is too long for them. */
export function splitLonger(
  { longer }: Candidates,
  endpoints: readonly Endpoint[],
): { endpoints: readonly Endpoint[]; longer?: readonly Endpoint[] } {
  if (longer === undefined) return { endpoints }
  const usual = endpoints.filter(({ fallback }) => fallback !== longer)
  if (usual.length === 0 || usual.length === endpoints.length) return { endpoints }
  return { endpoints: usual, longer: endpoints.filter(({ fallback }) => fallback === longer) }
}

/** Reasons of later steps. */
export const NOT_REPRESENTABLE = 'its protocol cannot represent the request'
export const WITH_LOSSES = 'something would be lost in translation'

/** The endpoints of a list that are not in another, with the reason. */
export const leftOut = (before: readonly Endpoint[], after: readonly Endpoint[], reason: string): readonly Dropped[] =>
  before.length === after.length
    ? NONE
    : before.filter((endpoint) => !after.includes(endpoint)).map((endpoint) => ({ endpoint, reason }))

/** The members that Sluice reads: where every endpoint reads them itself, they are for its provider. */
const readHere = (
  routing: RoutingMembers | undefined,
  endpoints: readonly Endpoint[],
  protocol: ProtocolName,
): RoutingMembers | undefined => (endpoints.every((endpoint) => readsItself(endpoint, protocol)) ? undefined : routing)

const readsItself = ({ protocol, target }: Endpoint, own: ProtocolName): boolean =>
  protocol === own && target.quirks.routesItself === true

/** Reports whether members exclude endpoints for more than their place in an order: only Sluice can keep that. */
const promises = ({ only, data_collection, zdr, ...others }: Record<string, unknown>): boolean =>
  only !== undefined ||
  data_collection === 'deny' ||
  zdr === true ||
  ['ignore', 'regions', 'quantizations', 'max_price'].some((name) => others[name] != null)

/** `name`: a provider's id, the name of an endpoint, or one of its tags. */
const isNamed = ({ provider, name: own, routing }: Endpoint, name: string): boolean =>
  provider.id === name || own === name || routing.tags.includes(name)

/** Has the names of endpoints in the place of tags. */
function withNames(read: RoutingPreferences | undefined, endpoints: readonly Endpoint[]): RoutingPreferences {
  if (read?.order === undefined) return read ?? NO_PREFERENCES
  const order = read.order.flatMap((name) => {
    const tagged = endpoints.filter(({ routing }) => routing.tags.includes(name))
    return tagged.length === 0 ? [name] : tagged.map((endpoint) => endpoint.name)
  })
  return { ...read, order: [...new Set(order)] }
}

/** The highest rates count: a long prompt has them. */
function tooExpensive(price: Price | undefined, most: NonNullable<RoutingPreferences['maxPrice']>): string | undefined {
  if (price === undefined) return 'its price is not known'
  for (const item of ['prompt', 'completion'] as const) {
    const limit = most[item]
    const usd = highest(price.rates[item])
    if (limit !== undefined && usd > limit) return `its ${item} price is ${usd} USD per million tokens`
  }
  return undefined
}

const highest = (rate: Rate | undefined): number =>
  rate === undefined ? 0 : Math.max(...[rate.base, ...rate.tiers.map((tier) => tier.rate)].map(Number)) / 1e9

/** Endpoints that an error names. */
const LISTED = 50

function nothingLeft(model: string, dropped: readonly Dropped[]): GatewayError {
  const listed = dropped.slice(0, LISTED)
  const texts = listed.map(({ endpoint, reason }) => `${labelOf(endpoint)}: ${reason}`)
  return new GatewayError(
    'model_not_found',
    `No endpoint of ${model} keeps the routing preferences of this request. ${texts.join('; ')}.`,
    {
      param: 'provider',
      metadata: { endpoints: listed.map(({ endpoint, reason }) => ({ endpoint: labelOf(endpoint), reason })) },
    },
  )
}

/** An endpoint for people: with its model where that is not the requested one. */
export const labelOf = ({ name, fallback }: Endpoint): string =>
  fallback === undefined ? name : `${name} (${fallback})`

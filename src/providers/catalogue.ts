import type { Config, CredentialConfig, ServingFacts } from '../config/load.ts'
import type { Auth } from '../config/provider-settings.ts'
import { modelNameProblem } from '../config/model-settings.ts'
import { GatewayError, invalid } from '../error.ts'
import type { ProtocolName } from '../generation/request.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import { nearest } from '../nearest.ts'
import { present } from '../protocols/fields.ts'
import type { Api } from '../config/provider-terms.ts'
import type { Capabilities, Target } from '../protocols/protocol.ts'
import type { Quirks } from '../protocols/quirks.ts'
import { builtInProvider, configuredProvider, howToEnable, restrictionOf } from './configured.ts'
import { familyCapabilities, globs, MODEL_ROWS, PROVIDER_ROWS, type MediaFacts } from './catalog-rows.ts'
import { factsOf } from './endpoint-facts.ts'
import { API_CAPABILITIES, apiOf, credentials } from './provider-apis.ts'
import { fromConfig, fromRow, type Model, type ModelEndpoint } from './model.ts'
import { keyedName, type ModelName, ProviderNames, readModelName, shortNames } from './names.ts'
import type { EndpointFacts } from './routing/terms.ts'

/** An enabled provider. */
export type Provider = {
  id: string
  name: string
  /** In order of preference. */
  apis: { protocol: Api; baseUrl: string; auth: Auth }[]
  apiKey?: string
  /** Several keys in its place. */
  apiKeys?: readonly CredentialConfig[]
  /** Sent with every request, names in lower case. */
  headers: Record<string, string>
  quirks: Quirks
  /** `<id>/<any name>` is sent to it as `<any name>`. */
  unlisted: boolean
  /** Called in this process instead of over the network. */
  inProcess?: 'sandbox'
  media?: MediaFacts
  /** The Cloud Storage that every account may name. */
  buckets: readonly string[]
  /** Every account may refer to objects stored at the provider: it is configured so, or the provider stores none. */
  sharedIds: boolean
  /** Facts that requests can demand, as far as they are known. */
  facts: ServingFacts
  /** The origin of its settings: `built in`, the variable with its key or address, `sluice.yaml` or `local`. */
  foundBy: string
}

/** A provider's model and API to which a request can be sent. */
export type Endpoint = EndpointBase & { protocol: ProtocolName }

/** A provider's model that makes predictions. */
export type PredictionEndpoint = EndpointBase & { protocol: 'predictions' }

type EndpointBase = {
  provider: Provider
  /** Everything before the protocol's path. */
  baseUrl: string
  /** The header with the key; empty if none is sent. `provider.headers` are added to it. */
  credentials: Record<string, string>
  /** `acme`, or `acme/key-2` for one of several keys: also the holder of what the provider stores for a request. */
  name: string
  /** The name of that key. */
  credential?: string
  /** The same object for all keys of one endpoint: a request is written once for them. */
  target: Target
  routing: EndpointFacts
  contextLength?: number
  /** Id of the listed model that the requested name resolved to; absent for an unlisted name. */
  listed?: string
  /** The fallback model whose endpoint it is; absent for one of the requested model. */
  fallback?: string
}

/** The model that a name resolves to: a listed one, or one without an id for an unlisted name. */
type ResolvedModel = { id?: string; contextLength?: number; endpoints: ModelEndpoint[]; capabilities: Capabilities }

/** The origin of providers that were found on this machine. */
export const DISCOVERED = 'local'

/** Limit on cached names. */
const CACHED_NAMES_MAX = 5_000

const UNPREFIXED_NAMES = PROVIDER_ROWS.map((row) => ({ provider: row.id, pattern: globs(row.unprefixedNames) }))

/** All providers and models: of the built-in catalogue, the configuration file and local servers. */
export class Catalogue {
  readonly #config: Config
  #providers = new Map<string, Provider>()
  #models = new Map<string, Model>()
  /** Models by the provider at which they were discovered. */
  readonly #discovered = new Map<string, Model[]>()
  /** Endpoints by protocol and name; cleared when providers change or when it is full. */
  readonly #endpointCache = new BoundedMap<string, Endpoint[]>(CACHED_NAMES_MAX)
  /** Ids of listed models by the part of the id after the provider. */
  #shortNames = new Map<string, string[]>()
  #listed: readonly Model[] | undefined
  #providerNames: ProviderNames | undefined

  /** Throws ConfigError if a variable has an invalid base URL. */
  constructor(config: Config) {
    this.#config = config
    for (const row of PROVIDER_ROWS) {
      const provider = builtInProvider(row, config)
      if (provider !== undefined) this.#providers.set(row.id, provider)
    }
    for (const own of config.providers.values()) {
      const provider = PROVIDER_ROWS.some(({ id }) => id === own.id) ? undefined : configuredProvider(own, config)
      if (provider !== undefined) this.#providers.set(own.id, provider)
    }
    for (const row of MODEL_ROWS) this.#list(fromRow(row), row.onlyImported === true ? [] : shortNames(row.id))
    for (const model of config.models.values()) this.#list(fromConfig(model, this.#models.get(model.id)))
  }

  /**
   * Endpoints for a model name, in the order of attempts. If a provider has several protocols, the client's own is
   * preferred. Throws invalid_request for a malformed name, and model_not_found with the nearest names or with how to
   * enable the model's provider.
   */
  endpoints(model: string, clientProtocol: ProtocolName): readonly Endpoint[] {
    const key = `${clientProtocol} ${model}`
    const known = this.#endpointCache.get(key)
    if (known !== undefined) return known
    const endpoints = this.#resolve(model, clientProtocol)
    this.#endpointCache.set(key, endpoints)
    return endpoints
  }

  #resolve(model: string, clientProtocol: ProtocolName): Endpoint[] {
    const endpoints = this.#endpointsOf(model, clientProtocol).filter(
      (endpoint): endpoint is Endpoint => endpoint.protocol !== 'predictions',
    )
    if (endpoints.length === 0) throw invalid('model', `${model} is a prediction model; use POST /v1/predictions`)
    return endpoints
  }

  /**
   * Prediction endpoints of a model, in the order of attempts; empty for a model with another API. Throws like
   * `endpoints`, except that a name without a provider, as Replicate's client sends it, resolves to the first provider
   * whose only API is predictions.
   */
  predictionEndpoints(model: string): readonly PredictionEndpoint[] {
    return this.#endpointsOf(model, 'predictions').filter(
      (endpoint): endpoint is PredictionEndpoint => endpoint.protocol === 'predictions',
    )
  }

  /** The name of a model apart from what it says about the choice of the endpoint. */
  named(name: string): ModelName {
    const isListed = (text: string): boolean => this.#models.has(text) || this.#shortNames.has(text)
    return readModelName(name, isListed, this.#providers)
  }

  /** The names by which requests mean providers, their keys and the tags of endpoints. */
  get providerNames(): ProviderNames {
    return (this.#providerNames ??= new ProviderNames(this.#providers, this.#models))
  }

  #endpointsOf(name: string, preferred: Api): (Endpoint | PredictionEndpoint)[] {
    const wrong = modelNameProblem(name)
    if (wrong !== undefined) throw invalid('model', wrong)
    const { model } = this.named(name)
    const found = this.#find(model) ?? (preferred === 'predictions' ? this.#findPredictionModel(model) : undefined)
    const endpoints = found === undefined ? [] : this.#enabledOf(found, preferred)
    if (endpoints.length === 0) throw this.#notFound(model, found)
    return endpoints
  }

  #enabledOf(found: ResolvedModel, preferred: Api): (Endpoint | PredictionEndpoint)[] {
    return found.endpoints.flatMap((endpoint) => this.#endpointAt(endpoint, found, preferred))
  }

  /**
   * Models that can be requested, with the capabilities of their first enabled endpoint. Returns the same objects until
   * providers change.
   */
  list(): readonly Model[] {
    this.#listed ??= [...this.#models.values()].flatMap((model) => {
      const [first] = this.#enabledOf(model, 'chat.completions')
      return first === undefined ? [] : [{ ...model, capabilities: first.target.capabilities }]
    })
    return this.#listed
  }

  /** Every model, those of disabled providers too. Their capabilities are those of the model alone. */
  all(): Model[] {
    const listed = new Map(this.list().map((model) => [model.id, model]))
    return [...this.#models.values()].map((model) => listed.get(model.id) ?? model)
  }

  /**
   * The listed model that a name resolves to, or an unlisted model under the requested name with its known
   * capabilities. Throws like `endpoints`.
   */
  model(name: string): Model {
    const endpoint = this.#endpointsOf(name, 'predictions')[0]!
    const {
      listed,
      target: { provider, model },
    } = endpoint
    return (
      this.list().find(({ id }) => id === listed) ?? {
        id: name,
        name,
        ownedBy: provider,
        endpoints: [{ provider, model }],
        capabilities: endpoint.target.capabilities,
      }
    )
  }

  /**
   * A model's endpoints with any API, in the order of attempts. Empty for a model whose provider was removed meanwhile.
   */
  candidates(model: string): readonly Pick<EndpointBase, 'target' | 'listed'>[] {
    const found = this.#find(model) ?? this.#findPredictionModel(model)
    return found === undefined ? [] : this.#enabledOf(found, 'predictions')
  }

  /** True if the configuration has the provider's base URL or disables it: then it is not discovered at run time. */
  isConfigured(provider: string): boolean {
    const own = this.#config.providers.get(provider)
    return own !== undefined && (!own.enabled || own.baseUrl !== undefined)
  }

  /** All enabled providers. */
  providers(): Provider[] {
    return [...this.#providers.values()]
  }

  /**
   * Adds a provider that was discovered at run time, or replaces its models. Models of the configuration file stay
   * unchanged.
   */
  add(provider: Provider, models: Model[]): void {
    this.remove(provider.id)
    this.#providers.set(provider.id, provider)
    this.#discovered.set(provider.id, models)
    for (const model of models) if (!this.#config.models.has(model.id)) this.#list(model)
  }

  /** Removes a provider and its models. Models of the configuration file stay. */
  remove(provider: string): void {
    this.#forget()
    this.#providers.delete(provider)
    this.#discovered.delete(provider)
    for (const [id, model] of this.#models)
      if (model.endpoints.every((endpoint) => endpoint.provider === provider) && !this.#config.models.has(id))
        this.#unlist(model)
  }

  /** Takes over providers and models of another one. What was discovered at run time stays, unless that has it. */
  replace(other: Catalogue): void {
    const discovered = [...this.#discovered].flatMap(([id, models]) => {
      const own = this.#providers.get(id)
      const provider = other.#providers.get(id) ?? (own?.foundBy === DISCOVERED ? own : undefined)
      return provider === undefined || (provider === own && other.isConfigured(id)) ? [] : [{ provider, models }]
    })
    this.#providers = other.#providers
    this.#models = other.#models
    this.#shortNames = other.#shortNames
    this.#discovered.clear()
    this.#forget()
    for (const { provider, models } of discovered) this.add(provider, models)
  }

  #forget(): void {
    this.#endpointCache.clear()
    this.#listed = undefined
    this.#providerNames = undefined
  }

  #list(model: Model, short = shortNames(model.id)): void {
    for (const name of short) this.#shortNames.set(name, [...new Set(this.#shortNames.get(name)).add(model.id)])
    this.#models.set(model.id, model)
  }

  #unlist(model: Model): void {
    this.#models.delete(model.id)
    for (const name of shortNames(model.id))
      this.#shortNames.set(
        name,
        (this.#shortNames.get(name) ?? []).filter((id) => id !== model.id),
      )
  }

  #find(model: string): ResolvedModel | undefined {
    return this.#models.get(model) ?? this.#findUnlisted(model) ?? this.#findUnprefixed(model)
  }

  /** `<provider>/<name>` of a provider that accepts unlisted names. */
  #findUnlisted(model: string): ResolvedModel | undefined {
    const slash = model.indexOf('/')
    const provider = model.slice(0, Math.max(slash, 0))
    return this.#providers.get(provider)?.unlisted === true
      ? { endpoints: [{ provider, model: model.slice(slash + 1) }], capabilities: {} }
      : undefined
  }

  /**
   * A name without its provider: by the name patterns of providers, else if it is the second part of the id of exactly
   * one model with an enabled provider.
   */
  #findUnprefixed(model: string): ResolvedModel | undefined {
    for (const { provider, pattern } of UNPREFIXED_NAMES) {
      if (!this.#providers.has(provider) || !pattern.test(model)) continue
      const id = `${provider}/${model}`
      const found = this.#models.get(id) ?? this.#findUnlisted(id)
      if (found !== undefined) return found
    }
    const ids = (this.#shortNames.get(model) ?? []).filter((id) =>
      this.#models.get(id)!.endpoints.some(({ provider }) => this.#providers.has(provider)),
    )
    return ids.length === 1 ? this.#models.get(ids[0]!) : undefined
  }

  /**
   * `owner/name` with or without a version, or a version alone. An owner with the id of a provider, enabled or not, is
   * that provider.
   */
  #findPredictionModel(model: string): ResolvedModel | undefined {
    const owner = /^([^/:]+)\/[^/:]+(?::[^/:]+)?$/.exec(model)?.[1]
    if (
      owner === undefined
        ? !/^[0-9a-f]{64}$/.test(model)
        : this.#providers.has(owner) ||
          this.#config.providers.has(owner) ||
          PROVIDER_ROWS.some(({ id }) => id === owner)
    )
      return undefined
    const provider = this.providers().find(
      ({ apis, unlisted }) => unlisted && apis.every(({ protocol }) => protocol === 'predictions'),
    )
    return provider === undefined ? undefined : { endpoints: [{ provider: provider.id, model }], capabilities: {} }
  }

  /** The endpoint for each key of the provider: none if that is disabled or has no suitable API. */
  #endpointAt(
    { provider: id, model, protocol, ...settings }: ModelEndpoint,
    { id: listed, contextLength, capabilities }: ResolvedModel,
    preferred: Api,
  ): (Endpoint | PredictionEndpoint)[] {
    const provider = this.#providers.get(id)
    if (provider === undefined) return []
    const known = { ...familyCapabilities(id, model), ...capabilities }
    const api = apiOf(provider, protocol ?? known.api, preferred)
    if (api === undefined) return []
    const target: Target = {
      provider: id,
      model,
      quirks: provider.quirks,
      capabilities: { ...API_CAPABILITIES[api.protocol], ...known },
    }
    const { apiKeys = [{ key: provider.apiKey }] } = provider
    return apiKeys.map(
      (own: { key: string | undefined } & Partial<CredentialConfig>) =>
        ({
          provider,
          protocol: api.protocol,
          baseUrl: api.baseUrl,
          credentials: credentials(api.auth, own.key),
          name: keyedName(id, own.name),
          ...present('credential', own.name),
          target,
          routing: factsOf(provider.facts, settings, own),
          ...present('contextLength', contextLength),
          ...present('listed', listed),
        }) as Endpoint | PredictionEndpoint,
    )
  }

  #notFound(model: string, found: { endpoints: ModelEndpoint[] } | undefined): GatewayError {
    const message = `The model ${model} is not available${this.#adviceOn(model, found)}`
    return new GatewayError('model_not_found', message, { param: 'model' })
  }

  /** The way to enable the model's providers, else the nearest names. */
  #adviceOn(model: string, found: { endpoints: ModelEndpoint[] } | undefined): string {
    const providers = found?.endpoints.map(({ provider }) => provider) ?? this.#disabledProviders(model)
    const remedyOf = (id: string): string | undefined =>
      (this.#providers.has(id) ? restrictionOf : howToEnable)(id, this.#config)
    const remedies = [...new Set(providers.map(remedyOf).filter((remedy) => remedy !== undefined))]
    if (remedies.length > 0) return ` on this server; for its operator: ${remedies.join(', or ')}.`
    const known = this.list().map(({ id }) => id)
    const near = nearest(model, known)
    return near.length > 0 ? `. Nearest: ${near.join(', ')}.` : '. GET /v1/models lists the available models.'
  }

  /** Disabled providers to which this name could refer. */
  #disabledProviders(model: string): string[] {
    const prefix = model.split('/', 1)[0]!
    const byName = model.includes('/')
      ? [prefix]
      : UNPREFIXED_NAMES.filter(({ pattern }) => pattern.test(model)).map(({ provider }) => provider)
    return byName.filter((provider) => !this.#providers.has(provider))
  }
}

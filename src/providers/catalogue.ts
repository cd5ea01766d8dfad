import type { Auth, Config, ModelConfig } from '../config/load.ts'
import { wrongModelText } from '../config/schema.ts'
import { GatewayError, invalid } from '../error.ts'
import type { ProtocolName } from '../generation/request.ts'
import { nearest } from '../nearest.ts'
import type { Capabilities, Quirks, Api, Target } from '../protocols/protocol.ts'
import { builtInProvider, configuredProvider, howToEnable } from './configured.ts'
import { familyCapabilities, globs, MODEL_ROWS, PROVIDER_ROWS, type ModelRow, type MediaFacts } from './catalog-rows.ts'

/** A provider that is switched on. */
export type Provider = {
  id: string
  name: string
  /** In order of preference. */
  apis: { protocol: Api; baseUrl: string; auth: Auth }[]
  apiKey?: string
  /** Sent with every request, names in lower case. */
  headers: Record<string, string>
  quirks: Quirks
  /** `<id>/<any name>` is sent to it as `<any name>`. */
  unlisted: boolean
  /** Called in this process instead of over the network. */
  inProcess?: 'sandbox'
  media?: MediaFacts
  /** Every account may name what it keeps: it is told so, or keeps nothing. */
  sharedIds: boolean
  /** Why it is on: `built in`, the variable that holds its key or address, `sluice.yaml` or `local`. */
  foundBy: string
}

/** One place to send a request to, with all that is needed for it. */
export type Endpoint = Place & { protocol: ProtocolName }

/** One place at which predictions are made. */
export type PredictionEndpoint = Place & { protocol: 'predictions' }

type Place = {
  provider: Provider
  /** Everything before the protocol's own path. */
  baseUrl: string
  /** The header that holds the key; empty when none is sent. `provider.headers` come on top. */
  credentials: Record<string, string>
  target: Target
  /** Id of the listed model that the name asked for stands for; absent where the name is not listed. */
  listed?: string
}

export type ModelEndpoint = { provider: string; model: string; protocol?: Api }

/** A listed model. */
export type Model = {
  id: string
  name: string
  ownedBy: string
  /** Unix seconds; 0 where nobody said. */
  createdAt: number
  /** In the order of trying; providers that are off are passed over. */
  endpoints: ModelEndpoint[]
  /** What is known beyond the families of `catalog/models.json`. */
  capabilities: Capabilities
  contextLength?: number
}

/** A listed model, or what an unlisted name stands for, which has no id. */
type Found = { id?: string; endpoints: ModelEndpoint[]; capabilities: Capabilities }

/** Names whose resolution is remembered. */
const RESOLVED_MAX = 5_000

const BARE_NAMES = PROVIDER_ROWS.map((row) => ({ provider: row.id, pattern: globs(row.unprefixedNames) }))

/** Who can be asked for what: the built-in catalogue, the file and what was found on this machine, joined. */
export class Catalogue {
  readonly #config: Config
  readonly #providers = new Map<string, Provider>()
  readonly #models = new Map<string, Model>()
  /** What names resolved to; emptied when something is added, and when clients have thought up too many. */
  readonly #resolved = new Map<string, Endpoint[]>()
  /** Second halves of listed ids -> ids. */
  readonly #shortNames = new Map<string, string[]>()
  #listed: readonly Model[] | undefined

  /** Throws ConfigError when a variable holds an address that cannot be used. */
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
    const now = Math.floor(Date.now() / 1000)
    for (const model of config.models.values()) this.#list(fromConfig(model, now))
  }

  /**
   * Endpoints to try, in order, for a model as the client named it; where a provider speaks several protocols the
   * client's own is preferred.
   * Throws invalid_request for a name that cannot be one, model_not_found with the nearest names or with what would
   * switch its provider on.
   */
  endpoints(model: string, clientProtocol: ProtocolName): readonly Endpoint[] {
    const key = `${clientProtocol} ${model}`
    const known = this.#resolved.get(key)
    if (known !== undefined) return known
    const endpoints = this.#resolve(model, clientProtocol)
    if (this.#resolved.size >= RESOLVED_MAX) this.#resolved.clear()
    this.#resolved.set(key, endpoints)
    return endpoints
  }

  #resolve(model: string, clientProtocol: ProtocolName): Endpoint[] {
    const places = this.#places(model, clientProtocol)
    const endpoints = places.filter((place): place is Endpoint => place.protocol !== 'predictions')
    if (endpoints.length === 0)
      throw invalid('model', `${model} is asked by predictions: send it to POST /v1/predictions`)
    return endpoints
  }

  /**
   * Endpoints to try, in order, at which predictions of a model are made; empty for one that answers requests. Throws
   * like `endpoints`, but for a name
   * that is known to nobody here, as Replicate's client sends it: the first provider that predictions alone are asked
   * of is asked for it.
   */
  predictionEndpoints(model: string): readonly PredictionEndpoint[] {
    return this.#places(model, 'predictions').filter(
      (place): place is PredictionEndpoint => place.protocol === 'predictions',
    )
  }

  #places(model: string, wanted: Api): (Endpoint | PredictionEndpoint)[] {
    const wrong = wrongModelText(model)
    if (wrong !== undefined) throw invalid('model', wrong)
    const found = this.#find(model) ?? (wanted === 'predictions' ? this.#predicted(model) : undefined)
    const places = found?.endpoints.flatMap((endpoint) => this.#place(endpoint, found, wanted)) ?? []
    if (places.length === 0) throw this.#notFound(model, found)
    return places
  }

  /**
   * Models that can be reached now, with what is known of their first endpoint that is on. The same objects until
   * something is added or taken off.
   */
  list(): readonly Model[] {
    this.#listed ??= this.#reachable().map((model) => {
      const [place] = model.endpoints.flatMap((endpoint) => this.#place(endpoint, model, 'chat.completions'))
      return { ...model, capabilities: place?.target.capabilities ?? model.capabilities }
    })
    return this.#listed
  }

  /**
   * What a name stands for: a listed model, or what is known of an unlisted one, under the name as asked. Throws like
   * `endpoints`.
   */
  model(name: string): Model {
    const place = this.#places(name, 'predictions')[0]!
    const {
      listed,
      target: { provider, model },
    } = place
    return (
      this.list().find(({ id }) => id === listed) ?? {
        id: name,
        name,
        ownedBy: provider,
        createdAt: UNKNOWN_DATE,
        endpoints: [{ provider, model }],
        capabilities: place.target.capabilities,
      }
    )
  }

  /** Where a model is, in the order of trying, whatever it is asked by. Throws like `endpoints`. */
  candidates(model: string): readonly Pick<Place, 'target' | 'listed'>[] {
    return this.#places(model, 'predictions')
  }

  #reachable(): Model[] {
    return [...this.#models.values()].filter((model) =>
      model.endpoints.some(({ provider }) => this.#providers.has(provider)),
    )
  }

  /**
   * Whether the file says where this provider is, or switches it off: then nothing found at run time takes its place.
   */
  isConfigured(provider: string): boolean {
    const own = this.#config.providers.get(provider)
    return own !== undefined && (!own.enabled || own.baseUrl !== undefined)
  }

  /** Providers that are switched on. */
  providers(): Provider[] {
    return [...this.#providers.values()]
  }

  /**
   * A provider found at run time with the models it has now; a second call replaces the models of the first. Models
   * that the file defines stay.
   */
  add(provider: Provider, models: Model[]): void {
    this.remove(provider.id)
    this.#providers.set(provider.id, provider)
    for (const model of models) if (!this.#config.models.has(model.id)) this.#list(model)
  }

  /** A provider found at run time is gone, and its models with it. Models that the file defines stay. */
  remove(provider: string): void {
    this.#resolved.clear()
    this.#listed = undefined
    this.#providers.delete(provider)
    for (const [id, model] of this.#models)
      if (model.endpoints.every((endpoint) => endpoint.provider === provider) && !this.#config.models.has(id))
        this.#unlist(model)
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

  /** A listed model, or what an unlisted name stands for. */
  #find(model: string): Found | undefined {
    return this.#models.get(model) ?? this.#unlisted(model) ?? this.#bare(model)
  }

  #unlisted(model: string): Found | undefined {
    const slash = model.indexOf('/')
    const provider = model.slice(0, Math.max(slash, 0))
    return this.#providers.get(provider)?.unlisted === true
      ? { endpoints: [{ provider, model: model.slice(slash + 1) }], capabilities: {} }
      : undefined
  }

  /**
   * A name without a prefix: by the providers' own name patterns, then as the second half of exactly one reachable
   * model.
   */
  #bare(model: string): Found | undefined {
    for (const { provider, pattern } of BARE_NAMES) {
      if (!this.#providers.has(provider) || !pattern.test(model)) continue
      const id = `${provider}/${model}`
      const found = this.#models.get(id) ?? this.#unlisted(id)
      if (found !== undefined) return found
    }
    const ids = (this.#shortNames.get(model) ?? []).filter((id) =>
      this.#models.get(id)!.endpoints.some(({ provider }) => this.#providers.has(provider)),
    )
    return ids.length === 1 ? this.#models.get(ids[0]!) : undefined
  }

  /**
   * `owner/name`, with a version or without, or a version alone. An owner who is a provider, on or off, is meant as
   * that.
   */
  #predicted(model: string): Found | undefined {
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

  #place(
    { provider: id, model, protocol }: ModelEndpoint,
    { id: listed, capabilities }: Found,
    wanted: Api,
  ): (Endpoint | PredictionEndpoint)[] {
    const provider = this.#providers.get(id)
    if (provider === undefined) return []
    const known = { ...familyCapabilities(id, model), ...capabilities }
    const api = apiOf(provider, protocol ?? known.api, wanted)
    if (api === undefined) return []
    const target: Target = {
      provider: id,
      model,
      quirks: provider.quirks,
      capabilities: { ...BY_API[api.protocol], ...known },
    }
    return [
      {
        provider,
        protocol: api.protocol,
        baseUrl: api.baseUrl,
        credentials: credentials(api.auth, provider.apiKey),
        target,
        ...(listed === undefined ? {} : { listed }),
      } as Endpoint | PredictionEndpoint,
    ]
  }

  #notFound(model: string, found: { endpoints: ModelEndpoint[] } | undefined): GatewayError {
    const message = `The model ${model} is not available`
    const off = found?.endpoints.map(({ provider }) => provider) ?? this.#meant(model)
    const remedies = [
      ...new Set(off.map((provider) => howToEnable(provider, this.#config)).filter((remedy) => remedy !== undefined)),
    ]
    const known = this.#reachable().map(({ id }) => id)
    const near = nearest(model, known)
    const advice =
      remedies.length > 0
        ? `: ${remedies.join(', or ')}.`
        : near.length > 0
          ? `. Nearest: ${near.join(', ')}.`
          : '. GET /v1/models lists what is.'
    return new GatewayError('model_not_found', message + advice, { param: 'model' })
  }

  /** Providers that are off and that this name speaks of. */
  #meant(model: string): string[] {
    const prefix = model.split('/', 1)[0]!
    const byName = model.includes('/')
      ? [prefix]
      : BARE_NAMES.filter(({ pattern }) => pattern.test(model)).map(({ provider }) => provider)
    return byName.filter((provider) => !this.#providers.has(provider))
  }
}

/** APIs that only some models of a provider are asked by. */
const SPECIAL: readonly Api[] = ['images', 'predictions']

/** What is known of a model by what it is asked by. */
const BY_API: Partial<Record<Api, Capabilities>> = {
  images: { api: 'images', output: ['image'] },
  predictions: { api: 'predictions' },
}

/**
 * How a provider is spoken to about a model: as the model asks for, else as the client speaks, else as the provider
 * likes best.
 */
function apiOf({ apis }: Provider, asked: Api | undefined, wanted: Api): Provider['apis'][number] | undefined {
  if (asked !== undefined) return apis.find(({ protocol }) => protocol === asked)
  const usual = apis.filter(({ protocol }) => !SPECIAL.includes(protocol))
  return (usual.length > 0 ? usual : apis).find(({ protocol }) => protocol === wanted) ?? usual[0] ?? apis[0]
}

/** `b/c` and `c` of `a/b/c`. */
const shortNames = (id: string): string[] =>
  id
    .split('/')
    .slice(1)
    .map((_, index) =>
      id
        .split('/')
        .slice(index + 1)
        .join('/'),
    )

/** Nobody said when a model was released. */
const UNKNOWN_DATE = 0

function fromRow({ id, name, released, endpoints, capabilities, contextLength }: ModelRow): Model {
  const [provider = '', ...rest] = id.split('/')
  const model = rest.join('/')
  return {
    id,
    name: name ?? model,
    ownedBy: provider,
    createdAt: released === undefined ? UNKNOWN_DATE : Date.parse(released) / 1000,
    endpoints: endpoints ?? [{ provider, model }],
    capabilities: capabilities ?? {},
    ...(contextLength === undefined ? {} : { contextLength }),
  }
}

const fromConfig = ({ id, name, endpoints, capabilities, contextLength }: ModelConfig, createdAt: number): Model => ({
  id,
  name: name ?? id,
  ownedBy: endpoints[0]!.provider,
  createdAt,
  endpoints,
  capabilities,
  ...(contextLength === undefined ? {} : { contextLength }),
})

/** The one header that carries a key. */
export function credentials(auth: Auth, apiKey: string | undefined): Record<string, string> {
  if (apiKey === undefined || apiKey === '' || auth === 'none') return {}
  return auth === 'bearer' ? { authorization: `Bearer ${apiKey}` } : { [auth]: apiKey }
}

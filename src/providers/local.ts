import { GatewayError } from '../error.ts'
import { readAll, send } from '../http/call.ts'
import { modelNameProblem } from '../config/model-settings.ts'
import { withoutTrailingSlashes } from './configured.ts'
import { type Catalogue, DISCOVERED, type Provider } from './catalogue.ts'
import { credentials } from './provider-apis.ts'
import type { Model } from './model.ts'
import {
  readOpenAIModels,
  readOllamaDetails,
  readOllamaTags,
  readLmStudioModels,
  type ListedModel,
  type ListingReader,
} from './listings.ts'
import { PROVIDER_ROWS, quirksOf, type ProviderRow } from './catalog-rows.ts'

type Environment = Record<string, string | undefined>
type LocalRow = NonNullable<ProviderRow['local']>
/** Details of models by address, name and stamp; undefined for a model without conversations. */
type ModelDetails = Map<string, ReturnType<typeof readOllamaDetails>>

const LISTINGS: Record<LocalRow['modelsPath'], ListingReader> = {
  '/api/tags': readOllamaTags,
  '/v1/models': readOpenAIModels,
  '/api/v0/models': readLmStudioModels,
}

/** A host that drops packets must not keep one refresh running until the next. */
const TIMEOUTS = { connectMs: 500, firstByteMs: 500, idleMs: 500, totalMs: 500 }
const LISTING_BYTES_MAX = 1024 * 1024
const MODELS_MAX = 1000
/** Requests for details of models: at most so many in one refresh, and so many at a time. */
const DETAILS_PER_REFRESH = 32
const DETAILS_CONCURRENCY = 4
/** Failed refreshes until a server's models are removed: one that restarts misses one. */
const FAILURES_MAX = 2

/**
 * Keeps the catalogue's models of servers that list their own models: enabled providers, and local servers that are
 * discovered on this machine.
 */
export class LocalModels {
  readonly #catalogue: Catalogue
  readonly #env: Environment
  /** By provider: its models in the catalogue as text, and the number of failed refreshes since. */
  readonly #known = new Map<string, { text: string; failures: number }>()
  /** Details of the models that servers had in the last refresh. */
  #details: ModelDetails = new Map()

  constructor(catalogue: Catalogue, env: Environment) {
    this.#catalogue = catalogue
    this.#env = env
  }

  /**
   * Requests the model list of every server, for at most half a second each, and updates the catalogue. Returns the ids
   * of all listed models. Does not throw for a server that is absent or responds with something else.
   */
  async refresh(signal: AbortSignal): Promise<string[]> {
    const details: ModelDetails = new Map()
    const found = await Promise.all(
      PROVIDER_ROWS.map((row) =>
        row.local === undefined ? [] : this.#refreshProvider(row, row.local, details, signal),
      ),
    )
    this.#details = details
    return found.flat()
  }

  async #refreshProvider(
    row: ProviderRow,
    local: LocalRow,
    details: ModelDetails,
    signal: AbortSignal,
  ): Promise<string[]> {
    const provider = this.#provider(row, local)
    if (provider === undefined) return []
    const listed = await this.#fetchModels(provider, local, details, signal)
    if (listed === undefined) return this.#recordFailure(provider)
    const models = listed.map(
      ({ name, contextLength, capabilities }): Model => ({
        id: `${row.id}/${name}`,
        name,
        ownedBy: row.id,
        endpoints: [{ provider: row.id, model: name }],
        capabilities,
        ...(contextLength === undefined ? {} : { contextLength }),
      }),
    )
    const text = JSON.stringify(models)
    if (this.#known.get(row.id)?.text !== text) this.#catalogue.add(provider, models)
    this.#known.set(row.id, { text, failures: 0 })
    return models.map(({ id }) => id)
  }

  /**
   * The provider to refresh: the enabled one, unless the configuration lists its models, or a server at the address
   * where it is discovered.
   */
  #provider(row: ProviderRow, { search }: LocalRow): Provider | undefined {
    const enabled = this.#catalogue.providers().find(({ id }) => id === row.id)
    if (enabled !== undefined && enabled.foundBy !== DISCOVERED) return enabled.unlisted ? enabled : undefined
    const address =
      search === undefined || this.#catalogue.isConfigured(row.id)
        ? undefined
        : localAddress(this.#env[search.hostVariable], search.port)
    return address === undefined
      ? undefined
      : {
          id: row.id,
          name: row.name,
          headers: {},
          quirks: quirksOf(row),
          unlisted: true,
          buckets: [],
          sharedIds: false,
          facts: {},
          foundBy: DISCOVERED,
          apis: row.protocols.map(({ protocol, path, auth }) => ({
            protocol,
            baseUrl: `${address}/v1${path ?? ''}`,
            auth: auth ?? row.auth,
          })),
        }
  }

  /** After several failures a configured provider keeps no models, and a discovered one is removed. */
  #recordFailure(provider: Provider): string[] {
    const known = this.#known.get(provider.id)
    if (known === undefined) return []
    known.failures++
    if (known.failures < FAILURES_MAX) return []
    this.#known.delete(provider.id)
    if (provider.foundBy === DISCOVERED) this.#catalogue.remove(provider.id)
    else this.#catalogue.add(provider, [])
    return []
  }

  async #fetchModels(
    provider: Provider,
    { modelsPath }: LocalRow,
    details: ModelDetails,
    signal: AbortSignal,
  ): Promise<ListedModel[] | undefined> {
    const { baseUrl, auth } = provider.apis[0]!
    const address = baseUrl.replace(/\/v1$/, '')
    const key = provider.apiKey ?? provider.apiKeys?.[0]?.key
    const headers = { accept: 'application/json', ...provider.headers, ...credentials(auth, key) }
    const listed = LISTINGS[modelsPath](await fetchJson(address + modelsPath, headers, undefined, signal))
    const named = listed
      ?.filter(({ name }) => modelNameProblem(`${provider.id}/${name}`) === undefined)
      .slice(0, MODELS_MAX)
    if (named === undefined || modelsPath !== '/api/tags') return named
    await this.#addDetails(
      named.map((one) => ({ key: keyOf(address, one), name: one.name })),
      details,
      (name) => fetchJson(`${address}/api/show`, headers, JSON.stringify({ model: name }), signal),
    )
    return named.flatMap((one) => {
      const key = keyOf(address, one)
      const more = details.get(key)
      return details.has(key) && more === undefined ? [] : [{ ...one, ...more }]
    })
  }

  /** Adds the details of these models: those of the last refresh, and some that have not been requested yet. */
  async #addDetails(
    models: { key: string; name: string }[],
    details: ModelDetails,
    fetchDetails: (name: string) => Promise<unknown>,
  ): Promise<void> {
    for (const { key } of models) if (this.#details.has(key)) details.set(key, this.#details.get(key))
    const unknown = models.filter(({ key }) => !details.has(key)).slice(0, DETAILS_PER_REFRESH)
    for (let at = 0; at < unknown.length; at += DETAILS_CONCURRENCY) {
      await Promise.all(
        unknown.slice(at, at + DETAILS_CONCURRENCY).map(async ({ key, name }) => {
          const response = await fetchDetails(name)
          if (response !== undefined) details.set(key, readOllamaDetails(response))
        }),
      )
    }
  }
}

const keyOf = (address: string, { name, stamp }: ListedModel): string => `${address} ${name} ${stamp}`

/**
 * The base URL in a host variable, read as the server reads it: scheme and port are optional, and 0.0.0.0 (all
 * interfaces) means this machine. Undefined if it is invalid.
 */
export function localAddress(host: string | undefined, port: number): string | undefined {
  const text = host?.trim() ?? ''
  if (text === '') return `http://127.0.0.1:${port}`
  const scheme = /^https?:\/\//.exec(text)?.[0]
  const rest = text.slice(scheme?.length ?? 0)
  const whole = `${scheme ?? 'http://'}${rest.startsWith(':') ? '127.0.0.1' : ''}${rest}`
  if (!URL.canParse(whole)) return undefined
  const url = new URL(whole)
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (url.hostname === '[::]') url.hostname = '[::1]'
  if (scheme === undefined && !/^[^/]*:\d+(\/|$)/.test(rest.replace(/^\[[^\]]*\]/, ''))) url.port = String(port)
  return withoutTrailingSlashes(url.origin + url.pathname)
}

/** The JSON of a 200 response, otherwise undefined. With a body the method is POST. */
async function fetchJson(
  url: string,
  headers: Record<string, string>,
  body: string | undefined,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    const options =
      body === undefined
        ? { method: 'GET' as const, headers }
        : { method: 'POST' as const, headers: { ...headers, 'content-type': 'application/json' }, body }
    const incoming = await send({ url, ...options, timeouts: TIMEOUTS, signal })
    const text = await readAll(incoming.body, LISTING_BYTES_MAX)
    return incoming.status === 200 ? JSON.parse(text) : undefined
  } catch (error) {
    if (error instanceof GatewayError || error instanceof SyntaxError) return undefined
    throw error
  }
}

import { GatewayError } from '../error.ts'
import { readAll, send } from '../http/call.ts'
import { modelNameProblem } from '../config/model-settings.ts'
import { bareUrl } from './configured.ts'
import { credentials, type Catalogue, type Model, type Provider } from './catalogue.ts'
import { readModels, readShow, readTags, readTyped, type Listed, type Listing } from './listings.ts'
import { PROVIDER_ROWS, quirksOf, type ProviderRow } from './catalog-rows.ts'

type Environment = Record<string, string | undefined>
type Local = NonNullable<ProviderRow['local']>
/** By address, name and stamp: what was said of a model; undefined where it answers no conversation. */
type Shown = Map<string, ReturnType<typeof readShow>>

const LISTINGS: Record<Local['modelsPath'], Listing> = {
  '/api/tags': readTags,
  '/v1/models': readModels,
  '/api/v0/models': readTyped,
}

/** Nobody waits for this, but a host that swallows packets must not keep a round alive until the next. */
const TIMEOUTS = { connectMs: 500, firstByteMs: 500, idleMs: 500, totalMs: 500 }
const MOST_BYTES = 1024 * 1024
const MOST_MODELS = 1000
/** Models that one round asks about by name, and how many of them at a time. */
const SHOWN_A_ROUND = 32
const SHOWN_AT_ONCE = 4
/** A server that is started anew is away for a round. */
const ROUNDS_MISSED = 2

/**
 * Keeps the models of servers that list their own: those that are switched on, and those that are looked for on this
 * machine.
 */
export class LocalModels {
  readonly #catalogue: Catalogue
  readonly #env: Environment
  /** By provider: its models as last put into the catalogue, and the rounds since then in which it did not answer. */
  readonly #known = new Map<string, { text: string; missed: number }>()
  /** What servers said of the models that they had in the last round. */
  #shown: Shown = new Map()

  constructor(catalogue: Catalogue, env: Environment) {
    this.#catalogue = catalogue
    this.#env = env
  }

  /**
   * Asks every server once, each for half a second at most, and brings the catalogue up to date. Gives the ids of the
   * models listed. Never throws for a server that is absent or odd.
   */
  async round(signal: AbortSignal): Promise<string[]> {
    const shown: Shown = new Map()
    const found = await Promise.all(
      PROVIDER_ROWS.map((row) => (row.local === undefined ? [] : this.#ask(row, row.local, shown, signal))),
    )
    this.#shown = shown
    return found.flat()
  }

  async #ask(row: ProviderRow, local: Local, shown: Shown, signal: AbortSignal): Promise<string[]> {
    const provider = this.#provider(row, local)
    if (provider === undefined) return []
    const listed = await this.#listed(provider, local, shown, signal)
    if (listed === undefined) return this.#miss(provider)
    const models = listed.map(
      ({ name, createdAt, contextLength, capabilities }): Model => ({
        id: `${row.id}/${name}`,
        name,
        ownedBy: row.id,
        createdAt,
        endpoints: [{ provider: row.id, model: name }],
        capabilities,
        ...(contextLength === undefined ? {} : { contextLength }),
      }),
    )
    const text = JSON.stringify(models)
    if (this.#known.get(row.id)?.text !== text) this.#catalogue.add(provider, models)
    this.#known.set(row.id, { text, missed: 0 })
    return models.map(({ id }) => id)
  }

  /**
   * Who is asked: the provider that is on, unless only the file says what it has, or the one that would be where it is
   * looked for.
   */
  #provider(row: ProviderRow, { search }: Local): Provider | undefined {
    const on = this.#catalogue.providers().find(({ id }) => id === row.id)
    if (on !== undefined && on.foundBy !== FOUND) return on.unlisted ? on : undefined
    const address =
      search === undefined || this.#catalogue.setUp(row.id)
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
          sharedIds: false,
          foundBy: FOUND,
          speaks: row.protocols.map(({ protocol, path, auth }) => ({
            protocol,
            baseUrl: `${address}/v1${path ?? ''}`,
            auth: auth ?? row.auth,
          })),
        }
  }

  /** A provider that somebody set up stays on without its models; one that was found is gone. */
  #miss(provider: Provider): string[] {
    const known = this.#known.get(provider.id)
    if (known === undefined) return []
    known.missed++
    if (known.missed < ROUNDS_MISSED) return []
    this.#known.delete(provider.id)
    if (provider.foundBy === FOUND) this.#catalogue.remove(provider.id)
    else this.#catalogue.add(provider, [])
    return []
  }

  async #listed(
    provider: Provider,
    { modelsPath }: Local,
    shown: Shown,
    signal: AbortSignal,
  ): Promise<Listed[] | undefined> {
    const { baseUrl, auth } = provider.speaks[0]!
    const address = baseUrl.replace(/\/v1$/, '')
    const headers = { accept: 'application/json', ...provider.headers, ...credentials(auth, provider.apiKey) }
    const listed = LISTINGS[modelsPath](await fetchJson(address + modelsPath, headers, undefined, signal))
    const named = listed
      ?.filter(({ name }) => modelNameProblem(`${provider.id}/${name}`) === undefined)
      .slice(0, MOST_MODELS)
    if (named === undefined || modelsPath !== '/api/tags') return named
    await this.#show(
      named.map((one) => ({ key: keyOf(address, one), name: one.name })),
      shown,
      (name) => fetchJson(`${address}/api/show`, headers, JSON.stringify({ model: name }), signal),
    )
    return named.flatMap((one) => {
      const key = keyOf(address, one)
      const more = shown.get(key)
      return shown.has(key) && more === undefined ? [] : [{ ...one, ...more }]
    })
  }

  /** Fills `shown` for these models: what an earlier round heard, and some that none has asked about yet. */
  async #show(
    models: { key: string; name: string }[],
    shown: Shown,
    ask: (name: string) => Promise<unknown>,
  ): Promise<void> {
    for (const { key } of models) if (this.#shown.has(key)) shown.set(key, this.#shown.get(key))
    const fresh = models.filter(({ key }) => !shown.has(key)).slice(0, SHOWN_A_ROUND)
    for (let at = 0; at < fresh.length; at += SHOWN_AT_ONCE) {
      await Promise.all(
        fresh.slice(at, at + SHOWN_AT_ONCE).map(async ({ key, name }) => {
          const answer = await ask(name)
          if (answer !== undefined) shown.set(key, readShow(answer))
        }),
      )
    }
  }
}

/** `foundBy` of a provider that was looked for. */
const FOUND = 'local'

const keyOf = (address: string, { name, stamp }: Listed): string => `${address} ${name} ${stamp}`

/**
 * A host variable as the server itself reads it: scheme and port may be missing, and 0.0.0.0 is where it listens, not
 * where it is. Undefined for what is no address.
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
  return bareUrl(url.origin + url.pathname)
}

/** The JSON of a 200, or undefined for everything else. A body makes it a POST. */
async function fetchJson(
  url: string,
  headers: Record<string, string>,
  body: string | undefined,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    const asked =
      body === undefined
        ? { method: 'GET' as const, headers }
        : { method: 'POST' as const, headers: { ...headers, 'content-type': 'application/json' }, body }
    const incoming = await send({ url, ...asked, timeouts: TIMEOUTS, signal })
    const text = await readAll(incoming.body, MOST_BYTES)
    return incoming.status === 200 ? JSON.parse(text) : undefined
  } catch (error) {
    if (error instanceof GatewayError || error instanceof SyntaxError) return undefined
    throw error
  }
}

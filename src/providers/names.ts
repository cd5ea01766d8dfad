import type { Strategy } from '../config/terms.ts'
import { nearest } from '../nearest.ts'
import { PROVIDER_ROWS } from './catalog-rows.ts'
import type { Endpoint, PredictionEndpoint, Provider } from './catalogue.ts'
import type { Model } from './model.ts'

/** `b/c` and `c` of `a/b/c`. */
export const shortNames = (id: string): string[] =>
  id
    .split('/')
    .slice(1)
    .map((_, index) =>
      id
        .split('/')
        .slice(index + 1)
        .join('/'),
    )

/** `acme`, or `acme/key-2` for one of several keys. */
export const keyedName = (provider: string, credential: string | undefined): string =>
  credential === undefined ? provider : `${provider}/${credential}`

/**
 * The endpoint that holds what the provider stored for an earlier request. `holder`: its name then, which may be that
 * of the provider where there was one key.
 */
export const heldBy = <E extends Pick<Endpoint | PredictionEndpoint, 'name' | 'provider'>>(
  endpoints: readonly E[],
  holder: string,
): E | undefined =>
  endpoints.find(({ name }) => name === holder) ?? endpoints.find(({ provider }) => provider.id === holder)

/** A model as a request names it: `strategy` of a suffix, `provider` behind `@`. */
export type ModelName = { model: string; strategy?: Strategy; provider?: string }

const SUFFIXES: Readonly<Record<string, Strategy>> = { ':floor': 'price', ':nitro': 'throughput' }

/**
 * Splits `model:floor`, `model:nitro` and `model@provider`. A listed model keeps its whole name, and so does one of a
 * provider that reads such suffixes itself; what follows `@` must be a provider.
 */
export function readModelName(
  name: string,
  isListed: (name: string) => boolean,
  providers: ReadonlyMap<string, Provider>,
): ModelName {
  if (!SUFFIXED.test(name) || isListed(name)) return { model: name }
  const strategy = SUFFIXES[name.slice(-6)]
  const provider = name.slice(name.lastIndexOf('@') + 1)
  const model = name.slice(0, strategy === undefined ? -provider.length - 1 : -6)
  const isMeant =
    strategy === undefined
      ? isProvider(provider, providers)
      : providers.get(name.split('/', 1)[0]!)?.quirks.routesItself !== true
  if (!isMeant || model === '') return { model: name }
  const rest = readModelName(model, isListed, providers)
  return strategy === undefined ? { provider, ...rest } : { strategy, ...rest }
}

const SUFFIXED = /:(?:floor|nitro)$|@/

const isProvider = (name: string, providers: ReadonlyMap<string, Provider>): boolean => {
  const [id = '', key] = name.split('/')
  const provider = providers.get(id)
  return provider === undefined
    ? key === undefined && PROVIDER_ROWS.some((row) => row.id === id)
    : key === undefined || provider.apiKeys?.some((one) => one.name === key) === true
}

/** The names by which requests mean endpoints: providers by id or display name, their keys, and tags. */
export class ProviderNames {
  readonly #known = new Map<string, string>()
  readonly #elsewhere = new Set<string>()

  constructor(providers: ReadonlyMap<string, Provider>, models: ReadonlyMap<string, Model>) {
    const add = (name: string, means: string): void => {
      if (!this.#known.has(name.toLowerCase())) this.#known.set(name.toLowerCase(), means)
    }
    for (const { id } of providers.values()) add(id, id)
    for (const { id, apiKeys = [] } of providers.values())
      for (const { name } of apiKeys) add(keyedName(id, name), keyedName(id, name))
    for (const { endpoints } of models.values())
      for (const { tags = [] } of endpoints) for (const tag of tags) add(tag, tag)
    // One that is switched off serves nothing, but its name is no mistake.
    for (const { id, name } of [...providers.values(), ...PROVIDER_ROWS]) {
      add(id, id)
      add(name, id)
      if (!providers.has(id) && this.#known.get(id.toLowerCase()) === id) this.#elsewhere.add(id)
    }
  }

  /** The id, name or tag that is meant; undefined for an unknown one. */
  meaning(name: string): string | undefined {
    return this.#known.get(name.trim().toLowerCase())
  }

  /** True for a provider of the catalogue that serves nothing here. */
  isElsewhere(name: string): boolean {
    const meaning = this.meaning(name)
    return meaning !== undefined && this.#elsewhere.has(meaning)
  }

  /** The names that an unknown one may have meant. */
  nearest(name: string): string[] {
    return nearest(name, this.#known.values())
  }
}

import providersFile from '../../catalog/providers.json'
import modelsFile from '../../catalog/models.json'
import type { Auth } from '../config-schema.ts'
import type { Abilities, Quirks, Speech } from '../protocols/protocol.ts'

/** One provider of catalog/providers.json. */
export type ProviderRow = {
  id: string
  name: string
  docs: string
  /** Absent: the provider has no address of its own, the variable or the file gives it. */
  baseUrl?: string
  /** In order of preference; `path` is added to the base URL, `auth` replaces the provider's. */
  protocols: { protocol: Speech; path?: string; auth?: Auth }[]
  auth: Auth
  /** The first of these that is set holds the key and switches the provider on. */
  keyVariables: string[]
  /** Replaces the base URL; `append` is added unless the value ends with it, since SDKs read some of these without the version. */
  baseUrlVariable?: { name: string; append?: string }
  inProcess?: 'sandbox'
  /** false: only listed models. */
  unlisted?: boolean
  /** Found on this machine: at this port or where the variable says, listing its models at this path. */
  local?: { hostVariable: string; port: number; modelsPath: string }
  /** What switches it on, where it is not a variable. */
  hint?: string
  /** A difference from the protocol's document, with its reason and the month it was last seen. */
  quirks: { [Name in keyof Quirks]?: { value: Quirks[Name]; why: string; seen: string } }
  /** Globs of model names that mean this provider when they come without a prefix. */
  bareNames: string[]
}

/** One model of catalog/models.json. */
export type ModelRow = {
  id: string
  name: string
  /** Date of its release, YYYY-MM-DD. */
  released: string
  /** Absent: the provider and model that the id names. */
  endpoints?: { provider: string; model: string; protocol?: Speech }[]
  contextLength?: number
  abilities?: Abilities
}

/** Abilities of every `<provider>/<model>` that a glob matches; later families add to and override earlier ones. */
export type FamilyRow = { match: string[]; abilities: Abilities; why?: string }

export const PROVIDER_ROWS = providersFile.providers as ProviderRow[]
export const MODEL_ROWS = modelsFile.models as ModelRow[]
const FAMILIES = (modelsFile.families as FamilyRow[]).map(({ match, abilities }) => ({ match: globs(match), abilities }))

/** One expression for several patterns: `*` stands for any text, slashes included, `#` for a digit; everything else for itself, upper or lower case. */
export function globs(patterns: string[]): RegExp {
  const escaped = patterns.map((pattern) => pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('#', '\\d'))
  return new RegExp(escaped.length === 0 ? '^(?!)' : `^(?:${escaped.join('|')})$`, 'i')
}

/** What is known of a provider's model by the families its name belongs to. */
export function familyAbilities(provider: string, model: string): Abilities {
  const name = `${provider}/${model}`
  return FAMILIES.filter(({ match }) => match.test(name)).reduce<Abilities>((sum, { abilities }) => ({ ...sum, ...abilities }), {})
}

/** The quirks of a row without their reasons. */
export const quirksOf = (row: ProviderRow): Quirks =>
  Object.fromEntries(Object.entries(row.quirks).map(([name, quirk]) => [name, quirk!.value])) as Quirks

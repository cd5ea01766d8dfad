import providersFile from '../../catalog/providers.json'
import modelsFile from '../../catalog/models.json'
import type { Auth } from '../config/provider-settings.ts'
import type { MediaPart, ProtocolName } from '../generation/request.ts'
import type { Api } from '../config/provider-terms.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import type { Quirks } from '../protocols/quirks.ts'

/** One provider of catalog/providers.json. */
export type ProviderRow = {
  id: string
  name: string
  docs: string
  /** Absent: the provider has no fixed address; the variable or the configuration file has it. */
  baseUrl?: string
  /** In order of preference; `path` is added to the base URL, `auth` replaces the provider's. */
  protocols: { protocol: Api; path?: string; auth?: Auth }[]
  auth: Auth
  /** The first of these variables that is set has the key and enables the provider. */
  keyVariables: string[]
  /** Replaces the base URL. `append` is added unless the value ends with it: some SDKs expect no version in it. */
  baseUrlVariable?: { name: string; append?: string }
  inProcess?: 'sandbox'
  /** false: it accepts only listed models. */
  unlisted?: boolean
  /**
   * The server lists its own models at this path. With `search` it is discovered at the address in the variable, or
   * else at the port of this machine.
   */
  local?: { modelsPath: '/api/tags' | '/v1/models' | '/api/v0/models'; search?: { hostVariable: string; port: number } }
  /** An instruction to enable it, if it has no variable. */
  hint?: string
  /** Differences from the protocol's documentation, with the reason and the month when it was last checked. */
  quirks: { [Name in keyof Quirks]?: { value: Quirks[Name]; why: string; seen: string } }
  /** Globs of model names that belong to this provider without its prefix. */
  unprefixedNames: string[]
  /** With its sources and the month when they were last checked. */
  media?: MediaFacts & { sources: string[]; seen: string }
}

/** The media that a provider accepts, by protocol. Absent: any type inline, and no URLs. */
export type MediaFacts = { [Name in ProtocolName]?: AcceptedMedia } & {
  /** Limit on a request in bytes, including media in base64. */
  requestBytes?: number
}

/**
 * `inline`: globs of media types; `text/*` includes all types that are text. `fetches`: kinds of media whose URLs the
 * provider fetches itself.
 */
type AcceptedMedia = { inline?: string[]; fetches?: MediaPart['type'][] }

/** One model of catalog/models.json that `npm run models` maintains. */
export type ImportedRow = { id: string; name?: string; contextLength?: number }

export type ImportedModels = {
  source: string
  imported: string
  changes: { imported: string; source: string; changed: string[] }[]
  models: ImportedRow[]
}

/** One model of catalog/models.json. Values written by hand replace imported ones. */
export type ModelRow = ImportedRow & {
  /** Release date, YYYY-MM-DD. */
  released?: string
  /** Absent: the provider and model that the id names. */
  endpoints?: { provider: string; model: string; protocol?: Api }[]
  capabilities?: Capabilities
  /** There is no row for it that was written by hand. */
  onlyImported?: true
}

/** Capabilities of every `<provider>/<model>` that a glob matches; later families override earlier ones. */
export type FamilyRow = { match: string[]; capabilities: Capabilities; why?: string }

export const PROVIDER_ROWS = providersFile.providers as ProviderRow[]
export const MODEL_ROWS = joined(modelsFile.models as ModelRow[], (modelsFile.imported as ImportedModels).models)
const FAMILIES = (modelsFile.families as FamilyRow[]).map(({ match, capabilities }) => ({
  match: globs(match),
  capabilities,
}))

function joined(byHand: ModelRow[], imported: ImportedRow[]): ModelRow[] {
  const importedById = new Map(imported.map((row) => [row.id, row]))
  const rows = byHand.map((row) => ({ ...importedById.get(row.id), ...row }))
  for (const { id } of byHand) importedById.delete(id)
  return [...rows, ...[...importedById.values()].map((row) => ({ ...row, onlyImported: true as const }))]
}

/**
 * One regular expression for several globs: `*` matches any text including slashes, `#` a digit; case is ignored.
 */
export function globs(patterns: string[]): RegExp {
  const escaped = patterns.map((pattern) =>
    pattern
      .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('#', '\\d'),
  )
  return new RegExp(escaped.length === 0 ? '^(?!)' : `^(?:${escaped.join('|')})$`, 'i')
}

/** Capabilities of a provider's model from the families that match its name. */
export function familyCapabilities(provider: string, model: string): Capabilities {
  const name = `${provider}/${model}`
  return FAMILIES.filter(({ match }) => match.test(name)).reduce<Capabilities>(
    (joined, { capabilities }) => ({ ...joined, ...capabilities }),
    {},
  )
}

/** The quirks of a row without their reasons. */
export const quirksOf = (row: ProviderRow): Quirks =>
  Object.fromEntries(Object.entries(row.quirks).map(([name, quirk]) => [name, quirk!.value])) as Quirks

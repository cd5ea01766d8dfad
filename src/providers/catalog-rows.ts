import providersFile from '../../catalog/providers.json'
import modelsFile from '../../catalog/models.json'
import type { Auth } from '../config/schema.ts'
import type { MediaPart, ProtocolName } from '../generation/request.ts'
import type { Capabilities, Quirks, Api } from '../protocols/protocol.ts'

/** One provider of catalog/providers.json. */
export type ProviderRow = {
  id: string
  name: string
  docs: string
  /** Absent: the provider has no address of its own, the variable or the file gives it. */
  baseUrl?: string
  /** In order of preference; `path` is added to the base URL, `auth` replaces the provider's. */
  protocols: { protocol: Api; path?: string; auth?: Auth }[]
  auth: Auth
  /** The first of these that is set holds the key and switches the provider on. */
  keyVariables: string[]
  /**
   * Replaces the base URL; `append` is added unless the value ends with it, since SDKs read some of these without the
   * version.
   */
  baseUrlVariable?: { name: string; append?: string }
  inProcess?: 'sandbox'
  /** false: only listed models. */
  unlisted?: boolean
  /**
   * Lists its own models at this path of its host. Looked for on this machine where there is a port: there, or where
   * the variable says.
   */
  local?: { modelsPath: '/api/tags' | '/v1/models' | '/api/v0/models'; search?: { hostVariable: string; port: number } }
  /** What switches it on, where it is not a variable. */
  hint?: string
  /** A difference from the protocol's document, with its reason and the month it was last seen. */
  quirks: { [Name in keyof Quirks]?: { value: Quirks[Name]; why: string; seen: string } }
  /** Globs of model names that mean this provider when they come without a prefix. */
  unprefixedNames: string[]
  /** With the pages that say so, and the month they were last seen. */
  media?: MediaFacts & { sources: string[]; seen: string }
}

/**
 * What a provider takes of media, by the protocol it is spoken to in. Absent: any type inline, as far as is known, and
 * no address.
 */
export type MediaFacts = { [Name in ProtocolName]?: MediaTaken } & {
  /** Most bytes of one request, media in base64 included. */
  requestBytes?: number
}

/**
 * `inline`: globs of media types, of which `text/*` stands for all that is written in text; `fetches`: kinds of media
 * whose addresses it opens itself.
 */
type MediaTaken = { inline?: string[]; fetches?: MediaPart['type'][] }

/** One model of catalog/models.json that `npm run models` keeps. */
export type ImportedRow = { id: string; name?: string; contextLength?: number }

export type ImportedModels = {
  source: string
  imported: string
  changes: { imported: string; source: string; changed: string[] }[]
  models: ImportedRow[]
}

/** One model of catalog/models.json. What is said by hand goes before what was imported. */
export type ModelRow = ImportedRow & {
  /** Date of its release, YYYY-MM-DD. */
  released?: string
  /** Absent: the provider and model that the id names. */
  endpoints?: { provider: string; model: string; protocol?: Api }[]
  capabilities?: Capabilities
  /** Nobody said anything of it by hand. */
  onlyImported?: true
}

/** Abilities of every `<provider>/<model>` that a glob matches; later families add to and override earlier ones. */
export type FamilyRow = { match: string[]; capabilities: Capabilities; why?: string }

export const PROVIDER_ROWS = providersFile.providers as ProviderRow[]
export const MODEL_ROWS = joined(modelsFile.models as ModelRow[], (modelsFile.imported as ImportedModels).models)
const FAMILIES = (modelsFile.families as FamilyRow[]).map(({ match, capabilities }) => ({
  match: globs(match),
  capabilities,
}))

function joined(byHand: ModelRow[], imported: ImportedRow[]): ModelRow[] {
  const theirs = new Map(imported.map((row) => [row.id, row]))
  const ours = byHand.map((row) => ({ ...theirs.get(row.id), ...row }))
  for (const { id } of byHand) theirs.delete(id)
  return [...ours, ...[...theirs.values()].map((row) => ({ ...row, onlyImported: true as const }))]
}

/**
 * One expression for several patterns: `*` stands for any text, slashes included, `#` for a digit; everything else for
 * itself, upper or lower case.
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

/** What is known of a provider's model by the families its name belongs to. */
export function familyCapabilities(provider: string, model: string): Capabilities {
  const name = `${provider}/${model}`
  return FAMILIES.filter(({ match }) => match.test(name)).reduce<Capabilities>(
    (sum, { capabilities }) => ({ ...sum, ...capabilities }),
    {},
  )
}

/** The quirks of a row without their reasons. */
export const quirksOf = (row: ProviderRow): Quirks =>
  Object.fromEntries(Object.entries(row.quirks).map(([name, quirk]) => [name, quirk!.value])) as Quirks

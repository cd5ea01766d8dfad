import { stringify } from 'yaml'
import { isObject } from '../../json/parse.ts'
import { layerOf } from '../../pipeline/settings/build.ts'
import type { Members } from '../../pipeline/settings/leaves.ts'
import type { RunTimeSettings } from '../../pipeline/settings/run-time-settings.ts'
import { PROVIDER_ROWS } from '../../providers/catalog-rows.ts'

/** The configuration in force as a file, without secrets. */

/** The settings of file and console, in a server or beside it. */
export type SettingsView = Pick<RunTimeSettings, 'file' | 'all' | 'setUpBy' | 'problemOf'>

/** The text of the file, after a line with the variables that it names for secrets. */
export function exportedText(view: SettingsView): string {
  const { file, variables } = exported(view)
  const head =
    variables.length === 0 ? '' : `# Secrets are not exported. Set these variables: ${variables.join(', ')}\n`
  return head + stringify(file)
}

/** `variables`: those that the file names for the secrets of this one. */
function exported(runTime: SettingsView): { file: Members; variables: string[] } {
  const objects = runTime
    .all()
    .filter(
      ({ kind, name }) => runTime.setUpBy(kind, name) === undefined && runTime.problemOf(kind, name) === undefined,
    )
  const set = layerOf(objects)
  const providers = set.providers as Record<string, Members>
  for (const { kind, name, value } of objects)
    if (kind === 'provider-key') providers[name] = { ...providers[name], apiKey: value }
  const file = withoutEmpty(merged(runTime.file.written(), set) as Members)
  const variables = new Set<string>()
  hideAll(file, (value, name) => {
    if (typeof value !== 'string' || value === '' || value.includes('${')) return value
    variables.add(name)
    return `\${${name}}`
  })
  return { file, variables: [...variables] }
}

/** Values of the file come first. */
function merged(file: unknown, set: unknown): unknown {
  if (!isObject(set)) return file ?? set
  if (!isObject(file)) return file ?? set
  const both: Members = { ...file }
  for (const [name, value] of Object.entries(set)) both[name] = merged(file[name], value)
  return both
}

const withoutEmpty = (value: Members): Members =>
  Object.fromEntries(
    Object.entries(value)
      .map(([name, of]) => [name, name === 'plans' && isObject(of) ? withoutEmpty(of) : of] as const)
      .filter(([, of]) => !isObject(of) || Object.keys(of).length > 0),
  )

type Hide = (value: unknown, variable: string) => unknown

/** Replaces secrets wherever a file can have them. */
function hideAll(file: Members, hide: Hide): void {
  if (isObject(file.store) && 'url' in file.store) file.store.url = hide(file.store.url, 'SLUICE_STORE_URL')
  const keys = Array.isArray(file.keys) ? file.keys : []
  for (const [index, key] of keys.entries()) if (isObject(key)) key.key = hide(key.key, `SLUICE_FIXED_KEY_${index + 1}`)
  for (const [id, provider] of Object.entries(isObject(file.providers) ? file.providers : {}))
    if (isObject(provider)) hideIn(provider, id, hide)
}

function hideIn(provider: Members, id: string, hide: Hide): void {
  const prefix = variableOf(id)
  const [known = `${prefix}_API_KEY`] = PROVIDER_ROWS.find((row) => row.id === id)?.keyVariables ?? []
  if ('apiKey' in provider) provider.apiKey = hide(provider.apiKey, known)
  for (const one of Array.isArray(provider.apiKeys) ? provider.apiKeys : [])
    if (isObject(one)) one.key = hide(one.key, `${prefix}_KEY_${variableOf(String(one.name))}`)
  const { headers } = provider
  if (!isObject(headers)) return
  for (const name of Object.keys(headers)) headers[name] = hide(headers[name], `${prefix}_HEADER_${variableOf(name)}`)
}

const variableOf = (text: string): string =>
  text
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, '_')
    .replace(/^(?=\d)/, '_')

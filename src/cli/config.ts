import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Accounts } from '../accounts/accounts.ts'
import { Keys } from '../accounts/keys.ts'
import type { Config } from '../config/load.ts'
import { ConfigFile } from '../config/config-file.ts'
import { exportedText, type SettingsView } from '../endpoints/management/settings-export.ts'
import { HIDDEN, withoutSecrets } from '../endpoints/management/set-objects.ts'
import { isObject } from '../json/parse.ts'
import { buildFitting, idOf, pathOf, setUpBy } from '../pipeline/settings/build.ts'
import { ALL_LEAVES, at, type Members, textOf } from '../pipeline/settings/leaves.ts'
import { restoredRows, setRows, type StoredObject } from '../pipeline/settings/set-object.ts'
import { PROVIDER_ROWS } from '../providers/catalog-rows.ts'
import { variableOf } from '../providers/configured.ts'
import { openStore } from '../store/open.ts'
import { columns, type Given } from './command.ts'
import { configOf } from './serve.ts'

/** A setting in force. `origin`: an option, a variable, `sluice.yaml:12`, who set it in the console, or `default`. */
type Shown = { path: string; value: unknown; origin: string }

type View = SettingsView & { config: Config }

/** Prints all settings that a server with this configuration has in force. */
export async function showConfig(given: Given): Promise<void> {
  const view = await viewOf(configOf(given))
  const settings = [...shownSettings(view, given), ...shownObjects(view), ...fromEnvironment(view)]
  const rows = given.on('origin') ? settings : settings.map(({ path, value }) => ({ path, value }))
  if (given.on('json')) return console.log(JSON.stringify({ file: view.config.file ?? null, settings: rows }))
  const lines = rows.map((row) => Object.values(row).map((value) => textOfValue(value)))
  console.log(columns(lines, ''))
}

/** Prints the file and what was set in the console as one file, without secrets. */
export async function exportConfig(given: Given): Promise<void> {
  process.stdout.write(exportedText(await viewOf(configOf(given))))
}

/** The settings of file and console, without a server. */
async function viewOf(config: Config): Promise<View> {
  const file = new ConfigFile(config)
  const objects = await storedObjects(config)
  const { built, problems } = buildFitting(file, config, objects)
  return {
    config: built.config,
    file,
    all: () => objects,
    setUpBy: (kind, name) => setUpBy(file, config, kind, name),
    problemOf: (kind, name) => problems.get(idOf(kind, name)),
  }
}

/** A folder without a database has nothing that was set in the console. */
async function storedObjects(config: Config): Promise<StoredObject[]> {
  if (config.store.postgres === undefined && !existsSync(join(config.data, 'sluice.sqlite'))) return []
  const store = await openStore(config, { exclusive: false })
  try {
    const rows = await setRows(store)
    if (rows.length === 0) return []
    const keys = await Keys.open({ store, accounts: new Accounts({ store }), folder: config.data, env: config.env })
    return restoredRows(keys, rows)
  } finally {
    await store.close()
  }
}

/** Paths that options and variables decide about. */
const OVERRIDES: Record<string, [option: string, variable: string]> = {
  data: ['data', 'SLUICE_DATA'],
  'listen.host': ['host', 'SLUICE_HOST'],
  'listen.port': ['port', 'SLUICE_PORT'],
}

function shownSettings({ config, file, all, problemOf }: View, given: Given): Shown[] {
  const set = problemOf('settings', '') === undefined ? all().find(({ kind }) => kind === 'settings') : undefined
  const written = file.written()
  const originOf = (path: string): string => {
    const [option = '', variable = ''] = OVERRIDES[path] ?? []
    if (option !== '' && given.text(option) !== undefined) return `--${option}`
    if ((config.env[variable] ?? '') !== '') return variable
    // A database can be set up by its URL alone.
    const where =
      file.whereIs(path) ?? (path === 'store.url' && config.store.postgres ? file.whereIs('store') : undefined)
    if (where !== undefined) return withVariables(where, at(written, path))
    return at(set?.value, path) === undefined ? 'default' : consoleOf(set!)
  }
  return ALL_LEAVES.filter(({ path }) => !OBJECTS.some((one) => path === one)).map(({ path }) => ({
    path,
    value: textOf(config, path),
    origin: originOf(path),
  }))
}

/** The variables in a value of the file, after its place. */
function withVariables(where: string, written: unknown): string {
  const names = [...JSON.stringify(written ?? '').matchAll(/\$\{([A-Za-z_]\w*)/g)].map(([, name]) => name)
  return names.length === 0 ? where : `${where} (${[...new Set(names)].join(', ')})`
}

const consoleOf = ({ by, at: time }: StoredObject): string => `console: ${by}, ${new Date(time).toISOString()}`

const OBJECTS = ['providers', 'models', 'plans.tiers', 'keys']

/** Providers, models, plans and keys of the file, and those that were set in the console. */
function shownObjects({ file, all, setUpBy: setUp, problemOf }: View): Shown[] {
  const written = file.written()
  const ofFile = OBJECTS.flatMap((path) => flat(withoutSecrets(at(written, path)), path, at(written, path)))
    .filter(({ value }) => value !== undefined)
    .map(({ path, value }) => ({ path, value, origin: lineOf(file, path) }))
  const ofConsole = all()
    .filter(({ kind }) => kind !== 'settings')
    .flatMap((one) => {
      const { kind, name } = one
      const hiddenBy = setUp(kind, name)
      const problem = problemOf(kind, name)
      const state = hiddenBy !== undefined ? `, hidden by ${hiddenBy}` : problem !== undefined ? ', not in force' : ''
      const path = kind === 'provider-key' ? `providers.${name}.apiKey` : pathOf(kind, name)
      const values = kind === 'provider-key' ? [{ path, value: HIDDEN }] : flat(withoutSecrets(one.value), path)
      return values.map((value) => ({ ...value, origin: `${consoleOf(one)}${state}` }))
    })
  return [...ofFile, ...ofConsole]
}

/** Keys and addresses of built-in providers that variables have. */
const fromEnvironment = ({ config, file }: View): Shown[] =>
  PROVIDER_ROWS.flatMap(({ id }) => {
    const ofKey = variableOf(id, config, true)
    const any = variableOf(id, config, false)
    const name = ofKey === undefined ? 'baseUrl' : 'apiKey'
    const path = `providers.${id}.${name}`
    if (any === undefined || file.whereIs(path) !== undefined) return []
    return [{ path, value: ofKey === undefined ? config.env[any] : HIDDEN, origin: any }]
  })

/** The line of a path, or of the nearest one above it that has a line of its own. */
function lineOf(file: ConfigFile, path: string): string {
  for (let above = path; above !== ''; above = above.replace(/(?:^|[.[])[^.[]*$/, '')) {
    const where = file.whereIs(above)
    if (where !== undefined) return where
  }
  return file.name
}

/** Values that are no mappings, by their paths. A hidden one that only names a variable in `written` shows that. */
function flat(value: unknown, path: string, written: unknown = value): { path: string; value: unknown }[] {
  if (Array.isArray(value) && value.some(isObject))
    return value.flatMap((one, index) => flat(one, `${path}[${index}]`, (written as unknown[])[index]))
  if (!isObject(value)) {
    const isVariable = typeof written === 'string' && /^\$\{[A-Za-z_]\w*\}$/.test(written)
    return [{ path, value: isVariable ? written : value }]
  }
  return Object.entries(value).flatMap(([name, of]) => flat(of, `${path}.${name}`, (written as Members)[name]))
}

const textOfValue = (value: unknown): string =>
  value === null ? '-' : typeof value === 'string' ? value : JSON.stringify(value)

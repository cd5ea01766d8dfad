import { type Config, ConfigError } from '../../config/config.ts'
import { shownUrl } from '../../config/store-settings.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { isRunTime, RUN_TIME, SettingsProblems } from '../../pipeline/settings/build.ts'
import { ALL_LEAVES, at, isMembers, textOf } from '../../pipeline/settings/leaves.ts'
import { reloadFile } from '../../pipeline/settings/reload.ts'
import { answer, usd, versioned } from './answer.ts'
import { logChange } from './change-log.ts'
import type { ManagementRequest } from './route.ts'
import { byOf, changeObject, objectOf, patched, refusal, shownSet, type SetAnswer, versionOf } from './set-objects.ts'
import { exportedText } from './settings-export.ts'

/** A setting that can be changed at run time. `set_in`: where it can be changed alone, `sluice.yaml:12`. */
export type RunTimeSettingAnswer = {
  path: string
  description: string
  in_force: unknown
  set: unknown
  set_in: string | null
}

/** Settings as they are in force. Amounts are decimal strings; what has no limit is null. */
export type SettingsAnswer = {
  file: string | null
  settings: Record<string, unknown>
  run_time: RunTimeSettingAnswer[]
  set: SetAnswer | null
}

/** `restart`: paths of the file that have changed, and hold from the next start on. */
export type ReloadAnswer = { restart: string[] }

/** Parts of the configuration that have views of their own, or secrets. */
const ELSEWHERE = new Set(['env', 'file', 'text', 'data', 'providers', 'models', 'plans', 'keys'])

const SECRET = /^(?:api_?key|headers|key|password|secret|token)$/i

/** `GET /v1/management/settings`: those in force, of command line, environment, file, console and defaults. */
export function getSettings(app: AppContext): Response {
  const { config, runTime } = app
  const set = shownSet(app, 'settings', '')
  const body: SettingsAnswer = {
    file: config.file ?? null,
    settings: shownSettings(config),
    run_time: LEAVES.map(({ path, description }) => ({
      path,
      description,
      in_force: textOf(config, path),
      set: at(set?.value, path) ?? null,
      set_in: runTime.file.whereIs(path) ?? null,
    })),
    set,
  }
  return versioned(body, versionOf(app, 'settings', ''))
}

/** All that are in force, without secrets. */
export function shownSettings(config: Config): SettingsAnswer['settings'] {
  const settings = Object.fromEntries(Object.entries(config).filter(([name]) => !ELSEWHERE.has(name)))
  const { postgres } = config.store
  if (postgres !== undefined)
    settings.store = { ...config.store, postgres: { ...postgres, url: shownUrl(postgres.url) } }
  return JSON.parse(
    JSON.stringify(settings, (name, value: unknown) => (SECRET.test(name) ? '(hidden)' : plainValue(value))),
  ) as SettingsAnswer['settings']
}

const plainValue = (value: unknown): unknown => {
  if (typeof value === 'bigint') return usd(value)
  if (value === Infinity) return null
  return value instanceof Map ? Object.fromEntries(value) : value
}

/** Settings that can be changed at run time. */
const LEAVES = ALL_LEAVES.filter(({ path }) => isRunTime(path))

/** `PATCH /v1/management/settings`: members that are null return to their defaults. */
export async function patchSettings(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await objectOf(inbound)
  await changeObject(app, inbound, {
    kind: 'settings',
    name: '',
    action: 'settings.change',
    edits: (stored) => {
      checkPaths(app, body, '')
      return [{ kind: 'settings', name: '', value: withoutEmpty(patched(stored?.value, body)) }]
    },
  })
  return getSettings(app)
}

/** Refuses what the file has, and what only a start reads. Unknown members are left to the reader of the whole. */
function checkPaths({ runTime }: AppContext, value: unknown, path: string): void {
  if (isMembers(value))
    for (const [name, member] of Object.entries(value))
      checkPaths({ runTime } as AppContext, member, path === '' ? name : `${path}.${name}`)
  else if (!isRunTime(path) && !RUN_TIME.some((one) => one.startsWith(`${path}.`)) && isKnown(path))
    throw invalid(path, `cannot be changed while Sluice runs: set it in ${runTime.file.name}`)
  else if (value !== null) {
    const where = runTime.file.whereIs(path)
    if (where !== undefined)
      throw new GatewayError('set_in_file', `${path} is set up by ${where}: change it there.`, { param: path })
  }
}

const isKnown = (path: string): boolean =>
  ALL_LEAVES.some((one) => one.path === path || one.path.startsWith(`${path}.`))

const withoutEmpty = (value: unknown): unknown =>
  isMembers(value)
    ? Object.fromEntries(
        Object.entries(value)
          .map(([name, of]) => [name, withoutEmpty(of)] as const)
          .filter(([, of]) => !isMembers(of) || Object.keys(of).length > 0),
      )
    : value

/** `POST /v1/management/settings/reload`: reads the configuration file again. A mistake in it changes nothing. */
export async function reloadSettings(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { runTime } = app
  try {
    const { restart } = await reloadFile(runTime, byOf(inbound), (after) =>
      logChange(app, inbound, { action: 'settings.reload', target: runTime.file.name, after }),
    )
    return answer({ restart } satisfies ReloadAnswer)
  } catch (error) {
    if (error instanceof SettingsProblems) throw refusal(error, '')
    if (!(error instanceof ConfigError)) throw error
    const problems = error.problems.map((message) => ({ path: '', message }))
    throw new GatewayError('invalid_request', error.message, { metadata: { problems } })
  }
}

/** `GET /v1/management/settings/export.yaml`: file and console as one file, with variables for secrets. */
export async function exportSettings(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const text = exportedText(app.runTime)
  await logChange(app, inbound, { action: 'settings.export', target: app.runTime.file.name })
  return new Response(text, {
    headers: {
      'content-type': 'application/yaml',
      'content-disposition': 'attachment; filename="sluice.yaml"',
      'cache-control': 'no-store',
    },
  })
}

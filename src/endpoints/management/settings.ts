import { type Config, ConfigError } from '../../config/config.ts'
import { CAPTURE_MODES } from '../../config/terms.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { isRunTime, RUN_TIME, SettingsProblems } from '../../pipeline/settings/build.ts'
import { ALL_LEAVES, at, textOf } from '../../pipeline/settings/leaves.ts'
import { reloadFile } from '../../pipeline/settings/reload.ts'
import { answer, versioned } from './answer.ts'
import { checkMost } from './capture.ts'
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

/** Settings as they are in force and as sluice.yaml has them, `10s` or `1GiB`; what has no value is null. */
export type SettingsAnswer = {
  file: string | null
  settings: Record<string, unknown>
  run_time: RunTimeSettingAnswer[]
  set: SetAnswer | null
}

/** `restart`: paths of the file that have changed, and hold from the next start on. */
export type ReloadAnswer = { restart: string[] }

/** Parts of the file that have views of their own. */
const ELSEWHERE = new Set(['data', 'providers', 'models', 'plans', 'keys'])

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

/** All that are in force, as sluice.yaml would have them. */
export function shownSettings(config: Config): SettingsAnswer['settings'] {
  const settings: SettingsAnswer['settings'] = {}
  for (const { path } of ALL_LEAVES) {
    const names = path.split('.')
    if (ELSEWHERE.has(names[0]!)) continue
    const last = names.pop()!
    const of = names.reduce((above, name) => (above[name] ??= {}) as Record<string, unknown>, settings)
    of[last] = textOf(config, path)
  }
  return settings
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
      const byDefault = CAPTURE_MODES.find((mode) => mode === at(body, 'capture.default'))
      if (byDefault !== undefined) checkMost(app, byDefault, 'capture.default')
      return [{ kind: 'settings', name: '', value: withoutEmpty(patched(stored?.value, body)) }]
    },
  })
  return getSettings(app)
}

/** Refuses what the file has, and what only a start reads. Unknown members are left to the reader of the whole. */
function checkPaths({ runTime }: AppContext, value: unknown, path: string): void {
  if (isObject(value))
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
  isObject(value)
    ? Object.fromEntries(
        Object.entries(value)
          .map(([name, of]) => [name, withoutEmpty(of)] as const)
          .filter(([, of]) => !isObject(of) || Object.keys(of).length > 0),
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

import { type ChangeLog, COMMAND_LINE } from '../../accounts/change-log.ts'
import { isObject } from '../../json/parse.ts'
import { log } from '../../log/log.ts'
import { isRunTime } from './build.ts'
import type { Members } from './leaves.ts'
import type { RunTimeSettings } from './run-time-settings.ts'

/** Paths of the file that have changed, and are in force now; and those that differ until the next start. */
export type Reloaded = { changed: string[]; restart: string[] }

type Logged = (reloaded: Reloaded) => Promise<void>

/**
 * Reads the configuration file again. `logged` writes the line of the change log. Throws ConfigError or
 * SettingsProblems, and changes nothing then.
 */
export async function reloadFile(runTime: RunTimeSettings, by: string, logged: Logged): Promise<Reloaded> {
  const before = runTime.file.written()
  let reloaded: Reloaded = { changed: [], restart: [] }
  await runTime.reload(by, (file) => {
    const now = file.written()
    reloaded = {
      changed: differences(before, now, '').filter(isTakenOver),
      restart: differences(runTime.started.written(), now, '').filter((path) => !isTakenOver(path)),
    }
    return logged(reloaded)
  })
  return reloaded
}

/** The same on a signal: what has changed, or what is wrong, is logged. */
export async function reloadOnSignal({
  runTime,
  people: { changes },
}: {
  runTime: RunTimeSettings
  people: { changes: ChangeLog }
}): Promise<void> {
  const { name } = runTime.file
  try {
    const { changed, restart } = await reloadFile(runTime, 'SIGHUP', (after) =>
      changes.add(COMMAND_LINE, { action: 'settings.reload', target: name, after }),
    )
    const parts = [
      changed.length === 0 ? '' : `changed ${changed.join(', ')}`,
      restart.length === 0 ? '' : `from the next start on ${restart.join(', ')}`,
    ].filter((part) => part !== '')
    log.info(`${name} is read again: ${parts.length === 0 ? 'nothing has changed' : parts.join('; ')}`)
  } catch (error) {
    log.error(`${name} is not taken over, and what was in force stays:\n${(error as Error).message}`)
  }
}

const isTakenOver = (path: string): boolean =>
  /^(?:providers|models|plans\.tiers)(?:\.|$)/.test(path) || isRunTime(path)

/** The paths at which two values differ. */
function differences(before: unknown, now: unknown, path: string): string[] {
  if (!isObject(before) && !isObject(now)) return JSON.stringify(before) === JSON.stringify(now) ? [] : [path]
  if (!isObject(before ?? {}) || !isObject(now ?? {})) return [path]
  const [from, to] = [before ?? {}, now ?? {}] as [Members, Members]
  return [...new Set([...Object.keys(from), ...Object.keys(to)])].flatMap((name) =>
    differences(from[name], to[name], path === '' ? name : `${path}.${name}`),
  )
}

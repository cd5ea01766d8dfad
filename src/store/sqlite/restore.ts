import { Database } from 'bun:sqlite'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { backUp } from './backup.ts'
import { isCorrupt } from './errors.ts'
import { lockFolder } from './lock.ts'
import { MIGRATIONS } from './migrations.ts'
import { DATABASE } from './store.ts'

/** Names that belong to the server that runs, or to a restoration. */
const LEFT = /^(?:lock\.sqlite.*|server\.pid|successor.*|restoring|\.restoring\.partial|replaced-.*)$/

/**
 * Puts a copy of a data folder in the place of the present content, which is moved to a folder in it. Returns that
 * folder; undefined where there was nothing. Fails with an Error for the operator, and changes nothing, where a server
 * runs on the folder or the copy is not right.
 */
export async function restore(copy: string, folder: string, now: number): Promise<string | undefined> {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const lock = lockFolder(folder)
  try {
    const restoring = join(folder, 'restoring')
    rmSync(restoring, { recursive: true, force: true })
    const problem = await copyOf(copy, restoring)
    if (problem !== undefined) {
      rmSync(restoring, { recursive: true, force: true })
      throw new Error(`the database of ${copy} ${problem}`)
    }
    const present = readdirSync(folder).filter((name) => !LEFT.test(name))
    const replaced = join(folder, `replaced-${new Date(now).toISOString().replaceAll(':', '-')}`)
    if (present.length > 0) mkdirSync(replaced, { mode: 0o700 })
    for (const name of present) renameSync(join(folder, name), join(replaced, name))
    for (const name of readdirSync(restoring)) renameSync(join(restoring, name), join(folder, name))
    rmSync(restoring, { recursive: true })
    return present.length > 0 ? replaced : undefined
  } finally {
    lock.release()
  }
}

/** Copies a data folder, and gives what is wrong with its database, or undefined. */
async function copyOf(copy: string, restoring: string): Promise<string | undefined> {
  if (!existsSync(join(copy, DATABASE))) return `(${DATABASE}) is missing`
  try {
    await backUp(copy, restoring)
    return problemOf(join(restoring, DATABASE))
  } catch (error) {
    if (isCorrupt(error)) return `is corrupt (${(error as Error).message})`
    throw error
  }
}

function problemOf(file: string): string | undefined {
  const database = new Database(file, { readonly: true })
  try {
    const { integrity_check: first } = database.query('PRAGMA integrity_check(1)').get() as { integrity_check: string }
    if (first !== 'ok') return `is corrupt (${first})`
    const { user_version: version } = database.query('PRAGMA user_version').get() as { user_version: number }
    if (version === 0) return 'has no tables of Sluice'
    if (version <= MIGRATIONS.length) return undefined
    return `was written by a newer version of Sluice (schema ${version}; this one supports ${MIGRATIONS.length})`
  } finally {
    database.close()
  }
}

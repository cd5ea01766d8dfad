import { Database } from 'bun:sqlite'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The longest wait of a starting server for one that is still stopping. */
const WAIT_MS = 3000

/**
 * Locks a data folder for one server. The lock is an open exclusive transaction on a file of its own: the operating
 * system releases it when the process ends, so that a `kill -9` leaves nothing to clean up.
 * Fails with an Error that names the process which has the lock.
 */
export function lockFolder(folder: string): { release(): void } {
  const lock = new Database(join(folder, 'lock.sqlite'))
  // The pid is in another file: opening and closing the locked file in this process would release a POSIX lock.
  const pidFile = join(folder, 'server.pid')
  try {
    lock.run(`PRAGMA busy_timeout = ${WAIT_MS}`)
    // Not WAL: only a rollback journal makes an exclusive transaction exclude others before anything is written.
    lock.run('PRAGMA journal_mode = DELETE')
    lock.run('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY') !== true) throw error
    throw new Error(
      `the data folder ${folder} is in use by another Sluice (process ${readPid(pidFile)}); ` +
        'stop that one, or set another folder with --data',
    )
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 })
  return { release: () => lock.close() }
}

function readPid(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim()
  } catch {
    return 'unknown'
  }
}

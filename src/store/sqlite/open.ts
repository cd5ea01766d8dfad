import { Database } from 'bun:sqlite'
import { closeSync, existsSync, openSync } from 'node:fs'
import { isLocked } from './errors.ts'
import { MIGRATIONS } from './migrations.ts'

/** 3.37 added STRICT tables. Bun bundles a newer version on Linux and Windows, and uses the system's on macOS. */
const OLDEST_SQLITE = [3, 37]
/** The longest wait for another process's lock while a file is opened: it blocks the event loop. */
const OPEN_TIMEOUT_MS = 5_000
const OPEN_RETRY_MS = 20
/** A checkpoint flushes twice on the thread of the event loop. The default of SQLite is a quarter of this. */
const CHECKPOINT_PAGES = 4_000
/** A log that one large transaction made longer is cut to this after its checkpoint. */
const LOG_BYTES = 64 * 2 ** 20

/**
 * Opens or creates the database. `usedBefore`: a file that exists where there was a database. Fails with an Error if
 * the database cannot be used, and if it is missing where there was one.
 */
export function openDatabase(file: string, usedBefore: string): Database {
  const giveUpAt = performance.now() + OPEN_TIMEOUT_MS
  for (;;)
    try {
      return tryOpen(file, usedBefore)
    } catch (error) {
      // SQLite does not wait for a process that closes the file as the last one, and removes its log.
      if (!isLocked(error) || performance.now() > giveUpAt) throw error
      Bun.sleepSync(OPEN_RETRY_MS)
    }
}

function tryOpen(file: string, usedBefore: string): Database {
  // Created here first, so that the file and those that SQLite puts beside it are readable by this user only.
  closeSync(openSync(file, 'a', 0o600))
  const database = new Database(file)
  try {
    assertVersion(database)
    database.run(`PRAGMA busy_timeout = ${OPEN_TIMEOUT_MS}`)
    // With it free pages can be given back to the disk. An existing file would have to be written anew.
    const { page_count: pages } = database.query('PRAGMA page_count').get() as { page_count: number }
    if (pages === 0) database.run('PRAGMA auto_vacuum = INCREMENTAL')
    database.run('PRAGMA journal_mode = WAL')
    // Commits are flushed by `#flush`. Without it, a power cut could bring back a revoked key or spent money.
    database.run('PRAGMA synchronous = NORMAL')
    database.run(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    database.run(`PRAGMA journal_size_limit = ${LOG_BYTES}`)
    database.run('PRAGMA foreign_keys = ON')
    migrate(database, file, usedBefore)
    database.run('PRAGMA busy_timeout = 0')
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

function assertVersion(database: Database): void {
  const { version } = database.query('SELECT sqlite_version() AS version').get() as { version: string }
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_SQLITE
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new Error(`SQLite ${version} is too old; ${OLDEST_SQLITE.join('.')} or newer is required`)
  }
}

const versionOf = (database: Database): number =>
  (database.query('PRAGMA user_version').get() as { user_version: number }).user_version

function migrate(database: Database, file: string, usedBefore: string): void {
  // Without the lock: another process may have it for long.
  if (versionOf(database) === MIGRATIONS.length) return
  database.run('BEGIN IMMEDIATE')
  try {
    const version = versionOf(database)
    if (version > MIGRATIONS.length) {
      throw new Error(
        `${file} was written by a newer version of Sluice (schema ${version}; this one supports ${MIGRATIONS.length})`,
      )
    }
    if (version === 0 && existsSync(usedBefore))
      throw new Error(
        `${file} is missing or empty, with all accounts, keys and balances, although ${usedBefore} is there. ` +
          `Restore it from a backup; to start with an empty one, remove ${usedBefore}`,
      )
    for (const step of MIGRATIONS.slice(version)) database.run(step)
    if (version < MIGRATIONS.length) database.run(`PRAGMA user_version = ${MIGRATIONS.length}`)
    database.run('COMMIT')
  } catch (error) {
    if (database.inTransaction) database.run('ROLLBACK')
    throw error
  }
}

import { Database, SQLiteError, type Statement } from 'bun:sqlite'
import { closeSync, fdatasync, openSync } from 'node:fs'
import { GatewayError } from '../error.ts'
import { MIGRATIONS } from './migrations.ts'

/** 3.37 brought STRICT tables. Bun brings a newer one on Linux and Windows, and takes the system's own on macOS. */
const OLDEST_SQLITE = [3, 37]
/** The CLI writes into a running server's file: each waits this long for the other. */
const BUSY_TIMEOUT_MS = 5000

export type Binding = string | number | bigint | null | Uint8Array

/**
 * A transaction and its flush cost as much as ten generations that are written in it: after one that was shared, the
 * next one lets so much time pass for more to come.
 */
const SHARING_MS = 1

/** Who gathers over one transaction: what is left to write at its end, and what to forget when none of it happened. */
export type WriteBatch = { beforeCommit: () => void; afterRollback: () => void }

type Pending = {
  write: () => void
  committed: (() => void) | undefined
  resolve: () => void
  reject: (error: unknown) => void
}

/** One connection to one SQLite file, with its group commit. */
export class Connection {
  readonly #database: Database
  readonly #statements = new Map<string, Statement>()
  readonly #gatherings: WriteBatch[] = []
  readonly #log: string
  #pending: Pending[] = []
  /** The write-ahead log, opened for flushing it; it exists from the first commit on. */
  #logFile: number | undefined
  #flushing = false
  /** Whether the last transaction was that of several writes. */
  #shared = false
  /** A disk that could not flush once may have lost what it was given: nothing it says afterwards can be believed. */
  #broken: unknown

  /** Fails where the file cannot be used. */
  constructor(file: string) {
    this.#database = openDatabase(file)
    this.#log = `${file}-wal`
  }

  gather(gathering: WriteBatch): void {
    this.#gatherings.push(gathering)
  }

  /**
   * Group commit: what is written in one turn of the event loop is one transaction. It resolves when the disk has it,
   * which is waited for beside the
   * event loop; what comes meanwhile is the next transaction. A write that is alone is committed at once.
   * `committed` is called as soon as readers see it.
   */
  commit(write: () => unknown, committed?: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#pending.length === 0 && !this.#flushing) this.#commitSoon()
      this.#pending.push({ write, committed, resolve, reject })
    })
  }

  #commitSoon(): void {
    if (this.#shared) setTimeout(() => this.#commitPending(), SHARING_MS)
    else setImmediate(() => this.#commitPending())
  }

  /** Several reads that see the same state, whatever other processes write meanwhile. */
  snapshot<T>(query: () => T): T {
    return read(() => this.#database.transaction(query)())
  }

  /** The same for reads that take many turns. Nothing can be committed here until they are done. */
  async longSnapshot<T>(query: () => Promise<T>): Promise<T> {
    this.#database.run('BEGIN')
    try {
      return await query()
    } finally {
      this.#database.run('COMMIT')
    }
  }

  run(sql: string, ...values: Binding[]): { changes: number } {
    return this.#statement(sql).run(values as never)
  }

  all<Row>(sql: string, ...values: Binding[]): Row[] {
    return read(() => this.#statement(sql).all(...values) as Row[])
  }

  one<Row>(sql: string, ...values: Binding[]): Row | undefined {
    return read(() => (this.#statement(sql).get(...values) ?? undefined) as Row | undefined)
  }

  /** Changes when, and only when, another connection has committed. */
  dataVersion(): number {
    return this.one<{ data_version: number }>('PRAGMA data_version')?.data_version ?? 0
  }

  /** When all that was given before is written. */
  async close(): Promise<void> {
    // What could not be written has told those who wait for it.
    if (this.#pending.length > 0 || this.#flushing) await this.commit(() => {}).catch(() => {})
    for (const statement of this.#statements.values()) statement.finalize()
    this.#database.close()
    if (this.#logFile !== undefined) closeSync(this.#logFile)
  }

  #commitPending(): void {
    const batch = this.#pending
    this.#pending = []
    if (batch.length === 0) return
    this.#shared = batch.length > 1
    let done: readonly Pending[] = batch
    try {
      this.#transaction(batch)
    } catch (error) {
      // One bad write must not fail its neighbours: each is tried by itself.
      done = batch.length > 1 ? batch.filter((one) => this.#commitAlone(one)) : []
      if (batch.length === 1) batch[0]!.reject(asStoreError(error))
    }
    if (done.length > 0) this.#flush(done)
  }

  #commitAlone(one: Pending): boolean {
    try {
      this.#transaction([one])
      return true
    } catch (error) {
      one.reject(asStoreError(error))
      return false
    }
  }

  /** Flushing the log is what `synchronous = FULL` does at each commit; done here, it does not stop the event loop. */
  #flush(batch: readonly Pending[]): void {
    this.#flushing = true
    this.#logFile ??= openSync(this.#log, 'r+')
    fdatasync(this.#logFile, (error) => {
      this.#flushing = false
      if (error !== null) this.#broken = error
      for (const { resolve, reject } of batch) {
        if (error === null) resolve()
        else reject(unavailable(error))
      }
      if (this.#pending.length > 0) this.#commitSoon()
    })
  }

  #transaction(batch: readonly Pending[]): void {
    if (this.#broken !== undefined) throw unavailable(this.#broken)
    this.run('BEGIN IMMEDIATE')
    try {
      for (const { write } of batch) write()
      for (const { beforeCommit } of this.#gatherings) beforeCommit()
      this.run('COMMIT')
    } catch (error) {
      // A full disk may have rolled back by itself.
      if (this.#database.inTransaction) this.#database.run('ROLLBACK')
      for (const { afterRollback } of this.#gatherings) afterRollback()
      throw error
    }
    for (const { committed } of batch) committed?.()
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }
}

function openDatabase(file: string): Database {
  // Created by us first, so that it and the files SQLite puts beside it are readable by this user only.
  closeSync(openSync(file, 'a', 0o600))
  const database = new Database(file)
  try {
    assertVersion(database)
    database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`)
    database.run('PRAGMA journal_mode = WAL')
    // A commit is written here and flushed by `#flush`: without the flush a power cut could bring back a revoked key or
    // spent money.
    database.run('PRAGMA synchronous = NORMAL')
    database.run('PRAGMA foreign_keys = ON')
    migrate(database, file)
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
    throw new Error(`SQLite ${version} is too old: ${OLDEST_SQLITE.join('.')} or newer is needed`)
  }
}

function migrate(database: Database, file: string): void {
  database.run('BEGIN IMMEDIATE')
  try {
    const { user_version: version } = database.query('PRAGMA user_version').get() as { user_version: number }
    if (version > MIGRATIONS.length) {
      throw new Error(
        `${file} was written by a newer Sluice (version ${version} of its tables; this one knows ${MIGRATIONS.length})`,
      )
    }
    for (const step of MIGRATIONS.slice(version)) database.run(step)
    if (version < MIGRATIONS.length) database.run(`PRAGMA user_version = ${MIGRATIONS.length}`)
    database.run('COMMIT')
  } catch (error) {
    if (database.inTransaction) database.run('ROLLBACK')
    throw error
  }
}

function read<T>(query: () => T): T {
  try {
    return query()
  } catch (error) {
    throw asStoreError(error)
  }
}

/** What breaks a rule of the tables is a mistake of ours and stays one: trying it again would not help. */
const asStoreError = (error: unknown): unknown =>
  error instanceof SQLiteError && !error.code?.startsWith('SQLITE_CONSTRAINT') ? unavailable(error) : error

const unavailable = (cause: unknown): GatewayError =>
  cause instanceof GatewayError
    ? cause
    : new GatewayError('store_unavailable', `The store of this Sluice does not answer${reasonOf(cause)}; try again.`, {
        cause,
        retryAfterSeconds: 5,
        shouldRetry: true,
      })

/** What an operator can see to. Of what else the database says nothing is told: it is about our statements. */
const REASONS: Record<string, string> = {
  SQLITE_FULL: ': its disk is full',
  SQLITE_IOERR: ': its disk fails',
  SQLITE_READONLY: ': it is read-only',
  SQLITE_BUSY: ': another process keeps it busy',
}

const reasonOf = (cause: unknown): string =>
  cause instanceof SQLiteError
    ? (REASONS[/^SQLITE_[A-Z]+/.exec(cause.code ?? '')?.[0] ?? ''] ?? '')
    : REASONS.SQLITE_IOERR!

/** An amount to bind: a larger one would lose its upper bits without a word. */
export function int64(amount: bigint): bigint {
  if (BigInt.asIntN(64, amount) !== amount) throw new RangeError(`the amount ${amount} does not fit in 64 bits`)
  return amount
}

import { SQLiteError, type Database, type Statement } from 'bun:sqlite'
import { closeSync, fdatasync, openSync, statSync } from 'node:fs'
import type { Durability } from '../../config/terms.ts'
import { log } from '../../log/log.ts'
import { Histogram, SHORT_BOUNDS } from '../../telemetry/histogram.ts'
import { BATCH_ROWS } from './batch-rows.ts'
import { asStoreError, isLocked, unavailable } from './errors.ts'
import { openDatabase } from './open.ts'

/** Interval of attempts to begin a transaction while another process has the lock. */
const LOCK_RETRY_MS = 10
/** The longest wait of a write for that lock. A response that the provider has been paid for is worth it. */
const LOCK_WAIT_MS = 30_000
/** A lock of this age is reported. */
const LONG_LOCK_MS = 2_000

export type Binding = string | number | bigint | null | Uint8Array

/**
 * A transaction and its flush cost as much as writing ten generations. While many writes arrive, a flushed transaction
 * therefore waits this long for more of them.
 */
const GROUP_DELAY_MS = 1
/** Writes that arrive in that time, for waiting to be worth it. */
const GROUP_WRITES = 3
/** The time over which arriving writes are counted. */
const COUNTED_MS = 100

/** Callbacks of a table that accumulates writes in memory during a transaction. */
type TransactionHooks = { beforeCommit?: () => void; afterCommit?: () => void; afterRollback: () => void }

/**
 * A commit without a caller that waits for its flush is flushed this much later: soon, because a checkpoint flushes
 * what is left on the thread of the event loop.
 */
const FLUSH_DELAY_MS = 100

/** Someone who waits for a flush. */
type Waiting = { resolve: () => void; reject: (error: unknown) => void }

type Pending = Waiting & {
  write: () => void
  /** It resolves after a flush. */
  isFlushed: boolean
  committed: (() => void) | undefined
  /** Set while another process has the lock: the end of the wait for it. */
  giveUpAt?: number
}

/** One connection to one SQLite file, with its group commit. */
export class Connection {
  readonly #database: Database
  readonly #statements = new Map<string, Statement>()
  readonly #hooks: TransactionHooks[] = []
  readonly #file: string
  readonly #log: string
  readonly #durability: Durability
  readonly timings = { transactions: new Histogram(SHORT_BOUNDS), flushes: new Histogram(SHORT_BOUNDS) }
  #pending: Pending[] = []
  /** The writes that are made all or none, while they are handed over. */
  #unit: Pending[] | undefined
  /** The write-ahead log, opened for flushing it; it exists from the first commit on. */
  #logFile: number | undefined
  #flushing = false
  /** Those whose writes are committed and in no flush that has begun. */
  #unflushed: Waiting[] = []
  /** Runs while there are commits without waiting callers that no flush under way covers. */
  #flushTimer: Timer | undefined
  #scheduled = false
  /** Writes of the transactions since this instant. */
  #counted = { writes: 0, since: performance.now() }
  #isBusy = false
  /** Set while another process has the lock. */
  #locked: { since: number; isReported: boolean } | undefined
  /** The error of a failed flush. The disk may have lost data, so that no later flush can be trusted. */
  #flushError: unknown
  readonly #freeSpace: () => boolean

  /**
   * `durability`: the failure that what generations leave survives. `freeSpace` frees space on a full disk, or returns
   * false. Fails like `openDatabase`.
   */
  constructor(file: string, durability: Durability, usedBefore: string, freeSpace: () => boolean) {
    this.#durability = durability
    this.#freeSpace = freeSpace
    this.#database = openDatabase(file, usedBefore)
    this.#file = file
    this.#log = `${file}-wal`
  }

  addHooks(hooks: TransactionHooks): void {
    this.#hooks.push(hooks)
  }

  /**
   * Group commit: the writes of one event-loop turn are one transaction. Resolves when it is flushed to disk. The flush
   * runs beside the event loop; writes that arrive meanwhile form the next transaction.
   */
  commit(write: () => unknown): Promise<void> {
    return this.#enqueue(write, true)
  }

  /**
   * The same for what a generation leaves when it ends. With durability `process` it resolves when the operating system
   * has the transaction, and waits for no flush. `committed` is called as soon as readers see the write.
   */
  commitEnd(write: () => unknown, committed?: () => void): Promise<void> {
    return this.#enqueue(write, this.#durability === 'power', committed)
  }

  /** The same for what has to survive a crash of this process alone: it never waits for a flush. */
  commitUnflushed(write: () => unknown): Promise<void> {
    return this.#enqueue(write, false)
  }

  /** The writes that `begin` hands over before it returns are made all or none. */
  together<T>(begin: () => T): T {
    if (this.#unit !== undefined) return begin()
    const unit: Pending[] = (this.#unit = [])
    try {
      return begin()
    } finally {
      this.#unit = undefined
      if (unit.length > 0)
        this.#enqueue(
          () => unit.forEach(({ write }) => write()),
          unit.some(({ isFlushed }) => isFlushed),
          () => unit.forEach(({ committed }) => committed?.()),
        ).then(
          () => unit.forEach(({ resolve }) => resolve()),
          (error: unknown) => unit.forEach(({ reject }) => reject(error)),
        )
    }
  }

  #enqueue(write: () => unknown, isFlushed: boolean, committed?: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const pending = { write, isFlushed, committed, resolve, reject }
      if (this.#unit !== undefined) return void this.#unit.push(pending)
      this.#pending.push(pending)
      if (!this.#flushing || !isFlushed) this.#commitSoon()
    })
  }

  #commitSoon(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    if (this.#isBusy && this.#durability === 'power') setTimeout(() => this.#commitPending(), GROUP_DELAY_MS)
    else setImmediate(() => this.#commitPending())
  }

  /** Runs `write` in one transaction after another until it returns fewer than BATCH_ROWS rows. Returns all rows. */
  async inBatches<Row>(write: () => Row[]): Promise<Row[]> {
    const rows: Row[] = []
    for (;;) {
      let batch: Row[] = []
      await this.commit(() => {
        batch = write()
      })
      rows.push(...batch)
      if (batch.length < BATCH_ROWS) return rows
    }
  }

  /** Several reads of the same state, whatever other processes write meanwhile. */
  snapshot<T>(query: () => T): T {
    return read(() => this.#database.transaction(query)())
  }

  /** The same for reads that take many turns. This connection cannot commit until they are done. */
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

  /** A number that changes exactly when another connection commits. */
  dataVersion(): number {
    return this.one<{ data_version: number }>('PRAGMA data_version')?.data_version ?? 0
  }

  /** Bytes of the database as it is for readers, and those of its free pages. */
  pages(): { free: number; length: number } {
    return this.one(
      `SELECT freelist_count * page_size AS free, page_count * page_size AS length
       FROM pragma_freelist_count, pragma_page_count, pragma_page_size`,
    )!
  }

  /** Bytes of the file that are free, less those by which the next checkpoint will make it longer. */
  freeBytes(): number {
    const { free, length } = this.pages()
    return free + statSync(this.#file).size - length
  }

  /** Closes the file once all pending writes are done. Once only: its descriptor is given to the next file. */
  async close(): Promise<void> {
    // A failed write has already been reported to its caller.
    if (this.#pending.length > 0 || this.#flushing || this.#flushTimer !== undefined)
      await this.commit(() => {}).catch(() => {})
    clearTimeout(this.#flushTimer)
    for (const statement of this.#statements.values()) statement.finalize()
    this.#database.close()
    if (this.#logFile !== undefined) closeSync(this.#logFile)
  }

  #commitPending(): void {
    const batch = this.#pending
    this.#pending = []
    this.#scheduled = false
    let done: readonly Pending[] = batch
    try {
      this.#transaction(batch)
    } catch (error) {
      if (isLocked(error)) return this.#retryLater(batch, error)
      // One bad write must not fail the others: each is retried alone.
      done = batch.length > 1 ? batch.filter((one) => this.#commitAlone(one)) : []
      if (batch.length === 1) batch[0]!.reject(asStoreError(error))
    }
    this.#count(batch.length)
    for (const one of done) {
      if (one.isFlushed) this.#unflushed.push(one)
      else one.resolve()
    }
    if (this.#unflushed.length > 0) this.#flush()
    else if (done.length > 0) this.#flushLater()
  }

  /** Another process has the lock: tries again later, without blocking the event loop as SQLite would. */
  #retryLater(batch: Pending[], error: unknown): void {
    const now = performance.now()
    this.#locked ??= { since: now, isReported: false }
    if (!this.#locked.isReported && now - this.#locked.since >= LONG_LOCK_MS) {
      this.#locked.isReported = true
      log.warn('Another process has locked the database: writes wait until it has released the lock.')
    }
    for (const one of batch) if ((one.giveUpAt ??= now + LOCK_WAIT_MS) <= now) one.reject(asStoreError(error))
    this.#pending = [...batch.filter(({ giveUpAt }) => giveUpAt! > now), ...this.#pending]
    this.#scheduled = this.#pending.length > 0
    if (this.#scheduled) setTimeout(() => this.#commitPending(), LOCK_RETRY_MS)
  }

  #count(writes: number): void {
    const now = performance.now()
    this.#counted.writes += writes
    const elapsed = now - this.#counted.since
    if (elapsed < COUNTED_MS) return
    this.#isBusy = this.#counted.writes * GROUP_DELAY_MS >= GROUP_WRITES * elapsed
    this.#counted = { writes: 0, since: now }
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

  /** The flush that `synchronous = FULL` would do in each commit, without blocking the event loop. */
  #flush(): void {
    // The end of the flush under way begins the next one.
    if (this.#flushing) return
    this.#flushing = true
    clearTimeout(this.#flushTimer)
    this.#flushTimer = undefined
    const waiting = this.#unflushed
    this.#unflushed = []
    this.#logFile ??= openSync(this.#log, 'r+')
    const startedAt = performance.now()
    fdatasync(this.#logFile, (error) => {
      this.#flushing = false
      this.timings.flushes.observe((performance.now() - startedAt) / 1000)
      if (error !== null) {
        this.#flushError = error
        waiting.push(...this.#unflushed.splice(0))
      }
      for (const { resolve, reject } of waiting) {
        if (error === null) resolve()
        else reject(unavailable(error))
      }
      if (this.#unflushed.length > 0) this.#flush()
      else if (this.#pending.length > 0) this.#commitSoon()
    })
  }

  #flushLater(): void {
    this.#flushTimer ??= setTimeout(() => {
      this.#unflushed.push(NO_CALLER)
      this.#flush()
    }, FLUSH_DELAY_MS).unref()
  }

  #transaction(batch: readonly Pending[]): void {
    if (this.#flushError !== undefined) throw unavailable(this.#flushError)
    const startedAt = performance.now()
    withSpace(() => this.#write(batch), this.#freeSpace)
    this.timings.transactions.observe((performance.now() - startedAt) / 1000)
    for (const { afterCommit } of this.#hooks) afterCommit?.()
    for (const { committed } of batch) committed?.()
  }

  #write(batch: readonly Pending[]): void {
    this.run('BEGIN IMMEDIATE')
    this.#locked = undefined
    try {
      for (const { write } of batch) write()
      for (const { beforeCommit } of this.#hooks) beforeCommit?.()
      this.run('COMMIT')
    } catch (error) {
      // SQLite rolls back on its own when the disk is full.
      if (this.#database.inTransaction) this.#database.run('ROLLBACK')
      for (const { afterRollback } of this.#hooks) afterRollback()
      throw error
    }
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }
}

const NO_CALLER: Waiting = { resolve: () => {}, reject: () => {} }

function read<T>(query: () => T): T {
  try {
    return query()
  } catch (error) {
    throw asStoreError(error)
  }
}

/** The result of `run`; where the disk is full and space can be freed on it, that of a second try. */
export function withSpace<T>(run: () => T, freeSpace: () => boolean): T {
  try {
    return run()
  } catch (error) {
    if (!isFull(error) || !freeSpace()) throw error
    return run()
  }
}

/** Also when the shared memory of the log cannot grow. */
const isFull = (error: unknown): boolean =>
  error instanceof SQLiteError && (error.code === 'SQLITE_FULL' || error.code === 'SQLITE_IOERR_SHMSIZE')

export const fitsInt64 = (amount: bigint): boolean => BigInt.asIntN(64, amount) === amount

/** Checks an amount before it is bound: SQLite would silently drop the upper bits of a larger one. */
export function int64(amount: bigint): bigint {
  if (!fitsInt64(amount)) throw new RangeError(`the amount ${amount} does not fit in 64 bits`)
  return amount
}

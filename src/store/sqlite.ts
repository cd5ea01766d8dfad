import { Database, SQLiteError, type Statement } from 'bun:sqlite'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError } from '../error.ts'
import { lockFolder } from './lock.ts'
import { MIGRATIONS } from './migrations.ts'
import type { Account, BackgroundWork, Json, ResponseToSave, Store, StoredKey, StoredResponse } from './store.ts'

/** 3.37 brought STRICT tables. Bun brings a newer one on Linux and Windows, and takes the system's own on macOS. */
const OLDEST_SQLITE = [3, 37]
/** The CLI writes into a running server's file: each waits this long for the other. */
const BUSY_TIMEOUT_MS = 5000
/** A change made by another process is seen within this time; a revoked key must stop working within two seconds. */
const WATCH_INTERVAL_MS = 1000
/** Rows removed in one transaction, so that a purge never stops the event loop for long. */
const PURGE_BATCH = 200

export type SqliteOptions = {
  /** Created, for this user only, when it does not exist. */
  folder: string
  /** A server takes the folder for itself; the command line does not, and may work beside a server. */
  exclusive: boolean
  now?: () => number
}

type Pending = { write: () => void; resolve: () => void; reject: (error: unknown) => void }

/** The store inside: SQLite in one file of the data folder. */
export class SqliteStore implements Store {
  readonly #database: Database
  readonly #lock: { release(): void } | undefined
  readonly #now: () => number
  readonly #statements = new Map<string, Statement>()
  #pending: Pending[] = []
  #watching: ReturnType<typeof setInterval> | undefined

  /** Fails with a plain Error, worded for the operator, when the folder cannot be used. */
  constructor({ folder, exclusive, now = Date.now }: SqliteOptions) {
    this.#now = now
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      this.#lock = exclusive ? lockFolder(folder) : undefined
      this.#database = openDatabase(join(folder, 'sluice.sqlite'))
    } catch (error) {
      this.#lock?.release()
      throw worded(folder, error)
    }
  }

  async accounts(): Promise<Account[]> {
    return this.#all<Account>('SELECT id, name, status, created_at AS createdAt FROM accounts ORDER BY created_at, id')
  }

  async keys(): Promise<StoredKey[]> {
    return this.#all<StoredKey>(`
      SELECT id, account_id AS accountId, kind, hash, prefix, last4, name, created_at AS createdAt, expires_at AS expiresAt,
        revoked_at AS revokedAt, requests_per_minute AS requestsPerMinute
      FROM keys ORDER BY created_at, id`)
  }

  async addAccount(account: Account): Promise<boolean> {
    let added = false
    await this.#commit(() => {
      const { changes } = this.#run(
        'INSERT INTO accounts (id, name, status, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING',
        account.id, account.name, account.status, account.createdAt,
      )
      added = changes > 0
    })
    return added
  }

  async addKey(key: StoredKey): Promise<void> {
    await this.#commit(() => {
      this.#run(
        `INSERT INTO keys (id, account_id, kind, hash, prefix, last4, name, created_at, expires_at, revoked_at, requests_per_minute)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        key.id, key.accountId, key.kind, key.hash, key.prefix, key.last4, key.name, key.createdAt, key.expiresAt, key.revokedAt,
        key.requestsPerMinute,
      )
    })
  }

  async revokeKey(id: string, at: number): Promise<void> {
    await this.#commit(() => this.#run('UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL', at, id))
  }

  async setting(name: string): Promise<string | undefined> {
    return this.#one<{ value: string }>('SELECT value FROM settings WHERE name = ?', name)?.value
  }

  async settleSetting(name: string, value: string): Promise<string> {
    await this.#commit(() => this.#run('INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING', name, value))
    return (await this.setting(name)) ?? value
  }

  async saveResponse(accountId: string, { id, response, inputItems, expiresAt, upstream }: ResponseToSave): Promise<void> {
    const responseText = JSON.stringify(response)
    const inputText = JSON.stringify(inputItems)
    const items = [...inputItems, ...(Array.isArray(response.output) ? response.output : [])].filter(hasOwnId)
    await this.#commit(() => {
      this.#run('DELETE FROM responses WHERE account_id = ? AND id = ?', accountId, id)
      this.#run(
        'INSERT INTO responses (account_id, id, created_at, expires_at, response, input, upstream) VALUES (?, ?, ?, ?, ?, ?, ?)',
        accountId, id, this.#now(), expiresAt, responseText, inputText, upstream === undefined ? null : JSON.stringify(upstream),
      )
      for (const item of items) {
        this.#run(
          'INSERT INTO response_items (account_id, response_id, id, expires_at, item) VALUES (?, ?, ?, ?, ?)',
          accountId, id, item.id, expiresAt, JSON.stringify(item),
        )
      }
    })
  }

  async findResponse(accountId: string, id: string): Promise<StoredResponse | undefined> {
    const row = this.#one<{ response: string; input: string; upstream: string | null; createdAt: number; expiresAt: number }>(
      `SELECT response, input, upstream, created_at AS createdAt, expires_at AS expiresAt FROM responses
       WHERE account_id = ? AND id = ? AND expires_at > ?`,
      accountId, id, this.#now(),
    )
    if (row === undefined) return undefined
    const { response, input, upstream, createdAt, expiresAt } = row
    const work = upstream === null ? {} : { upstream: JSON.parse(upstream) as BackgroundWork }
    return { id, response: JSON.parse(response) as Json, inputItems: JSON.parse(input) as unknown[], createdAt, expiresAt, ...work }
  }

  async findItem(accountId: string, itemId: string): Promise<Json | undefined> {
    const row = this.#one<{ item: string }>(
      'SELECT item FROM response_items WHERE account_id = ? AND id = ? AND expires_at > ? ORDER BY position DESC LIMIT 1',
      accountId, itemId, this.#now(),
    )
    return row === undefined ? undefined : (JSON.parse(row.item) as Json)
  }

  async deleteResponse(accountId: string, id: string): Promise<boolean> {
    let deleted = false
    await this.#commit(() => {
      // What has expired is unknown already: deleting it must answer so, whether or not a purge has been by.
      const { changes } = this.#run('DELETE FROM responses WHERE account_id = ? AND id = ? AND expires_at > ?', accountId, id, this.#now())
      deleted = changes > 0
    })
    return deleted
  }

  async purgeExpired(now: number): Promise<number> {
    for (let purged = 0; ; ) {
      let batch = 0
      await this.#commit(() => {
        batch = this.#all(
          'DELETE FROM responses WHERE position IN (SELECT position FROM responses WHERE expires_at <= ? LIMIT ?) RETURNING position',
          now, PURGE_BATCH,
        ).length
      })
      purged += batch
      if (batch < PURGE_BATCH) return purged
    }
  }

  watch(listener: () => Promise<void>): void {
    let seen = this.#dataVersion()
    let busy = false
    this.#watching = setInterval(async () => {
      if (busy) return
      busy = true
      try {
        const version = this.#dataVersion()
        if (version !== seen) {
          await listener()
          seen = version
        }
      } catch {
        // What is in memory stays in force; the next round tries again.
      } finally {
        busy = false
      }
    }, WATCH_INTERVAL_MS)
    this.#watching.unref()
  }

  async close(): Promise<void> {
    clearInterval(this.#watching)
    this.#commitPending()
    for (const statement of this.#statements.values()) statement.finalize()
    this.#database.close()
    this.#lock?.release()
  }

  /** Changes when, and only when, another connection has committed. */
  #dataVersion(): number {
    return this.#one<{ data_version: number }>('PRAGMA data_version')?.data_version ?? 0
  }

  /**
   * Group commit: what is written in one turn of the event loop is one transaction, one flush of the disk. Nothing waits for a
   * timer, so a single write is committed at once; under load the batches grow by themselves.
   */
  #commit(write: () => unknown): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#pending.length === 0) setImmediate(() => this.#commitPending())
      this.#pending.push({ write, resolve, reject })
    })
  }

  #commitPending(): void {
    const batch = this.#pending
    this.#pending = []
    if (batch.length === 0) return
    try {
      this.#transaction(batch)
    } catch (error) {
      const [only, ...others] = batch
      if (only === undefined || others.length === 0) return only?.reject(asStoreError(error))
      // One bad write must not fail its neighbours: each is tried by itself.
      for (const one of batch) this.#commitAlone(one)
      return
    }
    for (const { resolve } of batch) resolve()
  }

  #commitAlone(one: Pending): void {
    try {
      this.#transaction([one])
      one.resolve()
    } catch (error) {
      one.reject(asStoreError(error))
    }
  }

  #transaction(batch: readonly Pending[]): void {
    this.#database.run('BEGIN IMMEDIATE')
    try {
      for (const { write } of batch) write()
      this.#database.run('COMMIT')
    } catch (error) {
      // A full disk may have rolled back by itself.
      if (this.#database.inTransaction) this.#database.run('ROLLBACK')
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

  #run(sql: string, ...values: Binding[]): { changes: number } {
    return this.#statement(sql).run(...values)
  }

  #all<Row>(sql: string, ...values: Binding[]): Row[] {
    return read(() => this.#statement(sql).all(...values) as Row[])
  }

  #one<Row>(sql: string, ...values: Binding[]): Row | undefined {
    return read(() => (this.#statement(sql).get(...values) ?? undefined) as Row | undefined)
  }
}

/** What the system says names no file, or not the folder that the operator knows; what we say is worded already. */
const worded = (folder: string, error: unknown): unknown =>
  typeof (error as { code?: unknown }).code === 'string' ? new Error(`the data folder ${folder} cannot be used (${(error as Error).message}); it must be a folder that this user may write in`, { cause: error }) : error

type Binding = string | number | null | Uint8Array

function openDatabase(file: string): Database {
  // Created by us first, so that it and the files SQLite puts beside it are readable by this user only.
  closeSync(openSync(file, 'a', 0o600))
  const database = new Database(file)
  try {
    assertVersion(database)
    database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`)
    database.run('PRAGMA journal_mode = WAL')
    // FULL, not NORMAL: NORMAL survives a killed process but a power cut could bring back a revoked key or spent money.
    // Measured on a cloud disk (2026-11): 15 µs per commit with NORMAL, 102 µs with FULL, and group commit divides it.
    database.run('PRAGMA synchronous = FULL')
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
      throw new Error(`${file} was written by a newer Sluice (version ${version} of its tables; this one knows ${MIGRATIONS.length})`)
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

const asStoreError = (error: unknown): unknown =>
  error instanceof SQLiteError ? new GatewayError('store_unavailable', 'The store of this Sluice does not answer; try again.', { cause: error, shouldRetry: true }) : error

/** A reference has the id of the item that it stands for: kept as an item, it would hide the real one. */
const hasOwnId = (item: unknown): item is Json & { id: string } =>
  typeof item === 'object' && item !== null && typeof (item as Json).id === 'string' && (item as Json).type !== 'item_reference'

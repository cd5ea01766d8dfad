import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Durability } from '../../config/terms.ts'
import { type CommitTimings, PEPPER_FILE, type Store } from '../store.ts'
import { DiskSpace, type Reserve } from '../disk-space.ts'
import { AccountTables } from './account-tables.ts'
import { BodyTables } from './body-tables.ts'
import { ChangeTable } from './change-table.ts'
import { Connection, withSpace } from './connection.ts'
import { isCorrupt } from './errors.ts'
import { FileTables } from './file-tables.ts'
import { IssuedIdTable } from './issued-id-table.ts'
import { KeptTable } from './kept-table.ts'
import { IdempotencyTable } from './idempotency-table.ts'
import { LedgerTables } from './ledger-tables.ts'
import { lockFolder } from './lock.ts'
import { PeopleTables } from './people-tables.ts'
import { PredictionTables } from './prediction-tables.ts'
import { ProgressFile } from './progress-file.ts'
import { ReasoningTable } from './reasoning-table.ts'
import { ResponseTables } from './response-tables.ts'
import { Reports } from './reports/reports.ts'
import { SetSettingTable } from './set-setting-table.ts'
import { SettingTable } from './setting-table.ts'
import { shrink } from './shrink.ts'
import { PasswordAttemptTable } from './password-attempt-table.ts'

const NONE: Reserve = { share: 0, bytes: 0 }

/** The poll interval for changes by other processes: a revoked key must stop working within two seconds. */
const WATCH_INTERVAL_MS = 1000

export const DATABASE = 'sluice.sqlite'

type SqliteOptions = {
  /** Created, for this user only, if it does not exist. */
  folder: string
  /** A server locks the folder. The command line does not, and may work beside a server. */
  exclusive: boolean
  /** The failure that what generations leave survives; everything else survives a power cut. Default: `power`. */
  durability?: Durability
  /** Free space that is kept for records and deletions. Default: none. */
  reserve?: Reserve
  now?: () => number
}

/** The embedded store: SQLite in one file of the data folder. */
export class SqliteStore implements Store {
  readonly accounts: AccountTables
  readonly people: PeopleTables
  readonly passwordAttempts: PasswordAttemptTable
  readonly changes: ChangeTable
  readonly settings: SettingTable
  readonly setSettings: SetSettingTable
  readonly responses: ResponseTables
  readonly reasoning: ReasoningTable
  readonly idempotency: IdempotencyTable
  readonly issuedIds: IssuedIdTable
  readonly files: FileTables
  readonly predictions: PredictionTables
  readonly bodies: BodyTables
  readonly kept: KeptTable
  readonly space: DiskSpace
  readonly ledger: LedgerTables
  readonly progress: ProgressFile
  readonly reports: Reports
  readonly isShared = false
  readonly time: () => number = Date.now
  readonly #connection: Connection
  readonly #lock: { release(): void } | undefined
  readonly #listeners: (() => Promise<void>)[] = []
  #isClosed = false
  #closing: Promise<void> | undefined
  #shrinking: Promise<void> | undefined
  #watching: ReturnType<typeof setInterval> | undefined
  /** The version of the file that every listener has processed. */
  #processedVersion: number

  /** Fails with an Error for the operator if the folder cannot be used. */
  constructor({ folder, exclusive, durability = 'power', reserve = NONE, now = Date.now }: SqliteOptions) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      this.space = new DiskSpace({ folder, reserve, freeInDatabase: () => this.#connection.freeBytes() })
      const freeSpace = (): boolean => this.space.giveBack()
      const [database, pepper] = [join(folder, DATABASE), join(folder, PEPPER_FILE)]
      this.#lock = exclusive ? withSpace(() => lockFolder(folder), freeSpace) : undefined
      this.#connection = withSpace(() => new Connection(database, durability, pepper, freeSpace), freeSpace)
      this.people = new PeopleTables(this.#connection)
      this.passwordAttempts = new PasswordAttemptTable(this.#connection)
      this.changes = new ChangeTable(this.#connection)
      this.setSettings = new SetSettingTable(this.#connection)
      this.settings = new SettingTable(this.#connection)
      this.responses = new ResponseTables(this.#connection, now)
      this.reasoning = new ReasoningTable(this.#connection)
      this.idempotency = new IdempotencyTable(this.#connection)
      this.issuedIds = new IssuedIdTable(this.#connection)
      this.files = new FileTables(this.#connection)
      this.predictions = new PredictionTables(this.#connection)
      this.bodies = new BodyTables(this.#connection)
      this.kept = new KeptTable(this.#connection)
      this.progress = new ProgressFile(folder)
      this.ledger = new LedgerTables(this.#connection)
      this.reports = new Reports(this.#connection, this.ledger.rollUps, database)
      this.accounts = new AccountTables(this.#connection, this.ledger)
      this.#processedVersion = this.#connection.dataVersion()
    } catch (error) {
      this.#lock?.release()
      throw folderError(folder, error)
    }
  }

  get timings(): CommitTimings {
    return this.#connection.timings
  }

  /** A file that cannot be written shows when it is: `space` and the ledger know. */
  async outage(): Promise<undefined> {}

  /** Gives space that is free in the database back to the disk. */
  shrink(): Promise<void> {
    this.#shrinking ??= shrink(this.#connection, () => this.#isClosed).finally(() => {
      this.#shrinking = undefined
    })
    return this.#shrinking
  }

  snapshot<T>(read: () => Promise<T>): Promise<T> {
    return this.#connection.longSnapshot(read)
  }

  together<T>(begin: () => T): T {
    return this.#connection.together(begin)
  }

  watch(listener: () => Promise<void>): void {
    this.#listeners.push(listener)
    if (this.#watching !== undefined) return
    let busy = false
    this.#watching = setInterval(async () => {
      if (busy) return
      busy = true
      await this.#notify().catch(() => {
        // The state in memory stays in force until a later round succeeds.
      })
      busy = false
    }, WATCH_INTERVAL_MS)
    this.#watching.unref()
  }

  /** Calls every listener if another process has changed the file. If one fails, all are called again next round. */
  async #notify(): Promise<void> {
    const version = this.#connection.dataVersion()
    if (version === this.#processedVersion) return
    const results = await Promise.allSettled(this.#listeners.map((listener) => listener()))
    if (results.every(({ status }) => status === 'fulfilled')) this.#processedVersion = version
  }

  /** It may be called again: what was closed once stays so, whoever has its numbers and names by then. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#watching)
    await this.reports.close()
    await this.#connection.close()
    this.progress.close()
    this.#lock?.release()
  }
}

/** A database that is corrupt, in words for its operator. */
export const corruptError = (folder: string, error: Error): Error =>
  new Error(`the database ${join(folder, DATABASE)} is corrupt (${error.message}); restore it from a backup`, {
    cause: error,
  })

/** Errors of the system have a code and do not name the folder that the operator configured; ours do. */
function folderError(folder: string, error: unknown): unknown {
  const { code, message } = error as { code?: unknown; message: string }
  if (typeof code !== 'string') return error
  const database = join(folder, DATABASE)
  if (isCorrupt(error)) return corruptError(folder, error as Error)
  if (code.startsWith('SQLITE_BUSY'))
    return new Error(`the database ${database} is locked by another process; try again once that has ended`, {
      cause: error,
    })
  return new Error(
    `cannot use the data folder ${folder} (${message}); it must be a folder that this user can write to`,
    { cause: error },
  )
}

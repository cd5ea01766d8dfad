import { log } from '../../log/log.ts'
import { DiskSpace } from '../disk-space.ts'
import { Messages } from './messages.ts'
import { MOVING } from '../moving/tables.ts'
import type { CommitTimings, Store } from '../store.ts'
import { AccountTables } from './account-tables.ts'
import { ActivityTable } from './activity-table.ts'
import { ChunkedBlobs } from '../chunked-blobs.ts'
import { ChunkTable } from './blob-table.ts'
import { BodyTables } from './body-tables.ts'
import { ChangeTable } from './change-table.ts'
import { changePosition, ChangeWatch } from './change-watch.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { Health } from './health.ts'
import { FileTables } from './file-tables.ts'
import { IdempotencyTable } from './idempotency-table.ts'
import { IssuedIdTable } from './issued-id-table.ts'
import { KeptTable } from './kept-table.ts'
import { LedgerTables } from './ledger-tables.ts'
import { takeTurn } from './locks.ts'
import { isMigrated, migrate } from './migrations.ts'
import { makePartitions } from './partitions.ts'
import { forgetPermits } from './lease-functions.ts'
import { forgetPlaces } from './place-functions.ts'
import { PeopleTables } from './people-tables.ts'
import { PredictionTables } from './prediction-tables.ts'
import { ReasoningTable } from './reasoning-table.ts'
import { ResponseTables } from './response-tables.ts'
import { Processes, type ProcessOptions } from './processes.ts'
import { ProgressTable } from './progress-table.ts'
import { Reports } from './reports/reports.ts'
import { foldRollUps } from './roll-ups.ts'
import { SetSettingTable } from './set-setting-table.ts'
import { SettingTable } from './setting-table.ts'
import { StoreTime } from './store-time.ts'
import { PasswordAttemptTable } from './password-attempt-table.ts'

/** `folder`: the data folder. `pollMs`: see ChangeWatch. `serves`: for a server, which takes part in leases. */
type PostgresOptions = ConnectionOptions & {
  folder?: string
  pollMs?: number
  serves?: ProcessOptions | undefined
  now?: (() => number) | undefined
}

type Parts = {
  watch: ChangeWatch
  processes: Processes | undefined
  folder: string
  time: StoreTime
  now: (() => number) | undefined
}

/** The store of many processes: one PostgreSQL database. */
export class PostgresStore implements Store {
  readonly accounts: AccountTables
  readonly people: PeopleTables
  readonly passwordAttempts: PasswordAttemptTable
  readonly changes: ChangeTable
  readonly settings: SettingTable
  readonly setSettings: SetSettingTable
  readonly bodies: BodyTables
  readonly responses: ResponseTables
  readonly reasoning: ReasoningTable
  readonly idempotency: IdempotencyTable
  readonly issuedIds: IssuedIdTable
  readonly files: FileTables
  readonly blobs: ChunkedBlobs
  readonly predictions: PredictionTables
  readonly kept: KeptTable
  readonly ledger: LedgerTables
  readonly reports: Reports
  readonly isShared = true
  readonly progress: ProgressTable
  readonly space: DiskSpace
  readonly #connection: Connection
  readonly messages: Messages
  readonly #watch: ChangeWatch
  readonly #health: Health
  /** This process among those that serve; the command line is none of them. */
  readonly leases: Processes | undefined
  readonly activities?: ActivityTable
  readonly time: () => number

  private constructor(connection: Connection, { watch, processes, folder, time, now }: Parts) {
    this.#connection = connection
    this.#watch = watch
    this.messages = new Messages(connection, watch)
    this.#health = new Health(connection)
    this.space = new DiskSpace({ folder, reserve: { share: 0, bytes: 0 }, freeInDatabase: () => 0 })
    this.ledger = new LedgerTables(connection)
    this.progress = new ProgressTable(connection)
    this.reports = new Reports(connection)
    this.accounts = new AccountTables(connection, this.ledger)
    this.people = new PeopleTables(connection)
    this.passwordAttempts = new PasswordAttemptTable(connection)
    this.changes = new ChangeTable(connection)
    this.settings = new SettingTable(connection)
    this.setSettings = new SetSettingTable(connection)
    this.bodies = new BodyTables(connection)
    this.responses = new ResponseTables(connection, now ?? time.now)
    this.reasoning = new ReasoningTable(connection)
    this.idempotency = new IdempotencyTable(connection)
    this.issuedIds = new IssuedIdTable(connection)
    this.files = new FileTables(connection)
    this.blobs = new ChunkedBlobs(new ChunkTable(connection))
    this.predictions = new PredictionTables(connection, watch)
    this.kept = new KeptTable(connection)
    this.leases = processes
    this.time = time.now
    if (processes !== undefined) this.activities = new ActivityTable(connection, processes.id)
  }

  /** Brings the schema to this version. Fails with an Error for the operator if the database cannot be used. */
  static async open({ pollMs, serves, folder = '.', now, ...options }: PostgresOptions): Promise<PostgresStore> {
    const connection = new Connection(options)
    if (!(await isMigrated(connection).catch(throwCause))) await migrate(connection.address)
    await makePartitions(connection).catch((error: unknown) => log.warn(`Partitions were not made: ${String(error)}`))
    if (serves !== undefined) await refuseMoving(connection)
    const watch = new ChangeWatch(connection.address, await changePosition(connection), pollMs)
    const time = await StoreTime.read(connection)
    const processes = serves && (await Processes.begin(connection, time, serves))
    return new PostgresStore(connection, { watch, processes, folder, time, now })
  }

  get timings(): CommitTimings {
    return this.#connection.timings
  }

  outage(): Promise<string | undefined> {
    return this.#health.outage()
  }

  /** PostgreSQL gives space back to its disk in its own time; this keeps its tables small. */
  async shrink(): Promise<void> {
    await makePartitions(this.#connection)
    await foldRollUps(this.#connection)
    await forgetPlaces(this.#connection)
    await forgetPermits(this.#connection)
  }

  snapshot<T>(read: () => Promise<T>): Promise<T> {
    return this.#connection.snapshot(read)
  }

  together<T>(begin: () => T): T {
    return this.#connection.together(begin)
  }

  changeTurn(): Promise<() => Promise<void>> {
    return takeTurn(this.#connection.address, async (queries) => this.#watch.reach(await changePosition(queries)))
  }

  watch(listener: () => Promise<void>): void {
    this.#watch.add(listener)
  }

  async close(): Promise<void> {
    this.progress.close()
    await this.#watch.close()
    await this.reports.close()
    // Records have waited by now, and leases are taken over in any case.
    this.#connection.patienceMs = 0
    await this.leases?.end().catch((error: unknown) => log.warn(`Leases go back late: ${String(error)}`))
    await this.#connection.close()
  }
}

/** Operators get the reason for which the database cannot be used, instead of the error that a request would get. */
function throwCause(error: unknown): never {
  throw (error as Error).cause ?? error
}

/** Fails where the store of a data folder is being moved into the database, or where that was broken off. */
async function refuseMoving(connection: Connection): Promise<void> {
  if ((await connection.one('SELECT 1 FROM settings WHERE name = $1', MOVING)) === undefined) return
  await connection.close()
  throw new Error('the move of a data folder into it has not ended: run sluice store migrate again')
}

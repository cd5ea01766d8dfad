import { Database } from 'bun:sqlite'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { MOVING } from './moving/tables.ts'
import { type Address, PostgresClient } from './postgres/client.ts'
import { MIGRATIONS as POSTGRES_STEPS, versionOf } from './postgres/migrations.ts'
import { runningServer } from './sqlite/lock.ts'
import { MIGRATIONS as SQLITE_STEPS } from './sqlite/migrations.ts'
import { DATABASE } from './sqlite/store.ts'

/** A process that serves. `reportedMs`: time since its last heartbeat; `leased`: nano-USD that it may spend. */
export type ServingProcess = {
  id: number
  name: string
  version: string | null
  startedAt: number | null
  reportedMs: number
  leased: bigint
  openGenerations: number
}

/** `schema`: that of the database, and the one of this version of Sluice. `bytes`: of the database, and of files. */
export type StoreStatus = {
  engine: string
  schema: { version: number; known: number }
  bytes: { database: number; files: number }
  processes: ServingProcess[]
  pending: { openGenerations: number; predictions: number; webhooks: number }
  /** A move of a data folder into it has not ended. */
  isMoving: boolean
}

const PENDING = `SELECT (SELECT count(*) FROM open_generations) AS "openGenerations",
  (SELECT count(*) FROM predictions WHERE completed_at IS NULL) AS predictions,
  (SELECT count(*) FROM webhook_deliveries) AS webhooks`

const NOTHING = { openGenerations: 0, predictions: 0, webhooks: 0 }

/** The status of an embedded store, also beside its server. */
export function sqliteStatus(folder: string): StoreStatus {
  const database = new Database(join(folder, DATABASE), { readonly: true })
  try {
    const { user_version: version } = database.query('PRAGMA user_version').get() as { user_version: number }
    const { sqlite } = database.query('SELECT sqlite_version() AS sqlite').get() as { sqlite: string }
    const pending = version === 0 ? NOTHING : (database.query(PENDING).get() as StoreStatus['pending'])
    const pid = runningServer(folder)
    const server = { name: 'server', version: null, startedAt: null, reportedMs: 0, leased: 0n }
    const processes = pid === undefined ? [] : [{ id: pid, ...server, openGenerations: pending.openGenerations }]
    return {
      engine: `SQLite ${sqlite}`,
      schema: { version, known: SQLITE_STEPS.length },
      bytes: {
        database: sizeOf(join(folder, DATABASE)) + sizeOf(join(folder, `${DATABASE}-wal`)),
        files: sizeOfAll(join(folder, 'files')),
      },
      processes,
      pending,
      isMoving: false,
    }
  } finally {
    database.close()
  }
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

function sizeOfAll(folder: string): number {
  if (!existsSync(folder)) return 0
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + sizeOf(join(parentPath, name)), 0)
}

const PROCESSES = `
  SELECT id, name, version, floor(extract(epoch FROM started_at) * 1000)::bigint AS "startedAt",
    floor(extract(epoch FROM clock_timestamp() - heartbeat_at) * 1000)::bigint AS "reportedMs",
    (SELECT coalesce(sum(balance), 0)::text FROM book_balances JOIN book_accounts ON book_accounts.id = account
     WHERE shard = p.id AND kind IN ('credit', 'bonus')) AS leased,
    (SELECT count(*) FROM open_generations WHERE process = p.id) AS "openGenerations"
  FROM processes AS p WHERE ended_at IS NULL ORDER BY id`

/** The status of a database of PostgreSQL, in which nothing is made or changed. */
export async function postgresStatus(address: Address): Promise<StoreStatus> {
  const client = await PostgresClient.open(address)
  try {
    const { engine, bytes } = (await client.one<{ engine: string; bytes: number }>(
      `SELECT current_setting('server_version') AS engine, pg_database_size(current_database()) AS bytes`,
    ))!
    const hasTables = (await client.one("SELECT 1 WHERE to_regclass('schema_versions') IS NOT NULL")) !== undefined
    const version = hasTables ? (await versionOf(client)).version : 0
    const processes =
      version === 0 ? [] : await client.all<Omit<ServingProcess, 'leased'> & { leased: string }>(PROCESSES)
    return {
      engine: `PostgreSQL ${engine.split(' ')[0]}`,
      schema: { version, known: POSTGRES_STEPS.length },
      bytes: { database: bytes, files: 0 },
      processes: processes.map((one) => ({ ...one, leased: BigInt(one.leased) })),
      pending: version === 0 ? NOTHING : (await client.one<StoreStatus['pending']>(PENDING))!,
      isMoving: version > 0 && (await client.one('SELECT 1 FROM settings WHERE name = $1', MOVING)) !== undefined,
    }
  } finally {
    await client.close()
  }
}

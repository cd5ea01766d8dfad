import { ACCOUNTS } from './account-schema.ts'
import { BLOBS } from './blob-table.ts'
import { BODIES } from './body-tables.ts'
import { CARRIED } from './carried-tables.ts'
import { ACTIVITIES } from './activity-table.ts'
import { ADDED_COLUMNS } from './added-columns.ts'
import { type Address, PostgresClient, type Queries } from './client.ts'
import { CLAIMS } from './idempotency-claims.ts'
import { KEPT } from './kept-schema.ts'
import { LEASE_FUNCTIONS } from './lease-functions.ts'
import { LEDGER, ROLL_UPS } from './ledger-schema.ts'
import { PREDICTION_FUNCTIONS } from './prediction-functions.ts'
import { PEOPLE } from './people-schema.ts'
import { PLACES } from './place-functions.ts'
import { PROCESSES } from './process-schema.ts'
import { PROGRESS } from './progress-table.ts'
import { SETTINGS } from './setting-schema.ts'
import { PASSWORD_ATTEMPTS } from './password-attempt-table.ts'

/** `oldest`: the first version that still works with the tables after this step. */
type Step = { sql: string; oldest: number }

/**
 * Schema migrations, append-only: step N takes a database from version N-1 to N. Versions N and N+1 of Sluice run side
 * by side during a rolling upgrade, so that a step may add what the version before does not know, and what it needs is
 * removed one version later.
 */
export const MIGRATIONS: readonly Step[] = [
  {
    sql: [
      PROCESSES,
      ACCOUNTS,
      PEOPLE,
      PASSWORD_ATTEMPTS,
      SETTINGS,
      KEPT,
      LEDGER,
      ROLL_UPS,
      CARRIED,
      PROGRESS,
      LEASE_FUNCTIONS,
      PLACES,
      PREDICTION_FUNCTIONS,
      BODIES,
      BLOBS,
      CLAIMS,
      ACTIVITIES,
    ].join(''),
    oldest: 1,
  },
  { sql: ADDED_COLUMNS, oldest: 1 },
  {
    // A page of jobs looks for the webhook call of each.
    sql: 'CREATE INDEX webhook_deliveries_of_prediction ON webhook_deliveries (prediction_id);\n',
    oldest: 1,
  },
]

/** The advisory lock of migrations, any constant. */
const LOCK = 7_158_420_331

/**
 * Brings the schema to this version, one process at a time; a newer one stays as it is. Fails with an Error where that
 * does not work with this version any more.
 */
export async function migrate(address: Address): Promise<void> {
  const client = await PostgresClient.open({ ...address, statementMs: MIGRATION_MS })
  try {
    await client.script(`SET lock_timeout = 0; SELECT pg_advisory_lock(${LOCK})`)
    await client.script(
      `CREATE TABLE IF NOT EXISTS schema_versions (
         version integer PRIMARY KEY, oldest integer NOT NULL, at timestamptz NOT NULL)`,
    )
    const { version, oldest } = await versionOf(client)
    if (oldest > MIGRATIONS.length)
      throw new Error(
        `its tables are those of a newer version of Sluice (schema ${version}), and work with schema ${oldest} and ` +
          `later; this one has ${MIGRATIONS.length}`,
      )
    for (const [index, step] of MIGRATIONS.entries()) {
      if (index < version) continue
      const row = `${index + 1}, ${step.oldest}, now()`
      await client.script(`BEGIN; ${step.sql}; INSERT INTO schema_versions VALUES (${row}); COMMIT`)
    }
  } finally {
    await client.close()
  }
}

const MIGRATION_MS = 3_600_000

/** True where the schema needs no step to work with this version: a start then takes neither lock nor connection. */
export async function isMigrated(queries: Queries): Promise<boolean> {
  const row = await queries.one<{ exists: boolean }>(`SELECT to_regclass('schema_versions') IS NOT NULL AS exists`)
  if (row?.exists !== true) return false
  const { version, oldest } = await versionOf(queries)
  return version >= MIGRATIONS.length && oldest <= MIGRATIONS.length
}

/** The version of the schema, which is the number of steps that were made, and the oldest that works with it. */
export async function versionOf(client: Queries): Promise<{ version: number; oldest: number }> {
  const row = await client.one<{ version: number; oldest: number }>(
    'SELECT coalesce(max(version), 0) AS version, coalesce(max(oldest), 0) AS oldest FROM schema_versions',
  )
  return row!
}

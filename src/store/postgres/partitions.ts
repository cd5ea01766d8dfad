import { firstIdAt } from '../generation-ids.ts'
import type { Queries } from './client.ts'
import type { Connection } from './connection.ts'

/** Tables that are partitioned by the month in which their ids begin. */
const PARTITIONED = ['generations', 'transfers']
/** Partitions are made for this month and so many later ones. */
const MONTHS_AHEAD = 2
/** Partitions are made for at most so many earlier months. */
const MOST_MONTHS_BEFORE = 60

/** Months since the year 0, in UTC. */
const monthOf = (at: number): number => new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth()

export const startOfMonth = (month: number): number => Date.UTC(Math.floor(month / 12), month % 12)

/** The first id of a month, and that of the next one. */
const idsOf = (month: number): [string, string] => [firstIdAt(startOfMonth(month)), firstIdAt(startOfMonth(month + 1))]

/** The advisory lock under which partitions are made, any constant. */
const LOCK = 7_158_420_337

export const partitionName = (table: string, month: number): string =>
  `${table}_${Math.floor(month / 12)}_${String((month % 12) + 1).padStart(2, '0')}`

/**
 * Makes the partitions of this month and the next ones, whichever process comes first. Where that fails, rows go to the
 * partition for all others, so that nothing depends on it. `isUsed`: an earlier month, whose ids are in [`from`, `to`),
 * has one too.
 */
export async function makePartitions(
  connection: Connection,
  isUsed: (from: string, to: string) => boolean = () => false,
): Promise<void> {
  const { now } = (await connection.one<{ now: number }>(
    'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now',
  ))!
  const thisMonth = monthOf(now)
  const made = new Set(await partitions(connection))
  for (let month = thisMonth - MOST_MONTHS_BEFORE; month <= thisMonth + MONTHS_AHEAD; month++)
    if (month >= thisMonth || isUsed(...idsOf(month)))
      for (const table of PARTITIONED)
        if (!made.has(partitionName(table, month))) await makePartition(connection, table, month)
}

async function makePartition(connection: Connection, table: string, month: number): Promise<void> {
  const name = partitionName(table, month)
  const [from, to] = idsOf(month)
  await connection.transaction(async (transaction) => {
    await transaction.run(`SELECT pg_advisory_xact_lock(${LOCK})`)
    if ((await partitions(transaction)).includes(name)) return
    // Attaching holds up neither readers nor writers of other partitions; making it in place would.
    await transaction.run(`SET LOCAL lock_timeout = '1s'`)
    await transaction.run(`CREATE TABLE ${name} (LIKE ${table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`)
    await transaction.run(`ALTER TABLE ${table} ATTACH PARTITION ${name} FOR VALUES FROM ('${from}') TO ('${to}')`)
  })
}

/** Their names. Read from the catalogue: `to_regclass` may not see yet what another process has just made. */
const partitions = async (queries: Queries): Promise<string[]> => {
  const rows = await queries.all<{ name: string }>(
    `SELECT relname::text AS name FROM pg_class
     WHERE relname ~ '^(${PARTITIONED.join('|')})_\\d{4}_\\d{2}$' AND pg_table_is_visible(oid)`,
  )
  return rows.map(({ name }) => name)
}

/** The months that have a partition, the first one first. */
export async function partitionedMonths(connection: Connection): Promise<number[]> {
  const rows = await connection.all<{ year: number; month: number }>(
    `SELECT DISTINCT substring(relname FROM '_(\\d{4})_')::integer AS year, right(relname, 2)::integer AS month
     FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
     WHERE inhparent IN ('generations'::regclass, 'transfers'::regclass) AND relname ~ '_\\d{4}_\\d{2}$'
     ORDER BY 1, 2`,
  )
  return rows.map(({ year, month }) => year * 12 + month - 1)
}

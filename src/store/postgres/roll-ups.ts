import { SPEED_SUMS, USAGE_SUMS } from './closing-statement.ts'
import type { Connection } from './connection.ts'

/** Hours that may still get many generations, whose rows stay with the process that writes them. */
const CURRENT_HOURS = 2
/** Rows that one statement takes. */
const BATCH = 1_000

const HOURS = [
  { table: 'usage_hours', key: ['hour', 'account', 'key', 'model', 'provider', 'ending'], sums: USAGE_SUMS },
  { table: 'speed_hours', key: ['hour', 'provider', 'model', 'bucket'], sums: SPEED_SUMS },
] as const

/** Moves a batch of rows of processes to the common shard. `$1`: the hour before which they are old. */
const fold = ({ table, key, sums }: (typeof HOURS)[number]): string => `
  WITH old AS (
    DELETE FROM ${table} WHERE shard <> 0 AND (${key.join(', ')}, shard) IN (
      SELECT ${key.join(', ')}, shard FROM ${table} WHERE shard <> 0 AND hour < $1 ORDER BY hour LIMIT ${BATCH})
    RETURNING *
  ), folded AS (
    INSERT INTO ${table} (${key.join(', ')}, shard, ${sums.join(', ')})
    SELECT ${key.join(', ')}, 0, ${sums.map((name) => `sum(${name})::bigint`).join(', ')}
    FROM old GROUP BY ${key.join(', ')} ORDER BY ${key.join(', ')}
    ON CONFLICT (${key.join(', ')}, shard)
      DO UPDATE SET ${sums.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(', ')}
  )
  SELECT count(*) AS rows FROM old`

/** Joins what processes added to the sums of past hours, so that their number does not grow with that of starts. */
export async function foldRollUps(connection: Connection): Promise<void> {
  for (const one of HOURS) {
    const sql = fold(one)
    for (let rows: number = BATCH; rows === BATCH; )
      rows = await connection.transaction(async (transaction) => {
        const row = await transaction.one<{ before: number }>(
          `SELECT floor(extract(epoch FROM now()) / 3600)::bigint - ${CURRENT_HOURS} AS before
           WHERE pg_try_advisory_xact_lock(${LOCK})`,
        )
        if (row === undefined) return 0
        return (await transaction.one<{ rows: number }>(sql, row.before))!.rows
      })
  }
}

/** The advisory lock of the process that does it, any constant. */
const LOCK = 7_158_420_334

import type { Queries } from './client.ts'
import { BATCH_ROWS, type Connection } from './connection.ts'

/** Bytes removed by one transaction, unless a single row has more. */
const STEP_BYTES = 16 * 2 ** 20

/**
 * Removes rows in one transaction after another, each of few rows and bytes. Those that another process removes at the
 * same time are left to it. `where`: the condition of rows, with `$1`; `bytes`: the expression for the size of a row.
 * `removed`: called in the transaction with the keys. Returns the number of rows.
 */
export async function removeInSteps(
  connection: Connection,
  { table, key, where, bytes = 'bytes' }: { table: string; key: string; where: string; bytes?: string },
  value: number,
  removed?: (transaction: Queries, keys: readonly string[]) => Promise<void>,
): Promise<number> {
  for (let total = 0; ; ) {
    const found = await connection.transaction(async (transaction) => {
      const rows = await transaction.all<{ key: string }>(
        `WITH oldest AS (
           SELECT ${key} AS key, sum(${bytes}) OVER (ORDER BY ${key}) - ${bytes} AS before FROM (
             SELECT * FROM ${table} WHERE ${where} LIMIT ${BATCH_ROWS} FOR UPDATE SKIP LOCKED) AS locked
         )
         DELETE FROM ${table} WHERE ${key} IN (SELECT key FROM oldest WHERE before <= ${STEP_BYTES})
         RETURNING ${key}::text AS key`,
        value,
      )
      const keys = rows.map((row) => row.key)
      if (keys.length > 0) await removed?.(transaction, keys)
      return keys.length
    })
    total += found
    if (found === 0) return total
  }
}

/** Removes the rows of a table that have expired. */
export const removeExpired = (
  connection: Connection,
  table: 'responses' | 'reasoning' | 'issued_ids' | 'idempotent_answers',
  now: number,
  bytes = 'bytes',
): Promise<number> => removeInSteps(connection, { table, key: 'position', where: 'expires_at <= $1', bytes }, now)

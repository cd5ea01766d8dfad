import { BATCH_ROWS } from './batch-rows.ts'
import type { Connection } from './connection.ts'

/** Bytes removed by one transaction, unless a single row has more: SQLite reads what it frees. */
const STEP_BYTES = 4 * 2 ** 20

type Removable<Key> = { key: Key; bytes: number }

/**
 * Removes rows in one transaction after another, each of few rows and bytes, so that none blocks the event loop for
 * long. `find`: up to BATCH_ROWS of those that remain. Returns their number.
 */
export async function removeInSteps<Key>(
  connection: Connection,
  find: () => Removable<Key>[],
  remove: (key: Key) => unknown,
): Promise<number> {
  for (let removed = 0; ; ) {
    let isLast = false
    await connection.commit(() => {
      const rows = find()
      let [count, bytes] = [0, 0]
      while (count < rows.length && (count === 0 || bytes + rows[count]!.bytes <= STEP_BYTES)) {
        bytes += rows[count]!.bytes
        remove(rows[count++]!.key)
      }
      removed += count
      isLast = count === rows.length && count < BATCH_ROWS
    })
    if (isLast) return removed
  }
}

/** Removes the rows of a table that have expired. `bytes`: the expression for the size of a row. */
export const removeExpired = (
  connection: Connection,
  table: 'responses' | 'reasoning' | 'issued_ids' | 'idempotent_answers' | 'bodies',
  now: number,
  bytes = 'bytes',
): Promise<number> =>
  removeInSteps<number>(
    connection,
    () =>
      connection.all(
        `SELECT position AS key, ${bytes} AS bytes FROM ${table} WHERE expires_at <= ? LIMIT ?`,
        now,
        BATCH_ROWS,
      ),
    (position) => connection.run(`DELETE FROM ${table} WHERE position = ?`, position),
  )

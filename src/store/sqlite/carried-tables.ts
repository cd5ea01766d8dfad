import type { Carried } from '../ledger.ts'
import { type ReadTransfer, transferOf } from '../transfer-rows.ts'
import { BATCH_ROWS } from './batch-rows.ts'
import type { Connection } from './connection.ts'
import { firstIdAt } from './reports/recount.ts'

/** The sums of what was removed with old records, as `Carried` has them. All texts are ids in names. */
export const CARRIED = `
  CREATE TABLE carried (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    before INTEGER NOT NULL
  ) STRICT;
  INSERT INTO carried (id, before) VALUES (1, 0);

  CREATE TABLE carried_transfers (
    kind TEXT NOT NULL,
    debit INTEGER NOT NULL,
    credit INTEGER NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    PRIMARY KEY (kind, debit, credit)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE carried_usage (
    account INTEGER NOT NULL,
    key INTEGER NOT NULL,
    bill INTEGER NOT NULL,
    flows INTEGER NOT NULL,
    PRIMARY KEY (account, key)
  ) STRICT, WITHOUT ROWID;
`

/** Pause between two batches, in which requests are served. */
const PAUSE_MS = 10

/** Removes old records a few at a time, and adds them to the sums in the same transaction. */
export async function removeRecords(connection: Connection, before: number): Promise<void> {
  const end = firstIdAt(before)
  const isLeft = ['generations WHERE id', `transfers WHERE reference >= x'' AND reference`].some(
    (rows) => connection.one(`SELECT 1 FROM ${rows} < ? LIMIT 1`, end) !== undefined,
  )
  if (!isLeft) return
  await connection.commitUnflushed(() => connection.run('UPDATE carried SET before = max(before, ?)', before))
  for (let isLast = false; !isLast; await Bun.sleep(PAUSE_MS))
    await connection.commitUnflushed(() => {
      const next = connection.one<{ id: Uint8Array }>(
        `SELECT id FROM generations WHERE id < ? ORDER BY id LIMIT 1 OFFSET ${BATCH_ROWS}`,
        end,
      )
      removeBefore(connection, next?.id ?? end)
      isLast = next === undefined
    })
}

/** Within a transaction. */
function removeBefore(connection: Connection, end: Uint8Array): void {
  connection.run(
    `INSERT INTO carried_transfers (kind, debit, credit, amount)
     SELECT kind, debit, credit, sum(amount) FROM transfers WHERE reference >= x'' AND reference < ? GROUP BY 1, 2, 3
     ON CONFLICT (kind, debit, credit) DO UPDATE SET amount = amount + excluded.amount`,
    end,
  )
  connection.run(
    `INSERT INTO carried_usage (account, key, bill, flows)
     SELECT account, key, sum(bill), sum(flows) FROM generations WHERE id < ? GROUP BY 1, 2
     ON CONFLICT (account, key) DO UPDATE SET bill = bill + excluded.bill, flows = flows + excluded.flows`,
    end,
  )
  connection.run(`DELETE FROM transfers WHERE reference >= x'' AND reference < ?`, end)
  connection.run('DELETE FROM generations WHERE id < ?', end)
}

export const carriedBefore = (connection: Connection): number =>
  connection.one<{ before: number }>('SELECT before FROM carried')!.before

export const readCarried = (connection: Connection): Carried => ({
  before: carriedBefore(connection),
  transfers: connection
    .all<ReadTransfer>(
      `SELECT t.kind, d.kind AS debitKind, d.owner AS debitOwner, c.kind AS creditKind, c.owner AS creditOwner,
         CAST(t.amount AS TEXT) AS amount
       FROM carried_transfers AS t
         JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit`,
    )
    .map(transferOf),
  usage: connection
    .all<{ accountId: string; keyId: string; bill: string; flows: string }>(
      `SELECT a.text AS accountId, k.text AS keyId, CAST(u.bill AS TEXT) AS bill, CAST(u.flows AS TEXT) AS flows
       FROM carried_usage AS u JOIN names AS a ON a.id = u.account JOIN names AS k ON k.id = u.key`,
    )
    .map((row) => ({ ...row, bill: BigInt(row.bill), flows: BigInt(row.flows) })),
})

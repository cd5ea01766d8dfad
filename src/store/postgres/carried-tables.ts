import type { Carried } from '../ledger.ts'
import { type ReadTransfer, transferOf } from '../transfer-rows.ts'
import { firstIdAt } from '../generation-ids.ts'
import type { Queries } from './client.ts'
import type { Connection } from './connection.ts'
import { partitionName, partitionedMonths, startOfMonth } from './partitions.ts'

/** The sums of what was removed with old records, as `Carried` has them. */
export const CARRIED = `
  CREATE TABLE carried (
    id integer PRIMARY KEY CHECK (id = 1),
    before bigint NOT NULL
  );

  CREATE TABLE carried_transfers (
    debit bigint NOT NULL,
    credit bigint NOT NULL,
    amount bigint NOT NULL CHECK (amount > 0),
    kind text COLLATE "C" NOT NULL,
    PRIMARY KEY (debit, credit, kind)
  );

  CREATE TABLE carried_usage (
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    bill bigint NOT NULL,
    flows bigint NOT NULL,
    PRIMARY KEY (account, key)
  );
`

const addTransfers = (from: string): string => `
  INSERT INTO carried_transfers AS c (kind, debit, credit, amount)
  SELECT kind, debit, credit, sum(amount)::bigint FROM ${from} GROUP BY kind, debit, credit
  ON CONFLICT (debit, credit, kind) DO UPDATE SET amount = c.amount + excluded.amount`

const addUsage = (from: string): string => `
  INSERT INTO carried_usage AS c (account, key, bill, flows)
  SELECT account, key, sum(bill)::bigint, sum(flows)::bigint FROM ${from} GROUP BY account, key
  ON CONFLICT (account, key) DO UPDATE SET bill = c.bill + excluded.bill, flows = c.flows + excluded.flows`

/** Records that one statement removes of those that are in no month's partition. */
const BATCH = 1_000
/** The longest that others wait for what is removed. */
const LOCK_MS = 500
const DAY_MS = 86_400_000

/** Drops the partitions of old months, and removes what was older than the partitions were when it was written. */
export async function removeRecords(connection: Connection, before: number): Promise<void> {
  for (const month of await partitionedMonths(connection))
    if (startOfMonth(month + 1) <= before)
      await connection.transaction((transaction) => removeMonth(transaction, month))
  for (let isLast = false; !isLast; )
    isLast = await connection.transaction(async (transaction) => {
      await lockCarried(transaction, before)
      return (await transaction.one<{ isLast: boolean }>(REMOVE_OTHER, firstIdAt(before)))!.isLast
    })
}

/** Those who read everything, such as an audit, and this transaction wait for the end of each other. */
async function lockCarried(transaction: Queries, before: number): Promise<void> {
  await transaction.run(`SET LOCAL lock_timeout = ${LOCK_MS}`)
  await transaction.run('LOCK TABLE carried IN ACCESS EXCLUSIVE MODE')
  await transaction.run(
    `INSERT INTO carried AS c (id, before) VALUES (1, $1)
     ON CONFLICT (id) DO UPDATE SET before = greatest(c.before, excluded.before)`,
    before,
  )
}

async function removeMonth(transaction: Queries, month: number): Promise<void> {
  const [start, end] = [startOfMonth(month), startOfMonth(month + 1)]
  await lockCarried(transaction, end)
  const tables = [
    { table: partitionName('generations', month), add: addUsage },
    { table: partitionName('transfers', month), add: addTransfers },
  ]
  for (const { table, add } of tables) {
    const known = await transaction.one('SELECT 1 WHERE to_regclass($1) IS NOT NULL', table)
    if (known === undefined) continue
    await transaction.run(`LOCK TABLE ${table} IN SHARE MODE`)
    // No statement takes so long that it is ended.
    for (let day = start; day < end; day += DAY_MS)
      await transaction.run(
        add(`${table} WHERE id >= $1::uuid AND id < $2::uuid`),
        ...[firstIdAt(day), firstIdAt(Math.min(day + DAY_MS, end))],
      )
  }
  for (const { table } of tables) await transaction.run(`DROP TABLE IF EXISTS ${table}`)
}

/** `$1`: the first id that is kept. One statement, so that others see all of it or nothing. */
const REMOVE_OTHER = `
  WITH bound AS MATERIALIZED (
    SELECT coalesce((SELECT id FROM generations_other WHERE id < $1::uuid ORDER BY id OFFSET ${BATCH} LIMIT 1),
      $1::uuid) AS id
  ), records AS (
    DELETE FROM generations_other WHERE id < (SELECT id FROM bound) RETURNING account, key, bill, flows
  ), posted AS (
    DELETE FROM transfers_other WHERE id < (SELECT id FROM bound) RETURNING kind, debit, credit, amount
  ), usage AS (${addUsage('records')}
  ), moved AS (${addTransfers('posted')}
  )
  SELECT id = $1::uuid AS "isLast" FROM bound`

export const carriedBefore = async (queries: Pick<Queries, 'one'>): Promise<number> =>
  (await queries.one<{ before: number }>('SELECT before FROM carried'))?.before ?? 0

export async function readCarried(queries: Queries): Promise<Carried> {
  const transfers = await queries.all<ReadTransfer>(
    `SELECT t.kind, d.kind AS "debitKind", d.owner AS "debitOwner", c.kind AS "creditKind", c.owner AS "creditOwner",
       t.amount::text AS amount
     FROM carried_transfers AS t
       JOIN book_accounts AS d ON d.id = t.debit JOIN book_accounts AS c ON c.id = t.credit`,
  )
  const usage = await queries.all<{ accountId: string; keyId: string; bill: string; flows: string }>(
    'SELECT account AS "accountId", key AS "keyId", bill::text AS bill, flows::text AS flows FROM carried_usage',
  )
  return {
    before: await carriedBefore(queries),
    transfers: transfers.map(transferOf),
    usage: usage.map((row) => ({ ...row, bill: BigInt(row.bill), flows: BigInt(row.flows) })),
  }
}

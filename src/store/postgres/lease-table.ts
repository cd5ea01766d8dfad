import type {
  BudgetLease,
  BudgetTerms,
  FundsLease,
  LeaseKind,
  PermitLease,
  SlotLease,
  ReturnedLeases,
  Wanted,
  WantedPermits,
  WantedSlots,
  WindowLease,
  WindowTerms,
} from '../leases.ts'
import type { OpenGeneration } from '../ledger.ts'
import type { Queries } from './client.ts'
import type { Connection } from './connection.ts'
import { isUnwritten } from './errors.ts'
import { PERMIT_MS } from './lease-functions.ts'
import { idOfUuid } from './generation-rows.ts'
import { jsonOf } from './values.ts'

/** The leases of one process. Amounts arrive as text, since they may be larger than a double can count. */
export class LeaseTable {
  readonly #connection: Connection
  readonly #process: number

  constructor(connection: Connection, process: number) {
    this.#connection = connection
    this.#process = process
  }

  async funds(accountId: string, { least, most }: Wanted): Promise<FundsLease> {
    const row = await this.#connection.one<Record<keyof FundsLease, string>>(
      `SELECT credit::text AS credit, bonus::text AS bonus, elsewhere::text AS elsewhere
       FROM lease_funds($1, $2, $3, $4)`,
      ...[this.#process, accountId, least, most],
    )
    return { credit: BigInt(row!.credit), bonus: BigInt(row!.bonus), elsewhere: BigInt(row!.elsewhere) }
  }

  async windows(
    accountId: string,
    terms: readonly WindowTerms[],
    now: number,
    { least, most }: Wanted,
  ): Promise<WindowLease[]> {
    const rows = await this.#connection.all<WindowRow>(
      `SELECT name AS window, started_at AS "startedAt", ends_at AS "endsAt", granted::text AS granted,
         elsewhere::text AS elsewhere, free::text AS free
       FROM lease_windows($1, $2, $3, $4, $5, $6)`,
      ...[this.#process, accountId, termsText(terms), now, least, most],
    )
    return rows.map((row) => ({
      ...row,
      granted: BigInt(row.granted),
      elsewhere: BigInt(row.elsewhere),
      free: BigInt(row.free),
    }))
  }

  async budget({ keyId, since, limit }: BudgetTerms, { least, most }: Wanted): Promise<BudgetLease> {
    const row = await this.#connection.one<{ since: number; granted: string; elsewhere: string }>(
      `SELECT since, granted::text AS granted, elsewhere::text AS elsewhere
       FROM lease_budget($1, $2, $3, $4, $5, $6)`,
      ...[this.#process, keyId, since, limit, least, most],
    )
    return { since: row!.since, granted: BigInt(row!.granted), elsewhere: BigInt(row!.elsewhere) }
  }

  async permits({ keyId, endpoint, limit, least, most, spent, unused }: WantedPermits): Promise<PermitLease> {
    const row = await this.#connection.one<Omit<PermitLease, 'usableMs'>>(
      'SELECT granted, given_at AS at, wait_ms AS "waitMs" FROM lease_permits($1, $2, $3, $4, $5, $6, $7, $8)',
      ...[this.#process, keyId, endpoint, limit, least, most, spent, unused.length === 0 ? null : jsonOf(unused)],
    )
    return { ...row!, usableMs: PERMIT_MS }
  }

  async slots({ owner, call, held, limit, least, most }: WantedSlots): Promise<SlotLease> {
    const row = await this.#connection.one<SlotLease>(
      'SELECT granted, elsewhere FROM lease_places($1, $2, $3, $4, $5, $6, $7)',
      ...[this.#process, owner, call, held, limit, least, most],
    )
    return row!
  }

  async openElsewhere(before: string, limit: number, accountIds?: readonly string[]): Promise<OpenGeneration[]> {
    const rows = await this.#connection.all<OpenGeneration>(
      `${OPEN_ELSEWHERE} AND id < $2::uuid
         AND ($3::text IS NULL OR account_id IN (SELECT jsonb_array_elements_text($3::text::jsonb)))
       ORDER BY id DESC LIMIT $4`,
      ...[this.#process, before, accountIds === undefined ? null : jsonOf(accountIds), limit],
    )
    return rows.map((row) => ({ ...row, id: idOfUuid(row.id) }))
  }

  openOne(id: string): Promise<OpenGeneration | undefined> {
    return this.#connection.one<OpenGeneration>(`${OPEN_ELSEWHERE} AND id = $2::uuid`, this.#process, id)
  }

  async giveBack(returned: ReturnedLeases): Promise<boolean> {
    try {
      await this.#connection.commit((transaction) => returnLeases(transaction, this.#process, returned))
      return true
    } catch (error) {
      if (isUnwritten(error)) return false
      throw error
    }
  }

  giveBackAll(kind: LeaseKind, owner: string): Promise<void> {
    return this.#connection.commit(async (transaction) => {
      await transaction.run(LOCK_SHARED[kind], owner)
      for (const sql of MOVE_ALL[kind]) await transaction.run(sql, this.#process, owner)
    })
  }
}

/** Statements that lock what all share of an owner, as a lease does first: they wait for the end of one under way. */
const LOCK_SHARED: Record<LeaseKind, string> = {
  funds: `SELECT FROM book_balances AS b JOIN book_accounts AS a ON a.id = b.account
    WHERE b.shard = 0 AND a.owner = $1 AND a.kind IN ('bonus', 'credit') ORDER BY a.kind FOR UPDATE OF b`,
  windows: 'SELECT FROM quota_windows WHERE account_id = $1 AND shard = 0 ORDER BY name FOR UPDATE',
  budget: 'SELECT FROM key_spends WHERE key_id = $1 AND shard = 0 FOR UPDATE',
}

/**
 * Statements that move all that a process ($1) has leased of an owner ($2) to what all share. They wait for the end of
 * one that moves some of it and whose acknowledgement was lost.
 */
const MOVE_ALL: Record<LeaseKind, readonly string[]> = {
  funds: [
    `WITH own AS MATERIALIZED (
       SELECT b.account, b.balance FROM book_balances AS b JOIN book_accounts AS a ON a.id = b.account
       WHERE b.shard = $1 AND a.owner = $2 AND a.kind IN ('bonus', 'credit') ORDER BY a.kind FOR UPDATE OF b)
     SELECT move_balance(account, $1, 0, balance) FROM own WHERE balance > 0`,
  ],
  windows: [
    `WITH own AS MATERIALIZED (
       SELECT name, started_at, used FROM quota_windows WHERE account_id = $2 AND shard = $1 ORDER BY name FOR UPDATE)
     UPDATE quota_windows AS w SET used = w.used + own.used FROM own
     WHERE own.used < 0 AND w.account_id = $2 AND w.shard = 0 AND w.name = own.name AND w.started_at = own.started_at`,
    'UPDATE quota_windows SET used = 0 WHERE account_id = $2 AND shard = $1 AND used < 0',
  ],
  budget: [
    `WITH own AS MATERIALIZED (SELECT since, spent FROM key_spends WHERE key_id = $2 AND shard = $1 FOR UPDATE)
     UPDATE key_spends AS s SET spent = s.spent + own.spent FROM own
     WHERE own.spent < 0 AND s.key_id = $2 AND s.shard = 0 AND s.since = own.since`,
    'UPDATE key_spends SET spent = 0 WHERE key_id = $2 AND shard = $1 AND spent < 0',
  ],
}

const OPEN_ELSEWHERE = `SELECT id, account_id AS "accountId", state FROM open_generations
  WHERE process IS DISTINCT FROM $1`

type WindowRow = Record<'granted' | 'elsewhere' | 'free', string> & Omit<WindowLease, 'granted' | 'elsewhere' | 'free'>

const termsText = (terms: readonly WindowTerms[]): string =>
  JSON.stringify(
    terms.map(({ window, limit, startsAt, endsAt }) => ({
      name: window,
      most: String(limit),
      starts_at: startsAt,
      ends_at: endsAt,
    })),
  )

/**
 * Moves leases from the shard of a process to what all share. As in a lease, the rows of the latter come first: each
 * would hold the row that the other one waits for.
 */
async function returnLeases(
  transaction: Queries,
  process: number,
  { funds, windows, budgets }: ReturnedLeases,
): Promise<void> {
  for (const { accountId, ...amounts } of funds)
    for (const kind of ['bonus', 'credit'] as const)
      if (amounts[kind] !== 0n)
        await transaction.run(
          'SELECT move_balance(id, 0, $1, $2) FROM book_accounts WHERE kind = $3 AND owner = $4',
          ...[process, -amounts[kind], kind, accountId],
        )
  for (const { accountId, window, startedAt, flows } of windows)
    for (const [shard, moved] of [
      [0, -flows],
      [process, flows],
    ] as const)
      await transaction.run(
        `UPDATE quota_windows SET used = used + $1
         WHERE account_id = $2 AND name = $3 AND shard = $4 AND started_at = $5`,
        ...[moved, accountId, window, shard, startedAt],
      )
  for (const { keyId, since, amount } of budgets)
    for (const [shard, moved] of [
      [0, -amount],
      [process, amount],
    ] as const)
      await transaction.run(
        'UPDATE key_spends SET spent = spent + $1 WHERE key_id = $2 AND shard = $3 AND since = $4',
        ...[moved, keyId, shard, since],
      )
}

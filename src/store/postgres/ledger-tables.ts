import { firstIdAt, isGenerationId } from '../generation-ids.ts'
import type { ReadRecord } from '../generation-row.ts'
import {
  type Carried,
  type Closing,
  type GenerationRecord,
  type KeySpend,
  type Leased,
  type LedgerState,
  type LedgerStore,
  NotCovered,
  type OpenGeneration,
  type Operation,
  type PostedTransfer,
  type QuotaWindow,
  type Subscription,
  type Transfer,
} from '../ledger.ts'
import { type ReadTransfer, transferOf } from '../transfer-rows.ts'
import { readCarried, removeRecords } from './carried-tables.ts'
import type { Queries } from './client.ts'
import { Closings } from './closings.ts'
import type { Connection } from './connection.ts'
import {
  FIND_GENERATION,
  FIRST_PAGE_OF_GENERATIONS,
  idOfUuid,
  PAGE_OF_GENERATIONS,
  toGenerationRecord,
} from './generation-rows.ts'
import { InternedRows } from './interned.ts'
import { readState } from './ledger-state.ts'
import { Operations, reclaim } from './operations.ts'
import { jsonOf } from './values.ts'
import { resultOf, unlessRefused } from '../refused.ts'

/** The longest wait for processes to give back, and the interval in which it is looked for. */
const RECLAIM_MS = 300
const RECLAIM_STEP_MS = 20

/** The ledger's tables: records of generations, the book, quota windows, subscriptions, spending of keys. */
export class LedgerTables implements LedgerStore {
  readonly #connection: Connection
  readonly #closings: Closings
  readonly #operations: Operations

  constructor(connection: Connection) {
    this.#connection = connection
    const bookAccounts = new InternedRows(
      connection,
      'book_accounts',
      ['kind', 'owner'],
      '(t.owner, t.kind) = (r.owner, r.kind)',
    )
    this.#closings = new Closings(connection, bookAccounts)
    this.#operations = new Operations(bookAccounts)
  }

  state(accountIds?: readonly string[]): Promise<LedgerState> {
    return this.#connection.readInOrder((queries) => readState(queries, accountIds))
  }

  async spends(): Promise<KeySpend[]> {
    return (await this.state()).spends
  }

  closeGeneration(closing: Closing, committed?: () => void): Promise<void> {
    const written = this.#connection.commitMerged(this.#closings.merge, closing)
    return committed === undefined ? written : written.then(committed)
  }

  /** All commits are flushed. A generation that was closed meanwhile stays closed. */
  async saveOpen(open: readonly OpenGeneration[]): Promise<void> {
    const rows = jsonOf(open)
    await this.#connection.commit((transaction) =>
      transaction.run(
        `INSERT INTO open_generations (id, process, account_id, state)
         SELECT r.id, $1, r."accountId", r.state
         FROM jsonb_to_recordset($2::text::jsonb) AS r (id uuid, "accountId" text, state text)
         WHERE NOT EXISTS (SELECT FROM generations AS g WHERE g.id = r.id) ORDER BY r.id
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, process = excluded.process`,
        this.#connection.process ?? null,
        rows,
      ),
    )
  }

  /** Those of this process, or of all for a command line. */
  async openGenerations(): Promise<OpenGeneration[]> {
    const rows = await this.#connection.all<OpenGeneration>(
      `SELECT id, account_id AS "accountId", state FROM open_generations
       WHERE $1::bigint IS NULL OR process = $1 ORDER BY id`,
      this.#connection.process ?? null,
    )
    return rows.map((row) => ({ ...row, id: idOfUuid(row.id) }))
  }

  async findGeneration(accountId: string, id: string): Promise<GenerationRecord | undefined> {
    if (!isGenerationId(id)) return undefined
    const row = await this.#connection.one<ReadRecord>(FIND_GENERATION, id, accountId)
    return row === undefined ? undefined : toGenerationRecord(row)
  }

  /** Before a covered operation is refused, processes give back what they have leased and do not hold. */
  async post(operation: Operation, also: () => readonly Promise<unknown>[] = () => []): Promise<boolean> {
    const attempt = (): Promise<boolean | NotCovered> =>
      unlessRefused((refusal) =>
        resultOf(
          this.#connection.together(() => [
            this.#connection.commit((transaction) => this.#operations.post(transaction, operation, refusal)),
            ...also(),
          ]),
        ),
      ).catch((error: unknown) => {
        if (error instanceof NotCovered) return error
        throw error
      })
    let posted = await attempt()
    if (posted instanceof NotCovered && (await reclaim(this.#connection, operation)))
      for (const giveUpAt = performance.now() + RECLAIM_MS; performance.now() < giveUpAt; ) {
        await Bun.sleep(RECLAIM_STEP_MS)
        posted = await attempt()
        if (!(posted instanceof NotCovered)) break
      }
    if (posted instanceof NotCovered) throw posted
    return posted
  }

  /** Writes a new account's plan and first money, within a transaction. */
  async beginAccount(
    transaction: Queries,
    subscription: Subscription | undefined,
    operations: readonly Operation[],
  ): Promise<void> {
    if (subscription !== undefined) await writeSubscription(transaction, subscription)
    for (const operation of operations) await this.#operations.insert(transaction, operation)
  }

  async setSubscription(subscription: Subscription, before?: Subscription): Promise<void> {
    await this.#connection.commit((transaction) => writeSubscription(transaction, subscription, before))
  }

  requestReset(accountId: string): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(async (transaction) => {
        const { changes } = await transaction.run(
          'UPDATE subscriptions SET reset_requested = true WHERE account_id = $1',
          accountId,
        )
        if (changes === 0) throw refusal
      }),
    )
  }

  resetWindows(subscription: Subscription, windows: readonly QuotaWindow[]): Promise<void> {
    const { accountId, repeatedUntil } = subscription
    return this.#connection.commit(async (transaction) => {
      await transaction.run('DELETE FROM quota_windows WHERE account_id = $1', accountId)
      for (const { window, startedAt, endsAt, used } of windows)
        await transaction.run(
          `INSERT INTO quota_windows (account_id, name, shard, started_at, ends_at, used)
           VALUES ($1, $2, 0, $3, $4, $5)`,
          ...[accountId, window, startedAt, endsAt, used],
        )
      await writeSubscription(transaction, subscription)
      await transaction.run(
        'UPDATE subscriptions SET reset_requested = false, repeated_until = $2 WHERE account_id = $1',
        accountId,
        repeatedUntil ?? null,
      )
    })
  }

  async leased(): Promise<Leased[]> {
    const rows = await this.#connection.all<Omit<Leased, 'amount'> & { amount: string }>(LEASED)
    return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }))
  }

  async generations(after: string | undefined, limit: number): Promise<GenerationRecord[]> {
    const rows =
      after === undefined
        ? await this.#connection.all<ReadRecord>(FIRST_PAGE_OF_GENERATIONS, limit)
        : await this.#connection.all<ReadRecord>(PAGE_OF_GENERATIONS, after, limit)
    return rows.map(toGenerationRecord)
  }

  /** Those of operations by their references, then those of generations by their ids. */
  async transfers(after: { reference: string; kind: string } | undefined, limit: number): Promise<PostedTransfer[]> {
    const isPast = after !== undefined && isGenerationId(after.reference)
    const rows = isPast ? [] : await this.#transfers(OPERATIONS, after?.reference ?? '', after?.kind ?? '', limit)
    if (rows.length === limit) return rows
    const from = isPast ? after : { reference: firstIdAt(0), kind: '' }
    return [...rows, ...(await this.#transfers(TRANSFERS, from.reference, from.kind, limit - rows.length))]
  }

  removeRecords(before: number): Promise<void> {
    return removeRecords(this.#connection, before)
  }

  carried(): Promise<Carried> {
    return readCarried(this.#connection)
  }

  async #transfers(sql: string, reference: string, kind: string, limit: number): Promise<PostedTransfer[]> {
    const rows = await this.#connection.all<TransferRow>(sql, reference, kind, limit)
    const referenceOf = sql === TRANSFERS ? idOfUuid : (stored: string) => stored
    return rows.map((row) => ({ ...transferOf(row), reference: referenceOf(row.reference) }))
  }
}

async function writeSubscription(
  transaction: Queries,
  { accountId, tier, anchor, periodStart, periodEnd, renews, nextTier }: Subscription,
  before?: Subscription,
): Promise<void> {
  await transaction.run(
    `INSERT INTO subscriptions AS s (account_id, tier, anchor, period_start, period_end, renews, next_tier)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (account_id) DO UPDATE SET tier = excluded.tier, anchor = excluded.anchor,
       period_start = excluded.period_start, period_end = excluded.period_end, renews = excluded.renews,
       next_tier = excluded.next_tier
     WHERE $8::boolean OR (s.tier = $9 AND s.anchor = $10 AND s.period_end = $11 AND s.renews = $12
       AND s.next_tier IS NOT DISTINCT FROM $13)`,
    ...[accountId, tier, anchor, periodStart, periodEnd, renews, nextTier, before === undefined],
    ...[before?.tier ?? null, before?.anchor ?? null, before?.periodEnd ?? null, before?.renews ?? null],
    before?.nextTier ?? null,
  )
}

/** A process that has ended keeps what it had until another takes over. */
const LEASED = `
  SELECT "table", l.id, shard AS process, amount::text AS amount, NOT EXISTS (
      SELECT FROM processes AS p WHERE p.id = shard AND (ended_at IS NULL OR heir IS NULL)) AS "isEnded"
  FROM (
    SELECT 'balances' AS "table", rtrim(kind || ' ' || owner) AS id, shard, balance AS amount
    FROM book_balances JOIN book_accounts ON id = account
    UNION ALL SELECT 'windows', account_id || ' ' || name, shard, used FROM quota_windows
    UNION ALL SELECT 'spends', key_id, shard, spent FROM key_spends) AS l
  WHERE shard <> 0 AND amount <> 0 ORDER BY "table", id, shard`

/** LEFT JOIN: an audit must also see transfers whose account is missing. */
const pageOf = (table: string, reference: string, type: string): string => `
  SELECT t.${reference} AS reference, t.kind, t.amount::text AS amount, t.at, t.note,
    d.kind AS "debitKind", d.owner AS "debitOwner", c.kind AS "creditKind", c.owner AS "creditOwner"
  FROM ${table} AS t
    LEFT JOIN book_accounts AS d ON d.id = t.debit LEFT JOIN book_accounts AS c ON c.id = t.credit
  WHERE t.${reference} >= $1::${type}
    AND (t.${reference}, t.kind) > ($1::${type}, $2::text) ORDER BY t.${reference}, t.kind LIMIT $3`

const OPERATIONS = pageOf('operations', 'reference', 'text')
const TRANSFERS = pageOf('transfers', 'id', 'uuid')

type TransferRow = ReadTransfer & Omit<PostedTransfer, keyof Transfer>

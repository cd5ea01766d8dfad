import { type BookAccount, BookTooLarge, NotCovered, type Operation } from '../ledger.ts'
import type { Refused } from '../refused.ts'
import type { Queries } from './client.ts'
import { fitsInt64, transferError } from './closings.ts'
import { isGenerationId } from '../generation-ids.ts'
import type { InternedRows } from './interned.ts'
import { RECLAIM } from './processes.ts'

/** The advisory locks of references, any constant. */
const LOCK = 715_842

/** Top-ups, grants and corrections, which people make. They are posted to the common shard. */
export class Operations {
  readonly #bookAccounts: InternedRows

  constructor(bookAccounts: InternedRows) {
    this.#bookAccounts = bookAccounts
  }

  /** Throws the refusal if the reference has been posted, and NotCovered if the balance is too low. */
  async post(transaction: Queries, operation: Operation, refusal: Refused): Promise<void> {
    const { reference, transfers, covered = false } = operation
    // Two processes that post the same reference do so one after the other.
    await transaction.run('SELECT pg_advisory_xact_lock($1::integer, hashtext($2))', LOCK, reference)
    const known = isGenerationId(reference)
      ? await transaction.one('SELECT 1 FROM transfers WHERE id = $1::uuid LIMIT 1', reference)
      : await transaction.one('SELECT 1 FROM operations WHERE reference = $1 LIMIT 1', reference)
    if (known !== undefined) throw refusal
    if (covered)
      for (const { debit, amount } of transfers) {
        const balance = await this.#common(transaction, debit)
        if (balance < amount) throw new NotCovered(balance)
      }
    await this.insert(transaction, operation)
  }

  /** The part of a balance that no process has leased. It does not change until the end of the transaction. */
  async #common(transaction: Queries, { kind, owner }: BookAccount): Promise<bigint> {
    const row = await transaction.one<{ balance: string }>(
      `SELECT balance::text AS balance FROM book_balances
       WHERE account = (SELECT id FROM book_accounts WHERE kind = $1 AND owner = $2) AND shard = 0 FOR UPDATE`,
      kind,
      owner,
    )
    return BigInt(row?.balance ?? 0)
  }

  /** Fails with an Error for the operator where a balance would become too large to be stored. */
  async insert(transaction: Queries, { reference, at, note, transfers }: Operation): Promise<void> {
    const error = transferError(transfers)
    if (error !== undefined) throw error
    const accounts = new Map(
      transfers
        .flatMap(({ debit, credit }) => [debit, credit])
        .map(({ kind, owner }) => [`${kind}\n${owner}`, [kind, owner]]),
    )
    await this.#bookAccounts.add(accounts)
    const idOf = ({ kind, owner }: BookAccount): number => this.#bookAccounts.id(`${kind}\n${owner}`)!
    const [table, column] = isGenerationId(reference) ? ['transfers', 'id'] : ['operations', 'reference']
    for (const { kind, debit, credit, amount } of transfers) {
      await transaction.run(
        `INSERT INTO ${table} (${column}, kind, debit, credit, amount, at, note) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
        ...[reference, kind, idOf(debit), idOf(credit), amount, at, note],
      )
      await this.#move(transaction, debit, idOf(debit), -amount)
      await this.#move(transaction, credit, idOf(credit), amount)
    }
  }

  async #move(transaction: Queries, { kind }: BookAccount, id: number, amount: bigint): Promise<void> {
    const sum = await transaction.one<{ balance: string }>(
      `SELECT (coalesce(sum(balance), 0) + $2::bigint)::text AS balance FROM book_balances WHERE account = $1`,
      id,
      amount,
    )
    if (!fitsInt64(BigInt(sum!.balance))) throw new BookTooLarge({ kind })
    await transaction.run(
      `INSERT INTO book_balances (account, shard, balance) VALUES ($1, 0, $2)
       ON CONFLICT (account, shard) DO UPDATE SET balance = book_balances.balance + excluded.balance`,
      id,
      amount,
    )
  }
}

/** Asks processes for what they have leased of the debited accounts; false where that is nothing. */
export async function reclaim(queries: Queries, { transfers }: Operation): Promise<boolean> {
  let isLeased = false
  for (const { debit } of transfers) {
    const row = await queries.one(
      `SELECT pg_notify('${RECLAIM}', '0 ' || $2::text)
       FROM book_accounts JOIN book_balances ON account = id AND shard <> 0 AND balance > 0
       WHERE kind = $1 AND owner = $2 AND kind IN ('credit', 'bonus') LIMIT 1`,
      debit.kind,
      debit.owner,
    )
    isLeased ||= row !== undefined
  }
  return isLeased
}

import { USAGE_BUCKETS } from '../../generation/usage.ts'
import { isGenerationId } from '../generation-ids.ts'
import { readCarried, removeRecords } from './carried-tables.ts'
import { fitsInt64, int64, type Connection } from './connection.ts'
import {
  FIND_GENERATION,
  generationIdBytes,
  type GenerationRow,
  INSERT_GENERATION,
  PAGE_OF_GENERATIONS,
  toGenerationRecord,
} from './generation-rows.ts'
import { InternedRows } from './interned.ts'
import { readSpends, readState } from './ledger-state.ts'
import { RollUps } from './reports/roll-ups.ts'
import { type Refused, resultOf, unlessRefused } from '../refused.ts'
import {
  type BookAccount,
  BookTooLarge,
  type Carried,
  ClosedAlready,
  type Closing,
  type GenerationRecord,
  isOfAccount,
  type KeySpend,
  type Leased,
  type LedgerState,
  type LedgerStore,
  NotCovered,
  type OpenGeneration,
  type Operation,
  type PostedTransfer,
  type QuotaWindow,
  type StoredPrice,
  type Subscription,
  type Transfer,
} from '../ledger.ts'
import { type ReadTransfer, transferOf } from '../transfer-rows.ts'

/** The ledger's tables: records of generations, the book, quota windows, subscriptions, spending of keys. */
export class LedgerTables implements LedgerStore {
  readonly rollUps: RollUps
  readonly #connection: Connection
  readonly #names: InternedRows
  readonly #prices: InternedRows
  /** Ids by price, which is the same object for each generation: the text of its rates is long. */
  #priceIds = new WeakMap<StoredPrice, number>()
  readonly #bookAccounts: InternedRows
  /** Book account -> change of its balance in the current transaction, which is written once, before the commit. */
  readonly #moved = new Map<number, bigint>()

  constructor(connection: Connection) {
    this.#connection = connection
    this.#names = new InternedRows(
      connection,
      'INSERT INTO names (text) VALUES (?) ON CONFLICT DO NOTHING',
      'SELECT id FROM names WHERE text = ?',
    )
    this.#prices = new InternedRows(
      connection,
      'INSERT INTO prices (version, model, rates) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
      'SELECT id FROM prices WHERE version = ? AND model = ? AND rates = ?',
    )
    this.#bookAccounts = new InternedRows(
      connection,
      'INSERT INTO book_accounts (kind, owner) VALUES (?, ?) ON CONFLICT DO NOTHING',
      'SELECT id FROM book_accounts WHERE kind = ? AND owner = ?',
    )
    this.rollUps = new RollUps(connection, (text) => this.#name(text))
    connection.addHooks({ beforeCommit: () => this.#writeBalances(), afterRollback: () => this.#reset() })
  }

  async state(accountIds?: readonly string[]): Promise<LedgerState> {
    return this.#connection.snapshot(() => readState(this.#connection, accountIds))
  }

  async spends(keyIds?: readonly string[]): Promise<KeySpend[]> {
    return readSpends(this.#connection, keyIds)
  }

  closeGeneration({ record, transfers, windows, spend, wasOpen }: Closing, committed?: () => void): Promise<void> {
    return this.#connection.commitEnd(() => {
      const id = generationIdBytes(record.id)
      if (!this.#insertGeneration(id, record)) throw new ClosedAlready(record.id)
      const endedAt = record.createdAt + record.latency + record.duration
      for (const transfer of transfers) this.#insertTransfer(id, transfer, endedAt, null)
      for (const window of windows) this.#addToWindow(window)
      if (spend !== undefined) this.#addToSpend(spend)
      if (wasOpen) this.#connection.run('DELETE FROM open_generations WHERE id = ?', id)
    }, committed)
  }

  saveOpen(open: readonly OpenGeneration[], isFlushed: boolean): Promise<void> {
    const write = (): void => {
      for (const { id, accountId, state } of open) {
        this.#connection.run(
          `INSERT INTO open_generations (id, account_id, state) VALUES (?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET state = excluded.state`,
          generationIdBytes(id),
          accountId,
          state,
        )
      }
    }
    return isFlushed ? this.#connection.commit(write) : this.#connection.commitUnflushed(write)
  }

  async openGenerations(): Promise<OpenGeneration[]> {
    return this.#connection.all<OpenGeneration>(
      'SELECT lower(hex(id)) AS id, account_id AS accountId, state FROM open_generations ORDER BY open_generations.id',
    )
  }

  async findGeneration(accountId: string, id: string): Promise<GenerationRecord | undefined> {
    if (!isGenerationId(id)) return undefined
    const row = this.#connection.one<GenerationRow>(FIND_GENERATION, generationIdBytes(id), accountId)
    return row === undefined ? undefined : toGenerationRecord(row)
  }

  post(operation: Operation, also: () => readonly Promise<unknown>[] = () => []): Promise<boolean> {
    const { reference, transfers, covered = false } = operation
    const stored = referenceOf(reference)
    const write = (refusal: Refused): void => {
      if (this.#connection.one('SELECT 1 FROM transfers WHERE reference = ? LIMIT 1', stored) !== undefined)
        throw refusal
      const short = covered ? transfers.find(({ debit, amount }) => this.#balance(debit) < amount) : undefined
      if (short !== undefined) throw new NotCovered(this.#balance(short.debit))
      this.#insertOperation(operation)
    }
    return unlessRefused((refusal) =>
      resultOf(this.#connection.together(() => [this.#connection.commit(() => write(refusal)), ...also()])),
    )
  }

  /** The balance within a transaction, including its own transfers so far. */
  #balance({ kind, owner }: BookAccount): bigint {
    const row = this.#connection.one<{ id: number; balance: string }>(
      'SELECT id, CAST(balance AS TEXT) AS balance FROM book_accounts WHERE kind = ? AND owner = ?',
      kind,
      owner,
    )
    return row === undefined ? 0n : BigInt(row.balance) + (this.#moved.get(row.id) ?? 0n)
  }

  /** Writes a new account's plan and first money, within a transaction. */
  beginAccount(subscription: Subscription | undefined, operations: readonly Operation[]): void {
    if (subscription !== undefined) this.#writeSubscription(subscription)
    for (const operation of operations) this.#insertOperation(operation)
  }

  /** Fails with an Error for the operator where a balance would become too large to be stored. */
  #insertOperation({ reference, at, note, transfers }: Operation): void {
    for (const transfer of transfers) {
      this.#insertTransfer(referenceOf(reference), transfer, at, note)
      for (const { kind, owner } of [transfer.debit, transfer.credit])
        if (!fitsInt64(this.#balance({ kind, owner }))) throw new BookTooLarge({ kind })
    }
    this.#recordChanged(transfers)
  }

  /**
   * Records the accounts of an operation as changed. Other tables have triggers for that; on this one it would cost
   * each generation a quarter of its transfer, even where it does nothing.
   */
  #recordChanged(transfers: readonly Transfer[]): void {
    const sides = transfers.flatMap(({ debit, credit }) => [debit, credit])
    for (const owner of new Set(sides.filter(isOfAccount).map(({ owner }) => owner))) {
      this.#connection.run('DELETE FROM account_changes WHERE account_id = ?', owner)
      this.#connection.run('INSERT INTO account_changes (account_id) VALUES (?)', owner)
    }
  }

  async setSubscription(subscription: Subscription, before?: Subscription): Promise<void> {
    await this.#connection.commit(() => this.#writeSubscription(subscription, before))
  }

  requestReset(accountId: string): Promise<boolean> {
    return unlessRefused((refusal) =>
      this.#connection.commit(() => {
        const { changes } = this.#connection.run(
          'UPDATE subscriptions SET reset_requested = 1 WHERE account_id = ?',
          accountId,
        )
        if (changes === 0) throw refusal
      }),
    )
  }

  async resetWindows(subscription: Subscription, windows: readonly QuotaWindow[]): Promise<void> {
    const { accountId } = subscription
    await this.#connection.commit(() => {
      this.#connection.run('DELETE FROM quota_windows WHERE account_id = ?', accountId)
      for (const window of windows) this.#addToWindow(window)
      this.#writeSubscription(subscription)
      this.#connection.run(
        'UPDATE subscriptions SET reset_requested = 0, repeated_until = ? WHERE account_id = ?',
        subscription.repeatedUntil ?? null,
        accountId,
      )
    })
  }

  #writeSubscription(
    { accountId, tier, anchor, periodStart, periodEnd, renews, nextTier }: Subscription,
    before?: Subscription,
  ): void {
    this.#connection.run(
      `INSERT INTO subscriptions (account_id, tier, anchor, period_start, period_end, renews, next_tier)
       VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (account_id) DO UPDATE SET tier = excluded.tier, anchor = excluded.anchor,
         period_start = excluded.period_start, period_end = excluded.period_end, renews = excluded.renews,
         next_tier = excluded.next_tier
       WHERE ? OR (tier = ? AND anchor = ? AND period_end = ? AND renews = ? AND next_tier IS ?)`,
      accountId,
      tier,
      anchor,
      periodStart,
      periodEnd,
      renews ? 1 : 0,
      nextTier,
      before === undefined ? 1 : 0,
      before?.tier ?? null,
      before?.anchor ?? null,
      before?.periodEnd ?? null,
      before?.renews === true ? 1 : 0,
      before?.nextTier ?? null,
    )
  }

  /** One process has the folder, and leases nothing. */
  async leased(): Promise<Leased[]> {
    return []
  }

  async generations(after: string | undefined, limit: number): Promise<GenerationRecord[]> {
    const from = after === undefined ? new Uint8Array() : generationIdBytes(after)
    return this.#connection.all<GenerationRow>(PAGE_OF_GENERATIONS, from, limit).map(toGenerationRecord)
  }

  removeRecords(before: number): Promise<void> {
    return removeRecords(this.#connection, before)
  }

  async carried(): Promise<Carried> {
    return readCarried(this.#connection)
  }

  async transfers(after: { reference: string; kind: string } | undefined, limit: number): Promise<PostedTransfer[]> {
    // LEFT JOIN: an audit must also see transfers whose account is missing.
    const rows = this.#connection.all<TransferRow>(
      `SELECT CASE typeof(t.reference) WHEN 'blob' THEN lower(hex(t.reference)) ELSE t.reference END AS reference,
         t.kind, CAST(t.amount AS TEXT) AS amount, t.at, t.note,
         d.kind AS debitKind, d.owner AS debitOwner, c.kind AS creditKind, c.owner AS creditOwner
       FROM transfers AS t
         LEFT JOIN book_accounts AS d ON d.id = t.debit LEFT JOIN book_accounts AS c ON c.id = t.credit
       WHERE (t.reference, t.kind) > (?, ?) ORDER BY t.reference, t.kind LIMIT ?`,
      referenceOf(after?.reference ?? ''),
      after?.kind ?? '',
      limit,
    )
    return rows.map(transferOf)
  }

  /** False, and nothing written, if the generation has a record already. */
  #insertGeneration(id: Uint8Array, record: GenerationRecord): boolean {
    const { price, provider, client, usage } = record
    const names = {
      account: this.#name(record.accountId),
      key: this.#name(record.keyId),
      model: this.#name(record.model),
      provider: provider === null ? 0 : this.#name(provider),
      ending: this.#name(record.ending),
    }
    const { changes } = this.#connection.run(
      INSERT_GENERATION,
      id,
      names.account,
      names.key,
      this.#name(record.kind),
      this.#name(record.api),
      names.model,
      provider === null ? null : names.provider,
      this.#name(record.finish),
      names.ending,
      record.createdAt,
      record.latency,
      record.duration,
      record.streamed ? 1 : 0,
      record.retries,
      record.attempts,
      record.translation,
      record.estimated ? 1 : 0,
      record.estimation,
      record.disputed,
      price === null ? null : this.#price(price),
      record.discount,
      int64(record.held),
      int64(record.bill),
      int64(record.flows),
      client === null ? null : this.#name(client),
      ...USAGE_BUCKETS.map((bucket) => usage[bucket]),
    )
    if (changes > 0) this.rollUps.add(record, names)
    return changes > 0
  }

  #insertTransfer(
    reference: string | Uint8Array,
    { kind, debit, credit, amount }: Transfer,
    at: number,
    note: string | null,
  ): void {
    const [from, to] = [this.#bookAccount(debit), this.#bookAccount(credit)]
    this.#connection.run(
      'INSERT INTO transfers (reference, kind, debit, credit, amount, at, note) VALUES (?, ?, ?, ?, ?, ?, ?)',
      reference,
      kind,
      from,
      to,
      int64(amount),
      at,
      note,
    )
    this.#moved.set(from, (this.#moved.get(from) ?? 0n) - amount)
    this.#moved.set(to, (this.#moved.get(to) ?? 0n) + amount)
  }

  #addToWindow({ accountId, window, startedAt, endsAt, used }: QuotaWindow): void {
    this.#connection.run(
      `INSERT INTO quota_windows (account_id, name, started_at, ends_at, used) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (account_id, name) DO UPDATE SET
         used = CASE WHEN excluded.started_at = started_at THEN used + excluded.used ELSE excluded.used END,
         started_at = excluded.started_at, ends_at = excluded.ends_at
       WHERE excluded.started_at >= started_at`,
      accountId,
      window,
      startedAt,
      endsAt,
      int64(used),
    )
  }

  #addToSpend({ keyId, since, spent }: KeySpend): void {
    this.#connection.run(
      `INSERT INTO key_spends (key_id, since, spent) VALUES (?, ?, ?)
       ON CONFLICT (key_id) DO UPDATE SET
         spent = CASE WHEN excluded.since = since THEN spent + excluded.spent ELSE excluded.spent END,
         since = excluded.since
       WHERE excluded.since >= since`,
      keyId,
      since,
      int64(spent),
    )
  }

  #writeBalances(): void {
    for (const [id, amount] of this.#moved)
      this.#connection.run('UPDATE book_accounts SET balance = balance + ? WHERE id = ?', int64(amount), id)
    this.#moved.clear()
  }

  #name(text: string): number {
    return this.#names.id(text, text)
  }

  #price(price: StoredPrice): number {
    let id = this.#priceIds.get(price)
    if (id === undefined) {
      const { version, model, rates } = price
      id = this.#prices.id(`${version}\n${model}\n${rates}`, version, model, rates)
      this.#priceIds.set(price, id)
    }
    return id
  }

  #bookAccount({ kind, owner }: BookAccount): number {
    return this.#bookAccounts.id(`${kind} ${owner}`, kind, owner)
  }

  #reset(): void {
    this.#moved.clear()
    this.#priceIds = new WeakMap()
    for (const interned of [this.#names, this.#prices, this.#bookAccounts]) interned.clearCache()
  }
}

type TransferRow = ReadTransfer & Omit<PostedTransfer, keyof Transfer>

/** A generation's id is stored as its bytes, any other reference as text. */
const referenceOf = (reference: string): string | Uint8Array =>
  isGenerationId(reference) ? generationIdBytes(reference) : reference

import type { Nano } from '../money.ts'
import {
  type Balance,
  type BookAccount,
  type GenerationRecord,
  isOfAccount,
  type KeySpend,
  type Leased,
  type LedgerState,
  type PostedTransfer,
  type QuotaWindow,
  type Store,
  type Transfer,
} from '../store/store.ts'
import { LimitSums, type Fault } from './audit-limits.ts'
import { isGenerationId } from '../store/generation-ids.ts'
import { chargesOf, type Payment } from './book.ts'
import { OUTCOMES } from './outcomes.ts'
import { minimumHold, ratingOf } from './record-rating.ts'

/** A wrong row. `id`: its key in the table. */
export type Finding = Fault & { table: string; id: string }

/** The number of rows read of each kind, of wrong rows, and the first wrong row. */
export type Audit = {
  generations: number
  transfers: number
  balances: number
  windows: number
  spends: number
  wrong: number
  first: Finding | undefined
}

/**
 * Current settings to compare with, in nano-USD. `overdraft`: how far credit may be below zero; `usdPerFlow`: list
 * price of one flow.
 */
export type Terms = { overdraft: Nano; usdPerFlow: Nano }

const PAGE = 1_000

/** A list price in nano-USD that always amounts to some flows, where a flow is worth 2 USD or less. */
const SMALLEST_LIST_PRICE = 1_000n

/**
 * Recomputes the book from its rows, in one snapshot of the store and in memory that does not grow with the number of
 * generations: bills from usage and price, payments from bills, balances from transfers, and quota windows and spending
 * limits from generations. `onPage`: called after each page of generations.
 */
export const audit = (store: Store, terms: Terms, onPage?: (audit: Audit) => void): Promise<Audit> =>
  store.snapshot(() => new Auditor(store, terms, onPage).run())

class Auditor {
  readonly #store: Store
  readonly #terms: Terms
  readonly #onPage: ((audit: Audit) => void) | undefined
  readonly #audit: Audit = {
    generations: 0,
    transfers: 0,
    balances: 0,
    windows: 0,
    spends: 0,
    wrong: 0,
    first: undefined,
  }
  readonly #sums = new Map<string, Nano>()
  /** Withdrawn from each balance. A server may still spend that much until it reads the withdrawal. */
  readonly #withdrawn = new Map<string, Nano>()
  /** Paid from each balance for generations. */
  readonly #paid = new Map<string, Nano>()
  #accounts: ReadonlySet<string> = new Set()

  constructor(store: Store, terms: Terms, onPage: ((audit: Audit) => void) | undefined) {
    this.#store = store
    this.#terms = terms
    this.#onPage = onPage
  }

  async run(): Promise<Audit> {
    this.#accounts = new Set((await this.#store.accounts.list()).map(({ id }) => id))
    const state = await this.#store.ledger.state()
    const limits = new LimitSums(state, await this.#store.accounts.keys())
    const postings = this.#postings()
    let posting = await postings.next()
    // Both come in the order of ids, so that they are merged in one pass.
    for await (const record of this.#generations()) {
      for (; posting.done !== true && precedes(posting.value.reference, record.id); posting = await postings.next())
        this.#checkOperation(posting.value.transfers)
      const own = posting.done !== true && posting.value.reference === record.id ? posting.value.transfers : []
      if (own.length > 0) posting = await postings.next()
      this.#checkGeneration(record, own)
      limits.add(record)
    }
    for (; posting.done !== true; posting = await postings.next()) this.#checkOperation(posting.value.transfers)
    const carried = await this.#store.ledger.carried()
    for (const transfer of carried.transfers) this.#add(transfer)
    for (const sums of carried.usage) limits.addCarried(sums)
    this.#checkBalances(state.balances)
    this.#checkLimits(state, limits)
    for (const leased of await this.#store.ledger.leased())
      this.#check('leases', `${leased.process} ${leased.id}`, this.#faultsOfLease(leased))
    return this.#audit
  }

  async *#generations(): AsyncGenerator<GenerationRecord> {
    for (let after: string | undefined; ; ) {
      const page = await this.#store.ledger.generations(after, PAGE)
      yield* page
      this.#audit.generations += page.length
      this.#onPage?.(this.#audit)
      after = page.at(-1)?.id
      if (page.length < PAGE) return
    }
  }

  /** The transfers of each reference. */
  async *#postings(): AsyncGenerator<{ reference: string; transfers: PostedTransfer[] }> {
    let transfers: PostedTransfer[] = []
    for (let after: PostedTransfer | undefined; ; ) {
      const page = await this.#store.ledger.transfers(after, PAGE)
      for (const transfer of page) {
        this.#audit.transfers++
        this.#add(transfer)
        const [first] = transfers
        if (first !== undefined && first.reference !== transfer.reference) {
          yield { reference: first.reference, transfers }
          transfers = []
        }
        transfers.push(transfer)
      }
      after = page.at(-1)
      if (page.length < PAGE) break
    }
    const [first] = transfers
    if (first !== undefined) yield { reference: first.reference, transfers }
  }

  #add({ debit, credit, amount, kind }: Transfer): void {
    if (kind === 'withdrawal') add(this.#withdrawn, debit, amount)
    if (kind === 'credit' || kind === 'bonus') add(this.#paid, debit, amount)
    add(this.#sums, debit, -amount)
    add(this.#sums, credit, amount)
  }

  #checkOperation(transfers: readonly PostedTransfer[]): void {
    for (const transfer of transfers) {
      const orphan = CHARGES.has(transfer.kind)
        ? [{ expected: `a generation ${transfer.reference}`, found: 'none' }]
        : []
      this.#check('transfers', transferId(transfer), [...faultsOfTransfer(transfer, this.#accounts), ...orphan])
    }
  }

  #checkGeneration(record: GenerationRecord, own: readonly PostedTransfer[]): void {
    const expected = new Map(chargesFrom(record, own).map((transfer) => [transfer.kind, describe(transfer)]))
    for (const transfer of own) {
      const text = expected.get(transfer.kind) ?? `no ${transfer.kind} of this generation`
      const mismatch = text === describe(transfer) ? [] : [{ expected: text, found: describe(transfer) }]
      this.#check('transfers', transferId(transfer), [...faultsOfTransfer(transfer, this.#accounts), ...mismatch])
    }
    this.#check('generations', record.id, faultsOfGeneration(record, own, this.#accounts, this.#terms))
  }

  #checkBalances(balances: readonly Balance[]): void {
    for (const balance of balances) {
      this.#check(
        'balances',
        accountText(balance),
        faultsOfBalance(balance, this.#sums.get(accountText(balance)) ?? 0n, this.#lowestOf(balance)),
      )
    }
    const sum = balances.reduce((total, { balance }) => total + balance, 0n)
    this.#check('balances', 'all of them', sum === 0n ? [] : [{ expected: `a sum of ${nano(0n)}`, found: nano(sum) }])
    this.#audit.balances = balances.length
  }

  #checkLimits({ windows, spends }: LedgerState, limits: LimitSums): void {
    for (const window of windows)
      this.#check('windows', `${window.accountId} ${window.window}`, [
        ...faultsOfWindow(window, this.#accounts),
        ...limits.faultsOfWindow(window),
      ])
    for (const spend of spends)
      this.#check('spends', spend.keyId, [...faultsOfSpend(spend), ...limits.faultsOfSpend(spend)])
    for (const { table, id, ...fault } of limits.missing()) this.#check(table, id, [fault])
    Object.assign(this.#audit, { windows: windows.length, spends: spends.length })
  }

  *#faultsOfLease({ table, id, process, amount, isEnded }: Leased): Generator<Fault> {
    if (isEnded) yield { expected: `nothing, since process ${process} has ended`, found: `${amount}` }
    const [kind = '', owner = ''] = id.split(' ')
    const least =
      table === 'balances' && (kind === 'credit' || kind === 'bonus') ? this.#lowestOf({ kind, owner }) : undefined
    if (least !== undefined && amount < least) yield { expected: `${nano(least)} or more`, found: nano(amount) }
  }

  /** The lowest valid balance: a withdrawal needs a balance, so only payments for generations go below 0. */
  #lowestOf(balance: BookAccount): Nano | undefined {
    if (!isOfAccount(balance)) return undefined
    const [withdrawn, paid] = [this.#withdrawn, this.#paid].map((sums) => sums.get(accountText(balance)) ?? 0n) as [
      Nano,
      Nano,
    ]
    const below = withdrawn + (balance.kind === 'credit' ? this.#terms.overdraft : 0n)
    return -(paid < below ? paid : below)
  }

  /** A row counts as wrong once, however many faults it has. */
  #check(table: string, id: string, faults: Iterable<Fault>): void {
    for (const fault of faults) {
      this.#audit.wrong++
      this.#audit.first ??= { table, id, ...fault }
      return
    }
  }
}

/** True for transfers that belong before this generation, or to an operation, whose references have no order. */
const precedes = (reference: string, id: string): boolean => reference < id || !isGenerationId(reference)

/** The kinds of transfer that only generations post. */
const CHARGES = new Set(['bonus', 'credit', 'write-off', 'cost'])

const nano = (amount: Nano): string => `${amount} nano-USD`
const accountText = ({ kind, owner }: BookAccount): string => (owner === '' ? kind : `${kind} ${owner}`)
const transferId = ({ reference, kind }: PostedTransfer): string => `${reference} ${kind}`
const add = (sums: Map<string, Nano>, account: BookAccount, amount: Nano): void =>
  void sums.set(accountText(account), (sums.get(accountText(account)) ?? 0n) + amount)
const describe = ({ debit, credit, amount }: Transfer): string =>
  `${nano(amount)} from ${accountText(debit)} to ${accountText(credit)}`
const amountOf = (transfers: readonly PostedTransfer[], kind: string): Nano =>
  transfers.find((transfer) => transfer.kind === kind)?.amount ?? 0n
const paymentIn = (transfers: readonly PostedTransfer[]): Payment => ({
  bonus: amountOf(transfers, 'bonus'),
  credit: amountOf(transfers, 'credit'),
  writtenOff: amountOf(transfers, 'write-off'),
})

/** The transfers that a generation should have, if the amounts of its own are right. */
const chargesFrom = ({ accountId, kind, provider }: GenerationRecord, own: readonly PostedTransfer[]): Transfer[] =>
  chargesOf(accountId, kind === 'subscription' ? undefined : paymentIn(own), provider, amountOf(own, 'cost'))

function* faultsOfGeneration(
  record: GenerationRecord,
  own: readonly PostedTransfer[],
  accounts: ReadonlySet<string>,
  { usdPerFlow }: Terms,
): Generator<Fault> {
  const { accountId, usage, latency, duration, retries, discount, held, bill, flows, kind, ending } = record
  if (!accounts.has(accountId)) yield { expected: 'a known account', found: accountId }
  if (!Object.hasOwn(OUTCOMES, ending))
    yield { expected: `an outcome of ${Object.keys(OUTCOMES).join(', ')}`, found: ending }
  for (const [name, value] of Object.entries({ ...usage, latency, duration, retries })) {
    if (!Number.isSafeInteger(value) || value < 0)
      yield { expected: `${name} of 0 or more, as a whole number`, found: `${value}` }
  }
  for (const [name, value] of Object.entries({ held, bill, flows }))
    if (value < 0n) yield { expected: `${name} of 0 or more`, found: `${value}` }
  if (!(discount >= 0 && discount <= 10_000))
    yield { expected: 'a discount of 0 to 10000 basis points', found: `${discount}` }
  if (kind !== 'subscription' && flows !== 0n)
    yield { expected: `no flows with a ${kind} key`, found: `${flows} micro-flows` }
  yield* kind === 'subscription' ? faultsOfFlows(record, usdPerFlow) : []
  yield* faultsOfBill(record, own)
}

/** The number of flows depends on the settings of that day; whether there are any does not. */
function* faultsOfFlows({ flows, bill }: GenerationRecord, usdPerFlow: Nano): Generator<Fault> {
  if (bill === 0n && flows > 0n) yield { expected: 'no flows for a list price of 0', found: `${flows} micro-flows` }
  // Half a micro-flow is rounded to 0.
  const roundedToNone = usdPerFlow / 2_000_000n
  if (flows === 0n && bill > (roundedToNone > SMALLEST_LIST_PRICE ? roundedToNone : SMALLEST_LIST_PRICE))
    yield { expected: `flows for a list price of ${nano(bill)}`, found: 'none' }
}

function* faultsOfBill(record: GenerationRecord, own: readonly PostedTransfer[]): Generator<Fault> {
  const { kind, bill, price } = record
  try {
    const rating = ratingOf(record)
    const rated = kind === 'subscription' ? rating.origin : rating.bill
    if (rated !== bill)
      yield { expected: `a bill of ${nano(rated)}, which is its usage at price ${rating.version}`, found: nano(bill) }
    const minimum = record.held === 0n && bill > 0n ? minimumHold(record) : 0n
    if (minimum > 0n) yield { expected: `a hold of ${nano(minimum)} or more`, found: nano(0n) }
  } catch {
    yield { expected: `rates of price ${price?.version} that can be read`, found: `${price?.rates}` }
  }
  if (kind === 'subscription') return
  const { bonus, credit, writtenOff } = paymentIn(own)
  const paid = bonus + credit + writtenOff
  if (paid !== bill) yield { expected: `transfers to revenue of ${nano(bill)}, which is its bill`, found: nano(paid) }
}

function* faultsOfTransfer({ debit, credit, amount }: PostedTransfer, accounts: ReadonlySet<string>): Generator<Fault> {
  if (amount <= 0n) yield { expected: 'an amount above 0', found: nano(amount) }
  if (accountText(debit) === accountText(credit))
    yield { expected: 'two different accounts', found: `${accountText(debit)} twice` }
  for (const account of [debit, credit])
    if (!isKnown(account, accounts)) yield { expected: 'known accounts', found: accountText(account) }
}

/** The owner of each kind of book account. A provider need not be configured any more. */
const OWNERS: Record<BookAccount['kind'], 'account' | 'provider' | 'none'> = {
  credit: 'account',
  bonus: 'account',
  payable: 'provider',
  outside: 'none',
  promotion: 'none',
  revenue: 'none',
  'write-off': 'none',
  cost: 'none',
}

function isKnown({ kind, owner }: BookAccount, accounts: ReadonlySet<string>): boolean {
  const owned = OWNERS[kind] as (typeof OWNERS)[BookAccount['kind']] | undefined
  return owned === 'account'
    ? accounts.has(owner)
    : owned === 'provider'
      ? owner !== ''
      : owned === 'none' && owner === ''
}

function* faultsOfBalance({ kind, balance }: Balance, tallied: Nano, least: Nano | undefined): Generator<Fault> {
  if (balance !== tallied) yield { expected: `${nano(tallied)}, which its transfers add up to`, found: nano(balance) }
  if (least !== undefined && balance < least)
    yield { expected: `a ${kind} of ${nano(least)} or more`, found: nano(balance) }
}

function* faultsOfWindow(
  { accountId, used, startedAt, endsAt }: QuotaWindow,
  accounts: ReadonlySet<string>,
): Generator<Fault> {
  if (!accounts.has(accountId)) yield { expected: 'a known account', found: accountId }
  if (used < 0n) yield { expected: 'use of 0 or more', found: `${used} micro-flows` }
  if (endsAt <= startedAt) yield { expected: `an end after its beginning (${startedAt})`, found: `${endsAt}` }
}

function* faultsOfSpend({ spent }: KeySpend): Generator<Fault> {
  if (spent < 0n) yield { expected: '0 nano-USD spent or more', found: nano(spent) }
}

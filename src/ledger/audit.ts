import type { Nano } from '../money.ts'
import type {
  Balance,
  BookAccount,
  GenerationRecord,
  KeySpend,
  LedgerState,
  PostedTransfer,
  QuotaWindow,
  Store,
  Transfer,
} from '../store/store.ts'
import { LimitSums, type Fault } from './audit-limits.ts'
import { chargesOf, GENERATION_ID } from './book.ts'
import { OUTCOMES } from './outcomes.ts'
import { leastHold, ratingOf } from './recorded.ts'

/** A row that is wrong. `id`: what its table knows it by. */
export type Finding = Fault & { table: string; id: string }

/** Rows read, how many of them are wrong, and the first of those. */
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
 * What is compared with the configuration of now. `overdraft`: how far credit may be below zero; `usdPerFlow`: what a
 * flow stands for. Nano-USD.
 */
export type Terms = { overdraft: Nano; usdPerFlow: Nano }

const PAGE = 1_000

/** A list price that is never worth no flows, where a flow stands for 2 USD or less. */
const LEAST_LIST_PRICE = 1_000n

/**
 * Computes the book again from its rows, in one state of the store and in memory that does not grow with generations:
 * every bill
 * from its usage and price, every payment from its bill, every balance from its transfers, what windows and key limits
 * counted from the generations.
 */
export const audit = (store: Store, terms: Terms): Promise<Audit> =>
  store.snapshot(() => new Auditor(store, terms).run())

class Auditor {
  readonly #store: Store
  readonly #terms: Terms
  readonly #audit: Audit = {
    generations: 0,
    transfers: 0,
    balances: 0,
    windows: 0,
    spends: 0,
    wrong: 0,
    first: undefined,
  }
  readonly #tally = new Map<string, Nano>()
  /**
   * Taken back from each balance, which its server may spend in the moment before it hears of that; and what
   * generations were paid from it.
   */
  readonly #withdrawn = new Map<string, Nano>()
  readonly #paid = new Map<string, Nano>()
  #accounts: ReadonlySet<string> = new Set()

  constructor(store: Store, terms: Terms) {
    this.#store = store
    this.#terms = terms
  }

  async run(): Promise<Audit> {
    this.#accounts = new Set((await this.#store.accounts.list()).map(({ id }) => id))
    const state = await this.#store.ledger.state()
    const limits = new LimitSums(state, await this.#store.accounts.keys())
    const postings = this.#postings()
    let posting = await postings.next()
    // Both come in the order of ids, so what was posted for a generation stands beside it.
    for await (const record of this.#generations()) {
      for (; posting.done !== true && comesBefore(posting.value.reference, record.id); posting = await postings.next())
        this.#checkOperation(posting.value.transfers)
      const own = posting.done !== true && posting.value.reference === record.id ? posting.value.transfers : []
      if (own.length > 0) posting = await postings.next()
      this.#checkGeneration(record, own)
      limits.add(record)
    }
    for (; posting.done !== true; posting = await postings.next()) this.#checkOperation(posting.value.transfers)
    this.#checkBalances(state.balances)
    this.#checkLimits(state, limits)
    return this.#audit
  }

  async *#generations(): AsyncGenerator<GenerationRecord> {
    for (let after: string | undefined; ; ) {
      const page = await this.#store.ledger.generations(after, PAGE)
      yield* page
      this.#audit.generations += page.length
      after = page.at(-1)?.id
      if (page.length < PAGE) return
    }
  }

  /** All transfers of one reference at a time. */
  async *#postings(): AsyncGenerator<{ reference: string; transfers: PostedTransfer[] }> {
    let transfers: PostedTransfer[] = []
    for (let after: PostedTransfer | undefined; ; ) {
      const page = await this.#store.ledger.transfers(after, PAGE)
      for (const transfer of page) {
        this.#enter(transfer)
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

  #enter(transfer: PostedTransfer): void {
    const { debit, credit, amount, kind } = transfer
    this.#audit.transfers++
    if (kind === 'withdrawal') add(this.#withdrawn, debit, amount)
    if (kind === 'credit' || kind === 'bonus') add(this.#paid, debit, amount)
    add(this.#tally, debit, -amount)
    add(this.#tally, credit, amount)
  }

  #checkOperation(transfers: readonly PostedTransfer[]): void {
    for (const transfer of transfers) {
      const orphan = CHARGES.has(transfer.kind)
        ? [{ expected: `a generation ${transfer.reference}`, found: 'none' }]
        : []
      this.#check('transfers', idOf(transfer), [...faultsOfTransfer(transfer, this.#accounts), ...orphan])
    }
  }

  #checkGeneration(record: GenerationRecord, own: readonly PostedTransfer[]): void {
    const expected = new Map(chargesFrom(record, own).map((transfer) => [transfer.kind, inWords(transfer)]))
    for (const transfer of own) {
      const wanted = expected.get(transfer.kind) ?? `no ${transfer.kind} of this generation`
      const other = wanted === inWords(transfer) ? [] : [{ expected: wanted, found: inWords(transfer) }]
      this.#check('transfers', idOf(transfer), [...faultsOfTransfer(transfer, this.#accounts), ...other])
    }
    this.#check('generations', record.id, faultsOfGeneration(record, own, this.#accounts, this.#terms))
  }

  #checkBalances(balances: readonly Balance[]): void {
    for (const balance of balances) {
      this.#check(
        'balances',
        nameOf(balance),
        faultsOfBalance(balance, this.#tally.get(nameOf(balance)) ?? 0n, this.#leastOf(balance)),
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

  /**
   * What nobody can spend below: no more is taken back than there is, so that only what generations were paid goes
   * below 0.
   */
  #leastOf(balance: Balance): Nano | undefined {
    if (balance.kind !== 'credit' && balance.kind !== 'bonus') return undefined
    const [withdrawn, paid] = [this.#withdrawn, this.#paid].map((sums) => sums.get(nameOf(balance)) ?? 0n) as [
      Nano,
      Nano,
    ]
    const below = withdrawn + (balance.kind === 'credit' ? this.#terms.overdraft : 0n)
    return -(paid < below ? paid : below)
  }

  /** One row is wrong once, however much of it is. */
  #check(table: string, id: string, faults: Iterable<Fault>): void {
    for (const fault of faults) {
      this.#audit.wrong++
      this.#audit.first ??= { table, id, ...fault }
      return
    }
  }
}

/** Whether nothing further is posted for a generation before this one. References of operations stand anywhere. */
const comesBefore = (reference: string, id: string): boolean => reference < id || !GENERATION_ID.test(reference)

/** Kinds of transfer that only a generation posts. */
const CHARGES = new Set(['bonus', 'credit', 'write-off', 'cost'])

const nano = (amount: Nano): string => `${amount} nano-USD`
const nameOf = ({ kind, owner }: BookAccount): string => (owner === '' ? kind : `${kind} ${owner}`)
const idOf = ({ reference, kind }: PostedTransfer): string => `${reference} ${kind}`
const add = (sums: Map<string, Nano>, account: BookAccount, amount: Nano): void =>
  void sums.set(nameOf(account), (sums.get(nameOf(account)) ?? 0n) + amount)
const inWords = ({ debit, credit, amount }: Transfer): string =>
  `${nano(amount)} from ${nameOf(debit)} to ${nameOf(credit)}`
const amountOf = (transfers: readonly PostedTransfer[], kind: string): Nano =>
  transfers.find((transfer) => transfer.kind === kind)?.amount ?? 0n
const payments = (transfers: readonly PostedTransfer[]): { bonus: Nano; credit: Nano; writtenOff: Nano } => ({
  bonus: amountOf(transfers, 'bonus'),
  credit: amountOf(transfers, 'credit'),
  writtenOff: amountOf(transfers, 'write-off'),
})

/** What would be posted for a generation if the amounts that stand there are right. */
const chargesFrom = ({ accountId, kind, provider }: GenerationRecord, own: readonly PostedTransfer[]): Transfer[] =>
  chargesOf(accountId, kind === 'subscription' ? undefined : payments(own), provider, amountOf(own, 'cost'))

function* faultsOfGeneration(
  record: GenerationRecord,
  own: readonly PostedTransfer[],
  accounts: ReadonlySet<string>,
  { usdPerFlow }: Terms,
): Generator<Fault> {
  const { accountId, usage, latency, duration, retries, discount, held, bill, flows, kind, ending } = record
  if (!accounts.has(accountId)) yield { expected: 'a known account', found: accountId }
  if (!Object.hasOwn(OUTCOMES, ending))
    yield { expected: `an ending of ${Object.keys(OUTCOMES).join(', ')}`, found: ending }
  for (const [name, value] of Object.entries({ ...usage, latency, duration, retries })) {
    if (!Number.isSafeInteger(value) || value < 0) yield { expected: `${name} of 0 or more, whole`, found: `${value}` }
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

/** How many flows a list price was worth depends on settings of that day; that it was worth any does not. */
function* faultsOfFlows({ flows, bill }: GenerationRecord, usdPerFlow: Nano): Generator<Fault> {
  if (bill === 0n && flows > 0n) yield { expected: 'no flows for a list price of 0', found: `${flows} micro-flows` }
  // Half a micro-flow is rounded to none.
  const none = usdPerFlow / 2_000_000n
  if (flows === 0n && bill > (none > LEAST_LIST_PRICE ? none : LEAST_LIST_PRICE))
    yield { expected: `flows for a list price of ${nano(bill)}`, found: 'none' }
}

function* faultsOfBill(record: GenerationRecord, own: readonly PostedTransfer[]): Generator<Fault> {
  const { kind, bill, price } = record
  try {
    const rating = ratingOf(record)
    const rated = kind === 'subscription' ? rating.origin : rating.bill
    if (rated !== bill)
      yield { expected: `a bill of ${nano(rated)}, which is its usage at price ${rating.version}`, found: nano(bill) }
    const least = record.held === 0n && bill > 0n ? leastHold(record) : 0n
    if (least > 0n) yield { expected: `a hold of ${nano(least)} or more`, found: nano(0n) }
  } catch {
    yield { expected: `rates of price ${price?.version} that can be read`, found: `${price?.rates}` }
  }
  if (kind === 'subscription') return
  const { bonus, credit, writtenOff } = payments(own)
  const paid = bonus + credit + writtenOff
  if (paid !== bill) yield { expected: `transfers to revenue of ${nano(bill)}, which is its bill`, found: nano(paid) }
}

function* faultsOfTransfer({ debit, credit, amount }: PostedTransfer, accounts: ReadonlySet<string>): Generator<Fault> {
  if (amount <= 0n) yield { expected: 'an amount above 0', found: nano(amount) }
  if (nameOf(debit) === nameOf(credit)) yield { expected: 'two different accounts', found: `${nameOf(debit)} twice` }
  for (const account of [debit, credit])
    if (!isKnown(account, accounts)) yield { expected: 'known accounts', found: nameOf(account) }
}

/** Whose it is: an account's, a provider's (also one that is not configured any more), or nobody's. */
const OWNERS: Record<BookAccount['kind'], 'account' | 'provider' | 'nobody'> = {
  credit: 'account',
  bonus: 'account',
  payable: 'provider',
  outside: 'nobody',
  promotion: 'nobody',
  revenue: 'nobody',
  'write-off': 'nobody',
  cost: 'nobody',
}

function isKnown({ kind, owner }: BookAccount, accounts: ReadonlySet<string>): boolean {
  const owned = OWNERS[kind] as (typeof OWNERS)[BookAccount['kind']] | undefined
  return owned === 'account'
    ? accounts.has(owner)
    : owned === 'provider'
      ? owner !== ''
      : owned === 'nobody' && owner === ''
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

import type { KeyKind, QuotaWindowName } from '../config/terms.ts'
import type { Usage } from '../generation/usage.ts'

export type { QuotaWindowName }

/** An account of the book, which has a balance. `owner`: an account's id, a provider's id, or empty. */
export type BookAccount = {
  kind: 'credit' | 'bonus' | 'outside' | 'promotion' | 'revenue' | 'write-off' | 'cost' | 'payable'
  owner: string
}

/** True for what belongs to an account of Sluice: its credit and its bonus. */
export const isOfAccount = ({ kind }: BookAccount): boolean => kind === 'credit' || kind === 'bonus'

/**
 * A movement of money, in nano-USD, above 0. A balance is credits less debits; all balances add up to 0.
 */
export type Transfer = { kind: string; debit: BookAccount; credit: BookAccount; amount: bigint }

/**
 * A top-up, a grant or a correction. `reference`: unique, so that posting it again has no effect.
 * `covered`: refuse it if a debited account has less than the amount.
 */
export type Operation = {
  reference: string
  at: number
  note: string | null
  transfers: readonly Transfer[]
  covered?: boolean
}

/** A generation has a record already, of which nothing was changed. */
export class ClosedAlready extends Error {
  constructor(id: string) {
    super(`generation ${id} is closed already`)
  }
}

/** A `covered` operation exceeded the balance of an account it debits (nano-USD); nothing was changed. */
export class NotCovered extends Error {
  readonly balance: bigint

  constructor(balance: bigint) {
    super(`the debited account has only ${balance} nano-USD`)
    this.balance = balance
  }
}

/** An operation would make an account of the book larger than can be stored; nothing was changed. */
export class BookTooLarge extends Error {
  constructor({ kind }: Pick<BookAccount, 'kind'>) {
    super(`the ${kind} account of the book would exceed 9223372036 USD, the most it can hold; nothing was changed`)
  }
}

export type PostedTransfer = Transfer & { reference: string; at: number; note: string | null }

export type Balance = BookAccount & { balance: bigint }

/** One quota window of an account. `used`: micro-flows since `startedAt`. */
export type QuotaWindow = {
  accountId: string
  window: QuotaWindowName
  startedAt: number
  endsAt: number
  used: bigint
}

/** An account's plan. Periods are months counted from `anchor`; the current one is [`periodStart`, `periodEnd`). */
export type Subscription = {
  accountId: string
  tier: string
  anchor: number
  periodStart: number
  periodEnd: number
  /** False: at the end of the period the account falls back to the free plan. */
  renews: boolean
  /** Takes effect with the next period. */
  nextTier: string | null
  /** The command line asks the server to begin its quota windows anew. */
  resetRequested?: boolean
  /** The latest instant before its windows were begun anew at an earlier one: until then, time went twice. */
  repeatedUntil?: number
}

/** The part of its spending limit that a key has used since `since`, in nano-USD. */
export type KeySpend = { keyId: string; since: number; spent: bigint }

/** The rates of one model at one time, kept for ever. Equal rates share a row. */
export type StoredPrice = { version: string; model: string; rates: string }

/** A finished generation. Durations in milliseconds, amounts in nano-USD, flows in micro-flows. */
export type GenerationRecord = {
  /** 32 lower-case hex digits that begin with the time, without the prefix that clients see. */
  id: string
  accountId: string
  keyId: string
  kind: KeyKind
  api: string
  model: string
  /** The provider that responded, or the last one tried. */
  provider: string | null
  /** The beginning of the client's User-Agent. */
  client: string | null
  createdAt: number
  /** From the request to the first token, or to the end if there was none. */
  latency: number
  /** From the first token to the end. */
  duration: number
  streamed: boolean
  finish: string
  ending: string
  /** Attempts after the first one. */
  retries: number
  /** The outcome of each attempt as JSON, if there was more than one or it failed. */
  attempts: string | null
  /** Losses in translation between the client's and the provider's protocol: JSON of at most 4,000 characters. */
  translation: string | null
  /** The provider did not report the usage completely, so Sluice counted or bounded it. */
  estimated: boolean
  /** The way in which it was counted: `counted`, `timed` or `checkpoint`; null where the provider reported it. */
  estimation: string | null
  usage: Usage
  /** JSON of the counts that the provider reported beyond what was asked for; `usage` has what is charged for them. */
  disputed: string | null
  /** Null if the model has no price. */
  price: StoredPrice | null
  /** Basis points. */
  discount: number
  /** The amount reserved for it. */
  held: bigint
  /** Pay-as-you-go: the bill, which is the sum of its transfers to revenue. Subscription: the list price. */
  bill: bigint
  /** Subscription: the charge to the quota windows. */
  flows: bigint
}

/** All changes that one finished generation makes, in one commit. */
export type Closing = {
  record: GenerationRecord
  transfers: readonly Transfer[]
  /**
   * Each is added to the stored window if that began at the same `startedAt`. It replaces an older one, and is ignored
   * if the stored one is newer.
   */
  windows: readonly QuotaWindow[]
  /** Added to the stored value if `since` is equal; a later `since` replaces it. */
  spend: KeySpend | undefined
  /** `saveOpen` wrote it before. */
  wasOpen: boolean
}

/** A generation in flight, written so that a crash does not lose it. `state`: the ledger's own JSON. */
export type OpenGeneration = { id: string; accountId: string; state: string }

/** The part of the ledger that is kept in memory, read at the start and after another process's change. */
export type LedgerState = {
  balances: Balance[]
  windows: QuotaWindow[]
  subscriptions: Subscription[]
  spends: KeySpend[]
}

/**
 * The sums of what was removed with the records of past months, so that balances, spends and windows can still be
 * proved. `before`: the instant in the ids before which nothing is left; 0 where nothing was removed.
 */
export type Carried = {
  before: number
  /** The sum of all removed transfers of one kind between two accounts. */
  transfers: Transfer[]
  /** The sums of all removed records of one account and key. `flows`: of subscriptions. */
  usage: { accountId: string; keyId: string; bill: bigint; flows: bigint }[]
}

/** The progress of all generations in flight, in the ledger's own format. It survives a crash of the process. */
export interface ProgressStore {
  /** Replaces it. Never throws. */
  write(text: string): void
  read(): string | undefined
}

/**
 * The part of one process in a row that several share. `id`: the kind and owner of a balance, the account and
 * name of a window, a key. `isEnded`: nothing gives it back any more.
 */
export type Leased = {
  table: 'balances' | 'windows' | 'spends'
  id: string
  process: number
  amount: bigint
  isEnded: boolean
}

export interface LedgerStore {
  /**
   * The state between two commits: every write that has resolved or called `committed` is in it, no pending one is.
   * `accountIds`: only credit, bonus, plan and windows of these accounts, without what keys spent.
   */
  state(accountIds?: readonly string[]): Promise<LedgerState>
  /** `keyIds`: only those of these keys. */
  spends(keyIds?: readonly string[]): Promise<KeySpend[]>
  /**
   * Resolves when the commit is on the disk. `committed` is called earlier, as soon as `state` includes it.
   * Closing the same generation again fails with ClosedAlready and changes nothing.
   */
  closeGeneration(closing: Closing, committed?: () => void): Promise<void>
  /** Writes generations in flight, or writes them again. `isFlushed`: it survives a power cut too. */
  saveOpen(open: readonly OpenGeneration[], isFlushed: boolean): Promise<void>
  openGenerations(): Promise<OpenGeneration[]>
  findGeneration(accountId: string, id: string): Promise<GenerationRecord | undefined>
  /**
   * False, and nothing changed, if the reference has been posted. Fails with NotCovered. `also` hands writes to the
   * store that are made together with it, at each attempt.
   */
  post(operation: Operation, also?: () => readonly Promise<unknown>[]): Promise<boolean>
  /** If `before` is given, an existing subscription is replaced only if it equals `before`. */
  setSubscription(subscription: Subscription, before?: Subscription): Promise<void>
  /** Asks the server, now or at its next start, to begin the account's windows anew. False without a subscription. */
  requestReset(accountId: string): Promise<boolean>
  /** Ends the request: the subscription and all windows of its account are replaced. */
  resetWindows(subscription: Subscription, windows: readonly QuotaWindow[]): Promise<void>
  /** All leases of processes, and what they spent beyond them, for an audit. */
  leased(): Promise<Leased[]>
  /** One page of all records by id, for an audit. `after`: the last id of the page before. */
  generations(after: string | undefined, limit: number): Promise<GenerationRecord[]>
  /**
   * One page of all transfers in a stable order. The reference of a generation's transfers is the generation's id;
   * these come in the order of ids.
   */
  transfers(after: { reference: string; kind: string } | undefined, limit: number): Promise<PostedTransfer[]>
  /** Removes the records of generations before an instant with their transfers, and adds them to what is carried. */
  removeRecords(before: number): Promise<void>
  carried(): Promise<Carried>
}

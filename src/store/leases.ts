import type { LimitPeriod, QuotaWindowName } from '../config/terms.ts'
import type { OpenGeneration } from './ledger.ts'

/**
 * The part of an account's money that this process may spend without asking: it is taken out of what all processes
 * share, so that the parts of all processes and what is left never exceed the balance. Nano-USD.
 */
export type FundsLease = {
  credit: bigint
  bonus: bigint
  /** Leased by other processes. */
  elsewhere: bigint
}

/** A quota window in force. `granted`: micro-flows that were leased now; `free`: those that no process has leased. */
export type WindowLease = {
  window: QuotaWindowName
  startedAt: number
  endsAt: number
  granted: bigint
  elsewhere: bigint
  free: bigint
}

/** The terms of an account's windows: micro-flows allowed, and the instants of one that begins now. */
export type WindowTerms = { window: QuotaWindowName; limit: bigint; startsAt: number; endsAt: number }

/** Nano-USD leased of a key's spending limit, in the period that began at `since`. */
export type BudgetLease = { since: number; granted: bigint; elsewhere: bigint }

/** The terms of a key's limit: nano-USD in the period that began at `since`. */
export type BudgetTerms = { keyId: string; since: number; limit: bigint; period: LimitPeriod | null }

/** The least that a request needs, and all that is wanted. Where the least is not free, all that is free is leased. */
export type Wanted = { least: bigint; most: bigint }

/** Permits of one lease that were not used in time, and the time at which they were given. */
export type UnusedPermits = { at: number; permits: number }

/**
 * Permits that a key at an endpoint needs, and wants; those that it used without a question before, and those that it
 * did not use. `endpoint`: a route, or an endpoint of a model with an empty `keyId`.
 */
export type WantedPermits = {
  keyId: string
  endpoint: string
  limit: number
  least: number
  most: number
  spent: number
  unused: readonly UnusedPermits[]
}

/**
 * `at`: the store's time from which they count. `usableMs`: from the moment of the question. `waitMs`: until as many
 * are left as are needed, where none was granted.
 */
export type PermitLease = { granted: number; at: number; usableMs: number; waitMs: number }

/** Slots that a process has and asks for. `call`: its number, later ones are higher; `held`: those that it has. */
export type WantedSlots = { owner: string; call: number; held: number; limit: number; least: number; most: number }

/** `elsewhere`: those that other processes have. */
export type SlotLease = { granted: number; elsewhere: number }

/** The money or the quota windows of an account, or the spending limit of a key. */
export type LeaseKind = 'funds' | 'windows' | 'budget'

/** Micro-flows of a window that go back. */
export type ReturnedWindow = {
  accountId: string
  window: QuotaWindowName
  startedAt: number
  endsAt: number
  flows: bigint
}

/** Leases that go back. Amounts as they were leased. */
export type ReturnedLeases = {
  funds: { accountId: string; credit: bigint; bonus: bigint }[]
  windows: ReturnedWindow[]
  budgets: { keyId: string; since: number; amount: bigint }[]
}

/** The things that a process which has ended left to this one: its leases, and the generations that they pay for. */
export type Inheritance = ReturnedLeases & {
  generations: OpenGeneration[]
  /** The progress of these generations, as the process wrote it last (`ProgressStore`). */
  progress: string | undefined
}

/** The store of several processes: who is alive, and what each of them may spend. */
export interface LeaseStore {
  funds(accountId: string, wanted: Wanted): Promise<FundsLease>
  windows(accountId: string, terms: readonly WindowTerms[], now: number, wanted: Wanted): Promise<WindowLease[]>
  budget(terms: BudgetTerms, wanted: Wanted): Promise<BudgetLease>
  /**
   * Permits of which no minute has more than the limit: at least as many as are needed, or none; fewer beyond that as
   * fewer are left.
   */
  permits(wanted: WantedPermits): Promise<PermitLease>
  /**
   * Slots among those of an owner of which `limit` may be used at the same time. With fewer `held` than before, the
   * others go back.
   */
  slots(wanted: WantedSlots): Promise<SlotLease>
  /** False where they stay leased. Rejects where that is not known. */
  giveBack(returned: ReturnedLeases): Promise<boolean>
  /** Gives back all of one kind that the store has as leased by this process. `owner`: the account or key. */
  giveBackAll(kind: LeaseKind, owner: string): Promise<void>
  /** Asks the other processes to give back what no request of theirs holds. `owner`: of money or of slots. */
  reclaim(owner: string): Promise<void>
  /** Calls the listener where another process asks. */
  onReclaim(listener: (owner: string) => void): void

  /** False where the store has not confirmed for too long that this process is alive: nothing may be begun. */
  readonly isAlive: boolean
  /** Asks the store at once, as after a pause of this process, and resolves to `isAlive`. */
  confirm(): Promise<boolean>
  /** Calls the listener once, when other processes have declared this one dead. */
  onFenced(listener: () => void): void
  /**
   * Generations that other processes have open, as they wrote them last: the newest first, those before an id.
   * `accountIds`: only those of these accounts.
   */
  openElsewhere(before: string, limit: number, accountIds?: readonly string[]): Promise<OpenGeneration[]>
  /** One of them. */
  openOne(id: string): Promise<OpenGeneration | undefined>

  /** Takes over from a process that has ended; undefined where there is none. */
  inherit(): Promise<Inheritance | undefined>
}

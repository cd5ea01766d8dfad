import type { LimitPeriod } from '../config/terms.ts'
import { GatewayError } from '../error.ts'
import { usdText } from '../money.ts'
import type { BudgetLease } from '../store/leases.ts'
import type { KeySpend } from '../store/store.ts'
import { standingStill } from './clock.ts'

const DAY_MS = 86_400_000
/** The first Monday after the Unix epoch, which was a Thursday. */
const FIRST_MONDAY = 4 * DAY_MS

/** Nano-USD that a key may spend in each calendar period (UTC), or in total where `period` is null. */
export type KeyLimit = { amount: bigint; period: LimitPeriod | null }

/** Nano-USD held for one request of a key, in the period that began at `since`. */
export type BudgetHold = { keyId: string; since: number; amount: bigint }

/**
 * `elapsedMs`: the time that had passed when it began, or was loaded. With several processes, `leased` is what this one
 * may spend of the limit, less what it has spent.
 */
type Spend = { since: number; spent: bigint; held: bigint; elapsedMs: number; leased?: bigint; elsewhere?: bigint }

/** The use of keys' spending limits, in memory. A key never goes back to an earlier period, whatever the clock says. */
export class Budgets {
  readonly #spends: Map<string, Spend>
  readonly #open = new WeakSet<BudgetHold>()
  /** The use of the limit in the period of each hold, which may be over. */
  readonly #ofHolds = new WeakMap<BudgetHold, Spend>()
  readonly #elapsed: () => number
  readonly #isLeased: boolean

  /** `spends`: the stored rows of all keys; `elapsed`: see `Clock`. `isLeased`: several processes share the limits. */
  constructor(spends: readonly KeySpend[], elapsed: () => number = standingStill, isLeased = false) {
    this.#elapsed = elapsed
    this.#isLeased = isLeased
    const elapsedMs = elapsed()
    this.#spends = new Map(spends.map(({ keyId, since, spent }) => [keyId, { since, spent, held: 0n, elapsedMs }]))
  }

  /** Nano-USD of a key's limit that a hold may use. */
  left(keyId: string, limit: KeyLimit, now: number): bigint {
    return this.#leftOf(this.#current(keyId, limit, now), limit)
  }

  /** Nano-USD by which a hold may grow: of the limit in its own period, also where that is over. */
  leftFor(hold: BudgetHold, limit: KeyLimit): bigint {
    return this.#leftOf(this.#ofHolds.get(hold)!, limit)
  }

  /** True for a hold of a period that is over, of which nothing more can be leased. */
  isOver(hold: BudgetHold): boolean {
    return this.#spends.get(hold.keyId) !== this.#ofHolds.get(hold)
  }

  #leftOf({ spent, held, leased = 0n }: Spend, { amount }: KeyLimit): bigint {
    return (this.#isLeased ? leased : amount - spent) - held
  }

  /** The beginning of the period in force. */
  since(keyId: string, limit: KeyLimit, now: number): number {
    return this.#current(keyId, limit, now).since
  }

  /** True where nothing of a key's limit is held in its latest period. */
  isIdle(keyId: string): boolean {
    return (this.#spends.get(keyId)?.held ?? 0n) === 0n
  }

  /** Adds what this process has leased of a key's limit, in the period that began at `since`. */
  lease(keyId: string, { since, granted, elsewhere }: BudgetLease): void {
    const last = this.#spends.get(keyId)
    if (last !== undefined && last.since > since) return
    const current = last?.since === since ? last : { since, spent: 0n, held: 0n, elapsedMs: this.#elapsed() }
    this.#spends.set(keyId, Object.assign(current, { leased: (current.leased ?? 0n) + granted, elsewhere }))
  }

  /** Takes out what is leased of a key's limit and not held, but for `kept` nano-USD; undefined where there is none. */
  giveBack(keyId: string, kept: bigint): { keyId: string; since: number; amount: bigint } | undefined {
    const current = this.#spends.get(keyId)
    const amount = (current?.leased ?? 0n) - (current?.held ?? 0n) - kept
    if (current === undefined || amount <= 0n) return undefined
    current.leased! -= amount
    return { keyId, since: current.since, amount }
  }

  /**
   * Throws insufficient_credit (402) where the key's limit has less than `amount` nano-USD left; changes nothing.
   * `advice`: a sentence on what to request instead, given the nano-USD that are.
   */
  check(keyId: string, limit: KeyLimit, amount: bigint, now: number, advice: (left: bigint) => string): void {
    const current = this.#current(keyId, limit, now)
    const left = this.#leftOf(current, limit)
    if (amount <= 0n || amount <= left) return
    const { period } = limit
    const { since, elsewhere = 0n } = current
    const held = current.held + elsewhere
    const holds = held === 0n ? '' : ` ($${usdText(held)} is held by requests in flight)`
    const reset =
      period === null
        ? 'The limit does not reset; it has to be raised.'
        : `The limit resets at ${new Date(periodEnd(since, period)).toISOString()}.`
    throw new GatewayError(
      'insufficient_credit',
      `This request holds $${usdText(amount)}, and $${usdText(left < 0n ? 0n : left)} is left of this key's ` +
        `limit of $${usdText(limit.amount)}${period === null ? '' : ` per ${period}`}${holds}. ` +
        `${advice(left < 0n ? 0n : left)} ${reset}`,
    )
  }

  /** Holds nano-USD of a key's limit, after `check` in the same turn. */
  hold(keyId: string, limit: KeyLimit, amount: bigint, now: number): BudgetHold {
    const current = this.#current(keyId, limit, now)
    current.held += amount
    this.#spends.set(keyId, current)
    const hold = { keyId, since: current.since, amount }
    this.#open.add(hold)
    this.#ofHolds.set(hold, current)
    return hold
  }

  /** Holds more, in the period of the hold. */
  grow(hold: BudgetHold, amount: bigint): void {
    hold.amount += amount
    this.#ofHolds.get(hold)!.held += amount
  }

  /**
   * Ends a hold. What was spent counts in the hold's period and may exceed the hold. Gives the row to add to the store.
   * Throws an Error for a hold that is not open.
   */
  settle(hold: BudgetHold, used: bigint): KeySpend {
    if (!this.#open.delete(hold)) throw new Error('This hold of a spending limit is not open.')
    const { keyId, since, amount } = hold
    const spend = this.#ofHolds.get(hold)!
    spend.held -= amount
    use(spend, used)
    return { keyId, since, spent: used }
  }

  /** Reverts `settle`, for a settlement that the store did not take: the hold is open again. */
  revert(hold: BudgetHold, used: bigint): void {
    this.#open.add(hold)
    const spend = this.#ofHolds.get(hold)!
    spend.held += hold.amount
    use(spend, -used)
  }

  /** Restores a hold that a crash left open. */
  restore(hold: BudgetHold): void {
    this.#open.add(hold)
    const { keyId, since, amount } = hold
    const current = this.#spends.get(keyId)
    const isCurrent = current?.since === since
    const spend = isCurrent ? current : { since, spent: 0n, held: 0n, elapsedMs: this.#elapsed() }
    spend.held += amount
    this.#ofHolds.set(hold, spend)
    if (!isCurrent && (current === undefined || current.since < since)) this.#spends.set(keyId, spend)
  }

  /** Nano-USD settled in the current period, without holds. */
  spent(keyId: string, limit: KeyLimit, now: number): bigint {
    return this.#current(keyId, limit, now).spent
  }

  /** The end of the current period; null where the limit does not reset. */
  periodEnd(keyId: string, limit: KeyLimit, now: number): number | null {
    return limit.period === null ? null : periodEnd(this.#current(keyId, limit, now).since, limit.period)
  }

  #current(keyId: string, { period }: KeyLimit, now: number): Spend {
    const last = this.#spends.get(keyId)
    const elapsedMs = this.#elapsed()
    // A period of a time that is not yet ends after its own length.
    const at = last === undefined ? now : Math.max(now, last.since + Math.floor(elapsedMs - last.elapsedMs))
    const since = period === null ? 0 : periodStart(at, period)
    return last === undefined || last.since < since ? { since, spent: 0n, held: 0n, elapsedMs } : last
  }
}

function use(spend: Spend, used: bigint): void {
  spend.spent += used
  if (spend.leased !== undefined) spend.leased -= used
}

function periodStart(now: number, period: LimitPeriod): number {
  if (period === 'month') return Date.UTC(new Date(now).getUTCFullYear(), new Date(now).getUTCMonth())
  const day = now - (now % DAY_MS)
  return period === 'day' ? day : day - ((day - FIRST_MONDAY) % (7 * DAY_MS))
}

function periodEnd(since: number, period: LimitPeriod): number {
  if (period === 'month') return Date.UTC(new Date(since).getUTCFullYear(), new Date(since).getUTCMonth() + 1)
  return since + (period === 'day' ? 1 : 7) * DAY_MS
}

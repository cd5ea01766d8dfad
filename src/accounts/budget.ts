import type { LimitPeriod } from '../config/terms.ts'
import { GatewayError } from '../error.ts'
import { usdText } from '../money.ts'
import type { KeySpend } from '../store/store.ts'

const DAY_MS = 86_400_000
/** The first Monday of Unix time; its first day was a Thursday. */
const FIRST_MONDAY = 4 * DAY_MS

/** Nano-USD that a key may spend in each calendar period (UTC), or in all where there is none. */
export type KeyLimit = { amount: bigint; period: LimitPeriod | null }

/** Nano-USD kept free for one request of a key, in the period that began at `since`. */
export type BudgetHold = { keyId: string; since: number; amount: bigint }

type Spend = { since: number; spent: bigint; held: bigint }

/**
 * What keys have spent of their limits, in memory. A period that has begun is never left for an earlier one, whatever
 * the clock says.
 */
export class Budgets {
  readonly #spends: Map<string, Spend>
  readonly #open = new Set<BudgetHold>()

  /** `spends`: the stored rows of all keys. */
  constructor(spends: readonly KeySpend[]) {
    this.#spends = new Map(spends.map(({ keyId, since, spent }) => [keyId, { since, spent, held: 0n }]))
  }

  /** Throws GatewayError insufficient_credit where so many nano-USD are not left of the key's limit; counts nothing. */
  check(keyId: string, limit: KeyLimit, amount: bigint, now: number): void {
    const { since, spent, held } = this.#current(keyId, limit, now)
    const left = limit.amount - spent - held
    if (amount <= 0n || amount <= left) return
    const running = held === 0n ? '' : `, and $${usdText(held)} is held by requests under way`
    const resets =
      limit.period === null
        ? 'It does not reset: it has to be raised.'
        : `It resets at ${new Date(periodEnd(since, limit.period)).toISOString()}.`
    throw new GatewayError(
      'insufficient_credit',
      `This request may cost up to $${usdText(amount)}, and $${usdText(left < 0n ? 0n : left)} is left of the $${usdText(limit.amount)} that this key may spend${limit.period === null ? '' : ` in a ${limit.period}`}${running}. ${resets}`,
    )
  }

  /** Holds nano-USD of a key's limit, after `check` in the same turn. */
  hold(keyId: string, limit: KeyLimit, amount: bigint, now: number): BudgetHold {
    const current = this.#current(keyId, limit, now)
    current.held += amount
    this.#spends.set(keyId, current)
    const hold = { keyId, since: current.since, amount }
    this.#open.add(hold)
    return hold
  }

  /**
   * Ends a hold, once: a second time is refused with an Error. What was spent, which may be more than was held, counts
   * in the hold's own period. Gives what to add to the store.
   */
  settle(hold: BudgetHold, used: bigint): KeySpend {
    if (!this.#open.delete(hold)) throw new Error('This hold of a spending limit has ended before, or was never taken.')
    const { keyId, since, amount } = hold
    const current = this.#spends.get(keyId)
    if (current?.since === since) {
      current.held -= amount
      current.spent += used
    }
    return { keyId, since, spent: used }
  }

  /** The other way round, for what the store did not take: the hold is open again. */
  revert(hold: BudgetHold, used: bigint): void {
    this.#open.add(hold)
    const current = this.#spends.get(hold.keyId)
    if (current?.since !== hold.since) return
    current.held += hold.amount
    current.spent -= used
  }

  /** Puts back a hold that a crash left open, so that it can be settled. */
  restore(hold: BudgetHold): void {
    this.#open.add(hold)
    const { keyId, since, amount } = hold
    const current = this.#spends.get(keyId)
    if (current?.since === since) current.held += amount
    else if (current === undefined || current.since < since) this.#spends.set(keyId, { since, spent: 0n, held: amount })
  }

  /** Nano-USD settled in the present period, without what is held. */
  spent(keyId: string, limit: KeyLimit, now: number): bigint {
    return this.#current(keyId, limit, now).spent
  }

  #current(keyId: string, { period }: KeyLimit, now: number): Spend {
    const since = period === null ? 0 : periodStart(now, period)
    const last = this.#spends.get(keyId)
    return last === undefined || last.since < since ? { since, spent: 0n, held: 0n } : last
  }
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

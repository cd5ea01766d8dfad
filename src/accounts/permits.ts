import { Deadline, deadlines, within } from '../deadlines.ts'
import type { LeaseStore, UnusedPermits } from '../store/leases.ts'
import { ANSWER_MS, unanswered } from './unanswered.ts'

/** Permits are leased for what is used in this time. */
const PACE_MS = 1_000
/** Counters that were unused for so long are dropped. */
const IDLE_MS = 120_000
/** Permits that stay unused go back by a question of their own where they are a larger part of the limit. */
const SMALL_PART = 1 / 100
/** The time after which what was used is reported again to a store that did not answer. */
const REPORT_AGAIN_MS = 1_000

/** The owner of a limit per minute: a key at a route, or an endpoint of a model, without a key. */
export type Limited = { keyId: string; endpoint: string; limit: number }

/**
 * Permits of this process for limits per minute that several processes share: each takes them in small numbers, which
 * count for a minute from their time. Those that were not used go back.
 */
export class Permits {
  readonly #store: Pick<LeaseStore, 'permits'>
  readonly #now: () => number
  readonly #answerMs: number
  readonly #counters = new Map<string, Counter>()
  #sweepAt: number

  /** `now`: a monotonic clock in milliseconds. `answerMs`: the longest wait for an answer, which counts later, too. */
  constructor(
    store: Pick<LeaseStore, 'permits'>,
    now: () => number = () => performance.now(),
    answerMs: number = ANSWER_MS,
  ) {
    this.#store = store
    this.#now = now
    this.#answerMs = answerMs
    this.#sweepAt = now() + IDLE_MS
  }

  /** True where this process has so many. */
  has(limited: Limited, amount: number): boolean {
    return this.#counterOf(limited).has(amount)
  }

  /** Uses so many of those that this process has; false where it has to lease more. */
  take(limited: Limited, amount: number): boolean {
    return this.#counterOf(limited).take(amount)
  }

  /**
   * Leases so many, at most as many as the limit, and uses them. Resolves to 0, or to the milliseconds after which so
   * many are left; rejects where the store does not answer.
   */
  lease(limited: Limited, amount: number): Promise<number> {
    return this.#counterOf(limited).lease(amount)
  }

  /** Counts what was used without a question: what this process has no permits for is reported to the store. */
  count(limited: Limited, amount: number): void {
    this.#counterOf(limited).count(amount)
  }

  #counterOf({ keyId, endpoint, limit }: Limited): Counter {
    const now = this.#now()
    if (now > this.#sweepAt) this.#sweep(now)
    const name = `${endpoint} ${keyId}`
    let counter = this.#counters.get(name)
    if (counter === undefined)
      this.#counters.set(name, (counter = new Counter(this.#store, { keyId, endpoint }, this.#now, this.#answerMs)))
    counter.limit = limit
    return counter
  }

  #sweep(now: number): void {
    this.#sweepAt = now + IDLE_MS
    for (const [name, counter] of this.#counters) if (counter.isIdle(now)) this.#counters.delete(name)
  }
}

/** Permits of one lease. `at`: the store's time from which they count. */
type Lot = { at: number; left: number; usableUntil: number }

/** The answer to a question for `amount`, of which this process may have had a part. */
type Answer = { waitMs: number; amount: number }

/** The permits of one owner. One question to the store is under way at a time; those who wait share its answer. */
class Counter {
  limit = 0
  readonly #store: Pick<LeaseStore, 'permits'>
  readonly #owner: Omit<Limited, 'limit'>
  readonly #now: () => number
  readonly #answerMs: number
  /** The end of the last lot, or the time of another report. */
  readonly #deadline = new Deadline(this)
  #asking: Promise<Answer> | undefined
  /** The oldest first. */
  readonly #lots: Lot[] = []
  #unused: UnusedPermits[] = []
  /** Used without permits, and not reported. */
  #spent = 0
  /** Permits of the last lease. */
  #granted = 0
  /** Used, or asked for, in this span of time and in the one before. */
  #used = { now: 0, before: 0 }
  #spanEndsAt = 0

  constructor(store: Pick<LeaseStore, 'permits'>, owner: Omit<Limited, 'limit'>, now: () => number, answerMs: number) {
    this.#store = store
    this.#owner = owner
    this.#now = now
    this.#answerMs = answerMs
  }

  has(amount: number): boolean {
    this.#expire()
    return this.#left >= amount
  }

  take(amount: number): boolean {
    if (!this.#use(amount)) return false
    this.#measure(amount)
    // Near the limit permits come for one request at a time, and none is taken that may stay unused.
    if (this.#granted >= 4 * amount && this.#left * 4 < this.#pace) this.#fetch(0, this.#pace).catch(() => {})
    return true
  }

  async lease(amount: number): Promise<number> {
    this.#measure(amount)
    for (;;) {
      if (this.#use(amount)) return 0
      const ahead = Math.max(this.#used.now - amount, this.#used.before)
      const answer = await this.#fetch(amount, ahead)
      // A refusal of more than this says nothing.
      if (answer.waitMs > 0 && answer.amount <= amount) return this.#use(amount) ? 0 : answer.waitMs
    }
  }

  count(amount: number): void {
    this.#measure(amount)
    this.#expire()
    const covered = Math.min(amount, this.#left)
    this.#use(covered)
    this.#spent += amount - covered
    if (this.#spent > 0) this.#report()
  }

  /** Gives back what was not used in time, and reports again what could not be reported. */
  onDeadline(): void {
    this.#expire()
    const unused = this.#unused.reduce((sum, { permits }) => sum + permits, 0)
    if (unused > this.limit * SMALL_PART || this.#spent > 0) this.#report()
  }

  isIdle(now: number): boolean {
    return this.#asking === undefined && this.#spent === 0 && now > this.#spanEndsAt + IDLE_MS
  }

  get #left(): number {
    return this.#lots.reduce((sum, { left }) => sum + left, 0)
  }

  /** The amount of a second. */
  get #pace(): number {
    return Math.max(this.#used.now, this.#used.before)
  }

  #use(amount: number): boolean {
    if (!this.has(amount)) return false
    for (let missing = amount; missing > 0; ) {
      const lot = this.#lots[0]!
      const taken = Math.min(missing, lot.left)
      lot.left -= taken
      missing -= taken
      if (lot.left === 0) this.#lots.shift()
    }
    return true
  }

  #expire(): void {
    const now = this.#now()
    while (this.#lots.length > 0 && this.#lots[0]!.usableUntil <= now) {
      const { at, left } = this.#lots.shift()!
      this.#unused.push({ at, permits: left })
    }
  }

  #report(): void {
    this.#fetch(0, 0).catch(() => {})
  }

  #fetch(amount: number, ahead: number): Promise<Answer> {
    this.#asking ??= within(this.#ask(amount, ahead), this.#answerMs, unanswered).then(
      (answer) => {
        this.#asking = undefined
        if (this.#spent > 0) this.#report()
        return answer
      },
      (error: unknown) => {
        this.#asking = undefined
        throw error
      },
    )
    return this.#asking
  }

  async #ask(amount: number, ahead: number): Promise<Answer> {
    this.#expire()
    const [askedAt, spent, unused] = [this.#now(), this.#spent, this.#unused]
    const least = Math.max(0, amount - this.#left)
    // Unused permits whose return was not answered stay counted: they must not go back twice.
    this.#spent = 0
    this.#unused = []
    try {
      const wanted = { ...this.#owner, limit: this.limit, least, most: least + ahead, spent, unused }
      const { granted, at, usableMs, waitMs } = await this.#store.permits(wanted)
      if (least + ahead > 0) this.#granted = granted
      if (granted > 0) this.#lots.push({ at, left: granted, usableUntil: askedAt + usableMs })
      if (granted > this.limit * SMALL_PART) deadlines.set(this.#deadline, usableMs)
      return { waitMs, amount }
    } catch (error) {
      this.#spent += spent
      if (this.#spent > 0) deadlines.setWithin(this.#deadline, REPORT_AGAIN_MS)
      throw error
    }
  }

  #measure(amount: number): void {
    const now = this.#now()
    if (now >= this.#spanEndsAt) {
      const isNext = now < this.#spanEndsAt + PACE_MS
      this.#used = { now: 0, before: isNext ? this.#used.now : 0 }
      this.#spanEndsAt = now + PACE_MS
    }
    this.#used.now += amount
  }
}

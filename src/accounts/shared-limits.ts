import type { PermitLease } from '../store/leases.ts'
import type { Store } from '../store/store.ts'
import { Limits, type RateLimits, tooManyRequests } from './limits.ts'

/** Permits are leased for what a key asks in this time. */
const PACE_MS = 1_000
/** Counters that were unused for so long are dropped. */
const IDLE_MS = 120_000

/** `permits`: leases at most so many permits of a key at an endpoint, at least one where the limit has one left. */
type Permits = (keyId: string, endpoint: string, limit: number, wanted: number) => Promise<PermitLease>

/** The limits of one process, or those that several share. */
export const limitsOf = ({ leases }: Pick<Store, 'leases'>): RateLimits =>
  leases === undefined ? new Limits() : new SharedLimits((...wanted) => leases.permits(...wanted))

/**
 * Rate limits that several processes share, as exact as those of one: each takes permits in small numbers, which count
 * for a minute from their time, used or not. Where none is left here, a request waits for the store.
 */
class SharedLimits implements RateLimits {
  readonly #permits: Permits
  readonly #counters = new Map<string, Counter>()
  #sweepAt = performance.now() + IDLE_MS

  constructor(permits: Permits) {
    this.#permits = permits
  }

  checkRateLimit(keyId: string, endpoint: string, limit: number | undefined, path = endpoint): Promise<void> | void {
    if (limit === undefined) return
    const now = performance.now()
    if (now > this.#sweepAt) this.#sweep(now)
    const name = `${endpoint} ${keyId}`
    let counter = this.#counters.get(name)
    if (counter === undefined) this.#counters.set(name, (counter = new Counter()))
    if (counter.take(now)) {
      if (counter.needsMore) this.#fetch(counter, keyId, endpoint, limit).catch(() => {})
      return
    }
    return this.#wait(counter, keyId, endpoint, limit, path)
  }

  async #wait(counter: Counter, keyId: string, endpoint: string, limit: number, path: string): Promise<void> {
    for (;;) {
      const { waitMs } = await this.#fetch(counter, keyId, endpoint, limit)
      if (counter.take(performance.now(), true)) return
      if (waitMs > 0) throw tooManyRequests(limit, path, waitMs)
    }
  }

  /** One request to the store for a counter at a time; those who wait share its answer. */
  #fetch(counter: Counter, keyId: string, endpoint: string, limit: number): Promise<PermitLease> {
    counter.fetching ??= (async () => {
      const askedAt = performance.now()
      try {
        const lease = await this.#permits(keyId, endpoint, limit, counter.wanted)
        counter.add(lease.granted, askedAt + lease.usableMs)
        return lease
      } finally {
        counter.fetching = undefined
      }
    })()
    return counter.fetching
  }

  #sweep(now: number): void {
    this.#sweepAt = now + IDLE_MS
    for (const [name, counter] of this.#counters) if (counter.isIdle(now)) this.#counters.delete(name)
  }
}

/** The permits of one key at one endpoint. */
class Counter {
  fetching: Promise<PermitLease> | undefined
  #left = 0
  #usableUntil = 0
  /** The lease that was fetched ahead of need. */
  #next: { granted: number; usableUntil: number } | undefined
  /** Permits of the last lease. */
  #granted = 0
  /** Requests of this span of time, and of the one before. */
  #asked = { now: 0, before: 0 }
  #spanEndsAt = 0

  /** Uses one permit; false where none is left. `isCounted`: this request was counted before. */
  take(now: number, isCounted = false): boolean {
    if (!isCounted) this.#count(now)
    if (this.#isUsedUp(now) && this.#next !== undefined) {
      this.#left = this.#next.granted
      this.#usableUntil = this.#next.usableUntil
      this.#next = undefined
    }
    if (this.#isUsedUp(now)) return false
    this.#left -= 1
    return true
  }

  #isUsedUp(now: number): boolean {
    return this.#left === 0 || now >= this.#usableUntil
  }

  add(granted: number, usableUntil: number): void {
    this.#granted = granted
    if (!this.#isUsedUp(performance.now())) this.#next = { granted, usableUntil }
    else {
      this.#left = granted
      this.#usableUntil = usableUntil
    }
  }

  /** Permits that this key uses in a second, and one more. */
  get wanted(): number {
    return 1 + Math.max(this.#asked.now, this.#asked.before)
  }

  /** True where a request that comes soon would have to wait. */
  get needsMore(): boolean {
    // Near the limit permits come one at a time, and none is taken that may stay unused.
    if (this.fetching !== undefined || this.#next !== undefined || this.#granted < 4) return false
    return this.#left * 4 < this.wanted
  }

  isIdle(now: number): boolean {
    return this.fetching === undefined && now > this.#spanEndsAt + IDLE_MS
  }

  #count(now: number): void {
    if (now >= this.#spanEndsAt) {
      const isNext = now < this.#spanEndsAt + PACE_MS
      this.#asked = { now: 0, before: isNext ? this.#asked.now : 0 }
      this.#spanEndsAt = now + PACE_MS
    }
    this.#asked.now += 1
  }
}

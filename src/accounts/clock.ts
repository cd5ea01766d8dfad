/** `now`: Unix milliseconds; `elapsed`: milliseconds that pass at their own pace, however the clock is set. */
export type Clock = { now(): number; elapsed(): number }

/** A difference that counts as drift, which is followed at once, either way. */
const DRIFT_MS = 1_000
/** A clock that was set forward counts once it has kept its new time for so long. */
const LASTING_MS = 60_000

/**
 * The time of the system or of the store, as limits may rely on it: it never goes back, and does not follow a clock
 * that is wrong for a moment. Behind a clock that was set back, time passes on at its own pace.
 */
export class SteadyClock implements Clock {
  readonly elapsed: () => number
  readonly #system: () => number
  #now: number
  #elapsedAt: number
  /** The difference of a clock that was set forward, and the time at which it was first seen. */
  #ahead: { byMs: number; sinceMs: number } | undefined

  constructor(system: () => number = Date.now, elapsed: () => number = () => performance.now()) {
    this.#system = system
    this.elapsed = elapsed
    this.#now = system()
    this.#elapsedAt = elapsed()
  }

  readonly now = (): number => {
    const [system, elapsed] = [this.#system(), this.elapsed()]
    const passed = Math.floor(elapsed - this.#elapsedAt)
    const ahead = system - this.#now - passed
    if (ahead <= DRIFT_MS) this.#ahead = undefined
    if (ahead < -DRIFT_MS || (ahead > DRIFT_MS && !this.#isLasting(ahead, elapsed))) {
      this.#now += passed
      this.#elapsedAt += passed
    } else {
      // Behind one that drifted back, it stops until that has caught up.
      this.#now = Math.max(this.#now, system)
      this.#elapsedAt = elapsed
    }
    return this.#now
  }

  #isLasting(byMs: number, elapsed: number): boolean {
    if (this.#ahead === undefined || Math.abs(byMs - this.#ahead.byMs) > DRIFT_MS)
      this.#ahead = { byMs, sinceMs: elapsed }
    return elapsed - this.#ahead.sinceMs >= LASTING_MS
  }
}

/** A request counts at the time at which it began to arrive. */
const ARRIVING_MS = 300_000

/**
 * The latest instant seen of a clock. While the clock is behind it, as after a restart with another time, it goes on at
 * its own pace: what began at that instant ends after its own length.
 */
export class LatestInstant {
  readonly #elapsed: () => number
  #seen: number
  #elapsedAt: number

  constructor(seen: number, elapsed: () => number) {
    this.#elapsed = elapsed
    this.#seen = seen
    this.#elapsedAt = elapsed()
  }

  at(now: number): number {
    const elapsed = this.#elapsed()
    const expected = this.#seen + Math.floor(elapsed - this.#elapsedAt)
    if (now < this.#seen || now < expected - ARRIVING_MS) return expected
    this.#seen = now
    this.#elapsedAt = elapsed
    return now
  }
}

/** For a `LatestInstant` that stays where it is until the clock has caught up. */
export const standingStill = (): number => 0

/** Statistics in which old values count less: half as much after each half-life. Time is in milliseconds. */

/** A sum that decays. */
export class DecayingSum {
  readonly #halfLifeMs: number
  #value = 0
  #at = 0

  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs
  }

  add(value: number, now: number): void {
    this.#value = this.of(now) + value
    this.#at = now
  }

  clear(): void {
    this.#value = 0
  }

  of(now: number): number {
    const age = now - this.#at
    return age <= 0 || this.#value === 0 ? this.#value : this.#value * 2 ** (-age / this.#halfLifeMs)
  }
}

/** Each bucket is a quarter longer than the one before: from 1 ms to 20 minutes. */
const GROWTH = Math.log(1.25)
const BUCKETS = 64

/** The weight of new values grows instead of that of all old ones shrinking; rescaled before it loses precision. */
const LARGEST_WEIGHT = 2 ** 40

/** Quantiles of durations that decay, within an eighth, in constant memory. */
export class DecayingQuantiles {
  readonly #halfLifeMs: number
  readonly #weights = new Float64Array(BUCKETS)
  #total = 0
  /** The time at which a new value has weight 1. */
  #epoch = 0

  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs
  }

  add(ms: number, now: number): void {
    let weight = 2 ** ((now - this.#epoch) / this.#halfLifeMs)
    if (weight > LARGEST_WEIGHT || this.#total === 0) {
      for (let index = 0; index < BUCKETS; index++) this.#weights[index]! /= weight
      this.#total /= weight
      this.#epoch = now
      weight = 1
    }
    const bucket = ms <= 1 ? 0 : Math.min(BUCKETS - 1, Math.floor(Math.log(ms) / GROWTH))
    this.#weights[bucket]! += weight
    this.#total += weight
  }

  /** The number of values, decayed. */
  count(now: number): number {
    return this.#total / 2 ** ((now - this.#epoch) / this.#halfLifeMs)
  }

  /** The duration that this share of the values does not exceed; undefined without values. */
  quantile(share: number): number | undefined {
    if (this.#total === 0) return undefined
    let left = this.#total * share
    for (let index = 0; index < BUCKETS; index++) {
      left -= this.#weights[index]!
      if (left <= 0) return Math.exp((index + 0.5) * GROWTH)
    }
    return Math.exp((BUCKETS - 0.5) * GROWTH)
  }
}

/** Events of the last minute, estimated from the count of this minute and of the one before. */
export class PerMinute {
  #minute = 0
  #count = 0
  #before = 0

  add(count: number, now: number): void {
    this.#turn(now)
    this.#count += count
  }

  of(now: number): number {
    this.#turn(now)
    return this.#count + this.#before * (1 - (now % 60_000) / 60_000)
  }

  #turn(now: number): void {
    const minute = Math.floor(now / 60_000)
    if (minute === this.#minute) return
    this.#before = minute === this.#minute + 1 ? this.#count : 0
    this.#count = 0
    this.#minute = minute
  }
}

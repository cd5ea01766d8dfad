const SECONDS = 10

/**
 * Retries that one provider gets: a share of the requests of the last ten seconds, and so many per second. It keeps a
 * storm of failures from doubling.
 */
export class RetryBudget {
  readonly #share: number
  readonly #perSecond: number
  readonly #requests = new Float64Array(SECONDS)
  readonly #retries = new Float64Array(SECONDS)
  #second = 0

  constructor({ share, perSecond }: { share: number; perSecond: number }) {
    this.#share = share
    this.#perSecond = perSecond
  }

  request(now: number): void {
    this.#turn(now)
    this.#requests[this.#second % SECONDS]!++
  }

  /** Takes one retry; false where there is none left. */
  take(now: number): boolean {
    if (this.left(now) < 1) return false
    this.#retries[this.#second % SECONDS]!++
    return true
  }

  left(now: number): number {
    this.#turn(now)
    return this.#perSecond * SECONDS + this.#share * sum(this.#requests) - sum(this.#retries)
  }

  #turn(now: number): void {
    const second = Math.floor(now / 1_000)
    for (let stale = Math.max(this.#second + 1, second - SECONDS + 1); stale <= second; stale++)
      this.#requests[stale % SECONDS] = this.#retries[stale % SECONDS] = 0
    this.#second = Math.max(this.#second, second)
  }
}

const sum = (counts: Float64Array): number => counts.reduce((total, count) => total + count, 0)

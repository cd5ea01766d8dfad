import { GatewayError } from '../error.ts'

const WINDOW_MS = 60_000

export interface RateLimits {
  /**
   * Counts a request. Throws rate_limit_exceeded (422) above the limit; a refused request is not counted, so that early
   * retries do not lock a client out. `route` is a name of the route table, never client text; `limit` is a positive
   * integer, or undefined for none. `path`: of this request, for the error.
   */
  checkRateLimit(keyId: string, route: string, limit: number | undefined, path?: string): Promise<void> | void
}

export const tooManyRequests = (limit: number, path: string, waitMs: number): GatewayError => {
  const seconds = Math.ceil(waitMs / 1000)
  return new GatewayError(
    'rate_limit_exceeded',
    `This key is limited to ${limit} requests per minute to ${path.slice(0, 200)}. Retry in ${seconds} s.`,
    { retryAfterSeconds: seconds, shouldRetry: true },
  )
}

/**
 * Rate limits in requests per minute, for each pair of key and route. The window slides: no 60 seconds, wherever
 * they begin, have more admitted requests than the limit, and the wait given in a refusal is exact. A fixed window
 * would let twice the limit through around its boundary. Costs 8 bytes per request admitted in the last minute; idle
 * counters are dropped.
 */
export class Limits implements RateLimits {
  readonly #now: () => number
  // Counters of keys used in this window and in the one before; what was in neither is dropped.
  #recent = new Map<string, Map<string, Counter>>()
  #older = new Map<string, Map<string, Counter>>()
  #rotatedAt: number

  /** `now`: a monotonic clock in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    this.#rotatedAt = now()
  }

  checkRateLimit(keyId: string, route: string, limit: number | undefined, path = route): void {
    if (limit === undefined) return
    const now = this.#now()
    const waitMs = this.#counter(keyId, route, now).tryCount(now, limit)
    if (waitMs === 0) return
    throw tooManyRequests(limit, path, waitMs)
  }

  /** Keys with counters in memory. */
  get size(): number {
    return this.#recent.size + this.#older.size
  }

  #counter(keyId: string, route: string, now: number): Counter {
    if (now - this.#rotatedAt >= WINDOW_MS) this.#rotate(now)
    let counters = this.#recent.get(keyId)
    if (counters === undefined) {
      counters = this.#older.get(keyId) ?? new Map<string, Counter>()
      this.#older.delete(keyId)
      this.#recent.set(keyId, counters)
    }
    let counter = counters.get(route)
    if (counter === undefined) counters.set(route, (counter = new Counter()))
    return counter
  }

  #rotate(now: number): void {
    this.#older = this.#recent
    this.#recent = new Map()
    this.#rotatedAt = now
  }
}

/** The instants of the requests admitted in the last minute, oldest first, in a ring that grows up to the limit. */
class Counter {
  #ring = new Float64Array(4)
  #first = 0
  #length = 0

  /** Counts a request and gives 0, or gives the milliseconds after which one will be admitted. */
  tryCount(now: number, limit: number): number {
    while (this.#length > 0 && this.#at(0) <= now - WINDOW_MS) this.#dropOldest()
    // After the limit was lowered, more than one has to leave the window first.
    if (this.#length >= limit) return this.#at(this.#length - limit) + WINDOW_MS - now
    if (this.#length === this.#ring.length) this.#enlarge()
    this.#ring[(this.#first + this.#length++) % this.#ring.length] = now
    return 0
  }

  #at(index: number): number {
    return this.#ring[(this.#first + index) % this.#ring.length] ?? 0
  }

  #dropOldest(): void {
    this.#first = (this.#first + 1) % this.#ring.length
    this.#length -= 1
  }

  #enlarge(): void {
    const ring = new Float64Array(this.#ring.length * 2)
    for (let index = 0; index < this.#length; index++) ring[index] = this.#at(index)
    this.#ring = ring
    this.#first = 0
  }
}

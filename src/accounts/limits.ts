import { GatewayError } from '../error.ts'

const WINDOW_MS = 60_000

/**
 * Requests per minute, counted by key and endpoint, each pair by itself. The window slides: no 60 seconds, wherever
 * they begin, hold more admitted requests than the limit, and the wait that a refusal names is exact. A fixed window
 * would let twice the limit through around its border. Costs 8 bytes per request admitted in the last minute; idle
 * counters are dropped.
 */
export class Limits {
  readonly #now: () => number
  // Two generations by key: what was not asked for during a whole window stays behind in the older one and goes with
  // it.
  #recent = new Map<string, Map<string, Counter>>()
  #older = new Map<string, Map<string, Counter>>()
  #rotatedAt: number

  /** The clock gives milliseconds and must never run backwards, which is why it is not the time of day. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    this.#rotatedAt = now()
  }

  /**
   * Counts this request or refuses it with 422, which is not counted: a client that retries too early does not lock
   * itself out. `endpoint` is a name from the route table, never the client's text. `limit` is a positive integer, or
   * undefined for none.
   */
  checkRateLimit(keyId: string, endpoint: string, limit: number | undefined): void {
    if (limit === undefined) return
    const now = this.#now()
    const waitMs = this.#counter(keyId, endpoint, now).admit(now, limit)
    if (waitMs === 0) return
    throw new GatewayError(
      'rate_limit_exceeded',
      `This key may send ${limit} requests per minute to ${endpoint}; try again in ${Math.ceil(waitMs / 1000)} s.`,
      {
        retryAfterSeconds: Math.ceil(waitMs / 1000),
        shouldRetry: true,
      },
    )
  }

  /** Keys that are remembered at this moment. */
  get size(): number {
    return this.#recent.size + this.#older.size
  }

  #counter(keyId: string, endpoint: string, now: number): Counter {
    if (now - this.#rotatedAt >= WINDOW_MS) this.#rotate(now)
    let ofKey = this.#recent.get(keyId)
    if (ofKey === undefined) {
      ofKey = this.#older.get(keyId) ?? new Map<string, Counter>()
      this.#older.delete(keyId)
      this.#recent.set(keyId, ofKey)
    }
    let counter = ofKey.get(endpoint)
    if (counter === undefined) ofKey.set(endpoint, (counter = new Counter()))
    return counter
  }

  #rotate(now: number): void {
    this.#older = this.#recent
    this.#recent = new Map()
    this.#rotatedAt = now
  }
}

/**
 * The instants of the last minute's admitted requests, oldest first, in a ring that grows as far as the limit needs it
 * to.
 */
class Counter {
  #ring = new Float64Array(4)
  #first = 0
  #length = 0

  /** 0 when admitted, else the milliseconds after which the next request will be. */
  admit(now: number, limit: number): number {
    while (this.#length > 0 && this.#at(0) <= now - WINDOW_MS) this.#dropOldest()
    // The limit may have been lowered since: then room is made only when enough of the older ones have left the window.
    if (this.#length >= limit) return this.#at(this.#length - limit) + WINDOW_MS - now
    if (this.#length === this.#ring.length) this.#append()
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

  #append(): void {
    const ring = new Float64Array(this.#ring.length * 2)
    for (let index = 0; index < this.#length; index++) ring[index] = this.#at(index)
    this.#ring = ring
    this.#first = 0
  }
}

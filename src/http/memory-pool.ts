import { GatewayError } from '../error.ts'
import { Waiter } from './waiter.ts'

/** The longest wait for memory, and how many may wait. */
const WAIT_MS = 30_000
const WAITING_MAX = 1_000
/** An owner may have this part of a pool, or one request of any size. */
const SHARE = 3 / 4
/** Time over which the rate is measured at which memory is given back. */
const RATE_MS = 10_000
const RETRY_MAX_SECONDS = 60

/**
 * Bytes that are shared by owners. A request larger than the pool begins alone, and leaves a quarter to other owners,
 * since it may last for minutes.
 */
export class MemoryPool {
  used = 0
  /** Bytes of owners beyond their share. They keep no other owner out of the rest. */
  #excess = 0
  readonly limit: number
  readonly #waitMs: number
  readonly #usedBy = new Map<string, number>()
  /** By owner, who take turns in the order of the map. None is empty. */
  readonly #queues = new Map<string, MemoryWaiter[]>()
  /** Those that come before all others. */
  readonly #urgent: MemoryWaiter[] = []
  #waiting = 0
  #waitingBytes = 0
  /** Bytes given back, with less weight the longer ago that was. */
  #returned = 0
  #returnedAt = 0

  constructor(limitBytes: number, waitMs = WAIT_MS) {
    this.limit = limitBytes
    this.#waitMs = waitMs
  }

  /**
   * Takes bytes: undefined where they are free, otherwise a promise for the time when they are. It rejects with
   * overloaded after 30 seconds, or at once if too many wait, and when `signal` aborts. `urgent`: before all others.
   */
  take(owner: string, bytes: number, signal: AbortSignal, urgent = false): Promise<void> | undefined {
    if (this.#waiting === 0 && this.#fits(owner, bytes)) return this.force(owner, bytes)
    if (this.#waiting >= WAITING_MAX) return Promise.reject(this.#overloaded(bytes))
    const waiter = new MemoryWaiter(owner, bytes, signal, this.#waitMs, () => this.#leave(waiter))
    const queue = urgent ? this.#urgent : (this.#queues.get(owner) ?? [])
    queue.push(waiter)
    if (!urgent) this.#queues.set(owner, queue)
    this.#waiting++
    this.#waitingBytes += bytes
    this.admit()
    return waiter.promise
  }

  /** Takes bytes, free or not: those after it wait. */
  force(owner: string, bytes: number): undefined {
    this.#setUsed(owner, (this.#usedBy.get(owner) ?? 0) + bytes)
  }

  /** Gives bytes back, for the next call of `admit`. */
  give(owner: string, bytes: number): void {
    if (bytes === 0) return
    this.#setUsed(owner, this.#usedBy.get(owner)! - bytes)
    this.#returned = this.#recentlyReturned() + bytes
    this.#returnedAt = performance.now()
  }

  /** Lets those in, one owner after the other, for whom there is memory. */
  admit(): void {
    for (let waiter = this.#next(); waiter !== undefined; waiter = this.#next()) {
      this.#remove(waiter)
      this.force(waiter.owner, waiter.bytes)
      waiter.admit()
      const rest = this.#queues.get(waiter.owner)
      if (rest === undefined) continue
      this.#queues.delete(waiter.owner)
      this.#queues.set(waiter.owner, rest)
    }
  }

  /** Those of an owner with a full share are passed over; otherwise the first waits until it fits, however large. */
  #next(): MemoryWaiter | undefined {
    const [urgent] = this.#urgent
    if (urgent !== undefined) return this.#hasRoom(urgent.bytes) ? urgent : undefined
    for (const [owner, [first]] of this.#queues) {
      if (!this.#isWithinShare(owner, first!.bytes)) continue
      return this.#hasRoom(first!.bytes) ? first : undefined
    }
    return undefined
  }

  #setUsed(owner: string, bytes: number): void {
    const before = this.#usedBy.get(owner) ?? 0
    this.used += bytes - before
    this.#excess += this.#excessOf(bytes) - this.#excessOf(before)
    if (bytes === 0) this.#usedBy.delete(owner)
    else this.#usedBy.set(owner, bytes)
  }

  #excessOf(bytes: number): number {
    return Math.max(0, bytes - this.limit * SHARE)
  }

  #fits(owner: string, bytes: number): boolean {
    return this.#hasRoom(bytes) && this.#isWithinShare(owner, bytes)
  }

  #hasRoom(bytes: number): boolean {
    return this.used === 0 || this.used - this.#excess + bytes <= this.limit
  }

  #isWithinShare(owner: string, bytes: number): boolean {
    const own = this.#usedBy.get(owner)
    return own === undefined || own + bytes <= this.limit * SHARE
  }

  #leave(waiter: MemoryWaiter): GatewayError {
    this.#remove(waiter)
    this.admit()
    return this.#overloaded(waiter.bytes)
  }

  #remove(waiter: MemoryWaiter): void {
    const { owner, bytes } = waiter
    const isUrgent = this.#urgent.includes(waiter)
    const queue = isUrgent ? this.#urgent : this.#queues.get(owner)!
    queue.splice(queue.indexOf(waiter), 1)
    if (!isUrgent && queue.length === 0) this.#queues.delete(owner)
    this.#waiting--
    this.#waitingBytes -= bytes
  }

  #recentlyReturned(): number {
    return this.#returned * Math.exp((this.#returnedAt - performance.now()) / RATE_MS)
  }

  /** A retry is of use when what waits now will have been served, at the rate of the last seconds. */
  #overloaded(bytes: number): GatewayError {
    const perSecond = Math.max(this.#recentlyReturned() / (RATE_MS / 1000), this.limit / RETRY_MAX_SECONDS)
    const seconds = Math.ceil((this.#waitingBytes + bytes) / perSecond)
    return new GatewayError('overloaded', 'The memory for large requests is full: send the request again later.', {
      retryAfterSeconds: Math.min(Math.max(seconds, 1), RETRY_MAX_SECONDS),
      shouldRetry: true,
    })
  }
}

/** A request that waits for memory. */
class MemoryWaiter extends Waiter {
  readonly bytes: number

  constructor(owner: string, bytes: number, signal: AbortSignal, waitMs: number, leave: () => GatewayError) {
    super(owner, signal, waitMs, leave)
    this.bytes = bytes
  }
}

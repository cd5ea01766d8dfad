import type { RateLimits } from '../accounts/limits.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import type { Places } from '../ledger/places.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Entry } from '../providers/routing/attempts.ts'
import { FairQueue } from './fair-queue.ts'
import { leaseWhileWaiting } from './lease-waiting.ts'

/** The time for which an endpoint without a free place, or over its limit, is not asked for again. */
const REFUSED_MS = 1_000

/** `wait`: for the turn in a queue; rejects where that takes too long. */
export type EndpointAdmission = { id: string; endpoint: Endpoint; wait(queue: FairQueue): Promise<void> }

/** The limits of endpoints that several processes keep together: requests at the same time, and in a minute. */
export class SharedEndpoints {
  readonly #places: Places
  readonly #rates: RateLimits
  /** Requests that wait, by endpoint. */
  readonly #queues = new Map<string, FairQueue>()
  /** The instants until which an endpoint is not asked for. */
  readonly #refused = new Map<string, number>()
  /** The errors for requests that exceed a limit per minute, while it is not asked for. */
  readonly #limited = new Map<string, { until: number; error: GatewayError }>()

  constructor(places: Places, rates: RateLimits) {
    this.#places = places
    this.#rates = rates
  }

  /** At once, without the store: undefined where that is not possible. */
  enterNow({ id, endpoint }: Pick<EndpointAdmission, 'id' | 'endpoint'>): Entry | undefined {
    const { concurrency, requestsPerMinute } = endpoint.routing.limits
    if (concurrency === undefined || requestsPerMinute !== undefined || this.#queues.has(id)) return undefined
    return this.#take(id, concurrency)
  }

  /**
   * Resolves to undefined where another endpoint shall be tried. The last one is waited for, and rejects with
   * overloaded or upstream_rate_limited where that takes too long.
   */
  async enter(admission: EndpointAdmission, isLast: boolean): Promise<Entry | undefined> {
    const { id, endpoint } = admission
    if (!isLast && performance.now() < (this.#refused.get(id) ?? 0)) return undefined
    const { concurrency } = endpoint.routing.limits
    const entry = concurrency === undefined ? {} : await this.#place(admission, concurrency, isLast)
    if (entry === undefined) {
      this.#refuse(id)
      return undefined
    }
    try {
      await this.#count(id, endpoint)
      this.#refused.delete(id)
      return entry
    } catch (error) {
      entry.end?.()
      this.#refuse(id)
      if (isLast) throw error
      return undefined
    }
  }

  #refuse(id: string): void {
    this.#refused.set(id, performance.now() + REFUSED_MS)
  }

  async #place({ id, wait }: EndpointAdmission, limit: number, isLast: boolean): Promise<Entry | undefined> {
    const waiting = this.#queues.get(id)
    if (waiting === undefined) {
      const free = this.#take(id, limit)
      if (free !== undefined) return free
      const owner = ownerOf(id)
      if (await this.#places.leaseOne(owner, limit, () => this.#places.take(owner, limit)))
        return this.#entryOf(id, limit)
    }
    if (!isLast) return undefined
    const queue = this.#queues.get(id) ?? this.#open(id, limit)
    await wait(queue)
    return this.#entryOf(id, limit)
  }

  /** A queue, with those who lease for it as long as any request waits. */
  #open(id: string, limit: number): FairQueue {
    const queue = new FairQueue()
    this.#queues.set(id, queue)
    // After the request that opens it has begun to wait.
    queueMicrotask(() => void this.#leaseFor(id, limit, queue))
    return queue
  }

  async #leaseFor(id: string, limit: number, queue: FairQueue): Promise<void> {
    do
      await leaseWhileWaiting({
        places: this.#places,
        owner: ownerOf(id),
        limit: () => limit,
        size: () => queue.size,
        admit: () => queue.admit(() => this.#places.take(ownerOf(id), limit)),
      })
    while (queue.size > 0)
    this.#queues.delete(id)
  }

  #take(id: string, limit: number): Entry | undefined {
    return this.#places.take(ownerOf(id), limit) ? this.#entryOf(id, limit) : undefined
  }

  #entryOf(id: string, limit: number): Entry {
    return {
      end: () => {
        this.#places.leave(ownerOf(id))
        this.#queues.get(id)?.admit(() => this.#places.take(ownerOf(id), limit))
      },
    }
  }

  async #count(id: string, { provider, routing }: Endpoint): Promise<void> {
    const limited = this.#limited.get(id)
    if (limited !== undefined && performance.now() < limited.until) throw limited.error
    try {
      await this.#rates.checkRateLimit('', ownerOf(id), routing.limits.requestsPerMinute)
    } catch (error) {
      const { code, retryAfterSeconds } = asGatewayError(error)
      if (code !== 'rate_limit_exceeded') throw error
      const refusal = new GatewayError(
        'upstream_rate_limited',
        `${provider.name} has had as many requests in this minute as it may (${routing.limits.requestsPerMinute}); ` +
          `it accepts the next in ${retryAfterSeconds} s.`,
        { retryAfterSeconds },
      )
      this.#limited.set(id, { until: performance.now() + REFUSED_MS, error: refusal })
      throw refusal
    }
  }
}

/** The owner of the places and permits of an endpoint. */
const ownerOf = (id: string): string => `endpoint:${id}`

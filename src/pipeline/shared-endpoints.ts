import type { Limited, Permits } from '../accounts/permits.ts'
import { GatewayError } from '../error.ts'
import type { Slots } from '../ledger/slots.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Entry } from '../providers/routing/attempts.ts'
import { FairQueue } from './fair-queue.ts'
import { leaseWhileWaiting } from './lease-waiting.ts'

/** The time for which an endpoint without a free slot, or over its limit, is not asked for again. */
const REFUSED_MS = 1_000

/** A request of so many prompt tokens to an endpoint. */
type EndpointRequest = { id: string; endpoint: Endpoint; promptTokens: number }

/** `wait`: for the turn in a queue; rejects where that takes too long. */
type EndpointAdmission = EndpointRequest & { wait(queue: FairQueue): Promise<void> }

/** A limit per minute of an endpoint, and the part of it that one request takes. */
type Rate = Limited & { unit: 'requests' | 'tokens'; amount: number }

/** The limits of endpoints that several processes keep together: requests at the same time, and rates per minute. */
export class SharedEndpoints {
  readonly #slots: Slots
  readonly #permits: Permits
  /** Requests that wait, by endpoint. */
  readonly #queues = new Map<string, FairQueue>()
  /** The instants until which an endpoint is not asked for. */
  readonly #refused = new Map<string, number>()
  /** The errors for requests that exceed a limit per minute by as much, while it is not asked for. */
  readonly #limited = new Map<string, { until: number; amount: number; error: GatewayError }>()

  constructor(slots: Slots, permits: Permits) {
    this.#slots = slots
    this.#permits = permits
  }

  /** At once, without the store: undefined where that is not possible. */
  enterNow({ id, endpoint, promptTokens }: EndpointRequest): Entry | undefined {
    if (this.#queues.has(id)) return undefined
    const rates = ratesOf(id, endpoint, promptTokens)
    if (!rates.every((rate) => this.#permits.has(rate, rate.amount))) return undefined
    const slot = this.#take(id, endpoint.routing.limits.concurrency)
    if (slot === undefined) return undefined
    for (const rate of rates) this.#permits.take(rate, rate.amount)
    return this.#entryOf(slot, id, endpoint)
  }

  /**
   * Resolves to undefined where another endpoint shall be tried. The last one is waited for, and rejects with
   * overloaded or upstream_rate_limited where that takes too long.
   */
  async enter(admission: EndpointAdmission, isLast: boolean): Promise<Entry | undefined> {
    const { id, endpoint, promptTokens } = admission
    if (!isLast && performance.now() < (this.#refused.get(id) ?? 0)) return undefined
    const rates = ratesOf(id, endpoint, promptTokens)
    const limited = this.#limitedBy(rates)
    if (limited !== undefined) {
      if (isLast) throw limited
      return undefined
    }
    const slot = await this.#slot(admission, endpoint.routing.limits.concurrency, isLast)
    if (slot === undefined) {
      this.#refuse(id)
      return undefined
    }
    try {
      for (const rate of rates) await this.#permit(rate, endpoint)
      this.#refused.delete(id)
      return this.#entryOf(slot, id, endpoint)
    } catch (error) {
      slot.end?.()
      // Where it is over a limit for this request, a smaller one may be sent.
      if (this.#limitedBy(rates) === undefined) this.#refuse(id)
      if (isLast) throw error
      return undefined
    }
  }

  #refuse(id: string): void {
    this.#refused.set(id, performance.now() + REFUSED_MS)
  }

  async #slot({ id, wait }: EndpointAdmission, limit: number | undefined, isLast: boolean): Promise<Entry | undefined> {
    if (limit === undefined) return {}
    const waiting = this.#queues.get(id)
    if (waiting === undefined) {
      const free = this.#take(id, limit)
      if (free !== undefined) return free
      const owner = ownerOf(id)
      if (await this.#slots.leaseOne(owner, limit, () => this.#slots.take(owner, limit))) return this.#slotOf(id, limit)
    }
    if (!isLast) return undefined
    const queue = this.#queues.get(id) ?? this.#open(id, limit)
    await wait(queue)
    return this.#slotOf(id, limit)
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
        slots: this.#slots,
        owner: ownerOf(id),
        limit: () => limit,
        size: () => queue.size,
        admit: () => queue.admit(() => this.#slots.take(ownerOf(id), limit)),
      })
    while (queue.size > 0)
    this.#queues.delete(id)
  }

  #take(id: string, limit: number | undefined): Entry | undefined {
    if (limit === undefined) return {}
    return this.#slots.take(ownerOf(id), limit) ? this.#slotOf(id, limit) : undefined
  }

  #slotOf(id: string, limit: number): Entry {
    return {
      end: () => {
        this.#slots.leave(ownerOf(id))
        this.#queues.get(id)?.admit(() => this.#slots.take(ownerOf(id), limit))
      },
    }
  }

  #entryOf(slot: Entry, id: string, { routing }: Endpoint): Entry {
    const limit = routing.limits.tokensPerMinute
    if (limit === undefined) return slot
    return { ...slot, answered: (tokens) => this.#permits.count(tokensOf(id, limit), tokens) }
  }

  async #permit(rate: Rate, { provider }: Endpoint): Promise<void> {
    if (this.#permits.take(rate, rate.amount)) return
    const waitMs = await this.#permits.lease(rate, rate.amount)
    if (waitMs === 0) return
    const retryAfterSeconds = Math.ceil(waitMs / 1000)
    const error = new GatewayError(
      'upstream_rate_limited',
      `${provider.name} gets at most ${rate.limit} ${rate.unit} per minute, of which too few are left; ` +
        `it accepts this request in ${retryAfterSeconds} s.`,
      { retryAfterSeconds },
    )
    this.#limited.set(rate.endpoint, { until: performance.now() + REFUSED_MS, amount: rate.amount, error })
    throw error
  }

  /** The error of a limit that a request would exceed, as far as that is known. */
  #limitedBy(rates: readonly Rate[]): GatewayError | undefined {
    for (const { endpoint, amount } of rates) {
      const limited = this.#limited.get(endpoint)
      if (limited !== undefined && amount >= limited.amount && performance.now() < limited.until) return limited.error
    }
    return undefined
  }
}

/** The owner of the slots and permits of an endpoint. */
const ownerOf = (id: string): string => `endpoint:${id}`

/** The limit of its tokens. */
const tokensOf = (id: string, limit: number): Limited => ({ keyId: '', endpoint: `tokens:${id}`, limit })

function ratesOf(id: string, { routing }: Endpoint, promptTokens: number): Rate[] {
  const { requestsPerMinute, tokensPerMinute } = routing.limits
  const rates: Rate[] = []
  if (requestsPerMinute !== undefined)
    rates.push({ keyId: '', endpoint: ownerOf(id), limit: requestsPerMinute, unit: 'requests', amount: 1 })
  if (tokensPerMinute !== undefined) {
    // A request that is larger than the limit needs a whole minute.
    const amount = Math.min(Math.max(1, promptTokens), tokensPerMinute)
    rates.push({ ...tokensOf(id, tokensPerMinute), unit: 'tokens', amount })
  }
  return rates
}

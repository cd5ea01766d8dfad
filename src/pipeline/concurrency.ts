import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import type { CallSignal } from '../http/connection.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Router } from '../providers/routing/router.ts'
import { FairQueue } from './fair-queue.ts'

const RETRY_MAX_SECONDS = 60
/** The weight of the last generation in the mean of their durations. */
const MEAN_WEIGHT = 0.1

/** A generation among those that are counted. Ending it again has no effect. */
export type Slot = { end(): void }

/** Requests that wait for an endpoint. `admitted`: those that were let in, and have not been sent yet. */
type Entrance = { queue: FairQueue; limit: number; admitted: number }

type Services = {
  config: Pick<Config, 'limits' | 'plans' | 'routing'>
  ledger: Pick<Ledger, 'loadAccount' | 'tierOf'>
  router: Router
}

/**
 * The limits of concurrency: of the server, of accounts and of endpoints. What exceeds one waits, the accounts in
 * turns. Without limits nothing is counted.
 */
export class Concurrency {
  readonly #services: Services
  readonly #hasPlanLimits: boolean
  readonly #isLimited: boolean
  /** Generations in flight by account, if they are counted. */
  readonly #accounts = new Map<string, number>()
  #inFlight = 0
  readonly #queue = new FairQueue()
  readonly #entrances = new Map<string, Entrance>()
  #waiting = 0
  /** Milliseconds for which a generation lasts. */
  #meanMs = 0

  constructor(services: Services) {
    this.#services = services
    const { limits, plans } = services.config
    this.#hasPlanLimits = [...plans.tiers.values()].some((plan) => plan.concurrency !== undefined)
    this.#isLimited = limits.concurrency !== undefined || limits.accountConcurrency !== undefined || this.#hasPlanLimits
    services.router.onEnded = (id, inFlight) => this.#admitTo(id, inFlight)
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#waiting
  }

  /**
   * Counts a generation of an account, at once or when its turn has come; undefined without limits. Rejects with
   * quota_exceeded (429) or overloaded (503) where it would wait too long.
   */
  enter(accountId: string, signal: CallSignal): Slot | Promise<Slot> | undefined {
    if (!this.#isLimited) return undefined
    const loading = this.#hasPlanLimits ? this.#services.ledger.loadAccount(accountId) : undefined
    if (loading !== undefined) return loading.then(() => this.#enter(accountId, signal))
    return this.#enter(accountId, signal)
  }

  #enter(accountId: string, signal: CallSignal): Slot | Promise<Slot> {
    if (this.#queue.sizeOf(accountId) === 0 && this.#count(accountId)) return this.#slotOf(accountId)
    const refusal = (): GatewayError => this.#refusalOf(accountId)
    return this.#wait(this.#queue, accountId, signal, refusal).then(() => this.#slotOf(accountId))
  }

  /**
   * Undefined where an endpoint has room for a request; otherwise resolves when it has, with a function to be called
   * once the request was sent.
   */
  room(endpoint: Endpoint, accountId: string, signal: CallSignal): Promise<() => void> | undefined {
    const limit = endpoint.routing.limits.concurrency
    if (limit === undefined) return undefined
    const { id, inFlight } = this.#services.router.stateOf(endpoint)
    const entrance = this.#entrances.get(id)
    if (inFlight < limit && entrance === undefined) return undefined
    return this.#waitFor(endpoint, id, entrance ?? { queue: new FairQueue(), limit, admitted: 0 }, accountId, signal)
  }

  async #waitFor(
    { provider }: Endpoint,
    id: string,
    entrance: Entrance,
    accountId: string,
    signal: CallSignal,
  ): Promise<() => void> {
    const { queue, limit } = entrance
    this.#entrances.set(id, entrance)
    const close = (): void => {
      if (queue.size === 0 && entrance.admitted === 0) this.#entrances.delete(id)
    }
    const refusal = (): GatewayError =>
      this.#overloaded(`${provider.name} has as many requests in flight as it may (${limit})`, queue.size, limit)
    try {
      await this.#wait(queue, accountId, signal, refusal)
    } catch (error) {
      close()
      throw error
    }
    return () => {
      entrance.admitted--
      close()
    }
  }

  /** A request to an endpoint ended. */
  #admitTo(id: string, inFlight: number): void {
    const entrance = this.#entrances.get(id)
    if (entrance === undefined || inFlight + entrance.admitted >= entrance.limit) return
    if (entrance.queue.admit(() => true)) entrance.admitted++
  }

  async #wait(queue: FairQueue, owner: string, signal: CallSignal, refusal: () => GatewayError): Promise<void> {
    const { waitMs, requests } = this.#services.config.routing.queue
    if (signal.aborted || waitMs === 0 || this.#waiting >= requests) throw refusal()
    this.#waiting++
    try {
      await queue.wait({ owner, waitMs, signal, refusal })
    } finally {
      this.#waiting--
    }
  }

  /** Counts one more, if there is room for it. */
  #count(accountId: string): boolean {
    const { concurrency = Infinity } = this.#services.config.limits
    const own = this.#accounts.get(accountId) ?? 0
    if (this.#inFlight >= concurrency || own >= this.#limitOf(accountId)) return false
    this.#inFlight++
    this.#accounts.set(accountId, own + 1)
    return true
  }

  #limitOf(accountId: string): number {
    const { ledger, config } = this.#services
    const tier = this.#hasPlanLimits ? ledger.tierOf(accountId) : undefined
    const plan = tier === undefined ? undefined : config.plans.tiers.get(tier)
    return plan?.concurrency ?? config.limits.accountConcurrency ?? Infinity
  }

  #slotOf(accountId: string): Slot {
    const startedAt = performance.now()
    let isOver = false
    return {
      end: () => {
        if (isOver) return
        isOver = true
        this.#leave(accountId, performance.now() - startedAt)
      },
    }
  }

  #leave(accountId: string, ms: number): void {
    this.#meanMs = this.#meanMs === 0 ? ms : this.#meanMs + (ms - this.#meanMs) * MEAN_WEIGHT
    this.#inFlight--
    const left = this.#accounts.get(accountId)! - 1
    if (left === 0) this.#accounts.delete(accountId)
    else this.#accounts.set(accountId, left)
    if (this.#queue.size > 0) this.#queue.admit((owner) => this.#count(owner))
  }

  #refusalOf(accountId: string): GatewayError {
    const limit = this.#limitOf(accountId)
    if ((this.#accounts.get(accountId) ?? 0) < limit)
      return this.#overloaded('Sluice has as many requests as it may', this.#queue.size, this.#inFlight)
    return new GatewayError('quota_exceeded', `This account has ${limit} requests in flight, as many as it may.`, {
      retryAfterSeconds: this.#retryAfter(this.#queue.sizeOf(accountId), limit),
      shouldRetry: true,
    })
  }

  #overloaded(reason: string, waiting: number, limit: number): GatewayError {
    return new GatewayError('overloaded', `${reason}: send the request again later.`, {
      retryAfterSeconds: this.#retryAfter(waiting, limit),
      shouldRetry: true,
    })
  }

  /** A retry is of use when those that wait now will have been served: `limit` of them at a time. */
  #retryAfter(waiting: number, limit: number): number {
    const meanMs = this.#meanMs === 0 ? this.#services.config.routing.queue.waitMs : this.#meanMs
    const seconds = Math.ceil((meanMs * (waiting + 1)) / Math.max(1, limit) / 1000)
    return Math.min(Math.max(seconds, 1), RETRY_MAX_SECONDS)
  }
}

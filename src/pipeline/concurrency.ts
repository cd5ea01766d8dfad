import type { Permits } from '../accounts/permits.ts'
import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import type { CallSignal } from '../http/connection.ts'
import type { AccountFunds } from '../ledger/account-funds.ts'
import type { Slots } from '../ledger/slots.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Entry } from '../providers/routing/attempts.ts'
import type { Router } from '../providers/routing/router.ts'
import { hasRateLimits } from '../providers/routing/terms.ts'
import { FairQueue } from './fair-queue.ts'
import { leaseWhileWaiting } from './lease-waiting.ts'
import { SharedEndpoints } from './shared-endpoints.ts'

const RETRY_MAX_SECONDS = 60
/** The weight of the last generation in the mean of their durations. */
const MEAN_WEIGHT = 0.1

/** A generation among those that are counted. Ending it again has no effect. */
export type Slot = { end(): void }

/** A request that is about to be sent to an endpoint. */
type EnteringRequest = { endpoint: Endpoint; accountId: string; signal: CallSignal; promptTokens: number }

/** Requests that wait for an endpoint. `admitted`: those that were let in, and have not been sent yet. */
type Entrance = { queue: FairQueue; limit: number; admitted: number }

type Modules = {
  config: Pick<Config, 'limits' | 'plans' | 'routing'>
  funds: Pick<AccountFunds, 'loadAccount' | 'tierOf'>
  /** Undefined where no other process shares the limits. */
  slots: Slots | undefined
  /** The same for the rates of endpoints. */
  permits: Permits | undefined
  router: Router
}

/**
 * The limits of concurrency: of the server, of accounts and of endpoints. What exceeds one waits, the accounts in
 * turns. Without limits nothing is counted. Those of accounts and endpoints hold over all processes that share the
 * store.
 */
export class Concurrency {
  readonly #modules: Modules
  readonly #hasPlanLimits: boolean
  readonly #isLimited: boolean
  /** Generations in flight by account, if they are counted. */
  readonly #accounts = new Map<string, number>()
  #inFlight = 0
  readonly #queue = new FairQueue()
  /** Accounts for whose waiting requests slots are leased. */
  readonly #leasing = new Set<string>()
  readonly #entrances = new Map<string, Entrance>()
  readonly #shared: SharedEndpoints | undefined
  #waiting = 0
  /** Milliseconds for which a generation lasts. */
  #meanMs = 0

  constructor(modules: Modules) {
    this.#modules = modules
    const { slots, permits } = modules
    const { limits, plans } = modules.config
    this.#shared = slots && permits && new SharedEndpoints(slots, permits)
    this.#hasPlanLimits = [...plans.tiers.values()].some((plan) => plan.concurrency !== undefined)
    this.#isLimited = limits.concurrency !== undefined || limits.accountConcurrency !== undefined || this.#hasPlanLimits
    modules.router.onEnded = (id, inFlight) => this.#admitTo(id, inFlight)
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
    const loading = this.#hasPlanLimits ? this.#modules.funds.loadAccount(accountId) : undefined
    if (loading !== undefined) return loading.then(() => this.#enter(accountId, signal))
    return this.#enter(accountId, signal)
  }

  #enter(accountId: string, signal: CallSignal): Slot | Promise<Slot> {
    if (this.#queue.sizeOf(accountId) === 0 && this.#count(accountId)) return this.#slotOf(accountId)
    if (this.#modules.slots !== undefined) return this.#enterShared(this.#modules.slots, accountId, signal)
    return this.#waitForTurn(accountId, signal)
  }

  #waitForTurn(accountId: string, signal: CallSignal): Promise<Slot> {
    const refusal = (): GatewayError => this.#refusalOf(accountId)
    return this.#wait(this.#queue, accountId, signal, refusal).then(() => this.#slotOf(accountId))
  }

  /** A request for which this process has no slot may get one from another process, also where none may wait. */
  async #enterShared(slots: Slots, accountId: string, signal: CallSignal): Promise<Slot> {
    if (this.#modules.config.routing.queue.waitMs > 0) {
      const waiting = this.#waitForTurn(accountId, signal)
      void this.#leaseWaiting(slots, accountId)
      return waiting
    }
    const limit = this.#leasableLimitOf(accountId)
    const take = (): boolean => !signal.aborted && this.#count(accountId)
    if (!(limit > 0 ? await slots.leaseOne(ownerOf(accountId), limit, take) : take())) throw this.#refusalOf(accountId)
    return this.#slotOf(accountId)
  }

  /** Leases slots as long as requests of an account wait. */
  async #leaseWaiting(slots: Slots, accountId: string): Promise<void> {
    if (this.#leasing.has(accountId)) return
    this.#leasing.add(accountId)
    do
      await leaseWhileWaiting({
        slots,
        owner: ownerOf(accountId),
        limit: () => this.#leasableLimitOf(accountId),
        size: () => this.#queue.sizeOf(accountId),
        admit: () => this.#queue.admit((owner) => owner === accountId && this.#count(owner)),
      })
    while (this.#queue.sizeOf(accountId) > 0)
    this.#leasing.delete(accountId)
  }

  /** The limit by which slots are leased; 0 where none is needed, or none could be used here. */
  #leasableLimitOf(accountId: string): number {
    const limit = this.#limitOf(accountId)
    return limit === Infinity || this.#isFull ? 0 : limit
  }

  /** True where requests to an endpoint pass through `enterEndpoint`. */
  isLimited({ routing: { limits } }: Endpoint): boolean {
    return limits.concurrency !== undefined || (this.#shared !== undefined && hasRateLimits(limits))
  }

  /**
   * Undefined where an endpoint admits a request at once; otherwise resolves when it does. One that is not the last may
   * resolve to undefined: another shall be tried.
   */
  enterEndpoint(routed: EnteringRequest, isLast: boolean): Promise<Entry | undefined> | Entry | undefined {
    if (this.#shared !== undefined) return this.#enterSharedEndpoint(this.#shared, routed, isLast)
    const { endpoint, accountId, signal } = routed
    const limit = endpoint.routing.limits.concurrency
    if (limit === undefined) return undefined
    const { id, inFlight } = this.#modules.router.stateOf(endpoint)
    const entrance = this.#entrances.get(id)
    if (inFlight < limit && entrance === undefined) return undefined
    return this.#waitFor(endpoint, id, entrance ?? { queue: new FairQueue(), limit, admitted: 0 }, accountId, signal)
  }

  /** The same at once, for a hedge: false where an endpoint would have it wait. */
  enterEndpointNow({
    endpoint,
    promptTokens,
  }: Pick<EnteringRequest, 'endpoint' | 'promptTokens'>): Entry | undefined | false {
    if (this.#shared === undefined || !this.isLimited(endpoint)) return undefined
    const { id } = this.#modules.router.stateOf(endpoint)
    return this.#shared.enterNow({ id, endpoint, promptTokens }) ?? false
  }

  #enterSharedEndpoint(
    shared: SharedEndpoints,
    { endpoint, accountId, signal, promptTokens }: EnteringRequest,
    isLast: boolean,
  ): Promise<Entry | undefined> | Entry | undefined {
    if (!this.isLimited(endpoint)) return undefined
    const { id } = this.#modules.router.stateOf(endpoint)
    const { concurrency: limit = Infinity } = endpoint.routing.limits
    const wait = (queue: FairQueue): Promise<void> =>
      this.#wait(queue, accountId, signal, () => this.#endpointFull(endpoint, queue.size, limit))
    const request = { id, endpoint, promptTokens }
    return shared.enterNow(request) ?? shared.enter({ ...request, wait }, isLast)
  }

  #endpointFull({ provider }: Endpoint, waiting: number, limit: number): GatewayError {
    return this.#overloaded(`${provider.name} has as many requests in flight as it may (${limit})`, waiting, limit)
  }

  async #waitFor(
    endpoint: Endpoint,
    id: string,
    entrance: Entrance,
    accountId: string,
    signal: CallSignal,
  ): Promise<Entry> {
    const { queue, limit } = entrance
    this.#entrances.set(id, entrance)
    const close = (): void => {
      if (queue.size === 0 && entrance.admitted === 0) this.#entrances.delete(id)
    }
    const refusal = (): GatewayError => this.#endpointFull(endpoint, queue.size, limit)
    try {
      await this.#wait(queue, accountId, signal, refusal)
    } catch (error) {
      close()
      throw error
    }
    return {
      sent: () => {
        entrance.admitted--
        close()
      },
      abandon: () => {
        entrance.admitted--
        this.#admitTo(id, this.#modules.router.stateOf(endpoint).inFlight)
        close()
      },
    }
  }

  /** A request to an endpoint ended. */
  #admitTo(id: string, inFlight: number): void {
    const entrance = this.#entrances.get(id)
    if (entrance === undefined || inFlight + entrance.admitted >= entrance.limit) return
    if (entrance.queue.admit(() => true)) entrance.admitted++
  }

  async #wait(queue: FairQueue, owner: string, signal: CallSignal, refusal: () => GatewayError): Promise<void> {
    const { waitMs, requests } = this.#modules.config.routing.queue
    if (signal.aborted || waitMs === 0 || this.#waiting >= requests) throw refusal()
    this.#waiting++
    try {
      await queue.wait({ owner, waitMs, signal, refusal })
    } finally {
      this.#waiting--
    }
  }

  /** Counts one more, if the limit allows it. */
  #count(accountId: string): boolean {
    const own = this.#accounts.get(accountId) ?? 0
    const limit = this.#limitOf(accountId)
    if (this.#isFull || own >= limit) return false
    if (limit !== Infinity && this.#modules.slots?.take(ownerOf(accountId), limit) === false) return false
    this.#inFlight++
    this.#accounts.set(accountId, own + 1)
    return true
  }

  get #isFull(): boolean {
    return this.#inFlight >= (this.#modules.config.limits.concurrency ?? Infinity)
  }

  #limitOf(accountId: string): number {
    const { funds, config } = this.#modules
    const tier = this.#hasPlanLimits ? funds.tierOf(accountId) : undefined
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
    this.#modules.slots?.leave(ownerOf(accountId))
    if (this.#queue.size > 0) this.#queue.admit((owner) => this.#count(owner))
  }

  #refusalOf(accountId: string): GatewayError {
    const limit = this.#limitOf(accountId)
    const { slots } = this.#modules
    const isBelow = (this.#accounts.get(accountId) ?? 0) < limit
    if (isBelow && (slots === undefined || this.#isFull))
      return this.#overloaded('Sluice has as many requests as it may', this.#queue.size, this.#inFlight)
    if (isBelow && slots?.isAway(ownerOf(accountId)) === true)
      return new GatewayError(
        'store_unavailable',
        'PostgreSQL does not answer, and the other requests of this account use all slots that are leased here. ' +
          'Retry in a few seconds.',
        { retryAfterSeconds: 5, shouldRetry: true },
      )
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
    const meanMs = this.#meanMs === 0 ? this.#modules.config.routing.queue.waitMs : this.#meanMs
    const seconds = Math.ceil((meanMs * (waiting + 1)) / Math.max(1, limit) / 1000)
    return Math.min(Math.max(seconds, 1), RETRY_MAX_SECONDS)
  }
}

/** The owner of the slots of an account. */
const ownerOf = (accountId: string): string => `account:${accountId}`

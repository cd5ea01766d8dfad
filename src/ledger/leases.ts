import type { Budgets, KeyLimit } from '../accounts/budget.ts'
import type { Clock } from '../accounts/clock.ts'
import type { Quota } from '../accounts/quota.ts'
import { GatewayError } from '../error.ts'
import type { Nano } from '../money.ts'
import type { LeaseKind, LeaseStore, ReturnedLeases } from '../store/leases.ts'
import { SharedLease, type LeaseTime, REAL } from './shared-lease.ts'
import type { ReservationRequest } from './open-generation.ts'
import type { Wallet } from './wallet.ts'

/** The amounts that a request holds: of the balance or of the windows, and of its key's limit. */
export type Needs = { amount: Nano; flows: bigint; budgeted: Nano }

/** Thrown by a reservation that has to wait: it is tried again when `leased` has resolved. */
class LeaseNeeded extends Error {
  readonly leased: Promise<void>

  constructor(leased: Promise<void>) {
    super('the reservation waits for a lease')
    this.leased = leased
  }
}

/** Runs a reservation, and again each time after it had to wait for a lease. */
export async function whenLeased<T>(reserve: () => T): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return reserve()
    } catch (error) {
      if (!(error instanceof LeaseNeeded)) throw error
      if (tries === MOST_TRIES) throw unavailable('others use what was leased for this request.')
      await error.leased
    }
  }
}

type Settled = { request: ReservationRequest; bill: Nano; flows: bigint; written: Promise<void> }

/** A request whose lease others used so often is one of very many at the same time. */
const MOST_TRIES = 50

const unavailable = (reason: string): GatewayError =>
  new GatewayError('store_unavailable', `Nothing can be reserved at the moment: ${reason} Retry in a few seconds.`, {
    retryAfterSeconds: 5,
    shouldRetry: true,
  })

const ROUND_MS = 1_000
/** The time for which a growing hold was refused, before it asks again. */
const REFUSED_MS = 1_000
/** The longest that a response goes on without a hold, while more is leased for it. */
const GROW_MS = 5_000

type Sources = {
  store: LeaseStore
  clock: Clock
  wallet: (accountId: string) => Wallet
  quota: (accountId: string) => Quota
  budgets: () => Budgets
  /** True while no settlement waits for the store, and no takeover of which this process does not know yet. */
  isKnown: () => boolean
}

/**
 * The leases of this process, of balances, quota windows and key limits that several processes share. Holds are taken
 * from it in one turn of the event loop, as if it were all there is; where it is too little, a request waits for more.
 */
export class Leases {
  readonly #sources: Sources
  readonly #time: LeaseTime
  readonly #leases = new Map<string, SharedLease>()
  /** Ids of requests for which no more can be leased: their reservation decides by what is there. */
  readonly #decided = new Set<string>()
  /** By id of a generation whose hold grows: undefined while it waits, or the instant at which it was refused. */
  readonly #growing = new Map<string, number | undefined>()
  /** The limits of keys as their latest requests had them, and the keys of each account. */
  readonly #limits = new Map<string, KeyLimit>()
  readonly #keys = new Map<string, Set<string>>()
  readonly #timer: Timer
  #exclusive: Promise<unknown> = Promise.resolve()
  /** Settlements on their way to the store, by account. */
  readonly #settling = new Map<string, number>()

  constructor(sources: Sources, time: LeaseTime = REAL) {
    this.#sources = sources
    this.#time = time
    sources.store.onReclaim((owner) => this.giveBack([owner]))
    this.#timer = setInterval(() => this.#round(), ROUND_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Throws LeaseNeeded where a request needs more than is leased, and store_unavailable while the store is away. */
  check(request: ReservationRequest, needs: Needs): void {
    if (!this.#sources.store.isAlive) throw new LeaseNeeded(this.#confirmed())
    const missing = this.#missing(request, needs)
    if (missing.length === 0 || this.#decided.delete(request.id)) return
    throw new LeaseNeeded(
      Promise.all(missing.map(([lease, amount]) => lease.get(amount))).then((enough) => {
        if (enough.includes(false)) this.#decided.add(request.id)
      }),
    )
  }

  async #confirmed(): Promise<void> {
    if (!(await this.#sources.store.confirm())) throw unavailable('PostgreSQL does not answer.')
  }

  /** A hold was taken. */
  onHeld(request: ReservationRequest): void {
    for (const lease of this.#leasesOf(request)) lease.onHeld()
  }

  /** A generation was settled. `written`: settled when that is in the store, or could not be written. */
  onSettled({ request, bill, flows, written }: Settled): void {
    const { accountId } = request
    const changeSettling = (change: number): void => {
      const count = (this.#settling.get(accountId) ?? 0) + change
      if (count === 0) this.#settling.delete(accountId)
      else this.#settling.set(accountId, count)
    }
    changeSettling(1)
    const end = (): void => changeSettling(-1)
    written.then(end, end)
    this.#growing.delete(request.id)
    this.#funding(request).onSpent(request.kind === 'subscription' ? flows : bill)
    if (request.limit !== undefined) this.#budgeting(request.accountId, request.keyId, request.limit).onSpent(bill)
  }

  /**
   * Leases more for a hold that cannot grow. True while more may come; false where it was refused lately.
   */
  grow(request: ReservationRequest, needs: Needs): boolean {
    const { id } = request
    const now = this.#time.now()
    const refusedAt = this.#growing.get(id)
    if (refusedAt !== undefined && now - refusedAt < REFUSED_MS) return false
    if (refusedAt === undefined && this.#growing.has(id)) return true
    const missing = this.#missing(request, needs)
    if (missing.length === 0) return true
    this.#growing.set(id, undefined)
    const end = (isEnough: boolean): void => {
      if (isEnough) this.#growing.delete(id)
      else if (this.#growing.has(id)) this.#growing.set(id, this.#time.now())
    }
    const leasing = Promise.all(missing.map(([lease, amount]) => lease.get(amount)))
    const isEnough = leasing.then((enough) => !enough.includes(false))
    this.#time.within(isEnough, GROW_MS, () => false).then(end, () => end(false))
    return true
  }

  /** Leases what a bill has beyond its hold; false where it cannot be had. */
  cover({ accountId }: ReservationRequest, beyond: Nano): Promise<boolean> {
    return this.#funds(accountId)
      .get(beyond)
      .catch(() => false)
  }

  /** Gives back what no request holds of these accounts and keys: another process needs it, or their limits changed. */
  giveBack(owners: readonly string[]): void {
    for (const owner of owners) {
      for (const kind of KINDS) this.#leases.get(`${kind} ${owner}`)?.giveBack()
      for (const keyId of this.#keys.get(owner) ?? []) this.#leases.get(`budget ${keyId}`)?.giveBack()
    }
  }

  /** Adds what the store has as leased by this process. */
  add({ funds, windows, budgets }: ReturnedLeases): void {
    const { wallet, quota, budgets: all } = this.#sources
    for (const { accountId, ...leased } of funds) wallet(accountId).lease(leased)
    for (const [accountId, own] of Map.groupBy(windows, (window) => window.accountId))
      quota(accountId).lease(own.map((window) => ({ ...window, granted: window.flows, elsewhere: 0n, free: 0n })))
    for (const { keyId, since, amount } of budgets) all().lease(keyId, { since, granted: amount, elsewhere: 0n })
  }

  /** The leases on which a request needs more than is left. */
  #missing(request: ReservationRequest, { amount, flows, budgeted }: Needs): [SharedLease, bigint][] {
    const { accountId, keyId, kind, limit, createdAt } = request
    const { wallet, quota, budgets } = this.#sources
    const missing: [SharedLease, bigint][] = []
    const isSubscription = kind === 'subscription'
    const needed = isSubscription ? flows : amount
    const left = isSubscription ? quota(accountId).left(createdAt) : wallet(accountId).available
    if ((needed > 0n && needed > left) || (isSubscription && !quota(accountId).hasBegun(createdAt)))
      missing.push([this.#funding(request), needed])
    if (limit !== undefined && budgeted > 0n && budgeted > budgets().left(keyId, limit, createdAt))
      missing.push([this.#budgeting(accountId, keyId, limit), budgeted])
    return missing
  }

  *#leasesOf({ accountId, keyId, kind, limit }: ReservationRequest): Iterable<SharedLease> {
    yield this.#funding({ accountId, kind })
    if (limit !== undefined) yield this.#budgeting(accountId, keyId, limit)
  }

  #funding({ accountId, kind }: Pick<ReservationRequest, 'accountId' | 'kind'>): SharedLease {
    return kind === 'subscription' ? this.#windows(accountId) : this.#funds(accountId)
  }

  #funds(accountId: string): SharedLease {
    const { store, wallet } = this.#sources
    return this.#lease(`funds ${accountId}`, () => ({
      left: () => wallet(accountId).available,
      acquire: async (least, most) => {
        const leased = await store.funds(accountId, { least, most })
        wallet(accountId).lease(leased)
        return { granted: leased.credit + leased.bonus, elsewhere: leased.elsewhere }
      },
      reclaim: () => store.reclaim(accountId),
      giveBack: (kept) => {
        const { credit, bonus } = wallet(accountId).giveBack(kept)
        if (credit + bonus > 0n) return this.#return({ funds: [{ accountId, credit, bonus }] })
      },
      giveBackAll: () =>
        this.#giveBackAll(
          'funds',
          accountId,
          accountId,
          () => wallet(accountId).held === 0n && wallet(accountId).giveBack(0n),
        ),
    }))
  }

  #windows(accountId: string): SharedLease {
    const { store, quota, clock } = this.#sources
    return this.#lease(`windows ${accountId}`, () => ({
      left: () => quota(accountId).left(clock.now()),
      acquire: async (least, most) => {
        const now = clock.now()
        const leased = await store.windows(accountId, quota(accountId).terms(now), now, { least, most })
        quota(accountId).lease(leased)
        const granted = leased.map((window) => window.granted).reduce((a, b) => (a < b ? a : b))
        return { granted, elsewhere: leased.map(({ elsewhere }) => elsewhere).reduce((a, b) => (a > b ? a : b)) }
      },
      reclaim: () => store.reclaim(accountId),
      giveBack: (kept) => {
        const windows = quota(accountId).giveBack(kept)
        if (windows.length > 0) return this.#return({ windows })
      },
      giveBackAll: () =>
        this.#giveBackAll(
          'windows',
          accountId,
          accountId,
          () => quota(accountId).isIdle && quota(accountId).giveBack(0n),
        ),
    }))
  }

  /** `limit`: that of the latest request of the key. */
  #budgeting(accountId: string, keyId: string, limit: KeyLimit): SharedLease {
    const { store, budgets, clock } = this.#sources
    this.#limits.set(keyId, limit)
    let keys = this.#keys.get(accountId)
    if (keys === undefined) this.#keys.set(accountId, (keys = new Set()))
    keys.add(keyId)
    return this.#lease(`budget ${keyId}`, () => ({
      left: () => budgets().left(keyId, this.#limits.get(keyId)!, clock.now()),
      acquire: async (least, most) => {
        const { amount, period } = this.#limits.get(keyId)!
        const since = budgets().since(keyId, { amount, period }, clock.now())
        const leased = await store.budget({ keyId, since, limit: amount, period }, { least, most })
        budgets().lease(keyId, leased)
        return leased
      },
      reclaim: () => store.reclaim(keyId),
      giveBack: (kept) => {
        const budget = budgets().giveBack(keyId, kept)
        if (budget !== undefined) return this.#return({ budgets: [budget] })
      },
      giveBackAll: () =>
        this.#giveBackAll(
          'budget',
          keyId,
          accountId,
          () => budgets().isIdle(keyId) && (budgets().giveBack(keyId, 0n) ?? {}),
        ),
    }))
  }

  #lease(name: string, source: () => ConstructorParameters<typeof SharedLease>[0]): SharedLease {
    let lease = this.#leases.get(name)
    if (lease === undefined) this.#leases.set(name, (lease = new SharedLease(source(), this.#time)))
    return lease
  }

  /** Gives leases back; this process keeps those that the store does not take. */
  async #return(some: Partial<ReturnedLeases>): Promise<void> {
    const returned = { funds: [], windows: [], budgets: [], ...some }
    if (!(await this.#sources.store.giveBack(returned))) this.add(returned)
  }

  /** `takeOut`: takes all out that is leased here; false where a request holds some of it. */
  #giveBackAll(kind: LeaseKind, owner: string, accountId: string, takeOut: () => object | false): Promise<boolean> {
    const { store, isKnown } = this.#sources
    return this.exclusively(async () => {
      // The store has as leased what a settlement pays that is not written, and what open generations hold that were
      // taken over.
      if (!isKnown() || this.#settling.has(accountId) || takeOut() === false) return false
      await store.giveBackAll(kind, owner)
      return true
    })
  }

  /** Runs what moves leases of which this process does not know yet, one after the other. */
  exclusively<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#exclusive.then(run)
    this.#exclusive = result.catch(() => {})
    return result
  }

  #round(): void {
    const now = this.#time.now()
    for (const [name, lease] of this.#leases) if (!lease.round(now)) this.#leases.delete(name)
  }
}

const KINDS = ['funds', 'windows', 'budget']

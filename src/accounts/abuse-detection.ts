import type { Config } from '../config/load.ts'
import type { Account, AccountStatus } from '../store/store.ts'

type Rules = Config['accountStatus']

const MINUTE_MS = 60_000
const HOUR = 60
/** The present minute and the sixty before it: never less than an hour, and less than a minute more. */
const BUCKETS = HOUR + 1
/**
 * An account's clients are looked at no more often, 200 times a second: looking costs a system call, and an address
 * that matters to an hour comes again.
 */
const LOOK_EVERY_MS = 5

/** An account whose status must change. */
type StatusChange = { accountId: string; before: AccountStatus; status: AccountStatus }

/** What every request of an account costs in flows, as a factor. Suspended and banned accounts ask for nothing. */
export const penaltyOf = (status: AccountStatus, { penalty }: Rules): number =>
  status === 'monitored' ? penalty.monitored : status === 'abusive' ? penalty.abusive : 1

/**
 * How accounts behaved over the last hour, and which of them change their status for it. Hearing costs the same for
 * every request; memory is bounded: counters of an hour's minutes, and as many addresses as the rules can tell apart.
 * Idle accounts are dropped.
 */
export class AbuseDetection {
  readonly #rules: Rules
  readonly #now: () => number
  readonly #watches = new Map<string, AccountActivity>()

  /** The clock gives milliseconds and must never run backwards, which is why it is not the time of day. */
  constructor(rules: Rules, now: () => number = () => performance.now()) {
    this.#rules = rules
    this.#now = now
  }

  /**
   * A request begins. `address` tells where its client is, where that is known; of requests that come within
   * milliseconds only the first is asked.
   */
  begin(accountId: string, address: (() => string | undefined) | undefined): void {
    const now = this.#now()
    const watch = this.#watch(accountId, now)
    watch.begin()
    if (address !== undefined && watch.mayLook(now)) watch.see(address(), this.#rules.addresses.abusive + 1)
  }

  /** A request that began has ended. */
  end(accountId: string): void {
    this.#watch(accountId, this.#now()).end()
  }

  /** A request was refused for what its client did: 402, 403, 422 or 429 of our own. */
  recordRefusal(accountId: string): void {
    this.#watch(accountId, this.#now()).refuse()
  }

  /**
   * Called once a minute with all accounts as they are stored now: gives those whose status must change, with the one
   * that they had `before`. A status is kept until a whole hour has passed in which no rule of it was broken; one that
   * was set by somebody else, or before the start, begins such an hour anew, and what was counted before it is
   * forgotten. Suspended and banned accounts are left alone.
   */
  evaluate(accounts: readonly Pick<Account, 'id' | 'status'>[]): StatusChange[] {
    const changes: StatusChange[] = []
    const now = this.#now()
    for (const { id, status } of accounts) {
      if (status === 'healthy' && !this.#watches.has(id)) continue
      const watch = this.#watch(id, now)
      if (watch.status !== status) watch.beginAnew(status)
      if (status === 'suspended' || status === 'banned') continue
      watch.status = watch.judge(this.#rules)
      if (watch.status !== status) changes.push({ accountId: id, before: status, status: watch.status })
      else if (status === 'healthy' && watch.idle) this.#watches.delete(id)
    }
    return changes
  }

  /** Accounts that are remembered at this moment. */
  get size(): number {
    return this.#watches.size
  }

  #watch(accountId: string, now: number): AccountActivity {
    const minute = Math.floor(now / MINUTE_MS)
    let watch = this.#watches.get(accountId)
    if (watch === undefined) this.#watches.set(accountId, (watch = new AccountActivity(minute)))
    watch.advance(minute)
    return watch
  }
}

/** One account's last hour. */
class AccountActivity {
  /** As it was stored when it was last judged. Whoever is not remembered was healthy. */
  status: AccountStatus = 'healthy'
  #minute: number
  #running = 0
  readonly #refusals = new Uint32Array(BUCKETS)
  /** The most requests that ran at the same moment, by minute. */
  readonly #peaks = new Uint32Array(BUCKETS)
  /** Minute in which each address was last seen, oldest first. */
  readonly #addresses = new Map<string, number>()
  #lookedAt = -Infinity
  /** Minutes in which a rule was last broken. */
  #monitoredAt = -Infinity
  #abusiveAt = -Infinity

  constructor(minute: number) {
    this.#minute = minute
  }

  /** Empties the minutes that have begun since. What runs at a minute's beginning is its first peak. */
  advance(minute: number): void {
    if (minute === this.#minute) return
    for (let begun = Math.max(this.#minute, minute - BUCKETS) + 1; begun <= minute; begun++) {
      this.#refusals[begun % BUCKETS] = 0
      this.#peaks[begun % BUCKETS] = this.#running
    }
    this.#minute = minute
  }

  begin(): void {
    this.#running += 1
    const bucket = this.#minute % BUCKETS
    this.#peaks[bucket] = Math.max(this.#peaks[bucket]!, this.#running)
  }

  end(): void {
    this.#running -= 1
  }

  refuse(): void {
    this.#refusals[this.#minute % BUCKETS]! += 1
  }

  mayLook(now: number): boolean {
    if (now - this.#lookedAt < LOOK_EVERY_MS) return false
    this.#lookedAt = now
    return true
  }

  /**
   * Of more than `most` addresses the ones seen last are kept, so that whether more than that were seen in an hour is
   * still known.
   */
  see(address: string | undefined, most: number): void {
    if (address === undefined || this.#addresses.get(address) === this.#minute) return
    this.#addresses.delete(address)
    this.#addresses.set(address, this.#minute)
    if (this.#addresses.size > most) this.#dropOldestAddress()
  }

  #dropOldestAddress(): void {
    for (const address of this.#addresses.keys()) {
      this.#addresses.delete(address)
      return
    }
  }

  beginAnew(status: AccountStatus): void {
    this.#refusals.fill(0)
    this.#peaks.fill(0)
    this.#peaks[this.#minute % BUCKETS] = this.#running
    this.#addresses.clear()
    this.#monitoredAt = status === 'monitored' ? this.#minute : -Infinity
    this.#abusiveAt = status === 'abusive' ? this.#minute : -Infinity
    this.status = status
  }

  judge(rules: Rules): AccountStatus {
    for (const [address, minute] of this.#addresses) {
      if (minute > this.#minute - BUCKETS) break
      this.#addresses.delete(address)
    }
    const measures = [
      [this.#refusals.reduce((sum, count) => sum + count, 0), rules.refusals],
      [this.#addresses.size, rules.addresses],
      [Math.max(...this.#peaks), rules.concurrency],
    ] as const
    if (measures.some(([measured, { monitored }]) => measured > monitored)) this.#monitoredAt = this.#minute
    if (measures.some(([measured, { abusive }]) => measured > abusive)) this.#abusiveAt = this.#minute
    return this.#minute - this.#abusiveAt < HOUR
      ? 'abusive'
      : this.#minute - this.#monitoredAt < HOUR
        ? 'monitored'
        : 'healthy'
  }

  /** Nothing is left to remember. */
  get idle(): boolean {
    return (
      this.#running === 0 &&
      this.#addresses.size === 0 &&
      this.#refusals.every((count) => count === 0) &&
      this.#peaks.every((peak) => peak === 0)
    )
  }
}

import type { Config } from '../config/load.ts'
import type { Account, AccountStatus } from '../store/store.ts'

type Rules = Config['accountStatus']

const MINUTE_MS = 60_000
const HOUR = 60
/** The current minute and the sixty before it: at least an hour, and less than a minute more. */
const BUCKETS = HOUR + 1
/** Reading a client's address is a system call, so at most 200 a second are read per account. */
const READ_ADDRESS_EVERY_MS = 5

/** A change of status that the rules require. */
type StatusChange = { accountId: string; before: AccountStatus; status: AccountStatus }

/** The factor on the flows of an account's requests. Suspended and banned accounts have no requests. */
export const penaltyOf = (status: AccountStatus, { penalty }: Rules): number =>
  status === 'monitored' ? penalty.monitored : status === 'abusive' ? penalty.abusive : 1

/**
 * Counts the activity of accounts over the last hour and decides which change their status for it. Recording takes
 * constant time; memory is bounded by counters per minute and as many addresses as the rules distinguish. Idle accounts
 * are dropped.
 */
export class AbuseDetection {
  readonly #rules: Rules
  readonly #now: () => number
  readonly #activities = new Map<string, AccountActivity>()

  /** `now`: a monotonic clock in milliseconds. */
  constructor(rules: Rules, now: () => number = () => performance.now()) {
    this.#rules = rules
    this.#now = now
  }

  /** A request begins. `address` reads its client's address; of requests within milliseconds only one is read. */
  begin(accountId: string, address: (() => string | undefined) | undefined): void {
    const now = this.#now()
    const activity = this.#activityOf(accountId, now)
    activity.begin()
    if (address !== undefined && activity.mayReadAddress(now))
      activity.recordAddress(address(), this.#rules.addresses.abusive + 1)
  }

  /** A request that began has ended. */
  end(accountId: string): void {
    this.#activityOf(accountId, this.#now()).end()
  }

  /** A request was refused by Sluice with 402, 403, 422 or 429, which its client can avoid. */
  recordRefusal(accountId: string): void {
    this.#activityOf(accountId, this.#now()).recordRefusal()
  }

  /**
   * Decides which of all stored accounts change their status; called once a minute. A status is kept until a whole hour
   * has passed without breaking its rules. One that was set elsewhere, or before the start, begins a new hour and
   * clears the counters. Suspended and banned accounts are left alone.
   */
  evaluate(accounts: Iterable<Pick<Account, 'id' | 'status'>>): StatusChange[] {
    const changes: StatusChange[] = []
    const now = this.#now()
    for (const { id, status } of accounts) {
      if (status === 'healthy' && !this.#activities.has(id)) continue
      const activity = this.#activityOf(id, now)
      if (activity.status !== status) activity.reset(status)
      if (status === 'suspended' || status === 'banned') continue
      activity.status = activity.evaluate(this.#rules)
      if (activity.status !== status) changes.push({ accountId: id, before: status, status: activity.status })
      else if (status === 'healthy' && activity.idle) this.#activities.delete(id)
    }
    return changes
  }

  /** Accounts in memory. */
  get size(): number {
    return this.#activities.size
  }

  #activityOf(accountId: string, now: number): AccountActivity {
    const minute = Math.floor(now / MINUTE_MS)
    let activity = this.#activities.get(accountId)
    if (activity === undefined) this.#activities.set(accountId, (activity = new AccountActivity(minute)))
    activity.advance(minute)
    return activity
  }
}

/** One account's last hour. */
class AccountActivity {
  /** The stored status at the last evaluation. Accounts that are not in memory were healthy. */
  status: AccountStatus = 'healthy'
  #minute: number
  #running = 0
  readonly #refusals = new Uint32Array(BUCKETS)
  /** The most concurrent requests, by minute. */
  readonly #peaks = new Uint32Array(BUCKETS)
  /** The minute in which each address was last recorded, oldest first. */
  readonly #addresses = new Map<string, number>()
  #addressReadAt = -Infinity
  /** Minutes in which a rule was last broken. */
  #monitoredAt = -Infinity
  #abusiveAt = -Infinity

  constructor(minute: number) {
    this.#minute = minute
  }

  /** Clears the buckets of minutes that have begun since. What runs at the start of a minute is its first peak. */
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

  recordRefusal(): void {
    this.#refusals[this.#minute % BUCKETS]! += 1
  }

  mayReadAddress(now: number): boolean {
    if (now - this.#addressReadAt < READ_ADDRESS_EVERY_MS) return false
    this.#addressReadAt = now
    return true
  }

  /** Keeps the latest `most` addresses, which is enough to know whether more were recorded within an hour. */
  recordAddress(address: string | undefined, most: number): void {
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

  reset(status: AccountStatus): void {
    this.#refusals.fill(0)
    this.#peaks.fill(0)
    this.#peaks[this.#minute % BUCKETS] = this.#running
    this.#addresses.clear()
    this.#monitoredAt = status === 'monitored' ? this.#minute : -Infinity
    this.#abusiveAt = status === 'abusive' ? this.#minute : -Infinity
    this.status = status
  }

  evaluate(rules: Rules): AccountStatus {
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

  /** True where nothing of the last hour is left. */
  get idle(): boolean {
    return (
      this.#running === 0 &&
      this.#addresses.size === 0 &&
      this.#refusals.every((count) => count === 0) &&
      this.#peaks.every((peak) => peak === 0)
    )
  }
}

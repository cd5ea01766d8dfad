import type { Config } from '../config/load.ts'
import type { Account, AccountStatus, Activity, ActivityStore } from '../store/store.ts'

type Rules = Config['accountStatus']

const MINUTE_MS = 60_000
const HOUR = 60
/** The current minute and the sixty before it: at least an hour, and less than a minute more. */
const BUCKETS = HOUR + 1
/** Reading a client's address is a system call, so at most 200 a second are read per account. */
const READ_ADDRESS_EVERY_MS = 5

/** From the lowest on. */
const STATUSES: readonly AccountStatus[] = ['healthy', 'monitored', 'abusive', 'suspended', 'banned']

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
  /** Other rules hold from the next evaluation on. */
  rules: Rules
  readonly #now: () => number
  readonly #activities = new Map<string, AccountActivity>()
  /** Processes that count activity, as of the last exchange. */
  #processes = 1

  /** `now`: a monotonic clock in milliseconds. */
  constructor(rules: Rules, now: () => number = () => performance.now()) {
    this.rules = rules
    this.#now = now
  }

  /** A request begins. `address` reads its client's address; of requests within milliseconds only one is read. */
  begin(accountId: string, address: (() => string | undefined) | undefined): void {
    const now = this.#now()
    const activity = this.#activityOf(accountId, now)
    activity.begin()
    if (address !== undefined && activity.mayReadAddress(now))
      activity.recordAddress(address(), this.rules.addresses.abusive + 1)
  }

  /** A request that began has ended. */
  end(accountId: string): void {
    this.#activityOf(accountId, this.#now()).end()
  }

  /** A request was refused by Sluice with 402, 403, 422 or 429, which its client can avoid. */
  recordRefusal(accountId: string): void {
    this.#activityOf(accountId, this.#now()).recordRefusal()
  }

  /** Exchanges what was counted with the processes that share the store; called before `evaluate`. */
  async exchange(store: ActivityStore | undefined): Promise<void> {
    if (store === undefined) return
    const { others, processes } = await store.exchange(this.#reports())
    this.#processes = processes
    const now = this.#now()
    const byAccount = Map.groupBy(others, ({ accountId }) => accountId)
    for (const id of this.#activities.keys()) this.#activityOf(id, now).receive(byAccount.get(id) ?? [])
  }

  /**
   * The accounts of which other processes have to know: one that breaks a rule over all processes has broken an equal
   * share of it at one of them. The others report of it then, too.
   */
  #reports(): Activity[] {
    const reports: Activity[] = []
    const now = this.#now()
    for (const id of this.#activities.keys()) {
      const activity = this.#activityOf(id, now)
      const isSuspect = activity.isSuspect(this.rules, this.#processes)
      if (isSuspect || activity.others.some((other) => other.isSuspect))
        reports.push({ accountId: id, isSuspect, ...activity.report() })
    }
    return reports
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
      if (activity.status !== status) activity.follow(status, this.#processes > 1)
      if (status === 'suspended' || status === 'banned') continue
      activity.status = activity.evaluate(this.rules)
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
  /** The last reports of other processes. */
  others: readonly Activity[] = []
  #receivedAt = 0
  /** The minute in which the counters were cleared: nothing that others counted before is counted. */
  #clearedAt = -Infinity
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

  /** Takes a status that was set elsewhere. A higher one may be what another process found, which counts on. */
  follow(status: AccountStatus, isShared: boolean): void {
    if (!isShared || STATUSES.indexOf(status) < STATUSES.indexOf(this.status)) this.#clear()
    this.#monitoredAt = status === 'monitored' ? this.#minute : -Infinity
    this.#abusiveAt = status === 'abusive' ? this.#minute : -Infinity
    this.status = status
  }

  #clear(): void {
    this.#refusals.fill(0)
    this.#peaks.fill(0)
    this.#peaks[this.#minute % BUCKETS] = this.#running
    this.#addresses.clear()
    this.#clearedAt = this.#minute
  }

  /** Takes what other processes report, in place of what they did before. */
  receive(reports: readonly Activity[]): void {
    this.others = reports
    this.#receivedAt = this.#minute
  }

  /** True where this process has counted more than its share of what makes an account monitored. */
  isSuspect(rules: Rules, processes: number): boolean {
    return this.#measures(rules, []).some(([measured, { monitored }]) => measured * processes > monitored)
  }

  report(): Pick<Activity, 'minutes' | 'addresses'> {
    const minutes: Activity['minutes'] = []
    for (let ago = 0; ago < BUCKETS && ago <= this.#minute; ago++) {
      const bucket = (this.#minute - ago) % BUCKETS
      const [refusals, peak] = [this.#refusals[bucket]!, this.#peaks[bucket]!]
      if (refusals > 0 || peak > 0) minutes.push([ago, refusals, peak])
    }
    return { minutes, addresses: [...this.#addresses].map(([address, at]) => [hashOf(address), this.#minute - at]) }
  }

  evaluate(rules: Rules): AccountStatus {
    const measures = this.#measures(rules, this.others)
    if (measures.some(([measured, { monitored }]) => measured > monitored)) this.#monitoredAt = this.#minute
    if (measures.some(([measured, { abusive }]) => measured > abusive)) this.#abusiveAt = this.#minute
    return this.#minute - this.#abusiveAt < HOUR
      ? 'abusive'
      : this.#minute - this.#monitoredAt < HOUR
        ? 'monitored'
        : 'healthy'
  }

  /** Each measure of the last hour with its rule: what this process has counted, and these others. */
  #measures(rules: Rules, others: readonly Activity[]): [measured: number, rule: Rules['refusals']][] {
    for (const [address, minute] of this.#addresses) {
      if (minute > this.#minute - BUCKETS) break
      this.#addresses.delete(address)
    }
    const refusals = this.#refusals.reduce((sum, count) => sum + count, 0)
    if (others.length === 0)
      return [
        [refusals, rules.refusals],
        [this.#addresses.size, rules.addresses],
        [Math.max(...this.#peaks), rules.concurrency],
      ]
    const [peaks, addresses] = [this.#peaks.slice(), new Set([...this.#addresses.keys()].map(hashOf))]
    let refusalsElsewhere = 0
    const isCounted = (at: number): boolean => at > this.#clearedAt && at > this.#minute - BUCKETS
    for (const other of others) {
      for (const [ago, count, peak] of other.minutes) {
        const at = this.#receivedAt - ago
        if (!isCounted(at)) continue
        refusalsElsewhere += count
        // Minutes of others may be before the first one of this process.
        peaks[(at + BUCKETS) % BUCKETS]! += peak
      }
      for (const [hash, ago] of other.addresses) if (isCounted(this.#receivedAt - ago)) addresses.add(hash)
    }
    return [
      [refusals + refusalsElsewhere, rules.refusals],
      [addresses.size, rules.addresses],
      [Math.max(...peaks), rules.concurrency],
    ]
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

/** Short, and the same at all processes. */
const hashOf = (address: string): string => new Bun.CryptoHasher('md5').update(address).digest('base64').slice(0, 12)

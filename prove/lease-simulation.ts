/**
 * Leases of 1,000 processes in simulated time: the leases of the ledger over a store in memory that answers late, with
 * accounts of which few have most of the traffic, and processes that die. The same with the same seed.
 */
import { SharedLease } from '../src/ledger/shared-lease.ts'
import { count, type Finding, percentile, randomOf } from './table.ts'

type Sizes = { processes: number; accounts: number; requests: number; seconds: number; deaths: number }

const ROUND_TRIP_MS = 1
const DEAD_MS = 15_000
/** Between two looks for processes that have ended. */
const TAKEOVER_MS = 3_000
const ROUND_MS = 1_000
/** Micro-USD: what a request holds, what it costs, and how long it takes. */
const [HELD, COST_SHARE, DURATION_MS] = [10_000, 0.2, 3_000]
/** Requests that the balance of each account pays for: one of a hundred runs out of money. */
const [RICH, POOR] = [1_000_000_000n, 40_000n]

/** Events in the order of their time; each is followed by what waits for it. */
class Time {
  #now = 0
  readonly #events: { at: number; order: number; run: () => void }[] = []
  #order = 0

  now = (): number => this.#now

  sleep = (ms: number): Promise<void> => new Promise((resolve) => this.after(ms, resolve))

  /** Each answer comes in time. */
  within = <T>(work: Promise<T>): Promise<T> => work

  after(ms: number, run: () => void): void {
    const event = { at: this.#now + ms, order: this.#order++, run }
    const events = this.#events
    let index = events.push(event) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (isBefore(events[parent]!, event)) break
      events[index] = events[parent]!
      index = parent
    }
    events[index] = event
  }

  async run(untilMs: number): Promise<void> {
    for (let event = this.#next(untilMs); event !== undefined; event = this.#next(untilMs)) {
      this.#now = event.at
      event.run()
      // All that waits for this event goes on before the next one.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  #next(untilMs: number): { at: number; run: () => void } | undefined {
    const events = this.#events
    const [first] = events
    if (first === undefined || first.at > untilMs) return undefined
    const last = events.pop()!
    if (events.length === 0) return first
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= events.length) break
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child++
      if (isBefore(last, events[child]!)) break
      events[index] = events[child]!
      index = child
    }
    events[index] = last
    return first
  }
}

const isBefore = (a: { at: number; order: number }, b: { at: number; order: number }): boolean =>
  a.at < b.at || (a.at === b.at && a.order < b.order)

/** The lease of one process of one account. */
type Share = { lease: SharedLease; leased: bigint; held: bigint }

class Simulation {
  readonly time = new Time()
  readonly #sizes: Sizes
  readonly #random = randomOf(31)
  readonly #free: bigint[]
  /** By account, the processes that have leased of it. */
  readonly #holders: Map<number, Share>[]
  readonly #dead = new Set<number>()
  roundTrips = 0
  served = 0
  refused = 0
  needless = 0
  exceeded = 0
  lost = 0
  readonly returnedAfterMs: number[] = []

  constructor(sizes: Sizes) {
    this.#sizes = sizes
    this.#free = Array.from({ length: sizes.accounts }, (_, index) => (index % 100 === 7 ? POOR : RICH))
    this.#holders = Array.from({ length: sizes.accounts }, () => new Map())
  }

  async run(): Promise<void> {
    const { requests, seconds, processes, accounts, deaths } = this.#sizes
    const random = this.#random
    for (let index = 0; index < requests; index++) {
      // The account of rank r has a share of about 1/r.
      const account = Math.min(accounts - 1, Math.floor(accounts ** random()) - 1)
      this.time.after(random() * seconds * 1000, () => void this.#request(Math.floor(random() * processes), account))
    }
    for (let index = 0; index < deaths; index++)
      this.time.after(random() * seconds * 500, () => this.#die(Math.floor(random() * processes)))
    const endMs = seconds * 1000 + DEAD_MS + 2 * TAKEOVER_MS
    for (let at = ROUND_MS; at < endMs; at += ROUND_MS) this.time.after(at, () => this.#round())
    await this.time.run(endMs)
  }

  async #request(process: number, account: number): Promise<void> {
    if (this.#dead.has(process)) return void (this.lost += 1)
    const share = this.#share(process, account)
    const held = BigInt(HELD)
    while (share.leased - share.held < held) {
      const idleBefore = this.#idle(account)
      if (await share.lease.get(held)) continue
      if (share.leased - share.held >= held) break
      this.refused += 1
      if (idleBefore >= held && this.#idle(account) >= held) this.needless += 1
      return
    }
    share.held += held
    share.lease.onHeld()
    this.time.after(this.#random() * DURATION_MS, () => {
      if (this.#dead.has(process)) return
      const cost = BigInt(Math.floor(HELD * COST_SHARE))
      share.held -= held
      share.leased -= cost
      share.lease.onSpent(cost)
      this.served += 1
    })
  }

  /** Money that no request holds, in all processes that live, and what is not leased. */
  #idle(account: number): bigint {
    let idle = this.#free[account]!
    for (const [process, { leased, held }] of this.#holders[account]!)
      if (!this.#dead.has(process)) idle += leased - held
    return idle
  }

  #share(process: number, account: number): Share {
    const holders = this.#holders[account]!
    const known = holders.get(process)
    if (known !== undefined) return known
    const answer = async <T>(run: () => T): Promise<T> => {
      this.roundTrips += 1
      await this.time.sleep(ROUND_TRIP_MS / 2)
      const result = run()
      await this.time.sleep(ROUND_TRIP_MS / 2)
      return result
    }
    const share: Share = {
      leased: 0n,
      held: 0n,
      lease: new SharedLease(
        {
          left: () => share.leased - share.held,
          acquire: async (least, most) => {
            const granted = await answer(() => this.#grant(account, least, most))
            share.leased += granted
            return { granted, elsewhere: this.#elsewhere(process, account) }
          },
          reclaim: () =>
            answer(() => {
              for (const [other, { lease }] of this.#holders[account]!)
                if (other !== process && !this.#dead.has(other))
                  this.time.after(ROUND_TRIP_MS / 2, () => lease.giveBack())
            }),
          giveBack: (kept) => {
            const idle = share.leased - share.held - kept
            if (idle <= 0n) return
            share.leased -= idle
            void answer(() => (this.#free[account]! += idle))
          },
        },
        this.time,
      ),
    }
    holders.set(process, share)
    return share
  }

  #grant(account: number, least: bigint, most: bigint): bigint {
    const free = this.#free[account]!
    const fair = least + (free - least) / BigInt(this.#sizes.processes)
    const granted = free <= least ? free : most < fair ? most : fair
    if (granted > free || granted < 0n) this.exceeded += 1
    this.#free[account] = free - granted
    return granted
  }

  #elsewhere(process: number, account: number): bigint {
    let sum = 0n
    for (const [other, { leased }] of this.#holders[account]!) if (other !== process) sum += leased
    return sum
  }

  /** The heir settles what was held by what it cost, and gives the rest back. */
  #die(process: number): void {
    if (this.#dead.has(process)) return
    this.#dead.add(process)
    const diedAt = this.time.now()
    this.time.after(DEAD_MS + this.#random() * TAKEOVER_MS, () => {
      for (const [account, holders] of this.#holders.entries()) {
        const share = holders.get(process)
        if (share === undefined) continue
        const cost = BigInt(Math.floor(Number(share.held) * COST_SHARE))
        this.#free[account]! += share.leased - cost
        holders.delete(process)
      }
      this.returnedAfterMs.push(this.time.now() - diedAt)
    })
  }

  #round(): void {
    for (const holders of this.#holders)
      for (const [process, { lease, leased }] of holders)
        if (!this.#dead.has(process) && !lease.round(this.time.now()) && leased === 0n) holders.delete(process)
  }
}

/** Simulates leases of many processes. */
export async function proveLeases(sizes: Sizes, progress: (text: string) => void): Promise<Finding[]> {
  const simulation = new Simulation(sizes)
  await simulation.run()
  const { served, refused, needless, exceeded, lost, roundTrips, returnedAfterMs } = simulation
  progress(`${count(served)} served, ${count(refused)} refused, ${count(roundTrips)} round trips`)
  const faults = [
    ...(exceeded > 0 ? [`${exceeded} leases exceeded what was free`] : []),
    ...(needless > 0 ? [`${needless} refusals while enough money was idle`] : []),
  ]
  const perRequest = (roundTrips / Math.max(1, served + refused)).toFixed(2)
  const [median, worst] = [percentile(returnedAfterMs, 0.5), Math.max(0, ...returnedAfterMs)].map((ms) =>
    (ms / 1000).toFixed(1),
  )
  const { processes, accounts, requests, seconds, deaths } = sizes
  return [
    {
      what: 'Leases in simulated time',
      tried:
        `${count(processes)} processes, ${count(accounts)} accounts, ${count(requests)} requests in ${seconds} s at ` +
        `random processes, ${deaths} deaths`,
      result:
        `${count(served)} served, ${count(refused)} refused for lack of money, ${count(lost)} at dead processes; ` +
        `${perRequest} round trips for leases per request; money of dead processes back after ${median} s, at most ` +
        `${worst} s`,
      ...(faults[0] === undefined ? {} : { fault: faults[0] }),
    },
  ]
}

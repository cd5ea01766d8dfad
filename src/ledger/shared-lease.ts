import { ANSWER_MS, notLeased, unanswered } from '../accounts/unanswered.ts'
import { within } from '../deadlines.ts'
import type { GatewayError } from '../error.ts'

/** The time in which what was spent, and what stayed unused, is measured. */
const SPAN_MS = 10_000
/** Intervals of further attempts, while other processes give back what they do not use. */
const RECLAIM_MS = [15, 35, 80, 170]
/** The time between two attempts to lease ahead of need. */
const REFILL_MS = 250
/** The time after which no further question is asked for those that wait. */
const WAIT_MS = 15_000

/** The source of one lease. Amounts as they are leased. */
type LeaseSource = {
  /** The amount that this process may hold now. */
  left(): bigint
  /** Leases at least `least`, if so much is free; else all that is free. */
  acquire(least: bigint, most: bigint): Promise<Acquired>
  /** Asks other processes to give back what they do not use. */
  reclaim(): Promise<void>
  /** Gives back what is not held, but for `kept`. Resolves when that can be leased again, if calls may overtake it. */
  giveBack(kept: bigint): Promise<void> | void
  /**
   * Gives back all that the store has as leased, also what this process does not know of; false where a request holds
   * some of it. Absent where each question says what this process has.
   */
  giveBackAll?(): Promise<boolean>
}

/** `granted`: leased now; `elsewhere`: what other processes have leased. */
export type Acquired = { granted: bigint; elsewhere: bigint }

/** The time of a lease: of this machine, or of a simulation. */
export type LeaseTime = { now(): number; sleep(ms: number): Promise<void>; within: typeof within }

export const REAL: LeaseTime = { now: () => performance.now(), sleep: (ms) => Bun.sleep(ms), within }

type Waiting = { amount: bigint; resolve: (isEnough: boolean) => void; reject: (error: unknown) => void }

/** The lease of one process from one source. One request to the store is under way at a time. */
export class SharedLease {
  readonly #source: LeaseSource
  readonly #time: LeaseTime
  #waiting: Waiting[] = []
  #isBusy = false
  /** When those that wait now get no further question. */
  #giveUpAt = Infinity
  /** Spent in this span and in the one before. */
  #spent = { now: 0n, before: 0n }
  /** The least that was left in this span. */
  #lowest: bigint | undefined
  #spanEndsAt: number
  #refilledAt = 0
  /** An answer of the store was lost: it may have more as leased than this process knows of. */
  #isUncertain = false
  #recovering: Promise<void> | undefined
  /** Questions that the store has not answered. */
  #asking = 0
  /** Amounts that were given back so far, and those of them that the store may not have yet. */
  #returns = { begun: 0, open: 0 }

  constructor(source: LeaseSource, time: LeaseTime = REAL) {
    this.#source = source
    this.#time = time
    this.#spanEndsAt = time.now() + SPAN_MS
  }

  /** Resolves to true when so much was leased, which others may have used meanwhile; false where it cannot be had. */
  get(amount: bigint): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ amount, resolve, reject })
      void this.#acquire()
    })
  }

  /** A hold was taken: leases more ahead of need where little is left. */
  onHeld(): void {
    const left = this.#source.left()
    if (this.#lowest === undefined || left < this.#lowest) this.#lowest = left
    if (left * 2n >= this.#pace || this.#isBusy) return
    const now = this.#time.now()
    if (now - this.#refilledAt < REFILL_MS) return
    this.#refilledAt = now
    void this.#acquire()
  }

  onSpent(amount: bigint): void {
    this.#spent.now += amount
  }

  /** Gives back all that no request holds. */
  giveBack(): void {
    this.#giveBack(0n)
  }

  #giveBack(kept: bigint): void {
    const returning = this.#source.giveBack(kept)
    if (returning === undefined) return
    this.#returns.begun++
    this.#returns.open++
    void returning.catch(() => (this.#isUncertain = true)).finally(() => this.#returns.open--)
  }

  /** Gives back what was not used for a span. False where nothing is leased and nothing was spent since. */
  round(now: number): boolean {
    if (now < this.#spanEndsAt) return true
    const left = this.#source.left()
    const lowest = this.#lowest === undefined || left < this.#lowest ? left : this.#lowest
    const idle = lowest - this.#pace
    if (idle > 0n) this.#giveBack(left - idle)
    const isUsed = this.#pace > 0n || left > idle || this.#isBusy || this.#returns.open > 0 || this.#isUncertain
    this.#spent = { now: 0n, before: this.#spent.now }
    this.#lowest = undefined
    this.#spanEndsAt = now + SPAN_MS
    if (this.#isUncertain) void this.#acquire()
    return isUsed
  }

  /** The amount that this process spends in a span. */
  get #pace(): bigint {
    const { now, before } = this.#spent
    return now > before ? now : before
  }

  async #acquire(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    do {
      const waiting = this.#waiting.splice(0)
      this.#giveUpAt = this.#time.now() + WAIT_MS
      try {
        await this.#acquireFor(waiting)
        for (const { resolve } of waiting.splice(0)) resolve(false)
      } catch (error) {
        for (const { reject } of waiting.splice(0)) reject(error)
      }
    } while (this.#waiting.length > 0)
    this.#isBusy = false
  }

  /** Leases for all of them, and lets those go on for which it is enough; the others remain in the list. */
  async #acquireFor(waiting: Waiting[]): Promise<void> {
    let mayComeBack = await this.#acquireMissing(waiting)
    for (const ms of RECLAIM_MS) {
      if (waiting.length === 0 || !mayComeBack) return
      // Others may have stopped to use some since the last question.
      await this.#answered(() => this.#source.reclaim())
      await this.#time.sleep(ms)
      mayComeBack = await this.#acquireMissing(waiting)
    }
  }

  /**
   * Nothing is asked meanwhile: its answer would go back, too. A part that goes back comes first, because this process
   * keeps it where the store does not take it.
   */
  async #recover(): Promise<void> {
    if (this.#asking === 0 && this.#returns.open === 0)
      this.#recovering ??= this.#giveBackAll().finally(() => (this.#recovering = undefined))
    await this.#recovering
  }

  async #giveBackAll(): Promise<void> {
    if ((await this.#source.giveBackAll?.()) !== false) this.#isUncertain = false
  }

  /** Throws where no answer comes in time, which still counts if it comes later, or where they have waited too long. */
  #answered<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#time.now() > this.#giveUpAt) throw slow()
    return this.#time.within(ask(), ANSWER_MS, unanswered)
  }

  async #ask(least: bigint): Promise<Acquired> {
    this.#asking++
    try {
      return await this.#source.acquire(least, least + this.#pace)
    } catch (error) {
      this.#isUncertain = true
      throw error
    } finally {
      this.#asking--
    }
  }

  /**
   * Those that can go on do so at once: what no request holds would be given back as soon as others ask for it.
   * Resolves to true where others have leased some, or what this process gave back was on its way.
   */
  async #acquireMissing(waiting: Waiting[]): Promise<boolean> {
    const before = this.#returns.begun - this.#returns.open
    while (this.#isUncertain) {
      await this.#answered(() => this.#recover())
      if (this.#recovering === undefined) break
    }
    const missing = waiting.reduce((sum, { amount }) => sum + amount, 0n) - this.#source.left()
    const least = missing > 0n ? missing : 0n
    const { granted, elsewhere } = await this.#answered(() => this.#ask(least))
    let left = this.#source.left()
    const isEnough = granted >= least
    for (const one of waiting.splice(0)) {
      if (!isEnough && one.amount > left) {
        waiting.push(one)
        continue
      }
      left -= one.amount
      one.resolve(true)
    }
    return elsewhere > 0n || this.#returns.begun > before
  }
}

const slow = (): GatewayError =>
  notLeased(`PostgreSQL answers slowly: nothing could be reserved in ${WAIT_MS / 1000} seconds.`)

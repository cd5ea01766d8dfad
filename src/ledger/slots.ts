import { ANSWER_MS, unanswered } from '../accounts/unanswered.ts'
import { within } from '../deadlines.ts'
import type { LeaseStore } from '../store/leases.ts'
import { type Acquired, SharedLease } from './shared-lease.ts'

const ROUND_MS = 1_000
const MOST_EMPTY_ROUNDS = 3
/** A request whose slot others used so often is one of very many at the same time. */
const MOST_TRIES = 50

/**
 * The slots of this process among those of owners whose limit of concurrency holds over several processes. A slot
 * that is leased is used again and again without the store. What stays unused goes back after a while, or at once where
 * another process asks; where all are used, the next that is left goes back.
 */
export class Slots {
  readonly #store: LeaseStore
  readonly #answerMs: number
  readonly #owners = new Map<string, OwnerSlots>()
  readonly #timer: Timer

  /** `answerMs`: the longest wait for an answer, after which the next call may be made. */
  constructor(store: LeaseStore, answerMs: number = ANSWER_MS) {
    this.#store = store
    this.#answerMs = answerMs
    store.onReclaim((owner) => this.#owners.get(owner)?.giveBackAsked())
    this.#timer = setInterval(() => this.#round(), ROUND_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Uses a slot of at most `limit`; false where this process has none left. */
  take(owner: string, limit: number): boolean {
    return this.#of(owner, limit).take()
  }

  /** Ends the use of a slot. */
  leave(owner: string): void {
    this.#owners.get(owner)?.leave()
  }

  /**
   * Leases a slot, or up to `wanted` where many are free, and asks other processes for theirs where none is. Resolves
   * when that is done, to false where no more can be expected soon; rejects where the store does not answer.
   */
  lease(owner: string, limit: number, wanted: number): Promise<boolean> {
    return this.#of(owner, limit).lease(wanted)
  }

  /** The same for one slot, which `take` uses. False where none can be had; others may use those that are leased. */
  async leaseOne(owner: string, limit: number, take: () => boolean): Promise<boolean> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      // A store that is away grants nothing.
      const mayHaveMore = await this.lease(owner, limit, 1).catch(() => false)
      if (take()) return true
      if (!mayHaveMore) break
    }
    return false
  }

  /** True where this process has any, used or not. */
  has(owner: string): boolean {
    return this.#owners.get(owner)?.isLeased ?? false
  }

  /** True where the last question of slots was not answered. */
  isAway(owner: string): boolean {
    return this.#owners.get(owner)?.isAway ?? false
  }

  #of(owner: string, limit: number): OwnerSlots {
    let slots = this.#owners.get(owner)
    if (slots === undefined)
      this.#owners.set(owner, (slots = new OwnerSlots(this.#store, owner, limit, this.#answerMs)))
    slots.setLimit(limit)
    return slots
  }

  #round(): void {
    const now = performance.now()
    for (const [owner, slots] of this.#owners) if (!slots.round(now)) this.#owners.delete(owner)
  }
}

/** The number of the last call of this process. */
let calls = 0

class OwnerSlots {
  readonly #store: LeaseStore
  readonly #owner: string
  readonly #answerMs: number
  readonly #lease: SharedLease
  #limit: number
  #leased = 0
  #used = 0
  /** Slots that go back when they are left. */
  #owed = 0
  /** Slots that the store has as leased; undefined where a call was not answered. */
  #stored: number | undefined = 0
  #wanted = 0
  /** Fewer slots were free than are needed. */
  #isShort = false
  /** One call is under way at a time, so that each knows what the one before it has leased. */
  #call: Promise<unknown> = Promise.resolve()
  #calling = 0
  /** Rounds without a slot or a call. */
  #emptyRounds = 0
  isAway = false

  constructor(store: LeaseStore, owner: string, limit: number, answerMs: number) {
    this.#store = store
    this.#owner = owner
    this.#answerMs = answerMs
    this.#limit = limit
    this.#lease = new SharedLease({
      left: () => BigInt(this.#left),
      acquire: (least, most) => this.#acquire(Number(least), Number(most)),
      reclaim: () => store.reclaim(owner),
      giveBack: (kept) => this.#giveBack(this.#left - Number(kept)),
    })
  }

  get #left(): number {
    return Math.max(0, Math.min(this.#leased, this.#limit) - this.#used)
  }

  /** Where the limit was lowered, all slots are leased anew, since others lease by the new limit. */
  setLimit(limit: number): void {
    if (limit < this.#limit) {
      this.#owed = this.#used
      this.#giveBack(this.#leased - this.#used)
    }
    this.#limit = limit
  }

  take(): boolean {
    if (this.#left === 0) return false
    this.#used++
    this.#lease.onHeld()
    return true
  }

  leave(): void {
    if (this.#used === 0) return
    this.#used--
    if (this.#owed === 0) return
    this.#owed--
    this.#giveBack(1)
  }

  giveBackAsked(): void {
    if (this.#leased > this.#used) this.#giveBack(this.#leased - this.#used)
    else if (this.#used > 0) this.#owed = Math.max(this.#owed, 1)
  }

  get isLeased(): boolean {
    return this.#leased > 0
  }

  async lease(wanted: number): Promise<boolean> {
    if (this.#leased >= this.#limit) return false
    this.#wanted = wanted
    this.#isShort = false
    await this.#lease.get(1n)
    return !this.#isShort
  }

  /** Gives back what was not used for some time. False where nothing is left to remember. */
  round(now: number): boolean {
    this.#lease.round(now)
    if (this.#calling === 0 && this.#stored !== this.#leased) this.#report()
    const isEmpty = this.#calling === 0 && this.#leased === 0 && this.#used === 0
    this.#emptyRounds = isEmpty ? this.#emptyRounds + 1 : 0
    // A question may be about to be asked again.
    return this.#emptyRounds < MOST_EMPTY_ROUNDS
  }

  async #acquire(least: number, most: number): Promise<Acquired> {
    // A few beyond those that wait, so that a growing number of requests asks seldom.
    const ahead = Math.max(most, this.#wanted, least + (this.#used >> 2))
    const { granted, elsewhere } = least === 0 ? NOTHING : await this.#ask(least, ahead)
    if (granted < least) this.#isShort = true
    return { granted: BigInt(granted), elsewhere: BigInt(elsewhere) }
  }

  #giveBack(slots: number): void {
    if (slots <= 0) return
    this.#leased -= slots
    this.#report()
  }

  /** Has the store know how many slots are leased. A call that fails is repeated by a later round. */
  #report(): void {
    this.#ask(0, 0).catch(() => {})
  }

  #ask(least: number, most: number): Promise<typeof NOTHING> {
    this.#calling++
    const asked = this.#call.then(() => this.#askNext(least, most)).finally(() => this.#calling--)
    this.#call = asked.catch(() => {})
    return asked
  }

  async #askNext(least: number, most: number): Promise<typeof NOTHING> {
    const [held, limit] = [this.#leased, this.#limit]
    if (least === 0 && this.#stored === held) return NOTHING
    this.#stored = undefined
    try {
      const call = this.#store.slots({ owner: this.#owner, call: ++calls, held, limit, least, most })
      const lease = await within(call, this.#answerMs, unanswered)
      this.#leased += lease.granted
      this.#stored = held + lease.granted
      this.isAway = false
      if (this.#limit < limit) this.#giveBack(lease.granted)
      return lease
    } catch (error) {
      this.isAway = true
      throw error
    }
  }
}

const NOTHING = { granted: 0, elsewhere: 0 }

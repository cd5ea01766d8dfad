import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { standingStill } from '../../src/accounts/clock.ts'
import { Plans } from '../../src/accounts/plans.ts'
import type { Config } from '../../src/config/load.ts'
import { type Deadline, Deadlines } from '../../src/deadlines.ts'
import { GatewayError } from '../../src/error.ts'
import { Ledger } from '../../src/ledger/ledger.ts'
import type { Price, Prices } from '../../src/ledger/prices.ts'
import type { Store, Subscription } from '../../src/store/store.ts'
import { prepareStore } from '../new-store.ts'
import { overriding, type Overrides } from '../store/overriding.ts'
import { ON_POSTGRES, storeIn } from '../stores.ts'

/** When the process dies: before a settlement is committed, or after that and before it is confirmed. */
export type Death = 'before' | 'after'

/** Deadlines that pass when a test wants them to. */
class HeldDeadlines extends Deadlines {
  readonly #held = new Map<Deadline, number>()

  override set(deadline: Deadline, ms: number): void {
    this.#held.set(deadline, ms)
  }

  override setWithin(deadline: Deadline, ms: number): void {
    this.set(deadline, Math.min(ms, this.#held.get(deadline) ?? ms))
  }

  override clear(deadline: Deadline): void {
    this.#held.delete(deadline)
  }

  /** The delays of all deadlines. */
  get delays(): number[] {
    return [...this.#held.values()]
  }

  pass(): void {
    for (const deadline of [...this.#held.keys()]) {
      this.#held.delete(deadline)
      deadline.owner.onDeadline()
    }
  }
}

/** A fake of real time: the age of generations, timers and deadlines. */
class Time {
  ageMs = 0
  wheel = new HeldDeadlines()
  #timers: (() => unknown)[] = []
  readonly #real = { now: performance.now, setInterval: globalThis.setInterval }

  /** Timers set while `open` runs fire with `fireTimers`, and deadlines on the wheel, which is a new one. */
  async capturingTimers<T>(open: () => Promise<T>): Promise<T> {
    this.#timers = []
    this.wheel = new HeldDeadlines()
    performance.now = () => this.ageMs
    globalThis.setInterval = ((callback: () => unknown) => (
      this.#timers.push(callback), { unref: () => {} }
    )) as unknown as typeof setInterval
    try {
      return await open()
    } finally {
      globalThis.setInterval = this.#real.setInterval
    }
  }

  /** `callback` is one of the timers. */
  add(callback: () => unknown): void {
    this.#timers.push(callback)
  }

  async fireTimers(): Promise<void> {
    for (const callback of this.#timers) await callback()
    this.wheel.pass()
  }

  restore(): void {
    performance.now = this.#real.now
  }
}

/**
 * A ledger over a real SQLite file, with a second connection like the command line's. Its process can die and its disk
 * can be full.
 */
export class Rig {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
  readonly time = new Time()
  now = Date.UTC(2026, 0, 31, 12)
  /** The number of next writes that the store refuses. */
  failures = 0
  /** The number of next settlements that the store writes without an acknowledgement. */
  lostAnswers = 0
  /** Ids of committed settlements. */
  readonly committed = new Set<string>()
  /** Ids of generations written as open since the last sweep. */
  readonly written = new Set<string>()
  /** True while a refused write of open generations is pending. */
  rewriteOwed = false
  cost: Price | undefined
  store!: Store
  ledger!: Ledger
  other!: Store
  #death: Death | undefined
  /** The progress of open generations, in place of a process of PostgreSQL that has none. */
  #progress: string | undefined
  /** The number of writes in flight. */
  #writes = 0
  readonly #overdraft: bigint
  readonly #plans: Plans
  readonly #whenExhausted: Config['billing']['whenExhausted']

  constructor(
    overdraft: bigint,
    plans: {
      usdPerFlow: number
      tiers: [
        string,
        { usdPerMonth: number; flows: Record<'5_hour' | '7_day' | 'monthly', number>; discount: number },
      ][]
    },
    whenExhausted: Config['billing']['whenExhausted'] = { payAsYouGo: 'cut', subscription: 'finish' },
  ) {
    this.#whenExhausted = whenExhausted
    this.#overdraft = overdraft
    this.#plans = new Plans({
      plans: { usdPerFlow: plans.usdPerFlow, tiers: new Map(plans.tiers) },
    } as unknown as Config)
  }

  async open(): Promise<void> {
    this.#death = undefined
    if (this.other === undefined) await prepareStore(this.folder)
    await this.time.capturingTimers(async () => {
      // With leases, whose way is that of several processes, a reservation would wait.
      this.store = await storeIn(this.folder, { exclusive: !ON_POSTGRES })
      const prices = { cost: () => this.cost } as unknown as Prices
      this.ledger = await Ledger.open({
        store: this.#fragile(this.store),
        plans: this.#plans,
        prices,
        overdraft: this.#overdraft,
        whenExhausted: this.#whenExhausted,
        clock: { now: () => this.now, elapsed: standingStill },
        wheel: this.time.wheel,
      })
    })
    this.other ??= await storeIn(this.folder)
  }

  /** A store whose writes fail, or are cut off by the death of the process. */
  #fragile(store: Store): Store {
    const closeGeneration = async (...args: Parameters<Store['ledger']['closeGeneration']>): Promise<void> => {
      if (this.#death === 'before') return new Promise(() => {})
      if (this.failures > 0) {
        this.failures--
        throw new GatewayError('store_unavailable', 'The disk is full.')
      }
      await this.#tracked(store.ledger.closeGeneration(...args))
      this.committed.add(args[0].record.id)
      if (this.#death === 'after') return new Promise(() => {})
      if (this.lostAnswers === 0) return
      this.lostAnswers--
      throw new GatewayError('store_unavailable', 'The acknowledgement was lost.')
    }
    const saveOpen = async (...args: Parameters<Store['ledger']['saveOpen']>): Promise<void> => {
      if (this.failures > 0) {
        this.failures--
        this.rewriteOwed = true
        throw new GatewayError('store_unavailable', 'The disk is full.')
      }
      await this.#tracked(store.ledger.saveOpen(...args))
      // One successful retry writes all that is pending.
      this.rewriteOwed = false
      for (const { id } of args[0]) this.written.add(id)
    }
    const setSubscription = (subscription: Subscription, before?: Subscription): Promise<void> =>
      this.#tracked(store.ledger.setSubscription(subscription, before))
    const withoutProcess: Overrides = {
      watch: async (listener: () => Promise<void>) => this.time.add(listener),
      'progress.write': async (text: string) => (this.#progress = text),
      'progress.read': (() => this.#progress) as never,
    }
    return overriding(store, () => ({
      ...(ON_POSTGRES ? withoutProcess : {}),
      'ledger.closeGeneration': closeGeneration,
      'ledger.saveOpen': saveOpen,
      'ledger.setSubscription': setSubscription,
    }))
  }

  #tracked(write: Promise<void>): Promise<void> {
    this.#writes++
    return write.finally(() => this.#writes--)
  }

  /** The process dies while `during` runs: its memory is lost, the disk stays. `open` starts it again. */
  async die(death: Death, during: () => void): Promise<void> {
    this.#death = death
    during()
    await this.flush()
    await this.store.close()
    this.failures = 0
    this.rewriteOwed = false
  }

  /** Waits until all writes so far are committed and confirmed. */
  async flush(): Promise<void> {
    do for (let turn = 0; turn < 6; turn++) await new Promise((resolve) => setImmediate(resolve))
    while (this.#writes > 0)
  }

  async close(): Promise<void> {
    await this.other.close()
    await this.store.close()
    this.time.restore()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Plans } from '../../src/accounts/plans.ts'
import type { Config } from '../../src/config/load.ts'
import { GatewayError } from '../../src/error.ts'
import { Ledger } from '../../src/ledger/ledger.ts'
import type { Price, Prices } from '../../src/ledger/prices.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import type { Store, Subscription } from '../../src/store/store.ts'
import { overriding } from '../store/overriding.ts'

/**
 * How a store's process dies: before what is being closed is committed, or after it, and before anybody hears of that.
 */
export type Death = 'before' | 'after'

/** Real time as the code sees it: how old things are, and what a timer would do. */
class Time {
  ageMs = 0
  #bells: (() => unknown)[] = []
  readonly #real = { now: performance.now, setInterval: globalThis.setInterval }

  /** Timers set meanwhile ring when they are told to. */
  async catching<T>(open: () => Promise<T>): Promise<T> {
    this.#bells = []
    performance.now = () => this.ageMs
    globalThis.setInterval = ((bell: () => unknown) => (
      this.#bells.push(bell), { unref: () => {} }
    )) as unknown as typeof setInterval
    try {
      return await open()
    } finally {
      globalThis.setInterval = this.#real.setInterval
    }
  }

  async ring(): Promise<void> {
    for (const bell of this.#bells) await bell()
  }

  restore(): void {
    performance.now = this.#real.now
  }
}

/**
 * A ledger over a real file of SQLite, with another connection beside it as the command line has one; its process can
 * die and its disk be full.
 */
export class Rig {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
  readonly time = new Time()
  now = Date.UTC(2026, 0, 31, 12)
  /** Writes of generations that the store will refuse. */
  failures = 0
  /** Closings that it has committed. */
  readonly taken = new Set<string>()
  /** Generations that it has written as open since the last sweep, and whether one that it refused still waits. */
  readonly kept = new Set<string>()
  keepOwed = false
  cost: Price | undefined
  store!: SqliteStore
  ledger!: Ledger
  other!: SqliteStore
  #death: Death | undefined
  /** Writes that are not committed yet. */
  #writes = 0
  readonly #overdraft: bigint
  readonly #plans: Plans

  constructor(
    overdraft: bigint,
    plans: {
      usdPerFlow: number
      tiers: [
        string,
        { usdPerMonth: number; flows: Record<'5_hour' | '7_day' | 'monthly', number>; discount: number },
      ][]
    },
  ) {
    this.#overdraft = overdraft
    this.#plans = new Plans({
      plans: { usdPerFlow: plans.usdPerFlow, tiers: new Map(plans.tiers) },
    } as unknown as Config)
  }

  async open(): Promise<void> {
    this.#death = undefined
    await this.time.catching(async () => {
      this.store = new SqliteStore({ folder: this.folder, exclusive: true })
      const prices = { cost: () => this.cost } as unknown as Prices
      this.ledger = await Ledger.open({
        store: this.#fragile(this.store),
        plans: this.#plans,
        prices,
        overdraft: this.#overdraft,
        now: () => this.now,
      })
    })
    this.other ??= new SqliteStore({ folder: this.folder, exclusive: false })
  }

  /** A store whose closings fail or are cut off by the death of the process. */
  #fragile(store: SqliteStore): Store {
    const closeGeneration = async (...asked: Parameters<Store['ledger']['closeGeneration']>): Promise<void> => {
      if (this.#death === 'before') return new Promise(() => {})
      if (this.failures > 0) {
        this.failures--
        throw new GatewayError('store_unavailable', 'The disk is full.')
      }
      await this.#awaited(store.ledger.closeGeneration(...asked))
      this.taken.add(asked[0].record.id)
      if (this.#death === 'after') return new Promise(() => {})
    }
    const saveOpen = async (open: Parameters<Store['ledger']['saveOpen']>[0]): Promise<void> => {
      if (this.failures > 0) {
        this.failures--
        this.keepOwed = true
        throw new GatewayError('store_unavailable', 'The disk is full.')
      }
      await this.#awaited(store.ledger.saveOpen(open))
      // What one round could write it could write all of.
      this.keepOwed = false
      for (const { id } of open) this.kept.add(id)
    }
    const setSubscription = (subscription: Subscription, before?: Subscription): Promise<void> =>
      this.#awaited(store.ledger.setSubscription(subscription, before))
    const overrides = {
      'ledger.closeGeneration': closeGeneration,
      'ledger.saveOpen': saveOpen,
      'ledger.setSubscription': setSubscription,
    }
    return overriding(store, () => overrides)
  }

  #awaited(write: Promise<void>): Promise<void> {
    this.#writes++
    return write.finally(() => this.#writes--)
  }

  /**
   * The process dies while `during` goes on: its memory is gone, and what the disk has stays. `open` starts it again.
   */
  async die(death: Death, during: () => void): Promise<void> {
    this.#death = death
    during()
    await this.flush()
    await this.store.close()
    this.failures = 0
    this.keepOwed = false
  }

  /** Until everything asked of the store so far is committed, and heard of. */
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

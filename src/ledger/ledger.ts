import { SteadyClock, type Clock } from '../accounts/clock.ts'
import type { Plans } from '../accounts/plans.ts'
import { Deadline, deadlines, type Deadlines, type Expiring } from '../deadlines.ts'
import { GatewayError, isUnavailable } from '../error.ts'
import { noUsage } from '../generation/usage.ts'
import { log } from '../log/log.ts'
import type { Nano } from '../money.ts'
import { ClosedAlready, type Closing, type OpenGeneration as StoredOpen, type Store } from '../store/store.ts'
import type { WhenExhausted } from '../config/terms.ts'
import { AccountFunds } from './account-funds.ts'
import { Holds } from './holds.ts'
import { Meter, type Unseen } from './meter.ts'
import {
  readProgress,
  restoreOpen,
  serializeOpen,
  type OpenGeneration,
  type ReservationRequest,
} from './open-generation.ts'
import { OpenGenerations, PROGRESS_EVERY_MS } from './open-generations.ts'
import type { Outcome } from './outcomes.ts'
import { OutputSpeeds } from './output-speeds.ts'
import { PendingWrites, type Write } from './pending-writes.ts'
import { Slots } from './slots.ts'
import type { Prices } from './prices.ts'
import { Settlement, settlementOf, type ChargedUsage, type SettlementTerms } from './settlement.ts'

export type { OpenGeneration, ReservationRequest } from './open-generation.ts'

/** The time after which pending writes are tried again. */
const RETRY_AFTER_MS = 100

type Options = {
  store: Store
  plans: Plans
  prices: Prices
  overdraft: Nano
  whenExhausted: { payAsYouGo: WhenExhausted; subscription: WhenExhausted }
  clock?: Clock
  wheel?: Deadlines
}

/** Reservations before a request is sent, settlement and record after it: the only way anything is charged. */
export class Ledger implements Expiring {
  readonly #store: Store
  readonly plans: Plans
  readonly #prices: Prices
  readonly #clock: Clock
  readonly #open = new OpenGenerations()
  readonly #speeds = new OutputSpeeds()
  readonly #holds: Holds
  readonly funds: AccountFunds
  /** Those of limits of concurrency which several processes share. */
  readonly slots: Slots | undefined
  /** Called when funds are reserved for a generation. */
  onOpened: ((open: OpenGeneration) => void) | undefined
  /** Called when a generation has ended and its record is written, or could not be. */
  onClosed: ((open: OpenGeneration) => void) | undefined
  /** While any write is pending, no reservation is made. */
  readonly #pending = new PendingWrites()
  /** Settlements whose first write failed. */
  readonly #unstored = new WeakMap<OpenGeneration, { settlement: Settlement; write: Write }>()
  readonly #wheel: Deadlines
  /** Set while a generation is open or a write is pending. */
  readonly #sweep = new Deadline(this)

  private constructor(options: Options) {
    const { store, plans, prices, overdraft, whenExhausted, clock = new SteadyClock(), wheel = deadlines } = options
    this.funds = new AccountFunds({ store, plans, overdraft, clock, isWritable: () => this.isWritable })
    this.#holds = new Holds({ funds: this.funds, plans, whenExhausted, speeds: this.#speeds })
    this.slots = store.leases && new Slots(store.leases)
    this.#store = store
    this.plans = plans
    this.#prices = prices
    this.#clock = clock
    this.#wheel = wheel
  }

  /** Loads balances and subscriptions, and settles what a crash left open by what had been received until then. */
  static async open(options: Options): Promise<Ledger> {
    const ledger = new Ledger(options)
    await ledger.funds.loadAll()
    const { store } = options
    const left = ledger.#restore(await store.ledger.openGenerations(), store.progress.read())
    const settling = ledger.#settleLeft(left)
    ledger.funds.resetRequested()
    await settling
    await ledger.inherit()
    store.watch(async () => {
      await ledger.load()
      ledger.funds.resetRequested()
    })
    return ledger
  }

  /**
   * Settles what other processes left open that have ended. True where there was any. `adopt`: called with deferred
   * generations, which go on.
   */
  async inherit(adopt: (deferred: OpenGeneration[]) => void = () => {}): Promise<boolean> {
    for (let isFirst = true; ; isFirst = false) {
      const left = await this.funds.inherit(({ generations, progress }) => this.#restore(generations, progress))
      if (left === undefined) return !isFirst
      adopt(left.flatMap(({ open }) => (open.deferred === true ? [open] : [])))
      await this.#settleLeft(left)
    }
  }

  /**
   * Goes on with generations that a process left which has ended. All holds are taken before the first settlement,
   * which must not pay with what another one holds.
   */
  #restore(rows: readonly StoredOpen[], written: string | undefined): Left[] {
    const progress = readProgress(written)
    const left = rows.map(({ state }) => restoreOpen(state, this.#clock.now(), progress))
    for (const { open } of left) {
      this.#holds.restore(open)
      this.#enter(open)
    }
    return left
  }

  /** Settles them, but for deferred ones. */
  async #settleLeft(left: readonly Left[]): Promise<void> {
    await Promise.all(
      left.map(({ open, ...charged }) =>
        open.deferred === true ? undefined : this.#settle(open, charged).catch(ignoreUnavailable),
      ),
    )
  }

  /** Reads balances and subscriptions of accounts that another process changed. */
  load(): Promise<void> {
    return this.funds.loadChanges()
  }

  /**
   * Reserves what a request needs to begin, from the balance or from all three quota windows, and from the key's
   * spending limit: all or nothing, in one turn of the event loop. `countInput`: its input tokens, where the provider
   * reports none. Throws insufficient_credit (402), quota_exceeded (429), or store_unavailable (503) while writes are
   * pending.
   */
  reserve(request: ReservationRequest, countInput: () => Promise<number>): OpenGeneration {
    if (this.#pending.size > 0)
      throw new GatewayError(
        'store_unavailable',
        'Sluice cannot record charges: its disk is full, or its store does not respond. Retry in a few seconds.',
        { retryAfterSeconds: 5, shouldRetry: true },
      )
    const plan = this.plans.of(this.funds.quota(request.accountId, request.createdAt).subscription.tier)
    request.discount = Math.max(request.discount, plan.discount)
    const open: OpenGeneration = {
      request,
      hold: this.#holds.take(request),
      meter: new Meter(countInput, this.#clock.now() - request.createdAt, request.choices),
    }
    open.meter.onMoved = this.#onMoved
    this.#holds.follow(open)
    this.#enter(open)
    this.onOpened?.(open)
    return open
  }

  /** Keeps a generation open, across restarts too, while its provider works on in the background. */
  async defer(open: OpenGeneration): Promise<void> {
    open.deferred = true
    open.writtenAtMs ??= open.meter.ageMs
    await this.#store.ledger.saveOpen([rowOf(open)], true)
  }

  /** False while writes are pending, and therefore no reservation is made. */
  get isWritable(): boolean {
    return this.#pending.size === 0
  }

  /** The number of generations that have not ended. */
  get openCounts(): { streamed: number; whole: number } {
    return this.#open.counts
  }

  /** Generations that have not ended. */
  get open(): Iterable<OpenGeneration> {
    return this.#open
  }

  /** Generations whose providers work on in the background. */
  get deferred(): OpenGeneration[] {
    return this.#open.deferred
  }

  /**
   * Ends a generation: counts usage that the provider did not report, settles the hold, and resolves when record and
   * postings are committed. Only the first call has an effect.
   */
  async close(open: OpenGeneration, outcome: Outcome): Promise<void> {
    const { meter, request } = open
    if (!meter.close(outcome)) return
    const unseen: Unseen | undefined =
      outcome === 'client-left' && open.deferred !== true
        ? {
            tokens: this.#speeds.unseen(open),
            kind: request.streamed ? 'reasoningTokens' : 'outputTokens',
            limit: request.worst.outputTokens,
          }
        : undefined
    const counting = meter.count(unseen)
    // A failed count must not keep the hold for ever: what the provider reported is charged.
    if (counting !== undefined)
      await counting.catch((error: unknown) => log.error('Tokens could not be counted', error))
    const usage = meter.charge === 'nothing' ? noUsage() : meter.usage
    if (meter.finish !== undefined && meter.estimation === undefined) this.#speeds.measure(open)
    try {
      await this.#settle(open, { usage, estimation: meter.estimation })
    } finally {
      this.onClosed?.(open)
    }
  }

  #settle(open: OpenGeneration, charged: ChargedUsage): Promise<void> {
    const { leases } = this.funds
    const wallet = open.request.kind === 'subscription' ? undefined : this.funds.wallet(open.request.accountId)
    if (leases === undefined || wallet === undefined) return this.#post(open, charged)
    const { bill } = settlementOf(open, charged, { wallet, plans: this.plans, prices: this.#prices })
    const beyond = bill - open.hold.amount
    if (beyond <= wallet.available) return this.#post(open, charged)
    // The overdraft is for what no process has. Another one that ends at the same time may use what is leased for this.
    return leases
      .cover(open.request, beyond)
      .then((isEnough) => (isEnough ? this.#settle(open, charged) : this.#post(open, charged)))
  }

  #post(open: OpenGeneration, charged: ChargedUsage): Promise<void> {
    const { settlement, terms } = this.#settlementOf(open, charged)
    if (terms.dispute !== undefined) log.warn(terms.dispute)
    open.record = terms.record
    const closing = settlement.apply()
    this.#open.delete(open)
    this.#holds.end(open)
    const write = (): Promise<void> => this.#store.ledger.closeGeneration(closing, () => settlement.markStored())
    const written = this.#pending.attempt(write, () => {
      this.#unstored.set(open, { settlement, write })
      this.#sweepSoon()
    })
    this.funds.leases?.onSettled({ request: open.request, bill: terms.bill, flows: terms.flows, written })
    return written
  }

  #settlementOf(open: OpenGeneration, charged: ChargedUsage): { settlement: Settlement; terms: SettlementTerms } {
    const { kind, accountId } = open.request
    const wallet = kind === 'subscription' ? undefined : this.funds.wallet(accountId)
    const quota = open.hold.quota === undefined ? undefined : this.funds.quota(accountId)
    const terms = settlementOf(open, charged, { wallet, plans: this.plans, prices: this.#prices })
    return { settlement: new Settlement(open, terms, { wallet, quota, budgets: this.funds.budgets }), terms }
  }

  /**
   * Voids the charge of a response that was not delivered because its settlement could not be written. The generation
   * is recorded as failed once the store can be written again. Until then it counts as charged: the settlement may have
   * been written without an acknowledgement, and then the charge remains.
   */
  voidCharge(open: OpenGeneration): void {
    const unstored = this.#unstored.get(open)
    if (unstored === undefined || !this.#pending.cancel(unstored.write)) return
    this.#unstored.delete(open)
    open.meter.voidCharge()
    const charged = unstored.settlement
    const { settlement: voided, terms } = this.#settlementOf(open, { usage: noUsage(), estimation: undefined })
    charged.revert()
    const closing = voided.apply()
    voided.revert()
    charged.apply()
    open.record = terms.record
    const write = async (): Promise<void> => {
      if (!(await this.#closesFirst(closing))) return
      charged.revert()
      voided.apply()
    }
    const written = this.#pending.attempt(write, () => this.#sweepSoon())
    this.funds.leases?.onSettled({ request: open.request, bill: 0n, flows: 0n, written })
    written.catch(() => {})
  }

  /** Writes the closing of a voided charge; false where the charge is in the store already. */
  async #closesFirst(closing: Closing): Promise<boolean> {
    try {
      await this.#store.ledger.closeGeneration(closing)
      return true
    } catch (error) {
      if (!(error instanceof ClosedAlready)) throw error
      log.warn(
        `generation ${closing.record.id} is charged, though its client received an error: its settlement was ` +
          'written without an acknowledgement',
      )
      return false
    }
  }

  /** The sweep: writes open generations, so that a crash does not lose them, and retries pending writes. */
  onDeadline(): void {
    const seen = this.#open.takeSeen()
    for (const open of seen) this.#holds.growUnseen(open)
    const due = seen.filter(({ deferred, meter }) => deferred !== true && meter.takeChanged())
    const moved = this.#open.takeMoved()
    const write = (): Promise<void> =>
      this.#store.ledger.saveOpen(due.filter((open) => this.#open.has(open)).map(rowOf), false)
    if (due.length > 0) void this.#pending.attempt(write, () => this.#sweepSoon()).catch(() => {})
    if (moved.length > 0) this.#store.progress.write(this.#open.progress(moved))
    if (this.#pending.size > 0) void this.#pending.retry()
    this.#sweepSoon()
  }

  /** A response received something: its progress is written soon. */
  readonly #onMoved = (): void => this.#wheel.setWithin(this.#sweep, PROGRESS_EVERY_MS)

  #sweepSoon(): void {
    const waitMs = this.#pending.size > 0 ? RETRY_AFTER_MS : this.#open.dueInMs
    if (waitMs !== undefined) this.#wheel.setWithin(this.#sweep, waitMs)
  }

  /** The sweep is set for the others already: it looks at none of them here. */
  #enter(open: OpenGeneration): void {
    this.#wheel.setWithin(this.#sweep, this.#open.add(open))
  }

  /** Waits until no generation is open except deferred ones, at most this long. */
  async settled(atMostMs: number): Promise<void> {
    const deadline = performance.now() + atMostMs
    while (this.#open.size > this.deferred.length && performance.now() < deadline) await Bun.sleep(5)
  }

  /**
   * Retries pending writes a last time, once all requests are closed. Fails where the store still does not take them.
   */
  async stop(): Promise<void> {
    this.funds.leases?.stop()
    this.slots?.stop()
    await this.#pending.finish()
    // A write that the store did not take has asked for the sweep.
    this.#wheel.clear(this.#sweep)
    if (this.#pending.size > 0)
      throw new Error(
        `could not record ${this.#pending.size} ledger writes: the disk is full, or the store does not respond`,
      )
  }
}

/** A generation that another process left, and the usage that it is charged for. */
type Left = ReturnType<typeof restoreOpen>

/** A settlement that the store cannot take is pending, which is no reason not to start. */
const ignoreUnavailable = (error: unknown): void => {
  if (!isUnavailable(error)) throw error
}

const rowOf = (open: OpenGeneration): StoredOpen => ({
  id: open.request.id,
  accountId: open.request.accountId,
  state: serializeOpen(open),
})

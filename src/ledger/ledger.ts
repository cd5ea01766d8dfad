import { Budgets, type BudgetHold, type KeyLimit } from '../accounts/budget.ts'
import { FREE_TIER, type Plans } from '../accounts/plans.ts'
import { newSubscription, Quota, type QuotaHold } from '../accounts/quota.ts'
import { GatewayError } from '../error.ts'
import { noUsage, type Usage } from '../generation/usage.ts'
import type { Nano } from '../money.ts'
import { lossesText } from '../protocols/losses.ts'
import type { BackgroundWork, Closing, GenerationRecord, OpenGeneration as StoredOpen, Store } from '../store/store.ts'
import { chargesOf } from './book.ts'
import type { Outcome } from './outcomes.ts'
import { Meter } from './meter.ts'
import { readOpen, writeOpen } from './open-state.ts'
import { storedPrice, type Price, type Prices } from './prices.ts'
import { Wallet } from './wallet.ts'
import { rate, rateWorst } from './rating.ts'

/** What asks to be held and paid for. `price` is that of the admission, whatever becomes of prices later. */
export type ReservationRequest = Pick<
  GenerationRecord,
  'id' | 'accountId' | 'keyId' | 'kind' | 'api' | 'model' | 'createdAt' | 'streamed'
> & {
  price: Price | undefined
  /** Basis points off pay-as-you-go bills: the account's, and where that is more, its plan's. */
  discount: number
  /** Factor on the flows of a subscription. */
  penalty: number
  /** The most it may use. */
  worst: Usage
  limit?: KeyLimit | undefined
}

/** What is set aside until it is settled: money, or flows of the quota windows; and of the key's own limit. */
export type Hold = { amount: Nano; quota?: QuotaHold | undefined; budget?: BudgetHold | undefined }

/** One generation from its admission to its record. */
export type OpenGeneration = {
  request: ReservationRequest
  hold: Hold
  meter: Meter
  /** Its provider works in the background, as far as is known. */
  background?: BackgroundWork | undefined
  /** Its provider goes on without its client: it stays open over restarts until somebody hears how that ended. */
  deferred?: boolean
  /** Undoes its settlement, where the store did not take that. */
  revert?: () => void
  /** When it was last written as open, in milliseconds of its age. */
  writtenAtMs?: number
}

/**
 * Younger ones are not written: most are over before, and a crash in this time costs nobody anything but the answer.
 */
const WRITE_AFTER_MS = 100
/** How often what was heard since is written again. */
const REWRITE_EVERY_MS = 5_000

type Options = { store: Store; plans: Plans; prices: Prices; overdraft: Nano; now?: () => number }

/** Holds before a request is sent, settlement and record after it: the one way through which anything is charged. */
export class Ledger {
  readonly #store: Store
  readonly #plans: Plans
  readonly #prices: Prices
  readonly #overdraft: Nano
  readonly #now: () => number
  readonly #wallets = new Map<string, Wallet>()
  readonly #quotas = new Map<string, Quota>()
  readonly #open = new Set<OpenGeneration>()
  #budgets = new Budgets([])
  /** What the store has not taken: nothing new is admitted until it has. */
  #unwritten: (() => Promise<void>)[] = []
  #lastRound = Promise.resolve()
  #sweeper: Timer | undefined

  private constructor({ store, plans, prices, overdraft, now = Date.now }: Options) {
    this.#store = store
    this.#plans = plans
    this.#prices = prices
    this.#overdraft = overdraft
    this.#now = now
  }

  /** Loads what the store has, and closes what a crash left open, from what was heard until then. */
  static async open(options: Options): Promise<Ledger> {
    const ledger = new Ledger(options)
    const { spends } = await ledger.load()
    ledger.#budgets = new Budgets(spends)
    for (const warning of options.plans.gone([...ledger.#quotas.values()].map(({ subscription }) => subscription)))
      console.error(warning)
    const left = (await options.store.ledger.openGenerations()).map(({ state }) => readOpen(state, ledger.#now()))
    // All of them before the first is settled, which must not pay with what another one holds.
    for (const { open } of left) ledger.#holdAgain(open)
    await Promise.all(
      left.map(({ open, usage, estimated }) =>
        open.deferred === true ? undefined : ledger.#settle(open, usage, estimated).catch(isLater),
      ),
    )
    options.store.watch(async () => void (await ledger.load()))
    ledger.#sweeper = setInterval(() => ledger.#sweep(), WRITE_AFTER_MS)
    return ledger
  }

  /** Reads balances and subscriptions again: at the start, and when another process or a new account changed them. */
  async load(): Promise<{ spends: Awaited<ReturnType<Store['ledger']['state']>>['spends'] }> {
    const state = await this.#store.ledger.state()
    const balances = new Map(state.balances.map(({ kind, owner, balance }) => [`${kind} ${owner}`, balance]))
    for (const subscription of state.subscriptions) {
      const { accountId } = subscription
      const known = this.#quotas.get(accountId)
      if (known === undefined)
        this.#quotas.set(
          accountId,
          new Quota(
            this.#plans,
            subscription,
            state.windows.filter((window) => window.accountId === accountId),
          ),
        )
      else known.change(subscription)
    }
    for (const accountId of new Set([...this.#quotas.keys(), ...this.#wallets.keys()]))
      this.#wallet(accountId).load(balances.get(`credit ${accountId}`) ?? 0n, balances.get(`bonus ${accountId}`) ?? 0n)
    return state
  }

  knows(accountId: string): boolean {
    return this.#quotas.has(accountId)
  }

  /** What the account has; what is held is still part of it. */
  balance(accountId: string): { credit: Nano; bonus: Nano } {
    return this.#wallet(accountId).balance
  }

  /** The account's windows and plan, in the period of `now`. */
  quota(accountId: string, now = this.#now()): Quota {
    let quota = this.#quotas.get(accountId)
    const fresh = quota === undefined
    if (quota === undefined)
      this.#quotas.set(accountId, (quota = new Quota(this.#plans, newSubscription(accountId, FREE_TIER, now), [])))
    const before = quota.subscription
    // What another process wrote meanwhile stays: it is heard of within two seconds, and renewed then.
    if (quota.renew(now) || fresh) void this.#store.ledger.setSubscription(quota.subscription, before).catch(() => {})
    return quota
  }

  /**
   * Sets aside the most that this may cost, in the balance or in all three windows, and in the key's limit: in one
   * turn, all or nothing.
   * Throws insufficient_credit (402), quota_exceeded (429), or store_unavailable (503) while what ended cannot be
   * written.
   */
  reserve(ask: ReservationRequest, countInput: () => Promise<number>): OpenGeneration {
    if (this.#unwritten.length > 0)
      throw new GatewayError(
        'store_unavailable',
        'Sluice cannot record what it charges at the moment: its disk is full or does not answer.',
        { retryAfterSeconds: 5, shouldRetry: true },
      )
    ask.discount = Math.max(
      ask.discount,
      this.#plans.of(this.quota(ask.accountId, ask.createdAt).subscription.tier).discount,
    )
    const open: OpenGeneration = {
      request: ask,
      hold: this.#hold(ask),
      meter: new Meter(countInput, this.#now() - ask.createdAt),
    }
    this.#open.add(open)
    return open
  }

  #hold({ accountId, keyId, kind, limit, price, worst, discount, penalty, createdAt: now }: ReservationRequest): Hold {
    const rating = price === undefined ? { bill: 0n, origin: 0n } : rateWorst(worst, price, discount)
    const amount = kind === 'subscription' ? rating.origin : rating.bill
    if (limit !== undefined) this.#budgets.check(keyId, limit, amount, now)
    const take = (): BudgetHold | undefined =>
      limit === undefined ? undefined : this.#budgets.take(keyId, limit, amount, now)
    if (kind === 'subscription') {
      const flows = this.#plans.flowsOf(amount, penalty)
      const quota = this.quota(accountId, now)
      quota.check(flows, now, penalty)
      return { amount, quota: quota.take(flows, now), budget: take() }
    }
    const wallet = this.#wallet(accountId)
    wallet.check(amount, (left) => whatFits(left, worst, price!, discount))
    wallet.take(amount)
    return { amount, budget: take() }
  }

  /** Leaves a generation open, over restarts too: its provider works on in the background. */
  async defer(open: OpenGeneration): Promise<void> {
    open.deferred = true
    open.writtenAtMs = open.meter.ageMs
    await this.#store.ledger.saveOpen([rowOf(open)])
  }

  /** Generations whose providers work on in the background. */
  get deferred(): OpenGeneration[] {
    return [...this.#open].filter(({ deferred }) => deferred === true)
  }

  /**
   * Ends a generation, once: counts what the provider did not, settles the hold, and resolves when record and postings
   * are committed.
   */
  async close(open: OpenGeneration, ending: Outcome): Promise<void> {
    const { meter } = open
    if (!meter.close(ending)) return
    // What cannot be counted must not keep its hold for ever: it is charged as far as its provider told.
    await meter.count().catch((error: unknown) => console.error(error))
    await this.#settle(open, meter.charge === 'nothing' ? noUsage() : meter.usage, meter.estimated)
  }

  #settle(open: OpenGeneration, usage: Usage, estimated: boolean): Promise<void> {
    const { request, hold, meter } = open
    const charged = meter.charge !== 'nothing' && request.price !== undefined
    const rating = charged ? rate(usage, request.price!, request.discount) : { bill: 0n, origin: 0n }
    const subscribed = request.kind === 'subscription'
    const bill = subscribed ? rating.origin : rating.bill
    const flows = subscribed ? this.#plans.flowsOf(bill, request.penalty) : 0n
    const payment = subscribed ? undefined : this.#wallet(request.accountId).settle(hold.amount, bill)
    const closing: Closing = {
      record: recordOf(open, { usage, estimated, bill, flows }),
      transfers: chargesOf(
        request.accountId,
        payment,
        meter.served?.provider ?? null,
        meter.charge === 'nothing' ? undefined : this.#cost(meter, usage),
      ),
      windows: hold.quota === undefined ? [] : this.quota(request.accountId).settle(hold.quota, flows),
      spend: hold.budget === undefined ? undefined : this.#budgets.settle(hold.budget, bill),
      wasOpen: open.writtenAtMs !== undefined,
    }
    this.#open.delete(open)
    const written = payment === undefined ? undefined : () => this.#wallet(request.accountId).written(payment)
    const write = (): Promise<void> => this.#store.ledger.closeGeneration(closing, written)
    return this.#write(write).catch((error: unknown) => {
      if (isUnavailable(error))
        open.revert = () => {
          this.#unwritten = this.#unwritten.filter((other) => other !== write)
          if (payment !== undefined) this.#wallet(request.accountId).unsettle(hold.amount, payment)
          if (hold.quota !== undefined) this.quota(request.accountId).unsettle(hold.quota, flows)
          if (hold.budget !== undefined) this.#budgets.unsettle(hold.budget, bill)
        }
      throw error
    })
  }

  /**
   * Where an answer could not be recorded and so did not reach its client either, it is not charged: it is recorded as
   * failed as soon as that can be.
   */
  voidCharge(open: OpenGeneration): void {
    const { revert, meter } = open
    if (revert === undefined) return
    revert()
    meter.voidCharge()
    // It waits to be written like all others.
    this.#settle(open, noUsage(), false).catch(() => {})
  }

  /** What the store does not take now is written by a later sweep. */
  async #write(write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (error) {
      if (isUnavailable(error)) {
        if (this.#unwritten.length === 0)
          console.error(`Nothing that costs money is admitted until it can be recorded. ${error.message}`)
        this.#unwritten.push(write)
      }
      throw error
    }
  }

  #cost({ served }: Meter, usage: Usage): Nano | undefined {
    const price = served === undefined ? undefined : this.#prices.cost(served.provider, served.model)
    return price === undefined ? undefined : rate(usage, price, 0).bill
  }

  /** Writes what is under way, so that a crash cannot lose it, and what could not be written before. */
  #sweep(): void {
    const due = [...this.#open].filter(
      ({ meter, deferred, writtenAtMs }) =>
        deferred !== true &&
        meter.ageMs > WRITE_AFTER_MS &&
        (writtenAtMs === undefined || meter.ageMs - writtenAtMs > REWRITE_EVERY_MS),
    )
    for (const open of due) open.writtenAtMs = open.meter.ageMs
    if (due.length > 0)
      void this.#write(() => this.#store.ledger.saveOpen(due.filter((open) => this.#open.has(open)).map(rowOf))).catch(
        () => {},
      )
    if (this.#unwritten.length > 0) void this.#writeAgain()
  }

  /** Writes what waits, one round after the other. */
  #writeAgain(): Promise<void> {
    return (this.#lastRound = this.#lastRound.then(async () => {
      const [first, ...others] = this.#unwritten
      // While the store does not take one, it is not asked to take a thousand.
      if (first === undefined || !(await this.#wrote(first))) return
      await Promise.all(others.map((write) => this.#wrote(write)))
      if (this.#unwritten.length === 0) console.error('What could not be recorded is recorded now: service goes on.')
    }))
  }

  async #wrote(write: () => Promise<void>): Promise<boolean> {
    try {
      await write()
    } catch (error) {
      if (isUnavailable(error)) return false
      // The store took it the first time and could not say so.
      console.error(error)
    }
    this.#unwritten = this.#unwritten.filter((other) => other !== write)
    return true
  }

  /** What was open when the last process ended, so that it is settled like any other. */
  #holdAgain(open: OpenGeneration): void {
    const { request, hold } = open
    if (request.kind === 'subscription') this.quota(request.accountId).restore(hold.quota!)
    else this.#wallet(request.accountId).take(hold.amount)
    if (hold.budget !== undefined) this.#budgets.restore(hold.budget)
    this.#open.add(open)
  }

  #wallet(accountId: string): Wallet {
    let wallet = this.#wallets.get(accountId)
    if (wallet === undefined) this.#wallets.set(accountId, (wallet = new Wallet(this.#overdraft)))
    return wallet
  }

  /** Waits until nothing is under way but what providers do in the background, at most this long. */
  async settled(atMostMs: number): Promise<void> {
    const deadline = performance.now() + atMostMs
    while (this.#open.size > this.deferred.length && performance.now() < deadline) await Bun.sleep(5)
  }

  /**
   * Writes what remains. Whoever is still under way was told so and closed before. Fails where the store does not take
   * it.
   */
  async stop(): Promise<void> {
    clearInterval(this.#sweeper)
    await this.#writeAgain()
    if (this.#unwritten.length > 0)
      throw new Error(
        `what ended at last could not be recorded (${this.#unwritten.length} writes): the disk is full or does not answer`,
      )
  }
}

const isUnavailable = (error: unknown): error is GatewayError =>
  error instanceof GatewayError && error.code === 'store_unavailable'

/** What the store does not take now is written by a later sweep: no reason not to start. */
const isLater = (error: unknown): void => {
  if (!isUnavailable(error)) throw error
}

const rowOf = (open: OpenGeneration): StoredOpen => ({
  id: open.request.id,
  accountId: open.request.accountId,
  state: writeOpen(open),
})

function recordOf(
  { request, hold, meter }: OpenGeneration,
  { usage, estimated, bill, flows }: { usage: Usage; estimated: boolean; bill: Nano; flows: bigint },
): GenerationRecord {
  const { id, accountId, keyId, kind, api, model, createdAt, streamed, price, discount } = request
  const { tries, finish, ending, served, times, losses } = meter
  return {
    id,
    accountId,
    keyId,
    kind,
    api,
    model,
    createdAt,
    streamed,
    discount,
    usage,
    estimated,
    bill,
    flows,
    ...times,
    provider: served?.provider ?? tries.at(-1)?.provider ?? null,
    finish: finish?.reason ?? ending!,
    ending: ending!,
    retries: Math.max(0, tries.length - 1),
    attempts:
      tries.length > 1 || tries.some(({ error }) => error !== undefined)
        ? JSON.stringify(tries, ['provider', 'error', 'milliseconds'])
        : null,
    translation: losses.length === 0 ? null : lossesText(losses),
    price: price === undefined ? null : storedPrice(price),
    held: hold.amount,
  }
}

/** What a client could ask for instead: the output limit for which the money is enough, which bounds no image. */
function whatFits(left: Nano, worst: Usage, price: Price, discount: number): string {
  if (worst.images > 0) return 'Add credit, or ask for fewer or smaller images.'
  const bill = (outputTokens: number): Nano => rateWorst({ ...worst, outputTokens }, price, discount).bill
  let [fits, over] = [0, worst.outputTokens]
  if (bill(0) > left) return 'Not even its input fits: add credit, or send less.'
  while (over - fits > 1) {
    const middle = Math.floor((fits + over) / 2)
    if (bill(middle) <= left) fits = middle
    else over = middle
  }
  return `An output limit of ${fits} tokens would fit; else add credit.`
}

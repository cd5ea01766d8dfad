import type { Plans } from '../accounts/plans.ts'
import type { WhenExhausted } from '../config/terms.ts'
import type { Nano } from '../money.ts'
import type { AccountFunds } from './account-funds.ts'
import { adviceFor, keyAdviceFor, lower, mostOutput } from './affordable.ts'
import { termsFor } from './model-terms.ts'
import type { Hold, OpenGeneration, ReservationRequest } from './open-generation.ts'
import type { OutputSpeeds } from './output-speeds.ts'
import { rateWorst } from './rating.ts'
import { heldPrice } from './service-classes.ts'

/** Output tokens that a response holds at first, and ahead of what was received. */
const AHEAD_TOKENS = 2_048
/** Output tokens by which such a hold grows at least. */
const GROWTH_TOKENS = 512

/** Responses of one account that may exceed a window, or the balance, at the same time. */
const OVERSHOOTING_MAX = 10

/** The balances from which is held. `whenExhausted`: for responses for which no more can be held. */
type Sources = {
  funds: AccountFunds
  plans: Plans
  speeds: OutputSpeeds
  whenExhausted: { payAsYouGo: WhenExhausted; subscription: WhenExhausted }
}

/** The cost of a request with so much output, before discounts for a subscription. */
type Cost = { amount: Nano; flows: bigint }

/**
 * The holds of all generations. That of a response that can be ended early begins small, and grows ahead of what is
 * received in the turn of the event loop in which that is recorded; where it cannot grow, the response is exhausted.
 */
export class Holds {
  readonly #sources: Sources
  /** By account, the holds that may be less than their responses cost. */
  readonly #overshooting = new Map<string, Set<Hold>>()

  constructor(sources: Sources) {
    this.#sources = sources
  }

  /**
   * Holds what a request needs to begin, of all its sources or of none. Throws insufficient_credit (402) and
   * quota_exceeded (429).
   */
  take(request: ReservationRequest): Hold {
    const { accountId, keyId, kind, limit, discount, penalty, createdAt: now } = request
    const { wallet: walletOf, quota: quotaOf, budgets } = this.#sources.funds
    const first = aheadOf(request)
    const mayGrow =
      request.worst.outputTokens > first &&
      (request.mayEnd === true || (kind === 'subscription' && this.#mayOvershoot(request)))
    let { amount, flows } = this.#costOf(request, mayGrow ? first : request.worst.outputTokens)
    const grows = mayGrow && amount > 0n
    const overshoots = grows && request.mayEnd !== true
    // A response that exceeds a window must not exceed its key's own limit.
    const budgetOf = (held: Nano): Nano =>
      overshoots ? this.#costOf(request, request.worst.outputTokens).amount : held
    this.#sources.funds.leases?.check(request, { amount, flows, budgeted: budgetOf(amount) })
    if (request.mayLower === true && kind !== 'subscription' && amount > 0n) {
      const available = this.#available(request)
      if (amount > available && lower(request, available))
        ({ amount, flows } = this.#costOf(request, request.worst.outputTokens))
    }
    const budgeted = budgetOf(amount)
    const adviseBy =
      (advice: typeof adviceFor) =>
      (left: Nano): string =>
        advice(left, request.worst, heldPrice(request.price!, request.classes), discount)
    if (limit !== undefined) budgets.check(keyId, limit, budgeted, now, adviseBy(keyAdviceFor))
    const hold: Hold = { amount }
    if (kind === 'subscription') {
      const quota = quotaOf(accountId, now)
      quota.check(flows, now, penalty)
      hold.quota = quota.hold(flows, now)
    } else {
      const wallet = walletOf(accountId)
      if (amount > wallet.available) wallet.check(amount, adviseBy(adviceFor))
      wallet.hold(amount)
    }
    if (limit !== undefined) hold.budget = budgets.hold(keyId, limit, budgeted, now)
    if (grows) Object.assign(hold, { outputTokens: first, growAt: growthPoint(request, first) })
    if (overshoots) this.#overshoot(accountId, hold)
    this.#sources.funds.leases?.onHeld(request)
    return hold
  }

  /** Takes the hold of a generation that the last process left open. It does not grow: its key's limit is not known. */
  restore({ request: { accountId, kind }, hold }: OpenGeneration): void {
    delete hold.outputTokens
    if (kind === 'subscription') this.#sources.funds.quota(accountId).restore(hold.quota!)
    else this.#sources.funds.wallet(accountId).hold(hold.amount)
    if (hold.budget !== undefined) this.#sources.funds.budgets.restore(hold.budget)
    if (hold.overshoots === true) this.#overshoot(accountId, hold)
  }

  /** The hold of a generation that has ended does not overshoot any more. Its sums end with the settlement. */
  end({ request: { accountId }, hold }: OpenGeneration): void {
    if (hold.overshoots === true) this.#overshooting.get(accountId)?.delete(hold)
  }

  /** Lets the meter of a generation call `grow`, as soon as its hold has to. */
  follow(open: OpenGeneration): void {
    if (open.hold.outputTokens === undefined) return
    open.meter.follow(open, this.#grow)
    this.#grow(open, false)
  }

  /** The same where nothing was received for a while: reasoning that is not shown needs a hold, too. */
  growUnseen(open: OpenGeneration): void {
    const { request, hold, meter } = open
    if (hold.outputTokens === undefined || !request.streamed) return
    hold.unseen = this.#sources.speeds.possible(open)
    this.#grow(open, meter.firstOutputMs === undefined)
  }

  /** Holds more for what was received, and some ahead of it. A response that is at its end is not exhausted. */
  readonly #grow = (open: OpenGeneration, isInMidst: boolean): void => {
    const { request, hold, meter } = open
    const candidates = candidatesOf(request)
    const { unseen = 0 } = hold
    const received = Math.floor(candidates * (meter.receivedTokens + unseen))
    if (received >= hold.growAt!) {
      const wanted = Math.min(request.worst.outputTokens, received + aheadOf(request))
      this.#extend(open, wanted)
      const held = hold.outputTokens!
      if (held >= wanted) hold.growAt = growthPoint(request, held)
      else if (this.#mayLease(open, wanted)) hold.growAt = received + GROWTH_TOKENS
      else if (received < held) hold.growAt = Math.min(held, received + GROWTH_TOKENS)
      else if (!isInMidst) hold.growAt = received
      else {
        hold.growAt = Infinity
        const isOfKey = !this.#fits(request, hold, held + 1).key
        const cause = isOfKey ? 'limit of the key' : request.kind === 'subscription' ? 'quota windows' : 'balance'
        meter.exhaust({ tokens: held, candidates, unseen: this.#sources.speeds.unseen(open), cause })
      }
    }
    meter.growAt = hold.growAt! / candidates - unseen
  }

  /** True where more may be leased for a hold that could not grow, of what several processes share. */
  #mayLease({ request, hold }: OpenGeneration, wanted: number): boolean {
    const { leases, budgets } = this.#sources.funds
    if (leases === undefined) return false
    // Another period of the limit has begun, whose lease is of no use to this hold.
    if (hold.budget !== undefined && budgets.isOver(hold.budget) && !this.#fits(request, hold, wanted).key) return false
    const { amount, flows } = this.#costOf(request, wanted)
    const held = { flows: hold.quota?.flows ?? 0n, budgeted: hold.budget?.amount ?? amount }
    return leases.grow(request, {
      amount: amount - hold.amount,
      flows: flows - held.flows,
      budgeted: amount - held.budgeted,
    })
  }

  /** Holds so many output tokens, or as many as it can. */
  #extend({ request, hold }: OpenGeneration, wanted: number): void {
    const { accountId, kind } = request
    const fits = this.#fits(request, hold, wanted)
    if (!fits.funds && hold.overshoots !== true && this.#mayOvershoot(request)) this.#overshoot(accountId, hold)
    const isWhole = fits.key && (fits.funds || hold.overshoots === true)
    const held = isWhole
      ? wanted
      : mostOutput(hold.outputTokens!, wanted, (tokens) => {
          const { funds, key } = this.#fits(request, hold, tokens)
          return key && (funds || hold.overshoots === true)
        })
    const { amount, flows } = this.#costOf(request, held)
    hold.outputTokens = held
    if (kind === 'subscription') {
      this.#sources.funds.quota(accountId).grow(hold.quota!, flows - hold.quota!.flows)
      hold.amount = amount
    } else if (hold.overshoots !== true) {
      this.#sources.funds.wallet(accountId).hold(amount - hold.amount)
      hold.amount = amount
    }
    const { budget } = hold
    if (budget !== undefined && amount > budget.amount) this.#sources.funds.budgets.grow(budget, amount - budget.amount)
  }

  /** Reports whether a hold of so much output fits into the balance or the windows, and into the key's limit. */
  #fits(request: ReservationRequest, hold: Hold, outputTokens: number): { funds: boolean; key: boolean } {
    const { accountId, kind, limit } = request
    const { wallet, quota, budgets } = this.#sources.funds
    const { amount, flows } = this.#costOf(request, outputTokens)
    const more = amount - hold.amount
    const funds =
      kind === 'subscription'
        ? quota(accountId).fits(hold.quota!, flows - hold.quota!.flows)
        : more <= 0n || more <= wallet(accountId).available
    const missing = hold.budget === undefined ? 0n : amount - hold.budget.amount
    const key = limit === undefined || missing <= 0n || missing <= budgets.leftFor(hold.budget!, limit)
    return { funds, key }
  }

  #costOf(request: ReservationRequest, outputTokens: number): Cost {
    const { kind, discount, penalty } = request
    const worst = { ...request.worst, outputTokens }
    const { price, classes } = termsFor(request, worst)
    if (price === undefined) return { amount: 0n, flows: 0n }
    const { origin, bill } = rateWorst(worst, heldPrice(price, classes), discount)
    if (kind !== 'subscription') return { amount: bill, flows: 0n }
    return { amount: origin, flows: this.#sources.plans.flowsOf(origin, penalty) }
  }

  /** Nano-USD that a pay-as-you-go request may hold: of the balance, and of its key's limit. */
  #available({ accountId, keyId, limit, createdAt }: ReservationRequest): Nano {
    const { available } = this.#sources.funds.wallet(accountId)
    const left = limit === undefined ? available : this.#sources.funds.budgets.left(keyId, limit, createdAt)
    return left < available ? left : available
  }

  #mayOvershoot({ accountId, kind }: ReservationRequest): boolean {
    const policy = this.#sources.whenExhausted[kind === 'subscription' ? 'subscription' : 'payAsYouGo']
    return policy === 'finish' && (this.#overshooting.get(accountId)?.size ?? 0) < OVERSHOOTING_MAX
  }

  #overshoot(accountId: string, hold: Hold): void {
    let holds = this.#overshooting.get(accountId)
    if (holds === undefined) this.#overshooting.set(accountId, (holds = new Set()))
    holds.add(hold)
    hold.overshoots = true
  }
}

const candidatesOf = ({ candidates = 1 }: ReservationRequest): number => candidates

const aheadOf = (request: ReservationRequest): number => AHEAD_TOKENS * candidatesOf(request)

/** The received tokens at which a hold of so many has to grow. */
function growthPoint(request: ReservationRequest, held: number): number {
  const most = request.worst.outputTokens
  return held >= most ? Infinity : Math.min(held + GROWTH_TOKENS, most) - aheadOf(request)
}

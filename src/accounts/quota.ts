import { WINDOW_NAMES, type QuotaWindowName } from '../config/terms.ts'
import { GatewayError } from '../error.ts'
import { divideHalfEven, nanoOf, usdOf, usdText } from '../money.ts'
import { nearest } from '../nearest.ts'
import type { AccountStatus, QuotaWindow, Subscription } from '../store/store.ts'
import { FREE_TIER, type Plan, type Plans } from './plans.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const LENGTH_MS = { '5_hour': 5 * HOUR_MS, '7_day': 7 * DAY_MS }
const WORDS: Record<QuotaWindowName, string> = { '5_hour': '5-hour', '7_day': '7-day', monthly: 'monthly' }

/** Micro-flows kept free for one request, and the windows in which they are. */
export type QuotaHold = { flows: bigint; windows: { window: QuotaWindowName; startedAt: number; endsAt: number }[] }

/**
 * Flows and USD with at most four decimals. What is only held does not count as used, and use above the maximum is
 * shown as the maximum.
 */
export type RollingQuota = {
  usage_percentage: number
  /** ISO 8601; null where the window has not begun or is over. */
  resets_at: string | null
  max_flows: number
  used_flows: number
  remaining_flows: number
  used_value_usd: number
  max_value_usd: number
}

/** `data` of `GET /v1/management/subscription/detail`. */
export type SubscriptionDetail = {
  plan: { tier: string; amount_usd: number; interval: 'month'; expires_at: string }
  currency: 'usd'
  base_usd_per_flow: number
  effective_usd_per_flow: number
  account_status: AccountStatus
  quota_5_hour: RollingQuota
  quota_7_day: RollingQuota
  quota_monthly: { max_flows: number; max_value_usd: number }
}

/** Micro-flows used and held since the window began. */
type Window = { startedAt: number; endsAt: number; used: bigint; held: bigint }

/**
 * One account's subscription and its quota windows, in memory. The 5-hour and the 7-day window begin with the first
 * hold after the one before is over; the monthly one is the subscription's period. A window is over at `endsAt`, to the
 * millisecond. Instants are Unix milliseconds; one that lies before the last one seen counts as that one, so that a
 * clock that goes back starts nothing anew.
 */
export class Quota {
  readonly #plans: Plans
  #subscription: Subscription
  readonly #windows = new Map<QuotaWindowName, Window>()
  readonly #open = new Set<QuotaHold>()
  #seen: number

  /** `windows`: the stored rows of this account. */
  constructor(plans: Plans, subscription: Subscription, windows: readonly QuotaWindow[]) {
    this.#plans = plans
    this.#subscription = subscription
    for (const { window, startedAt, endsAt, used } of windows)
      this.#windows.set(window, { startedAt, endsAt, used, held: 0n })
    this.#seen = Math.max(subscription.periodStart, ...windows.map(({ startedAt }) => startedAt))
  }

  get subscription(): Subscription {
    return this.#subscription
  }

  /**
   * Moves the period on where it is over. True when the subscription changed and must be written; until then everything
   * here counts with the new period already.
   */
  renew(now: number): boolean {
    const before = this.#subscription
    this.#subscription = renewed(before, this.#clock(now))
    return this.#subscription !== before
  }

  /**
   * Throws GatewayError quota_exceeded where one of the windows has no room for so many micro-flows; counts nothing.
   * Without retryAfterSeconds, where no wait would help. `penalty` is the one that the flows were computed with: it
   * says how many USD at list prices would fit.
   */
  check(flows: bigint, now: number, penalty = 1): void {
    const at = this.#clock(now)
    const plan = this.#plans.of(renewed(this.#subscription, at).tier)
    const rooms = WINDOW_NAMES.map((window) => {
      const current = this.#current(window, at)
      const left = plan.flows[window] - (current === undefined ? 0n : current.used + current.held)
      return {
        window,
        left: left < 0n ? 0n : left,
        max: plan.flows[window],
        held: current?.held ?? 0n,
        endsAt: current?.endsAt ?? at,
      }
    })
    const full = rooms.filter(({ left }) => flows > left)
    if (full.length === 0) return
    // Waiting must be long enough for every window that is full, so the one named is the last to reset; and no wait
    // helps where the maximum is too small.
    const never = full.filter(({ max }) => flows > max).toSorted((a, b) => Number(a.max - b.max))[0]
    const named = never ?? full.reduce((last, room) => (room.endsAt > last.endsAt ? room : last))
    const fits = rooms.map(({ left }) => left).reduce((least, left) => (left < least ? left : least))
    const message = this.#refusal(plan, named, flows, fits, never !== undefined, penalty)
    throw new GatewayError('quota_exceeded', message, {
      shouldRetry: false,
      ...(never === undefined ? { retryAfterSeconds: Math.ceil((named.endsAt - at) / 1000) } : {}),
    })
  }

  /**
   * Holds micro-flows in all three windows, after `check` in the same turn; windows that have not begun or are over
   * begin now.
   */
  hold(flows: bigint, now: number): QuotaHold {
    const at = this.#clock(now)
    const { periodStart, periodEnd } = renewed(this.#subscription, at)
    const windows = WINDOW_NAMES.map((window) => {
      let current = this.#current(window, at)
      if (current === undefined) {
        const [startedAt, endsAt] = window === 'monthly' ? [periodStart, periodEnd] : [at, at + LENGTH_MS[window]]
        this.#windows.set(window, (current = { startedAt, endsAt, used: 0n, held: 0n }))
      }
      current.held += flows
      return { window, startedAt: current.startedAt, endsAt: current.endsAt }
    })
    const hold = { flows, windows }
    this.#open.add(hold)
    return hold
  }

  /**
   * Ends a hold, once: a second time is refused with an Error. What was used, which may be more than was held, counts
   * in the windows in which it was held. Gives the rows to add to the store: also with nothing used, because the
   * windows have begun, and of windows that others follow here, because the store may not have heard of those.
   */
  settle(hold: QuotaHold, used: bigint): QuotaWindow[] {
    if (!this.#open.delete(hold)) throw new Error('This hold of flows has ended before, or was never taken.')
    return hold.windows.map(({ window, startedAt, endsAt }) => {
      const current = this.#windows.get(window)
      if (current?.startedAt === startedAt) {
        current.held -= hold.flows
        current.used += used
      }
      return { accountId: this.#subscription.accountId, window, startedAt, endsAt, used }
    })
  }

  /** The other way round, for use that the store did not take: the hold is open again. */
  revert(hold: QuotaHold, used: bigint): void {
    this.#open.add(hold)
    for (const { window, startedAt } of hold.windows) {
      const current = this.#windows.get(window)
      if (current?.startedAt !== startedAt) continue
      current.held += hold.flows
      current.used -= used
    }
  }

  /**
   * Puts back a hold that a crash left open, so that it can be settled; its windows are back with it where nothing
   * later was stored.
   */
  restore(hold: QuotaHold): void {
    this.#open.add(hold)
    for (const { window, startedAt, endsAt } of hold.windows) {
      this.#clock(startedAt)
      const current = this.#windows.get(window)
      if (current?.startedAt === startedAt) current.held += hold.flows
      else if (current === undefined || current.startedAt < startedAt)
        this.#windows.set(window, { startedAt, endsAt, used: 0n, held: hold.flows })
    }
  }

  /** Takes over what another process wrote. Windows, use and holds under way stay. */
  replaceSubscription(subscription: Subscription): void {
    this.#subscription = subscription
  }

  detail(now: number, status: AccountStatus, penalty: number): SubscriptionDetail {
    const at = this.#clock(now)
    const { tier, periodEnd } = renewed(this.#subscription, at)
    const plan = this.#plans.of(tier)
    const { max_flows, max_value_usd } = this.#shown('monthly', plan, at)
    return {
      plan: {
        tier: plan.tier,
        amount_usd: plan.usdPerMonth,
        interval: 'month',
        expires_at: new Date(periodEnd).toISOString(),
      },
      currency: 'usd',
      base_usd_per_flow: usdOf(this.#plans.usdPerFlow),
      effective_usd_per_flow: usdOf(divideHalfEven(this.#plans.usdPerFlow * nanoOf(penalty), 1_000_000_000n)),
      account_status: status,
      quota_5_hour: this.#shown('5_hour', plan, at),
      quota_7_day: this.#shown('7_day', plan, at),
      quota_monthly: { max_flows, max_value_usd },
    }
  }

  /**
   * Everything is computed from the flows as they are shown, in ten-thousandths, so that what a client adds up agrees.
   */
  #shown(window: QuotaWindowName, plan: Plan, at: number): RollingQuota {
    const current = this.#current(window, at)
    const max = plan.flows[window] / 100n
    const spent = divideHalfEven(current?.used ?? 0n, 100n)
    const used = spent > max ? max : spent
    const valueOf = (flows: bigint): number =>
      Number(divideHalfEven(flows * this.#plans.usdPerFlow, 1_000_000_000n)) / 10_000
    return {
      usage_percentage: max === 0n ? 1 : Number(divideHalfEven(used * 10_000n, max)) / 10_000,
      resets_at: current === undefined ? null : new Date(current.endsAt).toISOString(),
      max_flows: Number(max) / 10_000,
      used_flows: Number(used) / 10_000,
      remaining_flows: Number(max - used) / 10_000,
      used_value_usd: valueOf(used),
      max_value_usd: valueOf(max),
    }
  }

  /** The window that counts now, if there is one. */
  #current(window: QuotaWindowName, at: number): Window | undefined {
    const last = this.#windows.get(window)
    return last === undefined || last.endsAt <= at ? undefined : last
  }

  #clock(now: number): number {
    return (this.#seen = Math.max(this.#seen, now))
  }

  #refusal(plan: Plan, room: Room, flows: bigint, fits: bigint, never: boolean, penalty: number): string {
    const list = divideHalfEven(fits * this.#plans.usdPerFlow * 1_000_000_000n, 1_000_000n * nanoOf(penalty))
    const quota = `The ${WORDS[room.window]} quota of the ${plan.tier} plan`
    const fit =
      fits === 0n
        ? 'Nothing fits at present.'
        : `${text(fits)} flows fit at present, $${usdText(list)} at list prices: a smaller output limit may be enough.`
    if (never)
      return `${quota} is ${text(room.max)} flows in all, and this request needs up to ${text(flows)}: it never fits as it is. ${room.max === 0n ? 'Another plan is needed.' : fit}`
    const running = room.held === 0n ? '' : `, and ${text(room.held)} are held by requests under way`
    return `${quota} has no room for this request, which needs up to ${text(flows)} flows: ${text(room.left)} of ${text(room.max)} are left${running}; it resets at ${new Date(room.endsAt).toISOString()}. ${fit}`
  }
}

/** How full a window is, in micro-flows. */
type Room = { window: QuotaWindowName; left: bigint; max: bigint; held: bigint; endsAt: number }

const text = (flows: bigint): string => String(Number(flows) / 1_000_000)

/** A subscription whose months are counted from now. */
export const newSubscription = (accountId: string, tier: string, now: number): Subscription => ({
  accountId,
  tier,
  anchor: now,
  periodStart: now,
  periodEnd: monthsAfter(now, 1),
  renews: true,
  nextTier: null,
})

/**
 * A plan that costs as much or more counts at once, a cheaper one from the next period on unless `now` is asked for;
 * period and use stay. The subscription renews again. Throws an Error for a tier that is not configured.
 */
export function changePlan(
  subscription: Subscription,
  tier: string,
  options: { now: boolean },
  plans: Plans,
): Subscription {
  const tiers = plans.tiers().map((plan) => plan.tier)
  const [near] = nearest(tier, tiers, 1)
  if (!tiers.includes(tier))
    throw new Error(
      `there is no plan ${tier}: ${near === undefined ? `choose ${tiers.join(', ')}` : `is ${near} meant?`}`,
    )
  const atOnce = options.now || plans.of(tier).usdPerMonth >= plans.of(subscription.tier).usdPerMonth
  return { ...subscription, renews: true, ...(atOnce ? { tier, nextTier: null } : { nextTier: tier }) }
}

/**
 * The subscription as it is at an instant: in the period that holds it, with the plan that was to follow. The same
 * object where its period is not over.
 */
export function renewed(subscription: Subscription, at: number): Subscription {
  if (at < subscription.periodEnd) return subscription
  const { anchor, renews, nextTier, tier } = subscription
  const months = monthOf(at) - monthOf(anchor)
  const passed = monthsAfter(anchor, months) > at ? months - 1 : months
  return {
    ...subscription,
    tier: renews ? (nextTier ?? tier) : FREE_TIER,
    renews: true,
    nextTier: null,
    periodStart: monthsAfter(anchor, passed),
    periodEnd: monthsAfter(anchor, passed + 1),
  }
}

/** Calendar months in UTC. */
const monthOf = (at: number): number => new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth()

/**
 * The same day and time of day some months later, or the last day of a shorter month. Always counted from the anchor,
 * so that a short month does not shorten those after it.
 */
function monthsAfter(anchor: number, months: number): number {
  const from = new Date(anchor)
  const first = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + months, 1)
  const lastDay = new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + months + 1, 0)).getUTCDate()
  const day = Math.min(from.getUTCDate(), lastDay)
  return first + (day - 1) * DAY_MS + (anchor % DAY_MS)
}

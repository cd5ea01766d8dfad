import { WINDOW_NAMES, type QuotaWindowName } from '../config/terms.ts'
import { GatewayError } from '../error.ts'
import { divideHalfEven, nanoOf, usdOf, usdText } from '../money.ts'
import type { ReturnedWindow, WindowLease, WindowTerms } from '../store/leases.ts'
import type { AccountStatus, QuotaWindow, Subscription } from '../store/store.ts'
import { LatestInstant, standingStill } from './clock.ts'
import type { Plan, Plans } from './plans.ts'
import { newSubscription, renewed } from './subscription.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const LENGTH_MS = { '5_hour': 5 * HOUR_MS, '7_day': 7 * DAY_MS }
const WINDOW_TEXT: Record<QuotaWindowName, string> = { '5_hour': '5-hour', '7_day': '7-day', monthly: 'monthly' }

/** Micro-flows held for one request, and the windows in which they are. */
export type QuotaHold = {
  flows: bigint
  windows: { window: QuotaWindowName; startedAt: number; endsAt: number }[]
}

/**
 * Flows and USD with at most four decimals. Holds do not count as used, and use above the maximum is shown as the
 * maximum.
 */
export type RollingQuota = {
  usage_percentage: number
  /** ISO 8601; null where no window has begun since the last one ended. */
  resets_at: string | null
  max_flows: number
  used_flows: number
  remaining_flows: number
  used_value_usd: number
  max_value_usd: number
}

/** Micro-flows used and allowed in a window. `endsAt`: null where none has begun. */
export type WindowUse = { name: QuotaWindowName; used: bigint; limit: bigint; endsAt: number | null }

/** `data` of `GET /v1/management/subscription/detail`. */
type SubscriptionDetail = {
  plan: { tier: string; amount_usd: number; interval: 'month'; expires_at: string }
  currency: 'usd'
  base_usd_per_flow: number
  effective_usd_per_flow: number
  account_status: AccountStatus
  quota_5_hour: RollingQuota
  quota_7_day: RollingQuota
  quota_monthly: { max_flows: number; max_value_usd: number }
}

/**
 * Micro-flows used and held since the window began. With several processes, `leased` is what this one may use, less
 * what it has used, `elsewhere` what others have leased, and `free` what no process had leased.
 */
type Window = {
  startedAt: number
  endsAt: number
  used: bigint
  held: bigint
  leased?: bigint
  elsewhere?: bigint
  free?: bigint
}

/**
 * One account's subscription and its quota windows, in memory. The 5-hour and the 7-day window begin with the first
 * hold after the previous one has ended; the monthly one is the subscription's period. A window ends at `endsAt`, to
 * the millisecond. Instants are Unix milliseconds; one before the latest seen counts as that, so that a clock that goes
 * back restarts nothing.
 */
export class Quota {
  readonly #plans: Plans
  #subscription: Subscription
  readonly #windows = new Map<QuotaWindowName, Window>()
  readonly #open = new Set<QuotaHold>()
  #latest: LatestInstant
  readonly #elapsed: () => number
  readonly #isLeased: boolean

  /**
   * `windows`: the stored rows of this account; `elapsed`: see `Clock`. `isLeased`: several processes share them.
   */
  constructor(
    plans: Plans,
    subscription: Subscription,
    windows: readonly QuotaWindow[],
    elapsed: () => number = standingStill,
    isLeased = false,
  ) {
    this.#isLeased = isLeased
    this.#plans = plans
    this.#subscription = subscription
    for (const { window, startedAt, endsAt, used } of windows)
      this.#windows.set(window, { startedAt, endsAt, used, held: 0n })
    const seen = Math.max(subscription.periodStart, ...windows.map(({ startedAt }) => startedAt))
    this.#latest = new LatestInstant(seen, elapsed)
    this.#elapsed = elapsed
  }

  get subscription(): Subscription {
    return this.#subscription
  }

  /**
   * Moves on to the current period. True where the subscription changed and has to be written; here it counts at once.
   */
  renew(now: number): boolean {
    const before = this.#subscription
    this.#subscription = renewed(before, this.#latest.at(now))
    return this.#subscription !== before
  }

  /**
   * Throws quota_exceeded (429) where one of the windows has less than `flows` micro-flows left; changes nothing. There
   * is no retryAfterSeconds where waiting does not help. `penalty`: the factor that is part of `flows`.
   */
  check(flows: bigint, now: number, penalty = 1): void {
    const at = this.#latest.at(now)
    const plan = this.#plans.of(renewed(this.#subscription, at).tier)
    const levels = WINDOW_NAMES.map((window) => this.#levelOf(window, plan, at))
    const short = levels.filter(({ left }) => flows > left)
    if (short.length === 0) return
    // As much is leased of all windows: those are full that have no more to lease.
    const full = short.filter(({ left, free }) => flows > left + free)
    const exceeded = full.length === 0 ? short : full
    const available = levels.map(({ left }) => left).reduce((least, left) => (left < least ? left : least))
    const advice = this.#adviceFor(available, penalty)
    const [tooSmall] = exceeded.filter(({ max }) => flows > max).toSorted((a, b) => Number(a.max - b.max))
    if (tooSmall !== undefined)
      throw new GatewayError('quota_exceeded', `${tooSmallText(tooSmall, plan, flows)} ${advice}`, {
        shouldRetry: false,
      })
    // The wait must be long enough for every exceeded window.
    const last = exceeded.reduce((latest, level) => (level.endsAt > latest.endsAt ? level : latest))
    throw new GatewayError('quota_exceeded', `${exceededText(last, plan, flows)} ${advice}`, {
      shouldRetry: false,
      retryAfterSeconds: Math.ceil((last.endsAt - at) / 1000),
    })
  }

  /** Holds micro-flows in all windows, after `check` in the same turn; windows that have ended begin anew. */
  hold(flows: bigint, now: number): QuotaHold {
    const at = this.#latest.at(now)
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

  /** True where all windows of a hold that are in force have so many micro-flows left. */
  fits(hold: QuotaHold, flows: bigint): boolean {
    if (flows <= 0n) return true
    const plan = this.#plans.of(this.#subscription.tier)
    return hold.windows.every(({ window, startedAt }) => {
      const current = this.#windows.get(window)
      return current?.startedAt !== startedAt || flows <= this.#leftOf(current, plan.flows[window])
    })
  }

  #leftOf({ used, held, leased = 0n }: Window, limit: bigint): bigint {
    return (this.#isLeased ? leased : limit - used) - held
  }

  /** The windows that a hold needs, and the instants of those that would begin now. */
  terms(now: number): WindowTerms[] {
    const at = this.#latest.at(now)
    const { tier, periodStart, periodEnd } = renewed(this.#subscription, at)
    const plan = this.#plans.of(tier)
    return WINDOW_NAMES.map((window) => {
      const [startsAt, endsAt] = window === 'monthly' ? [periodStart, periodEnd] : [at, at + LENGTH_MS[window]]
      return { window, limit: plan.flows[window], startsAt, endsAt }
    })
  }

  /** True where all windows have begun and are in force: leased ones begin with their lease. */
  hasBegun(now: number): boolean {
    const at = this.#latest.at(now)
    return WINDOW_NAMES.every((window) => this.#current(window, at) !== undefined)
  }

  /** Micro-flows that a hold may have now: the least of all windows. */
  left(now: number): bigint {
    const at = this.#latest.at(now)
    const plan = this.#plans.of(renewed(this.#subscription, at).tier)
    return WINDOW_NAMES.map((window) => this.#levelOf(window, plan, at).left).reduce((a, b) => (a < b ? a : b))
  }

  /** True where nothing is held. */
  get isIdle(): boolean {
    return this.#open.size === 0
  }

  /** Adds what this process has leased of the windows that are in force. */
  lease(windows: readonly WindowLease[]): void {
    for (const { window, startedAt, endsAt, granted, elsewhere, free } of windows) {
      this.#latest.at(startedAt)
      const last = this.#windows.get(window)
      if (last !== undefined && last.startedAt > startedAt) continue
      const current = last?.startedAt === startedAt ? last : { startedAt, endsAt, used: 0n, held: 0n }
      this.#windows.set(window, Object.assign(current, { leased: (current.leased ?? 0n) + granted, elsewhere, free }))
    }
  }

  /** Takes out what is leased and not held, but for `kept` micro-flows. */
  giveBack(kept: bigint): ReturnedWindow[] {
    const { accountId } = this.#subscription
    return [...this.#windows].flatMap(([window, current]) => {
      const flows = (current.leased ?? 0n) - current.held - kept
      if (flows <= 0n) return []
      current.leased! -= flows
      return [{ accountId, window, startedAt: current.startedAt, endsAt: current.endsAt, flows }]
    })
  }

  /** Holds more for a response under way, whatever is left: a full window refuses further requests only. */
  grow(hold: QuotaHold, flows: bigint): void {
    hold.flows += flows
    for (const { window, startedAt } of hold.windows) {
      const current = this.#windows.get(window)
      if (current?.startedAt === startedAt) current.held += flows
    }
  }

  /**
   * Ends a hold. What was used counts in the hold's windows and may exceed the hold. Gives the rows to add to the
   * store: also without use, because the windows have begun, and also of windows that newer ones have replaced here,
   * because the store may not have those. Throws an Error for a hold that is not open.
   */
  settle(hold: QuotaHold, used: bigint): QuotaWindow[] {
    if (!this.#open.delete(hold)) throw new Error('This hold of flows is not open.')
    return hold.windows.map(({ window, startedAt, endsAt }) => {
      const current = this.#windows.get(window)
      if (current?.startedAt === startedAt) {
        current.held -= hold.flows
        use(current, used)
      }
      return { accountId: this.#subscription.accountId, window, startedAt, endsAt, used }
    })
  }

  /** Reverts `settle`, for a settlement that the store did not take: the hold is open again. */
  revert(hold: QuotaHold, used: bigint): void {
    this.#open.add(hold)
    for (const { window, startedAt } of hold.windows) {
      const current = this.#windows.get(window)
      if (current?.startedAt !== startedAt) continue
      current.held += hold.flows
      use(current, -used)
    }
  }

  /** Restores a hold that a crash left open, with its windows where no newer ones are stored. */
  restore(hold: QuotaHold): void {
    this.#open.add(hold)
    for (const { window, startedAt, endsAt } of hold.windows) {
      this.#latest.at(startedAt)
      const current = this.#windows.get(window)
      if (current?.startedAt === startedAt) current.held += hold.flows
      else if (current === undefined || current.startedAt < startedAt)
        this.#windows.set(window, { startedAt, endsAt, used: 0n, held: hold.flows })
    }
  }

  /** Takes over what another process wrote. Windows, use and holds stay. */
  replaceSubscription(subscription: Subscription): void {
    this.#subscription = subscription
  }

  /**
   * Begins all windows anew, unused, and a period that has not begun. What is in flight counts in no window. Gives the
   * rows that replace those in the store.
   */
  reset(now: number): QuotaWindow[] {
    const { accountId, tier, renews, nextTier, periodStart, repeatedUntil = 0 } = this.#subscription
    const seen = Math.max(repeatedUntil, this.#latest.at(now))
    this.#subscription = {
      ...renewed(this.#subscription, now),
      ...(periodStart > now ? { ...newSubscription(accountId, tier, now), renews, nextTier } : {}),
      resetRequested: false,
      ...(seen > now ? { repeatedUntil: seen } : {}),
    }
    this.#latest = new LatestInstant(now, this.#elapsed)
    for (const hold of this.#open) hold.windows = []
    return WINDOW_NAMES.map((window) => {
      const endsAt = window === 'monthly' ? this.#subscription.periodEnd : now + LENGTH_MS[window]
      this.#windows.set(window, { startedAt: now, endsAt, used: 0n, held: 0n })
      return { accountId, window, startedAt: now, endsAt, used: 0n }
    })
  }

  detail(now: number, status: AccountStatus, penalty: number): SubscriptionDetail {
    const at = this.#latest.at(now)
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

  /** The use of each window. */
  uses(now: number): WindowUse[] {
    const at = this.#latest.at(now)
    const plan = this.#plans.of(renewed(this.#subscription, at).tier)
    return WINDOW_NAMES.map((name) => {
      const current = this.#current(name, at)
      return { name, used: current?.used ?? 0n, limit: plan.flows[name], endsAt: current?.endsAt ?? null }
    })
  }

  /** All values are computed from flows rounded to ten-thousandths, as shown, so that a client's sums agree. */
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

  /** The window in force; undefined where none has begun since the last one ended. */
  #current(window: QuotaWindowName, at: number): Window | undefined {
    const last = this.#windows.get(window)
    return last === undefined || last.endsAt <= at ? undefined : last
  }

  #levelOf(window: QuotaWindowName, plan: Plan, at: number): WindowLevel {
    const current = this.#current(window, at)
    const { endsAt = at, elsewhere = 0n, free = 0n } = current ?? {}
    const held = (current?.held ?? 0n) + elsewhere
    const max = plan.flows[window]
    const left = current === undefined ? (this.#isLeased ? 0n : max) : this.#leftOf(current, max)
    return { window, left: left < 0n ? 0n : left, max, held, endsAt, free }
  }

  /** A sentence on the request that would be admitted now. */
  #adviceFor(available: bigint, penalty: number): string {
    if (available === 0n) return 'No flows are available now.'
    const list = divideHalfEven(available * this.#plans.usdPerFlow * 1_000_000_000n, 1_000_000n * nanoOf(penalty))
    return `${flowsText(available)} flows ($${usdText(list)} at list prices) are available now; lower the output limit.`
  }
}

function use(window: Window, used: bigint): void {
  window.used += used
  if (window.leased !== undefined) window.leased -= used
}

/** The level of one window in micro-flows. */
type WindowLevel = Record<'left' | 'max' | 'held' | 'free', bigint> & { window: QuotaWindowName; endsAt: number }

const quotaText = ({ window }: WindowLevel, { tier }: Plan): string =>
  `the ${WINDOW_TEXT[window]} quota of the ${tier} plan`

const tooSmallText = (level: WindowLevel, plan: Plan, flows: bigint): string =>
  `This request holds ${flowsText(flows)} flows, more than ${quotaText(level, plan)}, ` +
  `which is ${flowsText(level.max)} flows${level.max === 0n ? ': another plan is needed' : ''}.`

function exceededText(level: WindowLevel, plan: Plan, flows: bigint): string {
  const { left, max, held, endsAt } = level
  const holds = held === 0n ? '' : ` (${flowsText(held)} are held by requests in flight)`
  return (
    `This request holds ${flowsText(flows)} flows, and ${flowsText(left)} of ${flowsText(max)} are left in ` +
    `${quotaText(level, plan)}${holds}. It resets at ${new Date(endsAt).toISOString()}.`
  )
}

/** Micro-flows -> flows. */
const flowsText = (flows: bigint): string => String(Number(flows) / 1_000_000)

import { afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Plans } from '../../src/accounts/plans.ts'
import {
  changePlan,
  newSubscription,
  Quota,
  renewed,
  type QuotaHold,
  type RollingQuota,
} from '../../src/accounts/quota.ts'
import { readConfig } from '../../src/config/load.ts'
import type { QuotaWindowName } from '../../src/config/terms.ts'
import { GatewayError } from '../../src/error.ts'
import type { QuotaWindow, Subscription } from '../../src/store/store.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const FLOW = 1_000_000n
const at = (text: string): number => Date.parse(text)
const iso = (instant: number): string => new Date(instant).toISOString()

const plans = new Plans(readConfig('', 'sluice.yaml', {}))
const START = at('2026-03-01T10:00:00.250Z')
const quotaOf = (tier: string): Quota => new Quota(plans, newSubscription('a', tier, START), [])

/** The refusal, or undefined. */
function refusal(ask: () => void): GatewayError | undefined {
  try {
    ask()
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    const refused = error as GatewayError
    expect({ code: refused.code, status: refused.status, shouldRetry: refused.shouldRetry }).toEqual({
      code: 'quota_exceeded',
      status: 429,
      shouldRetry: false,
    })
    return refused
  }
}

function use(quota: Quota, flows: bigint, now: number): QuotaWindow[] {
  quota.check(flows, now)
  return quota.settle(quota.hold(flows, now), flows)
}

describe('subscription detail', () => {
  test('an unused subscription has windows that have not begun', () => {
    expect(quotaOf('pro').detail(START, 'healthy', 1)).toEqual({
      plan: { tier: 'pro', amount_usd: 20, interval: 'month', expires_at: '2026-04-01T10:00:00.250Z' },
      currency: 'usd',
      base_usd_per_flow: 0.03283,
      effective_usd_per_flow: 0.03283,
      account_status: 'healthy',
      quota_5_hour: {
        usage_percentage: 0,
        resets_at: null,
        max_flows: 50,
        used_flows: 0,
        remaining_flows: 50,
        used_value_usd: 0,
        max_value_usd: 1.6415,
      },
      quota_7_day: {
        usage_percentage: 0,
        resets_at: null,
        max_flows: 213.293,
        used_flows: 0,
        remaining_flows: 213.293,
        used_value_usd: 0,
        max_value_usd: 7.0024,
      },
      quota_monthly: { max_flows: 914.112, max_value_usd: 30.0103 },
    })
  })

  test('the detail counts settled use without holds and includes the penalty', () => {
    const quota = quotaOf('pro')
    use(quota, 12_345_678n, START)
    quota.hold(5n * FLOW, START + 1)
    const { effective_usd_per_flow, base_usd_per_flow, account_status, quota_5_hour, quota_7_day } = quota.detail(
      START + HOUR,
      'abusive',
      1.5,
    )
    expect({ effective_usd_per_flow, base_usd_per_flow, account_status }).toEqual({
      effective_usd_per_flow: 0.049245,
      base_usd_per_flow: 0.03283,
      account_status: 'abusive',
    })
    expect(quota_5_hour).toEqual({
      usage_percentage: 0.2469,
      resets_at: '2026-03-01T15:00:00.250Z',
      max_flows: 50,
      used_flows: 12.3457,
      remaining_flows: 37.6543,
      used_value_usd: 0.4053,
      max_value_usd: 1.6415,
    })
    expect(quota_7_day).toEqual({
      usage_percentage: 0.0579,
      resets_at: '2026-03-08T10:00:00.250Z',
      max_flows: 213.293,
      used_flows: 12.3457,
      remaining_flows: 200.9473,
      used_value_usd: 0.4053,
      max_value_usd: 7.0024,
    })
  })

  test('use above the maximum is shown as the maximum', () => {
    const quota = quotaOf('free')
    quota.settle(quota.hold(FLOW, START), 6n * FLOW)
    expect(quota.detail(START, 'healthy', 1).quota_5_hour).toEqual({
      usage_percentage: 1,
      resets_at: '2026-03-01T15:00:00.250Z',
      max_flows: 5,
      used_flows: 5,
      remaining_flows: 0,
      used_value_usd: 0.1642,
      max_value_usd: 0.1642,
    })
    // What was passed counts: the larger plan has one flow less left than it would have.
    quota.replaceSubscription(changePlan(quota.subscription, 'pro', { now: false }, plans))
    expect(quota.detail(START, 'healthy', 1).quota_5_hour).toMatchObject({ used_flows: 6, remaining_flows: 44 })
  })

  test('resets_at is null from the millisecond a window ends', () => {
    const quota = quotaOf('pro')
    use(quota, FLOW, START)
    const seen = (now: number): unknown => [
      quota.detail(now, 'healthy', 1).quota_5_hour.resets_at,
      quota.detail(now, 'healthy', 1).quota_5_hour.used_flows,
    ]
    expect(seen(START + 5 * HOUR - 1)).toEqual(['2026-03-01T15:00:00.250Z', 1])
    expect(seen(START + 5 * HOUR)).toEqual([null, 0])
  })

  test('a tier that is not configured any more is shown as the free plan', () => {
    const { plan, quota_monthly } = quotaOf('team').detail(START, 'healthy', 1)
    expect([plan.tier, quota_monthly.max_flows]).toEqual(['free', 165.6])
  })
})

describe('quota windows', () => {
  test('a window begins with the first hold, and again with the first hold after it ended', () => {
    const quota = quotaOf('free')
    const begun = (now: number): number[] => quota.hold(0n, now).windows.map(({ startedAt }) => startedAt - START)
    expect(begun(START + HOUR)).toEqual([HOUR, HOUR, 0])
    expect(begun(START + 6 * HOUR - 1)).toEqual([HOUR, HOUR, 0])
    expect(begun(START + 6 * HOUR)).toEqual([6 * HOUR, HOUR, 0])
    expect(begun(START + 8 * DAY)).toEqual([8 * DAY, 8 * DAY, 0])
    expect(begun(at('2026-04-01T10:00:00.249Z')).at(2)).toBe(0)
    expect(begun(at('2026-04-01T10:00:00.250Z')).at(2)).toBe(31 * DAY)
  })

  test('every settlement gives rows for the store, also without use', () => {
    const quota = quotaOf('free')
    expect(quota.settle(quota.hold(FLOW, START), 0n)).toEqual([
      { accountId: 'a', window: '5_hour', startedAt: START, endsAt: START + 5 * HOUR, used: 0n },
      { accountId: 'a', window: '7_day', startedAt: START, endsAt: START + 7 * DAY, used: 0n },
      { accountId: 'a', window: 'monthly', startedAt: START, endsAt: at('2026-04-01T10:00:00.250Z'), used: 0n },
    ])
    expect(quota.detail(START, 'healthy', 1).quota_5_hour.resets_at).toBe(iso(START + 5 * HOUR))
  })

  test('a settlement in a window that was replaced gives its row for the store and changes nothing here', () => {
    const quota = quotaOf('free')
    const late = quota.hold(2n * FLOW, START)
    const next = quota.hold(FLOW, START + 5 * HOUR)
    expect(quota.settle(late, 2n * FLOW).map(({ window, startedAt, used }) => [window, startedAt, used])).toEqual([
      ['5_hour', START, 2n * FLOW],
      ['7_day', START, 2n * FLOW],
      ['monthly', START, 2n * FLOW],
    ])
    quota.settle(next, FLOW)
    const { quota_5_hour, quota_7_day } = quota.detail(START + 5 * HOUR, 'healthy', 1)
    expect([quota_5_hour.used_flows, quota_7_day.used_flows]).toEqual([1, 3])
  })

  test('a clock that goes back restarts no window', () => {
    const quota = quotaOf('free')
    use(quota, FLOW, START + 10 * HOUR)
    expect(quota.hold(0n, START).windows[0]).toEqual({
      window: '5_hour',
      startedAt: START + 10 * HOUR,
      endsAt: START + 15 * HOUR,
    })
    // Seen is seen: an hour at which the window was over counts for what comes after it.
    expect(quota.detail(START + 15 * HOUR, 'healthy', 1).quota_5_hour.resets_at).toBeNull()
    expect(quota.detail(START + 12 * HOUR, 'healthy', 1).quota_5_hour.resets_at).toBeNull()
  })

  test('a hold ends once', () => {
    const quota = quotaOf('free')
    const hold = quota.hold(2n * FLOW, START)
    quota.settle(hold, FLOW)
    expect(() => quota.settle(hold, FLOW)).toThrow('This hold of flows is not open.')
    expect(() => quota.settle({ ...hold }, FLOW)).toThrow('This hold of flows is not open.')
    expect(quota.detail(START, 'healthy', 1).quota_5_hour.used_flows).toBe(1)
    quota.check(4n * FLOW, START)
  })

  test('a hold restored after a crash restores its windows', () => {
    const hold = quotaOf('free').hold(2n * FLOW, START)
    const quota = quotaOf('free')
    quota.restore(hold)
    expect(refusal(() => quota.check(3n * FLOW + 1n, START + HOUR))?.retryAfterSeconds).toBe(4 * 3600)
    expect(quota.settle(hold, FLOW).map(({ used }) => used)).toEqual([FLOW, FLOW, FLOW])
    expect(quota.detail(START + HOUR, 'healthy', 1).quota_5_hour).toMatchObject({
      used_flows: 1,
      resets_at: iso(START + 5 * HOUR),
    })
  })
})

describe('refusal', () => {
  test('a refusal says which window is exceeded, when it resets and what is available', () => {
    const quota = quotaOf('pro')
    use(quota, 40n * FLOW, START)
    quota.hold(4_500_000n, START + 1)
    const refused = refusal(() => quota.check(12_500_000n, START + HOUR))
    expect(refused?.message).toBe(
      'This request needs up to 12.5 flows, and 5.5 of 50 are left in the 5-hour quota of the pro plan ' +
        '(4.5 are held by requests in flight). It resets at 2026-03-01T15:00:00.250Z. ' +
        '5.5 flows ($0.180565 at list prices) are available now; lower the output limit.',
    )
    expect(refused?.retryAfterSeconds).toBe(4 * 3600)
    expect(refusal(() => quota.check(12_500_000n, START + HOUR, 1.5))?.message).toContain(
      '5.5 flows ($0.120376667 at list prices) are available now',
    )
  })

  test('a refusal without available flows says so', () => {
    const quota = quotaOf('free')
    use(quota, 5n * FLOW, START)
    expect(refusal(() => quota.check(1n, START + 1))?.message).toBe(
      'This request needs up to 0.000001 flows, and 0 of 5 are left in the 5-hour quota of the free plan. ' +
        'It resets at 2026-03-01T15:00:00.250Z. No flows are available now.',
    )
    expect(refusal(() => quota.check(1n, START + 1))?.retryAfterSeconds).toBe(5 * 3600)
    expect(refusal(() => quota.check(0n, START + 1))).toBeUndefined()
  })

  test('of several exceeded windows the refusal is about the one that resets last', () => {
    const quota = quotaOf('free')
    for (let hours = 0; hours < 35; hours += 5) use(quota, 5n * FLOW, START + hours * HOUR)
    use(quota, 3n * FLOW, START + 35 * HOUR)
    expect(refusal(() => quota.check(FLOW, START + 36 * HOUR))?.message).toContain('the 7-day quota of the free plan')
    const both = refusal(() => quota.check(3n * FLOW, START + 36 * HOUR))
    expect(both?.message).toContain(
      '0.64 of 38.64 are left in the 7-day quota of the free plan. It resets at 2026-03-08T10:00:00.250Z. 0.64 flows ',
    )
    expect(both?.retryAfterSeconds).toBe((7 * 24 - 36) * 3600)
    // Every window holds: the month too.
    for (let week = 1; week < 4; week++)
      for (let hours = 0; hours < 35; hours += 5) use(quota, 5n * FLOW, START + week * 7 * DAY + hours * HOUR)
    use(quota, 5n * FLOW, START + 28 * DAY)
    use(quota, 5n * FLOW, START + 28 * DAY + 5 * HOUR)
    use(quota, 5n * FLOW, START + 28 * DAY + 10 * HOUR)
    use(quota, 5n * FLOW, START + 28 * DAY + 15 * HOUR)
    expect(refusal(() => quota.check(3n * FLOW, START + 28 * DAY + 20 * HOUR))?.message).toContain(
      'This request needs up to 3 flows, and 2.6 of 165.6 are left in the monthly quota of the free plan. ' +
        'It resets at 2026-04-01T10:00:00.250Z.',
    )
  })

  test('a request above the maximum of a window is refused without a retry time', () => {
    const quota = quotaOf('free')
    use(quota, 4n * FLOW, START)
    const refused = refusal(() => quota.check(40n * FLOW, START))
    expect(refused?.message).toBe(
      'This request needs up to 40 flows, more than the 5-hour quota of the free plan, which is 5 flows. ' +
        '1 flows ($0.03283 at list prices) are available now; lower the output limit.',
    )
    expect(refused?.retryAfterSeconds).toBeUndefined()
  })

  test('a plan without flows refuses all but free requests and suggests another plan', () => {
    const none = new Plans(readConfig('plans: { tiers: { free: { flows: { 7_day: 0 } } } }', 'sluice.yaml', {}))
    const quota = new Quota(none, newSubscription('a', 'free', START), [])
    expect(refusal(() => quota.check(FLOW, START))?.message).toBe(
      'This request needs up to 1 flows, more than the 7-day quota of the free plan, which is 0 flows: ' +
        'another plan is needed. No flows are available now.',
    )
    expect(refusal(() => quota.check(0n, START))).toBeUndefined()
    expect(quota.detail(START, 'healthy', 1).quota_7_day).toMatchObject({
      usage_percentage: 1,
      remaining_flows: 0,
      resets_at: null,
    })
  })
})

describe('subscription periods', () => {
  const initial = process.env.TZ
  afterEach(() => {
    process.env.TZ = initial ?? 'UTC'
  })

  const ends = (anchor: string, count: number): string[] => {
    let subscription = newSubscription('a', 'pro', at(anchor))
    return Array.from({ length: count }, () => {
      const end = subscription.periodEnd
      subscription = renewed(subscription, end)
      expect(subscription.periodStart).toBe(end)
      return iso(end)
    })
  }

  test('periods are calendar months from the anchor, and short months do not shorten later ones', () => {
    expect(ends('2026-01-31T23:59:59.999Z', 4)).toEqual([
      '2026-02-28T23:59:59.999Z',
      '2026-03-31T23:59:59.999Z',
      '2026-04-30T23:59:59.999Z',
      '2026-05-31T23:59:59.999Z',
    ])
    expect(ends('2027-12-30T00:00:00.000Z', 3)).toEqual([
      '2028-01-30T00:00:00.000Z',
      '2028-02-29T00:00:00.000Z',
      '2028-03-30T00:00:00.000Z',
    ])
    expect(ends('2028-02-29T12:00:00.000Z', 12).at(-1)).toBe('2029-02-28T12:00:00.000Z')
  })

  test('periods do not depend on the time zone of the server', () => {
    const there = (zone: string): string[] => {
      process.env.TZ = zone
      return ends('2026-01-31T04:30:00.000Z', 14)
    }
    const utc = there('UTC')
    for (const zone of ['America/New_York', 'Europe/Berlin', 'Pacific/Kiritimati', 'Australia/Lord_Howe']) {
      expect(there(zone)).toEqual(utc)
      expect(new Date(at('2026-01-31')).getTimezoneOffset()).not.toBe(0)
    }
  })

  test('a renewal moves on once, also by several months', () => {
    const quota = new Quota(plans, newSubscription('a', 'pro', at('2026-01-31T12:00:00Z')), [])
    expect(quota.renew(at('2026-02-28T11:59:59.999Z'))).toBe(false)
    expect(quota.renew(at('2026-06-15T00:00:00Z'))).toBe(true)
    expect(quota.renew(at('2026-06-15T00:00:00Z'))).toBe(false)
    expect(quota.subscription).toEqual({
      accountId: 'a',
      tier: 'pro',
      anchor: at('2026-01-31T12:00:00Z'),
      periodStart: at('2026-05-31T12:00:00Z'),
      periodEnd: at('2026-06-30T12:00:00Z'),
      renews: true,
      nextTier: null,
    })
    // The clock goes back, the period does not.
    expect(quota.renew(at('2026-03-01T00:00:00Z'))).toBe(false)
  })

  test('a subscription that does not renew is followed by the free plan, which does', () => {
    const quota = new Quota(plans, { ...newSubscription('a', 'max', START), renews: false, nextTier: 'pro' }, [])
    expect(quota.renew(at('2026-04-01T10:00:00.250Z'))).toBe(true)
    expect(quota.subscription).toMatchObject({
      tier: 'free',
      renews: true,
      nextTier: null,
      periodEnd: at('2026-05-01T10:00:00.250Z'),
    })
    quota.renew(at('2027-01-01'))
    expect(quota.subscription.tier).toBe('free')
  })

  test('a new period resets the monthly window once and no other window', () => {
    const quota = quotaOf('free')
    const end = at('2026-04-01T10:00:00.250Z')
    quota.settle(quota.hold(0n, START), 162n * FLOW)
    use(quota, FLOW / 2n, end - HOUR)
    expect(refusal(() => quota.check(4n * FLOW, end - HOUR))?.message).toContain('monthly')
    const before = quota.subscription
    quota.renew(end)
    expect(use(quota, 2n * FLOW, end)).toMatchObject([
      { startedAt: end - HOUR },
      { startedAt: end - HOUR },
      { startedAt: end },
    ])
    expect(quota.detail(end, 'healthy', 1).quota_5_hour.used_flows).toBe(2.5)
    // Another process writes the row that it had read before the renewal.
    quota.replaceSubscription(before)
    expect(quota.hold(0n, end + 1).windows.at(-1)?.startedAt).toBe(end)
    expect(quota.renew(end + 2)).toBe(true)
    for (const hours of [5, 10, 15, 20, 25, 30]) use(quota, 5n * FLOW, end + hours * HOUR)
    const stored = quota.settle(quota.hold(0n, end + 40 * HOUR), 0n)
    expect(stored.at(-1)?.startedAt).toBe(end)
    quota.settle(quota.hold(0n, end + 40 * HOUR), 131n * FLOW)
    expect(refusal(() => quota.check(3n * FLOW, end + 8 * DAY))?.message).toContain('2.6 of 165.6')
  })
})

describe('plan changes', () => {
  const pro = newSubscription('a', 'pro', START)

  test('an upgrade takes effect at once and keeps period and use', () => {
    const quota = quotaOf('free')
    use(quota, 5n * FLOW, START)
    expect(refusal(() => quota.check(FLOW, START + HOUR))).toBeDefined()
    const hold = quota.hold(0n, START + HOUR)
    quota.replaceSubscription(changePlan(quota.subscription, 'pro', { now: false }, plans))
    expect(quota.subscription).toEqual({ ...newSubscription('a', 'pro', START) })
    expect(quota.detail(START + HOUR, 'healthy', 1).quota_5_hour).toMatchObject({
      max_flows: 50,
      used_flows: 5,
      resets_at: iso(START + 5 * HOUR),
    })
    quota.check(45n * FLOW, START + HOUR)
    quota.settle(hold, FLOW)
    expect(refusal(() => quota.check(45n * FLOW, START + HOUR))).toBeDefined()
  })

  test('a downgrade takes effect with the next period', () => {
    const changed = changePlan(pro, 'free', { now: false }, plans)
    expect(changed).toEqual({ ...pro, nextTier: 'free' })
    expect(renewed(changed, pro.periodEnd - 1)).toBe(changed)
    expect(renewed(changed, pro.periodEnd)).toMatchObject({
      tier: 'free',
      nextTier: null,
      renews: true,
      periodStart: pro.periodEnd,
    })
    expect(changePlan(pro, 'free', { now: true }, plans)).toEqual({ ...pro, tier: 'free' })
  })

  test('a change to the current plan cancels a scheduled one', () => {
    expect(changePlan({ ...pro, nextTier: 'free', renews: false }, 'pro', { now: false }, plans)).toEqual(pro)
  })

  test('a change to an unknown plan is refused', () => {
    expect(() => changePlan(pro, 'ultr', { now: false }, plans)).toThrow('there is no plan ultr; did you mean ultra?')
    expect(() => changePlan(pro, 'enterprise', { now: false }, plans)).toThrow(
      'there is no plan enterprise; choose one of free, pro, max, ultra',
    )
  })
})

/** Small plans, so that windows fill up. */
const TIERS: Record<string, { price: number } & Record<QuotaWindowName, bigint>> = {
  free: { price: 0, '5_hour': 10n, '7_day': 25n, monthly: 60n },
  small: { price: 10, '5_hour': 20n, '7_day': 50n, monthly: 100n },
  big: { price: 20, '5_hour': 40n, '7_day': 120n, monthly: 300n },
}
const small = new Plans(
  readConfig(
    JSON.stringify({
      plans: {
        tiers: Object.fromEntries(
          Object.entries(TIERS).map(([tier, { price, ...flows }]) => [
            tier,
            {
              usdPerMonth: price,
              flows: Object.fromEntries(Object.entries(flows).map(([window, most]) => [window, Number(most)])),
            },
          ]),
        ),
      },
    }),
    'sluice.yaml',
    {},
  ),
)

const LENGTHS = { '5_hour': 5 * HOUR, '7_day': 7 * DAY }
const NAMES = ['5_hour', '7_day', 'monthly'] as const
type Entry = { began: Record<QuotaWindowName, number>; held: bigint; used: bigint }

/** The calendar in words: the month counted on the fingers, then the last day of it that there is. */
function monthsOn(anchor: number, months: number): number {
  const [date = '', time = ''] = iso(anchor).split('T')
  let [year, month, day] = date.split('-').map(Number) as [number, number, number]
  for (let step = 0; step < months; step++) [year, month] = month === 12 ? [year + 1, 1] : [year, month + 1]
  for (; ; day--) {
    const text = `${year}-${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}T${time}`
    if (Number.isFinite(Date.parse(text)) && iso(Date.parse(text)) === text) return Date.parse(text)
  }
}

/** What a person would do: go through all that ever happened, one period after the other. */
class Log {
  readonly entries: Entry[] = []
  seen: number
  subscription: { anchor: number; months: number; tier: string; next: string | null; renews: boolean }
  stored: Log['subscription']

  constructor(anchor: number, tier: string) {
    this.subscription = this.stored = { anchor, months: 0, tier, next: null, renews: true }
    this.seen = anchor
  }

  look(now: number): number {
    return (this.seen = Math.max(this.seen, now))
  }

  /** The subscription in the period of the last instant seen. */
  current(): Log['subscription'] {
    let { anchor, months, tier, next, renews } = this.subscription
    for (; monthsOn(anchor, months + 1) <= this.seen; months++)
      [tier, next, renews] = [renews ? (next ?? tier) : 'free', null, true]
    return { anchor, months, tier, next, renews }
  }

  /** When the window began that counts at the last instant seen; undefined where none does. */
  began(window: QuotaWindowName): number | undefined {
    const last = Math.max(...this.entries.map(({ began }) => began[window]))
    const { anchor, months } = this.current()
    const counts = window === 'monthly' ? last >= monthsOn(anchor, months) : last + LENGTHS[window] > this.seen
    return counts ? last : undefined
  }

  ends(window: QuotaWindowName): number {
    const { anchor, months } = this.current()
    return window === 'monthly' ? monthsOn(anchor, months + 1) : this.began(window)! + LENGTHS[window]
  }

  sum(window: QuotaWindowName, what: 'held' | 'used'): bigint {
    const began = this.began(window)
    return this.entries.filter((entry) => entry.began[window] === began).reduce((sum, entry) => sum + entry[what], 0n)
  }

  max(window: QuotaWindowName): bigint {
    return TIERS[this.current().tier]![window] * FLOW
  }

  take(flows: bigint): Entry {
    const { anchor, months } = this.current()
    const began = {
      '5_hour': this.began('5_hour') ?? this.seen,
      '7_day': this.began('7_day') ?? this.seen,
      monthly: this.began('monthly') ?? monthsOn(anchor, months),
    }
    const entry = { began, held: flows, used: 0n }
    this.entries.push(entry)
    return entry
  }

  /** What is not in the store is forgotten, the last instant too. */
  crash(): void {
    this.subscription = this.stored
    this.seen = Math.max(
      monthsOn(this.stored.anchor, this.stored.months),
      ...this.entries.flatMap(({ began }) => Object.values(began)),
    )
  }
}

/** The store's rule for rows. */
function add(rows: QuotaWindow[], fresh: QuotaWindow): QuotaWindow[] {
  const row = rows.find(({ window }) => window === fresh.window)
  if (row !== undefined && row.startedAt > fresh.startedAt) return rows
  return [
    ...rows.filter((one) => one !== row),
    { ...fresh, used: (row?.startedAt === fresh.startedAt ? row.used : 0n) + fresh.used },
  ]
}

const step = fc.record({
  kind: fc.constantFrom('take', 'take', 'take', 'settle', 'settle', 'renew', 'plan', 'stop', 'crash'),
  flows: fc.oneof(
    { weight: 8, arbitrary: fc.bigInt(0n, 8n * FLOW) },
    { weight: 1, arbitrary: fc.bigInt(0n, 45n * FLOW) },
  ),
  which: fc.nat(),
  tier: fc.constantFrom('free', 'small', 'big'),
  now: fc.boolean(),
  after: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: -HOUR, max: 2 * HOUR }) },
    { weight: 1, arbitrary: fc.integer({ min: -2 * DAY, max: 40 * DAY }) },
    { weight: 3, arbitrary: fc.constantFrom<QuotaWindowName>(...NAMES) },
  ),
  off: fc.integer({ min: -1, max: 1 }),
})

/** Anchors at the ends of months, and any other. */
const anchors = fc.oneof(
  fc.integer({ min: at('2026-01-01'), max: at('2030-01-01') }),
  fc
    .tuple(
      fc.constantFrom('2026-01-31', '2027-12-31', '2028-02-29', '2028-01-30', '2026-03-29', '2026-10-25'),
      fc.constantFrom('00:00:00.000', '23:59:59.999', '02:30:00.001'),
    )
    .map(([day, time]) => at(`${day}T${time}Z`)),
)

function expectRefusal(log: Log, flows: bigint, refused: GatewayError | undefined): boolean {
  const full = NAMES.filter(
    (window) => flows > 0n && log.sum(window, 'held') + log.sum(window, 'used') + flows > log.max(window),
  )
  expect(refused !== undefined).toBe(full.length > 0)
  if (refused === undefined) return false
  const never = full.some((window) => flows > log.max(window))
  expect(refused.retryAfterSeconds).toBe(
    never ? undefined : Math.ceil((Math.max(...full.map((window) => log.ends(window))) - log.seen) / 1000),
  )
  return true
}

function expectDetail(log: Log, window: '5_hour' | '7_day', shown: RollingQuota): void {
  const { usage_percentage, resets_at, max_flows, used_flows, remaining_flows } = shown
  const began = log.began(window)
  const [used, max] = [Number(log.sum(window, 'used')) / 1e6, Number(log.max(window)) / 1e6]
  expect(resets_at).toBe(began === undefined ? null : iso(began + LENGTHS[window]))
  expect(max_flows).toBe(max)
  expect(Math.abs(used_flows - Math.min(used, max))).toBeLessThanOrEqual(0.00005 + 1e-9)
  expect(Math.round(used_flows * 1e4) + Math.round(remaining_flows * 1e4)).toBe(max * 1e4)
  expect(Math.abs(usage_percentage - used_flows / max_flows)).toBeLessThanOrEqual(0.00005 + 1e-9)
  expect(Math.round(usage_percentage * 1e4) / 1e4).toBe(usage_percentage)
  expect(usage_percentage >= 0 && usage_percentage <= 1 && remaining_flows >= 0).toBe(true)
}

test('quotas agree with a complete log after any sequence of holds, settlements, renewals, changes and crashes', () => {
  const count = { taken: 0, refused: 0, renewed: 0, reset: 0 }
  fc.assert(
    fc.property(
      anchors,
      fc.constantFrom('free', 'small', 'big'),
      fc.array(step, { minLength: 10, maxLength: 50 }),
      (anchor, tier, steps) => {
        const log = new Log(anchor, tier)
        let stored = newSubscription('a', tier, anchor)
        let [quota, rows, now] = [new Quota(small, stored, []), [] as QuotaWindow[], anchor]
        let open: { hold: QuotaHold; entry: Entry }[] = []
        let last: RollingQuota | undefined
        const renew = (): void => {
          const due = JSON.stringify(log.subscription) !== JSON.stringify(log.current())
          expect(quota.renew(now)).toBe(due)
          if (due) count.renewed++
          if (due) [stored, log.subscription] = [quota.subscription, log.current()]
          log.stored = log.subscription
        }
        const change = (subscription: Subscription, said: Log['subscription']): void => {
          quota.replaceSubscription((stored = subscription))
          log.subscription = log.stored = said
        }
        for (const { kind, flows, which, tier, now: atOnce, after, off } of steps) {
          now =
            typeof after === 'number'
              ? now + after
              : after === 'monthly' || log.began(after) !== undefined
                ? log.ends(after) + off
                : now
          log.look(now)
          if (kind === 'take') {
            const refused = expectRefusal(
              log,
              flows,
              refusal(() => quota.check(flows, now)),
            )
            if (!refused) open.push({ hold: quota.hold(flows, now), entry: log.take(flows) })
            count[refused ? 'refused' : 'taken']++
          } else if (kind === 'settle' && open.length > 0) {
            const [{ hold, entry }] = open.splice(which % open.length, 1) as [(typeof open)[number]]
            rows = quota.settle(hold, flows).reduce(add, rows)
            Object.assign(entry, { held: 0n, used: flows })
          } else if (kind === 'renew') {
            renew()
          } else if (kind === 'plan') {
            renew()
            const higher = TIERS[tier]!.price >= TIERS[log.subscription.tier]!.price
            change(changePlan(quota.subscription, tier, { now: atOnce }, small), {
              ...log.subscription,
              renews: true,
              ...(higher || atOnce ? { tier, next: null } : { next: tier }),
            })
          } else if (kind === 'stop') {
            renew()
            change({ ...quota.subscription, renews: false }, { ...log.subscription, renews: false })
          } else if (kind === 'crash') {
            quota = new Quota(small, stored, rows)
            open = open.toReversed()
            for (const { hold } of open) quota.restore(hold)
            log.crash()
            log.look(now)
            last = undefined
          }
          const detail = quota.detail(now, 'healthy', 1)
          expect([detail.plan.tier, detail.plan.expires_at]).toEqual([
            log.current().tier,
            iso(monthsOn(anchor, log.current().months + 1)),
          ])
          expectDetail(log, '5_hour', detail.quota_5_hour)
          expectDetail(log, '7_day', detail.quota_7_day)
          const same =
            last?.resets_at === detail.quota_5_hour.resets_at && last.max_flows === detail.quota_5_hour.max_flows
          if (same) expect(detail.quota_5_hour.used_flows).toBeGreaterThanOrEqual(last!.used_flows)
          else count.reset++
          last = detail.quota_5_hour
        }
      },
    ),
    { numRuns: 400 },
  )
  expect(Math.min(...Object.values(count))).toBeGreaterThan(100)
}, 60_000)

test('settlements in any order give the same result, and queries change nothing', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.bigInt(0n, 8n * FLOW), fc.bigInt(0n, 8n * FLOW), fc.integer({ min: 0, max: 4 * HOUR })), {
        minLength: 1,
        maxLength: 12,
      }),
      fc.infiniteStream(fc.nat()),
      fc.integer({ min: 1, max: 5 }),
      (asks, order, times) => {
        const end = (shuffled: boolean): unknown => {
          const quota = new Quota(small, newSubscription('a', 'big', START), [])
          const holds = asks.map(([flows, used, after], index) => {
            const now = START + index * HOUR + after
            const answers = Array.from(
              { length: shuffled ? times : 1 },
              () => refusal(() => quota.check(flows, now))?.message,
            )
            expect(new Set(answers).size).toBe(1)
            return { hold: quota.hold(flows, now), used }
          })
          let rows: QuotaWindow[] = []
          while (holds.length > 0) {
            const [{ hold, used }] = holds.splice(shuffled ? order.next().value! % holds.length : 0, 1) as [
              (typeof holds)[number],
            ]
            rows = quota.settle(hold, used).reduce(add, rows)
          }
          const named = (window: QuotaWindowName): QuotaWindow | undefined => rows.find((row) => row.window === window)
          return { rows: NAMES.map(named), detail: quota.detail(START + 20 * HOUR, 'healthy', 1) }
        }
        expect(end(true)).toEqual(end(false))
      },
    ),
  )
})

import { describe, expect, test } from 'bun:test'
import { Plans } from '../../src/accounts/plans.ts'
import { Quota } from '../../src/accounts/quota.ts'
import { changePlan, newSubscription } from '../../src/accounts/subscription.ts'
import { readConfig } from '../../src/config/load.ts'
import type { WindowLease } from '../../src/store/leases.ts'
import { at, DAY, FLOW, HOUR, iso, plans, quotaOf, refusal, START, use } from './quota-fixture.ts'

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
    // Use above the maximum counts: the larger plan has one flow less left.
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
    // An instant after the end of the window stays seen, also when the clock goes back.
    expect(quota.detail(START + 15 * HOUR, 'healthy', 1).quota_5_hour.resets_at).toBeNull()
    expect(quota.detail(START + 12 * HOUR, 'healthy', 1).quota_5_hour.resets_at).toBeNull()
  })

  test('a hold grows by nothing in a full window, and by anything once all its windows have ended', () => {
    const quota = quotaOf('free')
    const hold = quota.hold(FLOW, START)
    quota.settle(quota.hold(0n, START), 6n * FLOW)
    expect([quota.fits(hold, 0n), quota.fits(hold, 1n)]).toEqual([true, false])
    quota.hold(0n, START + 5 * HOUR)
    expect(quota.fits(hold, 30n * FLOW)).toBe(true)
    expect(quota.fits(hold, 32n * FLOW)).toBe(false)
    quota.hold(0n, at('2026-04-02T10:00:00Z'))
    expect(quota.fits(hold, 999n * FLOW)).toBe(true)
  })

  test('a settlement that the store did not take is open again, with what it holds', () => {
    const quota = quotaOf('free')
    const [hold, other] = [quota.hold(2n * FLOW, START), quota.hold(0n, START)]
    quota.settle(hold, 3n * FLOW)
    quota.grow(other, FLOW)
    expect(quota.left(START)).toBe(FLOW)
    quota.revert(hold, 3n * FLOW)
    expect([quota.left(START), quota.isIdle]).toEqual([2n * FLOW, false])
    quota.settle(hold, FLOW)
    quota.settle(other, 0n)
    expect([quota.left(START), quota.isIdle]).toEqual([4n * FLOW, true])
    expect(quota.uses(START).map(({ name, used, endsAt }) => [name, used, endsAt && endsAt > START])).toEqual([
      ['5_hour', FLOW, true],
      ['7_day', FLOW, true],
      ['monthly', FLOW, true],
    ])
    // Its windows that have not been replaced are as they were, too.
    const late = quota.hold(2n * FLOW, START)
    quota.hold(0n, START + 5 * HOUR)
    quota.settle(late, 3n * FLOW)
    quota.revert(late, 3n * FLOW)
    expect(quota.uses(START + 5 * HOUR).map(({ used }) => used)).toEqual([0n, FLOW, FLOW])
    expect(quotaOf('free').uses(START)[0]).toEqual({ name: '5_hour', used: 0n, limit: 5n * FLOW, endsAt: null })
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

describe('leased windows', () => {
  const leases = (quota: Quota, now: number, granted: bigint, free: bigint[] = []): WindowLease[] =>
    quota.terms(now).map(({ window, startsAt, endsAt }, index) => ({
      window,
      startedAt: startsAt,
      endsAt,
      granted,
      elsewhere: 0n,
      free: free[index] ?? 0n,
    }))
  const quotaOfProcess = (): Quota => new Quota(plans, newSubscription('a', 'free', START), [], undefined, true)

  test('begin with their lease, and give back what no request holds', () => {
    const quota = quotaOfProcess()
    const all = leases(quota, START, 3n * FLOW)
    expect(all.map(({ endsAt }) => endsAt)).toEqual([START + 5 * HOUR, START + 7 * DAY, at('2026-04-01T10:00:00.250Z')])
    quota.lease(all.slice(0, 1))
    expect([quota.hasBegun(START), quota.left(START)]).toEqual([false, 0n])
    quota.lease(all.slice(1))
    expect([quota.hasBegun(START), quota.left(START)]).toEqual([true, 3n * FLOW])
    quota.lease(leases(quota, START, FLOW))
    quota.hold(FLOW, START)
    expect(quota.giveBack(FLOW)).toEqual(
      all.map(({ window, startedAt, endsAt }) => ({ accountId: 'a', window, startedAt, endsAt, flows: 2n * FLOW })),
    )
    expect([quota.giveBack(2n * FLOW), quota.giveBack(FLOW), quota.left(START)]).toEqual([[], [], FLOW])
  })

  test('take no lease of a window that has ended here', () => {
    const quota = quotaOfProcess()
    const before = leases(quota, START, 3n * FLOW)
    quota.lease(before)
    quota.lease(leases(quota, START + 5 * HOUR, FLOW))
    quota.lease(before.slice(0, 1))
    expect(quota.left(START + 5 * HOUR)).toBe(FLOW)
  })

  test('are exceeded where no more of them can be leased', () => {
    const quota = quotaOfProcess()
    quota.lease(leases(quota, START, 2n * FLOW, [0n, FLOW, FLOW]))
    expect(refusal(() => quota.check(3n * FLOW, START))?.message).toContain('2 of 5 are left in the 5-hour quota')
  })
})

describe('refusal', () => {
  test('a refusal says which window is exceeded, when it resets and what is available', () => {
    const quota = quotaOf('pro')
    use(quota, 40n * FLOW, START)
    quota.hold(4_500_000n, START + 1)
    const refused = refusal(() => quota.check(12_500_000n, START + HOUR))
    expect(refused?.message).toBe(
      'This request holds 12.5 flows, and 5.5 of 50 are left in the 5-hour quota of the pro plan ' +
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
      'This request holds 0.000001 flows, and 0 of 5 are left in the 5-hour quota of the free plan. ' +
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
    // The monthly window limits too.
    for (let week = 1; week < 4; week++)
      for (let hours = 0; hours < 35; hours += 5) use(quota, 5n * FLOW, START + week * 7 * DAY + hours * HOUR)
    use(quota, 5n * FLOW, START + 28 * DAY)
    use(quota, 5n * FLOW, START + 28 * DAY + 5 * HOUR)
    use(quota, 5n * FLOW, START + 28 * DAY + 10 * HOUR)
    use(quota, 5n * FLOW, START + 28 * DAY + 15 * HOUR)
    expect(refusal(() => quota.check(3n * FLOW, START + 28 * DAY + 20 * HOUR))?.message).toContain(
      'This request holds 3 flows, and 2.6 of 165.6 are left in the monthly quota of the free plan. ' +
        'It resets at 2026-04-01T10:00:00.250Z.',
    )
  })

  test('a request above the maximum of a window is refused without a retry time', () => {
    const quota = quotaOf('free')
    use(quota, 4n * FLOW, START)
    const refused = refusal(() => quota.check(40n * FLOW, START))
    expect(refused?.message).toBe(
      'This request holds 40 flows, more than the 5-hour quota of the free plan, which is 5 flows. ' +
        '1 flows ($0.03283 at list prices) are available now; lower the output limit.',
    )
    expect(refused?.retryAfterSeconds).toBeUndefined()
    expect(refusal(() => quota.check(5n * FLOW, START))?.retryAfterSeconds).toBe(5 * 3600)
  })

  test('a plan without flows refuses all but free requests and suggests another plan', () => {
    const none = new Plans(readConfig('plans: { tiers: { free: { flows: { 7_day: 0 } } } }', 'sluice.yaml', {}))
    const quota = new Quota(none, newSubscription('a', 'free', START), [])
    expect(refusal(() => quota.check(FLOW, START))?.message).toBe(
      'This request holds 1 flows, more than the 7-day quota of the free plan, which is 0 flows: ' +
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

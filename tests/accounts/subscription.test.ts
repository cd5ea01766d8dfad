import { afterEach, describe, expect, test } from 'bun:test'
import { Quota } from '../../src/accounts/quota.ts'
import { changePlan, newSubscription, renewed } from '../../src/accounts/subscription.ts'
import { at, DAY, FLOW, HOUR, iso, plans, quotaOf, refusal, START, use } from './quota-fixture.ts'

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
    // The clock goes back; the period does not.
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
    // Another process writes the row that it read before the renewal.
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

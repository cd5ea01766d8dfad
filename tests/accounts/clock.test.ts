import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Budgets } from '../../src/accounts/budget.ts'
import { LatestInstant, SteadyClock } from '../../src/accounts/clock.ts'
import { Quota } from '../../src/accounts/quota.ts'
import { newSubscription } from '../../src/accounts/subscription.ts'
import type { QuotaWindowName } from '../../src/config/terms.ts'
import type { KeySpend, QuotaWindow } from '../../src/store/store.ts'
import { DAY, FLOW, HOUR, plans, quotaOf, refusal, START, use } from './quota-fixture.ts'

const SECOND = 1_000
/** The time for which a request may arrive. */
const ARRIVING = 300 * SECOND
const YEAR = 365 * DAY

/** A machine whose clock can be set: its time is `START + elapsed + offset`. */
class Machine {
  elapsedMs = 0
  offset = 0
  readonly elapsed = (): number => this.elapsedMs
  readonly system = (): number => START + this.elapsedMs + this.offset

  start(): SteadyClock {
    return new SteadyClock(this.system, this.elapsed)
  }
}

describe('the steady clock', () => {
  test('does not follow a clock that jumps for a moment, and follows one that keeps its new time', () => {
    const machine = new Machine()
    const { now } = machine.start()
    machine.offset = 20 * YEAR
    expect(now()).toBe(START)
    machine.elapsedMs += SECOND
    expect(now()).toBe(START + SECOND)
    machine.offset = 0
    expect(now()).toBe(START + SECOND)
    machine.offset = 2 * HOUR
    now()
    machine.elapsedMs += 59 * SECOND
    expect(now()).toBe(START + 60 * SECOND)
    machine.elapsedMs += SECOND
    expect(now()).toBe(START + 61 * SECOND + 2 * HOUR)
  })

  test('follows drift at once', () => {
    const machine = new Machine()
    const { now } = machine.start()
    for (machine.offset = 0; machine.offset < 10 * SECOND; machine.offset += 999)
      expect(now()).toBe(START + machine.offset)
  })

  test('stops behind a clock that drifted back, until that has caught up', () => {
    const machine = new Machine()
    const { now } = machine.start()
    machine.offset = -500
    expect(now()).toBe(START)
    machine.elapsedMs += 400
    expect(now()).toBe(START)
    machine.elapsedMs += SECOND
    expect(now()).toBe(START + 900)
  })

  test('goes on at its own pace behind a clock that was set back', () => {
    const machine = new Machine()
    const { now } = machine.start()
    machine.offset = -10 * YEAR
    machine.elapsedMs += HOUR
    expect(now()).toBe(START + HOUR)
    machine.offset = 0
    expect(now()).toBe(START + HOUR)
  })

  test('is right after any jumps that last less than a minute, and any backwards', () => {
    const step = fc.record({
      passMs: fc.integer({ min: 0, max: 10 * DAY }),
      backMs: fc.constantFrom(0, 0, 2 * SECOND, HOUR, 10 * YEAR),
      jumpMs: fc.integer({ min: 2 * SECOND, max: 50 * YEAR }),
      looks: fc.array(fc.integer({ min: 0, max: 19 * SECOND }), { maxLength: 3 }),
    })
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 30 }), (steps) => {
        const machine = new Machine()
        const { now } = machine.start()
        for (const { passMs, backMs, jumpMs, looks } of steps) {
          machine.elapsedMs += passMs
          machine.offset = -backMs
          expect(now()).toBe(START + machine.elapsedMs)
          machine.offset += jumpMs
          for (const ms of looks) {
            machine.elapsedMs += ms
            // A clock that was set back may be set forward to any time but those that look like drift.
            if (machine.offset === 0 || Math.abs(machine.offset) > SECOND) expect(now()).toBe(START + machine.elapsedMs)
          }
          machine.offset = -backMs
          expect(now()).toBe(START + machine.elapsedMs)
        }
      }),
    )
  })
})

test('behind the latest instant seen, time goes on at its own pace', () => {
  const machine = new Machine()
  machine.elapsedMs = DAY
  const latest = new LatestInstant(START + YEAR, machine.elapsed)
  expect(latest.at(START)).toBe(START + YEAR)
  machine.elapsedMs += HOUR
  expect(latest.at(START + HOUR)).toBe(START + YEAR + HOUR)
  expect(latest.at(START + 2 * YEAR)).toBe(START + 2 * YEAR)
})

const LENGTHS: Record<QuotaWindowName, number> = { '5_hour': 5 * HOUR, '7_day': 7 * DAY, monthly: 31 * DAY }
const NAMES = ['5_hour', '7_day', 'monthly'] as const

/** The start of a window or period, and the time that had passed when it was first seen in this process. */
type Seen = { startedAt: number; atMs: number }

test('no window and no limit lasts longer than its own length, whatever happens to the clock', () => {
  const step = fc.record({
    passMs: fc.oneof(fc.integer({ min: 0, max: 2 * HOUR }), fc.integer({ min: 0, max: 20 * DAY })),
    offset: fc.option(fc.constantFrom(0, HOUR, -HOUR, 8 * DAY, -40 * DAY, 20 * YEAR, -10 * YEAR), { freq: 4 }),
    restart: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
  })
  let locked = 0
  fc.assert(
    fc.property(fc.array(step, { minLength: 5, maxLength: 60 }), (steps) => {
      const machine = new Machine()
      let clock = machine.start()
      let subscription = newSubscription('a', 'free', START)
      let rows: QuotaWindow[] = []
      let spends: KeySpend[] = []
      let quota = new Quota(plans, subscription, rows, clock.elapsed)
      let budgets = new Budgets(spends, clock.elapsed)
      const seen = new Map<string, Seen>()
      const check = (name: string, startedAt: number, length: number): void => {
        const known = seen.get(name)
        if (known?.startedAt !== startedAt) return void seen.set(name, { startedAt, atMs: machine.elapsedMs })
        expect(machine.elapsedMs - known.atMs).toBeLessThan(length)
        if (startedAt > machine.system()) locked++
      }
      for (const { passMs, offset, restart } of steps) {
        machine.elapsedMs += passMs
        if (offset !== null) machine.offset = offset
        if (restart) {
          clock = machine.start()
          quota = new Quota(plans, subscription, rows, clock.elapsed)
          budgets = new Budgets(spends, clock.elapsed)
          for (const one of seen.values()) one.atMs = machine.elapsedMs
        }
        const now = clock.now()
        quota.renew(now)
        subscription = quota.subscription
        const hold = quota.hold(FLOW, now)
        for (const { window, startedAt } of hold.windows) check(window, startedAt, LENGTHS[window] + ARRIVING)
        rows = quota.settle(hold, FLOW)
        const spent = budgets.hold('k', { amount: FLOW, period: 'day' }, 1n, now)
        check('day', spent.since, DAY + SECOND)
        spends = [budgets.settle(spent, 1n)]
      }
    }),
    { numRuns: 300 },
  )
  expect(locked).toBeGreaterThan(100)
})

describe('a reset quota', () => {
  const full = (): Quota => {
    const quota = quotaOf('free')
    use(quota, 5n * FLOW, START)
    expect(refusal(() => quota.check(FLOW, START + HOUR))).toBeDefined()
    return quota
  }

  test('has all its windows again, from that instant on', () => {
    const quota = full()
    expect(quota.reset(START + HOUR)).toEqual(
      NAMES.map((window) => ({
        accountId: 'a',
        window,
        startedAt: START + HOUR,
        endsAt: window === 'monthly' ? quota.subscription.periodEnd : START + HOUR + LENGTHS[window],
        used: 0n,
      })),
    )
    quota.check(5n * FLOW, START + HOUR)
    expect(use(quota, 5n * FLOW, START + HOUR).map(({ startedAt }) => startedAt)).toEqual(NAMES.map(() => START + HOUR))
    expect(quota.subscription).toMatchObject({ periodStart: START, resetRequested: false })
  })

  test('counts nothing of what was in flight, also where its settlement is reverted', () => {
    const quota = quotaOf('free')
    const hold = quota.hold(5n * FLOW, START)
    quota.reset(START)
    expect(quota.settle(hold, 5n * FLOW)).toEqual([])
    quota.revert(hold, 5n * FLOW)
    quota.check(5n * FLOW, START)
  })

  test('comes back from windows and a period of a time that is not yet', () => {
    const later = newSubscription('a', 'pro', START + 20 * YEAR)
    const rows = new Quota(plans, later, []).reset(START + 20 * YEAR)
    const quota = new Quota(plans, { ...later, renews: false }, rows)
    quota.reset(START)
    expect(quota.subscription).toMatchObject({ tier: 'pro', renews: false, periodStart: START })
    expect(use(quota, FLOW, START + 6 * HOUR)[0]).toMatchObject({ startedAt: START + 6 * HOUR })
  })
})

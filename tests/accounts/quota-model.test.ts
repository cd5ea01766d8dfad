import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Plans } from '../../src/accounts/plans.ts'
import { Quota, type QuotaHold, type RollingQuota } from '../../src/accounts/quota.ts'
import { changePlan, newSubscription } from '../../src/accounts/subscription.ts'
import { readConfig } from '../../src/config/load.ts'
import type { QuotaWindowName } from '../../src/config/terms.ts'
import type { GatewayError } from '../../src/error.ts'
import type { QuotaWindow, Subscription } from '../../src/store/store.ts'
import { at, DAY, FLOW, HOUR, iso, refusal, START } from './quota-fixture.ts'

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

/** Calendar months by date text: the month counted step by step, then its last valid day. */
function monthsOn(anchor: number, months: number): number {
  const [date = '', time = ''] = iso(anchor).split('T')
  let [year, month, day] = date.split('-').map(Number) as [number, number, number]
  for (let step = 0; step < months; step++) [year, month] = month === 12 ? [year + 1, 1] : [year, month + 1]
  for (; ; day--) {
    const text = `${year}-${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}T${time}`
    if (Number.isFinite(Date.parse(text)) && iso(Date.parse(text)) === text) return Date.parse(text)
  }
}

/** A complete log, from which every sum is computed period by period. */
class Log {
  readonly entries: Entry[] = []
  seen: number
  subscription: { anchor: number; months: number; tier: string; next: string | null; renews: boolean }
  stored: Log['subscription']

  constructor(anchor: number, tier: string) {
    this.subscription = this.stored = { anchor, months: 0, tier, next: null, renews: true }
    this.seen = anchor
  }

  advance(now: number): number {
    return (this.seen = Math.max(this.seen, now))
  }

  /** The subscription in the period of the latest instant seen. */
  current(): Log['subscription'] {
    let { anchor, months, tier, next, renews } = this.subscription
    for (; monthsOn(anchor, months + 1) <= this.seen; months++)
      [tier, next, renews] = [renews ? (next ?? tier) : 'free', null, true]
    return { anchor, months, tier, next, renews }
  }

  /** The start of the window in force at the latest instant seen; undefined where none is. */
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

  /** Everything that is not in the store is lost, also the latest instant. */
  crash(): void {
    this.subscription = this.stored
    this.seen = Math.max(
      monthsOn(this.stored.anchor, this.stored.months),
      ...this.entries.flatMap(({ began }) => Object.values(began)),
    )
  }
}

/** Adds a row as the store does. */
function add(rows: QuotaWindow[], added: QuotaWindow): QuotaWindow[] {
  const row = rows.find(({ window }) => window === added.window)
  if (row !== undefined && row.startedAt > added.startedAt) return rows
  return [
    ...rows.filter((one) => one !== row),
    { ...added, used: (row?.startedAt === added.startedAt ? row.used : 0n) + added.used },
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
  const count = { admitted: 0, refused: 0, renewed: 0, reset: 0 }
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
        const change = (subscription: Subscription, expected: Log['subscription']): void => {
          quota.replaceSubscription((stored = subscription))
          log.subscription = log.stored = expected
        }
        for (const { kind, flows, which, tier, now: atOnce, after, off } of steps) {
          now =
            typeof after === 'number'
              ? now + after
              : after === 'monthly' || log.began(after) !== undefined
                ? log.ends(after) + off
                : now
          log.advance(now)
          if (kind === 'take') {
            const refused = expectRefusal(
              log,
              flows,
              refusal(() => quota.check(flows, now)),
            )
            if (!refused) open.push({ hold: quota.hold(flows, now), entry: log.take(flows) })
            count[refused ? 'refused' : 'admitted']++
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
            log.advance(now)
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
      (requests, order, times) => {
        const end = (shuffled: boolean): unknown => {
          const quota = new Quota(small, newSubscription('a', 'big', START), [])
          const holds = requests.map(([flows, used, after], index) => {
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

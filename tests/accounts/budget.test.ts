import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Budgets, type BudgetHold, type KeyLimit } from '../../src/accounts/budget.ts'
import type { LimitPeriod } from '../../src/config/terms.ts'
import { GatewayError } from '../../src/error.ts'
import type { KeySpend } from '../../src/store/store.ts'

const USD = 1_000_000_000n
const at = (text: string): number => Date.parse(text)

/** The refusal, or undefined. */
function refusal(check: () => void): string | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    const { code, status, message } = error as GatewayError
    expect({ code, status }).toEqual({ code: 'insufficient_credit', status: 402 })
    return message
  }
}

const advice = (): string => 'Ask for less.'

describe('spending limit', () => {
  const daily: KeyLimit = { amount: 10n * USD, period: 'day' }

  test('a limit counts holds and spending, and the refusal says what is left', () => {
    const budgets = new Budgets([{ keyId: 'k', since: at('2028-02-29'), spent: 4n * USD }])
    const now = at('2028-02-29T12:00:00Z')
    const hold = budgets.hold('k', daily, 5n * USD, now)
    expect(refusal(() => budgets.check('k', daily, USD, now, advice))).toBeUndefined()
    expect(refusal(() => budgets.check('k', daily, USD + 1n, now, advice))).toBe(
      "This request holds $1.000000001, and $1 is left of this key's limit of $10 per day " +
        '($5 is held by requests in flight). Ask for less. The limit resets at 2028-03-01T00:00:00.000Z.',
    )
    expect(budgets.spent('k', daily, now)).toBe(4n * USD)
    expect(budgets.settle(hold, 2n * USD)).toEqual({ keyId: 'k', since: at('2028-02-29'), spent: 2n * USD })
    expect(budgets.spent('k', daily, now)).toBe(6n * USD)
    expect(refusal(() => budgets.check('k', daily, 5n * USD, now, advice))).toBe(
      "This request holds $5, and $4 is left of this key's limit of $10 per day. Ask for less. " +
        'The limit resets at 2028-03-01T00:00:00.000Z.',
    )
    expect(refusal(() => budgets.check('other', daily, 10n * USD, now, advice))).toBeUndefined()
  })

  test('spending may exceed the limit, after which only free requests are admitted', () => {
    const budgets = new Budgets([])
    budgets.settle(budgets.hold('k', daily, USD, 0), 11n * USD)
    expect(refusal(() => budgets.check('k', daily, 0n, 0, advice))).toBeUndefined()
    expect(refusal(() => budgets.check('k', daily, 1n, 0, advice))).toContain(
      "and $0 is left of this key's limit of $10 per day",
    )
  })

  test('a hold grows within the limit of its own period, also when that is over', () => {
    let elapsed = 40 * 86_400_000
    const budgets = new Budgets([{ keyId: 'k', since: at('2028-02-29'), spent: 6n * USD }], () => elapsed)
    const before = at('2028-02-29T23:59:59Z')
    const [first, second] = [budgets.hold('k', daily, USD, before), budgets.hold('k', daily, USD, before)]
    elapsed += 2_000
    const after = before + 2_000
    const next = budgets.hold('k', daily, 9n * USD, after)
    expect([first, second, next].map((hold) => budgets.leftFor(hold, daily))).toEqual([2n * USD, 2n * USD, USD])
    budgets.grow(first, 2n * USD)
    expect([second, next].map((hold) => budgets.leftFor(hold, daily))).toEqual([0n, USD])
    expect([first, second, next].map((hold) => budgets.isOver(hold))).toEqual([true, true, false])
    expect(budgets.settle(first, USD)).toEqual({ keyId: 'k', since: at('2028-02-29'), spent: USD })
    expect(budgets.leftFor(second, daily)).toBe(2n * USD)
    budgets.revert(first, USD)
    expect(budgets.leftFor(second, daily)).toBe(0n)
    expect(budgets.spent('k', daily, after)).toBe(0n)
    expect(budgets.left('k', daily, after)).toBe(USD)
  })

  test('of a leased limit a key spends what is leased here, and what no request holds goes back', () => {
    const budgets = new Budgets([], undefined, true)
    const now = at('2028-02-29T12:00:00Z')
    const since = budgets.since('k', daily, now)
    expect([since, budgets.left('k', daily, now)]).toEqual([at('2028-02-29'), 0n])
    budgets.lease('k', { since, granted: 3n, elsewhere: 0n })
    budgets.lease('k', { since, granted: 2n, elsewhere: USD })
    budgets.lease('k', { since: at('2028-02-28'), granted: 9n, elsewhere: 0n })
    expect([budgets.left('k', daily, now), budgets.isIdle('k')]).toEqual([5n, true])
    budgets.hold('k', daily, 2n, now)
    expect([budgets.left('k', daily, now), budgets.isIdle('k')]).toEqual([3n, false])
    expect(refusal(() => budgets.check('k', daily, 4n, now, advice))).toContain(
      "$0.000000003 is left of this key's limit of $10 per day ($1.000000002 is held by requests in flight)",
    )
    expect(budgets.giveBack('k', 1n)).toEqual({ keyId: 'k', since, amount: 2n })
    expect([budgets.giveBack('k', 1n), budgets.giveBack('other', 0n)]).toEqual([undefined, undefined])
    expect(budgets.left('k', daily, now)).toBe(1n)
  })

  test('a limit without a period never resets', () => {
    const budgets = new Budgets([])
    const total: KeyLimit = { amount: USD, period: null }
    expect(budgets.settle(budgets.hold('k', total, USD, at('2026-01-01')), USD)).toEqual({
      keyId: 'k',
      since: 0,
      spent: USD,
    })
    expect(refusal(() => budgets.check('k', total, 1n, at('2099-01-01'), advice))).toBe(
      "This request holds $0.000000001, and $0 is left of this key's limit of $1. Ask for less. " +
        'The limit does not reset; it has to be raised.',
    )
  })

  for (const [period, now, since] of [
    ['day', '2026-03-29T01:59:59.999Z', '2026-03-29'],
    ['week', '2026-11-22T23:59:59.999Z', '2026-11-16'],
    ['week', '2026-11-23T00:00:00.000Z', '2026-11-23'],
    ['week', '2024-12-31T12:00:00.000Z', '2024-12-30'],
    ['month', '2028-02-29T23:59:59.999Z', '2028-02-01'],
    ['month', '2028-03-01T00:00:00.000Z', '2028-03-01'],
  ] as const) {
    test(`a limit per ${period} counts at ${now} from ${since}`, () => {
      expect(new Budgets([]).hold('k', { amount: USD, period }, 1n, at(now)).since).toBe(at(since))
    })
  }

  for (const [period, now, resets] of [
    ['day', '2028-02-29T00:00:00.000Z', '2028-03-01T00:00:00.000Z'],
    ['week', '2026-11-22T23:59:59.999Z', '2026-11-23T00:00:00.000Z'],
    ['month', '2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00.000Z'],
  ] as const) {
    test(`the refusal by a limit per ${period} at ${now} says that it resets at ${resets}`, () => {
      expect(refusal(() => new Budgets([]).check('k', { amount: USD, period }, 2n * USD, at(now), advice))).toEndWith(
        `The limit resets at ${resets}.`,
      )
    })
  }

  test('a hold ends once', () => {
    const budgets = new Budgets([])
    const hold = budgets.hold('k', daily, USD, 0)
    budgets.settle(hold, 1n)
    expect(() => budgets.settle(hold, 1n)).toThrow('This hold of a spending limit is not open.')
    expect(() => budgets.settle({ ...hold }, 1n)).toThrow('This hold of a spending limit is not open.')
    expect(budgets.spent('k', daily, 0)).toBe(1n)
    budgets.check('k', daily, 10n * USD - 1n, 0, advice)
  })

  test('a hold restored after a crash counts until it is settled', () => {
    const before = new Budgets([])
    const hold = before.hold('k', daily, 6n * USD, 0)
    const budgets = new Budgets([])
    budgets.restore(hold)
    expect(refusal(() => budgets.check('k', daily, 5n * USD, 0, advice))).toContain('$4 is left')
    budgets.settle(hold, USD)
    expect(refusal(() => budgets.check('k', daily, 9n * USD, 0, advice))).toBeUndefined()
    expect(refusal(() => budgets.check('k', daily, 9n * USD + 1n, 0, advice))).toContain('$9 is left')
  })
})

/** A complete log from which every sum is added up, with periods as calendar text. */
class Log {
  readonly entries: { keyId: string; since: string; held: bigint; spent: bigint }[] = []
  readonly #latest = new Map<string, string>()

  since(keyId: string, period: LimitPeriod | null, now: number): string {
    const day = new Date(now)
    if (period === 'week') while (day.getUTCDay() !== 1) day.setTime(day.getTime() - 86_400_000)
    const text = day.toISOString()
    const since = period === null ? '1970-01-01' : period === 'month' ? `${text.slice(0, 7)}-01` : text.slice(0, 10)
    const latest = this.#latest.get(keyId) ?? ''
    return since < latest ? latest : since
  }

  take(keyId: string, since: string, held: bigint): (typeof this.entries)[number] {
    const entry = { keyId, since, held, spent: 0n }
    this.entries.push(entry)
    this.#latest.set(keyId, since)
    return entry
  }

  sum(keyId: string, since: string, what: 'held' | 'spent'): bigint {
    return this.entries
      .filter((entry) => entry.keyId === keyId && entry.since === since)
      .reduce((sum, entry) => sum + entry[what], 0n)
  }
}

/** Adds a row as the store does. */
function add(rows: KeySpend[], { keyId, since, spent }: KeySpend): KeySpend[] {
  const row = rows.find((one) => one.keyId === keyId)
  if (row !== undefined && row.since > since) return rows
  return [
    ...rows.filter((one) => one !== row),
    { keyId, since, spent: (row?.since === since ? row.spent : 0n) + spent },
  ]
}

const step = fc.record({
  kind: fc.constantFrom('take', 'take', 'settle', 'crash'),
  key: fc.constantFrom('a', 'b'),
  amount: fc.bigInt(0n, 60n),
  which: fc.nat(),
  after: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: -3_600_000, max: 3_600_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 20 * 86_400_000 }) },
    { weight: 2, arbitrary: fc.constant('midnight' as const) },
  ),
  off: fc.integer({ min: -1, max: 1 }),
})

test('the budget agrees with a complete log after any sequence of holds, settlements, crashes and hours', () => {
  let [admitted, refused] = [0, 0]
  fc.assert(
    fc.property(
      fc.integer({ min: at('2026-01-01'), max: at('2029-01-01') }),
      fc.constantFrom<LimitPeriod | null>('day', 'week', 'month', null),
      fc.array(step, { minLength: 8, maxLength: 40 }),
      (begin, period, steps) => {
        const limit: KeyLimit = { amount: 100n, period }
        const log = new Log()
        let [budgets, rows, now] = [new Budgets([]), [] as KeySpend[], begin]
        const open: { hold: BudgetHold; entry: ReturnType<Log['take']> }[] = []
        for (const { kind, key, amount, which, after, off } of steps) {
          now = after === 'midnight' ? Math.ceil(now / 86_400_000) * 86_400_000 + off : now + after
          const since = log.since(key, period, now)
          const fits =
            amount === 0n || log.sum(key, since, 'held') + log.sum(key, since, 'spent') + amount <= limit.amount
          if (kind === 'take') {
            expect(refusal(() => budgets.check(key, limit, amount, now, advice)) === undefined).toBe(fits)
            if (fits) open.push({ hold: budgets.hold(key, limit, amount, now), entry: log.take(key, since, amount) })
            if (fits) admitted++
            else refused++
          } else if (kind === 'settle' && open.length > 0) {
            const [{ hold, entry }] = open.splice(which % open.length, 1) as [(typeof open)[number]]
            rows = add(rows, budgets.settle(hold, amount))
            entry.held = 0n
            entry.spent = amount
          } else if (kind === 'crash') {
            budgets = new Budgets(rows)
            for (const { hold } of open) budgets.restore(hold)
          }
          expect(budgets.spent(key, limit, now)).toBe(log.sum(key, log.since(key, period, now), 'spent'))
        }
      },
    ),
    { numRuns: 400 },
  )
  expect(admitted).toBeGreaterThan(500)
  expect(refused).toBeGreaterThan(100)
})

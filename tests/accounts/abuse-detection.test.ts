import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { AbuseDetection, penaltyOf } from '../../src/accounts/abuse-detection.ts'
import { readConfig } from '../../src/config/load.ts'
import type { AccountStatus } from '../../src/store/store.ts'

const MINUTE = 60_000
/** Milliseconds within which only the first request's address is read. */
const APART = 5

const published = readConfig('', 'sluice.yaml', {}).accountStatus
const strict = {
  ...published,
  refusals: { monitored: 2, abusive: 5 },
  addresses: { monitored: 2, abusive: 4 },
  concurrency: { monitored: 2, abusive: 4 },
}

/** One account whose new status is stored after each evaluation, as the server does. */
function watched(rules = strict): {
  abuseDetection: AbuseDetection
  at(minutes: number): void
  evaluate(): AccountStatus
  store(status: AccountStatus): void
} {
  let [now, status] = [0, 'healthy' as AccountStatus]
  const abuseDetection = new AbuseDetection(rules, () => (now += APART))
  return {
    abuseDetection,
    at: (minutes) => {
      now = minutes * MINUTE
    },
    store: (set) => {
      status = set
    },
    evaluate: () => {
      const accounts = [
        { id: 'idle', status: 'healthy' as const },
        { id: 'a', status },
      ]
      return (status = abuseDetection.evaluate(accounts)[0]?.status ?? status)
    },
  }
}

const times = (count: number, act: (index: number) => void): void => {
  for (let index = 0; index < count; index++) act(index)
}

describe('rules', () => {
  const breaking: Record<string, (abuseDetection: AbuseDetection, count: number) => void> = {
    refusals: (abuseDetection, count) => times(count, () => abuseDetection.recordRefusal('a')),
    addresses: (abuseDetection, count) =>
      times(count, (index) => {
        abuseDetection.begin('a', () => `10.0.0.${index}`)
        abuseDetection.end('a')
      }),
    concurrency: (abuseDetection, count) => {
      times(count, () => abuseDetection.begin('a', undefined))
      times(count, () => abuseDetection.end('a'))
    },
  }

  test.each(Object.keys(breaking) as (keyof typeof breaking & ('refusals' | 'addresses' | 'concurrency'))[])(
    '%s above a threshold change the status, and up to it do not',
    (rule) => {
      for (const [count, status] of [
        [2, 'healthy'],
        [3, 'monitored'],
        [strict[rule].abusive, 'monitored'],
        [strict[rule].abusive + 1, 'abusive'],
      ] as const) {
        const { abuseDetection, evaluate } = watched()
        breaking[rule]!(abuseDetection, count)
        expect([count, evaluate()]).toEqual([count, status])
      }
    },
  )

  test('the default rules leave a team behind one account alone', () => {
    const { abuseDetection, evaluate, at } = watched(published)
    // Two hundred people, each with one address and two requests at a time, for three hours; some run into a limit now
    // and then.
    for (let minute = 0; minute < 180; minute++) {
      at(minute)
      times(200, (person) => times(2, () => abuseDetection.begin('a', () => `10.0.0.${person}`)))
      times(10, () => abuseDetection.recordRefusal('a'))
      times(400, () => abuseDetection.end('a'))
      expect(evaluate()).toBe('healthy')
    }
  })

  test('the default penalties are those documented', () => {
    const penalties = (['healthy', 'monitored', 'abusive', 'suspended', 'banned'] as const).map((status) =>
      penaltyOf(status, published),
    )
    expect(penalties).toEqual([1, 1, 1.5, 1, 1])
    expect(penaltyOf('abusive', { ...published, penalty: { monitored: 1.25, abusive: 3 } })).toBe(3)
    expect(penaltyOf('monitored', { ...published, penalty: { monitored: 1.25, abusive: 3 } })).toBe(1.25)
  })
})

test('of simultaneous requests only the address of the first is read, for each account', () => {
  let [now, reads] = [0, 0]
  const readAddress = (): string => `10.0.0.${++reads}`
  const abuseDetection = new AbuseDetection(strict, () => now)
  times(100, () => abuseDetection.begin('a', readAddress))
  times(100, () => abuseDetection.begin('b', readAddress))
  expect(reads).toBe(2)
  now += APART
  times(100, () => abuseDetection.begin('a', readAddress))
  expect(reads).toBe(3)
})

test('of requests from many addresses, two hundred addresses a second are read', () => {
  let now = 0
  const abuseDetection = new AbuseDetection(published, () => now)
  const burst = (from: number, count: number): AccountStatus | undefined => {
    for (let index = from; index < from + count; index++) {
      now += 1
      abuseDetection.begin('a', () => `10.0.0.${index}`)
      abuseDetection.end('a')
    }
    return abuseDetection.evaluate([{ id: 'a', status: 'healthy' }])[0]?.status
  }
  expect(burst(0, 1_000)).toBeUndefined()
  expect(burst(1_000, 5)).toBe('monitored')
})

describe('account status', () => {
  test('a status is lowered step by step, each after an hour without its cause', () => {
    const { abuseDetection, evaluate, at } = watched()
    times(6, () => abuseDetection.recordRefusal('a'))
    expect(evaluate()).toBe('abusive')
    at(60)
    expect(evaluate()).toBe('abusive')
    at(61)
    times(3, () => abuseDetection.recordRefusal('a'))
    expect(evaluate()).toBe('abusive')
    at(119)
    expect(evaluate()).toBe('abusive')
    at(120)
    expect(evaluate()).toBe('monitored')
    at(121)
    expect(evaluate()).toBe('monitored')
    at(180)
    expect(evaluate()).toBe('monitored')
    at(181)
    expect(evaluate()).toBe('healthy')
    expect(evaluate()).toBe('healthy')
    expect(abuseDetection.size).toBe(0)
  })

  test('a status from before a restart is kept for an hour, with or without requests', () => {
    for (const before of ['monitored', 'abusive'] as const) {
      const { evaluate, at, store } = watched()
      store(before)
      expect(evaluate()).toBe(before)
      at(59)
      expect(evaluate()).toBe(before)
      at(60)
      expect(evaluate()).toBe('healthy')
    }
  })

  test('a status set by an administrator clears the counters but not the running requests', () => {
    const { abuseDetection, evaluate, store } = watched()
    times(9, () => abuseDetection.recordRefusal('a'))
    expect(evaluate()).toBe('abusive')
    store('healthy')
    expect(evaluate()).toBe('healthy')
    store('monitored')
    expect(evaluate()).toBe('monitored')
    store('healthy')
    times(3, () => abuseDetection.begin('a', undefined))
    expect(evaluate()).toBe('monitored')
  })

  test('a suspended or banned account is never changed', () => {
    for (const set of ['suspended', 'banned'] as const) {
      const { abuseDetection, evaluate, at, store } = watched()
      store(set)
      times(9, () => abuseDetection.recordRefusal('a'))
      for (const minute of [0, 1, 59, 61, 130]) {
        at(minute)
        expect(evaluate()).toBe(set)
      }
      store('healthy')
      expect(evaluate()).toBe('healthy')
    }
  })
})

test('idle accounts are dropped after an hour, running ones never, and addresses are bounded', () => {
  let now = 0
  const abuseDetection = new AbuseDetection(strict, () => now)
  const accounts = Array.from({ length: 500 }, (_, index) => ({ id: `${index}`, status: 'healthy' as const }))
  for (const { id } of accounts) {
    abuseDetection.begin(id, () => '10.0.0.1')
    if (id !== '7') abuseDetection.end(id)
  }
  expect(abuseDetection.size).toBe(500)
  now = 61 * MINUTE
  expect(abuseDetection.evaluate(accounts)).toEqual([])
  expect(abuseDetection.size).toBe(1)
  // Objects that the process has loaded since its last collection are no part of the difference.
  Bun.gc(true)
  const before = process.memoryUsage().heapUsed
  times(200_000, (index) => {
    now += APART
    abuseDetection.begin('8', () => `2001:db8::${index.toString(16)}`)
  })
  Bun.gc(true)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(4 * 2 ** 20)
})

describe('any sequence of requests', () => {
  type Step = {
    act: 'begin' | 'end' | 'recordRefusal' | 'wait' | 'evaluate' | 'set'
    address: number
    minutes: number
    status: AccountStatus
  }
  const step: fc.Arbitrary<Step> = fc.record({
    act: fc.oneof(
      { weight: 30, arbitrary: fc.constantFrom('begin', 'end', 'recordRefusal', 'wait', 'evaluate') },
      { weight: 1, arbitrary: fc.constant('set') },
    ),
    address: fc.nat(7),
    minutes: fc.oneof(fc.double({ min: 0, max: 3, noNaN: true }), fc.double({ min: 0, max: 80, noNaN: true })),
    status: fc.constantFrom('healthy', 'monitored', 'abusive', 'suspended', 'banned'),
  }) as fc.Arbitrary<Step>

  /** A complete log, from which the status is computed. */
  type Event = { minute: number; act: 'begin' | 'end' | 'recordRefusal'; address: number }
  class Log {
    readonly #events: Event[] = []
    #runningAtStart = 0
    #broken: { monitored: number; abusive: number } = { monitored: -Infinity, abusive: -Infinity }
    #status: AccountStatus = 'healthy'

    add(event: Event): void {
      this.#events.push(event)
    }

    #running(events: Event[]): number {
      return events.reduce((sum, { act }) => sum + (act === 'begin' ? 1 : act === 'end' ? -1 : 0), this.#runningAtStart)
    }

    get running(): number {
      return this.#running(this.#events)
    }

    #broke(minute: number, level: 'monitored' | 'abusive'): boolean {
      const first = this.#events.findIndex((event) => event.minute > minute - 61)
      const last = first < 0 ? [] : this.#events.slice(first)
      const before = first < 0 ? this.#events.length : first
      const peaks = [...last.keys(), last.length].map((count) => this.#running(this.#events.slice(0, before + count)))
      const addresses = new Set(last.filter(({ act }) => act === 'begin').map(({ address }) => address))
      return (
        last.filter(({ act }) => act === 'recordRefusal').length > strict.refusals[level] ||
        addresses.size > strict.addresses[level] ||
        Math.max(...peaks) > strict.concurrency[level]
      )
    }

    evaluate(minute: number, status: AccountStatus): AccountStatus {
      if (status !== this.#status) {
        this.#runningAtStart = this.running
        this.#events.length = 0
        this.#broken = {
          monitored: status === 'monitored' ? minute : -Infinity,
          abusive: status === 'abusive' ? minute : -Infinity,
        }
        this.#status = status
      }
      if (status === 'suspended' || status === 'banned') return status
      for (const level of ['monitored', 'abusive'] as const)
        if (this.#broke(minute, level)) this.#broken[level] = minute
      return (this.#status =
        minute - this.#broken.abusive < 60 ? 'abusive' : minute - this.#broken.monitored < 60 ? 'monitored' : 'healthy')
    }
  }

  test('the status is the one computed from a complete log', () => {
    const seen = new Set<AccountStatus>()
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
        let [now, status] = [0, 'healthy' as AccountStatus]
        const abuseDetection = new AbuseDetection(strict, () => now)
        const log = new Log()
        for (const { act, address, minutes, status: set } of steps) {
          const minute = Math.floor(now / MINUTE)
          if (act === 'wait') now += Math.round(minutes * MINUTE)
          else if (act === 'set') status = set
          else if (act === 'evaluate') {
            const expected = log.evaluate(minute, status)
            status = abuseDetection.evaluate([{ id: 'a', status }])[0]?.status ?? status
            expect(status).toBe(expected)
            seen.add(status)
          } else if (act !== 'end' || log.running > 0) {
            log.add({ minute, act, address })
            if (act === 'begin') abuseDetection.begin('a', () => String(address))
            else abuseDetection[act]('a')
            now += APART
          }
        }
      }),
      { numRuns: 1000 },
    )
    expect([...seen].sort()).toEqual(['abusive', 'banned', 'healthy', 'monitored', 'suspended'])
  })
})

import { describe, expect, test } from 'bun:test'
import { Breaker } from '../../src/providers/routing/breaker.ts'
import { Conversations } from '../../src/providers/routing/conversations.ts'
import { DecayingQuantiles, DecayingSum, PerMinute } from '../../src/providers/routing/decay.ts'
import { EndpointState } from '../../src/providers/routing/endpoint-state.ts'
import { delayMs, providerQuota, retryAfterMs } from '../../src/providers/routing/provider-limits.ts'
import { RetryBudget } from '../../src/providers/routing/retry-budget.ts'
import { seeded } from './randoms.ts'

const MINUTE = 60_000

describe('decaying statistics', () => {
  test('a sum is halved after each half-life', () => {
    const sum = new DecayingSum(MINUTE)
    sum.add(8, 0)
    expect([sum.of(0), sum.of(MINUTE), sum.of(3 * MINUTE)]).toEqual([8, 4, 1])
    sum.add(1, 3 * MINUTE)
    expect(sum.of(3 * MINUTE)).toBe(2)
  })

  test('quantiles are within an eighth of the exact ones', () => {
    const random = seeded(1)
    const measured = new DecayingQuantiles(5 * MINUTE)
    const values = Array.from({ length: 5_000 }, () => Math.exp(random() * 8))
    for (const value of values) measured.add(value, 0)
    values.sort((a, b) => a - b)
    for (const share of [0.1, 0.5, 0.95, 0.99]) {
      const exact = values[Math.floor(share * values.length)]!
      expect(Math.abs(measured.quantile(share)! - exact) / exact).toBeLessThan(0.13)
    }
    expect(Math.round(measured.count(0))).toBe(5_000)
    expect(Math.round(measured.count(5 * MINUTE))).toBe(2_500)
  })

  test('old values give way to new ones, also after days', () => {
    const measured = new DecayingQuantiles(5 * MINUTE)
    for (let at = 0; at < 100; at++) measured.add(10, at)
    for (let at = 0; at < 10; at++) measured.add(1_000, 30 * MINUTE + at)
    expect(measured.quantile(0.5)).toBeGreaterThan(800)
    measured.add(50, 30 * 24 * 60 * MINUTE)
    expect(measured.quantile(0.5)).toBeLessThan(60)
    expect(measured.count(30 * 24 * 60 * MINUTE)).toBeCloseTo(1)
  })

  test('the rate per minute falls evenly over the minute after', () => {
    const rate = new PerMinute()
    rate.add(60, 30_000)
    expect([rate.of(59_999), Math.round(rate.of(90_000)), rate.of(3 * MINUTE)]).toEqual([60, 30, 0])
  })
})

describe('breaker', () => {
  const failing = (requests: number): Breaker => {
    const breaker = new Breaker(() => 0.5)
    for (let count = 0; count < requests; count++) breaker.fail(breaker.begin(0), 0)
    return breaker
  }

  test('five faults in a row open it, four do not', () => {
    expect([failing(4).state, failing(5).state]).toEqual(['closed', 'open'])
  })

  test('half of ten requests open it, fewer requests or faults do not', () => {
    const states = [
      ['ffgff', 1],
      ['ffffg', 1],
      ['gffff', 2],
      ['ggfgf', 2],
    ].map(([pattern, times]) => {
      const breaker = new Breaker(() => 0.5)
      for (const kind of (pattern as string).repeat(times as number))
        if (kind === 'f') breaker.fail(false, 0)
        else breaker.succeed(false, 0)
      return breaker.state
    })
    expect(states).toEqual(['closed', 'closed', 'open', 'closed'])
  })

  test('faults that are older than the window do not count', () => {
    const breaker = new Breaker(() => 0.5)
    for (let second = 0; second < 200; second++)
      for (const isFault of second < 5 ? [true, false, true, false] : [false, false, false, true])
        if (isFault) breaker.fail(false, second * 1_000)
        else breaker.succeed(false, second * 1_000)
    // The first seconds had 50 %, but later ones are closed again only by probes.
    expect(breaker.state).toBe('open')
    const later = new Breaker(() => 0.5)
    for (let count = 0; count < 4; count++) later.fail(false, 0)
    for (let count = 0; count < 5; count++) later.succeed(false, 60_000)
    later.fail(false, 60_000)
    expect(later.state).toBe('closed')
  })

  test('one probe at a time is let through after the pause, and three good ones close it', () => {
    const breaker = failing(5)
    expect([breaker.opensAt(1_999), breaker.begin(1_999)]).toEqual([2_000, false])
    expect([breaker.opensAt(2_000), breaker.begin(2_000), breaker.begin(2_000)]).toEqual([0, true, false])
    expect(breaker.opensAt(2_000)).toBeGreaterThan(2_000)
    for (const state of ['half-open', 'half-open', 'closed']) {
      breaker.succeed(true, 2_100)
      expect(breaker.state).toBe(state as typeof breaker.state)
      breaker.begin(2_100)
    }
    expect(breaker.share(2_100)).toBeCloseTo(0.1)
    expect(breaker.share(12_100)).toBe(1)
    // The faults that opened it are forgotten: one among ten requests does not open it again.
    for (let count = 0; count < 9; count++) breaker.succeed(false, 2_200)
    breaker.fail(false, 2_200)
    expect(breaker.state).toBe('closed')
  })

  test('the pause grows with each failed probe, and stays below 30 s', () => {
    const breaker = failing(5)
    const pauses: number[] = []
    let now = 0
    for (let count = 0; count < 8; count++) {
      const opensAt = breaker.opensAt(now)
      pauses.push(opensAt - now)
      now = opensAt
      breaker.fail(breaker.begin(now), now)
    }
    expect(pauses).toEqual([2_000, 4_000, 8_000, 16_000, 20_000, 20_000, 20_000, 20_000])
  })

  test('a probe that ends without a verdict makes room for another one', () => {
    const breaker = failing(5)
    breaker.abandon(breaker.begin(2_000))
    expect(breaker.begin(2_000)).toBe(true)
  })
})

describe('headers of providers', () => {
  const now = Date.parse('2026-11-22T12:00:00Z')

  test.each([
    ['7', 7_000],
    ['0.5', 500],
    ['6m0s', 360_000],
    ['1h2m3.5s', 3_723_500],
    ['120ms', 120],
    ['1s', 1_000],
    ['Sun, 22 Nov 2026 12:00:30 GMT', 30_000],
    ['2026-11-22T12:01:00Z', 60_000],
    ['1795348860', 60_000],
    ['Sun, 22 Nov 2026 11:00:00 GMT', 0],
    ['soon', undefined],
    ['', undefined],
  ])('the delay of %p is %p ms', (text, expected) => {
    expect(delayMs(text, now)).toBe(expected)
  })

  test('retry-after-ms is more exact than retry-after', () => {
    const headers = new Headers({ 'retry-after-ms': '1250', 'retry-after': '2' })
    expect([retryAfterMs(headers, now), retryAfterMs(new Headers(), now)]).toEqual([1_250, undefined])
  })

  test('the least of several limits counts', () => {
    expect(
      providerQuota(
        new Headers({
          'x-ratelimit-limit-requests': '100',
          'x-ratelimit-remaining-requests': '50',
          'x-ratelimit-limit-tokens': '1000',
          'x-ratelimit-remaining-tokens': '0',
          'x-ratelimit-reset-tokens': '6m0s',
        }),
        now,
      ),
    ).toEqual({ left: 0, resetMs: 360_000 })
    expect(
      providerQuota(
        new Headers({
          'anthropic-ratelimit-requests-limit': '50',
          'anthropic-ratelimit-requests-remaining': '10',
          'anthropic-ratelimit-requests-reset': '2026-11-22T12:00:10Z',
        }),
        now,
      ),
    ).toEqual({ left: 0.2, resetMs: 10_000 })
    expect(providerQuota(new Headers(), now)).toBeUndefined()
  })
})

describe('state of an endpoint', () => {
  const begun = (state: EndpointState, verdict: Parameters<EndpointState['end']>[0], now: number, after?: number) =>
    state.end(verdict, { isProbe: state.begin(0, undefined, now), hasBegun: false }, now, after)

  test('a 429 cools it down for its Retry-After, at most ten minutes', () => {
    const state = new EndpointState('a', () => 0.5)
    begun(state, 'limited', 0, 12_000)
    expect([state.unavailable(undefined, 0, 10), state.unavailable(undefined, 12_000, 10)]).toEqual([
      { reason: 'cooling', until: 12_000 },
      undefined,
    ])
    begun(state, 'limited', 20_000, 86_400_000)
    expect(state.unavailable(undefined, 20_000, 10)).toEqual({ reason: 'cooling', until: 620_000 })
  })

  test('cool-downs without a time grow until a request succeeds', () => {
    const state = new EndpointState('a', () => 0.5)
    const cooled = (now: number): number => {
      begun(state, 'limited', now)
      return state.unavailable(undefined, now, 10)!.until - now
    }
    expect([cooled(0), cooled(10_000), cooled(20_000)]).toEqual([1_000, 2_000, 4_000])
    begun(state, 'success', 30_000)
    expect(cooled(40_000)).toBe(1_000)
  })

  test('nothing is known of one that has to be probed, which is chosen as if all succeeded', () => {
    const state = new EndpointState('a', () => 0.5)
    const rates = (now: number) => [state.knownSuccessRate(now), state.successRate(now)]
    expect(rates(0)).toEqual([undefined, 1])
    begun(state, 'success', 0)
    begun(state, 'fault', 0)
    expect(rates(0)).toEqual([2 / 3, 2 / 3])
    expect(rates(60_000)).toEqual([undefined, 1])
    for (let count = 0; count < 5; count++) begun(state, 'fault', 60_000)
    expect([state.breaker.state, ...rates(60_000)]).toEqual(['open', undefined, 1])
  })

  test('429s and errors of requests do not open the breaker, faults do', () => {
    const state = new EndpointState('a', () => 0.5)
    for (let count = 0; count < 50; count++) begun(state, count % 2 === 0 ? 'limited' : 'none', 0, 0)
    expect(state.breaker.state).toBe('closed')
    for (let count = 0; count < 5; count++) begun(state, 'fault', 0)
    expect([state.breaker.state, state.inFlight]).toEqual(['open', 0])
  })

  test('probes are judged when their responses begin, and faults in the middle of streams open the breaker', () => {
    const state = new EndpointState('a', () => 0.5)
    for (let count = 0; count < 10; count++) {
      const request = { isProbe: state.begin(0, undefined, 0), hasBegun: true }
      state.respond(request.isProbe, 0)
      state.end('fault', request, 0)
    }
    expect(state.breaker.state).toBe('open')
    for (let count = 0; count < 3; count++) state.respond(state.begin(0, undefined, 2_000), 2_000)
    expect([state.breaker.state, state.inFlight]).toEqual(['closed', 3])
  })

  test('its own limits keep requests from it', () => {
    const state = new EndpointState('a', () => 0.5)
    const limits = { requestsPerMinute: 2, concurrency: 1, tokensPerMinute: 1_000 }
    const request = { isProbe: state.begin(10, limits, 0), hasBegun: false }
    expect(state.unavailable(limits, 0, 10)?.reason).toBe('busy')
    state.end('success', request, 0)
    expect(state.unavailable(limits, 0, 10)).toBeUndefined()
    state.begin(10, limits, 0)
    state.end('success', request, 0)
    expect(state.unavailable(limits, 0, 10)?.reason).toBe('limit')
    expect(state.unavailable(limits, 3 * MINUTE, 10)).toBeUndefined()
    state.count(5_000, limits, 3 * MINUTE)
    expect(state.unavailable(limits, 3 * MINUTE, 10)?.reason).toBe('limit')
  })

  test('a request gets no more tokens than are left in the minute, and one beyond the limit a whole one', () => {
    const state = new EndpointState('a', () => 0.5)
    const limits = { tokensPerMinute: 1_000 }
    expect(state.unavailable(limits, 0, 5_000)).toBeUndefined()
    state.begin(400, limits, 0)
    state.count(100, limits, 0)
    expect(state.unavailable(limits, 0, 500)).toBeUndefined()
    expect(state.unavailable(limits, 0, 501)?.reason).toBe('limit')
    expect(state.unavailable(limits, 0, 5_000)?.reason).toBe('limit')
  })

  test('an exhausted quota of the provider keeps requests from it until it is full again', () => {
    const state = new EndpointState('a', () => 0.5)
    state.setQuota({ left: 0, resetMs: 5_000 }, 0)
    expect([state.unavailable(undefined, 0, 10)?.reason, state.unavailable(undefined, 5_000, 10)]).toEqual([
      'quota',
      undefined,
    ])
  })

  test('cool-downs and breakers are continued after a restart', () => {
    const state = new EndpointState('a', () => 0.5)
    begun(state, 'limited', 0, 60_000)
    for (let count = 0; count < 5; count++) begun(state, 'fault', 0)
    const saved = JSON.parse(JSON.stringify(state.saved(500))) as ReturnType<EndpointState['saved']>
    const next = new EndpointState('a', () => 0.5)
    next.restore(saved, 1_000, 7)
    expect(next.breaker.state).toBe('open')
    expect(next.unavailable(undefined, 7, 10)).toEqual({ reason: 'cooling', until: 58_507 })
    expect(next.unavailable(undefined, 58_507, 10)).toBeUndefined()
  })
})

describe('retry budget', () => {
  test('a fifth of the requests of ten seconds, and ten per second', () => {
    const budget = new RetryBudget({ share: 0.2, perSecond: 10 })
    const takeAll = (now: number): number => {
      let taken = 0
      while (budget.take(now)) taken++
      return taken
    }
    expect(takeAll(0)).toBe(100)
    for (let count = 0; count < 1_000; count++) budget.request(5_000)
    expect(takeAll(5_000)).toBe(200)
    expect(takeAll(9_999)).toBe(0)
    expect(takeAll(10_000)).toBe(100)
    expect(takeAll(60_000)).toBe(100)
  })
})

describe('conversations', () => {
  test('the endpoint of a conversation is known while the prompt is cached, and only the last ones are kept', () => {
    const conversations = new Conversations()
    conversations.remember('one', 'a', 5_000, 0)
    expect(conversations.cachedPrompt('one', 299_999)).toMatchObject({ id: 'a', tokens: 5_000 })
    expect(conversations.cachedPrompt('one', 300_000)).toBeUndefined()
    for (let count = 0; count < 20_000; count++) conversations.remember(`c${count}`, 'a', 1, 0)
    expect([conversations.size, conversations.cachedPrompt('one', 0)]).toEqual([10_000, undefined])
    expect(conversations.cachedPrompt('c19999', 0)).toBeDefined()
  })
})

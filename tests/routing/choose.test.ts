import { describe, expect, test } from 'bun:test'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { Router, type RoutedRequest } from '../../src/providers/routing/router.ts'
import { endpointNamed } from './endpoints.ts'
import { seeded } from './randoms.ts'

const PRICES: Record<string, number> = { cheap: 1e-6, dear: 3e-6, near: 1.05e-6, middle: 1.3e-6 }

class Fixture {
  now = 1_000_000
  readonly router: Router

  constructor(random = seeded(1)) {
    this.router = new Router({
      settings: { strategy: 'order', retryBudget: { share: 0.2, perSecond: 10 } },
      now: () => this.now,
      wall: () => this.now,
      random,
      priceOf: ({ provider: { id } }) => {
        const input = PRICES[id]
        return input === undefined ? undefined : { input, cachedInput: input / 10, output: 4 * input }
      },
    })
  }

  names(endpoints: Endpoint[], request: Partial<RoutedRequest> = {}): string[] {
    return this.chosen(endpoints, request).candidates.map(({ endpoint }) => endpoint.name)
  }

  chosen(endpoints: Endpoint[], request: Partial<RoutedRequest> = {}) {
    const all = { preferences: {}, promptTokens: 10_000, outputTokens: 500, conversation: undefined, ...request }
    return this.router.route(endpoints, all)
  }

  end(endpoint: Endpoint, verdict: 'success' | 'fault' | 'limited', times = 1): void {
    for (let count = 0; count < times; count++) this.router.begin(endpoint, 0).end(verdict)
  }
}

const [a, b, c] = [endpointNamed('a'), endpointNamed('b'), endpointNamed('c')]

/** The counts of the first choices of many requests. */
function firsts(fixture: Fixture, endpoints: Endpoint[], request: Partial<RoutedRequest>, times: number): number[] {
  const counts = new Map(endpoints.map(({ name }) => [name, 0]))
  for (let count = 0; count < times; count++) {
    const [first] = fixture.names(endpoints, request)
    counts.set(first!, counts.get(first!)! + 1)
  }
  return [...counts.values()]
}

describe('strategies', () => {
  test('order is that of the file, within priorities, and the order of the client precedes both', () => {
    const fixture = new Fixture()
    const late = endpointNamed('late', { priority: -1 })
    expect(fixture.names([a, b, late])).toEqual(['late', 'a', 'b'])
    expect(fixture.names([a, b, late], { preferences: { order: ['b', 'a'] } })).toEqual(['b', 'a', 'late'])
    expect(fixture.names([a, b, c], { preferences: { order: ['c'], allowFallbacks: false } })).toEqual(['c'])
    expect(fixture.names([a, b, c], { preferences: { allowFallbacks: false } })).toEqual(['a'])
  })

  test('without fallbacks, the endpoint that is preferred is the only one', () => {
    const fixture = new Fixture()
    const preferences = { allowFallbacks: false }
    const [dear, cheap] = [endpointNamed('dear'), endpointNamed('cheap')]
    expect(fixture.names([a, endpointNamed('late', { priority: -1 })], { preferences })).toEqual(['late'])
    expect(fixture.names([dear, cheap], { preferences: { ...preferences, strategy: 'price' } })).toEqual(['cheap'])
    const other = endpointNamed('other', { fallback: 'other-model' })
    expect(fixture.names([other], { preferences })).toEqual(['other'])
    fixture.end(a, 'fault', 5)
    expect(fixture.names([a, b, other], { preferences })).toEqual(['b'])
    fixture.end(b, 'fault', 5)
    expect(['a', 'b']).toContain(fixture.names([a, b, other], { preferences }).join())
  })

  test('keys of one endpoint are drawn by weight under every strategy', () => {
    const fixture = new Fixture()
    const [one, two] = [1, 3].map((weight) =>
      endpointNamed('a', { weight, credential: `k${weight}`, target: a.target }),
    )
    const [first, second, third] = firsts(fixture, [one!, two!, b], {}, 4_000)
    expect(Math.abs(first! - 1_000)).toBeLessThan(120)
    expect([first! + second!, third]).toEqual([4_000, 0])
  })

  test('endpoints are drawn in proportion to their weights, by a chi-square test', () => {
    const weights = [1, 2, 3, 4]
    const endpoints = weights.map((weight) => endpointNamed(`w${weight}`, { weight }))
    const counts = firsts(new Fixture(seeded(7)), endpoints, { preferences: { strategy: 'weights' } }, 10_000)
    const square = counts.reduce(
      (sum, count, at) => sum + (count - weights[at]! * 1_000) ** 2 / (weights[at]! * 1_000),
      0,
    )
    // The 99.9 % quantile with three degrees of freedom.
    expect(square).toBeLessThan(16.27)
  })

  test('an endpoint of weight 0 is only tried after all others', () => {
    const never = endpointNamed('never', { weight: 0 })
    expect(firsts(new Fixture(), [never, a, b], { preferences: { strategy: 'weights' } }, 500)[0]).toBe(0)
  })

  test('price prefers the cheapest, and draws among near-equals', () => {
    const fixture = new Fixture()
    const endpoints = ['dear', 'cheap', 'near'].map((id) => endpointNamed(id))
    const [dear, cheap, near] = firsts(fixture, endpoints, { preferences: { strategy: 'price' } }, 1_000)
    expect(dear).toBe(0)
    expect(Math.min(cheap!, near!)).toBeGreaterThan(400)
  })

  test('latency and throughput prefer what was measured to be fast', () => {
    const fixture = new Fixture()
    for (const [endpoint, ms] of [
      [a, 900],
      [b, 200],
      [c, 500],
    ] as const)
      for (let count = 0; count < 10; count++) {
        const sending = fixture.router.begin(endpoint, 0)
        sending.measure(ms, 1_000, 10_000 - 10 * ms)
        sending.end('success')
      }
    expect(fixture.names([a, b, c], { strategy: 'latency' })).toEqual(['b', 'c', 'a'])
    expect(fixture.names([a, b, c], { strategy: 'throughput' })).toEqual(['a', 'c', 'b'])
  })

  test('least-busy prefers the endpoint with the fewest requests under way for its weight', () => {
    const fixture = new Fixture()
    const wide = endpointNamed('wide', { weight: 10 })
    for (let count = 0; count < 4; count++) fixture.router.begin(wide, 0)
    fixture.router.begin(a, 0)
    expect(fixture.names([a, b, wide], { strategy: 'least-busy' })).toEqual(['wide', 'b', 'a'])
  })

  test('endpoints of fallback models come after all of the requested one', () => {
    const other = endpointNamed('other', { fallback: 'other-model', priority: -5 })
    expect(new Fixture().names([a, b, other])).toEqual(['a', 'b', 'other'])
  })
})

describe('health', () => {
  test('an open breaker and a cool-down take endpoints out, with the reason', () => {
    const fixture = new Fixture()
    fixture.end(a, 'fault', 5)
    fixture.end(b, 'limited')
    const { candidates, dropped } = fixture.chosen([a, b, c])
    expect(candidates.map(({ endpoint }) => endpoint.name)).toEqual(['c'])
    expect(dropped.map(({ endpoint, unavailable }) => [endpoint.name, unavailable.reason])).toEqual([
      ['a', 'breaker'],
      ['b', 'cooling'],
    ])
  })

  test('where none is left, the one that recovers first is the only candidate', () => {
    const fixture = new Fixture()
    fixture.end(a, 'fault', 5)
    fixture.end(b, 'limited')
    expect(fixture.chosen([a, b])).toMatchObject({
      candidates: [{ endpoint: b, reason: 'recovers first (cooling)' }],
      panicUntil: fixture.now + 1_000,
    })
  })

  test.each(['price', 'latency', 'throughput'] as const)(
    'an endpoint that failed is probed and preferred again as before: %s',
    (strategy) => {
      const fixture = new Fixture()
      const [cheap, middle] = [endpointNamed('cheap'), endpointNamed('middle')]
      for (const [endpoint, ms] of [
        [cheap, 100],
        [middle, 130],
      ] as const)
        for (let count = 0; count < 10; count++) {
          const sending = fixture.router.begin(endpoint, 0)
          sending.measure(ms, 1_000, ms)
          sending.end('success')
        }
      fixture.end(cheap, 'fault', 5)
      expect(fixture.names([cheap, middle], { strategy })).toEqual(['middle'])
      for (let probe = 0; probe < 3; probe++) {
        fixture.now += 3_000
        expect(fixture.names([cheap, middle], { strategy })).toEqual(['cheap', 'middle'])
        fixture.end(cheap, 'success')
      }
      fixture.now += 10_000
      expect(fixture.names([cheap, middle], { strategy })).toEqual(['cheap', 'middle'])
    },
  )

  test('an endpoint whose failures are old is tried by one request at a time', () => {
    const fixture = new Fixture()
    const [cheap, middle] = [endpointNamed('cheap'), endpointNamed('middle')]
    const first = (): string => fixture.names([cheap, middle], { strategy: 'price' })[0]!
    fixture.end(cheap, 'fault', 3)
    fixture.now += 10_000
    expect(first()).toBe('middle')
    fixture.now += 6_000
    expect(first()).toBe('cheap')
    const sending = fixture.router.begin(cheap, 0)
    expect(first()).toBe('middle')
    sending.end('success')
    expect(first()).toBe('cheap')
  })

  test('an endpoint whose slowness is old is measured again by one request at a time', () => {
    const fixture = new Fixture()
    for (const [endpoint, ms] of [
      [a, 900],
      [b, 300],
    ] as const) {
      const sending = fixture.router.begin(endpoint, 0)
      sending.measure(ms, 0, 0)
      sending.end('success')
    }
    const counts = (): number => firsts(fixture, [a, b], { strategy: 'latency' }, 100)[0]!
    fixture.now += 50_000
    fixture.end(b, 'success')
    expect(counts()).toBe(0)
    fixture.now += 20_000
    expect(counts()).toBeGreaterThan(20)
    fixture.router.begin(a, 0)
    expect(counts()).toBe(0)
  })

  test('an endpoint that recovered gets its requests back little by little', () => {
    const fixture = new Fixture(seeded(3))
    fixture.end(a, 'fault', 5)
    fixture.now += 3_000
    fixture.end(a, 'success', 3)
    const [early] = firsts(fixture, [a, b], {}, 1_000)
    fixture.now += 5_000
    const [later] = firsts(fixture, [a, b], {}, 1_000)
    fixture.now += 5_000
    expect(early).toBeGreaterThan(50)
    expect(early).toBeLessThan(160)
    expect(later).toBeGreaterThan(450)
    expect(later).toBeLessThan(650)
    expect(fixture.names([a, b])).toEqual(['a', 'b'])
  })
})

describe('conversations', () => {
  const at = (fixture: Fixture, endpoint: Endpoint): void => fixture.router.remember('c', endpoint, 10_000)
  const conversation = 'c'

  test('a conversation stays where its prompt is cached, until that has expired', () => {
    const fixture = new Fixture()
    at(fixture, b)
    expect(fixture.names([a, b, c], { conversation })).toEqual(['b', 'a', 'c'])
    expect(fixture.names([a, b, c], { conversation: 'another' })).toEqual(['a', 'b', 'c'])
    fixture.now += 300_000
    expect(fixture.names([a, b, c], { conversation })).toEqual(['a', 'b', 'c'])
  })

  test('it leaves where another endpoint is cheaper even without the cache, and the lost tokens are known', () => {
    const fixture = new Fixture()
    const [cheap, dear] = [endpointNamed('cheap'), endpointNamed('dear')]
    at(fixture, dear)
    // 10,000 cached tokens at a tenth of three times the price: staying is cheaper.
    const request = { conversation, strategy: 'price' as const, outputTokens: 0 }
    expect(fixture.chosen([cheap, dear], request)).toMatchObject({
      candidates: [{ endpoint: dear, reason: 'cache' }, { endpoint: cheap }],
      missedCacheTokens: 0,
    })
    expect(fixture.chosen([dear], request).candidates).toMatchObject([{ reason: 'cache' }])
    // With a long answer the cheaper rates count for more.
    expect(fixture.chosen([cheap, dear], { ...request, outputTokens: 5_000 })).toMatchObject({
      candidates: [{ endpoint: cheap }, { endpoint: dear }],
      missedCacheTokens: 10_000,
    })
  })

  test('it leaves where the client names another endpoint, and stays among keys of one position in its order', () => {
    const fixture = new Fixture()
    at(fixture, b)
    expect(fixture.chosen([a, b, c], { conversation, preferences: { order: ['c', 'b'] } })).toMatchObject({
      candidates: [{ endpoint: c }, { endpoint: b }, { endpoint: a }],
      missedCacheTokens: 10_000,
    })
    const [one, two] = ['k1', 'k2'].map((credential) => endpointNamed('c', { credential, target: c.target }))
    at(fixture, two!)
    expect(fixture.names([a, one!, two!], { conversation, preferences: { order: ['c'] } })).toEqual([
      'c/k2',
      'c/k1',
      'a',
    ])
  })

  test('it leaves an endpoint that is not available', () => {
    const fixture = new Fixture()
    at(fixture, b)
    fixture.end(b, 'fault', 5)
    expect(fixture.chosen([a, b], { conversation })).toMatchObject({
      candidates: [{ endpoint: a }],
      missedCacheTokens: 10_000,
    })
  })

  test('it does not stay at a fallback model', () => {
    const fixture = new Fixture()
    const other = endpointNamed('other', { fallback: 'other-model' })
    at(fixture, other)
    expect(fixture.names([a, other], { conversation })).toEqual(['a', 'other'])
  })
})

describe('memory', () => {
  test('open breakers are remembered across a restart, for as long as they last', () => {
    const fixture = new Fixture()
    fixture.end(a, 'fault', 5)
    fixture.end(b, 'limited')
    const saved = fixture.router.save()!
    const next = new Fixture()
    next.now = fixture.now + 500
    next.router.restore(saved)
    expect(next.chosen([a, b, c]).dropped.map(({ endpoint }) => endpoint.name)).toEqual(['a', 'b'])
    next.now += 60_000
    expect(next.chosen([a, b, c]).dropped).toEqual([])
    expect(new Fixture().router.save()).toBeUndefined()
    new Fixture().router.restore('{')
  })

  test('names that clients choose do not fill it', () => {
    const fixture = new Fixture()
    const open = endpointNamed('open')
    fixture.end(open, 'fault', 5)
    for (let count = 0; count < 20_000; count++) fixture.end(endpointNamed(`x${count}`), 'success')
    expect(fixture.router.size).toBe(5_000)
    expect(fixture.names([endpointNamed('open'), b])).toEqual(['b'])
  })
})

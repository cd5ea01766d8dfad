import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Limits } from '../../src/accounts/limits.ts'
import { GatewayError } from '../../src/error.ts'

/** Seconds to wait, or 0 when admitted. */
function waitFor(limits: Limits, key: string, route: string, limit: number | undefined): number {
  try {
    limits.checkRateLimit(key, route, limit)
    return 0
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    const { code, status, shouldRetry, retryAfterSeconds } = error as GatewayError
    expect({ code, status, shouldRetry }).toEqual({ code: 'rate_limit_exceeded', status: 422, shouldRetry: true })
    expect(retryAfterSeconds).toBeGreaterThan(0)
    return retryAfterSeconds ?? 0
  }
}

describe('rate limits', () => {
  test('each pair of key and route is counted separately', () => {
    const limits = new Limits(() => 0)
    for (const [key, route] of [
      ['a', 'x'],
      ['a', 'y'],
      ['b', 'x'],
    ] as const)
      expect(waitFor(limits, key, route, 1)).toBe(0)
    for (const [key, route] of [
      ['a', 'x'],
      ['a', 'y'],
      ['b', 'x'],
    ] as const)
      expect(waitFor(limits, key, route, 1)).toBe(60)
  })

  test('refusals do not count, and give the exact wait', () => {
    let now = 0
    const limits = new Limits(() => now)
    expect(waitFor(limits, 'a', 'x', 2)).toBe(0)
    now = 20_000
    expect(waitFor(limits, 'a', 'x', 2)).toBe(0)
    for (let second = 20; second < 60; second++) {
      now = second * 1000
      expect(waitFor(limits, 'a', 'x', 2)).toBe(60 - second)
    }
    now = 60_000
    expect(waitFor(limits, 'a', 'x', 2)).toBe(0)
    expect(waitFor(limits, 'a', 'x', 2)).toBe(20)
  })

  test('a key without a limit is never refused', () => {
    const limits = new Limits(() => 0)
    for (let number = 0; number < 1000; number++) expect(waitFor(limits, 'a', 'x', undefined)).toBe(0)
    expect(limits.size).toBe(0)
  })

  test('idle keys are dropped, and only those', () => {
    let now = 0
    const limits = new Limits(() => now)
    for (let number = 0; number < 5000; number++) waitFor(limits, `idle ${number}`, 'x', 1)
    for (let minute = 0; minute < 4; minute++) {
      now = minute * 60_000 + 30_000
      waitFor(limits, 'busy', 'x', 1)
    }
    expect(limits.size).toBe(1)
    expect(waitFor(limits, 'busy', 'x', 1)).toBe(60)
  })

  test('rate limits agree with a complete list of admitted requests', () => {
    const step = fc.record({
      waitMs: fc.oneof(
        fc.integer({ min: 0, max: 50 }),
        fc.integer({ min: 0, max: 5000 }),
        fc.constantFrom(0, 59_999, 60_000, 60_001, 120_000, 200_000),
      ),
      key: fc.constantFrom('a', 'b'),
      route: fc.constantFrom('x', 'y'),
      limit: fc.integer({ min: 1, max: 12 }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
        let now = 0
        const limits = new Limits(() => now)
        const admitted: { at: number; key: string; route: string }[] = []
        for (const { waitMs, key, route, limit } of steps) {
          now += waitMs
          const within = (at: number): number =>
            admitted.filter((one) => one.key === key && one.route === route && one.at > at - 60_000).length
          const waited = waitFor(limits, key, route, limit)
          expect(waited === 0).toBe(within(now) < limit)
          if (waited === 0) admitted.push({ at: now, key, route })
          else {
            // A request is admitted after exactly the given wait, and not a second earlier.
            expect(within(now + waited * 1000)).toBeLessThan(limit)
            expect(within(now + waited * 1000 - 1000)).toBeGreaterThanOrEqual(limit)
          }
        }
      }),
      { numRuns: 200 },
    )
  })
})

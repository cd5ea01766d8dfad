import { describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Breaches, inverseSquarePrice, leastLatency, ours, roundRobin } from './policies.ts'
import { simulate, type Totals } from './simulation.ts'

const NONE: Breaches = { openBreaker: 0, dearMoves: 0, moves: 0, probes: 0 }
const breaches = { price: { ...NONE }, latency: { ...NONE } }

const results: Record<string, Totals> = {
  '`strategy: price`': simulate(ours('price', breaches.price)),
  '`strategy: latency`': simulate(ours('latency', breaches.latency)),
  'round robin': simulate(roundRobin),
  'inverse square of the price': simulate(inverseSquarePrice),
  'least latency': simulate(leastLatency),
}
const [byPrice, byLatency, ...others] = Object.values(results) as [Totals, Totals, ...Totals[]]

const at = ({ firstTokenMs }: Totals, share: number): number =>
  firstTokenMs[Math.min(firstTokenMs.length - 1, Math.floor(firstTokenMs.length * share))]!

describe.each([
  ['price', byPrice, breaches.price],
  ['latency', byLatency, breaches.latency],
] as const)('an hour of faults, chosen by %s', (_, totals, broken) => {
  test('no request fails, since one endpoint is well all the time', () => {
    expect(totals.failed).toBe(0)
    expect(totals.requests).toBeGreaterThan(15_000)
  })

  test('there are at most 1.2 attempts for each request', () => {
    expect(totals.attempts).toBeLessThanOrEqual(1.2 * totals.requests + 10)
  })

  test('an open breaker lets nothing through but probes', () => {
    expect([broken.openBreaker, broken.probes > 0]).toEqual([0, true])
  })

  test('a conversation leaves its endpoint where that is not available, or where leaving is cheaper', () => {
    expect([broken.dearMoves, broken.moves > 10]).toEqual([0, true])
  })

  test('the same seed gives the same hour', () => {
    const [first, second] = [1, 2].map(() => simulate(ours('price', { ...NONE }), 5))
    expect(first!).toEqual(second!)
  })
})

test('the slowest requests are faster, and all together cheaper, than with simpler ways to choose', () => {
  const [inTurn, squared, fastest] = others as [Totals, Totals, Totals]
  for (const other of others) expect(byPrice.usd).toBeLessThan(other.usd)
  for (const other of [inTurn, squared]) {
    expect(at(byLatency, 0.99)).toBeLessThan(at(other, 0.99))
    expect(at(byPrice, 0.99)).toBeLessThan(at(other, 0.99))
  }
  // It measures again what was slow, which costs a little, and needs fewer attempts.
  expect(at(byLatency, 0.99)).toBeLessThan(1.3 * at(fastest, 0.99))
  expect(byLatency.attempts).toBeLessThan(0.9 * fastest.attempts)
})

const DOC = join(import.meta.dir, '../../docs/routing.md')
const [BEGIN, END] = ['<!-- simulation -->', '<!-- end of simulation -->']

function table(): string {
  const rows = Object.entries(results).map(([name, totals]) => {
    const { requests, attempts, failed, usd } = totals
    const seconds = (share: number): string => (at(totals, share) / 1_000).toFixed(2)
    const perRequest = (attempts / requests).toFixed(3)
    return `| ${[name, seconds(0.5), seconds(0.99), usd.toFixed(0), failed, perRequest].join(' | ')} |`
  })
  const heads = '| Choice | p50 to first token, s | p99, s | USD | Failed requests | Attempts per request |'
  return [heads, '|---|---|---|---|---|---|', ...rows].join('\n')
}

test('the table in docs/routing.md is that of this simulation', () => {
  const text = readFileSync(DOC, 'utf8')
  const [before, rest] = text.split(BEGIN)
  const [, after] = rest!.split(END)
  const updated = `${before}${BEGIN}\n\n${table()}\n\n${END}${after}`
  if (process.env.UPDATE === '1') writeFileSync(DOC, updated)
  else expect(text).toBe(updated)
})

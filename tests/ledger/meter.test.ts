import { describe, expect, test } from 'bun:test'
import { Meter } from '../../src/ledger/meter.ts'
import type { Outcome } from '../../src/ledger/outcomes.ts'

const start = { type: 'start', id: 'x', model: 'large' } as const

/** The times of a generation that ended in the instant in which it began, if it did. */
function timesOf(outcome: Outcome, hasBegun: boolean): Meter['times'] {
  const meter = new Meter(() => Promise.resolve(0), 100)
  if (hasBegun) meter.record([start])
  meter.close(outcome)
  return meter.times
}

describe('the times of a generation', () => {
  test('a response that broke off at once lasted longer than one that never began', () => {
    for (const outcome of ['failed', 'timed-out', 'client-left'] as const) {
      expect(timesOf(outcome, true).duration).toBeGreaterThanOrEqual(1)
      expect(timesOf(outcome, false).duration).toBe(0)
    }
  })

  test('a response that was complete at once has a first token', () => {
    const { latency, duration } = timesOf('completed', true)
    expect(latency).toBeGreaterThanOrEqual(100)
    expect(duration).toBeGreaterThanOrEqual(0)
  })
})

test('a client that leaves pays for what was generated only if its request was sent', () => {
  const chargeOf = (sent: boolean): unknown => {
    const meter = new Meter(() => Promise.resolve(0), 100)
    meter.attempts.push({ provider: 'p', milliseconds: 1, ...(sent ? { sent } : {}) })
    meter.close('client-left')
    return meter.charge
  }
  expect([chargeOf(false), chargeOf(true)]).toEqual(['nothing', 'generated'])
})

test('a prompt of zero tokens is counted, since no prompt has none', async () => {
  const meter = new Meter(() => Promise.resolve(7), 100)
  meter.record([
    start,
    { type: 'usage', usage: { inputTokens: 0, outputTokens: 3 } },
    { type: 'finish', reason: 'stop', raw: 'stop' },
  ])
  expect(await meter.count()).toMatchObject({ inputTokens: 7, outputTokens: 3 })
})

test('reasoning that nobody saw is charged beside that which was reported before', async () => {
  const meter = new Meter(() => Promise.resolve(7), 100)
  meter.attempts.push({ provider: 'p', milliseconds: 1, sent: true })
  meter.record([start, { type: 'usage', usage: { inputTokens: 7, reasoningTokens: 3 }, interim: true }])
  meter.close('client-left')
  const counted = await meter.count({ tokens: 5, kind: 'reasoningTokens', limit: 100 })
  expect(counted).toMatchObject({ inputTokens: 7, reasoningTokens: 8 })
})

import { describe, expect, test } from 'bun:test'
import type { GenerationEvent } from '../../src/generation/event.ts'
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

const text = (text: string): GenerationEvent[] => [
  { type: 'part-start', part: 0, head: { type: 'text' } },
  { type: 'part-delta', part: 0, text },
]

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

test('reasoning without visible text is charged in addition to that which was reported before', async () => {
  const meter = new Meter(() => Promise.resolve(7), 100)
  meter.attempts.push({ provider: 'p', milliseconds: 1, sent: true })
  meter.record([start, { type: 'usage', usage: { inputTokens: 7, reasoningTokens: 3 }, interim: true }])
  meter.close('client-left')
  const unseen = { tokens: 1, kind: 'reasoningTokens', limit: 100 } as const
  const [counted, again] = await Promise.all([meter.count(unseen), meter.count(unseen)])
  expect(counted).toMatchObject({ inputTokens: 7, reasoningTokens: 4 })
  expect([again, meter.estimation]).toEqual([counted, 'timed'])
})

describe('the output of a complete response', () => {
  const usage = { type: 'usage', usage: { inputTokens: 7 } } as const
  const finish = { type: 'finish', reason: 'stop', raw: 'stop' } as const

  test('has to be counted where it was not reported, if there is any', () => {
    const [said, silent] = [new Meter(() => Promise.resolve(7), 100), new Meter(() => Promise.resolve(7), 100)]
    said.record([start, ...text('a'), usage, finish])
    silent.record([start, usage, finish])
    expect([said.lacksUsage, silent.lacksUsage]).toEqual([true, false])
  })

  test('is not counted where nothing is charged, or where it ended without a reason and was reported', () => {
    const [free, plain] = [new Meter(() => Promise.resolve(7), 100), new Meter(() => Promise.resolve(7), 100)]
    free.record([start, ...text('a')])
    free.waiveCharge()
    plain.record([start, ...text('a'), { type: 'usage', usage: { inputTokens: 7, outputTokens: 1 } }])
    for (const meter of [free, plain]) {
      meter.close('completed')
      expect(meter.count()).toBeUndefined()
    }
  })
})

test('a response that is exhausted is charged all of its output up to its hold', async () => {
  const chargeOf = async (tokens: number): Promise<number | undefined> => {
    const meter = new Meter(() => Promise.resolve(7), 100)
    meter.record([start, { type: 'usage', usage: { inputTokens: 7, outputTokens: 4 }, interim: true }])
    meter.exhaust({ tokens, candidates: 1, unseen: 0, cause: 'balance' })
    meter.close('exhausted')
    return (await meter.count())?.outputTokens
  }
  expect([await chargeOf(100), await chargeOf(4), await chargeOf(3)]).toEqual([4, 4, 3])
})

test('a response that begins again is one in words only if its last beginning has some', () => {
  const meter = new Meter(() => Promise.resolve(7), 100)
  const refused = { type: 'finish', reason: 'refusal', raw: 'refusal' } as const
  meter.record([start, { type: 'part-start', part: 0, head: { type: 'refusal' } }, refused])
  expect(meter.recordedFinish).toBe('refusal-in-words')
  meter.record([start, refused])
  expect(meter.recordedFinish).toBe('refusal')
})

test('the time without output ends with the first output, or when the client leaves', () => {
  const meter = new Meter(() => Promise.resolve(7), 1_000_000)
  meter.record([start])
  expect([meter.firstOutputMs, meter.unseenMs >= 1_000_000]).toEqual([undefined, true])
  meter.record(text('a'))
  expect(meter.unseenMs).toBe(meter.firstOutputMs!)
  expect(meter.firstOutputMs).toBeGreaterThanOrEqual(1_000_000)
})

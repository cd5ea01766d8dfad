import { afterEach, describe, expect, spyOn, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { noUsage } from '../../src/generation/usage.ts'
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

/** Has the clock stand still. Returns a function that sets it forward. */
function stoppedClock(): (ms: number) => void {
  let at = 1_000_000
  const now = spyOn(performance, 'now').mockImplementation(() => at)
  restoreClock = () => now.mockRestore()
  return (ms) => void (at += ms)
}
let restoreClock = (): void => {}
afterEach(() => restoreClock())

const newMeter = (): Meter => new Meter(() => Promise.resolve(7), 100)
const part = (type: 'reasoning' | 'image' | 'audio' | 'text', text: string): GenerationEvent[] => [
  { type: 'part-start', part: 0, head: { type } as never },
  { type: 'part-delta', part: 0, text },
]

describe('by the clock', () => {
  test('a meter gives the age of its request, the time since the first event, and that of the latest attempt', () => {
    const pass = stoppedClock()
    const meter = newMeter()
    pass(10)
    expect([meter.ageMs, meter.begunMs, meter.generatingMs]).toEqual([110, undefined, 110])
    meter.attempts.push({ provider: 'a', milliseconds: 30 }, { provider: 'b', milliseconds: 0 })
    expect(meter.generatingMs).toBe(80)
    meter.attempts[1]!.startedMs = 50
    expect(meter.generatingMs).toBe(60)
    meter.record([{ type: 'error', error: new GatewayError('upstream_error', 'It ended.') }])
    expect(meter.begunMs).toBeUndefined()
    meter.record([start])
    pass(5)
    expect(meter.begunMs).toBe(5)
    expect(meter.close('client-left')).toBe(true)
    pass(7)
    expect(meter.close('completed')).toBe(false)
    expect([meter.outcome, meter.generatingMs, meter.times]).toEqual(['client-left', 65, { latency: 110, duration: 5 }])
  })

  test('the times of a response that goes on last until now', () => {
    const pass = stoppedClock()
    const meter = newMeter()
    meter.record([start])
    pass(20)
    expect(meter.times).toEqual({ latency: 100, duration: 20 })
  })

  test('the time without output ends when the client leaves for the first time', () => {
    const pass = stoppedClock()
    const meter = newMeter()
    meter.record([start])
    meter.markLeft()
    pass(10)
    meter.markLeft()
    expect(meter.unseenMs).toBe(100)
    meter.record([...part('reasoning', 'a'), ...part('text', 'a')])
    expect([meter.firstOutputMs, meter.unseenMs]).toEqual([110, 100])
  })
})

test('a meter reports once that something was received, and how much of each kind', () => {
  const meter = newMeter()
  let moves = 0
  meter.onMoved = () => moves++
  expect([meter.takeMoved(), meter.takeChanged(), meter.takeChanged()]).toEqual([false, true, true])
  meter.record([start, ...part('reasoning', 'abc')])
  meter.record(part('text', 'ab'))
  expect([moves, meter.received]).toEqual([1, { begun: true, text: 2, reasoning: 3 }])
  expect([meter.takeMoved(), meter.takeMoved(), meter.takeChanged(), meter.takeChanged()]).toEqual([
    true,
    false,
    true,
    false,
  ])
  meter.record([start])
  expect([moves, meter.takeMoved(), meter.takeChanged()]).toEqual([2, true, true])
  expect(newMeter().received).toEqual({ begun: false, text: 0, reasoning: 0 })
})

test('a response shows reasoning where it has a part of it', () => {
  const [with_, without] = [newMeter(), newMeter()]
  with_.record([start, ...part('reasoning', '')])
  without.record([start, ...part('text', 'a')])
  expect([with_.showsReasoning, without.showsReasoning]).toEqual([true, false])
})

test('a response that begins again has received nothing', () => {
  const meter = newMeter()
  meter.record([start, ...part('reasoning', 'abc'), ...part('text', 'abc'), ...part('image', '')])
  expect([meter.receivedTokens, meter.usage.images, meter.namedModel]).toEqual([2, 1, 'large'])
  meter.record([{ ...start, model: 'larger' }])
  expect([meter.receivedTokens, meter.usage.images, meter.namedModel]).toEqual([0, 0, 'larger'])
  expect(meter.received).toEqual({ begun: true, text: 0, reasoning: 0 })
})

test.each([
  ['three narrow characters', part('text', 'abc'), 1],
  ['a wide character', part('text', '\u0370'), 1],
  ['two narrow ones', part('text', '\u036fa'), 2 / 3],
  ['an image', part('image', 'abc'), 0],
  ['audio', part('audio', 'abc'), 0],
  ['more that was reported', [...part('text', 'abc'), { type: 'usage', usage: { outputTokens: 5 } } as const], 5],
  ['less that was reported', [...part('text', 'abcabc'), { type: 'usage', usage: { outputTokens: 1 } } as const], 2],
] as [string, GenerationEvent[], number][])('%s counts as so many received tokens: %#', (_, events, tokens) => {
  const meter = newMeter()
  meter.record([start, ...events])
  expect(meter.receivedTokens).toBe(tokens)
})

test('a hold grows as soon as so much is received, with a flag for a response that goes on', () => {
  const meter = newMeter()
  const [open, calls] = [{} as never, [] as unknown[]]
  meter.follow(open, (...called) => calls.push(called))
  meter.growAt = 2
  meter.record([start, ...part('text', 'abc')])
  expect(calls).toEqual([])
  meter.record(part('text', 'abc'))
  meter.record([{ type: 'usage', usage: { outputTokens: 9 } }])
  expect(calls).toEqual([
    [open, true],
    [open, false],
  ])
})

test('later reports of the service and of the image model add to the earlier ones', () => {
  const meter = newMeter()
  meter.record([start, { type: 'usage', usage: {}, service: { service_tier: 'flex' }, imageModel: 'draws' }])
  meter.record([{ type: 'usage', usage: {} }])
  meter.record([{ type: 'usage', usage: {}, service: { speed: 'fast' } }])
  expect([meter.service, meter.imageModel]).toEqual([{ service_tier: 'flex', speed: 'fast' }, 'draws'])
  meter.record([{ type: 'usage', usage: {}, imageModel: 'draws-again' }])
  expect(meter.imageModel).toBe('draws-again')
})

test('a voided charge makes a failure of a response that was complete', () => {
  const meter = newMeter()
  meter.record([start, ...text('a'), { type: 'finish', reason: 'stop', raw: 'stop' }])
  meter.close('completed')
  expect([meter.recordedFinish, meter.charge]).toEqual(['stop', 'reported'])
  meter.voidCharge()
  expect([meter.outcome, meter.recordedFinish, meter.charge]).toEqual(['failed', undefined, 'nothing'])
})

test('a client that leaves pays where any of the attempts was sent', () => {
  const meter = newMeter()
  meter.attempts.push({ provider: 'a', milliseconds: 1, sent: true }, { provider: 'b', milliseconds: 1 })
  meter.close('client-left')
  expect(meter.charge).toBe('generated')
})

test.each([
  ['its limit', { tokens: 10, kind: 'reasoningTokens', limit: 9 }, undefined, [4, 5]],
  ['what was measured', { tokens: 3, kind: 'outputTokens', limit: 9 }, undefined, [7, 0]],
  ['what is held', { tokens: 10, kind: 'reasoningTokens', limit: 9 }, 6, [4, 2]],
  ['what is held, of a response that was exhausted', undefined, 6, [4, 2]],
  ['nothing', undefined, undefined, [4, 0]],
] as const)('what was not received is charged up to %s', async (_, unseen, held, [outputTokens, reasoningTokens]) => {
  const meter = newMeter()
  meter.record([start, { type: 'usage', usage: { inputTokens: 7, outputTokens: 4 }, interim: true }])
  if (held !== undefined) meter.exhaust({ tokens: held, candidates: 1, unseen: 8, cause: 'balance' })
  meter.close('exhausted')
  expect(await meter.count(unseen)).toMatchObject({ outputTokens, reasoningTokens })
  expect(meter.estimation).toBe(unseen === undefined && held === undefined ? 'counted' : 'timed')
})

describe('the meter of a generation that another process began', () => {
  const stored = {
    usage: { ...noUsage(), outputTokens: 3, images: 1 },
    served: { provider: 'p', model: 'm' },
    tries: [{ provider: 'p', milliseconds: 5, sent: true }],
    losses: [{ code: 'dropped', path: 'a', effect: 'dropped', reason: 'unknown' }] as never[],
    service: { service_tier: 'flex' },
    imageModel: 'draws',
    ageMs: 500,
    inputTokens: 9,
  }

  test('goes on as it was last written', async () => {
    stoppedClock()
    const { losses: _, ...without } = stored
    expect(Meter.restored(without).losses).toEqual([])
    const meter = Meter.restored(stored)
    expect(meter).toMatchObject({
      usage: stored.usage,
      served: stored.served,
      attempts: stored.tries,
      losses: stored.losses,
      service: stored.service,
      imageModel: 'draws',
      ageMs: 500,
      outcome: undefined,
    })
    meter.record([{ type: 'finish', reason: 'stop', raw: 'stop' }])
    expect(await meter.count()).toMatchObject({ inputTokens: 9 })
  })

  test('that crashed has the times that were written, and is charged if its response had begun', () => {
    stoppedClock()
    const times = { latency: 100, duration: 50 }
    const crashed = (begun: boolean): unknown[] => {
      const meter = Meter.crashed({ ...stored, times, received: { begun, text: 0, reasoning: 0 } })
      return [meter.outcome, meter.times, meter.charge]
    }
    expect(crashed(true)).toEqual(['crashed', times, 'received'])
    expect(crashed(false)).toEqual(['crashed', { latency: 150, duration: 0 }, 'nothing'])
  })
})

import { describe, expect, test } from 'bun:test'
import type { GenerationRecord } from '../../src/store/store.ts'
import { expectBookRight } from '../audit.ts'
import { COUNTED, type Script } from './scripted.ts'
import {
  ask,
  expectEnding,
  expectRecord,
  INPUT,
  modelOf,
  NOTHING,
  OTHER,
  PROVIDER,
  RECEIVED,
  receivedUsage,
  recordOf,
  reportedUsage,
  streamedWays,
  useProvider,
  WAYS,
  ways,
  withGateway,
  type Expected,
  type Way,
} from './ending-ways.ts'

useProvider()

describe('completed generations', () => {
  const here = withGateway()

  async function completes(way: Way, script: Script, usage: typeof COUNTED, estimated: boolean): Promise<void> {
    const before = await here.books.balance()
    const response = await ask(here.gateway, way, modelOf(way, script))
    const text = await response.text()
    expect(response.status, text).toBe(200)
    const record = await expectRecord(here.books, before, way, { ending: 'completed', usage, estimated })
    expect(reportedUsage(text, way)).toEqual(usage)
    expect([record.finish, record.retries, record.attempts, record.provider]).toEqual([
      'stop',
      0,
      null,
      PROVIDER[way.provider],
    ])
  }

  test.each(ways)('a completed generation is charged as reported: %s', (_, way) =>
    completes(way, 'metered', COUNTED, false),
  )
  test.each(ways)('usage is estimated and marked when the provider reports none: %s', (_, way) =>
    completes(way, 'unmetered', { prompt: INPUT, completion: RECEIVED }, true),
  )
  test.each(streamedWays)('usage is estimated and marked when the response came in one piece: %s', (_, way) =>
    completes(way, 'in-one-piece', { prompt: INPUT, completion: RECEIVED }, true),
  )
  test.each(ways)('usage is estimated and marked when the reported usage is impossible: %s', (_, way) =>
    completes(way, 'impossible', { prompt: INPUT, completion: RECEIVED }, true),
  )
  test.each(streamedWays)('the last of several reported usages is charged: %s', (_, way) =>
    completes(way, 'counts-twice', COUNTED, false),
  )
  // Google's streams have no terminal frame, so nothing can follow it.
  test.each(streamedWays.filter(([, way]) => way.provider !== 'generateContent'))(
    'without what comes behind the end: %s',
    (_, way) => completes(way, 'goes-on', COUNTED, false),
  )

  test.each(ways)('a generation that succeeds on the third attempt is charged once: %s', async (_, way) => {
    const before = await here.books.balance()
    expect(await (await ask(here.gateway, way, `second-try/${way.client}`)).text()).toContain('three')
    const record = await expectRecord(here.books, before, way, {
      ending: 'completed',
      usage: COUNTED,
      estimated: false,
    })
    expect(record).toMatchObject({ retries: 2, provider: PROVIDER[OTHER[way.client]] })
    const times = { startedMs: expect.any(Number), milliseconds: expect.any(Number), model: expect.any(String) }
    const failed = { ...times, provider: PROVIDER[way.client], protocol: way.client, error: 'upstream_error' }
    expect(JSON.parse(record.attempts!)).toMatchObject([
      failed,
      failed,
      { ...times, provider: PROVIDER[OTHER[way.client]], protocol: OTHER[way.client] },
    ])
  })

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})

describe('failed generations', () => {
  const here = withGateway()

  async function fails(way: Way, script: Script, expected: Omit<Expected, 'ending'>): Promise<GenerationRecord> {
    const before = await here.books.balance()
    await (await ask(here.gateway, way, modelOf(way, script))).text()
    return expectRecord(here.books, before, way, { ending: 'failed', ...expected })
  }

  for (const script of ['resets', 'refuses-400', 'refuses-429', 'refuses-500'] as const) {
    test.each(ways)(`a provider that fails with ${script} fails the generation: %s`, async (_, way) => {
      const record = await fails(way, script, { usage: NOTHING, estimated: false })
      const attempts = JSON.parse(record.attempts!) as { error: string }[]
      expect([record.finish, record.retries]).toEqual(['failed', attempts.length - 1])
      // Until its breaker opens, the only endpoint is tried again, unless the request is at fault.
      const most = script === 'resets' || script === 'refuses-500' ? 4 : 1
      expect(attempts.length).toBeWithin(1, most + 1)
      expect(new Set(attempts.map(({ error }) => error)).size).toBe(1)
    })
  }
  test.each(ways)(
    'a provider that sends garbage fails the generation: %s',
    async (_, way) => void (await fails(way, 'garbage', { usage: NOTHING, estimated: false })),
  )
  for (const script of ['resets-midway', 'half', 'fails'] as const) {
    test.each(ways)(
      `a provider that fails with ${script} fails the generation: %s`,
      async (_, way) =>
        void (await fails(
          way,
          script,
          way.stream ? { usage: receivedUsage(way), estimated: true } : { usage: NOTHING, estimated: false },
        )),
    )
  }

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})

describe('timed-out generations', () => {
  const here = withGateway({ timeouts: { firstByte: '250ms', idle: '250ms' } })

  // Concurrently, because each takes as long as its timeout.
  async function timeOut(script: Script, ways: Way[], expected: (way: Way) => Omit<Expected, 'ending'>): Promise<void> {
    const before = await here.books.balance()
    await Promise.all(ways.map(async (way) => (await ask(here.gateway, way, modelOf(way, script))).text()))
    const records = await here.books.fresh(ways.length)
    expect(records.length).toBe(ways.length)
    for (const way of ways) expectEnding(recordOf(records, way, script), way, { ending: 'timed-out', ...expected(way) })
    expect(before - (await here.books.balance())).toBe(records.reduce((sum, record) => sum + record.bill, 0n))
    await here.books.expectNothingHeld()
  }

  const nothing = (): Omit<Expected, 'ending'> => ({ usage: NOTHING, estimated: false })
  test('a timeout before the response head is recorded and costs nothing', () => timeOut('silent', WAYS, nothing))
  test('a timeout after the response head is recorded', () => timeOut('silent-after-head', WAYS, nothing))
  test('a timeout in mid-stream is recorded', () =>
    timeOut('silent-midway', WAYS, (way) => (way.stream ? { usage: receivedUsage(way), estimated: true } : nothing())))

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})

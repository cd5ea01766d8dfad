import { afterAll, beforeAll, describe, expect, setDefaultTimeout, spyOn, test } from 'bun:test'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { OpenGeneration, ReservationRequest } from '../../src/ledger/ledger.ts'
import { log } from '../../src/log/log.ts'
import { failure } from '../store/records.ts'
import { Rig } from './rig.ts'
import { accountOf } from '../store/account.ts'

setDefaultTimeout(60_000)

/** Silences the log lines about a full disk. */
const logged = (['error', 'warn'] as const).map((level) => spyOn(log, level))
beforeAll(() => logged.forEach((spy) => spy.mockImplementation(() => {})))
afterAll(() => logged.forEach((spy) => spy.mockRestore()))

const CENT = 10_000_000n
const FLOWS = { '5_hour': 10, '7_day': 10, monthly: 10 }
const LIMIT = { amount: 10n * CENT, period: null }

/** A request costs one cent, which is one flow. The account has 4 cents of credit, 6 of bonus, and 10 flows. */
async function withLedger(check: (rig: Rig) => Promise<void>): Promise<void> {
  const tier = { usdPerMonth: 0, flows: FLOWS, discount: 0 }
  const rig = new Rig(0n, { usdPerFlow: 0.01, tiers: [['free', tier]] })
  try {
    await rig.open()
    const post = (bonus: boolean, amount: bigint) =>
      topUp({ reference: `${bonus}`, at: 1, accountId: 'a', amount, bonus })
    await rig.other.accounts.add(accountOf('a'), newSubscription('a', 'free', rig.now), [
      post(false, 4n * CENT),
      post(true, 6n * CENT),
    ])
    await rig.ledger.load()
    await check(rig)
  } finally {
    await rig.close()
  }
}

let ids = 0
function reserve(rig: Rig, kind: ReservationRequest['kind'], cents = 1n, discount = 0): OpenGeneration {
  const rates = { request: { base: cents * CENT, tiers: [] } }
  const request: ReservationRequest = {
    id: String(++ids).padStart(32, '0'),
    accountId: 'a',
    keyId: 'k',
    kind,
    limit: LIMIT,
    api: 'chat.completions',
    model: 'm',
    createdAt: rig.now,
    streamed: false,
    discount,
    penalty: 1,
    price: { version: '1', model: 'm', rates },
    worst: { ...noUsage(), outputTokens: 1_000 },
  }
  return rig.ledger.reserve(request, () => Promise.resolve(1))
}

/** Closes a generation while the disk is full, or where the store does not acknowledge what it has written. */
async function closeUnstored(
  rig: Rig,
  open: OpenGeneration,
  fault: 'failures' | 'lostAnswers' = 'failures',
): Promise<void> {
  open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } }])
  rig[fault] = 1
  const error = await rig.ledger.close(open, 'completed').catch((error: unknown) => error)
  expect(error).toMatchObject({ code: 'store_unavailable' })
}

describe('a settlement that the store does not take', () => {
  for (const kind of ['pay-as-you-go', 'subscription'] as const) {
    const used = (rig: Rig): unknown => [
      rig.ledger.funds.wallet('a').balance,
      rig.ledger.funds.quota('a').detail(rig.now, 'healthy', 1).quota_5_hour.used_flows,
    ]

    test(`voiding a ${kind} charge restores balance, quota and key limit, and records a failure`, async () => {
      await withLedger(async (rig) => {
        const before = used(rig)
        const open = reserve(rig, kind, 7n)
        await closeUnstored(rig, open)
        const charged = used(rig)
        expect(charged).not.toEqual(before)
        rig.failures = 1
        rig.ledger.voidCharge(open)
        rig.ledger.voidCharge(open)
        await rig.flush()
        // It is not known yet that the store does not have it.
        expect(used(rig)).toEqual(charged)
        await rig.time.fireTimers()
        await rig.flush()
        expect(used(rig)).toEqual(before)
        const [record, ...others] = await rig.other.ledger.generations(undefined, 10)
        expect(others).toEqual([])
        expect(record).toMatchObject({ ending: 'failed', finish: 'failed', bill: 0n, flows: 0n, held: 7n * CENT })
        const { balances, windows, spends } = await rig.other.ledger.state()
        expect(balances.filter(({ owner }) => owner === 'a').map(({ balance }) => balance)).toEqual([
          4n * CENT,
          6n * CENT,
        ])
        expect([...windows.map((row) => row.used), ...spends.map((row) => row.spent)].filter((n) => n > 0n)).toEqual([])
        // The whole of balance or quota, and of the key's limit, can be held again, and no more.
        const [whole, beyond] = [reserve(rig, kind, 10n), (): OpenGeneration => reserve(rig, kind)]
        expect(beyond).toThrow()
        await rig.ledger.close(whole, 'failed')
        expect(used(rig)).toEqual(before)
      })
    })

    test(`a ${kind} charge stays where the store has it and did not acknowledge it`, async () => {
      await withLedger(async (rig) => {
        const open = reserve(rig, kind, 7n)
        await closeUnstored(rig, open, 'lostAnswers')
        const charged = used(rig)
        rig.ledger.voidCharge(open)
        await rig.time.fireTimers()
        await rig.flush()
        expect(used(rig)).toEqual(charged)
        expect(await rig.other.ledger.generations(undefined, 10)).toMatchObject([
          { ending: 'completed', bill: 7n * CENT },
        ])
        expect((): OpenGeneration => reserve(rig, kind, 4n)).toThrow()
        await rig.ledger.close(reserve(rig, kind, 3n), 'failed')
        expect(logged[1]!.mock.lastCall).toEqual([expect.stringContaining(`generation ${open.request.id} is charged`)])
      })
    })

    test(`a ${kind} charge stays where its write was retried before it is voided`, async () => {
      await withLedger(async (rig) => {
        const open = reserve(rig, kind)
        await closeUnstored(rig, open)
        const charged = used(rig)
        await rig.time.fireTimers()
        await rig.flush()
        rig.ledger.voidCharge(open)
        expect(used(rig)).toEqual(charged)
        expect(await rig.other.ledger.generations(undefined, 10)).toMatchObject([{ ending: 'completed', bill: CENT }])
      })
    })
  }
})

test('a single good attempt is recorded where its model has another name than was asked for', async () => {
  await withLedger(async (rig) => {
    for (const model of ['m', 'm-2026']) {
      const open = reserve(rig, 'pay-as-you-go')
      open.request.model = 'p/m'
      open.meter.attempts.push({ provider: 'p', model, sent: true, milliseconds: 5 })
      open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } }])
      await rig.ledger.close(open, 'completed')
    }
    const records = await rig.other.ledger.generations(undefined, 10)
    expect(records.map(({ attempts }) => attempts && JSON.parse(attempts)).sort()).toEqual([
      [{ provider: 'p', model: 'm-2026', milliseconds: 5 }],
      null,
    ])
  })
})

test('a generation that is not charged has no cost, and its record has the attempts', async () => {
  await withLedger(async (rig) => {
    rig.cost = { version: 'cost', model: 'm', rates: { request: { base: CENT, tiers: [] } } }
    const open = reserve(rig, 'pay-as-you-go')
    open.meter.served = { provider: 'second', model: 'm' }
    open.meter.attempts.push(
      { provider: 'first', sent: true, milliseconds: 5, error: 'rate_limited' },
      { provider: 'second', sent: true, milliseconds: 7 },
    )
    await rig.ledger.close(open, 'failed')
    const [record] = await rig.other.ledger.generations(undefined, 10)
    expect(record).toMatchObject({ provider: 'second', bill: 0n, retries: 1 })
    expect(JSON.parse(record!.attempts!)).toEqual([
      { provider: 'first', error: 'rate_limited', milliseconds: 5 },
      { provider: 'second', milliseconds: 7 },
    ])
    const { balances } = await rig.other.ledger.state()
    expect(balances.filter(({ kind }) => kind === 'cost' || kind === 'payable')).toEqual([])
  })
})

test('a generation costs what its provider charges, whatever discount its account has', async () => {
  await withLedger(async (rig) => {
    rig.cost = { version: 'cost', model: 'm', rates: { request: { base: CENT, tiers: [] } } }
    const open = reserve(rig, 'pay-as-you-go', 2n, 2_500)
    open.meter.served = { provider: 'second', model: 'm' }
    open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } }])
    await rig.ledger.close(open, 'completed')
    const [record] = await rig.other.ledger.generations(undefined, 10)
    expect(record).toMatchObject({ bill: (CENT * 3n) / 2n, attempts: null })
    const { balances } = await rig.other.ledger.state()
    expect(balances.find(({ kind }) => kind === 'cost')?.balance).toBe(-CENT)
  })
})

describe('the sweep of open generations', () => {
  const sweepAfter = async (rig: Rig, ms: number): Promise<void> => {
    rig.written.clear()
    rig.time.ageMs += ms
    await rig.time.fireTimers()
    await rig.flush()
  }

  test('is due only while one is open or a write is pending', async () => {
    await withLedger(async (rig) => {
      const { wheel } = rig.time
      expect(wheel.delays).toEqual([])
      const open = reserve(rig, 'pay-as-you-go')
      expect(wheel.delays).toEqual([100])
      await sweepAfter(rig, 150)
      expect(wheel.delays).toEqual([5_000])
      const young = reserve(rig, 'pay-as-you-go')
      expect(wheel.delays).toEqual([100])
      await rig.ledger.close(young, 'failed')
      await sweepAfter(rig, 100)
      expect(wheel.delays).toEqual([4_900])
      await closeUnstored(rig, open)
      // The usage that it received was due to be written.
      expect(wheel.delays).toEqual([70])
      await sweepAfter(rig, 100)
      expect(rig.committed).toContain(open.request.id)
      await sweepAfter(rig, 100)
      expect(wheel.delays).toEqual([])
    })
  })

  test('is not due any more after a stop, for which a write under way was refused', async () => {
    await withLedger(async (rig) => {
      const open = reserve(rig, 'pay-as-you-go')
      open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } }])
      rig.failures = 2
      const closed = failure(rig.ledger.close(open, 'completed'))
      expect(String(await failure(rig.ledger.stop()))).toContain('could not record 1 ledger writes')
      expect(await closed).toMatchObject({ code: 'store_unavailable' })
      expect(rig.time.wheel.delays).toEqual([])
    })
  })

  test('looks at no other generation when one is reserved', async () => {
    await withLedger(async (rig) => {
      const { meter } = reserve(rig, 'pay-as-you-go')
      let looks = 0
      const isSeen = (): number => ++looks
      Object.defineProperty(meter, 'ageMs', { get: isSeen })
      Object.defineProperty(meter, 'begunMs', { get: isSeen })
      reserve(rig, 'pay-as-you-go')
      expect(looks).toBe(0)
      expect(rig.time.wheel.delays).toEqual([100])
    })
  })

  test('repeats a refused write after 100 ms', async () => {
    await withLedger(async (rig) => {
      const { id } = reserve(rig, 'pay-as-you-go').request
      rig.failures = 1
      await sweepAfter(rig, 150)
      expect([rig.time.wheel.delays, rig.written.has(id)]).toEqual([[100], false])
      await sweepAfter(rig, 100)
      expect(rig.written.has(id)).toBe(true)
    })
  })

  test('writes a generation when its response begins and every five seconds, but not what it has written', async () => {
    await withLedger(async (rig) => {
      const open = reserve(rig, 'pay-as-you-go')
      const isWrittenAfter = async (ms: number): Promise<boolean> => {
        await sweepAfter(rig, ms)
        return rig.written.has(open.request.id)
      }
      const receive = (): void => open.meter.record([{ type: 'part-delta', part: 0, text: 'Hello' }])
      expect(await isWrittenAfter(100)).toBe(false)
      expect(await isWrittenAfter(1)).toBe(true)
      // Its attempts at providers may have changed.
      expect(await isWrittenAfter(5_001)).toBe(true)
      receive()
      expect(await isWrittenAfter(20)).toBe(false)
      expect(await isWrittenAfter(1)).toBe(true)
      receive()
      expect(await isWrittenAfter(5_000)).toBe(false)
      expect(await isWrittenAfter(1)).toBe(true)
      for (let silent = 0; silent < 3; silent++) expect(await isWrittenAfter(5_001)).toBe(false)
      receive()
      expect(await isWrittenAfter(5_001)).toBe(true)
      const [row] = await rig.other.ledger.openGenerations()
      expect(JSON.parse(row!.state)).toMatchObject({ heard: { begun: true, text: 15 } })
    })
  })

  test('writes what was received within 100 ms, and a crash charges it', async () => {
    await withLedger(async (rig) => {
      const silent = reserve(rig, 'pay-as-you-go')
      const open = reserve(rig, 'pay-as-you-go')
      const { wheel } = rig.time
      const receive = (text: string): void => open.meter.record([{ type: 'part-delta', part: 0, text }])
      open.meter.record([{ type: 'part-start', part: 0, head: { type: 'text' } }])
      let received = 0
      for (let age = 0; age < 3_000; age += 10) {
        rig.time.ageMs += 10
        receive('four')
        received++
        expect(Math.min(...wheel.delays)).toBeLessThanOrEqual(70)
        if (age % 70 === 0) {
          await rig.time.fireTimers()
          await rig.flush()
        }
      }
      // The last sweep was 70 ms ago at most: seven pieces of one token.
      await rig.die('before', () => {})
      await rig.open()
      const record = await rig.other.ledger.findGeneration('a', open.request.id)
      expect(record).toMatchObject({ ending: 'crashed', estimation: 'checkpoint' })
      expect(record!.usage.outputTokens).toBeWithin(received - 7, received + 1)
      expect((await rig.other.ledger.findGeneration('a', silent.request.id))!.bill).toBe(0n)
    })
  })

  test('looks after a group of rewrites at a time', async () => {
    await withLedger(async (rig) => {
      for (let age = 0; age < 1_000; age += 10) {
        reserve(rig, 'pay-as-you-go', 0n)
        await sweepAfter(rig, 10)
      }
      await sweepAfter(rig, 101)
      let sweeps = 0
      for (const until = rig.time.ageMs + 20_000; rig.time.ageMs < until; sweeps++)
        await sweepAfter(rig, rig.time.wheel.delays[0]!)
      expect(sweeps).toBeLessThan(20_000 / 250 + 2)
    })
  })
})

test('a subscription is recorded at the list price, whatever the discount', () =>
  withLedger(async (rig) => {
    const open = reserve(rig, 'subscription', 2n, 5_000)
    open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } }])
    await rig.ledger.close(open, 'completed')
    expect(open.record?.bill).toBe(2n * CENT)
  }))

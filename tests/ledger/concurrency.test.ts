import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import * as fc from 'fast-check'
import type { Outcome } from '../../src/ledger/outcomes.ts'
import type { ReservationRequest } from '../../src/ledger/ledger.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { admit, admitAll, CLIENTS, MILLI, REQUEST, RUNS, withRig } from './reserving.ts'

setDefaultTimeout(60_000)

describe('concurrent reservations', () => {
  const turns = fc.array(fc.nat({ max: 3 }), { minLength: CLIENTS, maxLength: CLIENTS })
  const credit = fc.integer({ min: 0, max: 80 })

  test('exactly as many requests are admitted as the credit pays for', async () => {
    await fc.assert(
      fc.asyncProperty(credit, turns, (cents, turns) =>
        withRig({ cents }, async (rig) => {
          expect(await admitAll(rig, turns, {})).toHaveLength(Math.min(cents, CLIENTS))
        }),
      ),
      { numRuns: RUNS },
    )
  }, 60_000)

  test('a request whose price has a discount holds so much less', async () => {
    await withRig({ cents: 10 }, async (rig) => {
      expect(await admitAll(rig, Array<number>(CLIENTS).fill(0), { discount: 5_000 })).toHaveLength(20)
    })
  })

  test('the lowest of balance or quota windows and key limit decides how many requests are admitted', async () => {
    await fc.assert(
      fc.asyncProperty(credit, credit, fc.boolean(), turns, (fits, cents, subscribed, turns) =>
        withRig(subscribed ? { flows: fits, cents: 0 } : { cents: fits }, async (rig) => {
          const limit = { amount: BigInt(cents) * 10n * MILLI, period: null }
          expect(
            await admitAll(rig, turns, { limit, kind: subscribed ? 'subscription' : 'pay-as-you-go' }),
          ).toHaveLength(Math.min(fits, cents, CLIENTS))
        }),
      ),
      { numRuns: RUNS },
    )
  }, 60_000)

  test('settling returns the unused part of a hold to later requests', async () => {
    await withRig({ cents: 10 }, async (rig) => {
      for (const open of await admitAll(rig, Array<number>(CLIENTS).fill(0), {})) await rig.ledger.close(open, 'failed')
      expect(await admitAll(rig, Array<number>(CLIENTS).fill(0), {})).toHaveLength(10)
    })
  })

  describe('of a subscription', () => {
    const worst = { ...noUsage(), outputTokens: 128_000 }
    const more = { kind: 'subscription' as const, streamed: true, worst }

    test('begin with 2,048 tokens of output, grow with the response, and refuse further requests then', async () => {
      await withRig({ flows: 500 }, async (rig) => {
        // One flow for the request and one for ten tokens: all output would be 12,801 flows.
        const open = admit(rig, more)
        expect(open.hold.quota!.flows).toBe(205_800_000n)
        open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 700 } }])
        rig.time.ageMs += 100
        await rig.time.fireTimers()
        expect(open.hold.quota!.flows).toBe(275_800_000n)
        // 224.2 flows are left, which a second answer exceeds under way.
        const second = admit(rig, more)
        second.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 3_000 } }])
        rig.time.ageMs += 100
        await rig.time.fireTimers()
        expect(() => admit(rig, { kind: 'subscription' })).toThrow('0 of 500 are left in the 5-hour quota')
        open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 3_000 } }])
        for (const one of [open, second]) await rig.ledger.close(one, 'completed')
        const { used_flows, usage_percentage } = rig.ledger.funds.quota('a').detail(rig.now, 'healthy', 1).quota_5_hour
        expect([used_flows, usage_percentage]).toEqual([500, 1])
        const records = await rig.other.ledger.generations(undefined, 10)
        expect(records.map(({ flows, disputed }) => [flows, disputed])).toEqual([
          [301_000_000n, null],
          [301_000_000n, null],
        ])
      })
    })

    test('exceed a window in ten answers at most: others hold all of their output', async () => {
      await withRig({ flows: 500 }, async (rig) => {
        const cheap = { ...REQUEST.price!, rates: { completion: { base: MILLI, tiers: [] } } }
        const all = await admitAll(rig, Array<number>(CLIENTS).fill(0), { ...more, price: cheap })
        expect(all).toHaveLength(CLIENTS)
        const growing = (): number => all.filter(({ hold }) => hold.overshoots === true).length
        expect(growing()).toBe(10)
        await rig.ledger.close(all[0]!, 'failed')
        expect(admit(rig, { ...more, price: cheap }).hold.overshoots).toBe(true)
        expect(admit(rig, { ...more, price: cheap }).hold.overshoots).toBeUndefined()
      })
    })

    test('never exceed the limit of a key', async () => {
      await withRig({ flows: 500 }, async (rig) => {
        const limit = { amount: 10_000n * MILLI, period: null }
        expect(() => admit(rig, { ...more, limit })).toThrow("left of this key's limit")
      })
    })
  })

  const spent: [string, Parameters<typeof withRig>[0], Partial<ReservationRequest>][] = [
    ['balance', { cents: 10 }, {}],
    ['windows', { flows: 10 }, { kind: 'subscription' }],
    ['key', {}, { limit: { amount: 100n * MILLI, period: null } }],
  ]
  test.each(spent)('as many requests are admitted after a crash as before it, by the %s', async (_, credit, more) => {
    await withRig(credit, async (rig) => {
      const first = admit(rig, more)
      first.meter.record([{ type: 'usage', usage: { inputTokens: 1 } }])
      await rig.ledger.close(first, 'completed')
      for (let left = 0; left < 3; left++) admit(rig, more)
      rig.time.ageMs += 150
      await rig.time.fireTimers()
      await rig.die('before', () => {})
      await rig.open()
      expect((await rig.other.ledger.generations(undefined, 10)).map(({ ending }) => ending)).toEqual([
        'completed',
        'crashed',
        'crashed',
        'crashed',
      ])
      expect(await admitAll(rig, Array<number>(CLIENTS).fill(0), more)).toHaveLength(9)
    })
  })

  test('the first of several outcomes of a generation counts, in whatever order they come', async () => {
    const closings = fc.array(
      fc.record({
        which: fc.nat({ max: 3 }),
        outcome: fc.constantFrom<Outcome>('completed', 'client-left', 'failed', 'shutdown'),
      }),
      { minLength: 4, maxLength: 20 },
    )
    await fc.assert(
      fc.asyncProperty(closings, (closings) =>
        withRig({}, async (rig) => {
          const open = Array.from({ length: 4 }, () => admit(rig, { worst: { ...noUsage(), outputTokens: 5 } }))
          for (const { meter } of open)
            meter.record([
              { type: 'usage', usage: { inputTokens: 1, outputTokens: 5 } },
              { type: 'finish', reason: 'stop', raw: 'stop' },
            ])
          await Promise.all(closings.map(({ which, outcome }) => rig.ledger.close(open[which]!, outcome)))
          const first = new Map(closings.toReversed().map(({ which, outcome }) => [open[which]!.request.id, outcome]))
          const records = await rig.other.ledger.generations(undefined, 10)
          expect(new Map(records.map(({ id, ending }) => [id, ending as Outcome]))).toEqual(
            new Map([...first].toSorted(([a], [b]) => (a < b ? -1 : 1))),
          )
          expect(rig.ledger.funds.wallet('a').balance.credit).toBe(10_000n * MILLI - BigInt(first.size) * 15n * MILLI)
        }),
      ),
      { numRuns: RUNS },
    )
  })

  test('a client that leaves while its response is counted is charged the same', async () => {
    await withRig({}, async (rig) => {
      const worst = { ...noUsage(), outputTokens: 5 }
      const open = rig.ledger.reserve({ ...REQUEST, worst, id: 'f'.repeat(32) }, async () => (await Bun.sleep(20), 42))
      open.meter.record([
        { type: 'part-start', part: 0, head: { type: 'text' } },
        { type: 'part-delta', part: 0, text: ' word word' },
        { type: 'finish', reason: 'stop', raw: 'stop' },
      ])
      const counting = open.meter.count()
      await rig.ledger.close(open, 'client-left')
      await counting
      expect(await rig.other.ledger.findGeneration('a', 'f'.repeat(32))).toMatchObject({
        estimated: true,
        bill: 12n * MILLI,
        usage: { inputTokens: 42, outputTokens: 2 },
      })
    })
  })
})

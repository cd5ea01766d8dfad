import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import * as fc from 'fast-check'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { adoptTerms } from '../../src/ledger/model-terms.ts'
import type { Price } from '../../src/ledger/prices.ts'
import { admit, admitAll, CLIENTS, MILLI, REQUEST, withRig } from './reserving.ts'

setDefaultTimeout(60_000)

describe('concurrent reservations', () => {
  describe('of pay-as-you-go streams', () => {
    // A million tokens of output cost 10 USD.
    const price = { ...REQUEST.price!, rates: { completion: { base: 10_000n * MILLI, tiers: [] } } }
    const worst = { ...noUsage(), outputTokens: 128_000 }
    const more = { streamed: true, mayEnd: true, price, worst }
    const text = (tokens: number): GenerationEvent[] => [
      { type: 'part-start', part: 0, head: { type: 'text' } },
      { type: 'part-delta', part: 0, text: 'abc'.repeat(tokens) },
    ]

    test('ten of a model with 128,000 tokens of output begin on 5 USD, and grow to all of them', async () => {
      await withRig({ cents: 500 }, async (rig) => {
        const all = await admitAll(rig, Array<number>(10).fill(0), more)
        expect(all).toHaveLength(10)
        expect(all[0]!.hold.amount).toBe(20_480_000n)
        for (const open of all.slice(0, 3)) open.meter.record(text(128_000))
        expect(all.slice(0, 3).map(({ hold }) => hold.amount)).toEqual(Array(3).fill(1_280_000_000n))
        // 3.84 USD are held by three; seven share the rest.
        for (const open of all.slice(3)) open.meter.record(text(128_000))
        expect(all.map(({ meter }) => meter.exhausted !== undefined)).toEqual(
          [0, 0, 0, 1, 1, 1, 1, 1, 1, 1].map(Boolean),
        )
        expect(all[9]!.meter.exhausted?.cause).toBe('balance')
        expect(all.reduce((sum, { hold }) => sum + hold.amount, 0n)).toBe(5_000_000_000n)
      })
    })

    test('64 that race for more than there is end without a balance below zero, each at most at its hold', async () => {
      const pieces = fc.array(
        fc.record({ which: fc.nat({ max: CLIENTS - 1 }), tokens: fc.integer({ min: 1, max: 9_000 }) }),
        {
          minLength: 150,
          maxLength: 250,
        },
      )
      await fc.assert(
        fc.asyncProperty(pieces, fc.option(fc.integer({ min: 140, max: 400 }), { nil: undefined }), (pieces, cents) =>
          withRig({ cents: 300 }, async (rig) => {
            const limit = cents === undefined ? undefined : { amount: BigInt(cents) * 10n * MILLI, period: null }
            const all = await admitAll(rig, Array<number>(CLIENTS).fill(0), { ...more, limit })
            const ending: Promise<void>[] = []
            for (const { which, tokens } of pieces) {
              const open = all[which]
              if (open === undefined || open.meter.outcome !== undefined) continue
              open.meter.attempts.push({ provider: 'p', sent: true, milliseconds: 0 })
              open.meter.record([{ type: 'usage', usage: { inputTokens: 1 } }, ...text(tokens)])
              const held = all.reduce((sum, one) => sum + (one.meter.outcome === undefined ? one.hold.amount : 0n), 0n)
              expect(held <= 3_000n * MILLI).toBe(true)
              if (open.meter.exhausted !== undefined) ending.push(rig.ledger.close(open, 'exhausted'))
            }
            for (const open of all) ending.push(rig.ledger.close(open, 'failed'))
            await Promise.all(ending)
            const records = await rig.other.ledger.generations(undefined, 100)
            const ended = records.filter(({ ending }) => ending === 'exhausted')
            expect(ended.every(({ bill, held }) => bill > 0n && bill <= held!)).toBe(true)
            const spent = records.reduce((sum, { bill }) => sum + bill, 0n)
            expect(spent <= (limit?.amount ?? spent)).toBe(true)
            const { credit, bonus } = rig.ledger.funds.wallet('a').balance
            expect(credit + bonus).toBe(3_000n * MILLI - spent)
            expect(credit + bonus >= 0n).toBe(true)
          }),
        ),
        { numRuns: 5 },
      )
    }, 60_000)

    test('stay within the limit of their key for the day on which they began, when the next one has come', async () => {
      await withRig({}, async (rig) => {
        // 10,000 tokens a day.
        const limit = { amount: 100n * MILLI, period: 'day' as const }
        const all = [admit(rig, { ...more, limit }), admit(rig, { ...more, limit })]
        rig.now += 86_400_000
        const next = admit(rig, { ...more, limit })
        for (const open of [...all, next]) open.meter.record(text(9_000))
        expect(all.map(({ hold }) => hold.amount)).toEqual([79_520_000n, 20_480_000n])
        expect(next.hold.amount).toBe(100n * MILLI)
        expect([...all, next].map(({ meter }) => meter.exhausted?.cause)).toEqual([
          'limit of the key',
          'limit of the key',
          undefined,
        ])
        for (const open of [...all, next]) await rig.ledger.close(open, 'exhausted')
      })
    })

    describe('that several models may answer', () => {
      const priceOf = (prompt: bigint, completion: bigint): Price => ({
        version: '1',
        model: 'm',
        rates: { prompt: { base: prompt * MILLI, tiers: [] }, completion: { base: completion * MILLI, tiers: [] } },
      })
      // For all of the output the second costs more, for its beginning the first.
      const models = [priceOf(5_000n, 25_000n), priceOf(1_000n, 90_000n)].map((price, index) => ({
        model: `m${index}`,
        price,
        classes: undefined,
      }))
      const dear = { models, price: models[1]!.price, worst: { ...worst, inputTokens: 1_000_000 } }
      const firstCost = 5_000n * MILLI + 2_048n * 25_000n

      test('hold the most that any of them costs, at first and while they grow', async () => {
        await withRig({ cents: 1_500 }, async (rig) => {
          const open = admit(rig, { ...more, ...dear })
          expect(open.hold.amount).toBe(firstCost)
          adoptTerms(open, 'm1')
          open.meter.record(text(100_000))
          expect(open.hold.amount).toBe(1_000n * MILLI + 102_048n * 90_000n)
        })
      })

      test('begin only if the balance covers each of them, with a subscription, too', async () => {
        await withRig({ cents: 505, flows: 505 }, async (rig) => {
          expect(() => admit(rig, { ...more, ...dear })).toThrow('This request holds $5.0512')
          expect(() => admit(rig, { ...more, ...dear, kind: 'subscription' })).toThrow(
            'This request holds 505.12 flows',
          )
        })
      })

      test('in one piece have the limit that is affordable with each of them', async () => {
        await withRig({ cents: 550 }, async (rig) => {
          const open = admit(rig, { ...more, ...dear, streamed: false, mayEnd: false, mayLower: true })
          expect([open.request.loweredTo, open.hold.amount]).toEqual([20_000, 5_500n * MILLI])
        })
      })
    })

    test('of hidden reasoning hold more as time passes, and end where no more can be held', async () => {
      await withRig({ cents: 5 }, async (rig) => {
        const open = admit(rig, more)
        open.meter.attempts.push({ provider: 'p', sent: true, milliseconds: 0 })
        let exhausted = 0
        open.meter.onExhausted = () => exhausted++
        for (let seconds = 0; seconds < 60; seconds += 6) {
          expect(exhausted).toBe(0)
          rig.time.ageMs += 6_000
          await rig.time.fireTimers()
        }
        expect(open.hold.amount).toBe(50n * MILLI)
        while (exhausted === 0) {
          rig.time.ageMs += 6_000
          await rig.time.fireTimers()
        }
        expect(rig.time.ageMs).toBeGreaterThan(100_000)
      })
    })

    test('go on beyond the balance where that is the policy, ten at a time', async () => {
      await withRig({ cents: 30, policy: 'finish' }, async (rig) => {
        const [late, ...all] = await admitAll(rig, Array<number>(13).fill(0), more)
        expect(all).toHaveLength(12)
        for (const { meter } of all) meter.record(text(60_000))
        expect(all.filter(({ meter }) => meter.exhausted === undefined)).toHaveLength(10)
        // Another one may, once one of them has ended.
        await rig.ledger.close(all.shift()!, 'completed')
        late!.meter.record(text(60_000))
        expect(late!.meter.exhausted).toBeUndefined()
        for (const one of [late!, ...all])
          await rig.ledger.close(one, one.meter.exhausted === undefined ? 'completed' : 'exhausted')
        expect(rig.ledger.funds.wallet('a').balance).toEqual({ credit: 0n, bonus: 0n })
      })
    })
  })
})

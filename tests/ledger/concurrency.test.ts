import { afterEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import * as fc from 'fast-check'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { Outcome } from '../../src/ledger/outcomes.ts'
import type { ReservationRequest, OpenGeneration } from '../../src/ledger/ledger.ts'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { adoptTerms } from '../../src/ledger/model-terms.ts'
import type { Price } from '../../src/ledger/prices.ts'
import { startGateway, type Gateway } from '../server.ts'
import { Rig } from './rig.ts'
import { runs } from '../runs.ts'
import { ON_POSTGRES, storeIn } from '../stores.ts'
import { accountOf } from '../store/account.ts'

setDefaultTimeout(60_000)

const MILLI = 1_000_000n
const CLIENTS = 64
/** A store of PostgreSQL takes several times as long as one of SQLite. */
const RUNS = ON_POSTGRES ? runs(4, 10) : 10

/** A request costs one cent, whatever it uses; a flow is worth one cent. */
const REQUEST: Omit<ReservationRequest, 'id'> = {
  accountId: 'a',
  keyId: 'k',
  kind: 'pay-as-you-go',
  api: 'chat.completions',
  model: 'm',
  createdAt: 1,
  streamed: false,
  discount: 0,
  penalty: 1,
  price: {
    version: '1',
    model: 'm',
    rates: { request: { base: 10n * MILLI, tiers: [] }, completion: { base: 1_000_000n * MILLI, tiers: [] } },
  },
  worst: noUsage(),
}

type Options = { cents?: number; flows?: number; policy?: 'cut' | 'finish' }

async function withRig(options: Options, check: (rig: Rig) => Promise<void>): Promise<void> {
  const most = options.flows ?? 1_000
  const flows = { '5_hour': most, '7_day': 1_000, monthly: 1_000 }
  const { policy: payAsYouGo = 'cut' } = options
  const rig = new Rig(
    0n,
    { usdPerFlow: 0.01, tiers: [['free', { usdPerMonth: 0, flows, discount: 0 }]] },
    { payAsYouGo, subscription: 'finish' },
  )
  try {
    await rig.open()
    const amount = BigInt(options.cents ?? 1_000) * 10n * MILLI
    const money = amount === 0n ? [] : [topUp({ reference: 'start', at: 1, accountId: 'a', amount, bonus: false })]
    await rig.other.accounts.add(accountOf('a'), newSubscription('a', 'free', rig.now), money)
    await rig.ledger.load()
    await check(rig)
  } finally {
    await rig.close()
  }
}

let ids = 0
const admit = (rig: Rig, more: Partial<ReservationRequest> = {}): OpenGeneration =>
  rig.ledger.reserve({ ...REQUEST, createdAt: rig.now, id: String(++ids).padStart(32, '0'), ...more }, () =>
    Promise.resolve(0),
  )

/** Reservations at the same moment, each after some turns of the event loop; gives those admitted. */
async function admitAll(rig: Rig, turns: number[], more: Partial<ReservationRequest>): Promise<OpenGeneration[]> {
  const open: OpenGeneration[] = []
  await Promise.allSettled(
    turns.map(async (count) => {
      for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
      open.push(admit(rig, more))
    }),
  )
  return open
}

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
              open.meter.tries.push({ provider: 'p', sent: true, milliseconds: 0 })
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
      // For all of the output the second is dearer, for its beginning the first.
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
        open.meter.tries.push({ provider: 'p', sent: true, milliseconds: 0 })
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
        const all = await admitAll(rig, Array<number>(12).fill(0), more)
        expect(all).toHaveLength(12)
        for (const { meter } of all) meter.record(text(60_000))
        expect(all.filter(({ meter }) => meter.exhausted === undefined)).toHaveLength(10)
        for (const one of all)
          await rig.ledger.close(one, one.meter.exhausted === undefined ? 'completed' : 'exhausted')
        expect(rig.ledger.funds.wallet('a').balance).toEqual({ credit: 0n, bonus: 0n })
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

describe('64 concurrent clients of a gateway', () => {
  let gateway: Gateway | undefined
  afterEach(async () => gateway?.stop())

  const CONFIG = `
limits: { requestsPerMinute: 100000 }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
models:
  fee: { endpoints: [{ provider: sandbox, model: chat }], price: { request: 0.1 } }
  tokens: { endpoints: [{ provider: sandbox, model: messages }], price: { completion: 1000 } }
  prompts: { endpoints: [{ provider: sandbox, model: messages }], price: { prompt: 1000 } }
plans: { usdPerFlow: 0.1, tiers: { free: { flows: { 5_hour: 10, 7_day: 1000, monthly: 1000 } } } }
keys: [{ key: sk-limited-0123456789abcdef, limit: 1 }]
`

  const open = async (startingCredit: number): Promise<Gateway> =>
    (gateway = await startGateway({
      config: `${CONFIG}billing: { unpriced: refuse, startingCredit: ${startingCredit} }\n`,
    }))

  /** One request per client, in four protocols, half of them streamed; gives the number of each status. */
  async function requestAll(
    { url }: Gateway,
    key: string,
    model: string,
    directives: string,
  ): Promise<Record<number, number>> {
    const statuses = await Promise.all(
      Array.from({ length: CLIENTS }, async (_, at) => {
        const [stream, text] = [at % 8 < 4, `${directives} [[delay: 300ms]]`]
        const [path, body] = [
          [
            '/v1/chat/completions',
            { model, stream, max_tokens: 10, messages: [{ role: 'user', content: text }] },
          ] as const,
          ['/v1/messages', { model, stream, max_tokens: 10, messages: [{ role: 'user', content: text }] }] as const,
          ['/v1/responses', { model, stream, max_output_tokens: 10, input: text, store: false }] as const,
          [
            `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
            { contents: [{ role: 'user', parts: [{ text }] }], generationConfig: { maxOutputTokens: 10 } },
          ] as const,
        ][at % 4]!
        const response = await fetch(url + path, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}` },
          body: JSON.stringify(body),
        })
        const answer = await response.text()
        expect(answer.includes('one two') || response.status >= 400).toBe(true)
        return response.status
      }),
    )
    return Object.fromEntries(
      [...new Set(statuses)].map((status) => [status, statuses.filter((other) => other === status).length]),
    )
  }

  /** Balances in nano-USD by their kind. */
  async function bookOf({ data }: Gateway): Promise<Record<string, bigint>> {
    const store = await storeIn(data)
    try {
      const { balances } = await store.ledger.state()
      return Object.fromEntries(balances.map(({ kind, balance }) => [kind, balance]))
    } finally {
      await store.close()
    }
  }

  test('clients get exactly ten responses for the fee of ten requests', async () => {
    const running = await open(1)
    expect(await requestAll(running, running.key, 'fee', '[[reply: one two]]')).toEqual({ 200: 10, 402: 54 })
    expect(await bookOf(running)).toEqual({ credit: 0n, outside: -1_000n * MILLI, revenue: 1_000n * MILLI })
  })

  test('clients get exactly ten responses for the tokens of ten requests', async () => {
    const running = await open(0.1)
    expect(await requestAll(running, running.key, 'tokens', '[[reply: one two]] [[usage: in=5 out=10]]')).toEqual({
      200: 10,
      402: 54,
    })
    expect(await bookOf(running)).toMatchObject({ credit: 0n, revenue: 100n * MILLI })
  })

  test('clients never spend more than the balance: what responses use above their holds is written off', async () => {
    const running = await open(0.5)
    const { 200: served = 0, ...others } = await requestAll(
      running,
      running.key,
      'prompts',
      '[[reply: one two]] [[usage: in=700 out=10]]',
    )
    expect(served).toBeWithin(1, 11)
    expect(others).toEqual({ 402: CLIENTS - served })
    const billed = BigInt(served) * 700n * MILLI
    expect(await bookOf(running)).toMatchObject({ credit: 0n, revenue: billed, 'write-off': 500n * MILLI - billed })
  })

  test('tokens that are reported above the output limit are charged as the limit, at no other cost', async () => {
    const running = await open(0.1)
    expect(await requestAll(running, running.key, 'tokens', '[[reply: one two]] [[usage: in=5 out=9000000]]')).toEqual({
      200: 10,
      402: 54,
    })
    expect(await bookOf(running)).toEqual({ credit: 0n, outside: -100n * MILLI, revenue: 100n * MILLI })
  })

  test('a key with a spending limit gets exactly ten responses although the account could pay more', async () => {
    const running = await open(100)
    expect(await requestAll(running, 'sk-limited-0123456789abcdef', 'fee', '[[reply: one two]]')).toEqual({
      200: 10,
      402: 54,
    })
    expect(await bookOf(running)).toMatchObject({ credit: 99_000n * MILLI })
  })

  test('a subscription gets exactly ten responses in a window of ten flows', async () => {
    const running = await open(100)
    const key = running.createdKeys.subscription!
    expect(await requestAll(running, key, 'fee', '[[reply: one two]]')).toEqual({ 200: 10, 429: 54 })
    expect(await bookOf(running)).toMatchObject({ credit: 100_000n * MILLI })
  })
})

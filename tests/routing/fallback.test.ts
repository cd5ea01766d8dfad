import { afterEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { nanoOf } from '../../src/money.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { ask, ENDED, PROTOCOLS } from '../gateway/asking.ts'
import { type Gateway, startGateway } from '../server.ts'
import { seeded } from './randoms.ts'
import { inParallel, type Behaviour, poolConfig, upstream, type Upstream } from './upstreams.ts'
import { once, storeIn } from '../stores.ts'

setDefaultTimeout(60_000)

const stops: (() => unknown)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

/** USD per million tokens of the models `cheap`, `middle` and `dear`. */
const PRICES = { cheap: 1, middle: 3, dear: 10 }
const NAMES = Object.keys(PRICES) as (keyof typeof PRICES)[]

/** A gateway with three models, of one endpoint each; `cheap` falls back to the others. */
async function threeModels(
  behaviours: Behaviour[],
  cheap: object,
  more: object = {},
): Promise<{ gateway: Gateway; upstreams: Upstream[] }> {
  const upstreams = behaviours.map((behaviour) => upstream(behaviour))
  for (const one of upstreams) stops.push(() => one.stop())
  const models = Object.fromEntries(
    NAMES.map((name, index) => [
      name,
      {
        endpoints: [{ provider: `up-${index}`, model: 'm' }],
        price: { prompt: PRICES[name], completion: 2 * PRICES[name] },
        ...(name === 'cheap' ? cheap : {}),
      },
    ]),
  )
  const gateway = await startGateway({ config: poolConfig('chat.completions', upstreams, { models, ...more }) })
  stops.push(() => gateway.stop())
  return { gateway, upstreams }
}

/** All records, once there are so many. */
async function recordsOf({ data }: Gateway, count: number): Promise<GenerationRecord[]> {
  const store = await storeIn(data)
  try {
    const deadline = performance.now() + 30_000
    for (;;) {
      const records = await store.ledger.generations(undefined, 1_000)
      if (records.length >= count || performance.now() > deadline) return records
      await Bun.sleep(10)
    }
  } finally {
    await store.close()
  }
}

/** Nano-USD for ten input and five output tokens. */
const billOf = (usd: number): bigint => (nanoOf(usd) / 1_000_000n) * 10n + (nanoOf(2 * usd) / 1_000_000n) * 5n

describe('fallback models', () => {
  once.each(PROTOCOLS)('the model that answers is named and billed: %s', async (protocol) => {
    const { gateway } = await threeModels(['failing', 'well', 'well'], { fallbacks: ['middle', 'dear'] })
    const response = await ask({ ...gateway, protocol, model: 'cheap', stream: true, limit: 50 })
    const text = await response.text()
    expect([response.status, text.includes('middle'), ENDED[protocol].whole.test(text)]).toEqual([200, true, true])
    const [record, ...others] = await recordsOf(gateway, 1)
    expect(others).toEqual([])
    expect(record).toMatchObject({ model: 'middle', provider: 'up-1', retries: 1, bill: billOf(PRICES.middle) })
    expect(JSON.parse(record!.attempts!)).toMatchObject([
      { provider: 'up-0', error: 'upstream_error', status: 500 },
      { provider: 'up-1' },
    ])
  })

  once('the hold covers the most expensive of them', async () => {
    const { gateway } = await threeModels(['well', 'well', 'well'], { fallbacks: ['middle', 'dear'] })
    const response = await ask({ ...gateway, protocol: 'chat.completions', model: 'cheap', stream: true, limit: 1_000 })
    await response.text()
    const [record] = await recordsOf(gateway, 1)
    expect(record).toMatchObject({ model: 'cheap', bill: billOf(PRICES.cheap) })
    expect(record!.held).toBeGreaterThan((nanoOf(2 * PRICES.dear) / 1_000_000n) * 1_000n)
  })

  once('a conversation that is too long goes to the model for that, and to no other', async () => {
    const { gateway, upstreams } = await threeModels(['overflowing', 'well', 'well'], {
      fallbacks: ['middle'],
      contextFallback: 'dear',
    })
    const response = await ask({ ...gateway, protocol: 'chat.completions', model: 'cheap', stream: false, limit: 50 })
    expect(await response.text()).toContain('"model":"dear"')
    expect(upstreams.map(({ requests }) => requests)).toEqual([1, 0, 1])
    expect(await recordsOf(gateway, 1)).toMatchObject([{ model: 'dear', bill: billOf(PRICES.dear) }])
    // No other failure is a reason for it.
    upstreams[0]!.behaviour = upstreams[1]!.behaviour = 'failing'
    const failed = await ask({ ...gateway, protocol: 'chat.completions', model: 'cheap', stream: false, limit: 50 })
    expect([failed.status, upstreams[1]!.requests > 0, upstreams[2]!.requests]).toEqual([500, true, 1])
  })
})

describe('a refusal of the content', () => {
  once.each([
    [{}, [1, 0, 0], 400],
    [{ routing: { fallbackOn: ['refusal'] } }, [1, 1, 0], 200],
  ])('is final, unless the file says otherwise: %p', async (more, requests, status) => {
    const { gateway, upstreams } = await threeModels(['prudish', 'well', 'well'], { fallbacks: ['middle'], ...more })
    const response = await ask({ ...gateway, protocol: 'chat.completions', model: 'cheap', stream: false, limit: 50 })
    await response.text()
    expect([response.status, upstreams.map((one) => one.requests)]).toEqual([status, requests])
  })
})

describe('hedging', () => {
  test('another endpoint is asked where the first is slower than usual, and the loser is cancelled', async () => {
    const { gateway, upstreams } = await threeModels(
      ['well', 'well', 'well'],
      { endpoints: [0, 1].map((index) => ({ provider: `up-${index}`, model: 'm' })) },
      { routing: { hedge: 'p95' } },
    )
    const send = (): Promise<Response> =>
      ask({ ...gateway, protocol: 'chat.completions', model: 'cheap', stream: true, limit: 50 })
    for (let count = 0; count < 8; count++) await (await send()).text()
    upstreams[0]!.behaviour = 'stalled'
    const response = await send()
    expect([response.status, response.headers.get('x-sluice-provider')]).toEqual([200, 'up-1'])
    await response.text()
    const records = await recordsOf(gateway, 9)
    expect(records).toHaveLength(9)
    const last = records.at(-1)!
    expect(last).toMatchObject({ bill: billOf(PRICES.cheap), provider: 'up-1', retries: 1 })
    expect(JSON.parse(last.attempts!)).toMatchObject([{ provider: 'up-0', reason: 'hedge lost' }, { provider: 'up-1' }])
    // The connection to the loser is closed.
    while (upstreams[0]!.open() > 0) await Bun.sleep(5)
  })
})

describe('money', () => {
  const MOODS: Behaviour[] = [
    'well',
    'well',
    'slow',
    'limited',
    'failing',
    'resetting',
    'dying',
    'error-first',
    'refusing',
  ]

  test.each([1, 2, 3])(
    'whatever fails, each request has one record, and its hold covers its bill: %p',
    async (seed) => {
      const random = seeded(seed)
      const any = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
      const { gateway, upstreams } = await threeModels(
        ['well', 'well', 'well'],
        { fallbacks: ['middle', 'dear'] },
        { routing: { hedge: 'p95', patience: '1s' } },
      )
      let answered = 0
      await inParallel(60, 6, async () => {
        any(upstreams).behaviour = any(MOODS)
        const model = any(NAMES)
        const leaves = random() < 0.1 ? AbortSignal.timeout(1 + Math.floor(random() * 100)) : undefined
        const protocol = any(PROTOCOLS)
        const response = await ask({
          ...gateway,
          protocol,
          model,
          stream: random() < 0.6,
          limit: 50,
          ...(leaves === undefined ? {} : { signal: leaves }),
        }).catch(() => undefined)
        if (response !== undefined) answered++
        await response?.text().catch(() => undefined)
      })
      // A client that left early may not have been admitted.
      expect(answered).toBeGreaterThan(40)
      const records = await recordsOf(gateway, answered)
      expect(new Set(records.map(({ id }) => id)).size).toBe(records.length)
      expect(records.length).toBeLessThanOrEqual(60)
      for (const record of records) {
        expect(record.bill).toBeLessThanOrEqual(record.held ?? 0n)
        if (record.ending === 'completed') expect(record.bill).toBe(billOf(PRICES[record.model as keyof typeof PRICES]))
      }
      // The gateway's book is audited at its end.
    },
  )
})

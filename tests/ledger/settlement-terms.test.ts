import { describe, expect } from 'bun:test'
import { noUsage, type Usage } from '../../src/generation/usage.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { ratesOf, type Price } from '../../src/ledger/prices.ts'
import { settlementOf } from '../../src/ledger/settlement.ts'
import type { AttemptRecord } from '../../src/providers/attempt-record.ts'
import { once } from '../stores.ts'

const priceOf = (version: string, rates: Parameters<typeof ratesOf>[0]): Price => ({
  version,
  model: 'm',
  rates: ratesOf(rates),
})
const IMAGES = priceOf('images', { prompt: 5, completion: 40 })
const PRICE = priceOf('v', { prompt: 1, completion: 2 })
const attempt = (provider: string, more: Partial<AttemptRecord> = {}): AttemptRecord => ({
  provider,
  milliseconds: 5,
  ...more,
})

type Options = {
  used?: Partial<Usage>
  worst?: Partial<Usage>
  estimation?: 'counted'
  images?: object
  price?: Price | undefined
  /** The price of what the provider charges for the model; that of the image model is `IMAGES`. */
  cost?: Price | undefined
  meter?: (meter: Meter) => void
}

/** The settlement of a complete response of `acme`. */
function settled({ used, worst, estimation, images, meter: change, ...prices }: Options = {}) {
  const meter = new Meter(() => Promise.resolve(1))
  meter.served = { provider: 'acme', model: 'm' }
  meter.attempts.push(attempt('acme'))
  meter.record([{ type: 'finish', reason: 'stop', raw: 'stop' }])
  change?.(meter)
  meter.close('completed')
  const price = 'price' in prices ? prices.price : PRICE
  const request = {
    id: 'g',
    kind: 'pay-as-you-go',
    accountId: 'a',
    model: 'acme/m',
    discount: 0,
    price,
    worst: { ...noUsage(), outputTokens: 1_000, ...worst },
    classes: images && { factors: {}, requested: {}, images },
  }
  const terms = settlementOf(
    { request, hold: { amount: 0n }, meter } as never,
    { usage: { ...noUsage(), ...used }, estimation },
    {
      wallet: undefined,
      plans: {} as never,
      prices: {
        cost: (_provider, model) => (model === 'draws' ? IMAGES : prices.cost),
        named: () => IMAGES,
      },
    },
  )
  return terms
}

describe('the record of a generation', () => {
  once('has what the provider reported, its price and nothing that did not happen', () => {
    const { record, bill, dispute } = settled({ used: { inputTokens: 10, outputTokens: 5 } })
    expect(record).toMatchObject({
      provider: 'acme',
      estimated: false,
      estimation: null,
      disputed: null,
      retries: 0,
      attempts: null,
      translation: null,
      finish: 'stop',
      ending: 'completed',
    })
    expect([record.price?.version, bill, dispute]).toEqual(['v', 20_000n, undefined])
  })

  once('says which counts were counted or disputed', () => {
    const { record, dispute } = settled({ used: { outputTokens: 1_001 }, estimation: 'counted' })
    expect(record).toMatchObject({ estimated: true, estimation: 'counted', disputed: '{"outputTokens":1001}' })
    expect(record.usage.outputTokens).toBe(1_000)
    expect(dispute).toContain('acme reported outputTokens 1001')
  })

  once('of a model without a price has none, and no bill', () => {
    const { record, bill } = settled({ used: { outputTokens: 5 }, price: undefined })
    expect([record.price, bill]).toEqual([null, 0n])
  })

  once('lists losses, also a single one', () => {
    const losses = [{ code: 'dropped_field', path: 'seed', effect: 'dropped', reason: 'no such field' }] as never
    expect(settled({ meter: (meter) => void (meter.losses = losses) }).record.translation).toContain('seed')
  })
})

describe('the attempts in a record', () => {
  const shown = (change: (meter: Meter) => void): unknown => {
    const { record } = settled({ meter: change })
    return [record.provider, record.retries, JSON.parse(record.attempts ?? 'null')]
  }

  once('are listed where there were several, or one says more than its model', () => {
    expect(shown((meter) => meter.attempts.unshift(attempt('other')))).toEqual([
      'acme',
      1,
      [attempt('other'), attempt('acme')],
    ])
    for (const more of [{ error: 'upstream_error' }, { credential: 'two' }, { missedCacheTokens: 9 }, { model: 'n' }])
      expect(shown((meter) => Object.assign(meter.attempts[0]!, more))).toEqual([
        'acme',
        0,
        [attempt('acme', more as {})],
      ])
    expect(shown((meter) => void (meter.attempts[0]!.model = 'm'))).toEqual(['acme', 0, null])
  })

  once('name the provider that was asked last where none responded', () => {
    const unserved = (meter: Meter): void => {
      meter.served = undefined
      meter.attempts.push(attempt('last'))
    }
    expect(shown(unserved)).toMatchObject(['last', 1, [{}, {}]])
  })

  once('say why no provider was asked', () => {
    const unasked = (meter: Meter): void => {
      meter.served = undefined
      meter.attempts.length = 0
      meter.unasked = { error: 'upstream_rate_limited' }
    }
    expect(shown(unasked)).toEqual([null, 0, [{ milliseconds: 0, error: 'upstream_rate_limited' }]])
  })
})

describe('images that a tool of the provider draws', () => {
  const images = { model: 'draws', price: IMAGES }
  const worst = { imageToolOutputImageTokens: 4_000 }
  /** 1,000 tokens of the image model. */
  const DRAWN = 40_000_000n

  once('are charged as they were held where the response was cut off, and not where it is complete', () => {
    const used = { images: 1 }
    expect(settled({ used, worst, images, estimation: 'counted' }).bill).toBe(DRAWN)
    expect(settled({ used, worst, images }).bill).toBe(0n)
    expect(settled({ used, worst, estimation: 'counted' }).bill).toBe(0n)
  })

  once('are charged and paid for at the prices of the image model', () => {
    const used = { outputTokens: 10, imageToolOutputImageTokens: 1_000 }
    const cost = priceOf('cost', { prompt: 1, completion: 1 })
    const { bill, transfers } = settled({ used, worst, images, cost })
    expect(bill).toBe(20_000n + DRAWN)
    expect(transfers.map(({ amount }) => amount)).toContain(10_000n + DRAWN)
    const plain = settled({ used: { outputTokens: 10 }, worst, images, cost })
    expect([plain.bill, plain.record.price?.version]).toEqual([20_000n, 'v'])
  })
})

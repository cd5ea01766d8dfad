import { describe, expect, test } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import { encodeRates } from '../../src/ledger/prices.ts'
import { gateway, generate, get, keys, late, PRICE, record, store, useGateways } from './shown-generations.ts'

useGateways()

describe('costs', () => {
  test('costs are listed by fee item at the price stored with the generation, and their sum is the bill', async () => {
    const shown = await record(gateway, await store(gateway, 'default', { discount: 1_500 }))
    // 1001 x 1.25, 8003 x 0.125, 333 x 10 USD per million, 2 x 0.01 USD; 15 % less, each amount to the nano-USD.
    expect(shown.ratingResponses).toEqual({
      originAmount: 0.025581625,
      discountAmount: 0.003837244,
      billAmount: 0.021744381,
      priceVersion: '2026-01-02',
      ratingDetails: [
        {
          feeItemCode: 'prompt',
          quantity: 1_001,
          rate: 1.25,
          originAmount: 0.00125125,
          discountAmount: 0.000187688,
          billAmount: 0.001063562,
        },
        {
          feeItemCode: 'input_cache_read',
          quantity: 8_003,
          rate: 0.125,
          originAmount: 0.001000375,
          discountAmount: 0.000150056,
          billAmount: 0.000850319,
        },
        {
          feeItemCode: 'completion',
          quantity: 333,
          rate: 10,
          originAmount: 0.00333,
          discountAmount: 0.0004995,
          billAmount: 0.0028305,
        },
        {
          feeItemCode: 'web_search',
          quantity: 2,
          rate: 0.01,
          originAmount: 0.02,
          discountAmount: 0.003,
          billAmount: 0.017,
        },
      ],
    })
    expect(shown.usage).toBe(shown.ratingResponses!.billAmount)
    expect(shown).toMatchObject({ latency: 120, generationTime: 880 })
  })

  test('costs are shown to pay-as-you-go and management keys, never to or of a subscription', async () => {
    const { ratingResponses, usage, ...metered } = await record(gateway, await store(gateway, 'default'))
    expect([usage, ratingResponses?.ratingDetails.length]).toEqual([0.025581625, 4])
    expect(await record(gateway, metered.generationId, keys.management)).toEqual({ ...metered, usage, ratingResponses })
    expect(await record(gateway, metered.generationId, keys.subscription)).toEqual(metered)
    const subscribed = await store(gateway, 'default', { kind: 'subscription', flows: 5n })
    for (const key of [keys.own, keys.subscription, keys.management])
      expect(await record(gateway, subscribed, key)).toEqual({
        ...metered,
        generationId: subscribed,
        createAt: expect.any(String),
      })
  })

  test('costs are shown after the delay, usage at once', async () => {
    const young = await record(
      late,
      await store(late, 'default', { createdAt: Date.now() - 299_000, latency: 500, duration: 500 }),
    )
    expect([
      Object.hasOwn(young, 'usage'),
      Object.hasOwn(young, 'ratingResponses'),
      (young.nativeTokens as { total_tokens: number }).total_tokens,
    ]).toEqual([false, false, 9_337])
    const old = await record(
      late,
      await store(late, 'default', { createdAt: Date.now() - 301_001, latency: 500, duration: 500 }),
    )
    expect([old.usage, old.ratingResponses?.billAmount]).toEqual([0.025581625, 0.025581625])
    // The delay counts from the end.
    const long = await record(
      late,
      await store(late, 'default', { createdAt: Date.now() - 400_000, latency: 50_000, duration: 60_000 }),
    )
    expect(Object.hasOwn(long, 'usage')).toBe(false)
  })

  test('costs are shown at once without a delay, even if the rounded end lies ahead of the clock', async () => {
    const shown = await record(gateway, await store(gateway, 'default', { createdAt: Date.now(), latency: 60_000 }))
    expect(shown.usage).toBe(0.025581625)
  })

  test('costs of a generation that is not charged are 0, even with a fee per request', async () => {
    const rates = encodeRates({ ...PRICE.rates, request: { base: 5_000_000n, tiers: [] } })
    const shown = await record(
      gateway,
      await store(gateway, 'default', {
        usage: noUsage(),
        bill: 0n,
        ending: 'failed',
        finish: 'failed',
        price: { version: 'v', model: 'm', rates },
      }),
    )
    expect(shown).toMatchObject({
      finishReason: 'error',
      ending: 'failed',
      usage: 0,
      ratingResponses: { billAmount: 0, originAmount: 0, priceVersion: 'v', ratingDetails: [] },
    })
    const unpriced = await record(gateway, await store(gateway, 'default', { price: null, bill: 0n }))
    expect([unpriced.usage, unpriced.ratingResponses]).toEqual([
      0,
      { billAmount: 0, discountAmount: 0, originAmount: 0, priceVersion: 'unpriced', ratingDetails: [] },
    ])
  })

  test('costs of a generation follow from its usage and leave the balance', async () => {
    const credits = async (): Promise<number> =>
      (JSON.parse((await get(late, '/v1/management/payg/balance')).text) as { data: { total_credits: number } }).data
        .total_credits
    const before = await credits()
    const shown = await record(
      gateway,
      await generate(gateway, 'chat.completions', 'priced/chat', '[[usage: in=1000 out=200 cached=80]]'),
    )
    expect(shown.ratingResponses).toMatchObject({
      originAmount: 0.00326,
      discountAmount: 0,
      billAmount: 0.00326,
      ratingDetails: [{ feeItemCode: 'prompt' }, { feeItemCode: 'input_cache_read' }, { feeItemCode: 'completion' }],
    })
    const young = await record(
      late,
      await generate(late, 'chat.completions', 'priced/chat', '[[usage: in=1000 out=200 cached=80]]'),
    )
    expect(Object.hasOwn(young, 'usage')).toBe(false)
    expect(before - (await credits())).toBeCloseTo(0.00326, 9)
  })

  test.each([
    ['client-left', 'cancelled'],
    ['timed-out', 'error'],
    ['shutdown', 'error'],
    ['crashed', 'error'],
    ['completed', 'stop'],
  ])('costs of a generation that ended with %s are shown with the reason %s', async (ending, finishReason) => {
    expect(
      await record(gateway, await store(gateway, 'default', { ending, finish: ending, estimated: true })),
    ).toMatchObject({ finishReason, ending, estimated: true, usage: 0.025581625 })
  })
})

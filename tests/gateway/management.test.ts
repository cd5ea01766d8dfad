import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { noUsage } from '../../src/generation/usage.ts'
import { chargesOf, topUp } from '../../src/ledger/book.ts'
import { encodeRates, type Price } from '../../src/ledger/prices.ts'
import { rate } from '../../src/ledger/rating.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { program } from '../program.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { ON_POSTGRES, storeOf, withStoreOption } from '../stores.ts'

/** The routes by which an account reads its generations, balance and plan. */

const pricedModel = (model: string): string => `
  priced/${model}:
    endpoints: [{ provider: sandbox, model: ${model} }]
    price: { prompt: 1.25, completion: 10, input_cache_read: 0.125 }`
const CONFIG = `
limits: { requestsPerMinute: 100000 }
billing: { unpriced: free, delay: DELAY, startingCredit: 12.5 }
providers:
  down: { protocol: chat.completions, baseUrl: 'http://127.0.0.1:9' }
models:
  twice: { endpoints: [{ provider: down, model: any }, { provider: sandbox, model: chat }] }
${['chat', 'responses', 'messages', 'gemini'].map(pricedModel).join('\n')}
`

type Keys = { own: string; subscription: string; management: string; other: string }
type Cost = { billAmount: number; discountAmount: number; originAmount: number }
type Shown = Record<string, unknown> & {
  generationId: string
  usage?: number
  ratingResponses?: Cost & {
    priceVersion: string
    ratingDetails: (Cost & { feeItemCode: string; rate: number; quantity: number })[]
  }
}

let gateway: GatewayProcess
/** A gateway with the longest delay of costs that can be configured. */
let late: GatewayProcess
let keys: Keys
beforeAll(async () => {
  ;[gateway, late] = await Promise.all([
    startGatewayProcess({ config: CONFIG.replace('DELAY', '0s') }),
    startGatewayProcess({ config: CONFIG.replace('DELAY', '5m') }),
  ])
  keys = await keysOf(gateway)
})
afterAll(() => Promise.all([gateway?.stop(), late?.stop()]))

async function keysOf(of: GatewayProcess): Promise<Keys> {
  const options = await withStoreOption(['--data', of.data])
  sluice('accounts', 'create', 'other', '--credit', '3', '--bonus', '0.5', ...options)
  const made = sluice('keys', 'create', '--account', 'other', '--json', ...options)
  const other = (JSON.parse(made) as { text: string }).text
  // The server reads changes of another process within two seconds.
  for (let tries = 0; tries < 100 && (await get(of, '/v1/models', other)).status !== 200; tries++) await Bun.sleep(50)
  return { own: of.key, subscription: of.createdKeys.subscription!, management: of.createdKeys.management!, other }
}

function sluice(...args: string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync([program(), ...args], { env: { PATH: process.env.PATH ?? '' } })
  if (exitCode !== 0) throw new Error(stderr.toString())
  return stdout.toString()
}

type Got = { status: number; headers: Headers; text: string }

async function get(of: GatewayProcess, path: string, key = of.key): Promise<Got> {
  const response = await fetch(of.url + path, { headers: { authorization: `Bearer ${key}` } })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

async function record(of: GatewayProcess, id: string, key?: string): Promise<Shown> {
  const { status, text } = await get(of, `/v1/management/generation?id=${id}`, key)
  expect([status, text]).toEqual([200, expect.stringMatching(/^\{/)])
  return JSON.parse(text) as Shown
}

/** Sends a request. Returns the id of its generation, as in the response. */
const REQUESTS: Record<string, (model: string, text: string, stream: boolean) => { path: string; body: object }> = {
  'chat.completions': (model, content, stream) => ({
    path: '/v1/chat/completions',
    body: { model, stream, max_completion_tokens: 2_500, messages: [{ role: 'user', content }] },
  }),
  responses: (model, input, stream) => ({ path: '/v1/responses', body: { model, stream, input } }),
  messages: (model, content, stream) => ({
    path: '/v1/messages',
    body: { model, stream, max_tokens: 100, messages: [{ role: 'user', content }] },
  }),
  generateContent: (model, text, stream) => ({
    path: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    body: { contents: [{ role: 'user', parts: [{ text }] }] },
  }),
}

async function generate(
  of: GatewayProcess,
  api: string,
  model: string,
  text: string,
  { stream = false, key = of.key } = {},
): Promise<string> {
  const { path, body } = REQUESTS[api]!(model, text, stream)
  const response = await fetch(of.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  return response.headers.get('x-generation-id')!
}

describe('a generation', () => {
  const MODELS: Record<string, { model: string; prefix: string }> = {
    'chat.completions': { model: 'priced/chat', prefix: 'chatcmpl-' },
    responses: { model: 'priced/responses', prefix: 'resp_' },
    messages: { model: 'priced/messages', prefix: 'msg_' },
    generateContent: { model: 'priced/gemini', prefix: '' },
  }

  for (const [api, { model, prefix }] of Object.entries(MODELS)) {
    for (const stream of [false, true]) {
      test(`a generation of ${api}, ${stream ? '' : 'not '}streamed, has every field`, async () => {
        const before = Date.now()
        const id = await generate(
          gateway,
          api,
          model,
          '[[reply: Hello]] [[usage: in=10 out=20 cached=5 reasoning=3]] [[delay: 20ms]]',
          { stream },
        )
        const shown = await record(gateway, id)
        expect(id.startsWith(prefix)).toBe(true)
        expect(shown.latency as number).toBeGreaterThanOrEqual(20)
        if (!stream) expect(shown.generationTime as number).toBeGreaterThanOrEqual(shown.latency as number)
        expect(shown).toEqual({
          api,
          generationId: id,
          model,
          streamed: stream,
          finishReason: 'stop',
          requestRetryTimes: 0,
          finalRetry: true,
          estimated: false,
          ending: 'completed',
          provider: 'sandbox',
          createAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
          generationTime: expect.any(Number),
          latency: expect.any(Number),
          nativeTokens: {
            prompt_tokens: 15,
            completion_tokens: 23,
            total_tokens: 38,
            prompt_tokens_details: { cached_tokens: 5 },
            completion_tokens_details: { reasoning_tokens: 3 },
          },
          usage: 0.000243125,
          ratingResponses: {
            originAmount: 0.000243125,
            discountAmount: 0,
            billAmount: 0.000243125,
            priceVersion: expect.stringMatching(/^(?!unpriced$)/),
            ratingDetails: [
              {
                feeItemCode: 'prompt',
                quantity: 10,
                rate: 1.25,
                originAmount: 0.0000125,
                discountAmount: 0,
                billAmount: 0.0000125,
              },
              {
                feeItemCode: 'input_cache_read',
                quantity: 5,
                rate: 0.125,
                originAmount: 0.000000625,
                discountAmount: 0,
                billAmount: 0.000000625,
              },
              {
                feeItemCode: 'completion',
                quantity: 23,
                rate: 10,
                originAmount: 0.00023,
                discountAmount: 0,
                billAmount: 0.00023,
              },
            ],
          },
        })
        const at = Date.parse(shown.createAt as string)
        // The clock of PostgreSQL may differ from that of this process.
        const differenceMs = ON_POSTGRES ? 1_000 : 0
        expect(at >= before - differenceMs && at <= Date.now() + differenceMs).toBe(true)
        expect(
          [shown.latency, shown.generationTime].every((time) => Number.isInteger(time) && (time as number) >= 0),
        ).toBe(true)
      })
    }
  }

  test('a generation is found under each form of its id and by either parameter', async () => {
    const id = await generate(gateway, 'chat.completions', 'sandbox/chat', 'Hello')
    const shown = await record(gateway, id)
    const unprefixed = id.slice('chatcmpl-'.length)
    for (const query of [
      `id=${unprefixed}`,
      `generate_id=${id}`,
      `id=${id}&generate_id=${id}`,
      `id=resp_${unprefixed}`,
      `id=msg_${unprefixed}`,
      `id=img_${unprefixed}`,
      `id=pred_${unprefixed}`,
    ]) {
      expect(JSON.parse((await get(gateway, `/v1/management/generation?${query}`)).text)).toEqual(shown)
    }
    for (const query of [
      `id=${unprefixed.toUpperCase()}`,
      `id=x_${unprefixed}`,
      `id=${unprefixed.slice(1)}`,
      `id=${id}%20`,
      `id=${id}%00`,
      `id=${'a'.repeat(10_000)}`,
    ]) {
      expect([query.slice(0, 60), (await get(gateway, `/v1/management/generation?${query}`)).status]).toEqual([
        query.slice(0, 60),
        404,
      ])
    }
    for (const query of [
      '',
      'id=',
      'generate_id=',
      `id[]=${id}`,
      `ids=${id}`,
      `id=${id}&id=${unprefixed}`,
      `id=${id}&generate_id=x`,
    ]) {
      const { status, text } = await get(gateway, `/v1/management/generation?${query}`)
      expect([query, status, (JSON.parse(text) as { error: { param: string } }).error.param]).toEqual([
        query,
        400,
        'id',
      ])
    }
  })

  test('a generation that took two attempts lists both', async () => {
    const shown = await record(gateway, await generate(gateway, 'chat.completions', 'twice', 'Hello'))
    expect(shown).toMatchObject({
      requestRetryTimes: 1,
      finalRetry: true,
      provider: 'sandbox',
      attempts: [{ provider: 'down', error: 'upstream_error' }, { provider: 'sandbox' }],
    })
  })

  test.each([
    ['length', 'length'],
    ['tool-calls', 'tool_calls'],
    ['content-filter', 'content_filter'],
    ['stop-sequence', 'stop'],
  ])('a generation that ended with %s is shown as %s', async (directive, finishReason) => {
    const text =
      directive === 'tool-calls'
        ? '[[call: get_weather {"city":"Paris"}]]'
        : `[[reply: Hello]] [[finish: ${directive}]]`
    expect(await record(gateway, await generate(gateway, 'chat.completions', 'sandbox/chat', text))).toMatchObject({
      finishReason,
    })
  })
})

const PRICE: Price = {
  version: '2026-01-02',
  model: 'acme/m',
  rates: {
    prompt: { base: 1_250_000_000n, tiers: [] },
    completion: { base: 10_000_000_000n, tiers: [] },
    input_cache_read: { base: 125_000_000n, tiers: [] },
    web_search: { base: 10_000_000n, tiers: [] },
  },
}
const USAGE = { ...noUsage(), inputTokens: 1_001, cacheReadTokens: 8_003, outputTokens: 333, webSearches: 2 }
let stored = 0

/** Stores a generation that ended earlier, from outside the running server. */
async function store(of: GatewayProcess, account: string, extra: Partial<GenerationRecord> = {}): Promise<string> {
  const beside = await storeOf(of)
  try {
    const accountId = (await beside.accounts.list()).find(({ name }) => name === account)!.id
    const kind = extra.kind ?? 'pay-as-you-go'
    const { bill, origin } = rate(USAGE, PRICE, extra.discount ?? 0)
    const record: GenerationRecord = {
      id: Bun.randomUUIDv7().replaceAll('-', ''),
      accountId,
      keyId: 'key_x',
      client: null,
      kind,
      api: 'messages',
      model: 'acme/m',
      provider: 'acme',
      createdAt: Date.now() - 2_000,
      latency: 120,
      duration: 880,
      streamed: true,
      finish: 'stop',
      ending: 'completed',
      retries: 0,
      attempts: null,
      translation: null,
      estimated: false,
      estimation: null,
      disputed: null,
      usage: USAGE,
      discount: 0,
      held: 1_000_000_000n,
      price: { version: PRICE.version, model: PRICE.model, rates: encodeRates(PRICE.rates) },
      flows: kind === 'subscription' ? 1n : 0n,
      bill: kind === 'subscription' ? origin : bill,
      ...extra,
    }
    // Paid from a top-up of its own, so that the book balances.
    if (record.bill > 0n)
      await beside.ledger.post(
        topUp({
          reference: `test-${of.pid}-${stored++}`,
          at: Date.now(),
          accountId,
          amount: record.bill,
          bonus: false,
        }),
      )
    const paid = kind === 'subscription' ? undefined : { bonus: 0n, credit: record.bill, writtenOff: 0n }
    const windows = (['5_hour', '7_day', 'monthly'] as const).map((window) => ({
      accountId,
      window,
      startedAt: record.createdAt,
      endsAt: record.createdAt + 60_000,
      used: record.flows,
    }))
    await beside.ledger.closeGeneration({
      record,
      transfers: chargesOf(accountId, paid, record.provider, undefined),
      windows: kind === 'subscription' ? windows : [],
      spend: undefined,
      wasOpen: false,
    })
    return `msg_${record.id}`
  } finally {
    await beside.close()
  }
}

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

describe('another account', () => {
  const HEADERS_OF_ITS_OWN = ['date', 'x-request-id', 'request-id']
  const visible = ({ status, headers, text }: Got): unknown => [
    status,
    [...headers].filter(([name]) => !HEADERS_OF_ITS_OWN.includes(name)),
    text,
  ]

  test.each(['/v1/management/generation', '/v1/generation'])(
    'another account receives from %s the response for an unknown id',
    async (path) => {
      const id = await generate(gateway, 'messages', 'sandbox/messages', 'Hello')
      expect((await get(gateway, `${path}?id=${id}`)).status).toBe(200)
      const expected = visible(await get(gateway, `${path}?id=${id}`, keys.other))
      expect(expected).toEqual([404, expect.any(Array), expect.stringContaining('"not_found"')])
      for (const unknown of [
        `msg_${'0'.repeat(32)}`,
        `msg_${'f'.repeat(32)}`,
        'msg_1',
        '%00',
        '../../etc/passwd',
        "' OR 1=1 --",
      ]) {
        expect(visible(await get(gateway, `${path}?id=${unknown}`))).toEqual(expected)
        expect(visible(await get(gateway, `${path}?id=${unknown}`, keys.other))).toEqual(expected)
      }
    },
  )

  test('another account has its own balance and its own generations', async () => {
    const { text } = await get(gateway, '/v1/management/payg/balance', keys.other)
    expect(JSON.parse(text)).toEqual({
      success: true,
      data: { currency: 'usd', total_credits: 3.5, top_up_credits: 3, bonus_credits: 0.5 },
    })
    const id = await generate(gateway, 'responses', 'sandbox/responses', 'Hello', { key: keys.other })
    expect((await record(gateway, id, keys.other)).generationId).toBe(id)
    expect((await get(gateway, `/v1/management/generation?id=${id}`)).status).toBe(404)
  })
})

describe('the routes', () => {
  test('the management routes accept their own kinds of key only', async () => {
    const id = await generate(gateway, 'chat.completions', 'sandbox/chat', 'Hello', { key: keys.subscription })
    const allowed = async (path: string): Promise<number[]> =>
      Promise.all(
        [keys.own, keys.subscription, keys.management, 'sk-ai-v1-unknown'].map(
          async (key) => (await get(gateway, path, key)).status,
        ),
      )
    expect(await allowed(`/v1/management/generation?id=${id}`)).toEqual([200, 200, 200, 401])
    expect(await allowed(`/v1/generation?id=${id}`)).toEqual([200, 200, 200, 401])
    expect(await allowed('/v1/management/payg/balance')).toEqual([200, 403, 200, 401])
    expect(await allowed('/v1/management/subscription/detail')).toEqual([403, 403, 200, 401])
    expect(
      (
        await fetch(`${gateway.url}/v1/management/payg/balance`, {
          method: 'POST',
          headers: { authorization: `Bearer ${keys.own}` },
        })
      ).status,
    ).toBe(405)
  })

  test('the routes at the old path answer the same, are marked deprecated and name the new path', async () => {
    const id = await store(gateway, 'default')
    const [now, old] = [
      await get(gateway, `/v1/management/generation?id=${id}`),
      await get(gateway, `/v1/generation?generate_id=${id}`),
    ]
    expect(old.text).toBe(now.text)
    expect([now.headers.get('deprecation'), now.headers.get('link')]).toEqual([null, null])
    expect(old.headers.get('deprecation')).toMatch(/^@\d+$/)
    expect(Number(old.headers.get('deprecation')!.slice(1)) * 1000).toBeLessThan(Date.now())
    expect(old.headers.get('link')).toBe(`</v1/management/generation?id=${id}>; rel="successor-version"`)
    const unknown = await get(gateway, '/v1/generation?id=x')
    expect([unknown.status, unknown.headers.get('deprecation'), unknown.headers.get('link')]).toEqual([
      404,
      old.headers.get('deprecation'),
      '</v1/management/generation>; rel="successor-version"',
    ])
  })

  test('the plan and its windows are shown; windows begin with the first request', async () => {
    const fresh = await keysOf(late)
    const detail = async (): Promise<Record<string, Record<string, unknown>>> =>
      (
        JSON.parse((await get(late, '/v1/management/subscription/detail', fresh.management)).text) as {
          data: Record<string, Record<string, unknown>>
        }
      ).data
    const before = await detail()
    expect(before).toMatchObject({
      plan: { tier: 'free', amount_usd: 0, interval: 'month' },
      currency: 'usd',
      base_usd_per_flow: 0.03283,
      effective_usd_per_flow: 0.03283,
      account_status: 'healthy',
    })
    expect(before.quota_5_hour).toEqual({
      usage_percentage: 0,
      resets_at: null,
      max_flows: 5,
      used_flows: 0,
      remaining_flows: 5,
      used_value_usd: 0,
      max_value_usd: 0.1642,
    })
    expect(before.quota_monthly).toEqual({ max_flows: 165.6, max_value_usd: 5.4366 })
    await generate(late, 'chat.completions', 'priced/chat', '[[usage: in=1000 out=2000]] [[reply: Hello]]', {
      key: fresh.subscription,
    })
    const { quota_5_hour: after } = await detail()
    // 0.02125 USD of 0.03283 USD each.
    expect(after).toMatchObject({ used_flows: 0.6473, remaining_flows: 4.3527, usage_percentage: 0.1295 })
    expect(Date.parse(after!.resets_at as string) - Date.now()).toBeLessThanOrEqual(5 * 3_600_000)
  })

  test('the management routes answer any invalid query with 400 or 404', async () => {
    const junk = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 80 }),
      fc.constantFrom(
        '%',
        '%ff',
        '%00',
        '%0d%0aX:1',
        '+',
        '..',
        'null',
        'undefined',
        '{}',
        '[]',
        '0'.repeat(32),
        'x'.repeat(3_000),
      ),
    )
    const parameter = fc.tuple(
      fc.constantFrom('id', 'generate_id', 'id[]', 'id.x', 'ID', '__proto__', ''),
      junk,
      fc.boolean(),
    )
    const encode = (value: string): string => encodeURIComponent(value.toWellFormed())
    const query = fc
      .array(parameter, { maxLength: 4 })
      .map((parameters) =>
        parameters
          .map(
            ([name, value, encoded]) =>
              `${name}=${encoded || !/^[\x21-\x7e]*$/.test(value) ? encode(value) : value.replaceAll('#', '')}`,
          )
          .join('&'),
      )
    await fc.assert(
      fc.asyncProperty(query, fc.constantFrom('/v1/management/generation', '/v1/generation'), async (given, path) => {
        expect([400, 404]).toContain((await get(gateway, `${path}?${given}`)).status)
      }),
      { numRuns: 200 },
    )
  }, 30_000)
})

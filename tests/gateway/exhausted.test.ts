import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { audit } from '../../src/ledger/audit.ts'
import { serveSandbox } from '../../src/providers/sandbox/server.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'

/** Streams whose account has less than their output may cost, over HTTP to a provider that streams for a while. */

const KEY = 'sk-subscription-000001'
const OUTPUT_LIMIT = 128_000
const NANO = 1_000_000_000

let provider: ReturnType<typeof serveSandbox>
beforeAll(() => {
  provider = serveSandbox({ host: '127.0.0.1', port: 0 })
})
afterAll(() => provider.stop())

type Account = { usd: number; flows?: number; billing?: object; hedge?: string }

async function withGateway(
  { usd, flows = 1_000_000, billing, hedge }: Account,
  check: (gateway: Gateway, records: () => Promise<GenerationRecord[]>) => Promise<void>,
): Promise<void> {
  const gateway = await startGateway({
    config: Object.entries({
      billing: { startingCredit: usd, delay: '0s', ...billing },
      limits: { requestsPerMinute: 10_000 },
      ...(hedge === undefined ? {} : { routing: { hedge } }),
      keys: [{ key: KEY, kind: 'subscription', account: 'default' }],
      plans: {
        usdPerFlow: 1,
        tiers: { free: { usdPerMonth: 0, flows: { '5_hour': flows, '7_day': flows, monthly: flows } } },
      },
      providers: { far: { protocol: 'chat.completions', baseUrl: `${provider.url}/v1`, apiKey: 'none' } },
      models: {
        long: {
          endpoints: ['m', ...(hedge === undefined ? [] : ['n'])].map((model) => ({ provider: 'far', model })),
          price: { prompt: 0, completion: 20 },
          capabilities: { maxOutputTokens: OUTPUT_LIMIT },
        },
      },
    })
      .map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
      .join(''),
  })
  const store = await storeOf(gateway)
  try {
    await check(gateway, () => store.ledger.generations(undefined, 1_000))
    expect((await audit(store, { overdraft: 0n, usdPerFlow: 1_000_000_000n })).first).toBeUndefined()
  } finally {
    await store.close()
    await gateway.stop()
  }
}

const send = (gateway: Gateway, text: string, more: { key?: string; body?: object } = {}): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${more.key ?? gateway.key}` },
    body: JSON.stringify({ model: 'long', stream: true, messages: [{ role: 'user', content: text }], ...more.body }),
  })

const balanceOf = async (gateway: Gateway): Promise<number> => {
  const response = await fetch(`${gateway.url}/v1/management/payg/balance`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  return ((await response.json()) as { data: { total_credits: number } }).data.total_credits
}

const finishOf = (text: string): string | undefined => /"finish_reason":"(\w+)"/.exec(text)?.[1]
const spentOf = (records: GenerationRecord[]): number => records.reduce((sum, { bill }) => sum + Number(bill), 0) / NANO

describe('pay-as-you-go streams', () => {
  test(
    'ten of a model with 128,000 tokens of output begin on 5 USD, and are whole where they stay within it',
    () =>
      withGateway({ usd: 5 }, async (gateway, records) => {
        const all = await Promise.all(Array.from({ length: 10 }, () => send(gateway, '[[length: 3000]] [[chunk: 50]]')))
        expect(all.map(({ status }) => status)).toEqual(Array(10).fill(200))
        for (const response of all) expect(finishOf(await response.text())).toBe('stop')
        expect((await records()).map(({ ending }) => ending)).toEqual(Array(10).fill('completed'))
        expect(await balanceOf(gateway)).toBeCloseTo(5 - spentOf(await records()), 6)
      }),
    60_000,
  )

  test(
    '64 that race for less than they may cost end at the balance, which is never below zero',
    () =>
      withGateway({ usd: 0.5 }, async (gateway, records) => {
        const all = await Promise.all(
          Array.from({ length: 64 }, async () => {
            const response = await send(gateway, '[[length: 6000]] [[chunk: 50]] [[pace: 1ms]]')
            return { status: response.status, text: await response.text() }
          }),
        )
        const begun = all.filter(({ status }) => status === 200)
        expect(begun.length).toBeGreaterThanOrEqual(10)
        expect(all.filter(({ status }) => status !== 200 && status !== 402)).toEqual([])
        expect(begun.every(({ text }) => text.trimEnd().endsWith('data: [DONE]'))).toBe(true)
        expect(begun.some(({ text }) => finishOf(text) === 'length')).toBe(true)
        const ended = await records()
        expect(ended).toHaveLength(begun.length)
        for (const { ending, bill, held } of ended) if (ending === 'exhausted') expect(bill <= held!).toBe(true)
        const left = await balanceOf(gateway)
        expect(left).toBeGreaterThanOrEqual(0)
      }),
    60_000,
  )

  test(
    'are not advised to have an output limit of 0 where not one token can be paid',
    () =>
      withGateway({ usd: 0.000_01 }, async (gateway) => {
        const refused = await send(gateway, 'x')
        expect(refused.status).toBe(402)
        expect(((await refused.json()) as { error: { message: string } }).error.message).toContain(
          'The balance covers none of its output: add credit, or shorten the request.',
        )
      }),
    60_000,
  )

  test(
    'with several choices hold for each, and end each of them',
    () =>
      withGateway({ usd: 0.2 }, async (gateway, records) => {
        const refused = await send(gateway, '[[length: 6000]]', { body: { n: 8 } })
        expect(refused.status).toBe(402)
        expect(((await refused.json()) as { error: { message: string } }).error.message).toMatch(
          /This request holds \$0\.32\d*, .* set an output limit of at most \d+ tokens/,
        )
        expect(await records()).toEqual([])
      }),
    60_000,
  )

  test(
    'with a long prediction and a small limit are one response each, and end where it does',
    () =>
      withGateway({ usd: 0.1 }, async (gateway, records) => {
        const prediction = { type: 'content', content: 'x'.repeat(40_000) }
        const response = await send(gateway, '[[length: 80]] [[chunk: 10]]', { body: { max_tokens: 100, prediction } })
        expect(finishOf(await response.text())).toBe('stop')
        expect((await records())[0]).toMatchObject({ ending: 'completed', estimated: false })
        expect(spentOf(await records())).toBeCloseTo(80 * 20e-6, 6)
      }),
    60_000,
  )

  test(
    'go on beyond the balance with `finish`, and write the rest off',
    () =>
      withGateway({ usd: 0.05, billing: { whenExhausted: { payAsYouGo: 'finish' } } }, async (gateway, records) => {
        const response = await send(gateway, '[[length: 6000]] [[chunk: 50]]')
        expect(finishOf(await response.text())).toBe('stop')
        expect((await records())[0]).toMatchObject({ ending: 'completed', estimated: false })
        expect(spentOf(await records())).toBeGreaterThan(0.05)
        expect(await balanceOf(gateway)).toBe(0)
      }),
    60_000,
  )
})

test(
  'streams with two endpoints, whose balance ends and whose clients leave, have one record and bill each',
  () =>
    withGateway({ usd: 0.6, hedge: 'p95' }, async (gateway, records) => {
      for (let count = 0; count < 8; count++) await (await send(gateway, 'Hi')).text()
      let left = 0
      const ids = await Promise.all(
        Array.from({ length: 40 }, async (_, n) => {
          const response = await send(gateway, '[[delay: 150ms]] [[length: 3000]] [[chunk: 50]] [[pace: 5ms]]')
          const reader = response.body!.getReader()
          const { value } = await reader.read()
          if (n % 2 === 0) left++
          if (n % 4 === 1) while (!(await reader.read()).done) continue
          await reader.cancel()
          return response.status === 200 ? /"id":"(\w+-\w+)"/.exec(String(Buffer.from(value!)))![1]! : undefined
        }),
      )
      const begun = ids.filter((id) => id !== undefined)
      expect([left, begun.length > 10]).toEqual([20, true])
      let ended = await records()
      while (ended.length < 8 + begun.length) {
        await Bun.sleep(20)
        ended = await records()
      }
      expect(new Set(ended.map(({ id }) => id)).size).toBe(8 + begun.length)
      expect(ended.filter(({ attempts }) => attempts?.includes('hedge lost')).length).toBeGreaterThan(0)
      expect(ended.some(({ ending }) => ending === 'exhausted')).toBe(true)
      expect(ended.every(({ bill, held }) => bill <= held!)).toBe(true)
      expect(await balanceOf(gateway)).toBeCloseTo(0.6 - spentOf(ended), 6)
    }),
  60_000,
)

describe('streams of a subscription', () => {
  test('go on beyond a window, and end there with `cut`', async () => {
    for (const [subscription, finish, ending] of [
      ['finish', 'stop', 'completed'],
      ['cut', 'length', 'exhausted'],
    ])
      await withGateway(
        { usd: 0, flows: 0.05, billing: { whenExhausted: { subscription } } },
        async (gateway, records) => {
          const response = await send(gateway, '[[length: 6000]] [[chunk: 50]] [[pace: 1ms]]', { key: KEY })
          expect(finishOf(await response.text())).toBe(finish)
          const [record] = await records()
          expect(record!.ending).toBe(ending!)
          expect(record!.bill <= record!.held! || ending === 'completed').toBe(true)
          expect(record!.held).toBeGreaterThan(45_000_000n)
          // The window is full, or next to.
          const next = await send(gateway, 'Hello', { key: KEY })
          expect(next.status).toBe(429)
          expect(await next.text()).toMatch(/are left in the monthly quota .* It resets at \d{4}-.*available now/)
        },
      )
  }, 60_000)

  test(
    'in one piece begin with a small hold, too, and are not lowered',
    () =>
      withGateway({ usd: 0, flows: 0.05 }, async (gateway, records) => {
        const response = await send(gateway, '[[length: 6000]]', { key: KEY, body: { stream: false } })
        expect([response.status, response.headers.get('x-sluice-translation')]).toEqual([200, null])
        expect(finishOf(await response.text())).toBe('stop')
        expect((await records())[0]!.ending).toBe('completed')
      }),
    60_000,
  )
})

import { afterAll, beforeAll, expect } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import { chargesOf, topUp } from '../../src/ledger/book.ts'
import { encodeRates, type Price } from '../../src/ledger/prices.ts'
import { rate } from '../../src/ledger/rating.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { storeOf } from '../stores.ts'
import { startGateway, type Gateway } from '../server.ts'

/** Gateways with generations, and the routes by which an account reads them. */

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

type Keys = { own: string; subscription: string; management: string }
type Cost = { billAmount: number; discountAmount: number; originAmount: number }
type Shown = Record<string, unknown> & {
  generationId: string
  usage?: number
  ratingResponses?: Cost & {
    priceVersion: string
    ratingDetails: (Cost & { feeItemCode: string; rate: number; quantity: number })[]
  }
}

export let gateway: Gateway
/** A gateway with the longest delay of costs that can be configured. */
export let late: Gateway
export let keys: Keys

/** Starts both gateways for the tests of a file. */
export function useGateways(): void {
  beforeAll(async () => {
    gateway = await startGateway({ config: CONFIG.replace('DELAY', '0s') })
    late = await startGateway({ config: CONFIG.replace('DELAY', '5m') })
    keys = keysOf(gateway)
  })
  afterAll(() => Promise.all([gateway?.stop(), late?.stop()]))
}

export const keysOf = ({ key, createdKeys }: Gateway): Keys => ({
  own: key,
  subscription: createdKeys.subscription!,
  management: createdKeys.management!,
})

export type Got = { status: number; headers: Headers; text: string }

export async function get(of: Gateway, path: string, key = of.key): Promise<Got> {
  const response = await fetch(of.url + path, { headers: { authorization: `Bearer ${key}` } })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

export async function record(of: Gateway, id: string, key?: string): Promise<Shown> {
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

export async function generate(
  of: Gateway,
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

export const PRICE: Price = {
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
export async function store(of: Gateway, account: string, extra: Partial<GenerationRecord> = {}): Promise<string> {
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
          reference: `test-${stored++}`,
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

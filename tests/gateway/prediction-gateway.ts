import { afterAll, beforeAll, beforeEach, expect } from 'bun:test'
import { topUp } from '../../src/ledger/book.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { startGateway, type Gateway } from '../server.ts'
import { gatedProvider, type Gated } from './gated.ts'
import { predictionProvider, Predictions, type Made, type PredictionProvider } from './predicting.ts'
import { storeOf } from '../stores.ts'

/** A gateway whose accounts make predictions at providers that a test controls. */

export const keyOf = (account: string): string => `sk-ai-v1-of-account-${account}-0123456789abcdef`
export const CONCURRENCY = 3
export const WAITING = 4
/** Each has as many predictions as run at once. */
const RACERS = Array.from({ length: 10 }, (_, at) => `racer-${at}`)
const ACCOUNTS = ['mine', 'theirs', 'poor', ...RACERS]

export let gateway: Gateway
export let provider: PredictionProvider
export let other: PredictionProvider
export let gated: Gated
export let mine: Predictions
export let theirs: Predictions
export let poor: Predictions
export let racers: Predictions[]

/** Starts the gateway for the tests of a file. */
export function usePredictionGateway(): void {
  beforeAll(async () => {
    ;[provider, other, gated] = [predictionProvider(), predictionProvider(), gatedProvider()]
    gateway = await startGateway({
      config: `
limits: { requestsPerMinute: 1000000, body: 1MiB }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 }, concurrency: { monitored: 100000, abusive: 100000 } }
billing: { unpriced: refuse }
predictions: { concurrency: ${CONCURRENCY}, waiting: ${WAITING} }
keys: [${ACCOUNTS.map((account) => `{ key: ${keyOf(account)}, account: ${account} }`).join(', ')}]
providers:
  up: { protocol: predictions, baseUrl: "${provider.url}", apiKey: none }
  other: { protocol: predictions, baseUrl: "${other.url}", apiKey: none }
  gated: { protocol: messages, baseUrl: "${gated.url}", apiKey: none }
models:
  maker/flux:
    endpoints: [{ provider: up, model: "maker/flux:${'ab'.repeat(32)}" }]
    price: { request: 0.01, image: 0.04 }
  maker/dear: { endpoints: [{ provider: up, model: maker/dear }], price: { request: 100 } }
  maker/twice:
    endpoints: [{ provider: up, model: maker/twice }, { provider: other, model: maker/twice }]
    price: { request: 0.01 }
  maker/text: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 100, completion: 200 } }
  maker/gated: { endpoints: [{ provider: gated, model: m }], price: { prompt: 1, completion: 2 } }
  maker/image:
    endpoints: [{ provider: sandbox, model: image }]
    price: { image: 0.05 }
    capabilities: { api: images }
  maker/drawing:
    endpoints: [{ provider: sandbox, model: image, protocol: chat.completions }]
    price: { image: 0.05 }
    capabilities: { output: [image] }
`,
    })
    const store = await storeOf(gateway)
    for (const { id, name } of await store.accounts.list())
      await store.ledger.post(topUp({ reference: name, at: 1, accountId: id, amount: 20_000_000_000n, bonus: false }))
    await store.close()
    const clientOf = (account: string): Predictions => new Predictions(gateway.url, keyOf(account))
    ;[mine, theirs, poor] = [clientOf('mine'), clientOf('theirs'), clientOf('poor')]
    racers = RACERS.map(clientOf)
    const credit = async (client: Predictions): Promise<number> =>
      ((await (await client.send('GET', '/v1/management/payg/balance')).json()) as { data: { total_credits: number } })
        .data.total_credits
    for (const client of [mine, theirs, poor, ...racers]) while ((await credit(client)) === 0) await Bun.sleep(50)
  })
  afterAll(async () => {
    gated?.open()
    await gateway?.stop()
    await Promise.all([provider?.stop(), other?.stop(), gated?.stop()])
  })
  beforeEach(() => {
    for (const one of [provider, other])
      Object.assign(one, { creates: 'answer', fails: undefined, onMade: succeedsAtOnce })
  })
}

export const succeedsAtOnce = (made: Made): void =>
  void Object.assign(made, {
    status: 'succeeded',
    output: ['https://files.example/a.png', 'https://files.example/b.png'],
  })
export const stays = (made: Made): void => {
  made.status = 'processing'
}
export const finish = (made: Made): void => succeedsAtOnce(made)

export async function recordOf(id: string): Promise<GenerationRecord | undefined> {
  const store = await storeOf(gateway)
  try {
    return (await store.ledger.generations(undefined, 10_000)).find((record) => `pred_${record.id}` === id)
  } finally {
    await store.close()
  }
}

export async function errorOf(
  response: Promise<Response>,
): Promise<{ status: number; code: string; param: string | null; message: string }> {
  const { status, ...answer } = await response
  const { error } = (await (await response).json()) as {
    error: { code: string; param: string | null; message: string }
  }
  expect(answer).toBeDefined()
  return { status, ...error }
}

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'
import { ask } from './asking.ts'

/** The cost of searches of OpenAI's older and newer tool. */

const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: () =>
    Response.json({
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Found.' }] }],
      usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 },
      tool_usage: { web_search: { num_requests: 2 } },
    }),
})

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: `
providers: { openai: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1", protocol: responses } }
models: { openai/gpt-4o: { price: { prompt: 0, completion: 0, web_search: 0.5 } } }`,
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop(true)
})

const PREVIEW = 'web_search_preview_2025_03_11'

test.each([
  ['openai/gpt-4.1', 'web_search', 10],
  ['openai/gpt-4.1', PREVIEW, 25],
  ['openai/gpt-5', PREVIEW, 10],
  ['openai/gpt-4o', PREVIEW, 500],
])('a search by %s with %s costs %p USD for 1,000', async (model, type, thousand) => {
  const response = await ask({ ...gateway, protocol: 'responses', model, stream: false, more: { tools: [{ type }] } })
  expect([response.status, (await response.text()).length > 0]).toEqual([200, true])
  const store = await storeOf(gateway)
  const records = await store.ledger.generations(undefined, 1_000)
  const transfers = await store.ledger.transfers(undefined, 1_000)
  await store.close()
  const { id, bill, held, usage } = records.toSorted((a, b) => (a.id < b.id ? -1 : 1)).at(-1)!
  const searches = BigInt(2 * thousand) * 1_000_000n
  expect(usage.webSearches).toBe(2)
  expect(bill - searches < 1_000_000n && bill >= searches && held > bill).toBe(true)
  const cost = transfers.find(({ reference, kind }) => reference === id && kind === 'cost')!.amount
  if (thousand !== 500) expect(cost).toBe(bill)
  else expect(cost > 50_000_000n).toBe(true)
})

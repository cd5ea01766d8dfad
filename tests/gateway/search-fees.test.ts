import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'
import { ask } from './asking.ts'

/** Fees for searches of Google's models: for each of Gemini 3, and for a request of Gemini 2 that made any. */

/** Three searches: Google counts each query once, and none without text. */
const QUERIES = ['', 'ruby version', 'ruby news', 'latest ruby', 'ruby version', '']
const grounded = (queries: string[], images: string[] = []): object => ({
  candidates: [
    {
      content: { role: 'model', parts: [{ text: 'Found.' }] },
      finishReason: 'STOP',
      ...(queries.length === 0
        ? {}
        : {
            groundingMetadata: {
              webSearchQueries: queries,
              ...(images.length === 0 ? {} : { imageSearchQueries: images }),
            },
          }),
    },
  ],
  usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 10, totalTokenCount: 20 },
})

let queries = QUERIES
/** Searches for images, whose texts may be those of searches of the web. */
let images: string[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request) =>
    request.url.includes(':stream')
      ? new Response(
          // Google repeats the metadata, and adds to it.
          [queries.slice(0, 1), queries].map((some) => `data: ${JSON.stringify(grounded(some, images))}\n\n`).join(''),
          { headers: { 'content-type': 'text/event-stream' } },
        )
      : Response.json(grounded(queries, images)),
})

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: `providers: { google: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1beta" } }`,
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop(true)
})

const PROTOCOLS = ['chat.completions', 'responses', 'messages', 'generateContent'] as const
const TOOLS = {
  'chat.completions': { web_search_options: {} },
  responses: { tools: [{ type: 'web_search' }] },
  messages: { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
  generateContent: { tools: [{ googleSearch: {} }] },
}
/** Nano-USD of ten tokens of prompt and ten of output, from the price list. */
const TOKENS = { 'google/gemini-2.5-flash': 28_000n, 'google/gemini-3-flash-preview': 35_000n }

const billOf = async (
  protocol: (typeof PROTOCOLS)[number],
  model: keyof typeof TOKENS,
  stream: boolean,
): Promise<[bigint, number]> => {
  const response = await ask({ ...gateway, protocol, model, stream, more: TOOLS[protocol] })
  expect(response.status).toBe(200)
  await response.text()
  const store = await storeOf(gateway)
  const records = await store.ledger.generations(undefined, 1_000)
  await store.close()
  const { bill, usage } = records.toSorted((a, b) => a.createdAt - b.createdAt).at(-1)!
  return [bill - TOKENS[model], usage.webSearches]
}

test.each(PROTOCOLS.flatMap((protocol) => [false, true].map((stream) => [protocol, stream] as const)))(
  'three searches in one response cost one fee of Gemini 2 and three of Gemini 3: %s, streamed: %p',
  async (protocol, stream) => {
    queries = QUERIES
    expect(await billOf(protocol, 'google/gemini-2.5-flash', stream)).toEqual([35_000_000n, 3])
    expect(await billOf(protocol, 'google/gemini-3-flash-preview', stream)).toEqual([42_000_000n, 3])
    queries = ['']
    expect(await billOf(protocol, 'google/gemini-2.5-flash', stream)).toEqual([0n, 0])
  },
)

test.each([false, true])('searches for images cost as those of the web, streamed: %p', async (stream) => {
  queries = ['ruby version', 'latest ruby']
  images = ['ruby version', 'ruby logo', '']
  expect(await billOf('generateContent', 'google/gemini-3-flash-preview', stream)).toEqual([56_000_000n, 4])
  images = []
})

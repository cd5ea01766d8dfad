import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Usage } from '../../src/generation/usage.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { ask } from '../gateway/asking.ts'
import { runs } from '../runs.ts'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'
import { providerUsage } from './provider-usage.ts'
import { haveRecordings, recordings, WITHOUT_OUTPUT, type Recording } from './recordings.ts'
import { frameDataOf, responseContent } from './response-content.ts'

/**
 * Every recorded response, for clients of all protocols, streamed and in one piece: record and bill are those that
 * follow from the provider's usage, computed without the gateway.
 */

const CLIENTS: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
/** The clients of a recording; each time of other protocols. */
const clientsOf = (recording: Recording): ConversationName[] => {
  const first = all.indexOf(recording) % CLIENTS.length
  return [...CLIENTS.slice(first), ...CLIENTS.slice(0, first)].slice(0, runs(1, CLIENTS.length))
}

/** USD per million tokens or per one, all different, so that no bucket can pass for another. */
const PRICE = {
  prompt: 1.01,
  input_cache_read: 0.103,
  input_cache_write_5_min: 1.307,
  input_cache_write_1_h: 2.011,
  input_audio: 3.001,
  input_image: 1.709,
  input_cache_read_audio: 0.211,
  completion: 5.003,
  reasoning: 7.001,
  output_audio: 11.003,
  output_image: 13.007,
  output_video: 17.011,
  image_tool_prompt: 1.123,
  image_tool_input_image: 1.231,
  image_tool_completion: 2.309,
  image_tool_output_image: 2.503,
  web_search: 0.017,
  image: 0.019,
  request: 0.000_023,
}
const ITEMS: Record<keyof Usage, keyof typeof PRICE> = {
  inputTokens: 'prompt',
  cacheReadTokens: 'input_cache_read',
  cacheWrite5mTokens: 'input_cache_write_5_min',
  cacheWrite1hTokens: 'input_cache_write_1_h',
  inputAudioTokens: 'input_audio',
  outputTokens: 'completion',
  reasoningTokens: 'reasoning',
  outputAudioTokens: 'output_audio',
  outputImageTokens: 'output_image',
  webSearches: 'web_search',
  images: 'image',
  inputImageTokens: 'input_image',
  cacheReadAudioTokens: 'input_cache_read_audio',
  outputVideoTokens: 'output_video',
  imageToolInputTokens: 'image_tool_prompt',
  imageToolInputImageTokens: 'image_tool_input_image',
  imageToolOutputTokens: 'image_tool_completion',
  imageToolOutputImageTokens: 'image_tool_output_image',
}

/** Nano-USD: each line rounded half to even. */
function billOf(usage: Usage): bigint {
  let bill = BigInt(Math.round(PRICE.request * 1e9))
  for (const [bucket, item] of Object.entries(ITEMS) as [keyof Usage, keyof typeof PRICE][]) {
    const each = BigInt(Math.round(PRICE[item] * 1e9)) * BigInt(usage[bucket])
    if (item === 'web_search' || item === 'image') {
      bill += each
      continue
    }
    const [whole, rest] = [each / 1_000_000n, each % 1_000_000n]
    bill += rest > 500_000n || (rest === 500_000n && whole % 2n === 1n) ? whole + 1n : whole
  }
  return bill
}

const PROVIDER: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-gemini',
}
const all = recordings().filter(({ status }) => status === 200)
const nameOf = (recording: Recording): string => `${PROVIDER[recording.protocol]}/r${all.indexOf(recording)}`
const framesOf = ({ stream, response }: Recording): unknown[] => {
  const text = new TextDecoder().decode(response())
  return stream ? frameDataOf(text) : [JSON.parse(text)]
}
/** A provider may answer a request for a stream in one piece, not the other way around. */
const streamsOf = ({ stream }: Recording): boolean[] => (stream ? [true] : [false, true])
const contentOf = (recording: Recording): ReturnType<typeof responseContent> =>
  responseContent(recording.protocol, framesOf(recording), recording.stream)

let gateway: Gateway
let upstream: ReturnType<typeof Bun.serve>
const records = new Map<string, GenerationRecord>()

beforeAll(async () => {
  if (!haveRecordings) return
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      if (request.method !== 'POST') return new Response(null, { status: 503 })
      const name =
        /models\/r(\d+):/.exec(request.url)?.[1] ?? ((await request.json()) as { model: string }).model.slice(1)
      const recording = all[Number(name)]!
      return new Response(recording.response(), { headers: { 'content-type': recording.contentType } })
    },
  })
  const providers = Object.entries(PROVIDER).map(
    ([protocol, id]) =>
      `  ${id}: { protocol: ${protocol}, baseUrl: "http://127.0.0.1:${upstream.port}/v1", apiKey: none }\n`,
  )
  // Written once: its text of each model took as long to read as a third of the requests.
  const models = all.map(
    (recording, index) =>
      `  ${nameOf(recording)}: { price: ${index === 0 ? `&price ${JSON.stringify(PRICE)}` : '*price'} }\n`,
  )
  gateway = await startGateway({
    config: `limits: { requestsPerMinute: 1000000 }\nproviders:\n${providers.join('')}models:\n${models.join('')}`,
  })
  for (const recording of all)
    for (const protocol of clientsOf(recording))
      for (const stream of streamsOf(recording)) {
        const response = await ask({ ...gateway, protocol, model: nameOf(recording), stream, limit: 64_000 })
        await response.text()
      }
  const store = await storeOf(gateway)
  for (const record of await store.ledger.generations(undefined, 100_000))
    records.set(`${record.model} ${record.api} ${record.streamed}`, record)
  await store.close()
}, 600_000)
afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

describe.skipIf(!haveRecordings)('bills of recorded responses', () => {
  for (const recording of all) {
    const content = contentOf(recording)
    // The provider continues in the background and has not reported usage yet.
    if (content.finishReason === 'queued') continue
    const reported =
      recording.id === WITHOUT_OUTPUT ? undefined : providerUsage(recording.protocol, framesOf(recording))
    test(`${recording.id} is billed as its usage says, whatever the protocol of the client`, () => {
      for (const stream of streamsOf(recording))
        for (const client of clientsOf(recording)) {
          const { usage, bill, ending, estimated } = records.get(`${nameOf(recording)} ${client} ${stream}`)!
          if (content.outcome === 'failed') expect([client, ending]).toEqual([client, 'failed'])
          else {
            const { images } = usage
            expect([client, stream, ending, estimated]).toEqual([client, stream, 'completed', reported === undefined])
            if (reported !== undefined) expect([client, usage]).toEqual([client, { ...reported, images }])
            expect([client, bill]).toEqual([client, billOf(usage)])
          }
        }
    })
  }
})

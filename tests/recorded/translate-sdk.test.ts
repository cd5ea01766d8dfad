import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { anthropic } from '../sdk/anthropic.ts'
import type { Client } from '../sdk/client.ts'
import { genaiGemini } from '../sdk/genai.ts'
import { openaiChat } from '../sdk/openai-chat.ts'
import { openaiResponses } from '../sdk/openai-responses.ts'
import { startGateway, type Gateway } from '../server.ts'
import { haveRecordings, recordings, type Recording } from './recordings.ts'
import { CUT, datasOf, said } from './said.ts'

/** A sample of the recorded answers, one of each kind for each protocol, heard by the official SDKs of the three other protocols. */

const UPSTREAMS: Record<ConversationName, string> = { 'chat.completions': 'up-chat', responses: 'up-responses', messages: 'up-messages', generateContent: 'up-gemini' }

const dataOf = (recording: Recording): unknown[] => {
  const text = new TextDecoder().decode(recording.response())
  return recording.stream ? datasOf(text) : [JSON.parse(text)]
}

/** Edited by hand, so that its deltas contradict its finished item. */
const CONTRADICTS = 'vercel-ai__openai-openai-shell-container.1'

/** What our own use of the SDKs cannot take apart: arguments cut in the middle, and calls of custom tools. */
const BEYOND_CLIENT = new Set([
  'openai chat anthropic-sdk-py__incomplete-partial-json-response', 'openai responses anthropic-sdk-py__incomplete-partial-json-response',
  'openai chat lingua__responsesCustomToolCallStreamingParam-response-streaming', 'openai chat lingua__responsesCustomToolCallStreamingParam-response',
])

function sampleOf(all: Recording[]): Map<string, Recording> {
  const seen = new Set<string>()
  return new Map(all.flatMap((recording, index): [string, Recording][] => {
    if (recording.status >= 300 || recording.id === CONTRADICTS) return []
    const fresh = recording.kinds.map((kind) => `${recording.protocol} ${recording.stream} ${kind}`).filter((kind) => !seen.has(kind))
    for (const kind of fresh) seen.add(kind)
    return fresh.length === 0 ? [] : [[`r${index}`, recording]]
  }))
}

const sample = sampleOf(recordings())
let gateway: Gateway
let upstream: ReturnType<typeof Bun.serve>

beforeAll(async () => {
  if (!haveRecordings) return
  upstream = Bun.serve({
    port: 0, hostname: '127.0.0.1', idleTimeout: 0,
    fetch: async (request) => {
      const name = /models\/([^:]+):/.exec(new URL(request.url).pathname)?.[1] ?? ((await request.json()) as { model: string }).model
      const recording = sample.get(name)!
      return new Response(recording.response(), { headers: { 'content-type': recording.contentType } })
    },
  })
  const providers = Object.entries(UPSTREAMS).map(([protocol, id]) => `  ${id}: { protocol: ${protocol}, baseUrl: "http://127.0.0.1:${upstream.port}/v1", apiKey: none, unlisted: true, fetches: [image, file, audio, video] }\n`)
  gateway = await startGateway({ config: `limits: { requestsPerMinute: 1000000 }\nproviders:\n${providers.join('')}` })
})

afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

test.skipIf(!haveRecordings)('the sample has many recordings', () => expect(sample.size).toBeGreaterThan(150))

for (const client of [openaiChat, openaiResponses, anthropic, genaiGemini] as Client[]) describe.skipIf(!haveRecordings)(`${client.name} hears`, () => {
  for (const [name, recording] of sample) {
    if (recording.protocol === client.protocol || BEYOND_CLIENT.has(`${client.name} ${recording.id}`)) continue
    test(`${recording.protocol} ${recording.stream ? 'streamed' : 'whole'} ${recording.id}`, async () => {
      const source = said(recording.protocol, dataOf(recording), recording.stream)
      const talk = client.open({ url: gateway.url, key: gateway.key, model: `${UPSTREAMS[recording.protocol]}/${name}` }, { stream: recording.stream })
      const answer = talk.say('Hello')
      if (source.ending === 'failed') return expect(await answer.then(() => 'answered', () => 'failed')).toBe('failed')
      const heard = await answer
      // Where an answer cannot carry a medium, a text says so.
      expect(heard.text.replaceAll(/\[(?:image|audio): [^\]]*\]/g, '') + heard.refusal).toBe(source.text)
      expect(heard.reasoning.replaceAll(/\s+/g, '')).toBe(source.reasoning.replaceAll(/\s+/g, ''))
      expect(heard.calls).toHaveLength(source.calls.length)
      for (const [index, { name: tool, input }] of source.calls.entries()) if (input !== CUT) expect(heard.calls[index]).toMatchObject({ name: tool, input })
      if (source.usage !== undefined) expect(heard.usage).toMatchObject({ input: source.usage.prompt, output: source.usage.completion, cached: source.usage.cached })
    })
  }
})

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import type { ConversationName } from '../../src/generation/request.ts'
import { serveSandbox } from '../../src/providers/sandbox/server.ts'
import type { Store } from '../../src/store/store.ts'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'

/**
 * Streams that end because no more can be held for them, as the official SDKs read them: in all protocols, passed
 * through and translated, in the midst of a text, of reasoning and of a tool call.
 */

const PROTOCOLS: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const WORDS = 'every word of it '.repeat(1_500)
const SCRIPTS = {
  text: '[[length: 6000]]',
  reasoning: `[[think: ${WORDS}]] [[reply: Done]]`,
  call: `[[reply: Look]] [[call: get_weather {"city":"${WORDS}"}]]`,
}
type Content = keyof typeof SCRIPTS
type Case = { client: ConversationName; provider: ConversationName; content: Content }
/** Google does not stream calls: there is no midst of one. */
const CASES: Case[] = PROTOCOLS.flatMap((client) =>
  PROTOCOLS.flatMap((provider) =>
    (Object.keys(SCRIPTS) as Content[])
      .filter((content) => content !== 'call' || provider !== 'generateContent')
      .map((content) => ({ client, provider, content })),
  ),
)
const keyOf = (index: number): string => `sk-early-end-${String(index).padStart(6, '0')}`
const [LIMIT_USD, LIMIT_TOKENS] = [0.06, 3_000]
/** Each content has a model of its own, so that a record identifies its case. */
const modelOf = ({ provider, content }: Pick<Case, 'provider' | 'content'>): string => `to-${provider}-${content}`

let provider: ReturnType<typeof serveSandbox>
let gateway: Gateway
let store: Store
beforeAll(async () => {
  provider = serveSandbox({ host: '127.0.0.1', port: 0 })
  gateway = await startGateway({
    config: Object.entries({
      billing: { startingCredit: 1_000 },
      limits: { requestsPerMinute: 10_000 },
      keys: CASES.map((_, index) => ({ key: keyOf(index), limit: LIMIT_USD })),
      providers: Object.fromEntries(
        PROTOCOLS.map((protocol) => [
          `p-${protocol.toLowerCase()}`,
          { protocol, baseUrl: `${provider.url}/${protocol === 'generateContent' ? 'v1beta' : 'v1'}`, apiKey: 'none' },
        ]),
      ),
      models: Object.fromEntries(
        CASES.map((one) => [
          modelOf(one),
          {
            endpoints: [{ provider: `p-${one.provider.toLowerCase()}`, model: 'm' }],
            price: { prompt: 0, completion: 20 },
            capabilities: { maxOutputTokens: 128_000 },
          },
        ]),
      ),
    })
      .map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`)
      .join(''),
  })
  store = await storeOf(gateway)
})
afterAll(async () => {
  await store?.close()
  await gateway?.stop()
  await provider?.stop()
})

type Read = { end: unknown; length: number; outputTokens: number; report: unknown }
/** A stream to be read. `fetch`: for SDKs that take one. */
type Stream = {
  model: string
  text: string
  apiKey: string
  fetch: (url: Url, init?: RequestInit) => Promise<Response>
}
type Url = string | URL | Request

const headers = { 'x-sluice-report': 'body' }
const weather = { type: 'object', properties: { city: { type: 'string' } } } as const

const READERS: Record<ConversationName, (stream: Stream) => Promise<Read>> = {
  async 'chat.completions'({ model, text, apiKey, fetch }) {
    const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0, fetch })
    const stream = openai.chat.completions.stream(
      {
        model,
        messages: [{ role: 'user', content: text }],
        stream_options: { include_usage: true },
        tools: [{ type: 'function', function: { name: 'get_weather', parameters: { ...weather } } }],
      },
      { headers },
    )
    let [length, report]: [number, unknown] = [0, undefined]
    for await (const chunk of stream) {
      const delta = (chunk.choices[0]?.delta ?? {}) as Record<string, unknown>
      length += JSON.stringify(
        delta.content ?? delta.reasoning ?? delta.reasoning_content ?? delta.tool_calls ?? '',
      ).length
      report = (chunk as { sluice?: unknown }).sluice ?? report
    }
    const { choices, usage } = await stream.finalChatCompletion()
    return { end: choices[0]!.finish_reason, length, outputTokens: usage!.completion_tokens, report }
  },
  async responses({ model, text, apiKey, fetch }) {
    const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0, fetch })
    const stream = openai.responses.stream(
      {
        model,
        input: text,
        tools: [{ type: 'function', name: 'get_weather', parameters: { ...weather }, strict: false }],
      },
      { headers },
    )
    const response = await stream.finalResponse()
    const kept = await openai.responses.retrieve(response.id)
    expect(response.output as object[]).toMatchObject(kept.output)
    return {
      end: [response.status, response.incomplete_details?.reason],
      length: JSON.stringify(response.output).length,
      outputTokens: response.usage!.output_tokens,
      report: (response as { sluice?: unknown }).sluice,
    }
  },
  async messages({ model, text, apiKey, fetch }) {
    const anthropic = new Anthropic({ baseURL: gateway.url, apiKey, maxRetries: 0, fetch })
    const stream = anthropic.messages.stream(
      {
        model,
        max_tokens: 100_000,
        messages: [{ role: 'user', content: text }],
        tools: [{ name: 'get_weather', input_schema: { ...weather } }],
      },
      { headers },
    )
    let report: unknown
    stream.on('streamEvent', (event) => (report = (event as { sluice?: unknown }).sluice ?? report))
    const { content, stop_reason, usage } = await stream.finalMessage()
    return { end: stop_reason, length: JSON.stringify(content).length, outputTokens: usage.output_tokens, report }
  },
  async generateContent({ model, text, apiKey }) {
    const genai = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: gateway.url, headers } })
    const stream = await genai.models.generateContentStream({
      model,
      contents: text,
      config: {
        thinkingConfig: { includeThoughts: true },
        tools: [{ functionDeclarations: [{ name: 'get_weather', parametersJsonSchema: weather }] }],
      },
    })
    const read: Read = { end: undefined, length: 0, outputTokens: 0, report: undefined }
    for await (const chunk of stream) {
      const { finishReason, content } = chunk.candidates?.[0] ?? {}
      for (const part of content?.parts ?? []) read.length += (part.text ?? JSON.stringify(part)).length
      read.end = finishReason ?? read.end
      const { candidatesTokenCount = 0, thoughtsTokenCount = 0 } = chunk.usageMetadata ?? {}
      read.outputTokens = candidatesTokenCount + thoughtsTokenCount
    }
    return read
  },
}

/** `text`: what came of the last stream. */
function recordingFetch(): { fetch: Stream['fetch']; text(): Promise<string> } {
  let streamed: Promise<string> | undefined
  return {
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      if (response.headers.get('content-type')?.startsWith('text/event-stream') === true)
        streamed = response.clone().text()
      return response
    },
    text: () => streamed!,
  }
}

/** Asserts that all that was begun in a stream has ended, in order and once. */
function expectClosed(client: ConversationName, text: string): void {
  const frames = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data!))
  const count = (type: string): number => frames.filter((frame) => frame.type === type).length
  if (client === 'messages') {
    expect(count('content_block_stop')).toBe(count('content_block_start'))
    expect(frames.slice(-2).map(({ type }) => type)).toEqual(['message_delta', 'message_stop'])
    expect([count('message_start'), count('message_stop')]).toEqual([1, 1])
  }
  if (client === 'chat.completions') expect(text.trimEnd()).toEndWith('data: [DONE]')
  if (client !== 'responses') return
  for (const kind of ['output_item', 'content_part', 'reasoning_summary_part'])
    expect([kind, count(`response.${kind}.done`)]).toEqual([kind, count(`response.${kind}.added`)])
  expect(frames.map(({ sequence_number: number }) => number)).toEqual(frames.map((_, index) => index))
  const { response } = frames.at(-1)
  const done = frames.filter(({ type }) => type === 'response.output_item.done')
  expect(response.output).toEqual(done.map(({ item }) => item))
  const { item } = done.at(-1)
  expect(item).toMatchObject(item.type === 'reasoning' ? {} : { status: 'incomplete' })
  if (item.type !== 'function_call') return
  const framesOf = (event: string): typeof frames =>
    frames.filter(({ type }) => type === `response.function_call_arguments.${event}`)
  const streamed = framesOf('delta')
    .map(({ delta }) => delta)
    .join('')
  expect([item.arguments, ...framesOf('done').map((frame) => frame.arguments)]).toEqual([streamed, streamed])
}

const END: Record<ConversationName, unknown> = {
  'chat.completions': 'length',
  responses: ['incomplete', 'max_output_tokens'],
  messages: 'max_tokens',
  generateContent: 'MAX_TOKENS',
}

describe.each(PROTOCOLS)('%s', (client) => {
  const cases = CASES.map((one, index) => ({ ...one, index })).filter((one) => one.client === client)

  test.concurrent.each(
    cases.map((one): [string, (typeof cases)[number]] => [`${one.content} of ${one.provider}`, one]),
  )(
    'a stream for which no more can be held ends as at its output limit: %s',
    async (_, { provider: of, content, index }) => {
      const text = `${SCRIPTS[content]} [[chunk: 20]] [[pace: 1ms]]`
      const model = modelOf({ provider: of, content })
      const recorded = recordingFetch()
      const { end, length, outputTokens, report } = await READERS[client]({
        ...{ model, text, apiKey: keyOf(index) },
        fetch: recorded.fetch,
      })
      expect(end).toEqual(END[client])
      if (content === 'text') expect(length).toBeWithin(5_000, 20_000)
      expect(outputTokens).toBeWithin(1, LIMIT_TOKENS + 1)
      // Google's SDK shows only the members that it knows.
      if (client !== 'generateContent')
        expect(report).toMatchObject({
          translation: expect.arrayContaining([expect.objectContaining({ code: 'cut_at_balance' })]),
        })
      if (client !== 'generateContent') expectClosed(client, await recorded.text())
      const records = await store.ledger.generations(undefined, 1_000)
      const own = records.filter((record) => record.api === client && record.model === model)
      expect(own).toHaveLength(1)
      const record = own[0]!
      expect(record).toMatchObject({ ending: 'exhausted', estimated: true })
      expect(record.bill).toBe(BigInt(outputTokens) * 20_000n)
      expect(record.bill <= record.held!).toBe(true)
      expect(record.translation).toContain('limit of the key')
    },
    60_000,
  )
})

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { streamText, type LanguageModel } from 'ai'
import OpenAI from 'openai'
import type { ConversationName } from '../../src/generation/request.ts'
import { startGateway, type Gateway } from '../server.ts'

/**
 * Providers that answer a streaming request with an error body in place of events, under the type of a stream, or with
 * an error in a form of another protocol: the official SDKs skip both, and would read an empty response.
 */

const ERRORS: Record<ConversationName, object> = {
  'chat.completions': { error: { message: 'out of memory', type: 'server_error' } },
  responses: { error: { message: 'out of memory', type: 'server_error' } },
  messages: { type: 'error', error: { type: 'api_error', message: 'out of memory' } },
  generateContent: { error: { code: 500, message: 'out of memory', status: 'INTERNAL' } },
}
const NAMES = Object.keys(ERRORS) as ConversationName[]
const providerOf = (protocol: ConversationName): string => `up-${protocol.toLowerCase()}`

/** The response of the provider; undefined for its protocol's error. */
let body: string | undefined
let provider: Bun.Server<undefined>
let gateway: Gateway
beforeAll(async () => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const name = NAMES.find((protocol) => request.url.includes(`/${providerOf(protocol)}/`))!
      const headers = { 'content-type': 'text/event-stream' }
      return new Response(body ?? JSON.stringify(ERRORS[name], null, 2), { headers })
    },
  })
  const providers = NAMES.map((protocol) => {
    const baseUrl = `"http://127.0.0.1:${provider.port}/${providerOf(protocol)}/v1"`
    return `  ${providerOf(protocol)}: { protocol: ${protocol}, baseUrl: ${baseUrl}, apiKey: none, unlisted: true }\n`
  })
  gateway = await startGateway({ config: `providers:\n${providers.join('')}` })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop(true)
})

/** Reads a stream event by event, as the SDK gives it. */
const READERS: Record<ConversationName, (model: string) => Promise<unknown>> = {
  'chat.completions': async (model) => {
    const messages = [{ role: 'user' as const, content: 'hi' }]
    return Array.fromAsync(await openai().chat.completions.create({ model, messages, stream: true }))
  },
  responses: async (model) =>
    Array.fromAsync(await openai().responses.create({ model, input: 'hi', store: false, stream: true })),
  messages: async (model) => {
    const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: gateway.key, maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: 'hi' }]
    return Array.fromAsync(await anthropic.messages.create({ model, max_tokens: 9, messages, stream: true }))
  },
  generateContent: async (model) => {
    const httpOptions = { baseUrl: gateway.url, apiVersion: 'v1beta' }
    const genai = new GoogleGenAI({ apiKey: gateway.key, httpOptions })
    return Array.fromAsync(await genai.models.generateContentStream({ model, contents: 'hi' }))
  },
}
const openai = (): OpenAI => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 0 })

test.each(NAMES.flatMap((client) => NAMES.map((from): [ConversationName, ConversationName] => [client, from])))(
  'a client of %s gets the error of a provider of %s',
  async (client, from) => {
    body = undefined
    await expect(READERS[client](`${providerOf(from)}/m`)).rejects.toThrow('out of memory')
  },
)

test.each<[ConversationName, string]>([
  ['messages', 'data: {"error":{"message":"out of memory"}}\n\n'],
  ['generateContent', '[{"error":{"code":500,"message":"out of memory","status":"INTERNAL"}}]\n\n'],
])('a client of %s gets an error of its protocol for one in another form', async (client, sent) => {
  body = sent
  await expect(READERS[client](`${providerOf(client)}/m`)).rejects.toThrow('out of memory')
})

/** Reads a stream with the AI SDK, and throws the error that it reports. */
const READERS_OF_AI: Partial<Record<ConversationName, () => LanguageModel>> = {
  'chat.completions': () =>
    createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key }).chat(`${providerOf('chat.completions')}/m`),
  generateContent: () =>
    createGoogleGenerativeAI({ baseURL: `${gateway.url}/v1beta`, apiKey: gateway.key })(
      `${providerOf('generateContent')}/m`,
    ),
}

async function errorOfAi(client: ConversationName): Promise<unknown> {
  const errors: unknown[] = []
  const model = READERS_OF_AI[client]!()
  const result = streamText({ model, prompt: 'hi', maxRetries: 0, onError: ({ error }) => void errors.push(error) })
  await result.consumeStream({ onError: () => undefined })
  return errors[0]
}

const CHUNK = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
const GOOGLE = '{"candidates":[{"content":{"role":"model","parts":[{"text":"Hal"}]}}]}'

test.each<[ConversationName, string, string]>([
  ['chat.completions', 'beside a choice', `${CHUNK}{},"finish_reason":"error"}],"error":{"message":"out of memory"}}`],
  [
    'chat.completions',
    'in a choice',
    `${CHUNK}{},"finish_reason":"error","error":{"code":502,"message":"out of memory"}}]}`,
  ],
  ['chat.completions', 'without a member for it', '{"object":"error","message":"out of memory","code":500}'],
  ['generateContent', 'in a frame', '{"error":{"code":500,"message":"out of memory","status":"INTERNAL"}}'],
])('clients of %s get an error in mid-stream, %s', async (client, _, failure) => {
  const begin = client === 'generateContent' ? GOOGLE : `${CHUNK}{"role":"assistant","content":"Hal"}}]}`
  body = `data: ${begin}\n\ndata: ${failure}\n\n`
  await expect(READERS[client](`${providerOf(client)}/m`)).rejects.toThrow('out of memory')
  expect(JSON.stringify(await errorOfAi(client))).toContain('out of memory')
})

test('clients of generateContent get an error without a field', async () => {
  body = `data: ${GOOGLE}\n\n{"error":{"code":500,"message":"out of memory","status":"INTERNAL"}}\n`
  await expect(READERS.generateContent(`${providerOf('generateContent')}/m`)).rejects.toThrow('out of memory')
  expect(JSON.stringify(await errorOfAi('generateContent'))).toContain('out of memory')
})

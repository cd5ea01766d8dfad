import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ask, failureOf } from './asking.ts'
import { protocolOf, RESPONSE_PIECES } from './scripted.ts'

/** Tools that providers run for fees which their responses do not report. */

const bodies: Record<string, unknown>[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    bodies.push((await request.json()) as Record<string, unknown>)
    return Response.json(
      RESPONSE_PIECES[protocolOf(new URL(request.url).pathname)].whole({ prompt: 10, completion: 10 }),
    )
  },
})

const OTHER = 'sk-ai-v1-0123456789abcdef0123456789abcdef'
const configOf = (more: string): string => `
providers:
  openai: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
  azure: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
  xai: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
  google: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1beta", protocol: generateContent }
  mistral: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
  groq: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
  openrouter: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
  anthropic: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}" }
models:
  openai/m: { price: { prompt: 1, completion: 2 } }
  xai/m: { price: { prompt: 1, completion: 2 } }
  google/m: { price: { prompt: 1, completion: 2 } }
  groq/m: { price: { prompt: 1, completion: 2 } }
  anthropic/m: { price: { prompt: 1, completion: 2 } }
  openai/free: { price: { prompt: 0, completion: 0 } }
  openrouter/own: { price: { prompt: 1, completion: 2 } }
${more}`
const another = `keys: [{ key: ${OTHER}, account: other }]\n`

const code = { type: 'code_interpreter', container: { type: 'auto', memory_limit: '64g' } }

const FUNCTION = { type: 'function', function: { name: 'f', parameters: {} } }
/** A model whose price is in the catalogue, without one of searches. */
const ROUTED = 'openrouter/openai/gpt-5.2'

/** One whose price has one of searches. */
const GPT_6 = 'openrouter/openai/gpt-6-luna'
const parsing = (engine?: string): object => ({ plugins: [{ id: 'file-parser', pdf: { engine } }] })
const pdf = [
  {
    role: 'user',
    content: [{ type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0xLjQ=' } }],
  },
]

const audio = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }] }]

const CHARGED: [protocol: ConversationName, model: string, more: object, param: string][] = [
  ['responses', 'openai/m', { tools: [code] }, 'tools[0]'],
  ['responses', 'openai/m', { tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] }, 'tools[0]'],
  ['responses', 'openai/m', { tools: [{ type: 'shell', environment: { type: 'container_auto' } }] }, 'tools[0]'],
  ['responses', 'xai/m', { tools: [{ type: 'web_search' }, { type: 'code_interpreter' }] }, 'tools[1]'],
  ['generateContent', 'openai/m', { tools: [{ codeExecution: {} }] }, 'tools[0].codeExecution'],
  ['generateContent', 'google/m', { tools: [{ google_maps: {} }] }, 'tools[0].google_maps'],
  ['chat.completions', 'groq/m', { tools: [{ type: 'browser_search' }] }, 'tools[0]'],
  ['chat.completions', 'groq/m', { tools: [{ type: 'code_interpreter' }] }, 'tools[0]'],
  ['responses', 'groq/m', { tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] }, 'tools[0]'],
  ['chat.completions', 'openrouter/own', { tools: [{ type: 'openrouter:web_fetch' }] }, 'tools[0]'],
  ['chat.completions', 'openrouter/own', { tools: [{ type: 'openrouter:image_generation' }] }, 'tools[0]'],
  ['chat.completions', 'openrouter/own', { plugins: [{ id: 'web-fetch' }] }, 'plugins[0]'],
  ['chat.completions', 'openrouter/own', parsing('mistral-ocr'), 'plugins[0]'],
  ['messages', 'openrouter/own', parsing(), 'plugins[0]'],
  ['chat.completions', GPT_6, { plugins: [{ id: 'web', engine: 'exa' }] }, 'plugins[0]'],
  [
    'chat.completions',
    GPT_6,
    { tools: [{ type: 'openrouter:web_search', parameters: { engine: 'exa' } }] },
    'tools[0]',
  ],
  ['chat.completions', 'openrouter/openai/o3-mini', { messages: pdf }, 'messages'],
  ['chat.completions', 'mistral/voxtral-small-latest', { messages: audio }, 'messages'],
  ['chat.completions', ROUTED, { tools: [{ type: 'openrouter:web_search' }] }, 'tools[0]'],
  ['chat.completions', ROUTED, { tools: [{ type: 'openrouter:web_search' }, FUNCTION] }, 'tools[0]'],
  ['responses', 'azure/gpt-5', { tools: [{ type: 'web_search' }] }, 'tools[0]'],
  ['chat.completions', 'azure/grok-4', { web_search_options: {} }, 'web_search_options'],
  ['chat.completions', ROUTED, { plugins: [{ id: 'web' }] }, 'plugins[0]'],
  ['chat.completions', ROUTED, { web_search_options: {} }, 'web_search_options'],
  ['chat.completions', `${ROUTED}:free`, { plugins: [{ id: 'web' }] }, 'plugins[0]'],
  [
    'responses',
    ROUTED,
    { tools: [{ type: 'web_search' }, { type: 'function', name: 'f', parameters: {} }] },
    'tools[0]',
  ],
  ['responses', ROUTED, { plugins: [{ id: 'web' }] }, 'plugins[0]'],
  ['messages', ROUTED, { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'tools[0]'],
  ['generateContent', ROUTED, { tools: [{ googleSearch: {} }] }, 'tools[0].googleSearch'],
  ['generateContent', 'google/gemini-1.5-pro', { tools: [{ googleSearch: {} }] }, 'tools[0].googleSearch'],
  ['chat.completions', 'openrouter/google/gemini-2.5-flash-image:online', { modalities: ['text'] }, 'model'],
  ['chat.completions', 'openrouter/perplexity/sonar', {}, 'model'],
  ['chat.completions', 'openai/gpt-4o-mini-search-preview', {}, 'model'],
]
const runs = { tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] }
const INCLUDED: [protocol: ConversationName, model: string, more: object][] = [
  ['responses', 'openai/m', { tools: [{ type: 'web_search' }] }],
  ['responses', 'openai/m', { tools: [{ type: 'shell' }] }],
  ['responses', 'openai/free', { tools: [code] }],
  ['responses', 'xai/m', { tools: [{ type: 'x_search' }] }],
  ['generateContent', 'google/m', { tools: [{ codeExecution: {} }] }],
  ['generateContent', 'google/m', { tools: [{ googleSearch: {} }] }],
  ['generateContent', 'google/gemini-2.5-flash', { tools: [{ googleSearch: {} }] }],
  ['generateContent', 'google/gemini-3-flash-preview', { tools: [{ googleSearch: {} }] }],
  ['responses', 'openai/gpt-5', { tools: [{ type: 'web_search' }] }],
  ['chat.completions', ROUTED, { tools: [FUNCTION] }],
  ['chat.completions', 'openrouter/own', { plugins: [{ id: 'web' }] }],
  ['chat.completions', 'openrouter/own', parsing('cloudflare-ai')],
  ['chat.completions', 'openrouter/openai/o3-mini', { messages: pdf, ...parsing('cloudflare-ai') }],
  ['chat.completions', ROUTED, { messages: pdf }],
  ['chat.completions', 'openai/gpt-audio', { messages: audio }],
  ['chat.completions', 'openrouter/own', { plugins: [{ id: 'web-fetch', enabled: false }] }],
  ['chat.completions', 'openrouter/own', { plugins: [{ id: 'web', engine: 'exa' }] }],
  ['chat.completions', GPT_6, { plugins: [{ id: 'web', engine: 'native' }] }],
  ['messages', 'anthropic/m', runs],
]

let refusing: Gateway
let several: Gateway
let alone: Gateway
let free: Gateway
beforeAll(async () => {
  several = await startGateway({ config: configOf(another) })
  alone = await startGateway({ config: configOf('') })
  free = await startGateway({ config: configOf(`${another}billing: { unpricedTools: free }\n`) })
  refusing = await startGateway({ config: configOf('billing: { unpricedTools: refuse }\n') })
})
afterAll(async () => {
  for (const gateway of [several, alone, free, refusing]) await gateway.stop()
  await provider.stop(true)
})

const send = ({ url, key }: Gateway, protocol: ConversationName, model: string, more: object): Promise<Response> =>
  ask({ url, key, protocol, model, stream: false, limit: 100, more })

describe.each(CHARGED)('%s to %s: %p', (protocol, model, more, param) => {
  test('is refused where there are several accounts', async () => {
    const before = bodies.length
    expect(await failureOf(await send(several, protocol, model, more), protocol)).toMatchObject({
      status: 400,
      message: expect.stringMatching(/charges a fee.*billing\.unpricedTools/) as unknown,
    })
    expect(bodies.length).toBe(before)
    const refused = await (await send(several, protocol, model, more)).text()
    expect(refused).toContain(param)
  })

  test('is passed on for one account, and where the operator says so', async () => {
    for (const gateway of [alone, free]) expect((await send(gateway, protocol, model, more)).status).toBe(200)
  })
})

test.each(INCLUDED)('%s to %s: %p has no such fee', async (protocol, model, more) => {
  const response = await send(several, protocol, model, more)
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
})

test('a tool with a free quota is refused only where the operator says so', async () => {
  const refusal = await failureOf(await send(refusing, 'messages', 'anthropic/m', runs), 'messages')
  expect(refusal).toMatchObject({
    status: 400,
    message: expect.stringMatching(/^tools\[0\]: Anthropic charges a fee.*billing\.unpricedTools/) as unknown,
  })
  expect((await send(alone, 'messages', 'anthropic/m', runs)).status).toBe(200)
})

test.each([
  ['xai/m', { tools: [{ type: 'code_interpreter' }] }, 'input.tools[0]: xAI charges'],
  ['google/m', { service_tier: 'priority' }, "input.service_tier: 'priority' has no known price for google/m"],
])('a prediction by %s with %p is refused as a generation is', async (model, more, message) => {
  const create = ({ url, key }: Gateway): Promise<Response> =>
    fetch(`${url}/v1/predictions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, input: { prompt: 'hi', ...more } }),
    })
  const before = bodies.length
  const refused = await create(several)
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining(message)])
  expect(bodies.length).toBe(before)
  expect((await create(alone)).ok).toBe(true)
  while (bodies.length === before) await Bun.sleep(5)
})

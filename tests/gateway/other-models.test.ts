import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ask, failureOf } from './asking.ts'
import { RESPONSE_PIECES } from './scripted.ts'

/** Other models that a request has its provider use, at a running gateway. */

const bodies: Record<string, unknown>[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    bodies.push((await request.json()) as Record<string, unknown>)
    const protocol = new URL(request.url).pathname.endsWith('/messages') ? 'messages' : 'chat.completions'
    return Response.json(RESPONSE_PIECES[protocol].whole({ prompt: 10, completion: 10 }))
  },
})

const OTHER = 'sk-ai-v1-0123456789abcdef0123456789abcdef'
const ONLY_SMALL = 'sk-ai-v1-123456789abcdef0123456789abcdef0'
const WITH_LARGE = 'sk-ai-v1-23456789abcdef0123456789abcdef01'

const configOf = (keys: string): string => `billing: { delay: 0s }
providers:
  anthropic-like: { protocol: messages, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
  openrouter-like: { protocol: chat.completions, baseUrl: "http://127.0.0.1:${provider.port}/v1" }
models:
  anthropic-like/small: { price: { prompt: 1, completion: 2 } }
  openrouter-like/small: { price: { prompt: 1, completion: 2 } }
keys: [${keys}]
`
const advisor = { type: 'advisor_20260301', name: 'advisor', model: 'large' }
const lookUp = { name: 'look_up', input_schema: { type: 'object', properties: { model: { type: 'string' } } } }
const serverTool = { type: 'openrouter:advisor', parameters: { model: 'large' } }

const ASKED: [ConversationName, more: object, param: string][] = [
  ['messages', { tools: [lookUp, advisor] }, 'tools[1].model'],
  ['messages', { fallbacks: [{ model: 'large' }] }, 'fallbacks[0].model'],
  ['chat.completions', { fallbacks: ['large'] }, 'fallbacks[0]'],
  ['chat.completions', { tools: [serverTool] }, 'tools[0].parameters.model'],
  [
    'chat.completions',
    { plugins: [{ id: 'fusion', analysis_models: ['small', 'large'] }] },
    'plugins[0].analysis_models',
  ],
]

const send = (gateway: Gateway, key: string, protocol: ConversationName, more: object): Promise<Response> => {
  const model = protocol === 'messages' ? 'anthropic-like/small' : 'openrouter-like/small'
  return ask({ url: gateway.url, key, protocol, model, stream: false, limit: 100, more })
}

let several: Gateway
let alone: Gateway
beforeAll(async () => {
  several = await startGateway({ config: configOf(`{ key: ${OTHER}, account: other }`) })
  alone = await startGateway({
    config: configOf(
      `{ key: ${ONLY_SMALL}, models: ['*/small'] }, ` + `{ key: ${WITH_LARGE}, models: ['*/small', '*-like/large'] }`,
    ),
  })
})
afterAll(async () => {
  await Promise.all([several.stop(), alone.stop(), provider.stop(true)])
})

describe.each(ASKED)('another model in a request of %s %j', (protocol, more, param) => {
  test('is refused where its use would have to be billed', async () => {
    const sent = bodies.length
    const response = await send(several, several.key, protocol, more)
    expect(await failureOf(response, protocol)).toMatchObject({
      status: 400,
      message: expect.stringMatching(/large costs|small costs/) as unknown,
    })
    expect(bodies).toHaveLength(sent)
  })

  test('is refused to a key that may not use it', async () => {
    const response = await send(alone, ONLY_SMALL, protocol, more)
    const { status, message } = await failureOf(response, protocol)
    expect([status, message.slice(0, param.length)]).toEqual([403, param])
  })

  test('is passed on where its account is the only one', async () => {
    for (const key of [alone.key, WITH_LARGE]) {
      expect((await send(alone, key, protocol, more)).status).toBe(200)
      expect(bodies.at(-1)).toMatchObject(more)
    }
  })
})

test('a tool of the client and the default of the provider are no other models', async () => {
  for (const more of [{ tools: [lookUp] }, { fallbacks: 'default' }, { fallbacks: null }])
    expect((await send(several, several.key, 'messages', more)).status).toBe(200)
})

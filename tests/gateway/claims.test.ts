import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { PROTOCOLS } from './asking.ts'
import { COUNTED, framed, RESPONSE_PIECES } from './scripted.ts'

/** Responses and records say what happened, and agree with each other. */

type Json = Record<string, any>

/** The provider's whole response, or the frames of its stream. */
let scripted: Json | Json[]
let gateway: Gateway
let upstream: Bun.Server<undefined>
beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () =>
      Array.isArray(scripted)
        ? new Response(framed(scripted), { headers: { 'content-type': 'text/event-stream' } })
        : Response.json(scripted),
  })
  const baseUrl = `http://127.0.0.1:${upstream.port}/v1`
  const providers = PROTOCOLS.map((protocol) => {
    const name = protocol.split('.')[0]!.toLowerCase()
    return `  ${name}: { protocol: ${protocol}, baseUrl: "${baseUrl}", apiKey: k, unlisted: true }\n`
  })
  gateway = await startGateway({ config: `providers:\n${providers.join('')}` })
})
afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

const messages = [{ role: 'user', content: 'Hello' }]

const send = (path: string, body: Json): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const recordOf = async (response: Response): Promise<Json> => {
  const id = response.headers.get('x-generation-id')!
  const found = await fetch(`${gateway.url}/v1/generation?id=${id}`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  return (await found.json()) as Json
}

test('a response that its provider reports as failed is a response with this status', async () => {
  const error = { code: 'server_error', message: 'The model failed, with sk-abcdefghijklmnop.' }
  scripted = { id: 'up', object: 'response', created_at: 1, model: 'm', status: 'failed', output: [], error }
  const response = await send('/v1/responses', { model: 'responses/m', input: 'Hello' })
  const body = (await response.json()) as Json
  expect([response.status, body.status, body.error.code, body.id]).toEqual([
    200,
    'failed',
    'server_error',
    response.headers.get('x-generation-id')!,
  ])
  expect(body.error.message).toContain('[hidden]')
  expect(await recordOf(response)).toMatchObject({ ending: 'failed', finishReason: 'error' })
  const translated = await send('/v1/chat/completions', { model: 'responses/m', messages })
  expect(translated.status).toBe(502)
  expect((await translated.json()) as Json).toMatchObject({ error: { message: expect.stringContaining('failed') } })
})

test('a refusal has one finish reason in response and record', async () => {
  const refusal = { role: 'assistant', content: null, refusal: 'No.' }
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  scripted = { id: 'up', model: 'm', choices: [{ index: 0, message: refusal, finish_reason: 'stop' }], usage }
  const inWords = await send('/v1/chat/completions', { model: 'chat/m', messages })
  expect([((await inWords.json()) as Json).choices[0].finish_reason, (await recordOf(inWords)).finishReason]).toEqual([
    'stop',
    'stop',
  ])
  const read = await send('/v1/messages', { model: 'chat/m', max_tokens: 9, messages })
  expect([((await read.json()) as Json).stop_reason, (await recordOf(read)).finishReason]).toEqual([
    'refusal',
    'content_filter',
  ])
  scripted = {
    id: 'up',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: 'refusal',
    usage: { input_tokens: 1, output_tokens: 1 },
  }
  const silent = await send('/v1/chat/completions', { model: 'messages/m', messages })
  expect([((await silent.json()) as Json).choices[0].finish_reason, (await recordOf(silent)).finishReason]).toEqual([
    'content_filter',
    'content_filter',
  ])
})

test('a translated message stream begins with an estimate of its prompt, which is not charged', async () => {
  const pieces = RESPONSE_PIECES['chat.completions']
  scripted = [...pieces.begin(COUNTED), ...pieces.end(COUNTED), ...pieces.last(COUNTED)].filter(
    (frame): frame is Json => typeof frame === 'object',
  )
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(40_000) } }
  const content = [{ type: 'text', text: 'word '.repeat(800) }, image]
  const body = { model: 'chat/m', max_tokens: 9, stream: true, messages: [{ role: 'user', content }] }
  const response = await send('/v1/messages', body)
  const frames = (await response.text()).split('\n\n').flatMap((frame): Json[] => {
    const data = /^data: (.*)$/m.exec(frame)?.[1]
    return data === undefined ? [] : [JSON.parse(data) as Json]
  })
  const start = frames.find(({ type }) => type === 'message_start')!.message.usage.input_tokens
  expect(start).toBeGreaterThan(1_500)
  expect(start).toBeLessThan(3_000)
  expect(frames.find(({ type }) => type === 'message_delta')!.usage.input_tokens).toBe(COUNTED.prompt)
  expect((await recordOf(response)).nativeTokens.prompt_tokens).toBe(COUNTED.prompt)
  // The provider's own stream is passed on.
  scripted = RESPONSE_PIECES.messages
    .begin(COUNTED)
    .concat(RESPONSE_PIECES.messages.end(COUNTED), RESPONSE_PIECES.messages.last(COUNTED) as object[])
  const own = await (await send('/v1/messages', { ...body, model: 'messages/m' })).text()
  expect(own).toContain(`"input_tokens":${COUNTED.prompt}`)
})

test('a response has the service tier and the form of reasoning of the provider that served it', async () => {
  scripted = {
    id: 'up',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [
      { type: 'thinking', thinking: 'Hm', signature: 'sealed' },
      { type: 'text', text: 'Hello' },
    ],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1, service_tier: 'priority' },
  }
  const chat = (await (await send('/v1/chat/completions', { model: 'messages/m', messages })).json()) as Json
  expect([chat.service_tier, chat.choices[0].message.reasoning_details[0].format]).toEqual([
    'priority',
    'anthropic-claude-v1',
  ])
  const asked = { model: 'messages/m', input: 'Hello', service_tier: 'auto' }
  expect((await (await send('/v1/responses', asked)).json()) as Json).toMatchObject({
    service_tier: 'priority',
  })
})

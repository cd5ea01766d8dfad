import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startGateway, type Gateway } from '../server.ts'

/** `POST /v1/responses/compact`: a provider of the responses API compacts a conversation. */

type Json = Record<string, any>

/** The requests that the provider got, and its next answer. */
const upstream = { requests: [] as { path: string; headers: Headers; body: Json }[], status: 200, answer: {} as object }

const COMPACTED = {
  id: 'resp_theirs',
  object: 'response.compaction',
  created_at: 1_700_000_000,
  output: [
    { id: 'msg_1', type: 'message', role: 'user', status: 'completed', content: [{ type: 'input_text', text: 'Hi' }] },
    { id: 'cmp_1', type: 'compaction', encrypted_content: 'gAAA' },
  ],
  usage: {
    input_tokens: 1000,
    input_tokens_details: { cached_tokens: 400 },
    output_tokens: 50,
    output_tokens_details: { reasoning_tokens: 20 },
    total_tokens: 1050,
  },
  x_new: { kept: [1.0, '12345678901234567890'] },
}

const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { pathname: path } = new URL(request.url)
    upstream.requests.push({ path, headers: request.headers, body: (await request.json()) as Json })
    return Response.json(upstream.answer, { status: upstream.status })
  },
})
const baseUrl = `http://127.0.0.1:${provider.port}/v1`

const NARROW = 'sk-ai-v1-narrow-0123456789abcdef012345'
const PRICE = '{ prompt: 1, completion: 10, input_cache_read: 0.1 }'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: `billing: { delay: 0s }
providers:
  native: { protocol: responses, baseUrl: "${baseUrl}" }
${['chat.completions', 'messages', 'generateContent']
  .map((protocol) => `  ${protocol.toLowerCase().replace('.', '-')}: { protocol: ${protocol}, baseUrl: "${baseUrl}" }`)
  .join('\n')}
models:
  native/m: { price: ${PRICE} }
  chat-completions/m: { price: ${PRICE} }
  messages/m: { price: ${PRICE} }
  generatecontent/m: { price: ${PRICE} }
  mixed:
    endpoints: [{ provider: messages, model: m }, { provider: native, model: m }]
    price: ${PRICE}
  native/dear: { price: { prompt: 1, completion: 1000 }, capabilities: { maxOutputTokens: 1000000 } }
keys:
  - { key: ${NARROW}, models: [native/m], requestsPerMinute: 1 }
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider.stop(true)
})

async function compact(
  body: object,
  { key = gateway.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Headers; body: Json }> {
  upstream.requests.length = 0
  const response = await fetch(`${gateway.url}/v1/responses/compact`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, ...headers },
    body: JSON.stringify(body),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Json }
}

const answerWith = (answer: object, status = 200): void => void Object.assign(upstream, { answer, status })

/** A response of the provider; without usage, its tokens would be counted. */
const responseOf = (output: object[]): object => ({
  id: 'r',
  object: 'response',
  status: 'completed',
  output,
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
})

/** A body with all that the API has, and something that it may have later. */
const BODY = {
  model: 'native/m',
  input: [
    { role: 'user', content: 'Hi' },
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'own' },
    { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"n":1.0}' },
    { type: 'function_call_output', call_id: 'c1', output: 'ok' },
    { id: 'cmp_0', type: 'compaction', encrypted_content: 'gAAA' },
  ],
  instructions: 'Be brief.',
  prompt_cache_key: 'k',
  x_new: { any: true },
}

describe('a compaction', () => {
  test('reaches the provider as it is sent, and its client as it is answered, with the id of its record', async () => {
    answerWith(COMPACTED)
    const { status, headers, body } = await compact(BODY, { headers: { 'openai-beta': 'responses_multi_agent=v1' } })
    const id = headers.get('x-generation-id')!
    expect([status, body]).toEqual([200, { ...COMPACTED, id }])
    expect(id).toStartWith('resp_')
    expect(upstream.requests.map(({ path }) => path)).toEqual(['/v1/responses/compact'])
    expect(upstream.requests[0]!.body).toEqual({ ...BODY, model: 'm' })
    expect(upstream.requests[0]!.headers.get('openai-beta')).toBe('responses_multi_agent=v1')
  })

  test('is metered, billed and recorded', async () => {
    answerWith(COMPACTED)
    const { headers } = await compact(BODY)
    const answer = await fetch(`${gateway.url}/v1/generation?id=${headers.get('x-generation-id')}`, {
      headers: { authorization: `Bearer ${gateway.key}` },
    })
    expect(await answer.json()).toMatchObject({
      api: 'responses',
      model: 'native/m',
      provider: 'native',
      streamed: false,
      ending: 'completed',
      nativeTokens: {
        prompt_tokens: 1000,
        completion_tokens: 50,
        prompt_tokens_details: { cached_tokens: 400 },
        completion_tokens_details: { reasoning_tokens: 20 },
      },
      // 600 input tokens, 400 cached ones, and 50 of output.
      usage: 0.0006 + 0.00004 + 0.0005,
    })
  })

  test('is not stored, and its output goes on in the next request', async () => {
    answerWith(COMPACTED)
    const { body } = await compact(BODY)
    const authorization = `Bearer ${gateway.key}`
    const found = await fetch(`${gateway.url}/v1/responses/${body.id}`, { headers: { authorization } })
    expect(found.status).toBe(404)
    answerWith(responseOf([]))
    await fetch(`${gateway.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization },
      body: JSON.stringify({ model: 'native/m', input: [...body.output, { role: 'user', content: 'Go on.' }] }),
    })
    expect(upstream.requests.at(-1)!.body.input.slice(0, 2)).toEqual(COMPACTED.output)
  })

  test('of a stored conversation has its items, which the provider does not know', async () => {
    answerWith(
      responseOf([
        { id: 'msg_2', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hello' }] },
      ]),
    )
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 0 })
    const first = await client.responses.create({ model: 'native/m', input: 'Hi' })
    answerWith(COMPACTED)
    upstream.requests.length = 0
    const { output, usage } = await client.responses.compact({ model: 'native/m', previous_response_id: first.id })
    expect([output[1]!.type, usage.total_tokens]).toEqual(['compaction', 1050])
    const { body } = upstream.requests[0]!
    expect(body).toMatchObject({ model: 'm', input: [{ role: 'user' }, { role: 'assistant' }] })
    expect(Object.keys(body).toSorted()).toEqual(['input', 'model'])
  })

  test('of a long conversation, which another process reads, is the same', async () => {
    answerWith(COMPACTED)
    const input = [{ role: 'user', content: 'long '.repeat(300_000) }]
    const { status, headers, body } = await compact({ ...BODY, input })
    expect([status, body]).toEqual([200, { ...COMPACTED, id: headers.get('x-generation-id') }])
    expect(upstream.requests.map(({ path, body: sent }) => [path, sent])).toEqual([
      ['/v1/responses/compact', { ...BODY, model: 'm', input }],
    ])
  })

  test('that is long itself is passed on as it is', async () => {
    const output = [{ id: 'cmp_1', type: 'compaction', encrypted_content: 'g'.repeat(400_000) }]
    answerWith({ ...COMPACTED, output })
    const { headers, body } = await compact(BODY)
    expect(body).toEqual({ ...COMPACTED, output, id: headers.get('x-generation-id') })
  })

  test('goes to the endpoint that has it, of a model with several', async () => {
    answerWith(COMPACTED)
    const { status, headers } = await compact({ ...BODY, model: 'mixed' })
    expect([status, headers.get('x-sluice-provider')]).toEqual([200, 'native'])
    expect(upstream.requests.map(({ path }) => path)).toEqual(['/v1/responses/compact'])
  })
})

describe('a compaction is refused', () => {
  test.each(['chat-completions/m', 'messages/m', 'generatecontent/m'])(
    'for %s, whose provider has no such route, with what works instead',
    async (model) => {
      const { status, body } = await compact({ ...BODY, model })
      expect([status, body]).toEqual([
        400,
        {
          error: {
            message: expect.stringMatching(/no provider of '.*' compacts .* responses API .* POST \/v1\/responses/),
            type: 'invalid_request_error',
            param: 'model',
            code: 'unsupported_parameter',
          },
        },
      ])
      expect(upstream.requests).toEqual([])
    },
  )

  test('as a stream', async () => {
    const { status, body } = await compact({ ...BODY, stream: true })
    expect([status, body.error.param, upstream.requests.length]).toEqual([400, 'stream', 0])
  })

  test('where its output cannot be paid, since there is no limit of it to lower', async () => {
    const { status, body } = await compact({ ...BODY, model: 'native/dear' })
    expect([status, body.error.code, upstream.requests.length]).toEqual([402, 'insufficient_credit', 0])
  })

  test('without a key, for another model than those of its key, and above its limit per minute', async () => {
    expect((await compact(BODY, { key: '' })).status).toBe(401)
    answerWith(COMPACTED)
    expect((await compact({ ...BODY, model: 'mixed' }, { key: NARROW })).status).toBe(403)
    const statuses = [await compact(BODY, { key: NARROW }), await compact(BODY, { key: NARROW })]
    expect(statuses.map(({ status }) => status)).toContain(422)
  })

  test('by the provider, with its own error', async () => {
    const error = { message: 'Too short to compact.', type: 'invalid_request_error', param: 'input', code: null }
    answerWith({ error }, 400)
    const { status, body } = await compact(BODY)
    expect([status, body]).toEqual([400, { error }])
  })
})

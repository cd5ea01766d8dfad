import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { startGateway, type Gateway } from '../server.ts'
import { BODIES, CLIENTS, PDF, REQUESTS, SCHEMA, TOOLS, USER } from './dialect-requests.ts'
import { DIALECTS, type Json, providerOf } from './dialects.ts'

/** Providers that refuse what real providers refuse accept the translated requests of every other protocol. */

const CHAT_RESPONSE = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: '{"a":"b"}' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
}
const RESPONSE = {
  id: 'r',
  object: 'response',
  created_at: 1,
  model: 'm',
  status: 'completed',
  output: [
    {
      id: 'i',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: '{"a":"b"}', annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
}
const framesOf = (protocol: ConversationName): (object | string)[] =>
  protocol === 'responses'
    ? [
        { type: 'response.created', response: { ...RESPONSE, status: 'in_progress', output: [] } },
        { type: 'response.completed', response: RESPONSE },
      ]
    : [
        {
          ...CHAT_RESPONSE,
          object: 'chat.completion.chunk',
          choices: [{ index: 0, delta: CHAT_RESPONSE.choices[0]!.message, finish_reason: 'stop' }],
        },
        '[DONE]',
      ]

let upstream: ReturnType<typeof Bun.serve>
let gateway: Gateway
let received: { text: string; refused: string | undefined }

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const text = await request.text()
      if (text === '') return new Response('', { status: 404 })
      const body = JSON.parse(text) as Json
      const { validate, protocol = 'chat.completions' } = Object.entries(DIALECTS).find(
        ([name, { model }]) =>
          model === body.model && new URL(request.url).pathname.startsWith(`/${providerOf(name)}/`),
      )![1]
      received = { text, refused: validate(body) }
      if (received.refused !== undefined)
        return Response.json(
          { error: { message: received.refused, type: 'invalid_request_error', param: null, code: null } },
          { status: 422 },
        )
      if (body.stream !== true) return Response.json(protocol === 'responses' ? RESPONSE : CHAT_RESPONSE)
      return new Response(
        framesOf(protocol)
          .map((frame) => `data: ${typeof frame === 'string' ? frame : JSON.stringify(frame)}\n\n`)
          .join(''),
        { headers: { 'content-type': 'text/event-stream' } },
      )
    },
  })
  const providers = [...new Set(Object.keys(DIALECTS).map(providerOf))].map(
    (id) => `  ${id}: { baseUrl: "http://127.0.0.1:${upstream.port}/${id}", apiKey: k }`,
  )
  const models = Object.entries(DIALECTS).map(
    ([name, { model, protocol = 'chat.completions' }]) =>
      `  d/${name}: { endpoints: [{ provider: ${providerOf(name)}, model: ${model}, protocol: ${protocol} }] }`,
  )
  gateway = await startGateway({
    config: ['limits: { requestsPerMinute: 1000000 }', 'providers:', ...providers, 'models:', ...models, ''].join('\n'),
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

async function post(
  client: ConversationName,
  name: string,
  body: Json,
  stream = false,
): Promise<{ status: number; text: string; losses: string[] }> {
  const path = {
    'chat.completions': '/v1/chat/completions',
    responses: '/v1/responses',
    messages: '/v1/messages',
    generateContent: `/v1beta/models/d/${name}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }[client]
  const answered = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(client === 'generateContent' ? body : { model: `d/${name}`, ...body }),
  })
  const losses = JSON.parse(answered.headers.get('x-sluice-translation') ?? '[]') as { path: string; effect: string }[]
  return {
    status: answered.status,
    text: await answered.text(),
    losses: losses.map(({ path, effect }) => `${path} ${effect}`),
  }
}

describe.each(Object.keys(DIALECTS))('%s', (name) => {
  for (const client of CLIENTS.filter((protocol) => protocol !== DIALECTS[name]!.protocol))
    for (const [what, options] of REQUESTS) {
      if (
        (options.document === true && DIALECTS[name]!.documents === false) ||
        (options.json === true && client === 'messages')
      )
        continue
      test(`accepts ${what} from a client of ${client}`, async () => {
        const { status, text } = await post(
          client,
          name,
          BODIES[client]!({ reasons: DIALECTS[name]!.reasons ?? true, ...options }),
          options.stream,
        )
        expect({ refused: received.refused, status, text: status === 200 ? '' : text }).toEqual({
          refused: undefined,
          status: 200,
          text: '',
        })
      })
    }
})

const sent = (): Json => JSON.parse(received.text) as Json

describe('Mistral', () => {
  test('receives a seed, a document, the beginning of a response and call ids in its own form', async () => {
    await post('generateContent', 'mistral', BODIES.generateContent!({ begun: true, document: true }))
    expect(sent()).toMatchObject({
      random_seed: 7,
      messages: [
        { role: 'system' },
        { content: [{ type: 'text' }, { type: 'document_url', document_url: `data:application/pdf;base64,${PDF}` }] },
        { role: 'assistant', content: 'Once upon', prefix: true },
      ],
    })
    const { losses } = await post('messages', 'mistral', BODIES.messages!({ tools: 'one' }))
    const [, , call, result, between, user] = sent().messages
    expect([call.tool_calls[0].id, between.role, user.role]).toEqual([result.tool_call_id, 'assistant', 'user'])
    expect(losses).toEqual([
      'messages[2].content[0].is_error approximated',
      'messages[2] approximated',
      'thinking dropped',
      'top_k dropped',
      'metadata.user_id dropped',
      'service_tier dropped',
      'system[0].cache_control dropped',
    ])
    await post('messages', 'mistral', BODIES.messages!({ tools: 'one' }))
    expect(sent().messages[2].tool_calls[0].id).toBe(call.tool_calls[0].id)
  })

  test('receives instructions after a response as marked text of the user, and a refusal as text', async () => {
    await post('responses', 'mistral', BODIES.responses!({}))
    expect(sent().messages.map(({ role, content }: Json) => [role, content])).toEqual([
      ['system', 'Be short.'],
      ['user', 'hi'],
      ['assistant', 'Not that.'],
      ['user', '<system>\nMind the time.\n</system>'],
      ['user', 'go on'],
    ])
  })
})

test('a schema that the provider does not accept is described in the prompt and reported', async () => {
  const { losses } = await post('messages', 'deepseek', BODIES.messages!({ schema: true }))
  expect(losses).toContain('output_config.format approximated')
  expect(sent()).toMatchObject({
    response_format: { type: 'json_object' },
    messages: [{ role: 'system', content: expect.stringContaining(JSON.stringify(SCHEMA)) }, {}],
  })
  await post('messages', 'groq-schemas', BODIES.messages!({ schema: true }))
  expect(sent().response_format).toMatchObject({ type: 'json_schema', json_schema: { schema: SCHEMA } })
})

test('a provider without such a tool choice receives only the allowed tools', async () => {
  const names = () => sent().tools.map((tool: Json) => tool.function.name)
  await post('responses', 'deepseek', { ...BODIES.responses!({ tools: 'some' }), reasoning: { effort: 'none' } })
  expect([names(), sent().tool_choice]).toEqual([['look', 'write'], 'required'])
  await post('messages', 'lmstudio', BODIES.messages!({ tools: 'one' }))
  expect([names(), sent().tool_choice]).toEqual([['look'], 'required'])
  await post('messages', 'groq', BODIES.messages!({ tools: 'one' }))
  expect([names(), sent().tool_choice]).toEqual([TOOLS, { type: 'function', function: { name: 'look' } }])
})

test('a field that the provider refuses is reported under its path in the client request', async () => {
  const { losses } = await post('responses', 'groq', BODIES.responses!({}))
  expect(losses).toEqual(
    expect.arrayContaining([
      'top_logprobs dropped',
      'text.verbosity dropped',
      'metadata dropped',
      'service_tier dropped',
      'prompt_cache_key dropped',
      'prompt_cache_retention dropped',
    ]),
  )
  expect((await post('messages', 'openai', BODIES.messages!({ tools: 'one' }))).losses).toContain(
    'tool_choice.disable_parallel_tool_use dropped',
  )
})

// Chat completions accepts no earlier reasoning, and since GPT-5.6 no tools while the model reasons.
test("OpenAI's models are called over responses for clients of other protocols", () => {
  const catalogue = new Catalogue(
    readConfig(
      'providers: { openai: { apiKey: k }, azure: { apiKey: k, baseUrl: "http://127.0.0.1:9/v1" } }',
      'sluice.yaml',
      {},
    ),
  )
  for (const model of ['openai/gpt-5.6-sol', 'openai/o4-mini', 'azure/gpt-5.6-sol'])
    expect(CLIENTS.map((client) => catalogue.endpoints(model, client)[0]!.protocol)).toEqual([
      'responses',
      'responses',
      'responses',
    ])
})

test('errors and finish reasons of other servers are recognized', () => {
  const { readError, readResponse } = protocols['chat.completions'].call
  const listed = [
    { type: 'extra_forbidden', loc: ['body', 'messages', 0, 'user', 'name'], msg: 'Extra inputs are not permitted' },
  ]
  for (const body of [{ object: 'error', message: { detail: listed } }, { detail: listed }])
    expect(readError(422, JSON.stringify(body))).toMatchObject({
      status: 400,
      message: 'messages.0.user.name: Extra inputs are not permitted',
    })
  expect(
    readError(
      400,
      '{"code":"Client specified an invalid argument","error":"Argument not supported on this model: stop"}',
    ).message,
  ).toBe('Argument not supported on this model: stop')
  expect(readError(422, '{"detail":[{"a":1}]}').message).toContain('{"a":1}')
  const finishOf = (reason: string) =>
    readResponse({ ...CHAT_RESPONSE, choices: [{ ...CHAT_RESPONSE.choices[0], finish_reason: reason }] }, {}).find(
      ({ type }) => type === 'finish',
    )
  for (const [raw, reason] of [
    ['model_length', 'length'],
    ['sensitive', 'content-filter'],
    ['model_context_window_exceeded', 'length'],
  ] as const)
    expect(finishOf(raw)).toEqual({ type: 'finish', reason, raw })
  for (const raw of ['error', 'network_error', 'insufficient_system_resource'])
    expect(() => finishOf(raw)).toThrow('The provider')
})

test("a chat client's own body is passed through, and so is the error of its provider", async () => {
  const body = {
    messages: [{ role: 'user', content: 'hi', name: 'x' }],
    seed: 7,
    user: USER,
    response_format: { type: 'json_object' },
  }
  const { status, text } = await post('chat.completions', 'mistral', body)
  expect([status, text]).toEqual([400, expect.stringContaining('Extra inputs are not permitted')])
  expect(sent()).toEqual({ ...body, model: 'mistral-large-2512' })
  expect(
    (
      await post('chat.completions', 'mistral', {
        messages: [{ role: 'user', content: 'hi' }],
        max_completion_tokens: 5,
      })
    ).status,
  ).toBe(200)
})

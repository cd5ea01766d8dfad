import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startGateway, type Gateway } from '../server.ts'
import { countingFetch } from './counting-fetch.ts'

let gateway: Gateway
let client: OpenAI
beforeAll(async () => {
  gateway = await startGateway()
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 0 })
})
afterAll(() => gateway.stop())

/** `rejects` treats an SDK's promise as resolved, since it only sends its request when it is awaited. */
const failure = (request: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(
    request.then(
      () => {
        throw new Error('did not fail')
      },
      (error: unknown) => error,
    ),
  )

const MODELS = ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']
const TOOL_LOOP = `[[call: get_weather {"of":"Paris"}]] [[call: get_time {"of":"Rome"}]]
  [[then]] [[call: get_time {"of":"Oslo"}]]`

test('models are listed and retrieved by name', async () => {
  const ids = (await Array.fromAsync(client.models.list())).map((model) => model.id)
  expect(ids).toEqual(expect.arrayContaining(MODELS))
  expect(await client.models.retrieve('sandbox/chat')).toMatchObject({ id: 'sandbox/chat', object: 'model' })
  expect(await failure(client.models.retrieve('sandbox/none'))).toMatchObject({ status: 404 })
})

test.each(MODELS)('input tokens are counted on %s, with those of the response before', async (model) => {
  const count = async (more: object): Promise<number> => {
    const counted = await client.responses.inputTokens.count({ model, input: 'one two three', ...more })
    expect(counted.object).toBe('response.input_tokens')
    return counted.input_tokens
  }
  const alone = await count({})
  expect(alone).toBeGreaterThanOrEqual(3)
  const { id } = await client.responses.create({ model, input: 'four five six seven' })
  expect(await count({ previous_response_id: id })).toBeGreaterThanOrEqual(alone + 7)
  expect(await failure(client.responses.inputTokens.count({ model, previous_response_id: 'resp_none' }))).toMatchObject(
    {
      status: 404,
      param: 'previous_response_id',
    },
  )
  expect(await failure(client.responses.inputTokens.count({ input: 'one' }))).toMatchObject({
    status: 400,
    param: 'model',
  })
})

test.each(MODELS)('the stream helper keeps all citations of %s', async (model) => {
  const content =
    '[[reply: One.]] [[cite: https://a.example A]] [[cite: https://b.example B]] ' +
    '[[call: look {}]] [[reply: Two.]] [[cite: https://c.example C]]'
  const tools = [{ type: 'function' as const, function: { name: 'look', parameters: {} } }]
  const stream = client.chat.completions.stream({ model, tools, messages: [{ role: 'user', content }] })
  const { message } = (await stream.finalChatCompletion()).choices[0]!
  expect(message.content).toBe('One.Two.')
  expect(message.tool_calls).toHaveLength(1)
  expect(message.annotations!.map(({ url_citation: { title } }) => title)).toEqual(['A', 'B', 'C'])
})

test.each(MODELS)('runTools completes a tool loop on %s, streamed and not', async (model) => {
  for (const stream of [false, true]) {
    const calls: string[] = []
    const tools = ['get_weather', 'get_time'].map((name) => ({
      type: 'function',
      function: {
        name,
        parameters: { type: 'object', properties: { of: { type: 'string' } } },
        parse: JSON.parse,
        function: ({ of }: { of: string }) => {
          calls.push(`${name} ${of}`)
          return `${name} is fine`
        },
      },
    }))
    const runner = client.chat.completions.runTools({
      model,
      stream,
      tools,
      messages: [{ role: 'user', content: TOOL_LOOP }],
    } as never)
    expect(await runner.finalContent()).toMatch(/get_time returned: .*get_time is fine/)
    expect(calls).toEqual(['get_weather Paris', 'get_time Rome', 'get_time Oslo'])
  }
})

describe.each(MODELS)('%s', (model) => {
  test('structured output is parsed by the SDK', async () => {
    const schema = {
      type: 'object',
      properties: { ok: { type: 'boolean' } },
      required: ['ok'],
      additionalProperties: false,
    }
    const chat = await client.chat.completions.parse({
      model,
      messages: [{ role: 'user', content: 'hi' }],
      response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema } },
    })
    expect(chat.choices[0]!.message.parsed).toEqual({ ok: true } as never)
    const response = await client.responses.parse({
      model,
      input: 'hi',
      text: { format: { type: 'json_schema', name: 'a', strict: true, schema } },
    })
    expect(response.output_parsed).toEqual({ ok: true } as never)
  })

  test('a refusal is returned as a refusal', async () => {
    const chat = await client.chat.completions.create({
      model,
      messages: [{ role: 'user', content: '[[refuse: I must not.]]' }],
    })
    const { message, finish_reason } = chat.choices[0]!
    // Google blocks a response without a text of refusal.
    if (model === 'sandbox/gemini') expect(finish_reason).toBe('content_filter')
    else expect(message.refusal ?? message.content).toBe('I must not.')
  })

  test('a stored response is continued, retrieved and deleted', async () => {
    const first = await client.responses.create({ model, input: '[[think: hm]] [[reply: one]]' })
    const second = await client.responses.create({ model, input: 'and then?', previous_response_id: first.id })
    expect(second.output_text).toBe('You said: "and then?".')
    expect((await client.responses.retrieve(first.id)).output_text).toBe('one')
    await client.responses.delete(first.id)
    expect(await failure(client.responses.retrieve(first.id))).toMatchObject({ status: 404 })
    expect(await failure(client.responses.create({ model, input: 'x', previous_response_id: first.id }))).toMatchObject(
      { status: 404 },
    )
  })

  test('a tool loop with signed reasoning is continued by previous_response_id', async () => {
    const tools = [
      { type: 'function' as const, name: 'f', parameters: { type: 'object', properties: {} }, strict: false },
    ]
    for (const stream of [false, true]) {
      const ask = async (body: object) =>
        (stream
          ? await client.responses.stream({ model, tools, ...body } as never).finalResponse()
          : await client.responses.create({ model, tools, ...body } as never)) as OpenAI.Responses.Response
      const first = await ask({
        input: '[[strict-signatures]] [[think: hm]] [[call: f]] [[call: f]]',
        reasoning: { effort: 'low', summary: 'auto' },
      })
      const calls = first.output.flatMap((item) => (item.type === 'function_call' ? [item.call_id] : []))
      expect(calls).toHaveLength(2)
      const second = await ask({
        input: calls.map((call_id) => ({ type: 'function_call_output', call_id, output: 'ok' })),
        previous_response_id: first.id,
      })
      expect(second.output_text).toMatch(/f returned: .*ok.* f returned: .*ok/)
    }
  })

  test('the id in the body is the one in the header', async () => {
    const { data, response } = await client.chat.completions
      .create({ model, messages: [{ role: 'user', content: 'hi' }] })
      .withResponse()
    expect(response.headers.get('x-generation-id')).toBe(data.id)
    expect(data.id).toStartWith('chatcmpl-')
    expect((data as { _request_id?: string })._request_id).toBeTruthy()
    expect((await client.responses.create({ model, input: 'hi' })).id).toStartWith('resp_')
  })
})

test.each([
  ['[[error: 503 busy]]', 2],
  ['[[error: 429 retry-after=0 slow]]', 2],
  ['[[error: 400 odd]]', 1],
])('the SDK sends %s %d times if one retry is allowed', async (content, times) => {
  const counter = countingFetch()
  const retrying = new OpenAI({
    baseURL: `${gateway.url}/v1`,
    apiKey: gateway.key,
    maxRetries: 1,
    fetch: counter.fetch,
  })
  await failure(retrying.chat.completions.create({ model: 'sandbox/chat', messages: [{ role: 'user', content }] }))
  expect(counter.requests).toHaveLength(times)
})

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import { startGateway, type Gateway } from '../server.ts'
import { countingFetch } from './counting-fetch.ts'

let gateway: Gateway
let client: Anthropic
beforeAll(async () => {
  gateway = await startGateway()
  client = new Anthropic({ baseURL: gateway.url, apiKey: gateway.key, maxRetries: 0 })
})
afterAll(() => gateway.stop())

const MODELS = ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']
const TOOL_LOOP = `[[strict-signatures]]
  [[think: hm]] [[call: get_weather {"of":"Paris"}]] [[call: get_time {"of":"Rome"}]]
  [[then]] [[think: well]] [[call: get_time {"of":"Oslo"}]]`

test("models are listed in Anthropic's format", async () => {
  const models = await Array.fromAsync(client.models.list())
  expect(models.map((model) => model.id)).toEqual(expect.arrayContaining(MODELS))
  expect(models[0]).toMatchObject({ type: 'model', display_name: expect.any(String) })
})

describe.each(MODELS)('%s', (model) => {
  test('the tokens of a request are counted', async () => {
    const { input_tokens } = await client.messages.countTokens({
      model,
      messages: [{ role: 'user', content: 'one two three' }],
    })
    expect(input_tokens).toBeGreaterThanOrEqual(3)
  })

  test('the tool runner tries a thread first and then completes a tool loop', async () => {
    for (const stream of [false, true]) {
      const counter = countingFetch()
      const counted = new Anthropic({ baseURL: gateway.url, apiKey: gateway.key, maxRetries: 0, fetch: counter.fetch })
      const calls: unknown[] = []
      const tools = ['get_weather', 'get_time'].map((name) =>
        betaTool({
          name,
          description: name,
          inputSchema: { type: 'object', properties: { of: { type: 'string' } } },
          run: (input) => {
            calls.push([name, input])
            return `${name} is fine`
          },
        }),
      )
      const runner = counted.beta.messages.toolRunner({
        model,
        max_tokens: 4096,
        stream,
        tools,
        thinking: { type: 'enabled', budget_tokens: 2048 },
        messages: [{ role: 'user', content: TOOL_LOOP }],
      } as never)
      const last = await runner
      expect(last.content.map((block) => (block.type === 'text' ? block.text : '')).join('')).toMatch(
        /get_time returned: .*get_time is fine/,
      )
      expect(calls).toEqual([
        ['get_weather', { of: 'Paris' }],
        ['get_time', { of: 'Rome' }],
        ['get_time', { of: 'Oslo' }],
      ])
      expect(counter.requests.map((request) => request.body.thread !== undefined)).toEqual([true, false, false, false])
    }
  })

  test('the stream helper emits text, thinking and signatures as they arrive', async () => {
    const events: string[] = []
    const stream = client.messages
      .stream({
        model,
        max_tokens: 4096,
        thinking: { type: 'enabled', budget_tokens: 2048 },
        messages: [{ role: 'user', content: '[[think: one two]] [[reply: three four]] [[chunk: 1]]' }],
      })
      .on('thinking', (delta) => events.push(`thinking ${delta}`))
      .on('text', (delta) => events.push(`text ${delta}`))
      .on('signature', () => events.push('signature'))
    const message = await stream.finalMessage()
    expect(events.filter((one) => one !== 'signature')).toEqual([
      'thinking one ',
      'thinking two',
      'text three ',
      'text four',
    ])
    // Google signs the text, too. No block can carry that signature: agents would take any block for the result.
    expect(message.content.map((block) => block.type)).toEqual(['thinking', 'text'])
    expect(message.usage.output_tokens).toBeGreaterThan(0)
  })

  test('the answer ends at a stop sequence, which is named if it is known', async () => {
    const { content, stop_reason, stop_sequence } = await client.messages.create({
      model,
      max_tokens: 100,
      stop_sequences: ['END'],
      messages: [{ role: 'user', content: '[[reply: one END two]]' }],
    })
    // Responses has no stop sequences: the gateway ends the answer, so it knows which one it was.
    if (model === 'sandbox/messages' || model === 'sandbox/responses')
      expect([stop_reason, stop_sequence]).toEqual(['stop_sequence', 'END'])
    expect(content).toMatchObject([{ type: 'text', text: 'one ' }])
  })

  test('adaptive thinking with an effort is accepted', async () => {
    const message = (await client.messages.create({
      model,
      max_tokens: 4096,
      thinking: { type: 'adaptive' },
      output_config: { effort: 'low' },
      messages: [{ role: 'user', content: '[[reply: fine]]' }],
    } as never)) as Anthropic.Message
    expect(message.content.findLast((block) => block.type === 'text')).toMatchObject({ text: 'fine' })
    expect((message as { _request_id?: string | null })._request_id).toBeTruthy()
  })
})

test("an error has Anthropic's type for its status", async () => {
  for (const model of MODELS) {
    const ask = (content: string) =>
      client.messages.create({ model, max_tokens: 100, messages: [{ role: 'user', content }] }).then(
        () => undefined,
        (error: unknown) => error,
      )
    expect(await ask('[[error: 429 slow down]]')).toMatchObject({
      status: 429,
      error: { type: 'error', error: { type: 'rate_limit_error' } },
    })
    expect(await ask('[[error: 400 odd]]')).toMatchObject({
      status: 400,
      error: { error: { type: 'invalid_request_error', message: expect.stringContaining('odd') } },
    })
    expect(await ask('[[error: 529 busy]]')).toMatchObject({ error: { error: { type: 'overloaded_error' } } })
  }
})

test.each([
  ['[[error: 529 busy]]', 2],
  ['[[error: 429 retry-after=0 slow]]', 2],
  ['[[error: 400 odd]]', 1],
])('the SDK sends %s %d times if one retry is allowed', async (content, times) => {
  const counter = countingFetch()
  const retrying = new Anthropic({ baseURL: gateway.url, apiKey: gateway.key, maxRetries: 1, fetch: counter.fetch })
  await retrying.messages
    .create({ model: 'sandbox/chat', max_tokens: 100, messages: [{ role: 'user', content }] })
    .then(
      () => {
        throw new Error('did not fail')
      },
      () => undefined,
    )
  expect(counter.requests).toHaveLength(times)
})

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { framesOf, jsonFrames, type Json } from './agents.ts'

/** What must come back, to the letter: the places that some client reads and fails without. */

const MODELS = ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']
const ALL = '[[think: Hm, hm.]] [[reply: One two three four five.]] [[call: look {"at":"a"}]] [[call: look {"at":"b"}]]'
const SCHEMA = { type: 'object', properties: { at: { type: 'string' } } }

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config:
      'limits: { requestsPerMinute: 100000 }\nkeys: [{ key: "sk-ai-v1-onlyonlyonlyonlyonly1", requestsPerMinute: 1 }]\n',
  })
})
afterAll(() => gateway?.stop())

const send = (path: string, body: Json, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
const json = async (response: Response | Promise<Response>): Promise<Json> => (await (await response).json()) as Json

const chat = (model: string, prompt: string, rest: Json = {}): Json => ({
  model,
  messages: [{ role: 'user', content: prompt }],
  tools: [{ type: 'function', function: { name: 'look', parameters: SCHEMA } }],
  ...rest,
})
const messages = (model: string, prompt: string, rest: Json = {}): Json => ({
  model,
  max_tokens: 2000,
  messages: [{ role: 'user', content: prompt }],
  tools: [{ name: 'look', input_schema: SCHEMA }],
  ...rest,
})
const google = (prompt: string, rest: Json = {}): Json => ({
  contents: [{ role: 'user', parts: [{ text: prompt }] }],
  tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: SCHEMA }] }],
  ...rest,
})
const googlePath = (model: string, method: string): string =>
  `/v1/publishers/${model.replace('/', '/models/')}:${method}`

describe.each(MODELS)('chat completions of %s', (model) => {
  const stream = async (prompt: string, rest: Json = {}): Promise<string> =>
    (await send('/v1/chat/completions', chat(model, prompt, { stream: true, ...rest }))).text()

  test('streamed: choices everywhere, one role, identity of calls once, one finish, [DONE] last', async () => {
    const text = await stream(ALL, { stream_options: { include_usage: true } })
    expect(framesOf(text).at(-1)).toEqual({ data: '[DONE]' })
    const chunks = jsonFrames(text)
    const choices = chunks.flatMap((chunk) => {
      expect(structuredClone(chunk)).toMatchObject({
        id: chunks[0]!.id,
        object: 'chat.completion.chunk',
        model,
        created: expect.any(Number),
        choices: expect.any(Array),
      })
      return chunk.choices as Json[]
    })
    expect(choices.every(({ index, delta }) => index === 0 && typeof delta === 'object')).toBe(true)
    expect(choices.filter(({ delta }) => delta.role !== undefined).map(({ delta }) => delta.role)).toEqual([
      'assistant',
    ])
    expect(
      choices.filter(({ finish_reason }) => (finish_reason ?? null) !== null).map(({ finish_reason }) => finish_reason),
    ).toEqual(['tool_calls'])
    const calls = choices.flatMap(({ delta }) => (delta.tool_calls ?? []) as Json[])
    for (const index of [0, 1]) {
      const [first, ...later] = calls.filter((call) => call.index === index)
      expect(first).toMatchObject({ id: expect.stringMatching(/./), type: 'function', function: { name: 'look' } })
      for (const call of later)
        expect([call.id, call.type, call.function.name]).toEqual([undefined, undefined, undefined])
    }
    expect(calls.every(({ index }) => index === 0 || index === 1)).toBe(true)
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } })
  })

  test('reasoning has the formats that the OpenRouter provider keeps, streamed and whole', async () => {
    const whole = (await json(send('/v1/chat/completions', chat(model, ALL)))).choices[0].message
    expect(whole).toMatchObject({ role: 'assistant', reasoning: 'Hm, hm.' })
    const details = [
      ...whole.reasoning_details,
      ...jsonFrames(await stream(ALL)).flatMap(({ choices }) => (choices[0]?.delta.reasoning_details ?? []) as Json[]),
    ]
    expect(details.length).toBeGreaterThan(1)
    for (const { format, index } of details) {
      expect(['anthropic-claude-v1', 'unknown', null, undefined]).toContain(format)
      expect(index).toEqual(expect.any(Number))
    }
  })

  test('a failure in mid-stream is a frame with the error at its top, the last of the stream', async () => {
    const frames = framesOf(await stream('[[length: 12]] [[error-after: 2 529 far too busy]]'))
    expect(frames.at(-1)!.data).not.toBe('[DONE]')
    expect((JSON.parse(frames.at(-1)!.data) as Json).error.message).toContain('far too busy')
    expect(frames.filter(({ data }) => /"finish_reason":"(stop|length|tool_calls)"/.test(data))).toEqual([])
  })

  test.each([
    { stream_options: null },
    { store: false },
    { usage: { include: true } },
    { response_format: { type: 'json_object' } },
    { tool_choice: null },
    { reasoning_effort: null },
    { max_tokens: null, temperature: null, stop: null, n: null },
    { tools: [{ type: 'function', function: { name: 'look', strict: null, parameters: SCHEMA } }] },
    {
      tools: [
        {
          type: 'function',
          function: {
            name: 'look',
            parameters: { $schema: 'http://json-schema.org/draft-07/schema#', ...SCHEMA, additionalProperties: false },
          },
        },
      ],
    },
    {
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'extract',
          strict: true,
          schema: { ...SCHEMA, required: ['at'], additionalProperties: false },
        },
      },
    },
  ])('takes %j', async (rest) => {
    expect((await send('/v1/chat/completions', chat(model, 'Hi', rest))).status).toBe(200)
  })

  test.each([
    [
      [
        { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
        { role: 'user', content: 'a' },
        { role: 'user', content: 'b' },
      ],
    ],
    [
      [
        { role: 'user', content: 'a' },
        {
          role: 'assistant',
          content: '',
          reasoning_content: 'hm',
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', name: 'look', content: [{ type: 'text', text: 'seen' }] },
      ],
    ],
    [
      [
        { role: 'user', content: 'a' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: '' },
      ],
    ],
    [
      [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: 'I' },
      ],
    ],
  ])('takes the conversation %j', async (conversation) => {
    const response = await send('/v1/chat/completions', { ...chat(model, ''), messages: conversation })
    expect([response.status, response.status === 200 ? '' : await response.text()]).toEqual([200, ''])
  })
})

describe.each(MODELS)('responses of %s', (model) => {
  test.each([
    { text: {}, stream: false },
    { tools: [{ type: 'function', name: 'look', strict: null, parameters: SCHEMA }], stream: false },
    { reasoning: {} },
    { previous_response_id: null, instructions: null, metadata: null },
    {
      input: [
        { type: 'message', role: 'system', content: 'Be brief.' },
        { type: 'message', role: 'user', content: 'Hi' },
      ],
    },
    {
      input: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      ],
    },
  ])('takes %j', async (rest) => {
    const answer = await json(send('/v1/responses', { model, input: 'Hi', ...rest }))
    // Clients crash on text parts without annotations.
    expect(answer).toMatchObject({
      object: 'response',
      status: 'completed',
      output: expect.arrayContaining([
        expect.objectContaining({
          type: 'message',
          role: 'assistant',
          content: [expect.objectContaining({ type: 'output_text', annotations: [] })],
        }),
      ]),
    })
  })

  test('streamed: one identity, and a conversation goes on by references to what was streamed', async () => {
    const body = { model, input: [{ role: 'user', content: ALL.replaceAll(/\[\[call.*/g, '') }] }
    const events = jsonFrames(await (await send('/v1/responses', { ...body, stream: true })).text())
    expect(
      new Set(events.flatMap(({ response }) => (response === undefined ? [] : [response.id as string]))).size,
    ).toBe(1)
    const items = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item as Json)
    // Google signs the text too, which makes an item behind it.
    expect(items.map(({ type }) => type)).toEqual(
      model === 'sandbox/gemini' ? ['reasoning', 'message', 'reasoning'] : ['reasoning', 'message'],
    )
    const answer = await json(
      send('/v1/responses', {
        model,
        input: [
          ...body.input,
          ...items.map(({ id }) => ({ type: 'item_reference', id })),
          { role: 'user', content: '[[echo]]' },
        ],
      }),
    )
    expect(JSON.parse(answer.output.at(-1).content[0].text).turns.map(({ role }: Json) => role)).toEqual([
      'user',
      'assistant',
      'user',
    ])
  })
})

describe.each(MODELS)('messages of %s', (model) => {
  const stream = async (prompt: string): Promise<string> =>
    (
      await send(
        '/v1/messages',
        messages(model, prompt, { stream: true, thinking: { type: 'enabled', budget_tokens: 1024 } }),
      )
    ).text()

  test('streamed: an event line on every frame, an index on every block, usage at both ends', async () => {
    const text = await stream(ALL)
    for (const { event, data } of framesOf(text)) expect(event).toBe((JSON.parse(data) as Json).type)
    const frames = jsonFrames(text).filter(({ type }) => type !== 'ping')
    expect(structuredClone(frames[0])).toMatchObject({
      type: 'message_start',
      message: {
        type: 'message',
        role: 'assistant',
        model,
        content: [],
        usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
      },
    })
    expect(frames.at(-2)).toMatchObject({
      type: 'message_delta',
      delta: { stop_reason: 'tool_use' },
      usage: { output_tokens: expect.any(Number) },
    })
    expect(frames.at(-1)).toEqual({ type: 'message_stop' })
    expect(new Set(frames.slice(1, -2).map(({ type }) => type))).toEqual(
      new Set(['content_block_start', 'content_block_delta', 'content_block_stop']),
    )
    const starts = frames.filter(({ type }) => type === 'content_block_start')
    expect(starts.map(({ index }) => index)).toEqual(starts.map((_, i) => i))
    expect(frames.slice(1, -2).every(({ index }) => Number.isInteger(index))).toBe(true)
    // Some clients add the output tokens of both ends. A provider's own stream goes through as it is.
    if (model !== 'sandbox/messages') expect(frames[0]!.message.usage.output_tokens).toBe(0)
  })

  test('whole: its type and usage are there', async () => {
    expect(await json(send('/v1/messages', messages(model, ALL)))).toMatchObject({
      type: 'message',
      role: 'assistant',
      model,
      stop_reason: 'tool_use',
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    })
  })

  test('a failure in mid-stream is an error event, and nothing ends the message', async () => {
    const frames = framesOf(await stream('[[length: 12]] [[error-after: 2 529 far too busy]]'))
    expect(frames.at(-1)!.event).toBe('error')
    expect(JSON.parse(frames.at(-1)!.data)).toMatchObject({
      type: 'error',
      error: { type: 'overloaded_error', message: expect.stringContaining('far too busy') },
    })
    expect(frames.map(({ event }) => event)).not.toContain('message_stop')
  })

  test.each(['2023-06-01', '2026-10-21'])('any version will do: %s', async (version) => {
    expect((await send('/v1/messages', messages(model, 'Hi'), { 'anthropic-version': version })).status).toBe(200)
  })
})

describe.each(MODELS)('generateContent of %s', (model) => {
  test('whole and streamed end with a reason and usage', async () => {
    const whole = await json(send(googlePath(model, 'generateContent'), google(ALL)))
    expect(whole).toMatchObject({
      candidates: [{ finishReason: 'STOP', content: { role: 'model' } }],
      modelVersion: model,
      responseId: expect.any(String),
      usageMetadata: { totalTokenCount: expect.any(Number) },
    })
    const frames = jsonFrames(
      await (await send(googlePath(model, 'streamGenerateContent?alt=sse'), google(ALL))).text(),
    )
    expect(frames.at(-1)).toMatchObject({
      candidates: [{ finishReason: 'STOP' }],
      usageMetadata: { totalTokenCount: whole.usageMetadata.totalTokenCount },
    })
  })

  test('without alt=sse a stream is an array', async () => {
    const answer = await json(
      send(googlePath(model, 'streamGenerateContent'), google('[[reply: One two three four five.]]')),
    )
    expect(
      answer.flatMap(({ candidates }: Json) => candidates[0].content.parts.map(({ text }: Json) => text)).join(''),
    ).toBe('One two three four five.')
  })

  test.each([
    { generationConfig: {} },
    { systemInstruction: { parts: [{ text: 'Be brief.' }] } },
    { systemInstruction: { role: 'user', parts: [{ text: 'Be brief.' }] } },
    { generationConfig: { thinkingConfig: { includeThoughts: true, thinkingLevel: 'LOW' } } },
    {
      tools: [
        {
          functionDeclarations: [
            { name: 'look', parameters: { type: 'OBJECT', properties: { at: { type: 'STRING' } } } },
          ],
        },
      ],
    },
  ])('takes %j', async (rest) => {
    expect(
      (await send(googlePath(model, 'generateContent'), google('Hi', rest), { 'x-server-timeout': '30' })).status,
    ).toBe(200)
  })

  test('a failure in mid-stream is told, and nothing ends the answer', async () => {
    const text = await (
      await send(
        googlePath(model, 'streamGenerateContent?alt=sse'),
        google('[[length: 12]] [[error-after: 2 529 far too busy]]'),
      )
    ).text()
    expect(text).toContain('far too busy')
    expect(text).not.toContain('"finishReason"')
  })
})

describe('failures before the first byte', () => {
  const ROUTES = [
    [
      '/v1/chat/completions',
      chat,
      (status: number) => ({
        error: { message: expect.any(String), type: expect.any(String), param: null, code: expect.any(String) },
        status,
      }),
    ],
    [
      '/v1/responses',
      (model: string, prompt: string, rest: Json = {}) => ({ model, input: prompt, ...rest }),
      (status: number) => ({
        error: { message: expect.any(String), type: expect.any(String), param: null, code: expect.any(String) },
        status,
      }),
    ],
    [
      '/v1/messages',
      messages,
      (status: number) => ({
        type: 'error',
        error: {
          type: status === 400 ? 'invalid_request_error' : status === 429 ? 'rate_limit_error' : 'overloaded_error',
          message: expect.any(String),
        },
        request_id: expect.stringContaining('req_'),
        status,
      }),
    ],
  ] as const

  test.each(ROUTES)('%s has its own shape and its status, streamed too', async (path, body, shape) => {
    for (const model of MODELS)
      for (const stream of [false, true])
        for (const [status, directive] of [
          [400, '[[error: 400 no such thing]]'],
          [429, '[[error: 429 retry-after=3 slow down]]'],
          [503, '[[error: 529 too busy]]'],
        ] as const) {
          const response = await send(path, body(model, directive, { stream }))
          const rawRequest = { ...(await json(response)), status }
          expect(response.headers.get('content-type')).toContain('application/json')
          expect(status === 503 ? [503, 529] : [status]).toContain(response.status)
          // A provider's own body goes through to clients of its protocol.
          if (model !== `sandbox/${path.split('/')[2]!}`) expect(rawRequest).toMatchObject(shape(status) as object)
          if (status === 429) expect(response.headers.get('retry-after')).toBe('3')
          expect(response.headers.get('x-request-id')).toBe(response.headers.get('request-id')!)
        }
  })

  test('generateContent says the status twice, and how long to wait', async () => {
    for (const model of MODELS)
      for (const method of ['generateContent', 'streamGenerateContent?alt=sse']) {
        const response = await send(googlePath(model, method), google('[[error: 429 retry-after=3 slow down]]'))
        expect(response.status).toBe(429)
        expect(await json(response)).toMatchObject({
          error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: expect.stringContaining('slow down') },
        })
      }
  })

  test('the rate limit is the only 422; it says in each protocol when to come again, and costs nothing', async () => {
    const key = 'sk-ai-v1-onlyonlyonlyonlyonly1'
    for (const [path, body] of [
      ['/v1/chat/completions', chat(MODELS[0]!, 'Hi')],
      ['/v1/responses', { model: MODELS[0], input: 'Hi' }],
      ['/v1/messages', messages(MODELS[0]!, 'Hi')],
      [googlePath(MODELS[0]!, 'generateContent'), google('Hi')],
    ] as const) {
      const statuses: number[] = []
      for (let n = 0; n < 4; n++) {
        const response = await send(path, body, { authorization: `Bearer ${key}` })
        statuses.push(response.status)
        if (n === 0) {
          await response.text()
          continue
        }
        expect([response.headers.get('x-should-retry'), Number(response.headers.get('retry-after')) > 0]).toEqual([
          'true',
          true,
        ])
        const { error } = await json(response)
        if (path.includes('messages')) expect(error.type).toBe('rate_limit_error')
        else if (path.includes('publishers'))
          expect(error.details).toContainEqual(
            expect.objectContaining({ retryDelay: expect.stringMatching(/^[\d.]+s$/) }),
          )
        else expect(error.code).toBe('rate_limit_exceeded')
      }
      expect(statuses).toEqual([200, 422, 422, 422])
    }
  })

  test('wrong input is 400 everywhere', async () => {
    for (const model of MODELS) {
      expect((await send('/v1/chat/completions', chat(model, 'Hi', { temperature: 'hot' }))).status).toBe(400)
      expect(
        (await send('/v1/responses', { model, input: [{ type: 'message', role: 'user', content: 5 }] })).status,
      ).toBe(400)
      expect((await send('/v1/messages', messages(model, 'Hi', { max_tokens: 'many' }))).status).toBe(400)
      expect(
        (await send(googlePath(model, 'generateContent'), google('Hi', { generationConfig: { temperature: 'hot' } })))
          .status,
      ).toBe(400)
    }
  })
})

describe('paths and headers', () => {
  test.each([
    ['/v1/messages', {}],
    ['/v1/messages?beta=true', {}],
    ['/relay/v1/messages', {}],
  ] as const)('%s', async (path, headers) => {
    expect((await send(path, messages(MODELS[2]!, 'Hi'), headers)).status).toBe(200)
  })

  test.each([
    '/v1/publishers/sandbox/models/chat',
    '/v1beta1/publishers/sandbox/models/chat',
    '/v1beta/models/sandbox/chat',
    '/v1/models/sandbox/chat',
    '/v1/models/sandbox%2Fchat',
    '/v1/sandbox/chat',
    '/v1/projects/p/locations/l/publishers/sandbox/models/chat',
    '/v1beta1/projects/p/locations/l/publishers/sandbox/models/chat',
  ])('%s', async (path) => {
    expect(await json(send(`${path}:generateContent`, google('Hi')))).toMatchObject({ modelVersion: 'sandbox/chat' })
    expect(
      framesOf(await (await send(`${path}:streamGenerateContent?alt=sse`, google('Hi'))).text()).length,
    ).toBeGreaterThan(1)
    expect((await json(send(`${path}:countTokens`, { contents: google('Hi').contents }))).totalTokens).toBeGreaterThan(
      0,
    )
  })

  test('a version path set twice is a 404 that names the right one', async () => {
    const response = await send('/v1/v1/messages', messages(MODELS[2]!, 'Hi'))
    expect(response.status).toBe(404)
    expect(await json(response)).toMatchObject({
      type: 'error',
      error: { type: 'not_found_error', message: expect.stringContaining('/v1/messages') },
    })
  })

  test.each(['authorization', 'x-api-key', 'x-goog-api-key'])(
    'each protocol takes the key in %s, two places at once too',
    async (name) => {
      for (const [path, body] of [
        ['/v1/chat/completions', chat(MODELS[0]!, 'Hi')],
        ['/v1/responses', { model: MODELS[0], input: 'Hi' }],
        ['/v1/messages', messages(MODELS[0]!, 'Hi')],
        [googlePath(MODELS[0]!, 'generateContent'), google('Hi')],
      ] as const) {
        for (const names of [[name], [name, 'authorization']]) {
          const headers = Object.fromEntries(
            names.map((one) => [one, one === 'authorization' ? `Bearer ${gateway.key}` : gateway.key]),
          )
          const response = await fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
          expect(response.status).toBe(200)
        }
      }
    },
  )

  test.each(['application/json', '*/*', 'text/event-stream'])(
    'the body decides whether it is a stream, not `accept: %s`',
    async (accept) => {
      for (const stream of [false, true]) {
        const response = await send('/v1/chat/completions', chat(MODELS[0]!, 'Hi', { stream }), { accept })
        expect(response.headers.get('content-type')).toContain(stream ? 'text/event-stream' : 'application/json')
        await response.text()
      }
    },
  )

  test('a GET may carry a content type, and the connection is opened ahead without a key', async () => {
    expect(
      (
        await fetch(`${gateway.url}/v1/models`, {
          headers: { 'x-api-key': gateway.key, 'content-type': 'application/json' },
        })
      ).status,
    ).toBe(200)
    expect((await fetch(`${gateway.url}/api/hello`, { method: 'HEAD' })).status).toBe(200)
  })

  test('a WebSocket is declined with 426, so that HTTP is tried at once', async () => {
    const response = await fetch(`${gateway.url}/v1/responses`, {
      headers: {
        authorization: `Bearer ${gateway.key}`,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
      },
    })
    expect([response.status, (await json(response)).error.code]).toEqual([426, 'upgrade_required'])
  })
})

describe.each(MODELS)('thoughts of %s in many pieces', (model) => {
  const PROMPT =
    '[[strict-signatures]] [[think: One two three four five six seven eight.]] [[call: look {"at":"a"}]] [[then]] [[reply: The end.]]'
  /**
   * Consecutive pieces of text are one, with the last signature heard, as the AI SDK keeps them: pieces without text
   * are passed over.
   */
  const joined = (parts: Json[]): Json[] => {
    const kept: Json[] = []
    for (const part of parts.filter(({ text }) => text !== '')) {
      const last = kept.at(-1)
      if (part.thought === true && last?.thought === true) Object.assign(last, { ...part, text: last.text + part.text })
      else kept.push({ ...part })
    }
    return kept
  }

  const content = (parts: Json[]): Json[] => [{ role: 'model', parts }]
  test.each([
    ['as they came', content],
    [
      "each in a content of its own, the way of the chats of Google's SDK",
      (parts: Json[]) => parts.flatMap((part) => content([part])),
    ],
    ['joined, the way of the AI SDK', (parts: Json[]) => content(joined(parts))],
  ] as const)('go back signed, %s', async (_name, keep) => {
    const body = google(PROMPT, { generationConfig: { thinkingConfig: { includeThoughts: true } } })
    const frames = jsonFrames(await (await send(googlePath(model, 'streamGenerateContent?alt=sse'), body)).text())
    const parts = frames.flatMap(({ candidates }) => candidates[0].content.parts as Json[])
    expect(parts.filter(({ thought }) => thought === true).length).toBeGreaterThan(1)
    const {
      functionCall: { id, name },
    } = parts.find(({ functionCall }) => functionCall !== undefined)!
    const next = {
      ...body,
      contents: [
        ...body.contents,
        ...keep(parts),
        { role: 'user', parts: [{ functionResponse: { id, name, response: { output: 'seen' } } }] },
      ],
    }
    const answer = await json(send(googlePath(model, 'generateContent'), next))
    expect([
      answer.error?.message,
      answer.candidates?.[0].content.parts.map(({ text, thought }: Json) => (thought === true ? '' : text)).join(''),
    ]).toEqual([undefined, 'The end.'])
  })
})

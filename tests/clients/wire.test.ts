import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../server.ts'
import { framesOf, jsonFrames, type Json } from './agents.ts'
import { chat, google, googlePath, json, messages, MODELS, SCHEMA, sendTo, startWireGateway } from './wire-kit.ts'

/** Fields of responses and streams that some client requires. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startWireGateway()
})
afterAll(() => gateway?.stop())
const send = sendTo(() => gateway)

const ALL = '[[think: Hm, hm.]] [[reply: One two three four five.]] [[call: look {"at":"a"}]] [[call: look {"at":"b"}]]'

describe.each(MODELS)('chat completions of %s', (model) => {
  const stream = async (prompt: string, rest: Json = {}): Promise<string> =>
    (await send('/v1/chat/completions', chat(model, prompt, { stream: true, ...rest }))).text()

  test('every chunk has choices, role, call ids and finish reason are sent once, and [DONE] is last', async () => {
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

  /** Those of @openrouter/ai-sdk-provider; it drops reasoning of any other. */
  const OPENROUTER_FORMATS = ['anthropic-claude-v1', 'google-gemini-v1', 'openai-responses-v1', 'unknown']

  test('reasoning has a format that the OpenRouter provider keeps, streamed and whole', async () => {
    const whole = (await json(send('/v1/chat/completions', chat(model, ALL)))).choices[0].message
    expect(whole).toMatchObject({ role: 'assistant', reasoning: 'Hm, hm.' })
    const details = [
      ...whole.reasoning_details,
      ...jsonFrames(await stream(ALL)).flatMap(({ choices }) => (choices[0]?.delta.reasoning_details ?? []) as Json[]),
    ]
    expect(details.length).toBeGreaterThan(1)
    for (const { format, index } of details) {
      expect([...OPENROUTER_FORMATS, null, undefined]).toContain(format)
      expect(index).toEqual(expect.any(Number))
    }
  })

  test('a failure in mid-stream is the last frame, with the error at its top level', async () => {
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
  ])('the request options %j are accepted', async (rest) => {
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
  ])('the conversation %j is accepted', async (conversation) => {
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
  ])('the request options %j are accepted', async (rest) => {
    const response = await json(send('/v1/responses', { model, input: 'Hi', ...rest }))
    // Clients crash on text parts without annotations.
    expect(response).toMatchObject({
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

  test('a stream has one id, and a conversation goes on by references to the streamed items', async () => {
    const body = { model, input: [{ role: 'user', content: ALL.replaceAll(/\[\[call.*/g, '') }] }
    const events = jsonFrames(await (await send('/v1/responses', { ...body, stream: true })).text())
    expect(
      new Set(events.flatMap(({ response }) => (response === undefined ? [] : [response.id as string]))).size,
    ).toBe(1)
    const items = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item as Json)
    // Google signs the text, too, whose signature needs an item after it.
    expect(items.map(({ type }) => type)).toEqual(
      model === 'sandbox/gemini' ? ['reasoning', 'message', 'reasoning'] : ['reasoning', 'message'],
    )
    const response = await json(
      send('/v1/responses', {
        model,
        input: [
          ...body.input,
          ...items.map(({ id }) => ({ type: 'item_reference', id })),
          { role: 'user', content: '[[echo]]' },
        ],
      }),
    )
    expect(JSON.parse(response.output.at(-1).content[0].text).turns.map(({ role }: Json) => role)).toEqual([
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

  test('every frame has an event line, every block an index, and the first and last frames usage', async () => {
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
    // Some clients add the output tokens of both frames. A stream of the client's own protocol is passed on unchanged.
    if (model !== 'sandbox/messages') expect(frames[0]!.message.usage.output_tokens).toBe(0)
  })

  test('a response has its type and usage', async () => {
    expect(await json(send('/v1/messages', messages(model, ALL)))).toMatchObject({
      type: 'message',
      role: 'assistant',
      model,
      stop_reason: 'tool_use',
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    })
  })

  test('a failure in mid-stream is an error event without a message_stop', async () => {
    const frames = framesOf(await stream('[[length: 12]] [[error-after: 2 529 far too busy]]'))
    expect(frames.at(-1)!.event).toBe('error')
    expect(JSON.parse(frames.at(-1)!.data)).toMatchObject({
      type: 'error',
      error: { type: 'overloaded_error', message: expect.stringContaining('far too busy') },
    })
    expect(frames.map(({ event }) => event)).not.toContain('message_stop')
  })

  test.each(['2023-06-01', '2026-10-21'])('the anthropic-version %s is accepted', async (version) => {
    expect((await send('/v1/messages', messages(model, 'Hi'), { 'anthropic-version': version })).status).toBe(200)
  })
})

describe.each(MODELS)('generateContent of %s', (model) => {
  test('a response and a stream end with a finish reason and usage', async () => {
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

  test('a stream without alt=sse is a JSON array', async () => {
    const chunks = await json(
      send(googlePath(model, 'streamGenerateContent'), google('[[reply: One two three four five.]]')),
    )
    expect(
      chunks.flatMap(({ candidates }: Json) => candidates[0].content.parts.map(({ text }: Json) => text)).join(''),
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
  ])('the request options %j are accepted', async (rest) => {
    expect(
      (await send(googlePath(model, 'generateContent'), google('Hi', rest), { 'x-server-timeout': '30' })).status,
    ).toBe(200)
  })

  test('a failure in mid-stream is reported without a finish reason', async () => {
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

describe.each(MODELS)('reasoning of %s in many pieces', (model) => {
  const PROMPT = `[[strict-signatures]]
    [[think: One two three four five six seven eight.]] [[call: look {"at":"a"}]] [[then]] [[reply: The end.]]`
  /**
   * Consecutive pieces of reasoning joined, with the last signature received, as the AI SDK keeps them: it ignores
   * pieces without text.
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
    ['in one content', content],
    [
      "each in a content of its own, as in chats of Google's SDK",
      (parts: Json[]) => parts.flatMap((part) => content([part])),
    ],
    ['joined, as by the AI SDK', (parts: Json[]) => content(joined(parts))],
  ] as const)('pieces sent back %s keep their signature', async (_name, keep) => {
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
    const response = await json(send(googlePath(model, 'generateContent'), next))
    expect([
      response.error?.message,
      response.candidates?.[0].content.parts.map(({ text, thought }: Json) => (thought === true ? '' : text)).join(''),
    ]).toEqual([undefined, 'The end.'])
  })
})

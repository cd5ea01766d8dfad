import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import type { RawRequest } from '../../../src/protocols/protocol.ts'

/** Requests of chat completions from clients, and whole answers to them. */

const wireOf = (body: Record<string, unknown>): RawRequest => ({
  body,
  text: JSON.stringify(body),
  headers: new Headers(),
})
const user = { role: 'user', content: 'Hi' }
const base = { model: 'maker/model', messages: [user] }
const read = (fields: Record<string, unknown> = {}) => chat.serve.readRequest(wireOf({ ...base, ...fields }))
const readTurns = (...messages: unknown[]) => chat.serve.readRequest(wireOf({ ...base, messages }))

const refusal = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    expect((error as GatewayError).status).toBe(400)
    return (error as GatewayError).param ?? ''
  }
  throw new Error('was accepted')
}

const call = {
  role: 'assistant',
  content: null,
  tool_calls: [
    { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"b":1,"a":12345678901234567890}' } },
  ],
}

describe('fields that are refused, by path', () => {
  const fields: [string, Record<string, unknown>][] = [
    ['model', { model: undefined }],
    ['model', { model: 3 }],
    ['model', { model: '' }],
    ['messages', { messages: undefined }],
    ['messages', { messages: [] }],
    ['messages', { messages: 'hi' }],
    ['messages[0]', { messages: ['hi'] }],
    ['n', { n: 2 }],
    ['n', { n: 0 }],
    ['n', { n: '1' }],
    ['stop', { stop: ['a', 'b', 'c', 'd', 'e'] }],
    ['stop', { stop: 3 }],
    ['stop[1]', { stop: ['a', 1] }],
    ['frequency_penalty', { frequency_penalty: 2.1 }],
    ['presence_penalty', { presence_penalty: -2.1 }],
    ['temperature', { temperature: 'hot' }],
    ['top_p', { top_p: [] }],
    ['max_tokens', { max_tokens: 1.5 }],
    ['max_completion_tokens', { max_completion_tokens: '9' }],
    ['logit_bias', { logit_bias: { hello: 1 } }],
    ['logit_bias.50', { logit_bias: { 50: 101 } }],
    ['logit_bias.50', { logit_bias: { 50: null } }],
    ['logprobs', { logprobs: 5 }],
    ['top_logprobs', { top_logprobs: 21 }],
    ['top_logprobs', { top_logprobs: -1 }],
    ['metadata', { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v'])) }],
    ['metadata', { metadata: 'x' }],
    ['tools', { tools: {} }],
    ['tools[0].type', { tools: [{}] }],
    ['tools[0].function', { tools: [{ type: 'function' }] }],
    ['tools[0].function.name', { tools: [{ type: 'function', function: {} }] }],
    ['tools[0].custom.name', { tools: [{ type: 'custom', custom: { name: '' } }] }],
    ['tool_choice', { tool_choice: 'any' }],
    ['tool_choice.type', { tool_choice: { type: 'auto' } }],
    ['tool_choice.function.name', { tool_choice: { type: 'function', function: {} } }],
    [
      'tool_choice.allowed_tools.mode',
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'x', tools: [] } } },
    ],
    ['verbosity', { verbosity: 'loud' }],
    ['stream', { stream: 'yes' }],
    ['stream_options', { stream_options: 1 }],
    ['stream_options.include_usage', { stream_options: { include_usage: 1 } }],
    ['response_format.type', { response_format: { type: 5 } }],
    ['response_format.json_schema', { response_format: { type: 'json_schema' } }],
    ['seed', { seed: 1.5 }],
    ['user', { user: 7 }],
    ['reasoning_effort', { reasoning_effort: 1 }],
    ['reasoning.max_tokens', { reasoning: { max_tokens: 'x' } }],
    ['reasoning.exclude', { reasoning: { exclude: 1 } }],
    ['web_search_options', { web_search_options: true }],
    ['parallel_tool_calls', { parallel_tool_calls: 'no' }],
    ['provider.order', { provider: { order: 'x' } }],
    ['models', { models: 'x' }],
  ]
  for (const [path, change] of fields)
    test(`${path} ${JSON.stringify(change).slice(0, 80)}`, () => expect(refusal(() => read(change))).toBe(path))
})

describe('messages that are refused, by path', () => {
  const cases: [string, unknown[]][] = [
    ['messages[0].role', [{ content: 'x' }]],
    ['messages[0].role', [{ role: 'robot', content: 'x' }]],
    ['messages[1].role', [user, { role: 'function', name: 'f', content: 'x' }]],
    ['messages[0].content', [{ role: 'user' }]],
    ['messages[0].content', [{ role: 'system', content: null }]],
    ['messages[0].content', [{ role: 'user', content: 5 }]],
    [
      'messages[0].content[0].type',
      [{ role: 'system', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c.png' } }] }],
    ],
    ['messages[0].content[0].type', [{ role: 'user', content: [{ text: 'x' }] }]],
    ['messages[0].content[0].text', [{ role: 'user', content: [{ type: 'text' }] }]],
    ['messages[0].content[0].image_url.url', [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }]],
    [
      'messages[0].content[0].image_url.url',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png,abc' } }] }],
    ],
    [
      'messages[0].content[0].image_url.url',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'no url' } }] }],
    ],
    [
      'messages[0].content[0].image_url.detail',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c.png', detail: 'huge' } }] }],
    ],
    [
      'messages[0].content[0].input_audio.format',
      [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA' } }] }],
    ],
    [
      'messages[0].content[0].input_audio.data',
      [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: '!', format: 'wav' } }] }],
    ],
    ['messages[0].content[0].file', [{ role: 'user', content: [{ type: 'file', file: {} }] }]],
    ['messages[1].content', [user, { role: 'assistant' }]],
    ['messages[1].content', [user, { role: 'assistant', content: null, tool_calls: [] }]],
    [
      'messages[1].content',
      [
        user,
        {
          role: 'assistant',
          content: [
            { type: 'refusal', refusal: 'a' },
            { type: 'refusal', refusal: 'b' },
          ],
        },
      ],
    ],
    [
      'messages[1].content',
      [
        user,
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'a' },
            { type: 'refusal', refusal: 'b' },
          ],
        },
      ],
    ],
    ['messages[1].content[0].type', [user, { role: 'assistant', content: [{ type: 'file', file: {} }] }]],
    [
      'messages[1].tool_calls[0].id',
      [user, { role: 'assistant', tool_calls: [{ type: 'function', function: { name: 'a', arguments: '' } }] }],
    ],
    [
      'messages[1].tool_calls[0].function.arguments',
      [
        user,
        { role: 'assistant', tool_calls: [{ id: 'x', type: 'function', function: { name: 'a', arguments: {} } }] },
      ],
    ],
    ['messages[1].tool_calls[0].type', [user, { role: 'assistant', tool_calls: [{ id: 'x', type: 'shell' }] }]],
    ['messages[1].tool_call_id', [user, { role: 'tool', tool_call_id: 'call_1', content: 'x' }]],
    ['messages[2].tool_call_id', [user, call, { role: 'tool', content: 'x' }]],
    ['messages[2].content', [user, call, { role: 'tool', tool_call_id: 'call_1' }]],
    [
      'messages[2].content[0].type',
      [
        user,
        call,
        { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c' } }] },
      ],
    ],
    ['messages[1].reasoning_details[0].type', [user, { role: 'assistant', content: 'x', reasoning_details: [{}] }]],
    ['messages[1].audio.id', [user, { role: 'assistant', audio: {} }]],
  ]
  for (const [path, messages] of cases)
    test(`${path} ${JSON.stringify(messages.at(-1)).slice(0, 90)}`, () =>
      expect(refusal(() => readTurns(...messages))).toBe(path))
})

describe('what real clients send is read', () => {
  test('edges of ranges and nulls', () => {
    const request = read({
      n: null,
      stop: null,
      stream: null,
      stream_options: null,
      logit_bias: { 5: -100, 6: 100 },
      top_logprobs: 20,
      frequency_penalty: -2,
      presence_penalty: 2,
      temperature: 0,
      max_tokens: 5,
      max_completion_tokens: 9,
      store: false,
      metadata: {},
    })
    expect(request.sampling).toEqual({
      temperature: 0,
      frequencyPenalty: -2,
      presencePenalty: 2,
      logitBias: { 5: -100, 6: 100 },
      topLogprobs: 20,
    })
    expect(request.maxOutputTokens).toBe(9)
    expect(request.stream).toBe(false)
    expect(request.extras).toEqual({ store: false })
  })

  test('leading instructions lead, later ones stay', () => {
    const request = readTurns(
      {
        role: 'system',
        content: [
          { type: 'text', text: 'A' },
          { type: 'text', text: 'B' },
        ],
      },
      { role: 'developer', content: 'C' },
      user,
      { role: 'system', content: 'D' },
    )
    expect(request.system).toEqual([
      { type: 'text', text: 'A' },
      { type: 'text', text: 'B' },
      { type: 'text', text: 'C' },
    ])
    expect(request.turns.map((turn) => turn.role)).toEqual(['user', 'system'])
  })

  test('tool results are one turn and know their names', () => {
    const two = {
      ...call,
      content: '',
      tool_calls: [...call.tool_calls, { id: 'call_2', type: 'custom', custom: { name: 'patch', input: 'free text' } }],
    }
    const { turns } = readTurns(
      user,
      two,
      { role: 'tool', tool_call_id: 'call_2', content: [{ type: 'text', text: 'ok' }] },
      { role: 'tool', tool_call_id: 'call_1', name: 'own', content: 'done' },
      user,
    )
    expect(turns[1]!.parts).toEqual([
      {
        type: 'tool-call',
        id: 'call_1',
        name: 'look',
        arguments: '{"b":1,"a":12345678901234567890}',
        form: 'function',
      },
      { type: 'tool-call', id: 'call_2', name: 'patch', arguments: 'free text', form: 'custom' },
    ])
    expect(turns[2]).toEqual({
      role: 'tool',
      parts: [
        {
          type: 'tool-result',
          callId: 'call_2',
          name: 'patch',
          content: [{ type: 'text', text: 'ok' }],
          form: 'custom',
        },
        {
          type: 'tool-result',
          callId: 'call_1',
          name: 'own',
          content: [{ type: 'text', text: 'done' }],
          form: 'function',
        },
      ],
    })
  })

  test('an assistant message is reasoning, then text, then calls', () => {
    const { turns } = readTurns(user, {
      ...call,
      content: 'Looking.',
      reasoning: 'Hm',
      reasoning_details: [
        {
          type: 'reasoning.text',
          text: 'Hm',
          signature: wrapSignature('sig', { provider: 'p', model: 'm' }),
          format: 'unknown',
          index: 0,
        },
      ],
    })
    expect(turns[1]!.parts.map((part) => part.type)).toEqual(['reasoning', 'text', 'tool-call'])
    expect(turns[1]!.parts[0]).toEqual({
      type: 'reasoning',
      text: 'Hm',
      signature: { data: 'sig', issuer: { provider: 'p', model: 'm' } },
    })
  })

  test('reasoning said in two fields is read once; pieces of a stream are joined; a summary and its encrypted item are one', () => {
    const parts = (fields: object) =>
      readTurns(user, { role: 'assistant', content: 'x', ...fields }).turns[1]!.parts.slice(0, -1)
    expect(parts({ reasoning_content: 'A', reasoning: 'A' })).toEqual([{ type: 'reasoning', text: 'A' }])
    expect(
      parts({
        reasoning_content: 'AB',
        reasoning_details: [
          { type: 'reasoning.text', text: 'A', index: 0 },
          { type: 'reasoning.text', text: 'B', index: 0 },
          { type: 'reasoning.text', signature: 's', index: 0 },
        ],
      }),
    ).toEqual([{ type: 'reasoning', text: 'AB', signature: { data: 's' } }])
    expect(
      parts({
        reasoning: 'S',
        reasoning_details: [
          { type: 'reasoning.summary', summary: 'S', index: 0 },
          { type: 'reasoning.encrypted', data: 'D', id: 'rs_1', index: 1 },
        ],
      }),
    ).toEqual([{ type: 'reasoning', text: 'S', form: 'summary', id: 'rs_1', signature: { data: 'D' } }])
    expect(parts({ reasoning: 'T', reasoning_details: [{ type: 'reasoning.encrypted', data: 'D' }] })).toEqual([
      { type: 'reasoning', text: 'T' },
      { type: 'reasoning', text: '', redacted: true, signature: { data: 'D' } },
    ])
  })

  test("an encrypted entry with a call's id is that call's signature", () => {
    const { turns } = readTurns(user, {
      ...call,
      reasoning_details: [{ type: 'reasoning.encrypted', data: 'sig', id: 'call_1' }],
    })
    expect(turns[1]!.parts).toEqual([expect.objectContaining({ type: 'tool-call', signature: { data: 'sig' } })])
  })

  test('media', () => {
    const { turns } = readTurns({
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: 'data:image/PNG;base64,AAAA', detail: 'low' } },
        { type: 'image_url', image_url: { url: 'https://a.b/c.png' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=', filename: 'a.pdf' } },
        { type: 'file', file: { file_data: 'JVBERi0=' } },
        { type: 'file', file: { file_id: 'file-1' } },
        { type: 'video_url', video_url: { url: 'https://a.b/c.mp4' } },
      ],
    })
    expect(turns[0]!.parts).toEqual([
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' }, detail: 'low' },
      { type: 'image', source: { type: 'url', url: 'https://a.b/c.png' } },
      { type: 'audio', source: { type: 'data', mediaType: 'audio/mpeg', data: 'AAAA' } },
      { type: 'file', source: { type: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' }, filename: 'a.pdf' },
      { type: 'file', source: { type: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' } },
      { type: 'file', source: { type: 'file', id: 'file-1' } },
      { type: 'video', source: { type: 'url', url: 'https://a.b/c.mp4' } },
    ])
  })

  test('tools, choices, formats, reasoning, usage', () => {
    expect(
      read({
        tools: [
          { type: 'function', function: { name: 'f', parameters: { $schema: 'x', type: 'object' }, strict: null } },
        ],
        tool_choice: { type: 'function', function: { name: 'f' } },
      }),
    ).toMatchObject({
      tools: [{ type: 'function', name: 'f', parameters: { $schema: 'x', type: 'object' } }],
      toolChoice: { type: 'tool', name: 'f', form: 'function' },
    })
    expect(
      read({
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: {
            mode: 'required',
            tools: [
              { type: 'function', function: { name: 'f' } },
              { type: 'custom', custom: { name: 'g' } },
            ],
          },
        },
      }).toolChoice,
    ).toEqual({ type: 'allowed', names: ['f', 'g'], required: true })
    expect(read({ response_format: { type: 'json_object' } }).outputFormat).toEqual({ type: 'json' })
    expect(
      read({
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' }, strict: true } },
      }).outputFormat,
    ).toEqual({ type: 'schema', name: 'n', schema: { type: 'object' }, strict: true })
    expect(read({ reasoning_effort: 'xhigh' }).reasoning).toEqual({ effort: 'xhigh' })
    expect(read({ reasoning: { effort: 'low', max_tokens: 100, exclude: true } }).reasoning).toEqual({
      effort: 'low',
      budgetTokens: 100,
      visible: false,
    })
    expect(read({ reasoning_effort: 'ultra' }).extras).toEqual({ reasoning_effort: 'ultra' })
    expect(read({ stream: true, usage: { include: true } }).includeUsage).toBe(true)
    expect(read({ stream: true, stream_options: { include_usage: false, include_obfuscation: false } })).toMatchObject({
      includeUsage: false,
      extras: { 'stream_options.include_obfuscation': false },
    })
    expect(read({ web_search_options: { search_context_size: 'low' } }).webSearch).toMatchObject({ contextSize: 'low' })
    expect(
      read({ tools: [{ type: 'openrouter:web_search', parameters: { search_context_size: 'high', max_uses: 1 } }] }),
    ).toMatchObject({ tools: [], webSearch: { contextSize: 'high' }, extras: { 'tools[0].parameters.max_uses': 1 } })
    expect(readTurns(user, { role: 'assistant', content: 'cut', prefix: true }).extras).toEqual({
      'messages[1].prefix': true,
    })
  })
})

test('errors have the shape of OpenAI', () => {
  const error = new GatewayError('insufficient_credit', 'No credit.', { metadata: { status: 1 } })
  expect(chat.serve.writeError(error, 'req')).toEqual({
    error: {
      message: 'No credit.',
      type: 'insufficient_quota',
      param: null,
      code: 'insufficient_credit',
      metadata: { status: 1 },
    },
  })
  expect(chat.serve.writeError(new GatewayError('rate_limit_exceeded', 'x'), 'req')).toMatchObject({
    error: { type: 'rate_limit_error' },
  })
  expect(chat.serve.writeError(new GatewayError('upstream_error', 'x'), 'req')).toMatchObject({
    error: { type: 'server_error' },
  })
})

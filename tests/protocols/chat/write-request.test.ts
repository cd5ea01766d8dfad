import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { EFFORTS, type GenerationRequest, type Part, type Turn } from '../../../src/generation/request.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import type { Quirks } from '../../../src/protocols/quirks.ts'
import { budgetOfEffort, effortOfBudget } from '../../../src/protocols/reasoning-effort.ts'
import { callOf, requestOf, resultOf, targetOf, textOf, type Json } from './building.ts'
import { written as writtenFor } from '../../translating.ts'

/** Requests to providers of chat completions. */

const written = (
  fields: Partial<GenerationRequest>,
  quirks: Quirks = {},
  capabilities: Capabilities = {},
  sent: Json = {},
) => {
  const { body, losses } = writtenFor('chat.completions', requestOf(fields), targetOf(quirks, capabilities), sent)
  return { body: JSON.parse(JSON.stringify(body)) as Json, lost: losses.map(({ code, path }) => ({ code, path })) }
}
const messagesOf = (turns: Turn[], quirks: Quirks = {}) => written({ turns }, quirks).body.messages as Json[]

describe('requests to a provider', () => {
  test('quirks choose field names, roles and the form of an effort', () => {
    expect(written({ stream: true, maxOutputTokens: 5, system: [textOf('S')] }).body).toEqual({
      model: 'up-model',
      messages: [
        { role: 'system', content: 'S' },
        { role: 'user', content: 'hi' },
      ],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 5,
    })
    expect(
      written(
        { stream: true, maxOutputTokens: 5, system: [textOf('S')], reasoning: { effort: 'max' } },
        {
          refuses: ['stream_options'],
          maxTokensField: 'max_completion_tokens',
          systemRole: 'developer',
          effortField: 'reasoning',
        },
      ).body,
    ).toEqual({
      model: 'up-model',
      messages: [
        { role: 'developer', content: 'S' },
        { role: 'user', content: 'hi' },
      ],
      stream: true,
      max_completion_tokens: 5,
      reasoning: { effort: 'max' },
    })
  })

  test('a reasoning effort or budget is sent in the form of the provider', () => {
    expect(written({ reasoning: { budgetTokens: 5000 } })).toMatchObject({
      body: { reasoning_effort: 'medium' },
      lost: [{ code: 'budget_as_effort', path: 'thinking.budget_tokens' }],
    })
    expect(written({ reasoning: { budgetTokens: 0 } })).toMatchObject({ body: { reasoning_effort: 'none' }, lost: [] })
    expect(
      written({ reasoning: { budgetTokens: 5000, visible: false } }, { effortField: 'reasoning' }).body.reasoning,
    ).toEqual({ max_tokens: 5000, exclude: true })
    expect(written({ reasoning: { effort: 'high' } }, {}, { reasoning: 'none' })).toMatchObject({
      lost: [{ code: 'reasoning_unsupported', path: 'thinking' }],
    })
    expect('reasoning_effort' in written({ reasoning: { budgetTokens: -1 } }).body).toBe(false)
  })

  test.each(['flex', 'priority', 'fast'])('the service tier %s is sent', (serviceTier) => {
    expect(written({ serviceTier })).toMatchObject({ body: { service_tier: serviceTier }, lost: [] })
  })

  test('the service tier of messages without priority is the default one', () => {
    expect(written({ serviceTier: 'standard_only' })).toMatchObject({ body: { service_tier: 'default' }, lost: [] })
  })

  test('a setting that cannot be sent is reported with its path', () => {
    const { body, lost } = written({
      sampling: { topK: 5, temperature: 0, stop: ['1', '2', '3', '4', '5'] },
      serviceTier: 'batch',
      system: [{ type: 'text', text: 'S', cache: {}, path: 'system[0]' }],
    })
    expect(body).toMatchObject({ temperature: 0, stop: ['1', '2', '3', '4'] })
    expect(lost).toEqual([
      { code: 'unsupported_field', path: 'top_k' },
      { code: 'stop_applied_here', path: 'stop_sequences' },
      { code: 'unsupported_by_provider', path: 'service_tier' },
      { code: 'cache_breakpoint_dropped', path: 'system[0]' },
    ])
    expect(written({ sampling: { temperature: 1, topP: 1, seed: 0 } }, {}, { sampling: false })).toMatchObject({
      lost: [
        { code: 'unsupported_by_model', path: 'temperature' },
        { code: 'unsupported_by_model', path: 'top_p' },
      ],
      body: { seed: 0 },
    })
  })

  test('a response that was begun, and a failed result, are reported with their paths', () => {
    expect(
      written({
        turns: [
          { role: 'user', parts: [textOf('a')] },
          { role: 'assistant', parts: [textOf('Once upon')], path: 'messages[1]' },
        ],
      }).lost,
    ).toEqual([{ code: 'prefill_unsupported', path: 'messages[1]' }])
    expect(
      written({
        turns: [
          { role: 'assistant', parts: [callOf('a')] },
          { role: 'tool', parts: [resultOf('a', [textOf('bad')], { isError: true, path: 'messages[1].content[0]' })] },
        ],
      }).lost,
    ).toEqual([{ code: 'content_as_text', path: 'messages[1].content[0]' }])
  })

  test('functions, custom tools and the choice among them are sent in the form of the provider', () => {
    const tools: GenerationRequest['tools'] = [
      { type: 'function', name: 'f', parameters: { type: 'object' } },
      { type: 'custom', name: 'c', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
    ]
    expect(written({ tools, toolChoice: { type: 'tool', name: 'c' } }, { customTools: true }).body).toMatchObject({
      tools: [
        { type: 'function', function: { name: 'f' } },
        {
          type: 'custom',
          custom: { name: 'c', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } } },
        },
      ],
      tool_choice: { type: 'custom', custom: { name: 'c' } },
    })
    expect(
      written(
        { tools, toolChoice: { type: 'allowed', names: ['f'], required: false }, parallelTools: false },
        { toolChoices: 'allowed' },
      ).body,
    ).toMatchObject({
      tools: [{}, { type: 'function', function: { name: 'c', parameters: { required: ['input'] } } }],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f' } }] },
      },
      parallel_tool_calls: false,
    })
    const called: GenerationRequest['turns'] = [
      {
        role: 'assistant',
        parts: [{ ...callOf('a'), name: 'c', arguments: 'free', form: 'custom' } as Part, callOf('b', 'f', ' ')],
      },
      { role: 'tool', parts: [resultOf('a', [textOf('r')]), resultOf('b', [textOf('r')])] },
    ]
    for (const listed of [tools, tools.slice(0, 1), []]) {
      expect(written({ tools: listed, turns: called }, { customTools: true }).body.messages[0].tool_calls).toEqual([
        { id: 'a', type: 'custom', custom: { name: 'c', input: 'free' } },
        { id: 'b', type: 'function', function: { name: 'f', arguments: '{}' } },
      ])
    }
    const native = { type: 'native', protocol: 'messages', kind: 'computer', value: {} } as const
    expect(() => written({ tools: [native] })).toThrow(GatewayError)
    expect(written({ tools: [{ ...native, optional: true, path: 'tools[0]' }] }).lost).toEqual([
      { code: 'tool_native', path: 'tools[0]' },
    ])
  })

  test('a strict function without parameters is sent with the closed schema that strictness requires', () => {
    const { body, lost } = written({ tools: [{ type: 'function', name: 'f', strict: true }] })
    expect(body.tools[0].function).toEqual({
      name: 'f',
      parameters: { type: 'object', properties: {}, additionalProperties: false },
      strict: true,
    })
    expect(lost).toEqual([])
  })

  test('a schema is sent; an enum and audio output are refused with their path', () => {
    expect(written({ outputFormat: { type: 'schema', schema: { type: 'object' } } }).body.response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', schema: { type: 'object' } },
    })
    expect(() => written({ outputFormat: { type: 'enum', schema: {} } })).toThrow('text/x.enum')
    expect(() => written({ outputModalities: ['audio'] })).toThrow('audio output is not available')
  })
})

describe('conversations', () => {
  test('media of a result follow its text in a user message', () => {
    const image: Part = { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' } }
    const messages = messagesOf([
      { role: 'assistant', parts: [callOf('a'), callOf('b'), callOf('c')] },
      {
        role: 'tool',
        parts: [
          resultOf('a', [textOf('see'), { ...image, label: 'photo.png' }], { name: 'f' }),
          resultOf('b', [textOf('bad')], { isError: true }),
          resultOf('c', [image], { isError: true }),
        ],
      },
    ])
    const sent = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
    expect(messages.slice(1)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'see\n[The content follows in the next user message.]' },
      { role: 'tool', tool_call_id: 'b', content: 'Error: bad' },
      { role: 'tool', tool_call_id: 'c', content: 'Error: \n[The content follows in the next user message.]' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Content returned by the tool call a (f):' },
          { type: 'text', text: 'photo.png:' },
          sent,
          { type: 'text', text: 'Content returned by the tool call c:' },
          sent,
        ],
      },
    ])
    expect(messagesOf([{ role: 'tool', parts: [resultOf('zz', [image])] }])[0]!.content.at(-1)).toEqual(sent)
  })

  test('texts with steps of another provider between them are paragraphs, and cited passages are not', () => {
    const step: Part = { type: 'native', protocol: 'messages', kind: 'server_tool_use', value: {}, optional: true }
    const parts = [step, textOf('I search:'), step, step, textOf('It is '), textOf('warm.')]
    expect(messagesOf([{ role: 'assistant', parts }])[0]).toEqual({
      role: 'assistant',
      content: 'I search:\n\nIt is warm.',
    })
  })

  test('a video is sent to a model that is known to read video, and refused by others', () => {
    const url = { type: 'url', url: 'https://a.example/v.mp4' } as const
    for (const [source, sent] of [
      [url, url.url],
      [{ type: 'data', mediaType: 'video/mp4', data: 'AAAA' }, 'data:video/mp4;base64,AAAA'],
    ] as const) {
      const turns: Turn[] = [{ role: 'user', parts: [textOf('see'), { type: 'video', source }] }]
      expect(written({ turns }, {}, { input: ['text', 'video'] }).body.messages[0].content[1]).toEqual({
        type: 'video_url',
        video_url: { url: sent },
      })
      for (const input of [undefined, ['text', 'image']] as const)
        expect(() => written({ turns }, {}, input === undefined ? {} : { input: [...input] })).toThrow('video input')
    }
  })

  test('every call gets a result right after it, and a result without a call becomes text of the user', () => {
    const missing = messagesOf([
      { role: 'assistant', parts: [callOf('a'), callOf('b')] },
      { role: 'tool', parts: [resultOf('b')] },
      { role: 'user', parts: [textOf('go')] },
    ])
    expect(missing.map((message) => [message.role, message.tool_call_id])).toEqual([
      ['assistant', undefined],
      ['tool', 'b'],
      ['tool', 'a'],
      ['user', undefined],
    ])
    expect(
      messagesOf([
        { role: 'assistant', parts: [callOf('a')] },
        { role: 'user', parts: [textOf('go')] },
      ]).map((message) => message.role),
    ).toEqual(['assistant', 'tool', 'user'])
    expect(messagesOf([{ role: 'tool', parts: [resultOf('zz', [textOf('R')], { name: 'f' })] }])).toEqual([
      { role: 'user', content: 'Result of the tool call zz (f):\nR' },
    ])
    expect(
      messagesOf([
        { role: 'assistant', parts: [callOf('a')] },
        { role: 'assistant', parts: [callOf('b')] },
        { role: 'tool', parts: [resultOf('a'), resultOf('b')] },
      ]).map((message) => [message.role, message.tool_calls?.length ?? 0]),
    ).toEqual([
      ['assistant', 2],
      ['tool', 0],
      ['tool', 0],
    ])
  })

  test('a call and its result get the same accepted id', () => {
    const id = 'toolu_'.repeat(20)
    const [calling, answering] = messagesOf([
      { role: 'assistant', parts: [callOf(id, 'a.b')] },
      { role: 'tool', parts: [resultOf(id)] },
    ])
    expect(calling!.tool_calls[0].id.length).toBeLessThanOrEqual(64)
    expect(answering!.tool_call_id).toBe(calling!.tool_calls[0].id)
    expect(calling!.tool_calls[0].function.name).toMatch(/^[\w-]+$/)
  })

  test('signed reasoning is sent to its issuer only, unsigned reasoning to every provider that accepts it', () => {
    const turns = (part: Json): Turn[] => [
      { role: 'assistant', parts: [{ type: 'reasoning', text: 'Hm', ...part } as Part, textOf('x')] },
    ]
    const ours = { data: 'S', issuer: { provider: 'p', model: 'up-model' } }
    expect(messagesOf(turns({}))[0]).toEqual({ role: 'assistant', content: 'x', reasoning_content: 'Hm' })
    expect(messagesOf(turns({}), { reasoningField: 'none' })[0]).toEqual({ role: 'assistant', content: 'x' })
    expect(messagesOf(turns({ signature: { data: 'S' } }))[0]).toEqual({ role: 'assistant', content: 'x' })
    expect(messagesOf(turns({ signature: { ...ours, issuer: { provider: 'p', model: 'other' } } }))[0]).toEqual({
      role: 'assistant',
      content: 'x',
    })
    expect(messagesOf(turns({ signature: ours }), { reasoningField: 'reasoning_details' })[0]).toMatchObject({
      reasoning_details: [{ type: 'reasoning.text', text: 'Hm', signature: 'S', index: 0 }],
    })
    expect(
      written({
        turns: [
          {
            role: 'assistant',
            parts: [
              {
                ...callOf('a'),
                signature: { data: 'S', issuer: { provider: 'p', model: 'other' } },
                path: 'messages[0].content[0]',
              } as Part,
            ],
          },
          { role: 'tool', parts: [resultOf('a')] },
        ],
      }).lost,
    ).toEqual([{ code: 'signature_dropped', path: 'messages[0].content[0]' }])
    expect(
      messagesOf(turns({ text: '', redacted: true, id: 'rs', signature: ours }), {
        reasoningField: 'reasoning_details',
      })[0],
    ).toMatchObject({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'S', id: 'rs', index: 0 }] })
  })

  test('instructions stay in their position, empty text is not sent, and video is refused', () => {
    expect(
      messagesOf([
        { role: 'user', parts: [textOf(''), textOf('a')] },
        { role: 'developer', parts: [textOf('D')] },
        { role: 'assistant', parts: [] },
      ]),
    ).toEqual([
      { role: 'user', content: 'a' },
      { role: 'system', content: 'D' },
    ])
    expect(() =>
      messagesOf([{ role: 'user', parts: [{ type: 'video', source: { type: 'url', url: 'https://a.b' } }] }]),
    ).toThrow(GatewayError)
  })
})

describe('quirks of reasoning', () => {
  const turns: Turn[] = [
    { role: 'assistant', parts: [callOf('a')] },
    { role: 'tool', parts: [resultOf('a')] },
    { role: 'assistant', parts: [{ type: 'reasoning', text: 'Hm' }, textOf('x')] },
  ]
  const tools: GenerationRequest['tools'] = [{ type: 'function', name: 'f' }]
  const sent = (quirks: Quirks): Json[] => written({ turns, tools }, quirks).body.messages

  test('reasoningField set to its default changes nothing', () => {
    expect(sent({ reasoningField: 'reasoning_content' })).toEqual(sent({}))
  })

  test('requiresReasoning adds an empty field to each assistant message of a tool loop', () => {
    const reasoningOf = (quirks: Quirks, field: string): unknown[] =>
      sent(quirks).flatMap((message) => (message.role === 'assistant' ? [message[field]] : []))
    expect(reasoningOf({ requiresReasoning: true }, 'reasoning_content')).toEqual(['', 'Hm'])
    expect(reasoningOf({ requiresReasoning: true, reasoningField: 'reasoning' }, 'reasoning')).toEqual(['', 'Hm'])
    expect(reasoningOf({ requiresReasoning: true, reasoningField: 'none' }, 'reasoning_content')).toEqual([
      undefined,
      undefined,
    ])
    expect('reasoning_content' in written({ turns }, { requiresReasoning: true }).body.messages[0]).toBe(false)
  })
})

describe('budgets as efforts', () => {
  test.each([
    [0, 'none'],
    [1_024, 'minimal'],
    [4_096, 'low'],
    [10_000, 'medium'],
    [24_576, 'high'],
    [24_577, 'xhigh'],
  ])('a budget of %d tokens is sent as %s', (budgetTokens, effort) => {
    expect(written({ reasoning: { budgetTokens } }).body.reasoning_effort).toBe(effort)
  })

  test('the budget of each effort below max is that effort again', () => {
    for (const effort of EFFORTS.filter((one) => one !== 'max'))
      expect(effortOfBudget(budgetOfEffort(effort))).toBe(effort)
    expect(budgetOfEffort('max')).toBe(32_768)
    expect(effortOfBudget(-1)).toBeUndefined()
  })
})

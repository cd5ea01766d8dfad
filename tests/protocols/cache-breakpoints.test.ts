import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import { written } from '../translating.ts'

/** Cache breakpoints of every client protocol at every provider protocol. */

type Json = Record<string, any>

/** The body for this provider, and `path code` of each loss. */
function translated(
  client: ConversationName,
  provider: ConversationName,
  body: Json,
  capabilities: Capabilities = {},
): { body: Json; lost: string[] } {
  const text = JSON.stringify({ model: 'x', ...body })
  const request = protocols[client].serve.readRequest({
    body: JSON.parse(text) as Json,
    text,
    headers: new Headers(),
    model: 'x',
    stream: false,
  })
  const target = { provider: 'p', model: 'm', quirks: {}, capabilities }
  const { body: sent, losses } = written(provider, request, target, JSON.parse(text) as Json)
  return {
    body: JSON.parse(JSON.stringify(sent)) as Json,
    lost: losses
      .filter(({ code, path }) => code.startsWith('cache_') || path.startsWith('prompt_cache_'))
      .map(({ path, code }) => `${path} ${code}`),
  }
}

/** `path lifetime` of each breakpoint in a body. */
function breakpointsIn(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => {
    const here = Array.isArray(value) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`
    return name === 'cache_control' || name === 'prompt_cache_breakpoint'
      ? [`${path} ${(inner as Json).ttl ?? (inner as Json).mode ?? '-'}`]
      : breakpointsIn(inner, here)
  })
}

const BREAKPOINT = { type: 'ephemeral' }
const HOUR = { type: 'ephemeral', ttl: '1h' }

const CHAT = {
  tools: [
    { type: 'function', function: { name: 'a', parameters: { type: 'object' } } },
    { type: 'function', function: { name: 'b', parameters: { type: 'object' } }, cache_control: HOUR },
  ],
  messages: [
    {
      role: 'system',
      content: [
        { type: 'text', text: 'one' },
        { type: 'text', text: 'two', cache_control: HOUR },
      ],
    },
    { role: 'user', content: 'look' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'a', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'seen', cache_control: BREAKPOINT }] },
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
        { type: 'text', text: 'and?', cache_control: BREAKPOINT },
      ],
    },
  ],
}
const MESSAGES = {
  max_tokens: 100,
  tools: [{ name: 'a', input_schema: { type: 'object' }, cache_control: HOUR }],
  system: [{ type: 'text', text: 'one', cache_control: HOUR }],
  messages: [
    { role: 'user', content: [{ type: 'text', text: 'look' }] },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
        { type: 'text', text: 'I look' },
        { type: 'tool_use', id: 'c1', name: 'a', input: {} },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'seen', cache_control: BREAKPOINT }] },
    { role: 'assistant', content: 'so' },
    { role: 'user', content: [{ type: 'text', text: 'and?', cache_control: BREAKPOINT }] },
  ],
}

describe('a provider of messages', () => {
  test('receives each breakpoint with its lifetime; one within a tool result is on the result', () => {
    const { body, lost } = translated('chat.completions', 'messages', CHAT)
    expect(breakpointsIn(body)).toEqual([
      'system[1] 1h',
      'messages[2].content[0] -',
      'messages[2].content[2] -',
      'tools[1] 1h',
    ])
    expect(lost).toEqual([])
  })

  test.each([
    [
      'on a message',
      {
        messages: [
          { role: 'system', content: 'S', cache_control: HOUR },
          { role: 'user', content: 'a', cache_control: BREAKPOINT },
        ],
      },
      ['system[0] 1h', 'messages[0].content[0] -'],
    ],
    [
      'in the function of a tool',
      {
        tools: [{ type: 'function', function: { name: 'a', cache_control: BREAKPOINT } }],
        messages: [{ role: 'user', content: 'a' }],
      },
      ['tools[0] -'],
    ],
    ['on the request', { cache_control: HOUR, messages: [{ role: 'user', content: 'a' }] }, [' 1h']],
    [
      "as OpenAI's breakpoint",
      {
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'a', prompt_cache_breakpoint: { mode: 'explicit' } }] },
        ],
      },
      ['messages[0].content[0] -'],
    ],
    [
      'on text after reasoning',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', reasoning: 'hm', content: [{ type: 'text', text: 'b', cache_control: BREAKPOINT }] },
          { role: 'user', content: 'c' },
        ],
      },
      ['messages[1].content[0] -'],
    ],
  ] as [string, Json, string[]][])('receives a breakpoint of a chat client %s', (_, request, breakpoints) => {
    const { body, lost } = translated('chat.completions', 'messages', request)
    expect([breakpointsIn(body), lost]).toEqual([breakpoints, []])
  })

  test('receives the last four breakpoints, one on the request included', () => {
    const many = {
      messages: [1, 2, 3, 4, 5, 6].map((number) => ({
        role: 'user',
        content: [{ type: 'text', text: `${number}`, cache_control: BREAKPOINT }],
      })),
    }
    const { body, lost } = translated('chat.completions', 'messages', many)
    expect([breakpointsIn(body), lost]).toEqual([
      [2, 3, 4, 5].map((index) => `messages[0].content[${index}] -`),
      [0, 1].map((index) => `messages[${index}].content[0].cache_control cache_breakpoint_adjusted`),
    ])
    expect(
      breakpointsIn(translated('chat.completions', 'messages', { ...many, cache_control: BREAKPOINT }).body),
    ).toEqual([...[3, 4, 5].map((index) => `messages[0].content[${index}] -`), ' -'])
  })
})

describe('a provider of chat completions', () => {
  const accepting: Capabilities = { cacheBreakpoints: 'cache_control' }

  test('receives breakpoints on text parts if the model accepts them', () => {
    const { body, lost } = translated(
      'messages',
      'chat.completions',
      { ...MESSAGES, cache_control: BREAKPOINT },
      accepting,
    )
    expect(breakpointsIn(body)).toEqual([
      'messages[0].content[0] 1h',
      'messages[3].content[0] -',
      'messages[5].content[0] -',
      ' -',
    ])
    expect(body.messages[3]).toEqual({
      role: 'tool',
      tool_call_id: 'c1',
      content: [{ type: 'text', text: 'seen', cache_control: BREAKPOINT }],
    })
    expect(lost).toEqual(['tools[0].cache_control cache_breakpoint_adjusted'])
    expect(breakpointsIn(translated('messages', 'chat.completions', MESSAGES, accepting).body)).toEqual([
      'messages[0].content[0] 1h',
      'messages[3].content[0] -',
      'messages[5].content[0] -',
      'tools[0] 1h',
    ])
  })

  test('receives the same body apart from a breakpoint that moved', () => {
    const bodyWith = (position: number): Json =>
      translated(
        'messages',
        'chat.completions',
        {
          ...MESSAGES,
          messages: MESSAGES.messages.map((message, index) =>
            Array.isArray(message.content)
              ? {
                  ...message,
                  content: message.content.map(({ cache_control: _, ...block }: Json) =>
                    index === position ? { ...block, cache_control: BREAKPOINT } : block,
                  ),
                }
              : message,
          ),
        },
        accepting,
      ).body
    const withoutBreakpoints = (body: Json): string =>
      JSON.stringify(body, (name, value) => (name === 'cache_control' ? undefined : value))
    expect(withoutBreakpoints(bodyWith(2))).toBe(withoutBreakpoints(bodyWith(4)))
  })

  test('receives none on a tool call', () => {
    const request = {
      ...MESSAGES,
      messages: [
        MESSAGES.messages[0]!,
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'c1', name: 'a', input: {}, cache_control: BREAKPOINT }],
        },
        MESSAGES.messages[2]!,
      ],
    }
    expect(translated('messages', 'chat.completions', request, accepting).lost).toEqual([
      'messages[1].content[0].cache_control cache_breakpoint_dropped',
    ])
  })

  test.each(['chat.completions', 'responses', 'generateContent'] as const)(
    'receives none for a model without breakpoints over %s, and each is reported',
    (provider) => {
      const { body, lost } = translated('messages', provider, MESSAGES)
      expect([breakpointsIn(body), lost]).toEqual([
        [],
        ['tools[0]', 'system[0]', 'messages[2].content[0]', 'messages[4].content[0]'].map(
          (path) => `${path}.cache_control cache_breakpoint_dropped`,
        ),
      ])
    },
  )
})

describe('a provider of responses', () => {
  test('receives breakpoints without lifetimes', () => {
    const { body, lost } = translated('messages', 'responses', MESSAGES, {
      cacheBreakpoints: 'prompt_cache_breakpoint',
    })
    expect(breakpointsIn(body)).toEqual([
      'input[0].content[0] explicit',
      'input[4].output[0] explicit',
      'input[6].content[0] explicit',
    ])
    expect(lost).toEqual([
      'tools[0].cache_control cache_breakpoint_dropped',
      'system[0].cache_control cache_lifetime_adjusted',
    ])
  })

  test('without breakpoints receives the same body as for a request without them', () => {
    const withoutBreakpoints = JSON.parse(
      JSON.stringify(MESSAGES, (name, value) => (name === 'cache_control' ? undefined : value)),
    ) as Json
    for (const provider of ['chat.completions', 'responses', 'generateContent'] as const)
      expect(JSON.stringify(translated('messages', provider, MESSAGES).body)).toBe(
        JSON.stringify(translated('messages', provider, withoutBreakpoints).body),
      )
  })
})

describe('cache key and retention', () => {
  const chat = { prompt_cache_key: 'k', prompt_cache_retention: '24h', messages: [{ role: 'user', content: 'a' }] }
  const responses = { prompt_cache_key: 'k', prompt_cache_retention: '24h', input: 'a' }

  test.each([
    ['chat.completions', 'responses', chat],
    ['responses', 'chat.completions', responses],
  ] as const)('are carried from %s to %s', (client, provider, request) => {
    const { body, lost } = translated(client, provider, request)
    expect([body.prompt_cache_key, body.prompt_cache_retention, lost]).toEqual(['k', '24h', []])
  })

  test.each(['messages', 'generateContent'] as const)('are reported as dropped for %s', (provider) => {
    expect(translated('chat.completions', provider, chat).lost.sort()).toEqual([
      'prompt_cache_key unsupported_field',
      'prompt_cache_retention unsupported_field',
    ])
  })
})

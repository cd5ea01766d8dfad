import { written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'

/** Cache breakpoints of clients in the requests to providers. */

type Json = Record<string, any>

function sent(
  client: ConversationName,
  provider: ConversationName,
  body: Json,
  capabilities: Capabilities = {},
): { body: Json; losses: string[]; lost: string[] } {
  const text = JSON.stringify({ model: 'x', ...body })
  const request = protocols[client].serve.readRequest({
    body: JSON.parse(text) as Json,
    text,
    headers: new Headers(),
    model: 'x',
    stream: false,
  })
  const target = { provider: 'p', model: 'm', quirks: {}, capabilities }
  const { body: json, losses } = written(provider, request, target, body)
  const ofCaches = losses.filter(({ code, path }) => code.startsWith('cache_') || path.startsWith('prompt_cache_'))
  return {
    body: JSON.parse(JSON.stringify(json)) as Json,
    losses: losses.map(({ code, path }) => `${code} ${path}`),
    lost: ofCaches.map(({ code, path }) => `${code} ${path}`),
  }
}

/** The paths of breakpoints in a body, each with its lifetime. */
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

describe('a request to a messages provider', () => {
  test('has each breakpoint with its lifetime, and one inside a tool result on the result', () => {
    const { body, lost } = sent('chat.completions', 'messages', CHAT)
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
      'beside a string content',
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
      'on a text after reasoning',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', reasoning: 'hm', content: [{ type: 'text', text: 'b', cache_control: BREAKPOINT }] },
          { role: 'user', content: 'c' },
        ],
      },
      ['messages[1].content[0] -'],
    ],
  ] as [string, Json, string[]][])('has a breakpoint that a chat client writes %s', (_, request, breakpoints) => {
    const { body, lost } = sent('chat.completions', 'messages', request)
    expect([breakpointsIn(body), lost]).toEqual([breakpoints, []])
  })

  test('has the last four breakpoints, including that of the request', () => {
    const many = {
      messages: [1, 2, 3, 4, 5, 6].map((number) => ({
        role: 'user',
        content: [{ type: 'text', text: `${number}`, cache_control: BREAKPOINT }],
      })),
    }
    const { body, lost } = sent('chat.completions', 'messages', many)
    expect(breakpointsIn(body)).toEqual([2, 3, 4, 5].map((index) => `messages[0].content[${index}] -`))
    expect(lost).toEqual([0, 1].map((index) => `cache_breakpoint_adjusted messages[${index}].content[0].cache_control`))
    const whole = sent('chat.completions', 'messages', { ...many, cache_control: BREAKPOINT })
    expect(breakpointsIn(whole.body)).toEqual([...[3, 4, 5].map((index) => `messages[0].content[${index}] -`), ' -'])
  })
})

describe('a request to a chat completions provider', () => {
  const accepts: Capabilities = { cacheBreakpoints: 'cache_control' }

  test('has breakpoints if the model accepts them', () => {
    const { body, lost } = sent('messages', 'chat.completions', { ...MESSAGES, cache_control: BREAKPOINT }, accepts)
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
    expect(lost).toEqual(['cache_breakpoint_adjusted tools[0].cache_control'])
    expect(breakpointsIn(sent('messages', 'chat.completions', MESSAGES, accepts).body)).toEqual([
      'messages[0].content[0] 1h',
      'messages[3].content[0] -',
      'messages[5].content[0] -',
      'tools[0] 1h',
    ])
  })

  test('changes nothing else when a breakpoint moves', () => {
    const at = (position: number): Json =>
      sent(
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
        accepts,
      ).body
    const withoutBreakpoints = (body: Json): string =>
      JSON.stringify(body, (name, value) => (name === 'cache_control' ? undefined : value))
    expect(withoutBreakpoints(at(2))).toBe(withoutBreakpoints(at(4)))
  })

  test('has no breakpoint on a tool call', () => {
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
    expect(sent('messages', 'chat.completions', request, accepts).lost).toEqual([
      'cache_breakpoint_dropped messages[1].content[0].cache_control',
    ])
  })

  test.each(['chat.completions', 'responses', 'generateContent'] as const)(
    'has no breakpoints and reports each, if the model does not accept them (%s)',
    (provider) => {
      const { body, lost } = sent('messages', provider, { ...MESSAGES, cache_control: BREAKPOINT })
      expect(breakpointsIn(body)).toEqual([])
      expect(lost).toEqual(
        [
          'cache_control',
          'tools[0].cache_control',
          'system[0].cache_control',
          'messages[2].content[0].cache_control',
          'messages[4].content[0].cache_control',
        ].map((path) => `cache_breakpoint_dropped ${path}`),
      )
    },
  )
})

describe('a request to a responses provider', () => {
  test('has breakpoints without lifetimes', () => {
    const { body, lost } = sent('messages', 'responses', MESSAGES, { cacheBreakpoints: 'prompt_cache_breakpoint' })
    expect(breakpointsIn(body)).toEqual([
      'input[0].content[0] explicit',
      'input[4].output[0] explicit',
      'input[6].content[0] explicit',
    ])
    const losses = [
      'cache_breakpoint_dropped tools[0].cache_control',
      'cache_lifetime_adjusted system[0].cache_control',
    ]
    expect(lost).toEqual(losses)
    const capabilities = { cacheBreakpoints: 'prompt_cache_breakpoint' } as const
    expect(sent('messages', 'responses', { ...MESSAGES, cache_control: HOUR }, capabilities).lost).toEqual([
      'cache_lifetime_adjusted cache_control',
      ...losses,
    ])
    expect(sent('messages', 'responses', { ...MESSAGES, cache_control: BREAKPOINT }, capabilities).lost).toEqual(losses)
  })

  test('is the same with and without breakpoints, if the provider has none', () => {
    const plain = JSON.parse(
      JSON.stringify(MESSAGES, (name, value) => (name === 'cache_control' ? undefined : value)),
    ) as Json
    for (const provider of ['chat.completions', 'responses', 'generateContent'] as const)
      expect(JSON.stringify(sent('messages', provider, MESSAGES).body)).toBe(
        JSON.stringify(sent('messages', provider, plain).body),
      )
  })
})

test('a breakpoint in the spelling of both OpenRouter and OpenAI is one, with its lifetime', () => {
  const part = { type: 'text', text: 'a', cache_control: HOUR, prompt_cache_breakpoint: { mode: 'explicit' } }
  const request = { messages: [{ role: 'user', content: [part] }] }
  const { body, losses } = sent('chat.completions', 'messages', request)
  expect(body.messages[0].content).toEqual([{ type: 'text', text: 'a', cache_control: HOUR }])
  expect(losses).toEqual(['limit_required max_completion_tokens'])
})

describe('the empty result of a tool', () => {
  const withResult = (result: Json): Json => ({
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', cache_control: BREAKPOINT, ...result }] },
    ],
  })
  const FIELDS = [
    ['chat.completions', 'cache_control'],
    ['chat.completions', 'prompt_cache_breakpoint'],
    ['responses', 'prompt_cache_breakpoint'],
  ] as const
  const resultOf = ({ messages, input }: Json): unknown => messages?.[2].content ?? input[2].output

  test.each(FIELDS)('is an empty text without a breakpoint for %s with %s', (provider, cacheBreakpoints) => {
    for (const content of ['', [], [{ type: 'text', text: '' }]]) {
      const { body, lost } = sent('messages', provider, withResult({ content }), { cacheBreakpoints })
      expect(resultOf(body)).toBe('')
      expect(lost).toEqual(['cache_breakpoint_dropped messages[2].content[0].cache_control'])
    }
  })

  test.each(FIELDS)('that failed has its breakpoint for %s with %s', (provider, cacheBreakpoints) => {
    const { body, lost } = sent('messages', provider, withResult({ is_error: true }), { cacheBreakpoints })
    expect([breakpointsIn(resultOf(body)).length, lost]).toEqual([1, []])
  })
})

test('a breakpoint on the text of an earlier response is sent to chat completions, and reported for responses', () => {
  const said = { type: 'text', text: 'b', cache_control: HOUR }
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: [said] },
    { role: 'user', content: 'c' },
  ]
  const request = { max_tokens: 9, messages }
  const toChat = sent('messages', 'chat.completions', request, { cacheBreakpoints: 'cache_control' })
  expect([breakpointsIn(toChat.body), toChat.lost]).toEqual([['messages[1].content[0] 1h'], []])
  const toResponses = sent('messages', 'responses', request, { cacheBreakpoints: 'prompt_cache_breakpoint' })
  expect(breakpointsIn(toResponses.body)).toEqual([])
  expect(toResponses.lost).toEqual(['cache_breakpoint_dropped messages[1].content[0].cache_control'])
})

describe('the key and the retention of a cache', () => {
  const chat = { prompt_cache_key: 'k', prompt_cache_retention: '24h', messages: [{ role: 'user', content: 'a' }] }
  const responses = { prompt_cache_key: 'k', prompt_cache_retention: '24h', input: 'a' }

  test.each([
    ['chat.completions', 'responses', chat],
    ['responses', 'chat.completions', responses],
  ] as const)('are sent from %s to %s', (client, provider, request) => {
    const { body, lost } = sent(client, provider, request)
    expect([body.prompt_cache_key, body.prompt_cache_retention, lost]).toEqual(['k', '24h', []])
  })

  test.each(['messages', 'generateContent'] as const)('are reported as lost to %s', (provider) => {
    expect(sent('chat.completions', provider, chat).lost.sort()).toEqual([
      'unsupported_field prompt_cache_key',
      'unsupported_field prompt_cache_retention',
    ])
  })
})

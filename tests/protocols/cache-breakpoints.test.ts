import { written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'

/** Marks at the end of prefixes that are to be cached, from whoever writes them to whoever reads them. */

type Json = Record<string, any>

function sent(
  client: ConversationName,
  provider: ConversationName,
  body: Json,
  capabilities: Capabilities = {},
): { body: Json; told: string[] } {
  const text = JSON.stringify({ model: 'x', ...body })
  const request = protocols[client].serve.readRequest({
    body: JSON.parse(text) as Json,
    text,
    headers: new Headers(),
    model: 'x',
    stream: false,
  })
  const { body: sent, losses } = written(provider, request, {
    provider: 'p',
    model: 'm',
    quirks: {},
    capabilities,
  })
  return {
    body: JSON.parse(JSON.stringify(sent)) as Json,
    told: [
      ...new Set(losses.filter(({ code }) => code.startsWith('cache_')).map(({ path, code }) => `${path} ${code}`)),
    ],
  }
}

/** Where marks stand in a body, each with its lifetime. */
function marksIn(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => {
    const here = Array.isArray(value) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`
    return name === 'cache_control' || name === 'prompt_cache_breakpoint'
      ? [`${path} ${(inner as Json).ttl ?? (inner as Json).mode ?? '-'}`]
      : marksIn(inner, here)
  })
}

const MARK = { type: 'ephemeral' }
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
    { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'seen', cache_control: MARK }] },
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
        { type: 'text', text: 'and?', cache_control: MARK },
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
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'seen', cache_control: MARK }] },
    { role: 'assistant', content: 'so' },
    { role: 'user', content: [{ type: 'text', text: 'and?', cache_control: MARK }] },
  ],
}

describe('towards messages', () => {
  test('each mark with its lifetime; one within a result stands on the result', () => {
    const { body, told } = sent('chat.completions', 'messages', CHAT)
    expect(marksIn(body)).toEqual([
      'system[1] 1h',
      'messages[2].content[0] -',
      'messages[2].content[2] -',
      'tools[1] 1h',
    ])
    expect(told).toEqual([])
  })

  test.each([
    [
      'beside the words of a message',
      {
        messages: [
          { role: 'system', content: 'S', cache_control: HOUR },
          { role: 'user', content: 'a', cache_control: MARK },
        ],
      },
      ['system[0] 1h', 'messages[0].content[0] -'],
    ],
    [
      'in the function of a tool',
      {
        tools: [{ type: 'function', function: { name: 'a', cache_control: MARK } }],
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
      'on words behind a thought',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', reasoning: 'hm', content: [{ type: 'text', text: 'b', cache_control: MARK }] },
          { role: 'user', content: 'c' },
        ],
      },
      ['messages[1].content[0] -'],
    ],
  ] as [string, Json, string[]][])('read of a chat client %s', (_, rawRequest, marks) => {
    const { body, told } = sent('chat.completions', 'messages', rawRequest)
    expect([marksIn(body), told]).toEqual([marks, []])
  })

  test('the last four, of which a mark on the request is one', () => {
    const many = {
      messages: [1, 2, 3, 4, 5, 6].map((number) => ({
        role: 'user',
        content: [{ type: 'text', text: `${number}`, cache_control: MARK }],
      })),
    }
    const told = ['cache approximated: the provider takes at most 4 cache marks; the last ones are kept']
    expect([
      marksIn(sent('chat.completions', 'messages', many).body),
      sent('chat.completions', 'messages', many).told,
    ]).toEqual([[2, 3, 4, 5].map((index) => `messages[0].content[${index}] -`), told])
    expect(marksIn(sent('chat.completions', 'messages', { ...many, cache_control: MARK }).body)).toEqual([
      ...[3, 4, 5].map((index) => `messages[0].content[${index}] -`),
      ' -',
    ])
  })
})

describe('towards chat completions', () => {
  const takes: Capabilities = { cacheBreakpoints: 'cache_control' }

  test('in pieces, where the model takes them', () => {
    const { body, told } = sent('messages', 'chat.completions', { ...MESSAGES, cache_control: MARK }, takes)
    expect(marksIn(body)).toEqual([
      'messages[0].content[0] 1h',
      'messages[3].content[0] -',
      'messages[5].content[0] -',
      ' -',
    ])
    expect(body.messages[3]).toEqual({
      role: 'tool',
      tool_call_id: 'c1',
      content: [{ type: 'text', text: 'seen', cache_control: MARK }],
    })
    expect(told).toEqual(['cache approximated: the provider takes at most 4 cache marks; the last ones are kept'])
    expect(marksIn(sent('messages', 'chat.completions', MESSAGES, takes).body)).toEqual([
      'messages[0].content[0] 1h',
      'messages[3].content[0] -',
      'messages[5].content[0] -',
      'tools[0] 1h',
    ])
  })

  test('a mark that moves moves nothing else', () => {
    const at = (place: number): Json =>
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
                    index === place ? { ...block, cache_control: MARK } : block,
                  ),
                }
              : message,
          ),
        },
        takes,
      ).body
    const bare = (body: Json): string =>
      JSON.stringify(body, (name, value) => (name === 'cache_control' ? undefined : value))
    expect(bare(at(2))).toBe(bare(at(4)))
  })

  test('a call bears none', () => {
    const marked = {
      ...MESSAGES,
      messages: [
        MESSAGES.messages[0]!,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'a', input: {}, cache_control: MARK }] },
        MESSAGES.messages[2]!,
      ],
    }
    expect(sent('messages', 'chat.completions', marked, takes).told).toEqual([
      'cache left out: calls and tools bear no marks there: the next mark covers them',
    ])
  })

  test.each(['chat.completions', 'responses', 'generateContent'] as const)(
    'none to a model that takes none in %s, and that is told',
    (provider) => {
      const { body, told } = sent('messages', provider, MESSAGES)
      expect([
        marksIn(body),
        told.every((one) => /^((tool|request)\.)?cache left out/.test(one)),
        told.length > 0,
      ]).toEqual([[], true, true])
    },
  )
})

describe('towards responses', () => {
  test('as breakpoints, which have no lifetimes', () => {
    const { body, told } = sent('messages', 'responses', MESSAGES, { cacheBreakpoints: 'prompt_cache_breakpoint' })
    expect(marksIn(body)).toEqual([
      'input[0].content[0] explicit',
      'input[4].output[0] explicit',
      'input[6].content[0] explicit',
    ])
    expect(told).toEqual([
      'tool.cache left out: calls and tools bear no marks there: the next mark covers them',
      'cache approximated: the provider decides how long it keeps a prefix',
    ])
  })

  test('marks change nothing of a body whose provider has none', () => {
    const bare = JSON.parse(
      JSON.stringify(MESSAGES, (name, value) => (name === 'cache_control' ? undefined : value)),
    ) as Json
    for (const provider of ['chat.completions', 'responses', 'generateContent'] as const)
      expect(JSON.stringify(sent('messages', provider, MESSAGES).body)).toBe(
        JSON.stringify(sent('messages', provider, bare).body),
      )
  })
})

describe('where a prefix is cached, and how long', () => {
  const chat = { prompt_cache_key: 'k', prompt_cache_retention: '24h', messages: [{ role: 'user', content: 'a' }] }
  const responses = { prompt_cache_key: 'k', prompt_cache_retention: '24h', input: 'a' }

  test.each([
    ['chat.completions', 'responses', chat],
    ['responses', 'chat.completions', responses],
  ] as const)('goes from %s to %s', (client, provider, rawRequest) => {
    const { body, told } = sent(client, provider, rawRequest)
    expect([body.prompt_cache_key, body.prompt_cache_retention, told]).toEqual(['k', '24h', []])
  })

  test.each(['messages', 'generateContent'] as const)('is told as left out of %s', (provider) => {
    expect(
      sent('chat.completions', provider, chat)
        .told.map((one) => one.split(':')[0]!)
        .sort(),
    ).toEqual(['cacheKey dropped', 'cacheRetention dropped'])
  })
})

import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { eventsFor } from '../translating.ts'
import { codesAndPaths, contextOf, HELLO, type Json, NAMES, others, type Sent, send } from './routes.ts'

/** Searches of the web that the provider runs: their options, the choice of them, and how many they were. */

const city = { city: 'Bern', country: 'CH' }
const near = { type: 'approximate', ...city }

/** A search with the options of each protocol. */
const SEARCH: Record<ConversationName, object> = {
  'chat.completions': {
    web_search_options: { search_context_size: 'low', user_location: { type: 'approximate', approximate: city } },
  },
  responses: {
    tools: [
      {
        type: 'web_search',
        search_context_size: 'low',
        user_location: { type: 'approximate', ...city },
        filters: { allowed_domains: ['a.com'] },
        external_web_access: false,
      },
    ],
    max_tool_calls: 2,
  },
  messages: {
    tools: [
      {
        type: 'web_search_20250305',
        name: 'web_search',
        max_uses: 2,
        allowed_domains: ['a.com'],
        user_location: { type: 'approximate', ...city },
        cache_control: { type: 'ephemeral' },
      },
    ],
  },
  generateContent: {
    tools: [{ googleSearch: { timeRangeFilter: { startTime: '2026-01-01T00:00:00Z' }, exclude_domains: ['b.com'] } }],
  },
}

/** Client, provider, the fields of the search that the provider is sent, and the losses. */
const OPTIONS: [ConversationName, ConversationName, Json, string[]][] = [
  [
    'chat.completions',
    'responses',
    { tools: [{ type: 'web_search', search_context_size: 'low', user_location: near }] },
    [],
  ],
  [
    'chat.completions',
    'messages',
    { tools: [{ type: 'web_search_20250305', name: 'web_search', user_location: near }] },
    ['unsupported_field web_search_options.search_context_size'],
  ],
  [
    'chat.completions',
    'generateContent',
    { tools: [{ googleSearch: {} }] },
    ['unsupported_field web_search_options.search_context_size', 'unsupported_field web_search_options.user_location'],
  ],
  [
    'responses',
    'chat.completions',
    {
      web_search_options: { search_context_size: 'low', user_location: { type: 'approximate', approximate: city } },
    },
    [
      'unsupported_field max_tool_calls',
      'unsupported_field tools[0].filters.allowed_domains',
      'native_field tools[0].external_web_access',
    ],
  ],
  [
    'responses',
    'messages',
    {
      tools: [
        {
          type: 'web_search_20250305',
          name: 'web_search',
          max_uses: 2,
          allowed_domains: ['a.com'],
          user_location: near,
        },
      ],
    },
    ['unsupported_field tools[0].search_context_size', 'native_field tools[0].external_web_access'],
  ],
  [
    'responses',
    'generateContent',
    { tools: [{ googleSearch: {} }] },
    [
      'unsupported_field max_tool_calls',
      'unsupported_field tools[0].search_context_size',
      'unsupported_field tools[0].user_location',
      'unsupported_field tools[0].filters.allowed_domains',
      'native_field tools[0].external_web_access',
    ],
  ],
  [
    'messages',
    'chat.completions',
    { web_search_options: { user_location: { type: 'approximate', approximate: city } } },
    [
      'unsupported_field tools[0].allowed_domains',
      'unsupported_field tools[0].max_uses',
      'native_field tools[0].cache_control',
    ],
  ],
  [
    'messages',
    'responses',
    {
      tools: [{ type: 'web_search', user_location: near, filters: { allowed_domains: ['a.com'] } }],
      max_tool_calls: 2,
    },
    ['native_field tools[0].cache_control'],
  ],
  [
    'messages',
    'generateContent',
    { tools: [{ googleSearch: {} }] },
    [
      'unsupported_field tools[0].user_location',
      'unsupported_field tools[0].allowed_domains',
      'unsupported_field tools[0].max_uses',
      'native_field tools[0].cache_control',
    ],
  ],
  [
    'generateContent',
    'chat.completions',
    { web_search_options: {} },
    ['unsupported_field tools[0].googleSearch.exclude_domains', 'native_field tools[0].googleSearch.timeRangeFilter'],
  ],
  [
    'generateContent',
    'responses',
    { tools: [{ type: 'web_search' }] },
    ['unsupported_field tools[0].googleSearch.exclude_domains', 'native_field tools[0].googleSearch.timeRangeFilter'],
  ],
  [
    'generateContent',
    'messages',
    { tools: [{ type: 'web_search_20250305', name: 'web_search', blocked_domains: ['b.com'] }] },
    ['native_field tools[0].googleSearch.timeRangeFilter'],
  ],
]

const search = (client: ConversationName, provider: ConversationName, more: object = {}): Sent =>
  send(client, provider, { ...HELLO[client], ...SEARCH[client], ...more })

const lossesOf = ({ losses }: Sent): string[] =>
  codesAndPaths(losses.filter(({ code }) => code !== 'limit_required')).toSorted()

test.each(OPTIONS)(
  'a search of %s is one of %s, with its options or their losses',
  (client, provider, wanted, lost) => {
    const sent = search(client, provider)
    const { tools, web_search_options, max_tool_calls } = sent.body
    expect(JSON.parse(JSON.stringify({ tools, web_search_options, max_tool_calls }))).toEqual(wanted)
    expect(lossesOf(sent)).toEqual(lost.toSorted())
  },
)

/** A client's choice of the search, and its choice of no tool. */
const CHOICES: [ConversationName, object, object][] = [
  ['responses', { tool_choice: { type: 'web_search' } }, { tool_choice: 'none' }],
  ['messages', { tool_choice: { type: 'tool', name: 'web_search' } }, { tool_choice: { type: 'none' } }],
]

describe.each(CHOICES)('the tool choice of %s', (client, forced, none) => {
  test.each(others(client))('that forces a search forces it at %s or is reported', (provider) => {
    const { body, losses } = search(client, provider, forced)
    if (provider === 'responses') expect(body.tool_choice).toBe('required')
    else if (provider === 'messages') expect(body.tool_choice).toEqual({ type: 'any' })
    else expect(codesAndPaths(losses)).toContain('tool_choice_adjusted tool_choice')
  })

  test.each(others(client))('that forbids tools forbids the search at %s', (provider) => {
    const { body, text } = search(client, provider, none)
    if (provider === 'chat.completions' || provider === 'generateContent') expect(text).not.toMatch(/search/i)
    else expect(body.tool_choice).toEqual(provider === 'responses' ? 'none' : { type: 'none' })
  })
})

test.each([
  [
    { plugins: [{ id: 'web', max_results: 3 }, { id: 'file-parser' }] },
    ['native_field plugins[0].max_results', 'native_field plugins[1]'],
  ],
  [
    { tools: [{ type: 'openrouter:web_search', parameters: { max_results: 3 } }] },
    ['native_field tools[0].parameters.max_results'],
  ],
])("OpenRouter's %j is a web search", (more, lost) => {
  const sent = send('chat.completions', 'messages', { ...HELLO['chat.completions'], ...more })
  expect(sent.body.tools).toMatchObject([{ type: 'web_search_20250305' }])
  expect(lossesOf(sent)).toEqual(lost)
})

describe('a search beside functions', () => {
  const lookUp = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }

  test('is sent if the client requested it by an option of its own', () => {
    const { body } = search('chat.completions', 'messages', { tools: [lookUp] })
    expect(body.tools.map(({ name }: Json) => name)).toEqual(['f', 'web_search'])
  })

  test('is dropped for generateContent, which does not accept both', () => {
    const { losses } = search('chat.completions', 'generateContent', { tools: [lookUp] })
    expect(codesAndPaths(losses)).toContain('unsupported_combination web_search_options')
  })

  test('is dropped if it is a tool, which agents offer for any task', () => {
    const { body, losses } = send('responses', 'messages', {
      ...HELLO.responses,
      tools: [{ type: 'web_search' }, { type: 'function', name: 'f', parameters: {} }],
      tool_choice: { type: 'web_search' },
    })
    expect(body.tools).toMatchObject([{ name: 'f' }])
    expect(codesAndPaths(losses)).toEqual(expect.arrayContaining(['tool_native tools[0]', 'native_field tool_choice']))
  })
})

describe('two searches of a response', () => {
  const tokens = { prompt_tokens: 4, completion_tokens: 2 }
  const counted = { input_tokens: 4, output_tokens: 2 }
  const call = (id: string): object => ({
    type: 'web_search_call',
    id,
    status: 'completed',
    action: { type: 'search', query: id },
  })
  const responses: Record<ConversationName, object> = {
    'chat.completions': {
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'x' } }],
      usage: { ...tokens, server_tool_use: { web_search_requests: 2 } },
    },
    responses: { status: 'completed', output: [call('a'), call('b')], usage: counted },
    messages: {
      type: 'message',
      stop_reason: 'end_turn',
      content: [{ type: 'text', text: 'x' }],
      usage: { ...counted, server_tool_use: { web_search_requests: 2 } },
    },
    generateContent: {
      candidates: [
        {
          finishReason: 'STOP',
          content: { parts: [{ text: 'x' }] },
          groundingMetadata: { webSearchQueries: ['a', 'b'] },
        },
      ],
      usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 2 },
    },
  }
  const countIn: Record<Exclude<ConversationName, 'generateContent'>, (body: Json) => unknown> = {
    'chat.completions': ({ usage }) => usage.server_tool_use_details.web_search_requests,
    responses: ({ usage }) => usage.input_tokens_details.web_search,
    messages: ({ usage }) => usage.server_tool_use.web_search_requests,
  }

  for (const provider of NAMES)
    for (const client of NAMES)
      test(`of ${provider} are counted once for ${client}, in its usage or as a loss`, () => {
        const context = contextOf(client)
        const folded = fold(eventsFor(provider, JSON.parse(JSON.stringify(responses[provider])), {}, context.request))
        expect(folded.usage.webSearches).toBe(2)
        const response = protocols[client].serve.writeResponse(folded, context)
        if (client === 'generateContent')
          expect(context.losses.losses).toContainEqual(
            expect.objectContaining({
              code: 'response_field_dropped',
              path: 'response.usage',
              reason: 'there is no field for the number of web searches',
            }) as Loss,
          )
        else expect(countIn[client](response)).toBe(2)
      })
})

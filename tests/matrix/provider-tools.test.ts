import { prepared, eventsFor } from '../translating.ts'
import { type Loss, LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { Any } from '../recorded/response-content.ts'

/**
 * Tools that a provider runs, and what stands of them in a conversation: every kind of the vendors' documents, asked of
 * providers of the other protocols.
 */

const SPECS = join(import.meta.dir, '../../../shared/specs')
const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

type Asked = { body: Any; losses: string[] } | { refused: GatewayError }

/** The body for a provider, and what is told of losses; or the error. */
function asked(client: ConversationName, provider: ConversationName, given: object): Asked {
  const body = {
    ...(client === 'generateContent' ? {} : { model: 'a/b' }),
    ...(client === 'messages' ? { max_tokens: 100 } : {}),
    ...given,
  } as Record<string, unknown>
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
  try {
    const request = protocols[client].serve.readRequest(rawRequest)
    const endpoint = {
      protocol: provider,
      baseUrl: '',
      target: { provider: 'p', model: 'm', quirks: {}, capabilities: {} },
    } as unknown as Endpoint
    const { body: text, losses } = prepared(endpoint, {
      rawRequest,
      request,
      responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1 },
    })
    return { body: JSON.parse(text) as Any, losses: losses.map(({ path, effect }) => `${path} ${effect}`) }
  } catch (error) {
    if (error instanceof GatewayError) return { refused: error }
    throw error
  }
}

const hello: Record<ConversationName, object> = {
  'chat.completions': { messages: [{ role: 'user', content: 'hi' }] },
  responses: { input: 'hi' },
  messages: { messages: [{ role: 'user', content: 'hi' }] },
  generateContent: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
}

const document = (name: string): Any => JSON.parse(readFileSync(join(SPECS, name), 'utf8')) as Any
const values = ({ enum: words, const: word }: Any): string[] =>
  (words ?? (word === undefined ? [] : [word])) as string[]
const variants = (schemas: Any, name: string): string[] =>
  ((schemas[name].anyOf ?? schemas[name].oneOf) as Any[]).flatMap(({ $ref }) => {
    const inner = String($ref).split('/').at(-1)!
    return schemas[inner].properties === undefined
      ? variants(schemas, inner)
      : values(schemas[inner].properties.type ?? {})
  })

/** What every protocol has in its own words. */
const CARRIED = new Set([
  'function',
  'custom',
  'web_search',
  'web_search_2025_08_26',
  'web_search_preview',
  'web_search_preview_2025_03_11',
  'web_search_20250305',
  'web_search_20260209',
  'web_search_20260318',
  'functionDeclarations',
  'googleSearch',
  'googleSearchRetrieval',
])
const CARRIED_ITEMS = new Set([
  'message',
  'function_call',
  'function_call_output',
  'reasoning',
  'custom_tool_call',
  'custom_tool_call_output',
  'image_generation_call',
  'item_reference',
  'additional_tools',
])
const CARRIED_BLOCKS = new Set([
  'text',
  'image',
  'document',
  'thinking',
  'redacted_thinking',
  'tool_use',
  'tool_result',
  'search_result',
])
const CARRIED_PARTS = new Set([
  'text',
  'thought',
  'thoughtSignature',
  'inlineData',
  'fileData',
  'functionCall',
  'functionResponse',
  'mediaResolution',
  'mediaProcessing',
  'videoMetadata',
  'partMetadata',
])

/** Members that our reader asks for. */
const ITEMS: Record<string, object> = {
  web_search_call: { status: 'completed', action: { type: 'search', query: 'q' } },
  computer_call: { action: { type: 'screenshot' } },
  computer_call_output: { output: { type: 'computer_screenshot' } },
  local_shell_call: { status: 'completed', action: { type: 'exec', command: ['ls'], env: {} } },
  local_shell_call_output: { output: 'x' },
  shell_call: { action: { commands: ['ls'] } },
  shell_call_output: { output: [] },
}

type Table = { client: ConversationName; what: string; kinds: string[]; place: string; body(kind: string): object }

const tables = (): Table[] => {
  const openai = document('openai/openapi.json').components.schemas,
    anthropic = document('schemas/anthropic-messages-beta.schema.json').$defs
  const google = [
    'generativelanguage.v1beta',
    'aiplatform.v1.generateContent',
    'aiplatform.v1beta1.generateContent',
  ].map((name) => document(`google/${name}.discovery.json`).schemas as Any)
  const members = (suffix: string): string[] => [
    ...new Set(
      google.flatMap((schemas) =>
        Object.keys(schemas)
          .filter(
            (name) =>
              name === suffix ||
              (/^GoogleCloudAiplatformV1(beta1)?/.test(name) &&
                name.replace(/^GoogleCloudAiplatformV1(beta1)?/, '') === suffix),
          )
          .flatMap((name) => Object.keys(schemas[name].properties)),
      ),
    ),
  ]
  const typed = (names: RegExp): string[] =>
    Object.keys(anthropic)
      .filter((name) => names.test(name))
      .flatMap((name) => values(anthropic[name].properties?.type ?? {}))
  const user = { role: 'user', content: 'hi' }
  return [
    {
      client: 'responses',
      what: 'tools',
      kinds: variants(openai, 'Tool').filter((kind) => !CARRIED.has(kind)),
      place: 'tools[0]',
      body: (type) => ({
        ...hello.responses,
        tools: [{ type, ...(type === 'namespace' ? { name: 'n', tools: [] } : {}) }],
      }),
    },
    {
      client: 'responses',
      what: 'items',
      kinds: [...new Set([...variants(openai, 'Item'), ...variants(openai, 'InputItem')])].filter(
        (kind) => !CARRIED_ITEMS.has(kind),
      ),
      place: 'input[1]',
      body: (type) => ({ input: [user, { type, id: 'i', call_id: 'c', ...ITEMS[type] }, user] }),
    },
    {
      client: 'messages',
      what: 'tools',
      kinds: typed(/Tool(_\d+)?$|Toolset$|TextEditor_|ToolSearchTool/).filter(
        (kind) => !CARRIED.has(kind) && !/direct|_result$/.test(kind),
      ),
      place: 'tools[0]',
      body: (type) => ({ ...hello.messages, tools: [{ type, name: 'x' }] }),
    },
    {
      client: 'messages',
      what: 'blocks',
      kinds: typed(/^BetaRequest.*Block$/).filter((kind) => !CARRIED_BLOCKS.has(kind)),
      place: 'messages[1].content[0]',
      body: (type) => ({
        messages: [
          user,
          {
            role: 'assistant',
            content: [{ type, id: 'srvtoolu_1', name: 'code_execution', tool_use_id: 'srvtoolu_1', content: [] }],
          },
          user,
        ],
      }),
    },
    {
      client: 'generateContent',
      what: 'tools',
      kinds: members('Tool').filter((kind) => !CARRIED.has(kind)),
      place: 'tools[0].',
      body: (kind) => ({ ...hello.generateContent, tools: [{ [kind]: {} }] }),
    },
    {
      client: 'generateContent',
      what: 'parts',
      kinds: members('Part').filter((kind) => !CARRIED_PARTS.has(kind)),
      place: 'contents[1].parts[0].',
      body: (kind) => ({
        contents: [
          { role: 'user', parts: [{ text: 'hi' }] },
          { role: 'model', parts: [{ [kind]: {} }] },
          { role: 'user', parts: [{ text: 'hi' }] },
        ],
      }),
    },
  ]
}

if (!existsSync(SPECS)) test.skip('every kind of the documents: ../shared/specs is not there', () => {})
else
  for (const { client, what, kinds, place, body } of tables())
    describe(`${client} ${what}`, () => {
      test('are in the document', () => expect(kinds.length).toBeGreaterThan(3))
      for (const provider of NAMES.filter((name) => name !== client))
        test.each(kinds)(`%s -> ${provider}: refused by name, or told`, (kind) => {
          const answer = asked(client, provider, body(kind))
          if ('refused' in answer) {
            const { code, status, param, message } = answer.refused
            expect({ code, status }).toEqual({ code: 'unsupported_parameter', status: 400 })
            expect(param).toStartWith(place)
            expect(message).toContain(kind)
          } else
            expect(
              answer.losses.some((loss) => loss.startsWith(place.replace(/\.$/, '')) && loss.endsWith(' dropped')),
            ).toBe(true)
        })
      test.each(kinds)(`%s -> ${client}: travels as it is`, (kind) => {
        const given = body(kind)
        expect(asked(client, client, given)).toMatchObject({ body: given })
      })
    })

/** All strings that are no names or roles, in their order. */
const saidIn = (value: unknown): string =>
  typeof value === 'string'
    ? value
    : typeof value !== 'object' || value === null
      ? ''
      : Object.entries(value)
          .map(([name, inner]) => (['type', 'role'].includes(name) ? '' : saidIn(inner)))
          .join('')

describe('what only left-out tools brought', () => {
  test.each([
    [
      'responses',
      {
        input: [
          { role: 'user', content: 'a' },
          { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } },
          {
            type: 'message',
            role: 'assistant',
            content: [
              {
                type: 'output_text',
                text: 'Paris.',
                annotations: [{ type: 'url_citation', url: 'https://e.com', title: 'E', start_index: 0, end_index: 5 }],
              },
            ],
          },
          { role: 'user', content: 'b' },
        ],
      },
    ],
    [
      'messages',
      {
        messages: [
          { role: 'user', content: 'a' },
          {
            role: 'assistant',
            content: [
              { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } },
              {
                type: 'web_search_tool_result',
                tool_use_id: 'srvtoolu_1',
                content: [{ type: 'web_search_result', url: 'https://e.com', title: 'E', encrypted_content: 'EnC' }],
              },
              {
                type: 'text',
                text: 'Paris',
                citations: [
                  {
                    type: 'web_search_result_location',
                    url: 'https://e.com',
                    title: 'E',
                    cited_text: 'c',
                    encrypted_index: 'x',
                  },
                ],
              },
              { type: 'text', text: '.' },
            ],
          },
          { role: 'user', content: 'b' },
        ],
      },
    ],
    [
      'chat.completions',
      {
        messages: [
          { role: 'user', content: 'a' },
          {
            role: 'assistant',
            content: 'Paris.',
            annotations: [
              {
                type: 'url_citation',
                url_citation: { url: 'https://e.com', title: 'E', start_index: 0, end_index: 5 },
              },
            ],
          },
          { role: 'user', content: 'b' },
        ],
      },
    ],
    [
      'generateContent',
      {
        contents: [
          { role: 'user', parts: [{ text: 'a' }] },
          {
            role: 'model',
            parts: [
              { toolCall: { toolType: 'GOOGLE_SEARCH_WEB', id: '1' } },
              { toolResponse: { toolType: 'GOOGLE_SEARCH_WEB', id: '1' } },
              { text: 'Paris.' },
            ],
          },
          { role: 'user', parts: [{ text: 'b' }] },
        ],
      },
    ],
  ] as [ConversationName, object][])(
    'a conversation of %s that searched goes on elsewhere with its text, and says what stays behind',
    (client, body) => {
      for (const provider of NAMES.filter((name) => name !== client)) {
        const answer = asked(client, provider, body)
        if ('refused' in answer) throw answer.refused
        expect(saidIn(answer.body)).toContain('Paris.')
        expect(answer.losses).not.toEqual([])
        expect(JSON.stringify(answer.body)).not.toMatch(/EnC|srvtoolu|web_search_call|toolCall/)
      }
      // And to its own protocol's provider as it came.
      expect(asked(client, client, body)).toMatchObject({ body })
    },
  )

  test.each([
    ['messages', 'mcp_servers', [{ type: 'url', name: 's', url: 'https://mcp.example' }]],
    ['chat.completions', 'functions', [{ name: 'f', parameters: { type: 'object' } }]],
  ] as [ConversationName, string, object[]][])(
    '%s: %s beside the tools are refused as these are; a list of none is none',
    (client, field, value) => {
      for (const provider of NAMES.filter((name) => name !== client)) {
        expect(asked(client, provider, { ...hello[client], [field]: value })).toMatchObject({
          refused: { code: 'unsupported_parameter', param: field },
        })
        expect(asked(client, provider, { ...hello[client], [field]: [] })).toHaveProperty('body')
      }
      expect(asked(client, client, { ...hello[client], [field]: value })).toHaveProperty(`body.${field}`, value)
    },
  )

  test('annotations that are no citations are told, too', () => {
    const annotations = [
      { type: 'url_citation', url_citation: { url: 'https://e.com', title: 'E', start_index: 0, end_index: 5 } },
      { type: 'file', file: { hash: 'h', name: 'x.pdf', content: [] } },
    ]
    const body = {
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: 'Paris.', annotations },
        { role: 'user', content: 'b' },
      ],
    }
    for (const provider of NAMES.filter((name) => name !== 'chat.completions')) {
      expect(asked('chat.completions', provider, body)).toMatchObject({
        losses: expect.arrayContaining(['messages[1].annotations dropped', 'messages[1].annotations[1] dropped']),
      })
    }
    expect(asked('chat.completions', 'chat.completions', body)).toMatchObject({ body })
  })

  test('what the client itself found is a document', () => {
    const found = {
      type: 'search_result',
      source: 'https://e.com',
      title: 'Found',
      content: [{ type: 'text', text: 'The words.' }],
    }
    for (const provider of ['chat.completions', 'responses', 'generateContent'] as const) {
      const answer = asked('messages', provider, {
        messages: [{ role: 'user', content: [found, { type: 'text', text: 'What?' }] }],
      })
      const text = JSON.stringify('refused' in answer ? answer.refused : answer.body)
      expect(
        provider === 'generateContent' ? Buffer.from(/"data":"(.*?)"/.exec(text)![1]!, 'base64').toString() : text,
      ).toContain('The words.')
    }
  })
})

describe('a web search', () => {
  const place = { city: 'Bern', country: 'CH' }
  const asking: Record<ConversationName, object> = {
    'chat.completions': {
      web_search_options: { search_context_size: 'low', user_location: { type: 'approximate', approximate: place } },
    },
    responses: {
      tools: [
        {
          type: 'web_search',
          search_context_size: 'low',
          user_location: { type: 'approximate', ...place },
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
          user_location: { type: 'approximate', ...place },
          cache_control: { type: 'ephemeral' },
        },
      ],
    },
    generateContent: {
      tools: [{ googleSearch: { timeRangeFilter: { startTime: '2026-01-01T00:00:00Z' }, exclude_domains: ['b.com'] } }],
    },
  }
  const search = (
    client: ConversationName,
    provider: ConversationName,
    more: object = {},
  ): { body: Any; losses: string[] } => {
    const answer = asked(client, provider, { ...hello[client], ...asking[client], ...more })
    if ('refused' in answer) throw answer.refused
    return answer
  }

  const near = { type: 'approximate', ...place }
  test.each([
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
      ['web_search_options.search_context_size dropped'],
    ],
    [
      'chat.completions',
      'generateContent',
      { tools: [{ googleSearch: {} }] },
      ['web_search_options.search_context_size dropped', 'web_search_options.user_location dropped'],
    ],
    [
      'responses',
      'chat.completions',
      {
        web_search_options: { search_context_size: 'low', user_location: { type: 'approximate', approximate: place } },
      },
      ['max_tool_calls dropped', 'tools[0].filters.allowed_domains dropped', 'tools[0].external_web_access dropped'],
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
      ['tools[0].search_context_size dropped', 'tools[0].external_web_access dropped'],
    ],
    [
      'responses',
      'generateContent',
      { tools: [{ googleSearch: {} }] },
      [
        'max_tool_calls dropped',
        'tools[0].search_context_size dropped',
        'tools[0].user_location dropped',
        'tools[0].filters.allowed_domains dropped',
        'tools[0].external_web_access dropped',
      ],
    ],
    [
      'messages',
      'chat.completions',
      { web_search_options: { user_location: { type: 'approximate', approximate: place } } },
      ['tools[0].allowed_domains dropped', 'tools[0].max_uses dropped', 'tools[0].cache_control dropped'],
    ],
    [
      'messages',
      'responses',
      {
        tools: [{ type: 'web_search', user_location: near, filters: { allowed_domains: ['a.com'] } }],
        max_tool_calls: 2,
      },
      ['tools[0].cache_control dropped'],
    ],
    [
      'messages',
      'generateContent',
      { tools: [{ googleSearch: {} }] },
      [
        'tools[0].user_location dropped',
        'tools[0].allowed_domains dropped',
        'tools[0].max_uses dropped',
        'tools[0].cache_control dropped',
      ],
    ],
    [
      'generateContent',
      'chat.completions',
      { web_search_options: {} },
      ['tools[0].googleSearch.exclude_domains dropped', 'tools[0].googleSearch.timeRangeFilter dropped'],
    ],
    [
      'generateContent',
      'responses',
      { tools: [{ type: 'web_search' }] },
      ['tools[0].googleSearch.exclude_domains dropped', 'tools[0].googleSearch.timeRangeFilter dropped'],
    ],
    [
      'generateContent',
      'messages',
      { tools: [{ type: 'web_search_20250305', name: 'web_search', blocked_domains: ['b.com'] }] },
      ['tools[0].googleSearch.timeRangeFilter dropped'],
    ],
  ] as [ConversationName, ConversationName, Any, string[]][])(
    'of %s is one of %s, with all its wishes or what is told of them',
    (client, provider, wanted, told) => {
      const { body, losses } = search(client, provider)
      const { tools, web_search_options, max_tool_calls } = body
      expect(JSON.parse(JSON.stringify({ tools, web_search_options, max_tool_calls }))).toEqual(wanted)
      expect(losses.filter((loss) => !/tokens approximated$/i.test(loss)).toSorted()).toEqual(told.toSorted())
    },
  )

  test('that is demanded is demanded where that can be said, and forbidden everywhere', () => {
    const choices: [ConversationName, object, object][] = [
      ['responses', { tool_choice: { type: 'web_search' } }, { tool_choice: 'none' }],
      ['messages', { tool_choice: { type: 'tool', name: 'web_search' } }, { tool_choice: { type: 'none' } }],
    ]
    for (const [client, forced, none] of choices)
      for (const provider of NAMES.filter((name) => name !== client)) {
        const { body, losses } = search(client, provider, forced)
        if (provider === 'responses') expect(body.tool_choice).toBe('required')
        else if (provider === 'messages') expect(body.tool_choice).toEqual({ type: 'any' })
        else expect(losses.join()).toMatch(/tool_choice\S* approximated/)
        const { body: silent } = search(client, provider, none)
        if (provider === 'chat.completions' || provider === 'generateContent')
          expect(JSON.stringify(silent)).not.toMatch(/search/i)
        else expect(silent.tool_choice).toEqual(provider === 'responses' ? 'none' : { type: 'none' })
      }
  })

  test("OpenRouter's words for it are read", () => {
    for (const more of [
      { plugins: [{ id: 'web', max_results: 3 }, { id: 'file-parser' }] },
      { tools: [{ type: 'openrouter:web_search', parameters: { max_results: 3 } }] },
    ]) {
      const answer = asked('chat.completions', 'messages', { ...hello['chat.completions'], ...more })
      expect(answer).toMatchObject({
        body: { tools: [{ type: 'web_search_20250305' }] },
        losses: expect.arrayContaining([expect.stringMatching(/max_results left out$/)]),
      })
    }
  })

  test('beside functions goes where it was asked for on purpose; agents offer it whatever the task', () => {
    const lookUp = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }
    expect(search('chat.completions', 'messages', { tools: [lookUp] }).body.tools.map(({ name }: Any) => name)).toEqual(
      ['f', 'web_search'],
    )
    expect(search('chat.completions', 'generateContent', { tools: [lookUp] }).losses).toContain(
      'web_search_options dropped',
    )
    const answer = asked('responses', 'messages', {
      ...hello.responses,
      tools: [{ type: 'web_search' }, { type: 'function', name: 'f', parameters: {} }],
      tool_choice: { type: 'web_search' },
    })
    expect(answer).toMatchObject({
      body: { tools: [{ name: 'f' }] },
      losses: expect.arrayContaining(['tools[0] dropped', 'tool_choice dropped']),
    })
  })
})

describe('two searches', () => {
  const tokens = { prompt_tokens: 4, completion_tokens: 2 },
    counted = { input_tokens: 4, output_tokens: 2 }
  const call = (id: string): object => ({
    type: 'web_search_call',
    id,
    status: 'completed',
    action: { type: 'search', query: id },
  })
  const answers: Record<ConversationName, object> = {
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
  const shown: Record<ConversationName, (body: Any) => unknown> = {
    'chat.completions': ({ usage }) => usage.server_tool_use_details.web_search_requests,
    responses: ({ usage }) => usage.input_tokens_details.web_search,
    messages: ({ usage }) => usage.server_tool_use.web_search_requests,
    generateContent: () => 'no place',
  }
  for (const provider of NAMES)
    for (const client of NAMES)
      test(`${provider} -> ${client}: are counted once, and shown or told`, () => {
        const body: Any = { model: 'a/b', max_tokens: 100, ...hello[client] }
        const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
        const context: TranslationContext = {
          rawRequest,
          request: protocols[client].serve.readRequest(rawRequest),
          responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1 },
          losses: new LossReport(),
        }
        const answer = fold(eventsFor(provider, JSON.parse(JSON.stringify(answers[provider])), {}, context.request))
        expect(answer.usage.webSearches).toBe(2)
        const told = protocols[client].serve.writeResponse(answer, context)
        if (client === 'generateContent')
          expect(context.losses!.losses).toContainEqual(
            expect.objectContaining({ code: 'response_usage_adjusted', path: 'response.usage' }) as Loss,
          )
        else expect(shown[client](told)).toBe(2)
      })
})

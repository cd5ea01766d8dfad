import { describe, expect, test } from 'bun:test'
import { responses } from '../../../src/protocols/responses/index.ts'
import { SchemaCache } from '../../../src/protocols/schema/cache.ts'
import { Translation } from '../../../src/protocols/translation.ts'
import { rawRequestOf, read, readWithPaths, target, type Any } from './fixtures.ts'

/** Settings and tools in requests of clients of the Responses API, and the paths of elements. */

describe('a request', () => {
  test('has settings that other protocols have too', () => {
    expect(
      read({
        temperature: 0,
        top_p: 0.5,
        top_logprobs: 3,
        max_output_tokens: 5,
        parallel_tool_calls: false,
        stream: true,
        user: 'u',
        metadata: { a: 'b' },
        service_tier: 'flex',
        prompt_cache_key: 'k',
        reasoning: { effort: 'high', summary: 'auto' },
        include: ['reasoning.encrypted_content', 'message.output_text.logprobs'],
        text: {
          verbosity: 'low',
          format: { type: 'json_schema', name: 'n', description: 'd', schema: { type: 'object' }, strict: true },
        },
      }),
    ).toMatchObject({
      sampling: { temperature: 0, topP: 0.5, topLogprobs: 3, logprobs: true },
      maxOutputTokens: 5,
      parallelTools: false,
      stream: true,
      user: 'u',
      metadata: { a: 'b' },
      serviceTier: 'flex',
      cacheKey: 'k',
      reasoning: { effort: 'high', summary: 'auto', visible: true },
      verbosity: 'low',
      outputFormat: { type: 'schema', name: 'n', description: 'd', schema: { type: 'object' }, strict: true },
      extras: {},
    })
  })

  test('has defaults, older names and values that are not known', () => {
    const plain = read({ input: 'hi' })
    expect(plain).toMatchObject({ stream: false, protocol: 'responses', sampling: {} })
    for (const name of ['reasoning', 'outputFormat', 'verbosity', 'compaction']) expect(plain).not.toHaveProperty(name)
    expect(read({ prompt_cache_retention: '24h' }).cacheRetention).toBe('24h')
    expect(read({ top_logprobs: 0 }).sampling).toEqual({ topLogprobs: 0 })
    for (const verbosity of ['low', 'medium', 'high'] as const)
      expect(read({ text: { verbosity } }).verbosity).toBe(verbosity)
    const formats = ['text', 'json_object', 'odd'].map((type) => read({ text: { format: { type } } }))
    expect(formats.map(({ outputFormat }) => outputFormat)).toEqual([{ type: 'text' }, { type: 'json' }, undefined])
    expect({ ...formats[2]!.extras }).toEqual({ 'text.format': { type: 'odd' } })
    const reasoning = (value: object): unknown[] => {
      const { reasoning: ours, extras } = read({ reasoning: value })
      return [ours, { ...extras }]
    }
    expect(reasoning({ effort: 'extreme' })).toEqual([undefined, { 'reasoning.effort': 'extreme' }])
    expect(reasoning({ effort: 'low' })).toEqual([{ effort: 'low' }, {}])
    expect(reasoning({ summary: 'none' })).toEqual([{ summary: 'none', visible: false }, {}])
    expect(reasoning({ generate_summary: 'concise' })).toEqual([{ summary: 'concise', visible: true }, {}])
    expect(reasoning({ generate_summary: 'none', summary: 'auto' })).toEqual([{ summary: 'auto', visible: true }, {}])
  })

  test('keeps native fields by their path, but not defaults and stored state', () => {
    const request = read({
      truncation: 'auto',
      background: true,
      max_tool_calls: 2,
      prompt: { id: 'p' },
      new_thing: 1,
      include: ['file_search_call.results'],
      reasoning: { context: 'all' },
      tools: [{ type: 'function', name: 'f', defer_loading: true }],
      store: true,
      previous_response_id: 'r',
    })
    expect({ ...request.extras }).toEqual({
      truncation: 'auto',
      background: true,
      max_tool_calls: 2,
      prompt: { id: 'p' },
      new_thing: 1,
      'include[0]': 'file_search_call.results',
      'reasoning.context': 'all',
      'tools[0].defer_loading': true,
    })
    expect({ ...read({ truncation: 'disabled', background: false, text: {}, store: false }).extras }).toEqual({})
  })

  test('reads null as absent', () => {
    expect(
      read({
        instructions: null,
        tools: null,
        tool_choice: null,
        reasoning: null,
        text: { format: null },
        temperature: null,
        stream: null,
        metadata: null,
        user: null,
      }),
    ).toEqual(read({}))
  })

  test('has tools of agents that any model can use', () => {
    const { tools, webSearch, extras } = read({
      tools: [
        { type: 'function', name: 'f', description: 'd', parameters: { type: 'object' }, strict: null },
        { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
        {
          type: 'namespace',
          name: 'mcp',
          description: 'd',
          tools: [
            { type: 'function', name: 'look' },
            { type: 'function', name: 'f' },
          ],
        },
        { type: 'web_search', external_web_access: true },
        { type: 'code_interpreter', container: { type: 'auto' } },
      ],
    })
    expect(tools.map((tool) => (tool.type === 'native' ? [tool.kind, tool.optional] : [tool.type, tool.name]))).toEqual(
      [
        ['function', 'f'],
        ['custom', 'patch'],
        ['function', 'look'],
        ['function', 'mcp__f'],
        ['web_search', true],
        ['code_interpreter', undefined],
      ],
    )
    expect(webSearch).toBeUndefined()
    expect({ ...extras }).toEqual({})
  })

  test('has the description of a namespace in that of its first tool', () => {
    const described = (description: string, ...inner: object[]) => {
      const { tools, extras } = read({ tools: [{ type: 'namespace', name: 'mcp', description, tools: inner }] })
      return [tools.map((tool) => (tool.type === 'native' ? tool.kind : tool.description)), { ...extras }]
    }
    const look = { type: 'function', name: 'look', description: 'Looks.' }
    const patch = { type: 'custom', name: 'patch' }
    expect(described('Files.', look, patch)).toEqual([
      ['The tools of mcp (look, patch): Files.\n\nLooks.', undefined],
      {},
    ])
    expect(described('Files.', patch)).toEqual([['The tools of mcp (patch): Files.'], {}])
    expect(described('Files.', { type: 'namespace', name: 'n' }, look)).toEqual([
      ['namespace', 'The tools of mcp (look): Files.\n\nLooks.'],
      {},
    ])
    // OpenAI refuses longer descriptions of functions.
    expect(described('x'.repeat(1_000), look)).toEqual([['Looks.'], { 'tools[0].description': 'x'.repeat(1_000) }])
    expect(described('Files.', { type: 'namespace', name: 'n' })).toEqual([
      ['namespace'],
      { 'tools[0].description': 'Files.' },
    ])
  })

  test('has the tools of a namespace, and a namespace inside it as one that no other protocol has', () => {
    const look = { type: 'function', name: 'look' }
    const { tools, extras } = readWithPaths({
      tools: [{ type: 'namespace', name: 'mcp', description: '', tools: [look, { type: 'namespace', name: 'n' }] }],
    })
    expect(tools).toMatchObject([
      { type: 'function', name: 'look' },
      { type: 'native', kind: 'namespace', optional: true, path: 'tools[0].tools[1]' },
    ])
    expect({ ...extras }).toEqual({})
  })

  test('has a call of a tool in a namespace under its flat name', () => {
    const request = read({
      tools: [
        { type: 'namespace', name: 'mcp', tools: [{ type: 'function', name: 'f' }] },
        { type: 'function', name: 'f' },
      ],
      input: [{ type: 'function_call', namespace: 'mcp', name: 'f', call_id: 'c', arguments: '{}' }],
    })
    expect(request.turns[0]!.parts[0]).toMatchObject({ name: 'mcp__f' })
  })

  test('has a web search without other tools as a setting', () => {
    expect(read({ tools: [{ type: 'web_search_preview', search_context_size: 'low' }] })).toMatchObject({
      tools: [],
      webSearch: { contextSize: 'low' },
    })
  })

  test('has the tools of input items', () => {
    expect(
      read({
        tools: [{ type: 'function', name: 'f' }],
        input: [
          {
            type: 'additional_tools',
            role: 'developer',
            tools: [
              { type: 'function', name: 'g' },
              { type: 'function', name: 'f' },
            ],
          },
        ],
      }).tools.map((tool) => (tool as Any).name),
    ).toEqual(['f', 'g'])
  })

  test.each([
    ['auto', { type: 'auto' }],
    ['required', { type: 'required' }],
    ['none', { type: 'none' }],
    [
      { type: 'function', name: 'f' },
      { type: 'tool', name: 'f', form: 'function' },
    ],
    [
      { type: 'custom', name: 'g' },
      { type: 'tool', name: 'g', form: 'custom' },
    ],
    [
      { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }] },
      { type: 'allowed', names: ['f'], required: true },
    ],
    [{ type: 'web_search_preview' }, undefined],
  ])('reads the tool_choice %j', (choice, ours) => {
    expect(read({ tool_choice: choice }).toolChoice).toEqual(ours as never)
  })
})

describe('the path of an element', () => {
  const items = [
    { role: 'user', content: 'a' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'b' },
        { type: 'input_image', file_id: 'f' },
      ],
    },
    {
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'c' }],
      content: [{ type: 'reasoning_text', text: 'd' }],
    },
    {
      role: 'assistant',
      content: [
        { type: 'output_text', text: 'e' },
        { type: 'refusal', refusal: 'f' },
      ],
    },
    { type: 'function_call', call_id: 'c', name: 'g', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_file', file_id: 'h' }] },
    { type: 'image_generation_call', result: 'aGk=' },
    { type: 'web_search_call', id: 'w', status: 'completed', action: { type: 'search' } },
    { role: 'developer', content: 'i' },
  ]
  const pathsOf = (parts: readonly Any[]): unknown[] =>
    parts.map(({ path, type, content }) => (type === 'tool-result' ? [path, ...pathsOf(content)] : path))
  const turnPaths = (request: ReturnType<typeof read>) =>
    request.turns.map(({ path, parts }) => [path, ...pathsOf(parts)])

  test('is where the client wrote the turn, the part, or the part of a tool result', () => {
    expect(turnPaths(readWithPaths({ input: items }))).toEqual([
      ['input[0]', 'input[0].content'],
      ['input[1]', 'input[1].content[0]', 'input[1].content[1]'],
      ['input[2]', 'input[2]', 'input[2]', 'input[3].content[0]', 'input[3].content[1]', 'input[4]'],
      ['input[5]', ['input[5]', 'input[5].output[0]']],
      ['input[6]', 'input[6]', 'input[7]'],
      ['input[8]', 'input[8].content'],
    ])
    expect(turnPaths(readWithPaths({ input: 'hi' }))).toEqual([['input', 'input']])
  })

  test('is that of the field for instructions', () => {
    expect(pathsOf(readWithPaths({ instructions: 'a' }).system)).toEqual(['instructions'])
    expect(pathsOf(readWithPaths({ instructions: [{ role: 'system', content: 'a' }] }).system)).toEqual([
      'instructions[0].content',
    ])
  })

  test('is exact for tools, also inside namespaces and items, and for a web search', () => {
    const f = (name: string) => ({ type: 'function', name })
    const tools = [f('a'), { type: 'namespace', name: 'n', tools: [f('b')] }, { type: 'custom', name: 'c' }]
    const input = [{ type: 'additional_tools', tools: [f('d')] }]
    expect(readWithPaths({ tools, input }).tools.map(({ path }) => path)).toEqual([
      'tools[0]',
      'tools[1].tools[0]',
      'tools[2]',
      'input[0].tools[0]',
    ])
    expect(readWithPaths({ tools: [{ type: 'web_search' }] }).webSearch?.path).toBe('tools[0]')
  })

  test("does not count items of previous_response_id, which are in front of the client's own", () => {
    expect(turnPaths(readWithPaths({ input: items.slice(0, 2), previous_response_id: 'r' }, 1))).toEqual([
      ['previous_response_id', 'previous_response_id.content'],
      ['input[0]', 'input[0].content[0]', 'input[0].content[1]'],
    ])
    const input = [
      { role: 'user', content: 'a' },
      { role: 'nobody', content: 'b' },
    ]
    expect(() => readWithPaths({ input }, 1)).toThrow('input[0].role: ')
  })

  test("finds the fields of the client's own items behind inserted ones", () => {
    const image = (detail: string) => ({ role: 'user', content: [{ type: 'input_image', file_id: 'f', detail }] })
    const rawRequest = { ...rawRequestOf({ model: 'a/b', input: [image('low'), image('high')] }), inserted: 1 }
    const request = responses.serve.readRequest(rawRequest)
    const translation = new Translation(request, target, rawRequest, responses.serve.paths, new SchemaCache())
    const [before, own] = request.turns.map(({ parts }) => translation.at(parts[0]!, 'detail'))
    expect([before, own]).toEqual(['previous_response_id.content[0]', 'input[0].content[0].detail'])
  })
})

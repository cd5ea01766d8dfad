import { describe, expect, test } from 'bun:test'
import { responses } from '../../../src/protocols/responses/index.ts'
import { rawRequestOf, read, readWithPaths, type Any } from './fixtures.ts'

/** Items and tools of clients of the Responses API, with all of their members. */

const search = { type: 'tool_search', execution: 'client' }
const searched = { type: 'tool_search_call', call_id: 'c', execution: 'client', arguments: { q: 1 } }
const found = { type: 'tool_search_output', call_id: 'c', tools: [{ type: 'function', name: 'g', description: 'G.' }] }

describe('an item', () => {
  const known = { id: 'i', status: 'completed' }
  test.each<[object, string]>([
    [{ role: 'user', content: 'x', ...known }, 'text'],
    [{ type: 'agent_message', id: 'i', author: 'a', recipient: 'b', content: 'x' }, 'text'],
    [{ type: 'reasoning', summary: [{ type: 'summary_text', text: 'x' }], ...known }, 'reasoning'],
    [{ type: 'function_call', call_id: 'c', name: 'f', namespace: 'n', arguments: '{}', ...known }, 'tool-call'],
    [{ type: 'custom_tool_call', call_id: 'c', name: 'f', input: 'x', ...known }, 'tool-call'],
    [{ type: 'function_call_output', call_id: 'c', output: 'x', ...known }, 'tool-result'],
    [{ type: 'custom_tool_call_output', call_id: 'c', output: 'x', ...known }, 'tool-result'],
    [{ type: 'image_generation_call', result: 'aGk=', output_format: 'webp', ...known }, 'image'],
    [{ ...searched, created_by: 'a', ...known }, 'tool-call'],
    [{ type: 'web_search_call', action: {}, ...known }, 'native'],
  ])('has no other members than those that are not known: %j', (item, type) => {
    const { turns, extras } = read({ tools: [search], input: [{ ...item, mood: 1 }] })
    expect(turns.flatMap(({ parts }) => parts.map((part) => part.type as string))).toEqual([type])
    expect({ ...extras }).toEqual(type === 'native' ? {} : { 'input[0].mood': 1 })
  })

  test('brings tools without being content, and its other members are not known', () => {
    const item = { type: 'additional_tools', id: 'i', role: 'developer', tools: [], mood: 1 }
    const { turns, extras } = read({ input: [item] })
    expect([turns, { ...extras }]).toEqual([[], { 'input[0].mood': 1 }])
  })

  test('between agents is a message of the user, and instructions are text', () => {
    const { turns, system } = read({ instructions: 'i', input: [{ type: 'agent_message', content: 'x' }] })
    expect(turns).toEqual([{ role: 'user', parts: [{ type: 'text', text: 'x' }] }])
    expect(system).toEqual([{ type: 'text', text: 'i' }])
  })

  test('with an output has the form and the name of its call, where that is known', () => {
    const result = (...input: object[]): Any => read({ input }).turns.at(-1)!.parts[0] as Any
    const [output, ofCustom] = ['function_call_output', 'custom_tool_call_output'].map((type) => ({
      ...{ type, call_id: 'c', output: 'x' },
    }))
    const call = { type: 'custom_tool_call', call_id: 'c', name: 'f', input: '' }
    expect([result(output!).form, result(ofCustom!).form]).toEqual(['function', 'custom'])
    expect(result(output!)).not.toHaveProperty('name')
    expect(result(call, output!)).toMatchObject({ form: 'custom', name: 'f' })
  })

  test('of reasoning without text and signature is no turn', () => {
    expect(read({ input: [{ type: 'reasoning', id: 'rs', summary: [], content: [] }] }).turns).toEqual([])
  })

  test('that cannot be read is native content of an unknown kind, for providers of this protocol', () => {
    const input = [
      { role: 'tool', content: 'x' },
      { role: 'user', content: [{ type: 'input_text' }] },
    ]
    const { turns } = responses.serve.readRequest(rawRequestOf({ model: 'a/b', input, tools: [{}] }))
    expect(turns.map(({ role, parts }) => [role, parts[0]])).toMatchObject([
      ['assistant', { type: 'native', protocol: 'responses', kind: 'unknown', value: input[0] }],
      ['user', { type: 'native', protocol: 'responses', kind: 'unknown', value: { type: 'input_text' } }],
    ])
    const { tools } = responses.serve.readRequest(rawRequestOf({ model: 'a/b', tools: [{ a: 1 }] }))
    expect(tools).toMatchObject([{ type: 'native', protocol: 'responses', kind: 'unknown', value: { a: 1 } }])
  })

  test.each([
    ['web_search_call', true],
    ['tool_search_call', true],
    ['tool_search_output', true],
    ['mcp_list_tools', true],
    ['computer_call', undefined],
    ['image_generation_call', undefined],
  ])('%s can be left out elsewhere: %p', (type, optional) => {
    const [part] = read({ input: [{ type, id: 'i' }] }).turns[0]!.parts as Any[]
    expect([part!.kind, part!.optional]).toEqual([type, optional])
  })
})

describe('a search of tools', () => {
  const partsOf = (input: object[], tools: object[] = [search]): Any[] =>
    readWithPaths({ tools, input }).turns.flatMap(({ parts }) => parts as Any[])

  test('is a call, and what it found is its result', () => {
    const parts = partsOf([{ ...searched, arguments: undefined }, found])
    const { tools, extras } = read({ tools: [search], input: [searched, { ...found, status: 'completed' }] })
    expect({ ...extras }).toEqual({})
    expect(tools.map((tool) => (tool as Any).name)).toEqual(['tool_search', 'g'])
    expect(parts).toEqual([
      {
        ...{ type: 'tool-call', id: 'c', name: 'tool_search', arguments: '{}', form: 'function', path: 'input[0]' },
      },
      {
        ...{ type: 'tool-result', callId: 'c', name: 'tool_search', form: 'function', path: 'input[1]' },
        content: [{ type: 'text', text: 'Tools that can be called now:\n- g: G.', path: 'input[1].tools' }],
      },
    ])
    const inNamespace = (...names: string[]) => ({
      ...{ type: 'namespace', name: 'n' },
      tools: names.map((name) => ({ type: 'function', name })),
    })
    const again = { ...found, tools: [inNamespace('f', 'g')] }
    expect(
      read({ tools: [search, inNamespace('f')], input: [searched, again] }).tools.map((tool) => (tool as Any).name),
    ).toEqual(['tool_search', 'f', 'g'])
    const namespace = { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'h' }] }
    expect(partsOf([searched, { ...found, tools: [namespace] }])[1]!.content[0].text).toEndWith('now:\n- h')
    expect(partsOf([searched, { ...found, tools: [] }])[1]!.content[0].text).toBe('No tools were found.')
  })

  test.each<[string, object[], object[]]>([
    ['without an id', [{ ...searched, call_id: null }, found], [search]],
    ['of the provider', [{ ...searched, execution: 'server' }, found], [search]],
    ['without such a tool', [searched, found], []],
    ['whose tool the provider runs', [searched, found], [{ ...search, execution: 'server' }]],
    ['beside a tool that the client runs', [searched, found], [{ type: 'shell', execution: 'client' }]],
  ])('%s is the own of the provider, with its result', (_, input, tools) => {
    const parts = partsOf(input, tools)
    expect(parts.map(({ type, kind }) => `${type} ${kind}`)).toEqual([
      'native tool_search_call',
      'native tool_search_output',
    ])
  })
})

describe('a tool', () => {
  const parameters = { type: 'object' }
  test.each<[object, object]>([
    [
      { type: 'function', name: 'f', description: 'F.', parameters, strict: true },
      { type: 'function', name: 'f', description: 'F.', parameters, strict: true },
    ],
    [
      { type: 'custom', name: 'f', description: 'F.', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
      { type: 'custom', name: 'f', description: 'F.', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    ],
    [
      { type: 'custom', name: 'f', format: { type: 'text' } },
      { type: 'custom', name: 'f', format: { type: 'text' } },
    ],
    [
      { ...search, description: 'S.', parameters },
      { type: 'function', name: 'tool_search', description: 'S.', parameters },
    ],
  ])('has no other members than those that are not known: %j', (tool, expected) => {
    const { tools, extras } = read({ tools: [{ ...tool, mood: 1 }] })
    expect(tools as object[]).toEqual([expected])
    expect({ ...extras }).toEqual({ 'tools[0].mood': 1 })
  })

  test('of a provider is run by others too, where they have it', () => {
    const code = { type: 'code_interpreter', container: { type: 'auto', memory_limit: '4g' } }
    const { tools, extras } = read({ tools: [code] })
    expect(tools).toEqual([
      { type: 'native', protocol: 'responses', kind: 'code_interpreter', value: code, hosted: [{ type: 'code' }] },
    ])
    expect({ ...extras }).toEqual({ 'tools[0].container.memory_limit': '4g' })
  })

  test('for images has options that other protocols have', () => {
    const image = { type: 'image_generation', size: '1024x1536', quality: 'high', background: 'opaque' }
    const { imageOutput } = read({ tools: [image] })
    expect(imageOutput).toMatchObject({ size: expect.anything(), quality: 'high', background: 'opaque' })
    expect(read({ tools: [{ type: 'image_generation', size: 5, quality: 5, background: 5 }] }).imageOutput).toEqual({})
  })

  test('in a namespace is chosen under its flat name', () => {
    const inner = (name: string) => ({ type: 'namespace', name, tools: [{ type: 'function', name: 'f' }] })
    const chosen = { type: 'function', name: 'f', namespace: 'b' }
    const choice = (tool_choice: object) => read({ tools: [inner('a'), inner('b')], tool_choice }).toolChoice
    expect(choice(chosen)).toEqual({ type: 'tool', name: 'b__f', form: 'function' })
    expect(choice({ type: 'allowed_tools', mode: 'auto', tools: [chosen] })).toEqual({
      ...{ type: 'allowed', required: false },
      names: ['b__f'],
    })
  })

  test('in a namespace keeps its own description where that of the namespace is no text', () => {
    const described = (description: unknown): unknown[] => {
      const inner = [{ type: 'function', name: 'f', description: 'F.' }]
      const { tools, extras } = read({ tools: [{ type: 'namespace', name: 'n', description, tools: inner }] })
      return [(tools[0] as Any).description, { ...extras }]
    }
    expect([described(undefined), described('')]).toEqual([
      ['F.', {}],
      ['F.', {}],
    ])
    expect(described(5)).toEqual(['F.', { 'tools[0].description': 5 }])
    const room = 1024 - 'The tools of n (f): \n\nF.'.length
    expect(described('N'.repeat(room))[0]).toHaveLength(1024)
    expect(described('N'.repeat(room + 1))).toEqual(['F.', { 'tools[0].description': 'N'.repeat(room + 1) }])
    expect(described('N.')).toEqual(['The tools of n (f): N.\n\nF.', {}])
  })

  test('that other protocols cannot allow is a field of this one alone, with its path', () => {
    const choice = (...tools: object[]) => read({ tool_choice: { type: 'allowed_tools', mode: 'auto', tools } })
    const hosted = { type: 'web_search' }
    const both = choice({ type: 'function', name: 'f' }, hosted)
    expect([both.toolChoice, { ...both.extras }]).toEqual([
      { type: 'allowed', names: ['f'], required: false },
      { 'tool_choice.tools[1]': hosted },
    ])
    expect(choice(hosted).toolChoice).toBeUndefined()
  })
})

describe('a web search without functions', () => {
  const filters = { allowed_domains: ['a'], blocked_domains: ['b'] }
  const user_location = { type: 'approximate', country: 'AT' }
  const tool = { type: 'web_search', search_context_size: 'low', user_location, filters, external_web_access: true }
  const setting = {
    ...{ contextSize: 'low', userLocation: user_location },
    ...{ allowedDomains: ['a'], blockedDomains: ['b'] },
  }

  test('is a setting with its options and the limit of calls, and can be required', () => {
    const { tools, webSearch, toolChoice, extras } = read({
      ...{ tools: [tool], max_tool_calls: 3 },
      tool_choice: { type: 'web_search' },
    })
    expect([tools, webSearch, toolChoice]).toEqual([[], { ...setting, maxUses: 3 } as never, { type: 'required' }])
    expect({ ...extras }).toEqual({})
  })

  test('has members that only this protocol has', () => {
    const { extras } = read({ tools: [{ ...tool, external_web_access: false, mood: 1, filters: { a: 1 } }] })
    expect({ ...extras }).toEqual({
      'tools[0].external_web_access': false,
      'tools[0].mood': 1,
      'tools[0].filters.a': 1,
    })
  })

  test('does not have the limit of calls where the provider has other tools, beside which it stays', () => {
    const { tools, webSearch, extras } = read({ tools: [{ type: 'file_search' }, tool], max_tool_calls: 3 })
    expect(tools).toMatchObject([{ type: 'native', kind: 'file_search' }])
    expect(webSearch).toEqual(setting as never)
    expect({ ...extras }).toEqual({ max_tool_calls: 3 })
    const beside = read({ tools: [{ type: 'function', name: 'f' }, tool] })
    expect([beside.tools.length, beside.webSearch]).toEqual([2, undefined])
  })
})

import { describe, expect, test } from 'bun:test'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { messages, readCountRequest } from '../../../src/protocols/messages/index.ts'
import { readToTranslate, withoutPaths } from '../../translating.ts'
import { type Any, rawRequestOf, read } from './kit.ts'

/** Requests of messages from clients. */

describe('a request', () => {
  test('that offers a tool in its middle can go to any provider, and one that withdraws a tool cannot', () => {
    const change = (type: string) => ({
      role: 'system',
      content: [{ type, tool: { type: 'tool_reference', name: 'f' } }],
    })
    const messages = [{ role: 'user', content: 'Hi' }, change('tool_addition'), change('tool_removal')]
    const { turns } = read({ messages })
    expect(turns.slice(1).map(({ parts }) => parts[0])).toMatchObject([
      { type: 'native', kind: 'tool_addition', optional: true },
      { type: 'native', kind: 'tool_removal' },
    ])
    expect(turns[2]!.parts[0]).not.toHaveProperty('optional')
  })

  test('with a string as content has one turn of the user', () => {
    expect(read({})).toEqual({
      model: 'p/m',
      maxOutputTokens: 100,
      system: [],
      turns: [
        {
          role: 'user',
          path: 'messages[0]',
          parts: [{ type: 'text', text: 'Hi', path: 'messages[0].content' }],
        },
      ],
      tools: [],
      sampling: {},
      stream: false,
      protocol: 'messages',
      extras: Object.create(null),
    })
  })

  test('to count tokens does not require max_tokens', () => {
    const rawRequest = rawRequestOf({ model: 'p/m', messages: [{ role: 'user', content: 'Hi' }] })
    expect(readCountRequest(rawRequest).maxOutputTokens).toBeUndefined()
    expect(() => readToTranslate('messages', rawRequest)).toThrow('max_tokens')
  })

  test('has no top_p and top_k of -1, by which Anthropic understands its defaults', () => {
    expect(read({ top_p: -1, top_k: -1, temperature: 1 }).sampling).toEqual({ temperature: 1 })
    expect(read({ top_p: 0, top_k: 0 }).sampling).toEqual({ topP: 0, topK: 0 })
  })

  test('has leading instructions as system text, and later ones as turns', () => {
    const { system, turns } = read({
      system: [{ type: 'text', text: 'A', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      messages: [
        { role: 'system', content: 'B' },
        { role: 'user', content: 'Hi' },
        { role: 'system', content: [{ type: 'text', text: 'C' }] },
      ],
    })
    expect(system).toEqual([
      { type: 'text', path: 'system[0]', text: 'A', cache: { ttl: '1h' } },
      { type: 'text', path: 'messages[0].content', text: 'B' },
    ])
    expect(turns.map(({ role }) => role)).toEqual(['user', 'system'])
  })

  test('has tool results in one turn, with the names of their calls', () => {
    const call = (id: string): Any => ({
      type: 'tool_use',
      id,
      name: `name_${id}`,
      input: { b: 1, a: [2] },
      caller: { type: 'direct' },
    })
    const { turns, extras } = read({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: [call('x'), call('y')] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'x', content: 'one', cache_control: { type: 'ephemeral' } }],
        },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'y',
              is_error: true,
              content: [
                { type: 'image', source: { type: 'url', url: 'u' } },
                { type: 'tool_reference', tool_name: 't' },
              ],
            },
            { type: 'text', text: 'go on' },
          ],
        },
      ],
    })
    expect(turns.slice(1)).toEqual([
      {
        role: 'assistant',
        path: 'messages[1]',
        parts: ['x', 'y'].map((id, index) => ({
          type: 'tool-call',
          path: `messages[1].content[${index}]`,
          id,
          name: `name_${id}`,
          arguments: '{"b":1,"a":[2]}',
          form: 'function',
        })),
      },
      {
        role: 'tool',
        path: 'messages[2]',
        parts: [
          {
            type: 'tool-result',
            path: 'messages[2].content[0]',
            callId: 'x',
            name: 'name_x',
            content: [{ type: 'text', path: 'messages[2].content[0].content', text: 'one' }],
            form: 'function',
            cache: {},
          },
          {
            type: 'tool-result',
            path: 'messages[3].content[0]',
            callId: 'y',
            name: 'name_y',
            isError: true,
            form: 'function',
            content: [
              { type: 'image', path: 'messages[3].content[0].content[0]', source: { type: 'url', url: 'u' } },
              {
                type: 'native',
                protocol: 'messages',
                kind: 'tool_reference',
                value: { type: 'tool_reference', tool_name: 't' },
                path: 'messages[3].content[0].content[1]',
                optional: true,
              },
            ],
          },
        ],
      },
      {
        role: 'user',
        path: 'messages[3]',
        parts: [{ type: 'text', path: 'messages[3].content[1]', text: 'go on' }],
      },
    ])
    expect(extras).toEqual(Object.create(null))
  })

  test.each(['{"id":12345678901234567890,"z":1}', '{"z":1.0,"a":[-0,1e2]}'])(
    'keeps the spelling of numbers in arguments (%s)',
    (args) => {
      const rawRequest = rawRequestOf(
        '{"model":"p/m","max_tokens":1,"messages":[{"role":"assistant","content":' +
          `[{"type":"tool_use","id":"a","name":"f","input":${args}}]}]}`,
      )
      expect(messages.serve.readRequest(rawRequest).turns[0]!.parts[0]).toMatchObject({ arguments: args })
    },
  )

  test('has media with each type of source', () => {
    const document = (source: Any): Any => ({ type: 'document', title: 'T', source })
    const { turns } = read({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } },
            { type: 'image', source: { type: 'file', file_id: 'file-1' } },
            document({ type: 'base64', media_type: 'application/pdf', data: 'AA==' }),
            document({ type: 'url', url: 'https://x' }),
            document({ type: 'text', media_type: 'text/plain', data: 'plain' }),
            document({
              type: 'content',
              content: [
                { type: 'text', text: 'a' },
                { type: 'text', text: 'b' },
              ],
            }),
          ],
        },
      ],
    })
    expect(turns[0]!.parts.map((part) => ('source' in part ? part.source : part.type))).toEqual([
      { type: 'data', mediaType: 'image/png', data: 'AA==' },
      { type: 'file', id: 'file-1' },
      { type: 'data', mediaType: 'application/pdf', data: 'AA==' },
      { type: 'url', url: 'https://x' },
      { type: 'text', text: 'plain', mediaType: 'text/plain' },
      { type: 'text', text: 'a\nb', mediaType: 'text/plain' },
    ])
  })

  test('has media with a source of Anthropic alone as they are', () => {
    const content = [
      { type: 'image', source: { type: 'new', place: 'x' } },
      { type: 'image', source: { type: 'text', media_type: 'text/plain', data: 'a' } },
      { type: 'document', source: { type: 'new' } },
      { type: 'search_result', source: 'u', title: 't', content: [{ type: 'odd' }] },
    ]
    expect(read({ messages: [{ role: 'user', content }] }).turns[0]!.parts).toMatchObject(
      content.map((value) => ({ type: 'native', protocol: 'messages', kind: value.type, value })),
    )
  })

  test('has a search result as a document of the user, and as text in the result of a tool', () => {
    const found = { type: 'search_result', source: 'https://a', title: 'T', content: [{ type: 'text', text: 'x' }] }
    const { turns } = read({
      messages: [
        { role: 'user', content: [found] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: [found] }] },
      ],
    })
    expect(turns[0]!.parts).toMatchObject([
      { type: 'file', filename: 'T', source: { type: 'text', text: 'https://a\nx', mediaType: 'text/plain' } },
    ])
    expect(turns[2]!.parts).toMatchObject([{ content: [{ type: 'text', text: 'T\nhttps://a\nx' }] }])
  })

  test('has a document of text and images as these, behind its title', () => {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }
    const content = [
      { type: 'text', text: 'a' },
      { ...image, cache_control: { type: 'ephemeral' } },
    ]
    const document = { type: 'document', title: 'T', context: 'C', source: { type: 'content', content } }
    const { turns, extras } = read({ messages: [{ role: 'user', content: [document] }] })
    expect(withoutPaths(turns[0]!.parts)).toEqual([
      { type: 'text', text: 'T:' },
      { type: 'text', text: 'a' },
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AA==' }, cache: {} },
    ])
    expect(extras).toEqual({ 'messages[0].content[0].context': 'C' })
  })

  test('reports what blocks of a text document have beside their text', () => {
    const content = [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }]
    const document = { type: 'document', source: { type: 'content', content } }
    expect(read({ messages: [{ role: 'user', content: [document] }] }).extras).toEqual({
      'messages[0].content[0].source.content[0].cache_control': { type: 'ephemeral' },
    })
  })

  test('has reasoning with plain and wrapped signatures, and the signatures of calls wherever they are', () => {
    const issuer = { provider: 'g', model: 'm' }
    const { turns } = read({
      messages: [
        { role: 'user', content: 'Hi' },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 'plain' },
            { type: 'thinking', thinking: '', signature: wrapSignature('secret', issuer) },
            { type: 'thinking', thinking: 'unsigned', signature: '' },
            { type: 'thinking', thinking: 'unsigned too', signature: wrapSignature('', issuer) },
            { type: 'redacted_thinking', data: 'hidden' },
            { type: 'text', text: 'words' },
            { type: 'redacted_thinking', data: wrapSignature('of-call:3:a:1call-signature', issuer) },
            { type: 'tool_use', id: 'a:1', name: 'f', input: {} },
            { type: 'tool_use', id: 'b', name: 'f', input: {} },
            { type: 'redacted_thinking', data: wrapSignature('of-call:9:elsewherecall-signature', issuer) },
            { type: 'redacted_thinking', data: wrapSignature('of-text:alone', issuer) },
          ],
        },
      ],
    })
    expect(withoutPaths(turns[1]!.parts)).toEqual([
      { type: 'reasoning', text: 'hm', signature: { data: 'plain' } },
      { type: 'reasoning', text: '', signature: { data: 'secret', issuer } },
      { type: 'reasoning', text: 'unsigned' },
      { type: 'reasoning', text: 'unsigned too' },
      { type: 'reasoning', text: '', redacted: true, signature: { data: 'hidden' } },
      { type: 'text', text: 'words' },
      {
        type: 'tool-call',
        id: 'a:1',
        name: 'f',
        arguments: '{}',
        form: 'function',
        signature: { data: 'call-signature', issuer },
      },
      { type: 'tool-call', id: 'b', name: 'f', arguments: '{}', form: 'function' },
      { type: 'text', text: '', signature: { data: 'alone', issuer } },
    ])
  })

  test('of an agent is accepted: deferred tools, adaptive thinking, effort, context management', () => {
    const result = read({
      tools: [
        {
          name: 'a',
          description: 'd',
          input_schema: { type: 'object' },
          defer_loading: true,
          strict: true,
          cache_control: { type: 'ephemeral', ttl: '5m' },
        },
        { type: 'web_search_20250305', name: 'web_search', max_uses: 3 },
        { type: 'computer_20250124', name: 'computer' },
      ],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      thinking: { type: 'adaptive', display: 'omitted' },
      output_config: { effort: 'xhigh', format: { type: 'json_schema', schema: { type: 'object' } }, task_budget: 3 },
      context_management: { edits: [] },
      metadata: { user_id: '{"device":1}' },
      service_tier: 'auto',
      top_k: 5,
      top_p: 0.5,
      temperature: 0,
      stop_sequences: ['a', 'b', 'c', 'd', 'e'],
    })
    expect(result).toMatchObject({
      tools: [
        {
          type: 'function',
          name: 'a',
          description: 'd',
          parameters: { type: 'object' },
          strict: true,
          cache: { ttl: '5m' },
        },
        { type: 'native', protocol: 'messages', kind: 'web_search_20250305', optional: true },
        { type: 'native', protocol: 'messages', kind: 'computer_20250124' },
      ],
      toolChoice: { type: 'required' },
      parallelTools: false,
      reasoning: { adaptive: true, visible: false, effort: 'xhigh' },
      outputFormat: { type: 'schema', schema: { type: 'object' }, strict: true },
      user: '{"device":1}',
      serviceTier: 'auto',
      sampling: { temperature: 0, topP: 0.5, topK: 5, stop: ['a', 'b', 'c', 'd', 'e'] },
    })
    expect('optional' in result.tools[2]!).toBe(false)
    expect(Object.keys(result.extras).sort()).toEqual([
      'context_management',
      'output_config.task_budget',
      'tools[0].defer_loading',
    ])
  })

  test('has the tool that is to be called', () => {
    const tool_choice = { type: 'tool', name: 'f', disable_parallel_tool_use: false }
    const { toolChoice, parallelTools } = read({ tools: [{ name: 'f', input_schema: {} }], tool_choice })
    expect([toolChoice, parallelTools]).toEqual([{ type: 'tool', name: 'f' }, true])
  })

  test('with a web search as the only tool requests a web search', () => {
    const { tools, webSearch, extras } = read({
      tools: [
        {
          type: 'web_search_20250305',
          name: 'web_search',
          max_uses: 3,
          user_location: { type: 'approximate', city: 'Bern' },
        },
      ],
    })
    expect(tools).toEqual([])
    expect(webSearch).toEqual({ path: 'tools[0]', userLocation: { type: 'approximate', city: 'Bern' }, maxUses: 3 })
    expect({ ...extras }).toEqual({})
  })

  test.each([
    [{ thinking: { type: 'enabled', budget_tokens: 2048 } }, { budgetTokens: 2048 }],
    [{ thinking: { type: 'disabled' } }, { effort: 'none' }],
    [{ output_config: { effort: 'low' } }, { effort: 'low' }],
  ])('with %j has the reasoning %j', (body, reasoning) => {
    expect(read(body).reasoning).toEqual(reasoning as Any)
  })

  test('keeps unknown fields by path, and the older output_format', () => {
    const { extras, outputFormat } = read({
      metadata: { tag: 1 },
      output_format: { type: 'json_schema', schema: {} },
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', source: { type: 'url', url: 'u' }, citations: { enabled: true } }],
        },
      ],
    })
    expect({ ...extras }).toEqual({ 'metadata.tag': 1, 'messages[0].content[0].citations': { enabled: true } })
    expect(outputFormat).toEqual({ type: 'schema', schema: {}, strict: true })
  })
})

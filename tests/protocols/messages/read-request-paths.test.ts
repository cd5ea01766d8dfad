import { describe, expect, test } from 'bun:test'
import { read } from './kit.ts'

describe('a request', () => {
  test('has the path of each turn, part, tool and search', () => {
    const { system, turns, tools } = read({
      system: 'Be brief.',
      tools: [
        { name: 'f', input_schema: {} },
        { type: 'web_search_20250305', name: 'web_search' },
      ],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'image', source: { type: 'url', url: 'u' } },
            { type: 'document', source: { type: 'url', url: 'u' } },
            { type: 'search_result', source: 'u', title: 't', content: [{ type: 'text', text: 'x' }] },
            { type: 'odd_block' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 's' },
            { type: 'redacted_thinking', data: 'd' },
            { type: 'tool_use', id: 'a', name: 'f', input: {} },
            { type: 'redacted_thinking', data: 'of-call:1:asignature' },
            { type: 'redacted_thinking', data: 'of-text:signature' },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'before' },
            { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'x' }] },
          ],
        },
        { role: 'system', content: 'midway' },
      ],
    })
    const pathsOf = (elements: readonly { path?: string | undefined }[]): unknown[] => elements.map(({ path }) => path)
    expect(pathsOf([...system, ...tools])).toEqual(['system', 'tools[0]', 'tools[1]'])
    expect(turns.map(({ path, parts }) => [path, ...pathsOf(parts)])).toEqual([
      ['messages[0]', ...[0, 1, 2, 3, 4].map((index) => `messages[0].content[${index}]`)],
      ['messages[1]', ...[0, 1, 2, 4].map((index) => `messages[1].content[${index}]`)],
      ['messages[2]', 'messages[2].content[0]'],
      ['messages[2]', 'messages[2].content[1]'],
      ['messages[3]', 'messages[3].content'],
    ])
    const [result] = turns[3]!.parts
    expect(result?.type === 'tool-result' && pathsOf(result.content)).toEqual(['messages[2].content[1].content[0]'])
  })

  test.each([
    ['auto', { type: 'auto' }],
    ['any', { type: 'required' }],
    ['none', { type: 'none' }],
  ])('has the tool choice %s', (type, toolChoice) => {
    const tools = [{ name: 'f', input_schema: {} }]
    expect(read({ tools, tool_choice: { type } }).toolChoice).toEqual(toolChoice as never)
  })

  test('has the choice of a tool that only Anthropic has as a member of its own', () => {
    const tools = [{ type: 'bash_20250124', name: 'bash' }]
    const { toolChoice, extras, parallelTools } = read({
      tools,
      tool_choice: { type: 'tool', name: 'bash', disable_parallel_tool_use: true },
    })
    expect([toolChoice, Object.keys(extras), parallelTools]).toEqual([undefined, ['tool_choice'], false])
    const search = { type: 'web_search_20250305', name: 'web_search' }
    const forced = read({ tools: [search], tool_choice: { type: 'tool', name: 'web_search' } })
    expect([forced.toolChoice, Object.keys(forced.extras)]).toEqual([{ type: 'required' }, []])
  })

  test.each(['low', 'medium', 'high', 'xhigh', 'max'] as const)('has the effort %s', (effort) => {
    expect(read({ output_config: { effort } }).reasoning).toMatchObject({ effort })
  })

  test('has a document of content that is one text', () => {
    const document = { type: 'document', source: { type: 'content', content: 'All of it.' } }
    expect(read({ messages: [{ role: 'user', content: [document] }] }).turns[0]!.parts).toMatchObject([
      { type: 'file', source: { type: 'text', text: 'All of it.', mediaType: 'text/plain' } },
    ])
  })
})

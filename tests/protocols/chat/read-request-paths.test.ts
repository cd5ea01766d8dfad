import { describe, expect, test } from 'bun:test'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import { base, located, rawRequestOf, user } from './reading.ts'

describe('paths', () => {
  const pathsOf = (parts: readonly { path?: string | undefined }[]) => parts.map(({ path }) => path)

  test('turns and parts have the path at which the client wrote them', () => {
    const { system, turns } = located(
      { role: 'system', content: [{ type: 'text', text: 'S' }] },
      { role: 'developer', content: 'D' },
      { role: 'user', content: 'U' },
      {
        role: 'assistant',
        content: 'A',
        refusal: 'R',
        reasoning_details: [
          { type: 'reasoning.text', text: 'T', index: 0 },
          { type: 'reasoning.encrypted', data: 'E', id: 'rs', index: 1 },
        ],
        images: [{ image_url: { url: 'data:image/png;base64,AAAA' } }],
        audio: { id: 'audio_1' },
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } },
          { id: 'b', type: 'custom', custom: { name: 'g', input: 'x' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: 'one' }] },
      { role: 'tool', tool_call_id: 'b', content: 'two' },
      { role: 'assistant', reasoning_content: 'H', function_call: { name: 'f', arguments: '{}' } },
      {
        role: 'user',
        content: [{ type: 'text', text: 'x' }, { type: 'odd' }, { type: 'file', file: { file_id: 'f' } }],
      },
    )
    expect(pathsOf(system)).toEqual(['messages[0].content[0]', 'messages[1].content'])
    expect(pathsOf(turns)).toEqual(['messages[2]', 'messages[3]', 'messages[4]', 'messages[6]', 'messages[7]'])
    expect(turns.map(({ parts }) => pathsOf(parts))).toEqual([
      ['messages[2].content'],
      [
        'messages[3].reasoning_details[0]',
        'messages[3].reasoning_details[1]',
        'messages[3].content',
        'messages[3].refusal',
        'messages[3].images[0]',
        'messages[3].audio',
        'messages[3].tool_calls[0]',
        'messages[3].tool_calls[1]',
      ],
      ['messages[4]', 'messages[5]'],
      ['messages[6].reasoning_content', 'messages[6].function_call'],
      ['messages[7].content[0]', 'messages[7].content[1]', 'messages[7].content[2]'],
    ])
    const results = turns[2]!.parts.map((part) => (part.type === 'tool-result' ? pathsOf(part.content) : []))
    expect(results).toEqual([['messages[4].content[0]'], ['messages[5].content']])
  })

  test('a text that its signatures cut in pieces keeps its path in each piece', () => {
    const issuer = { provider: 'p', model: 'm' }
    const signature = (note: string, id: string) => ({
      type: 'reasoning.encrypted',
      data: wrapSignature('S', issuer, note),
      id,
    })
    const { turns } = located(user, {
      role: 'assistant',
      content: 'abcd',
      reasoning_details: [signature('0 0 2', 'text'), signature('4 0 4', 'text')],
    })
    expect(turns[1]!.parts).toEqual([
      { type: 'text', text: 'ab', path: 'messages[1].content', signature: { data: 'S', issuer } },
      { type: 'text', text: 'cd', path: 'messages[1].content' },
      { type: 'text', text: '', path: 'messages[1].reasoning_details[1]', signature: { data: 'S', issuer } },
    ])
  })

  test('tools and web searches have the path at which the client wrote them', () => {
    const readLocated = (fields: Record<string, unknown>) =>
      chat.serve.readRequest(rawRequestOf({ ...base, ...fields }))
    const search = { type: 'openrouter:web_search' }
    const request = readLocated({
      tools: [
        search,
        { type: 'function', function: { name: 'f' } },
        { type: 'custom', custom: { name: 'g' } },
        { type: 'odd' },
      ],
      functions: [{ name: 'old' }],
    })
    expect(pathsOf(request.tools)).toEqual(['tools[1]', 'tools[2]', 'tools[3]', 'functions'])
    expect(request.webSearch?.path).toBe('tools[0]')
    expect(readLocated({ web_search_options: {} }).webSearch?.path).toBe('web_search_options')
    expect(readLocated({ plugins: [{ id: 'x' }, { id: 'web' }] }).webSearch?.path).toBe('plugins[1]')
  })
})

import { expect, test } from 'bun:test'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import { withoutPaths } from '../../translating.ts'
import { base, located, rawRequestOf, user } from './reading.ts'

/** Fields of requests in the forms of single servers, and what of them is kept for providers of this protocol. */

const read = (fields: Record<string, unknown>) =>
  withoutPaths(chat.serve.readRequest(rawRequestOf({ ...base, ...fields })))

/** The parts of an assistant message. */
const said = (message: object): unknown[] =>
  withoutPaths(located(user, { role: 'assistant', ...message })).turns[1]!.parts

const place = { city: 'Paris' }
const approximate = { type: 'approximate', approximate: place }
const search = (parameters: object) => [{ type: 'openrouter:web_search', parameters }]

test.each<[fields: Record<string, unknown>, expected: object]>([
  [{ modalities: ['text', 'image'] }, { outputModalities: ['text', 'image'], extras: {} }],
  [{ modalities: ['video', 'text'] }, { outputModalities: ['text'], extras: { modalities: ['video', 'text'] } }],
  [
    { image_config: { aspect_ratio: '1:1', image_size: '2K', more: 1 } },
    { imageOutput: { aspectRatio: '1:1', imageSize: '2K' }, extras: { 'image_config.more': 1 } },
  ],
  [
    { image_config: { aspect_ratio: '1:1', image_size: 2 } },
    { extras: { image_config: { aspect_ratio: '1:1', image_size: 2 } } },
  ],
  [{ web_search_options: { user_location: approximate } }, { webSearch: { userLocation: approximate }, extras: {} }],
  [{ web_search_options: { user_location: place } }, { webSearch: { userLocation: place }, extras: {} }],
  [{ tools: search({ user_location: approximate }) }, { webSearch: { userLocation: approximate }, tools: [] }],
  [
    { plugins: [{ id: 'web', max_results: 3 }, { id: 'pdf' }] },
    { webSearch: {}, extras: { 'plugins[0].max_results': 3, 'plugins[1]': { id: 'pdf' } } },
  ],
  [{ plugins: [{ id: 'pdf' }] }, { extras: { plugins: [{ id: 'pdf' }] } }],
  [{ top_k: 5 }, { sampling: { topK: 5 }, extras: {} }],
  [{ top_k: 0.5 }, { sampling: {}, extras: { top_k: 0.5 } }],
  [{ stop: 'END' }, { sampling: { stop: ['END'] } }],
  [{ stop: ['A', 'B'] }, { sampling: { stop: ['A', 'B'] } }],
  [{ max_tokens: 9, max_completion_tokens: 5 }, { maxOutputTokens: 9 }],
  [{ tool_choice: 'any' }, { toolChoice: { type: 'required' } }],
  [{ tool_choice: 'none' }, { toolChoice: { type: 'none' } }],
  [
    { tool_choice: { type: 'custom', custom: { name: 'f' } } },
    { toolChoice: { type: 'tool', name: 'f', form: 'custom' } },
  ],
  [{ response_format: { type: 'text' } }, { outputFormat: { type: 'text' } }],
  [{ response_format: { type: 'grammar', of: 'x' } }, { extras: { response_format: { type: 'grammar', of: 'x' } } }],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'n', description: 'D' } } },
    { outputFormat: { type: 'schema', schema: {}, name: 'n', description: 'D' } },
  ],
  [
    { tools: [{ type: 'function', function: { name: 'f', description: 'D', odd: 1 }, more: 2 }] },
    {
      tools: [{ type: 'function', name: 'f', description: 'D' }],
      extras: { 'tools[0].function.odd': 1, 'tools[0].more': 2 },
    },
  ],
  [
    { tools: [{ type: 'custom', custom: { name: 'f', format: { type: 'text', odd: 1 } } }] },
    { tools: [{ type: 'custom', name: 'f', format: { type: 'text', odd: 1 } }], extras: {} },
  ],
  [
    {
      tools: [{ type: 'custom', custom: { name: 'f', format: { type: 'grammar', grammar: { syntax: 's', odd: 1 } } } }],
    },
    { tools: [{ name: 'f' }], extras: { 'tools[0].custom.format.grammar.odd': 1 } },
  ],
  [{ reasoning: { summary: 'auto' } }, { reasoning: { summary: 'auto', visible: true } }],
  [{ reasoning: { summary: 'none' } }, { reasoning: { summary: 'none', visible: false } }],
  [{ reasoning: { summary: 'auto', exclude: true } }, { reasoning: { visible: false } }],
  [{ reasoning: { exclude: false } }, { reasoning: { visible: true } }],
  [{ reasoning: { enabled: false } }, { reasoning: { effort: 'none' } }],
  [{ reasoning: { enabled: true } }, { reasoning: { adaptive: true } }],
  [{ reasoning: { enabled: true, effort: 'low' } }, { reasoning: { effort: 'low' } }],
  [{ reasoning: { effort: 'odd' } }, { extras: { 'reasoning.effort': 'odd' } }],
  [{ include_reasoning: false }, { reasoning: { visible: false }, extras: {} }],
  [{ include_reasoning: 'x' }, { extras: { include_reasoning: 'x' } }],
  [
    { stream_options: { include_usage: true }, usage: {} },
    { includeUsage: true, extras: {} },
  ],
  [{ usage: { include: false } }, { includeUsage: false, extras: {} }],
  [{ usage: 5 }, { extras: { usage: 5 } }],
])('%j is read as %j', (fields, expected) => {
  const request = read(fields) as unknown as Record<string, unknown>
  expect(request).toMatchObject(expected)
  for (const name of ['reasoning', 'extras'])
    if (name in expected) expect(request[name]).toEqual((expected as Record<string, unknown>)[name])
  for (const name of ['reasoning', 'webSearch', 'imageOutput', 'outputFormat'])
    if (!(name in expected)) expect(request[name]).toBeUndefined()
})

const cited = { type: 'url_citation', url_citation: { url: 'https://a.b', title: 'T', start_index: 1, end_index: 2 } }

test.each<[message: object, parts: object[], extras?: object]>([
  [{ content: [{ type: 'refusal', refusal: 'No.' }] }, [{ type: 'refusal', text: 'No.' }]],
  [{ content: null, refusal: 'No.' }, [{ type: 'refusal', text: 'No.' }]],
  [{ content: 'x', refusal: '' }, [{ type: 'text', text: 'x' }]],
  [{ content: '' }, []],
  [
    { audio: { id: 'a', more: 1 } },
    [{ type: 'native', protocol: 'chat.completions', kind: 'audio', value: { id: 'a', more: 1 }, optional: true }],
  ],
  [
    { content: '😀bc', annotations: [cited, { type: 'odd' }] },
    [{ type: 'text', text: '😀bc', citations: [{ url: 'https://a.b', title: 'T', start: 2, end: 3, native: cited }] }],
    { 'messages[1].annotations[1]': { type: 'odd' } },
  ],
  [
    { content: '', annotations: [cited], refusal: 'No.' },
    [{ type: 'refusal', text: 'No.' }],
    { 'messages[1].annotations[0]': cited },
  ],
  [
    {
      tool_calls: [
        {
          ...{ index: 0, id: 'a', function: { name: 'f', arguments: '' } },
          extra_content: { google: { thought_signature: 'S' } },
        },
      ],
    },
    [{ type: 'tool-call', id: 'a', name: 'f', arguments: '', form: 'function', signature: { data: 'S' } }],
  ],
  [
    { function_call: { name: 'f', arguments: '{}' } },
    [{ type: 'tool-call', id: 'call_1', name: 'f', arguments: '{}', form: 'function' }],
  ],
])('the message %j has the parts %j', (message, parts, extras = {}) => {
  const request = withoutPaths(located(user, { role: 'assistant', ...message }))
  expect<unknown[]>(request.turns[1]!.parts).toEqual(parts)
  expect<unknown>(request.extras).toEqual(extras)
})

test('a message that cannot be read is kept for providers of this protocol', () => {
  const value = { role: 'robot', content: 'x' }
  expect<unknown>(withoutPaths(located(user, value)).turns[1]).toEqual({
    role: 'user',
    parts: [{ type: 'native', protocol: 'chat.completions', kind: 'message', value }],
  })
})

test('encrypted reasoning belongs to the summary before it, unless their ids differ or that has a signature', () => {
  const summary = (id?: string) => ({ type: 'reasoning.summary', summary: 'S', ...(id === undefined ? {} : { id }) })
  const encrypted = (id?: string) => ({ type: 'reasoning.encrypted', data: 'D', ...(id === undefined ? {} : { id }) })
  const lengthOf = (...reasoning_details: object[]): number => said({ content: 'x', reasoning_details }).length - 1
  expect(lengthOf(summary('a'), encrypted('a'))).toBe(1)
  expect(lengthOf(summary('a'), encrypted())).toBe(1)
  expect(lengthOf(summary(), encrypted('a'))).toBe(1)
  expect(lengthOf(summary('a'), encrypted('b'))).toBe(2)
  expect(lengthOf(summary('a'), encrypted('a'), encrypted('a'))).toBe(2)
  expect(lengthOf({ type: 'reasoning.text', text: 'S', id: 'a' }, encrypted('a'))).toBe(2)
})

test('entries are joined where index, form and kind are the same', () => {
  const textOf = (...reasoning_details: object[]): unknown[] =>
    said({ content: 'x', reasoning_details })
      .slice(0, -1)
      .map((part) => (part as { text: string }).text)
  const entry = (text: string, more: object) => ({ type: 'reasoning.text', text, ...more })
  expect(textOf(entry('A', { index: 0 }), entry('B', { index: 0 }))).toEqual(['AB'])
  expect(textOf(entry('A', { index: 0 }), entry('B', { index: 1 }))).toEqual(['A', 'B'])
  expect(textOf(entry('A', {}), entry('B', {}))).toEqual(['A', 'B'])
  const summary = { type: 'reasoning.summary', summary: 'B', index: 0 }
  expect(textOf(entry('A', { index: 0 }), summary)).toEqual(['A', 'B'])
  const encrypted = { type: 'reasoning.encrypted', data: 'D', index: 0 }
  expect(textOf(encrypted, entry('B', { index: 0 }))).toEqual(['', 'B'])
})

test('reasoning is read where its signature says that it was generated, between texts and calls', () => {
  const issuer = { provider: 'p', model: 'm' }
  const signed = (data: string, note: string) => ({
    type: 'reasoning.encrypted',
    data: wrapSignature(data, issuer, note),
  })
  const calls = ['a', 'b', 'c'].map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }))
  const parts = said({
    content: 'one two',
    tool_calls: calls,
    reasoning_details: [signed('1', '4 0'), signed('2', '7 1'), signed('3', '7 2')],
  }) as { type: string; text?: string; id?: string; signature?: { data: string } }[]
  expect(parts.map(({ type, text, id, signature }) => [type, id ?? signature?.data ?? text])).toEqual([
    ['text', 'one '],
    ['reasoning', '1'],
    ['text', 'two'],
    ['tool-call', 'a'],
    ['reasoning', '2'],
    ['tool-call', 'b'],
    ['reasoning', '3'],
    ['tool-call', 'c'],
  ])
})

test('a surrogate pair is not cut by the position of a signature', () => {
  const data = wrapSignature('S', { provider: 'p', model: 'm' }, '1 0')
  expect(said({ content: '😀b', reasoning_details: [{ type: 'reasoning.encrypted', data }] })).toMatchObject([
    { type: 'text', text: '😀' },
    { type: 'reasoning' },
    { type: 'text', text: 'b' },
  ])
})

test.each([
  ['a.PDF', 'application/pdf'],
  ['a.b.csv', 'text/csv'],
  ['a.txt', 'text/plain'],
  ['a.md', 'text/markdown'],
  ['a.json', 'application/json'],
  ['a.html', 'text/html'],
  ['a.png', 'image/png'],
  ['a.jpg', 'image/jpeg'],
  ['a.jpeg', 'image/jpeg'],
  ['a.webp', 'image/webp'],
  ['a.gif', 'image/gif'],
  ['a.toString', 'application/octet-stream'],
  [undefined, 'application/octet-stream'],
])('base64 alone in the file %j is %s', (filename, mediaType) => {
  const file = { file_data: 'AAAA', filename }
  expect(located({ role: 'user', content: [{ type: 'file', file }] }).turns[0]!.parts).toMatchObject([
    { type: mediaType.startsWith('image/') ? 'image' : 'file', source: { type: 'data', mediaType, data: 'AAAA' } },
  ])
})

import { expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { codesAndPaths, HELLO, type Json, others, send, sendOrRefuse } from './routes.ts'

/** Tools of a provider, and searches of the client, in a conversation that goes on with another provider. */

/** All strings that are not names or roles, in their order. */
const textIn = (value: unknown): string =>
  typeof value === 'string'
    ? value
    : typeof value !== 'object' || value === null
      ? ''
      : Object.entries(value)
          .map(([name, inner]) => (['type', 'role'].includes(name) ? '' : textIn(inner)))
          .join('')

const source = { url: 'https://e.com', title: 'E' }

/** A conversation in which the provider searched the web, and the losses of it elsewhere. */
const SEARCHES: [ConversationName, Json, string[]][] = [
  [
    'responses',
    {
      model: 'a/b',
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
              annotations: [{ type: 'url_citation', ...source, start_index: 0, end_index: 5 }],
            },
          ],
        },
        { role: 'user', content: 'b' },
      ],
    },
    ['content_native input[1]', 'citations_dropped input[2].content[0].annotations'],
  ],
  [
    'messages',
    {
      ...HELLO.messages,
      messages: [
        { role: 'user', content: 'a' },
        {
          role: 'assistant',
          content: [
            { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } },
            {
              type: 'web_search_tool_result',
              tool_use_id: 'srvtoolu_1',
              content: [{ type: 'web_search_result', ...source, encrypted_content: 'EnC' }],
            },
            {
              type: 'text',
              text: 'Paris',
              citations: [{ type: 'web_search_result_location', ...source, cited_text: 'c', encrypted_index: 'x' }],
            },
            { type: 'text', text: '.' },
          ],
        },
        { role: 'user', content: 'b' },
      ],
    },
    [
      'content_native messages[1].content[0]',
      'content_native messages[1].content[1]',
      'citations_dropped messages[1].content[2].citations',
    ],
  ],
  [
    'chat.completions',
    {
      model: 'a/b',
      messages: [
        { role: 'user', content: 'a' },
        {
          role: 'assistant',
          content: 'Paris.',
          annotations: [{ type: 'url_citation', url_citation: { ...source, start_index: 0, end_index: 5 } }],
        },
        { role: 'user', content: 'b' },
      ],
    },
    ['citations_dropped messages[1].annotations'],
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
    ['content_native contents[1].parts[0].toolCall', 'content_native contents[1].parts[1].toolResponse'],
  ],
]

/** Losses of a request, but for the output limit that messages requires. */
const lossesOf = (losses: Parameters<typeof codesAndPaths>[0]): string[] =>
  codesAndPaths(losses)
    .filter((loss) => !loss.startsWith('limit_required '))
    .toSorted()

test.each(SEARCHES)('a conversation of %s with a search continues elsewhere with its text', (client, body, lost) => {
  for (const provider of others(client)) {
    const sent = send(client, provider, body)
    expect(textIn(sent.body)).toContain('Paris.')
    expect(lossesOf(sent.losses)).toEqual(lost.toSorted())
    expect(sent.text).not.toMatch(/EnC|srvtoolu|web_search_call|toolCall/)
  }
})

test.each(SEARCHES)('a conversation of %s with a search is sent to its own providers unchanged', (client, body) => {
  const { model: _, ...rest } = body
  expect(send(client, client, body).body).toMatchObject(rest)
})

test.each([['chat.completions', 'functions', [{ name: 'f', parameters: { type: 'object' } }]]] as [
  ConversationName,
  string,
  object[],
][])('%s: %s is refused for other providers unless it is an empty list', (client, field, value) => {
  for (const provider of others(client)) {
    expect(sendOrRefuse(client, provider, { ...HELLO[client], [field]: value })).toMatchObject({
      code: 'unsupported_parameter',
      param: field,
    })
    expect(sendOrRefuse(client, provider, { ...HELLO[client], [field]: [] })).toHaveProperty('body')
  }
  expect(send(client, client, { ...HELLO[client], [field]: value }).body[field]).toEqual(value)
})

test('annotations that are not citations are reported as dropped', () => {
  const annotations = [
    { type: 'url_citation', url_citation: { ...source, start_index: 0, end_index: 5 } },
    { type: 'file', file: { hash: 'h', name: 'x.pdf', content: [] } },
  ]
  const body = {
    model: 'a/b',
    messages: [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'Paris.', annotations },
      { role: 'user', content: 'b' },
    ],
  }
  for (const provider of others('chat.completions'))
    expect(lossesOf(send('chat.completions', provider, body).losses)).toEqual([
      'citations_dropped messages[1].annotations',
      'native_field messages[1].annotations[1]',
    ])
  expect(send('chat.completions', 'chat.completions', body).body.messages).toEqual(body.messages)
})

test('a search result of the client is sent as a document', () => {
  const found = {
    type: 'search_result',
    source: 'https://e.com',
    title: 'Found',
    content: [{ type: 'text', text: 'The words.' }],
  }
  for (const provider of others('messages')) {
    const { text } = send('messages', provider, {
      ...HELLO.messages,
      messages: [{ role: 'user', content: [found, { type: 'text', text: 'What?' }] }],
    })
    expect(
      provider === 'generateContent' ? Buffer.from(/"data":"(.*?)"/.exec(text)![1]!, 'base64').toString() : text,
    ).toContain('The words.')
  }
})

/** A page that Anthropic fetched: the answer may have only a part of what its text says. */
const fetched = (source: Json): Json => ({
  ...HELLO.messages,
  messages: [
    { role: 'user', content: 'a' },
    {
      role: 'assistant',
      content: [
        { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_fetch', input: { url: 'https://e.com' } },
        {
          type: 'web_fetch_tool_result',
          tool_use_id: 'srvtoolu_1',
          content: {
            type: 'web_fetch_result',
            url: 'https://e.com',
            content: { type: 'document', source, title: 'E', citations: { enabled: true } },
            retrieved_at: '2026-01-01T00:00:00Z',
          },
        },
        { type: 'text', text: 'It says so.' },
      ],
    },
    { role: 'user', content: 'b' },
  ],
})

test.each(others('messages'))('the text of a fetched page is carried to %s', (provider) => {
  const text = send('messages', provider, fetched({ type: 'text', media_type: 'text/plain', data: 'All of it.' }))
  expect(textIn(text.body)).toContain('[The page https://e.com:]\n```\nAll of it.\n```\n\nIt says so.')
  expect(codesAndPaths(text.losses)).toEqual(
    expect.arrayContaining(['content_native messages[1].content[0]', 'content_as_text messages[1].content[1]']),
  )
  const pdf = send('messages', provider, fetched({ type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' }))
  expect(textIn(pdf.body)).not.toContain('https://e.com')
  expect(codesAndPaths(pdf.losses)).toEqual(
    expect.arrayContaining(['content_native messages[1].content[0]', 'content_native messages[1].content[1]']),
  )
})

test.each(others('responses'))('a result that only OpenAI has leaves no message for %s', (provider) => {
  const { body } = send('responses', provider, {
    model: 'a/b',
    input: [
      { role: 'user', content: 'a' },
      { type: 'tool_search_call', execution: 'server', call_id: null, arguments: {} },
      { type: 'tool_search_output', execution: 'server', call_id: null, tools: [] },
      { type: 'message', role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
    ],
  })
  const turns = (body.messages ?? body.contents) as Json[]
  expect(turns.map((turn) => textIn(turn.content ?? turn.parts))).toEqual(['a', 'b', 'c'])
})

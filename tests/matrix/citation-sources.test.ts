import { describe, expect, test } from 'bun:test'
import { checkGrammar } from '../grammar.ts'
import { annotated, eventsOf, grounded, translate, writeTo } from './citing.ts'
import { readWireResponse } from './wire-reader.ts'
import { codesAndPaths, type Json, others } from './routes.ts'

/** Sources of a response, as providers of chat completions name them, and sources that a client cannot be sent. */

const responseOf = (message: Json, more: object = {}): object => ({
  id: 'c',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'In Paris [1].', ...message } }],
  ...more,
})

/** The citations that a client of messages receives, as `url,title,cited text`. */
function received(body: object): { sources: string[]; losses: string[] } {
  const { response, losses } = translate('chat.completions', body, 'messages')
  return {
    sources: response.content.flatMap(({ citations }: Json) =>
      (citations ?? []).map(({ url, title, cited_text }: Json) => [url, title, cited_text].join()),
    ),
    losses: codesAndPaths(losses),
  }
}

describe('sources of chat completions', () => {
  const found = { search_results: [{ title: 'A', url: 'https://a.com', snippet: 'words' }] }
  const annotation = {
    type: 'url_citation',
    url_citation: { url: 'https://a.com', title: 'P', start_index: 3, end_index: 8 },
  }

  test.each([
    [
      'a list of addresses',
      responseOf({}, { citations: ['https://a.com', 'https://b.com'] }),
      ['https://a.com,,', 'https://b.com,,'],
    ],
    [
      'a list of addresses with search results',
      responseOf({}, { citations: ['https://a.com'], ...found }),
      ['https://a.com,A,words'],
    ],
    ['search results alone', responseOf({}, found), ['https://a.com,A,words']],
    [
      'a list of addresses with annotations',
      responseOf({ annotations: [annotation] }, { citations: ['https://a.com', 'https://b.com'] }),
      ['https://a.com,P,', 'https://b.com,,'],
    ],
  ] as [string, object, string[]][])('are read from %s', (_, body, sources) =>
    expect(received(body).sources).toEqual(sources),
  )

  test.each([
    [
      'text of files',
      responseOf({ annotations: [{ type: 'file', file: { name: 'x.pdf', content: [] } }] }),
      'response_content_native response.annotations',
    ],
    [
      'references to results of tools',
      responseOf({
        content: [
          { type: 'text', text: 'In Paris' },
          { type: 'reference', reference_ids: [1] },
        ],
      }),
      'response_content_native response.reference',
    ],
    [
      'sources without a text',
      responseOf(
        { content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
        found,
      ),
      'response_content_native response.annotations',
    ],
  ] as [string, object, string][])('are reported as dropped if they are %s', (_, body, loss) =>
    expect(received(body)).toEqual({ sources: [], losses: [loss] }),
  )

  test.each(others('chat.completions'))('of a stream that calls a tool after a cited text arrive at %s', (client) => {
    const chunk = (delta: object, finish_reason: string | null = null): object => ({
      choices: [{ index: 0, delta, finish_reason }],
    })
    const annotations = (start_index: number, end_index: number, url: string): object => ({
      annotations: [{ type: 'url_citation', url_citation: { url, title: 'E', start_index, end_index } }],
    })
    const frames = [
      chunk({ content: '🗼 one' }),
      chunk(annotations(2, 5, 'https://a.com')),
      chunk({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] }),
      chunk({ content: '🗼 two' }),
      chunk(annotations(7, 10, 'https://b.com')),
      chunk({}, 'stop'),
    ]
    const events = eventsOf('chat.completions', { whole: {}, frames }, true, client)
    checkGrammar(events)
    const { citations } = readWireResponse(client, writeTo(client, events, true).text, true)
    // messages cites whole blocks.
    const before = client === 'messages' ? '🗼 ' : ''
    expect(citations.map(({ url, passage }) => [url, passage])).toEqual([
      ['https://a.com', `${before}one`],
      ['https://b.com', `${before}two`],
    ])
  })
})

test('a citation without a URL or a title is reported as dropped', () => {
  const files = [
    { type: 'file_path', file_id: 'f', index: 1 },
    { type: 'file_citation', file_id: 'f', filename: 'x.txt', index: 1 },
  ]
  const { response, losses } = translate('responses', annotated.responses('In Paris.', files), 'generateContent')
  expect(response.candidates[0].groundingMetadata).toEqual({
    groundingChunks: [{ retrievedContext: { title: 'x.txt' } }],
  })
  expect(codesAndPaths(losses)).toContain('response_citation_dropped response.citations')
})

test.each([
  [
    'no text to cite them',
    [{ functionCall: { name: 'f', args: {} } }],
    [{ web: { uri: 'https://a.com', title: 'A' } }],
  ],
  ['an unknown kind', [{ text: 'x' }], [{ newer: {} }]],
])("Google's sources with %s are reported as dropped", (_, parts, groundingChunks) => {
  const { losses } = translate('generateContent', grounded(parts, { groundingChunks }), 'chat.completions')
  expect(codesAndPaths(losses)).toContain('response_content_native response.groundingChunks')
})

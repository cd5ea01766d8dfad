import { expect, test } from 'bun:test'
import { references } from '../../../src/protocols/chat/references.ts'
import { found, inlined, PDF, PNG, problemOf, TXT, WAV } from '../referring.ts'

/** Files and addresses in chat completions, and what is put in their place. */

const body = (...parts: unknown[]): Record<string, unknown> => ({
  messages: [
    { role: 'system', content: 'text' },
    { role: 'user', content: parts },
  ],
})

test('references to objects that compatible servers store are found', () => {
  expect(
    found(
      references({
        cached_content: 'cachedContents/1',
        extra_body: { google: { cached_content: 'cachedContents/2' } },
        tools: [{ type: 'function' }, { type: 'file_search', vector_store_ids: ['vs_1'] }],
      }),
    ),
  ).toEqual([
    'cached_content <- a cached content of a provider',
    'extra_body.google.cached_content <- a cached content of a provider',
    'tools[1].vector_store_ids <- a vector store of a provider',
  ])
})

test('files and addresses are found in messages of every role, and nothing else is', () => {
  const said = {
    messages: [
      null,
      { role: 'user', content: 'https://a/b.png file-1' },
      { role: 'tool', content: [null, 'x', { type: 'file', file: { file_id: 'file-1' } }] },
      { role: 'assistant', images: [{ type: 'image_url', image_url: { url: 'http://a/b' } }] },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'DATA:image/png;base64,AAAA' } },
          { type: 'file', file: { file_id: null, file_data: 'JVBERi' } },
          { type: 'file', file: { file_data: 'https://a/c.pdf' } },
          { type: 'text', text: 'http://x' },
        ],
      },
    ],
  }
  expect(found(references(said))).toEqual([
    'messages[2].content[2].file.file_id <- file-1',
    'messages[3].images[0].image_url.url <- http://a/b (image)',
    'messages[4].content[2].file.file_data <- https://a/c.pdf (file)',
  ])
  for (const nothing of [{}, { messages: 'x' }, { messages: [{ content: {} }] }])
    expect(references(nothing)).toEqual([])
})

test('a file becomes the part that carries its kind, and keeps the members beside it', () => {
  const part = { type: 'file', cache_control: { type: 'ephemeral' }, file: { file_id: 'file-1', more: 1 } }
  const rest = { cache_control: { type: 'ephemeral' } }
  const become = (medium: typeof PDF): unknown => inlined(references, body(part), medium, ['messages', 1, 'content', 0])
  expect(become(PDF)).toEqual({
    ...rest,
    type: 'file',
    file: { more: 1, filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
  })
  expect(become(PNG)).toEqual({ ...rest, type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==' } })
  expect(become(TXT)).toEqual({ ...rest, type: 'text', text: 'a.txt:\nhällo' })
  expect(become(WAV)).toEqual({ ...rest, type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } })
  expect(
    inlined(references, body({ type: 'file', file: { file_id: 'file-1', filename: 'mine.pdf' } }), PDF, [
      'messages',
      1,
      'content',
      0,
      'file',
      'filename',
    ]),
  ).toBe('mine.pdf')
})

test('an address becomes a data URL beside its detail', () => {
  expect(
    inlined(references, body({ type: 'image_url', image_url: { url: 'https://a/b', detail: 'low' } }), PNG, [
      'messages',
      1,
      'content',
      0,
    ]),
  ).toEqual({ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==', detail: 'low' } })
})

test('a part that says two things is refused', () => {
  expect(problemOf(() => references(body({ type: 'file', file: { file_id: 'file-1', file_data: 'AAAA' } })))).toEqual([
    400,
    'messages[1].content[0].file',
  ])
  expect(
    problemOf(() => references(body({ type: 'file', file: { file_id: 'file-1' }, image_url: { url: 'https://a/b' } }))),
  ).toEqual([400, 'messages[1].content[0]'])
})

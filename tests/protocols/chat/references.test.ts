import { expect, test } from 'bun:test'
import { issuedIds, references } from '../../../src/protocols/chat/references.ts'
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
        preset: 'p',
        thread_id: 't',
        cache_id: 'c',
        search_parameters: { sources: [{ type: 'web' }, { type: 'collections', collection_ids: ['c_1'] }] },
        extra_body: { google: { cached_content: 'cachedContents/2' } },
        tools: [{ type: 'function' }, { type: 'file_search', vector_store_ids: ['vs_1'] }],
      }),
    ),
  ).toEqual([
    'cached_content <- a cached content of a provider',
    'extra_body.google.cached_content <- a cached content of a provider',
    'preset <- a preset of a provider',
    'thread_id <- a thread of a provider',
    'cache_id <- a cache of a provider',
    'search_parameters.sources[1].collection_ids <- a collection of a provider',
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

test('media of single servers are found by their addresses, and are of the kind of their member', () => {
  const parts = [
    { type: 'video_url', video_url: { url: 'https://a/v.mp4' } },
    { type: 'image_url', image_url: 'https://a/b.png' },
    { type: 'input_audio', input_audio: 'https://a/c.wav' },
    { type: 'input_audio', input_audio: 'UklGRg==' },
    { type: 'file', file: { file_data: 'https://a/d.pdf' } },
  ]
  expect(found(references(body(...parts)))).toEqual([
    'messages[1].content[0].video_url.url <- https://a/v.mp4 (video)',
    'messages[1].content[1].image_url <- https://a/b.png (image)',
    'messages[1].content[2].input_audio <- https://a/c.wav (audio)',
    'messages[1].content[4].file.file_data <- https://a/d.pdf (file)',
  ])
  expect(new Set(references(body(...parts)).map(({ source }) => source.type))).toEqual(new Set(['url']))
  const audio = ['messages', 1, 'content', 0, 'input_audio']
  expect(inlined(references, body(parts[2]), WAV, audio)).toBe('UklGRg==')
})

test('the audio of a response is issued under its id, by which a request may refer to it', () => {
  expect(references({ messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] })).toMatchObject([
    { param: 'messages[0].audio.id', source: { type: 'provider', what: 'an audio response' }, optional: true },
  ])
  const choices = [{ message: { audio: { id: 'a' } } }, { delta: { audio: { id: 'b' } } }, { delta: { audio: {} } }, {}]
  expect(issuedIds({ choices })).toEqual(['a', 'b'])
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

test('references without the array or the part that they belong into are refused', () => {
  for (const [refused, status, param] of [
    [{ messages: { image_url: 'https://a/b' } }, 400, 'messages'],
    [{ messages: [{ content: { image_url: 'https://a/b' } }] }, 400, 'messages[0].content'],
    [{ tools: { vector_store_ids: ['vs_1'] } }, 400, 'tools'],
    [{ search_parameters: { sources: { collection_ids: ['c_1'] } } }, 400, 'search_parameters.sources'],
    [body({ type: 'file', file_id: 'file-1' }), 404, 'messages[1].content[0].file_id'],
    [body({ type: 'image_url', image_url: { file_id: 'file-1' } }), 404, 'messages[1].content[0].image_url.file_id'],
  ] as const)
    expect(problemOf(() => references(refused))).toEqual([status, param])
})

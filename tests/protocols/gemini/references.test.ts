import { expect, test } from 'bun:test'
import { references } from '../../../src/protocols/gemini/references.ts'
import { found, inlined, isMedia, PDF, PNG, problemOf, TXT } from '../referring.ts'

/** Files and URLs in requests of generateContent, and the inline data that replaces them. */

const body = (...parts: unknown[]): Record<string, unknown> => ({ contents: [{ role: 'user', parts }] })
const uri = (fileUri: string, mimeType?: string): object => ({
  fileData: { fileUri, ...(mimeType === undefined ? {} : { mimeType }) },
})

test('files and URLs are found in contents, instructions and results under both spellings', () => {
  const sent = {
    system_instruction: { parts: [uri('https://a/b.pdf', 'application/pdf')] },
    contents: [
      {
        parts: [
          { text: 'file-0' },
          uri('file-ab1', 'image/png'),
          { file_data: { file_uri: 'gs://a/b', mime_type: 'video/mp4' } },
        ],
      },
      {
        parts: [
          { functionResponse: { name: 'f', response: {}, parts: [uri('https://a/c')] } },
          { function_response: { name: 'f', parts: [{ file_data: { file_uri: 'file-ab2' } }] } },
        ],
      },
      null,
    ],
  }
  expect(found(references(sent))).toEqual([
    'contents[0].parts[1].fileData.fileUri <- file-ab1 (image)',
    'contents[0].parts[2].file_data.file_uri <- gs://a/b (video)',
    'contents[1].parts[0].functionResponse.parts[0].fileData.fileUri <- https://a/c',
    'contents[1].parts[1].function_response.parts[0].file_data.file_uri <- file-ab2',
    'system_instruction.parts[0].fileData.fileUri <- https://a/b.pdf (file)',
  ])
  for (const empty of [{}, { contents: 'x', systemInstruction: 'y' }, body(uri(''), { fileData: null })])
    expect(references(empty)).toEqual([])
})

test.each([
  ['file-0af', 'file file-0af'],
  ['files/file-0af', 'file file-0af'],
  ['https://sluice.example/v1/files/file-0af', 'file file-0af'],
  ['http://127.0.0.1:4310/v1beta/files/file-0af', 'file file-0af'],
  ['files/abc-123', 'file files/abc-123'],
  [
    'https://generativelanguage.googleapis.com/v1beta/files/abc',
    'file https://generativelanguage.googleapis.com/v1beta/files/abc',
  ],
  ['file-UPPER!', 'file file-UPPER!'],
  ['https://a/file-0af', 'url https://a/file-0af'],
  ['https://a/v1/files/file-0af?x', 'url https://a/v1/files/file-0af?x'],
  ['gs://a/v1/files/file-0af', 'url gs://a/v1/files/file-0af'],
  ['https://youtu.be/x', 'url https://youtu.be/x'],
])('the URI %s is %s', (fileUri, expected) => {
  const { source } = references(body(uri(fileUri))).filter(isMedia)[0]!
  expect(`${source.type} ${source.type === 'file' ? source.id : source.url}`).toBe(expected)
})

test('contents and stores that are kept at a provider are found under both spellings', () => {
  const tools = [
    { fileSearch: { fileSearchStoreNames: ['fileSearchStores/a'] } },
    { file_search: { file_search_store_names: ['fileSearchStores/a'] } },
    { retrieval: { vertexAiSearch: { datastore: 'd' } } },
    { googleSearch: {} },
  ]
  expect(found(references({ cachedContent: 'cachedContents/a', tools }))).toEqual([
    'cachedContent <- a cached content of a provider',
    'tools[0].fileSearch.fileSearchStoreNames <- a store of a provider',
    'tools[1].file_search.file_search_store_names <- a store of a provider',
    'tools[2].retrieval <- a store of a provider',
  ])
  expect(found(references({ cached_content: 'cachedContents/a' }))).toEqual([
    'cached_content <- a cached content of a provider',
  ])
})

test('a file becomes inline data, and the other members of its part stay', () => {
  const at = ['contents', 0, 'parts', 0]
  const more = { videoMetadata: { fps: 1 }, mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' }, thoughtSignature: 's' }
  expect(inlined(references, body({ ...more, file_data: { file_uri: 'file-a', display_name: 'd' } }), PDF, at)).toEqual(
    { ...more, inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=', displayName: 'd' } },
  )
  expect(inlined(references, body(uri('file-a', 'image/jpeg')), PNG, at)).toEqual({
    inlineData: { mimeType: 'image/png', data: 'iVBORw==' },
  })
  expect(inlined(references, body(uri('file-a')), { ...TXT, mediaType: 'text/csv' }, at)).toEqual({
    inlineData: { mimeType: 'text/plain', data: TXT.data },
  })
})

test('a part with two references is refused', () => {
  expect(problemOf(() => references(body({ ...uri('file-a'), functionResponse: { parts: [] } })))).toEqual([
    400,
    'contents[0].parts[0]',
  ])
})

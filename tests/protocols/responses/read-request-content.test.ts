import { describe, expect, test } from 'bun:test'
import { read, type Any } from './fixtures.ts'

/** Contents of messages and results of clients of the Responses API. */

const parts = (...content: object[]): Any[] => {
  const { turns, extras } = read({ input: [{ role: 'user', content }] })
  expect({ ...extras }).toEqual({})
  return turns[0]!.parts as Any[]
}

describe('a file of base64', () => {
  test.each([
    ['a.pdf', 'application/pdf'],
    ['a.txt', 'text/plain'],
    ['a.md', 'text/markdown'],
    ['a.b.csv', 'text/csv'],
    ['A.HTML', 'text/html'],
    ['a.json', 'application/json'],
    ['a.xml', 'application/xml'],
    ['a.docx', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'],
    ['a.xlsx', 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'],
    ['a.pptx', 'application/vnd.openxmlformats-officedocument.presentationml.presentation'],
    ['a.png', 'image/png'],
    ['a.jpg', 'image/jpeg'],
    ['a.jpeg', 'image/jpeg'],
    ['a.webp', 'image/webp'],
    ['a', 'application/octet-stream'],
  ])('with the name %s is %s', (filename, mediaType) => {
    const [part] = parts({ type: 'input_file', filename, file_data: 'aGk=' })
    expect(part).toEqual({ type: 'file', filename, source: { type: 'data', mediaType, data: 'aGk=' } })
  })

  test('is a PDF where it begins like one, unless its name has another extension', () => {
    const file_data = Buffer.from('%PDF-1.7').toString('base64')
    const files = parts(
      { type: 'input_file', file_data },
      { type: 'input_file', filename: 'a', file_data },
      { type: 'input_file', filename: 'a.csv', file_data },
    )
    expect(files.map(({ source }: Any) => source.mediaType)).toEqual(['application/pdf', 'application/pdf', 'text/csv'])
  })
})

test('a medium has its detail, its cache breakpoint and a URL in any spelling', () => {
  const prompt_cache_breakpoint = { mode: 'auto' }
  expect(
    parts(
      { type: 'input_image', image_url: 'DATA:image/png;base64,aGk=', detail: 'original', prompt_cache_breakpoint },
      { type: 'input_file', file_data: 'Data:text/plain;base64,aGk=', detail: 'high', prompt_cache_breakpoint },
      { type: 'input_image', image_url: 'GS://bucket/a.png' },
      { type: 'input_file', file_url: 'HTTP://x.y/a.pdf' },
      { type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } },
    ),
  ).toEqual([
    {
      ...{ type: 'image', detail: 'original', cache: {} },
      source: { type: 'data', mediaType: 'image/png', data: 'aGk=' },
    },
    { type: 'file', detail: 'high', cache: {}, source: { type: 'data', mediaType: 'text/plain', data: 'aGk=' } },
    { type: 'image', source: { type: 'url', url: 'GS://bucket/a.png' } },
    { type: 'file', source: { type: 'url', url: 'HTTP://x.y/a.pdf' } },
    { type: 'audio', source: { type: 'data', mediaType: 'audio/wav', data: 'aGk=' } },
  ])
})

test.each(['low', 'high', 'auto', 'original'])('the detail of an image may be %s', (detail) => {
  expect(parts({ type: 'input_image', file_id: 'f', detail })).toMatchObject([{ detail }])
})

test('the id of a file beside its URL is not read', () => {
  const content = [{ type: 'input_file', file_url: 'https://x.y', file_id: 'f' }]
  expect({ ...read({ input: [{ role: 'user', content }] }).extras }).toEqual({ 'input[0].content[0].file_id': 'f' })
})

test.each(['text', 'input_text', 'output_text'])('a content of the type %s is text, with its citations', (type) => {
  const annotation = { type: 'url_citation', url: 'u', title: 't', start_index: 1, end_index: 2 }
  const prompt_cache_breakpoint = {}
  expect(
    parts(
      { type, text: '😀a', annotations: [annotation], logprobs: [], prompt_cache_breakpoint },
      { type, text: 'b', annotations: [] },
    ),
  ).toEqual([
    {
      ...{ type: 'text', text: '😀a', cache: {} },
      citations: [{ url: 'u', title: 't', start: 2, end: 3, native: annotation }],
    },
    { type: 'text', text: 'b' },
  ])
})

test('an encrypted content is text where it is not encrypted', () => {
  const encrypted = 'gAAAABx_-9=='
  expect(
    parts(
      ...[encrypted, 'plain', 'gAAAA of us'].map((text) => ({ type: 'encrypted_content', encrypted_content: text })),
    ),
  ).toMatchObject([
    { type: 'native', kind: 'encrypted_content', optional: true, value: { encrypted_content: encrypted } },
    { type: 'text', text: 'plain' },
    { type: 'text', text: 'gAAAA of us' },
  ])
})

test('a refusal in the result of a tool is text, and a content of another kind stays as it is', () => {
  const odd = { type: 'odd', a: 1 }
  const output = [{ type: 'refusal', refusal: 'no' }, odd, { type: 'input_text', text: 'x' }]
  const { turns } = read({ input: [{ type: 'function_call_output', call_id: 'c', output }] })
  expect((turns[0]!.parts[0] as Any).content).toEqual([
    { type: 'text', text: 'no' },
    { type: 'native', protocol: 'responses', kind: 'odd', value: odd },
    { type: 'text', text: 'x' },
  ])
})

test.each([
  [{ type: 'input_audio', input_audio: { data: '<>', format: 'wav' } }, 'input_audio.data'],
  [{ type: 'input_video', video_url: 'ftp://a' }, 'video_url'],
  [{ type: 'input_image', image_url: 'a.png' }, 'image_url'],
  [{ type: 'input_image', image_url: 'data:image/png;base64,<>' }, 'image_url'],
  [{ type: 'input_file', file_url: 'file:///a' }, 'file_url'],
  [{ type: 'input_file', file_data: '<>' }, 'file_data'],
])('%j is refused with the path of what is wrong', (part, path) => {
  const param = `input[0].content[0].${path}`
  expect(() => parts(part)).toThrow(expect.objectContaining({ param, message: expect.stringContaining(`${param}: `) }))
})

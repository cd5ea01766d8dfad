import { expect, test } from 'bun:test'
import type { MediaReference } from '../../../src/protocols/protocol.ts'
import { issuedIds, references } from '../../../src/protocols/responses/references.ts'
import { found, inlined, PDF, PNG, problemOf } from '../referring.ts'

/** References to files and URLs in bodies of the Responses API, and the media that replace them. */

const body = (...content: unknown[]): Record<string, unknown> => ({ input: [{ role: 'user', content }] })

test('files and URLs are found in every position that a body may have them', () => {
  const full = {
    instructions: [{ role: 'system', content: [{ type: 'input_file', file_url: 'https://a/b.pdf' }] }],
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'file-0' },
          { type: 'input_image', file_id: 'file-1' },
          { type: 'input_image', image_url: 'gs://a/b' },
          { type: 'input_file', file_id: 'file-2' },
          { type: 'input_image', image_url: 'data:image/png;base64,AAAA', file_id: null },
        ],
      },
      { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', file_id: 'file-3' }] },
      { type: 'custom_tool_call_output', call_id: 'c', output: [{ type: 'input_file', file_url: 'http://a' }] },
      { type: 'computer_call_output', call_id: 'c', output: { type: 'computer_screenshot', file_id: 'file-4' } },
      { type: 'computer_call_output', call_id: 'c', output: { type: 'computer_screenshot', image_url: 'https://a/c' } },
      'x',
      null,
    ],
    prompt: { id: 'pmpt', variables: { a: 'text', b: { type: 'input_image', file_id: 'file-5' } } },
    tools: [
      { type: 'image_generation', input_image_mask: { file_id: 'file-6' } },
      { type: 'code_interpreter', container: { type: 'auto' } },
      { type: 'file_search', vector_store_ids: ['vs'] },
    ],
  }
  expect(found(references(full))).toEqual([
    'instructions[0].content[0].file_url <- https://a/b.pdf (file)',
    'input[0].content[1].file_id <- file-1 (image)',
    'input[0].content[2].image_url <- gs://a/b (image)',
    'input[0].content[3].file_id <- file-2 (file)',
    'input[1].output[0].file_id <- file-3 (image)',
    'input[2].output[0].file_url <- http://a (file)',
    'input[3].output.file_id <- file-4 (image)',
    'input[4].output.image_url <- https://a/c (image)',
    'prompt.id <- a prompt of a provider',
    'prompt.variables.b.file_id <- file-5 (image)',
    'tools[0].input_image_mask.file_id <- file-6 (image)',
    'tools[2].vector_store_ids <- a vector store of a provider',
  ])
  for (const nothing of [{}, { input: 'https://a' }, { input: [{ content: 'x', output: {} }], tools: {} }])
    expect(references(nothing)).toEqual([])
})

test("the parameter of a reference has the client's own index behind items of previous_response_id", () => {
  const item = (file_id: string) => ({ role: 'user', content: [{ type: 'input_image', file_id }] })
  const [before, own] = references({ input: [item('file-1'), item('file-2')] }, 1) as MediaReference[]
  expect([before!.param, before!.path]).toEqual(['previous_response_id.content[0].file_id', ['input', 0, 'content', 0]])
  expect([own!.param, own!.path]).toEqual(['input[0].content[0].file_id', ['input', 1, 'content', 0]])
})

test('a medium replaces its reference and keeps the other members', () => {
  const at = ['input', 0, 'content', 0]
  expect(inlined(references, body({ type: 'input_image', file_id: 'file-1', detail: 'high' }), PNG, at)).toEqual({
    type: 'input_image',
    detail: 'high',
    image_url: 'data:image/png;base64,iVBORw==',
  })
  expect(inlined(references, body({ type: 'input_image', image_url: 'https://a', detail: 'high' }), PNG, at)).toEqual({
    type: 'input_image',
    image_url: 'data:image/png;base64,iVBORw==',
    detail: 'high',
  })
  expect(inlined(references, body({ type: 'input_file', file_id: 'file-1', detail: 'low' }), PDF, at)).toEqual({
    type: 'input_file',
    detail: 'low',
    filename: 'a.pdf',
    file_data: 'data:application/pdf;base64,JVBERi0=',
  })
  expect(inlined(references, body({ type: 'input_file', file_url: 'https://a', filename: 'b.pdf' }), PDF, at)).toEqual({
    type: 'input_file',
    filename: 'b.pdf',
    file_data: 'data:application/pdf;base64,JVBERi0=',
  })
})

test('the URL of a video is found, and data replaces it', () => {
  const video = { type: 'input_video', video_url: 'https://a' }
  expect(references(body(video))).toMatchObject([
    { param: 'input[0].content[0].video_url', source: { type: 'url', url: 'https://a' }, kind: 'video' },
  ])
  expect(inlined(references, body(video), PNG, ['input', 0, 'content', 0])).toEqual({
    type: 'input_video',
    video_url: 'data:image/png;base64,iVBORw==',
  })
})

test('references to objects of a provider are found', () => {
  const tools = [
    { type: 'code_interpreter', container: 'cntr_1' },
    { type: 'code_interpreter', container: { type: 'auto', file_ids: ['file-1'] } },
    { type: 'shell', environment: { type: 'container_reference', container_id: 'cntr_1' } },
    { type: 'shell', environment: 'cntr_1' },
    {
      type: 'shell',
      environment: {
        type: 'container_auto',
        skills: [
          { type: 'skill_reference', skill_id: 'skill_1' },
          { type: 'inline', name: 'a' },
        ],
      },
    },
    { type: 'file_search', vector_store_ids: [] },
    { type: 'code_interpreter', container: { type: 'auto' } },
    // The operating system of the client's computer.
    { type: 'computer_use_preview', display_width: 800, display_height: 600, environment: 'browser' },
  ]
  const expected = [
    'container <- a container',
    'container.file_ids <- a file',
    'environment.container_id <- a container',
    'environment <- a container',
    'environment.skills[0].skill_id <- a skill',
  ]
  expect(found(references({ tools }))).toEqual(expected.map((name, t) => `tools[${t}].${name} of a provider`))
  expect(found(references({ input: [{ type: 'additional_tools', tools: tools.slice(0, 1) }] }))).toEqual([
    'input[0].tools[0].container <- a container of a provider',
  ])
})

test('a file id is refused in a position without files', () => {
  expect(problemOf(() => references(body({ type: 'output_thing', file_id: 'file-1' })))).toEqual([
    404,
    'input[0].content[0].file_id',
  ])
  expect(problemOf(() => references({ input: [{ role: 'user', content: 'x', file_id: 'file-1' }] }))).toEqual([
    404,
    'input[0].file_id',
  ])
})

test('a part with two sources is refused', () => {
  expect(problemOf(() => references(body({ type: 'input_file', file_id: 'file-1', file_data: 'AAAA' })))).toEqual([
    400,
    'input[0].content[0]',
  ])
  expect(problemOf(() => references(body({ type: 'input_image', file_id: 'file-1', image_url: 'https://a' })))).toEqual(
    [400, 'input[0].content[0]'],
  )
  expect(problemOf(() => references(body({ type: 'input_file', file_url: 'https://a', file_data: 'AAAA' })))).toEqual([
    400,
    'input[0].content[0]',
  ])
  expect(problemOf(() => references(body({ type: 'input_image', image_url: { url: 'https://a' } })))).toEqual([
    400,
    'input[0].content[0].image_url',
  ])
})

test('a file at a URL is named by it, and members that are null give way to the data', () => {
  expect(references(body({ type: 'input_file', file_url: 'https://a' }))).toMatchObject([
    { param: 'input[0].content[0].file_url', source: { type: 'url', url: 'https://a' }, kind: 'file' },
  ])
  const at = ['input', 0, 'content', 0]
  const image = { type: 'input_image', file_id: 'file-1', image_url: null }
  expect(inlined(references, body(image), PNG, at)).toEqual({
    type: 'input_image',
    image_url: 'data:image/png;base64,iVBORw==',
  })
  const file = { type: 'input_file', file_id: 'file-1', file_url: null, file_data: null, filename: '' }
  expect(inlined(references, body(file), PDF, at)).toEqual({
    type: 'input_file',
    filename: 'a.pdf',
    file_data: 'data:application/pdf;base64,JVBERi0=',
  })
})

test('ids that a provider issued are those of containers and files in calls and annotations', () => {
  const annotations = [{ type: 'container_file_citation', container_id: 'c1', file_id: 'f1' }, { url: 'u' }]
  const content = [{ type: 'output_text', annotations }]
  const items = [
    { type: 'code_interpreter_call', container_id: 'c2' },
    { type: 'shell_call', environment: { container_id: 'c3' }, container_id: '' },
    { type: 'file_search_call', results: [{ file_id: 'f2' }, { file_id: 5 }] },
    { type: 'message', content, container_id: 'no' },
    { container_id: 'no' },
  ]
  const all = ['c2', 'c3', 'f2', 'c1', 'f1']
  expect([issuedIds({ output: items }), issuedIds({ response: { output: items } })]).toEqual([all, all])
  expect(items.flatMap((item) => issuedIds({ item }))).toEqual(all)
  expect([issuedIds({ part: content[0] }), issuedIds({ annotation: annotations[0] }), issuedIds({})]).toEqual([
    ['c1', 'f1'],
    ['c1', 'f1'],
    [],
  ])
})

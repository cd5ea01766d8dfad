import { expect, test } from 'bun:test'
import { references } from '../../../src/protocols/messages/references.ts'
import { found, inlined, PDF, PNG, TXT } from '../referring.ts'

/** Files and URLs in messages, and the data that replaces them. */

const body = (...content: unknown[]): Record<string, unknown> => ({ messages: [{ role: 'user', content }] })
const file = (type: string, more: object = {}): object => ({
  type,
  source: { type: 'file', file_id: 'file-1' },
  ...more,
})

test('files and URLs are found at any depth', () => {
  const request = {
    system: [
      { type: 'text', text: 'x' },
      { type: 'document', source: { type: 'url', url: 'https://a/b.pdf' } },
    ],
    messages: [
      { role: 'user', content: 'file-0' },
      {
        role: 'user',
        content: [
          file('image'),
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
          {
            type: 'tool_result',
            tool_use_id: 't',
            content: [{ type: 'image', source: { type: 'url', url: 'http://a' } }, file('document')],
          },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'x' }, file('image')] } },
          { type: 'search_result', source: 'https://a', content: [] },
        ],
      },
    ],
  }
  expect(found(references(request))).toEqual([
    'system[1].source.url <- https://a/b.pdf (file)',
    'messages[1].content[0].source.file_id <- file-1 (image)',
    'messages[1].content[2].content[0].source.url <- http://a (image)',
    'messages[1].content[2].content[1].source.file_id <- file-1 (file)',
    'messages[2].content[0].source.content[1].source.file_id <- file-1 (image)',
  ])
  for (const nothing of [{}, { system: 'x', messages: [{ content: 'y' }, 1] }, { container: { skills: [] } }])
    expect(references(nothing)).toEqual([])
})

test('a reference is replaced by the data, and its other fields stay', () => {
  const at = ['messages', 0, 'content', 0]
  const more = { title: 't', context: 'c', citations: { enabled: true }, cache_control: { type: 'ephemeral' } }
  expect(inlined(references, body(file('document', more)), PDF, at)).toEqual({
    type: 'document',
    source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
    ...more,
  })
  expect(inlined(references, body(file('document', more)), TXT, at)).toEqual({
    type: 'document',
    source: { type: 'text', media_type: 'text/plain', data: 'hällo' },
    ...more,
  })
  expect(inlined(references, body({ type: 'image', source: { type: 'url', url: 'https://a' } }), PNG, at)).toEqual({
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: 'iVBORw==' },
  })
})

test('references to objects that are stored at a provider are found', () => {
  expect(found(references(body({ type: 'container_upload', file_id: 'file_1' })))).toEqual([
    'messages[0].content[0].file_id <- a file of a provider',
  ])
  expect(found(references({ container: 'container_1' }))).toEqual(['container <- a container of a provider'])
  const skills = [
    { type: 'anthropic', skill_id: 'pptx' },
    { type: 'custom', skill_id: 'skill_1' },
  ]
  expect(found(references({ container: { id: 'container_1', skills } }))).toEqual([
    'container.id <- a container of a provider',
    'container.skills[1].skill_id <- a skill of a provider',
  ])
})

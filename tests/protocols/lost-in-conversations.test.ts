import { expect, test } from 'bun:test'
import { codesAndPaths, type Json, others, send } from '../matrix/routes.ts'

/** Members of messages and files that have no place in the request to the provider. */

const user = (content: unknown): Json => ({ role: 'user', content })
const lossesOf = (client: 'chat.completions' | 'messages', provider: Parameters<typeof send>[1], messages: Json[]) => {
  const body = { model: 'a/b', max_tokens: 90, messages }
  return codesAndPaths(send(client, provider, body).losses).filter((loss) => !loss.startsWith('result_added'))
}

test.each(others('chat.completions'))('the name of an assistant that goes on after calls is reported for %s', (to) => {
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
  const assistant = { role: 'assistant', name: 'Ada' }
  const messages = [
    user('q'),
    { role: 'assistant', tool_calls: [call] },
    { ...assistant, content: 'wait' },
    { role: 'tool', tool_call_id: 'c', content: 'ok' },
  ]
  expect(lossesOf('chat.completions', to, messages)).toContain('unsupported_field messages[2].name')
})

test.each(others('chat.completions'))(
  'a file id beside data, and a refusal beside another one, are reported for %s',
  (to) => {
    const file = { file_data: 'data:application/pdf;base64,aGk=', filename: 'a.pdf', file_id: 'file-1' }
    const messages = [
      user([{ type: 'file', file }]),
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }], refusal: 'never' },
      user('q'),
    ]
    const losses = lossesOf('chat.completions', to, messages)
    expect(losses).toContain('native_field messages[0].content[0].file.file_id')
    expect(losses).toContain('native_field messages[1].refusal')
  },
)

test.each(others('responses'))('ids and URLs beside the data of files and images are reported for %s', (to) => {
  const url = 'https://example.com/a.pdf'
  const file = { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,aGk=', file_url: url }
  const image = { type: 'input_image', image_url: 'data:image/png;base64,aGk=', file_id: 'file-1' }
  const { losses } = send('responses', to, { model: 'a/b', input: [user([file, image])] })
  const lost = codesAndPaths(losses)
  expect(lost).toContain('native_field input[0].content[0].file_url')
  expect(lost).toContain('native_field input[0].content[1].file_id')
})

test('the title of a document that is a URL is reported for responses, and sent to chat completions', () => {
  const document = { type: 'document', title: 'A', source: { type: 'url', url: 'https://example.com/a.pdf' } }
  const messages = [user([document])]
  expect(lossesOf('messages', 'responses', messages)).toEqual(['unsupported_field messages[0].content[0].title'])
  expect(lossesOf('messages', 'chat.completions', messages)).toEqual([])
})

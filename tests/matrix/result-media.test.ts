import { describe, expect, test } from 'bun:test'
import type { Quirks } from '../../src/protocols/quirks.ts'
import { written } from '../translating.ts'
import { codesAndPaths, contextOf, HELLO, type Json, sendTo } from './routes.ts'

/** Media in the results of tools: `functionResponse.parts` of Google, and the content of results elsewhere. */

const PNG = 'iVBORw0KGgo='
const PDF = 'JVBERi0='
const URL = 'https://media.example/a.png'

const MEDIA = {
  image: { inlineData: { mimeType: 'image/png', data: PNG } },
  'image by URL': { fileData: { mimeType: 'image/png', fileUri: URL } },
  'PDF file': { inlineData: { mimeType: 'application/pdf', data: PDF } },
}
type Medium = keyof typeof MEDIA

/** A Google client's result of a call with this medium. */
const fromGoogle = (medium: Medium): Json => ({
  contents: [
    { role: 'user', parts: [{ text: 'hi' }] },
    { role: 'model', parts: [{ functionCall: { id: 'c1', name: 'look', args: {} } }] },
    {
      role: 'user',
      parts: [{ functionResponse: { id: 'c1', name: 'look', response: { output: 'seen' }, parts: [MEDIA[medium]] } }],
    },
  ],
  generationConfig: { maxOutputTokens: 9 },
})

describe('a medium in the result of a Google client', () => {
  test.each([
    ['image', { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }],
    ['image by URL', { type: 'image', source: { type: 'url', url: URL } }],
    ['PDF file', { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: PDF } }],
  ] as const)('is content of the result for messages: %s', (medium, block) => {
    const { body, losses } = sendTo('messages', contextOf('generateContent', fromGoogle(medium)))
    expect(body.messages[2].content).toEqual([
      { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'seen' }, block] },
    ])
    expect(losses).toEqual([])
  })

  test.each([
    ['image', { type: 'input_image', image_url: `data:image/png;base64,${PNG}` }],
    ['image by URL', { type: 'input_image', image_url: URL }],
    ['PDF file', { type: 'input_file', filename: 'file.pdf', file_data: `data:application/pdf;base64,${PDF}` }],
  ] as const)('is content of the result for responses: %s', (medium, part) => {
    const { body, losses } = sendTo('responses', contextOf('generateContent', fromGoogle(medium)))
    expect(body.input[2]).toEqual({
      type: 'function_call_output',
      call_id: 'c1',
      output: [{ type: 'input_text', text: 'seen' }, part],
    })
    expect(losses.filter(({ path }) => path !== 'generationConfig.maxOutputTokens')).toEqual([])
  })

  test.each([
    ['image', { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }],
    ['image by URL', { type: 'image_url', image_url: { url: URL } }],
    ['PDF file', { type: 'file', file: { filename: 'file.pdf', file_data: `data:application/pdf;base64,${PDF}` } }],
  ] as const)('follows in a user message for chat completions, which is reported: %s', (medium, part) => {
    const { body, losses } = sendTo('chat.completions', contextOf('generateContent', fromGoogle(medium)))
    expect(body.messages[3]).toMatchObject({ role: 'user', content: [{ type: 'text' }, part] })
    expect(codesAndPaths(losses)).toEqual(['media_moved contents[2].parts[0].functionResponse.parts[0]'])
  })
})

/** Results of a call with these parts, and where in the request the first of them is. */
const RESULTS = {
  messages: {
    of: (content: object[]): Json => ({
      ...HELLO.messages,
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'look', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content }] },
      ],
    }),
    path: 'messages[2].content[0].content[0]',
  },
  responses: {
    of: (output: object[]): Json => ({
      ...HELLO.responses,
      input: [
        { role: 'user', content: 'hi' },
        { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output },
      ],
    }),
    path: 'input[2].output[0]',
  },
}

/** The result as a Google model that takes media in results is sent it, and the losses. */
function toGoogle(
  client: keyof typeof RESULTS,
  part: object,
  quirks: Quirks = {},
): { parts: Json[]; losses: string[] } {
  const request = RESULTS[client].of([part])
  const target = { provider: 'p', model: 'm', quirks, capabilities: { reasoning: 'level' as const } }
  const { body, losses } = written('generateContent', contextOf(client, request).request, target, request)
  return {
    parts: (body.contents as Json[])[2]!.parts,
    losses: codesAndPaths(losses.filter(({ code }) => code !== 'signature_replaced')),
  }
}

describe('a medium in a result for a Google model that takes media there', () => {
  test.each([
    ['messages', { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }],
    ['responses', { type: 'input_image', image_url: `data:image/png;base64,${PNG}` }],
  ] as const)('is part of the result of a client of %s', (client, part) => {
    expect(toGoogle(client, part)).toMatchObject({
      parts: [{ functionResponse: { id: 'c1', parts: [MEDIA.image] } }],
      losses: [],
    })
  })

  // https://googleapis.github.io/kotlin-genai: fileData in a function response is not supported in the Gemini API.
  test.each([
    ['messages', { type: 'image', source: { type: 'url', url: URL } }],
    ['responses', { type: 'input_image', image_url: URL }],
  ] as const)('follows the result of a client of %s if it has a URL, which is reported', (client, part) => {
    const { parts, losses } = toGoogle(client, part)
    expect(parts).toEqual([
      { functionResponse: { id: 'c1', name: 'look', response: { output: '' } } },
      MEDIA['image by URL'],
    ])
    expect(losses).toEqual([`media_moved ${RESULTS[client].path}`])
  })

  test('is part of the result for Vertex also if it has a URL', () => {
    const part = { type: 'image', source: { type: 'url', url: URL } }
    expect(toGoogle('messages', part, { resultUrls: true })).toMatchObject({
      parts: [{ functionResponse: { id: 'c1', parts: [MEDIA['image by URL']] } }],
      losses: [],
    })
  })

  test('follows the result if it is audio, which is reported', () => {
    const audio = { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }
    const { parts, losses } = toGoogle('responses', audio)
    expect(parts.slice(1)).toEqual([{ inlineData: { mimeType: 'audio/wav', data: 'UklGRg==' } }])
    expect(losses).toEqual(['media_moved input[2].output[0]'])
  })
})

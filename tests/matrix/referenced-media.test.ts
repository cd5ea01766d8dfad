import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { codesAndPaths, contextOf, type Json, sendTo } from './routes.ts'

/**
 * Results of Google's clients that refer to their media by name, `{"$ref": "a.png"}`:
 * https://ai.google.dev/gemini-api/docs/function-calling (multimodal function responses).
 */

const image = (data: string, displayName?: string): Json => ({
  inlineData: { mimeType: 'image/png', data, ...(displayName === undefined ? {} : { displayName }) },
})

const requestOf = (response: Json, parts: Json[], id = 'c1'): Json => ({
  contents: [
    { role: 'user', parts: [{ text: 'hi' }] },
    { role: 'model', parts: [{ functionCall: { id: 'c1', name: 'look', args: {} } }] },
    { role: 'user', parts: [{ functionResponse: { id, name: 'look', response, parts } }] },
  ],
  generationConfig: { maxOutputTokens: 99 },
})

const REFERRING = { first: { $ref: 'a.png' }, list: [{ $ref: 'b "1".png' }] }
const TEXT = '{"first":{"$ref":"a.png"},"list":[{"$ref":"b \\"1\\".png"}]}'
const MEDIA = [image('AAAA', 'b "1".png'), image('AAAB', 'a.png'), image('AAAC')]

/** The texts and the data of images in the last items of a request, in their order. */
function contentOf(provider: ConversationName, request: Json): { content: string[]; losses: string[] } {
  const { body, losses } = sendTo(provider, contextOf('generateContent', request))
  const spelled = JSON.stringify((body.messages ?? body.input).slice(2))
  const content = [...spelled.matchAll(/"text":"((?:[^"\\]|\\.)*)"|(AAA[A-Z])/g)]
  return {
    content: content.map(([, text, data]) => (text === undefined ? data! : JSON.parse(`"${text}"`))),
    losses: codesAndPaths(losses),
  }
}

describe('media to which the result of a tool refers by name', () => {
  test.each(['messages', 'responses'] as const)('follow their names in the result for %s', (provider) => {
    const { content, losses } = contentOf(provider, requestOf(REFERRING, MEDIA))
    expect(content).toEqual([TEXT, 'b "1".png:', 'AAAA', 'a.png:', 'AAAB', 'AAAC'])
    expect(losses).toEqual([])
  })

  test('follow their names in the user message for chat completions', () => {
    const { content, losses } = contentOf('chat.completions', requestOf(REFERRING, MEDIA))
    expect(content).toEqual([
      'Content returned by the tool call c1 (look):',
      'b "1".png:',
      'AAAA',
      'a.png:',
      'AAAB',
      'AAAC',
    ])
    expect(losses.filter((loss) => !loss.startsWith('media_moved'))).toEqual([])
  })

  test('follow their names in a result without its call', () => {
    const { content } = contentOf('responses', requestOf(REFERRING, MEDIA, 'c9'))
    expect(content.slice(-5)).toEqual(['b "1".png:', 'AAAA', 'a.png:', 'AAAB', 'AAAC'])
  })
})

test('a file to which the result of a tool refers keeps its name, without a label', () => {
  const file = { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=', displayName: 'a.pdf' } }
  const { body, losses } = sendTo(
    'responses',
    contextOf('generateContent', requestOf({ of: { $ref: 'a.pdf' } }, [file])),
  )
  expect((body.input as Json[]).at(-1)!.output).toEqual([
    { type: 'input_text', text: '{"of":{"$ref":"a.pdf"}}' },
    { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
  ])
  expect(losses).toEqual([])
})

test.each(['messages', 'responses', 'chat.completions'] as const)(
  'a name to which nothing refers is a loss for %s',
  (provider) => {
    const { content, losses } = contentOf(provider, requestOf({ said: '{"$ref":"a.png"}' }, [image('AAAA', 'a.png')]))
    expect(content).not.toContain('a.png:')
    expect(losses).toContain('unsupported_field contents[2].parts[0].functionResponse.parts[0].inlineData.displayName')
  },
)

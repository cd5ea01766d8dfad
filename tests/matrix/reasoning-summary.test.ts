import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import type { Quirks } from '../../src/protocols/quirks.ts'
import { written } from '../translating.ts'
import { codesAndPaths, contextOf, HELLO, type Json } from './routes.ts'

/** The summary of its reasoning that a client requests: OpenAI's and OpenRouter's `reasoning.summary`. */

/** The request for the provider, and its losses. */
function write(
  client: ConversationName,
  provider: ConversationName,
  reasoning: object,
  quirks: Quirks = {},
): { body: Json; losses: string[] } {
  const request = { ...HELLO[client], reasoning }
  const capabilities: Capabilities = {
    reasoning: provider === 'generateContent' ? 'level' : 'effort',
    maxOutputTokens: 100,
  }
  const target = { provider: 'p', model: 'm', quirks, capabilities }
  const { body, losses } = written(provider, contextOf(client, request).request, target, request)
  return { body: JSON.parse(JSON.stringify(body)) as Json, losses: codesAndPaths(losses) }
}

const OPENROUTER: Quirks = { effortField: 'reasoning' }

describe('the summary that a client of chat completions requests', () => {
  test.each(['auto', 'concise', 'detailed'])('is carried to responses: %s', (summary) => {
    const { body, losses } = write('chat.completions', 'responses', { effort: 'low', summary })
    expect(body.reasoning).toEqual({ effort: 'low', summary })
    expect(body.include).toEqual(['reasoning.encrypted_content'])
    expect(losses).toEqual([])
  })

  test('is requested without an effort, too', () => {
    expect(write('chat.completions', 'responses', { summary: 'detailed' }).body.reasoning).toEqual({
      summary: 'detailed',
    })
  })

  test.each(['messages', 'generateContent'] as const)('is reported for %s, which has none', (provider) => {
    expect(write('chat.completions', provider, { effort: 'low', summary: 'detailed' }).losses).toEqual([
      'unsupported_field reasoning.summary',
    ])
  })

  test.each(['messages', 'generateContent'] as const)(
    'shows the reasoning of %s and is no loss if it is auto',
    (provider) => {
      const { body, losses } = write('chat.completions', provider, { effort: 'low', summary: 'auto' })
      if (provider === 'generateContent') expect(body.generationConfig.thinkingConfig.includeThoughts).toBe(true)
      expect(losses).toEqual([])
    },
  )

  test.each([
    { exclude: true, summary: 'detailed' },
    { exclude: true, effort: 'low', summary: 'detailed' },
  ])('is not requested of reasoning that the client excludes (%j)', (reasoning) => {
    const { body, losses } = write('chat.completions', 'responses', reasoning)
    expect(body.reasoning?.summary).toBeUndefined()
    expect(losses).toEqual([])
  })
})

describe('the summary that a client of responses requests', () => {
  test.each(['auto', 'concise', 'detailed'])('is carried to OpenRouter: %s', (summary) => {
    const { body, losses } = write('responses', 'chat.completions', { effort: 'low', summary }, OPENROUTER)
    expect(body.reasoning).toEqual({ effort: 'low', exclude: false, summary })
    expect(losses).toEqual([])
  })

  test('excludes the reasoning of OpenRouter if it is none', () => {
    expect(write('responses', 'chat.completions', { effort: 'low', summary: 'none' }, OPENROUTER)).toEqual({
      body: expect.objectContaining({ reasoning: { effort: 'low', exclude: true } }),
      losses: [],
    })
  })

  test.each([
    ['messages', { thinking: { type: 'adaptive', display: 'omitted' } }],
    ['generateContent', { generationConfig: { thinkingConfig: { thinkingLevel: 'LOW' } } }],
  ] as const)('hides the reasoning of %s if it is none, which is no loss', (provider, sent) => {
    const { body, losses } = write('responses', provider, { effort: 'low', summary: 'none' })
    expect(body).toMatchObject(sent)
    expect(body.generationConfig?.thinkingConfig.includeThoughts).toBeUndefined()
    expect(losses).toEqual([])
  })

  test('is no loss for a model of messages that always shows its reasoning if it is none', () => {
    const request = { ...HELLO.responses, max_output_tokens: 5000, reasoning: { effort: 'low', summary: 'none' } }
    const target = { provider: 'p', model: 'm', quirks: {}, capabilities: { reasoning: 'budget' as const } }
    const { losses } = written('messages', contextOf('responses', request).request, target, request)
    expect(codesAndPaths(losses)).toEqual(['effort_as_budget reasoning.effort'])
  })

  test.each([
    ['auto', []],
    ['none', []],
    ['detailed', ['unsupported_field reasoning.summary']],
  ])('is reported for other providers of chat completions unless it is auto or none (%s)', (summary, losses) => {
    expect(write('responses', 'chat.completions', { effort: 'low', summary }).losses).toEqual(losses)
  })
})

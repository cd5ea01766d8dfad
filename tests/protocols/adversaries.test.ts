import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { prepared, written } from '../translating.ts'

/** Hostile requests: the work for them is at most linear in their length. */

const target = { provider: 'p', model: 'm', quirks: {}, capabilities: { maxOutputTokens: 1000 } }

function contextOf(client: ConversationName, body: Record<string, unknown>) {
  const text = JSON.stringify({ model: 'a/b', ...body })
  const rawRequest = {
    body: JSON.parse(text) as Record<string, unknown>,
    text,
    model: 'a/b',
    stream: false,
    headers: new Headers(),
  }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1 },
  }
}

const refusal = (provider: ConversationName, context: ReturnType<typeof contextOf>): GatewayError | undefined => {
  try {
    prepared({ protocol: provider, baseUrl: '', target } as unknown as Endpoint, context)
    return undefined
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

const REQUEST = { max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] }

describe('a hostile request', () => {
  test('with many consecutive turns has each tool call written once', () => {
    const turns = 200
    const id = (n: number): string => `${'x'.repeat(70)}${n}`
    const messages = [
      ...REQUEST.messages,
      ...Array.from({ length: turns }, (_, n) => ({
        role: 'assistant',
        content: [{ type: 'tool_use', id: id(n), name: 'f', input: {} }],
      })),
    ]
    const { request } = contextOf('messages', { ...REQUEST, messages })
    const { body, losses } = written('chat.completions', request, target)
    const sent = body.messages as { role: string; tool_calls?: object[] }[]
    expect(sent.map(({ role, tool_calls: calls }) => calls?.length ?? role)).toEqual([
      'user',
      turns,
      ...Array<string>(turns).fill('tool'),
    ])
    expect(losses.filter(({ path }) => path === 'messages[1].content[0].id').length).toBeLessThanOrEqual(2)
  })

  test('with many or long stop sequences is refused if Sluice would have to apply them', () => {
    const withStops = (stop_sequences: string[]) => contextOf('messages', { ...REQUEST, stop_sequences })
    const many = Array.from({ length: 65 }, (_, n) => `stop ${n}`)
    for (const provider of ['chat.completions', 'responses', 'generateContent'] as const) {
      expect(refusal(provider, withStops(many))).toMatchObject({ code: 'invalid_request', param: 'stop_sequences' })
      expect(refusal(provider, withStops(['x'.repeat(1001)]))).toMatchObject({
        code: 'invalid_request',
        param: 'stop_sequences',
      })
      expect(refusal(provider, withStops([...many.slice(1), 'x'.repeat(1000)].slice(1)))).toBeUndefined()
    }
    expect(refusal('messages', withStops(many))).toBeUndefined()
    expect(refusal('messages', contextOf('chat.completions', { ...REQUEST, stop: 'x'.repeat(1001) }))?.param).toBe(
      'stop',
    )
    expect(
      refusal(
        'messages',
        contextOf('generateContent', {
          contents: [{ parts: [{ text: 'hi' }] }],
          generationConfig: { stopSequences: ['x'.repeat(1001)] },
        }),
      )?.param,
    ).toBe('generationConfig.stopSequences')
  })
})

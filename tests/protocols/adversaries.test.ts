import { prepared, written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'

/** Requests that were made to cost much: what is done for them grows with their length, and no faster. */

const target = { provider: 'p', model: 'm', quirks: {}, capabilities: { maxOutputTokens: 1000 } }

function exchangeOf(client: ConversationName, body: Record<string, unknown>) {
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

const refusal = (provider: ConversationName, context: ReturnType<typeof exchangeOf>): GatewayError | undefined => {
  try {
    prepared({ protocol: provider, baseUrl: '', target } as unknown as Endpoint, context)
    return undefined
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

const asked = { max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] }

describe('requests', () => {
  test('each call of turns that follow each other is written once', () => {
    const turns = 200
    const id = (n: number): string => `${'x'.repeat(70)}${n}`
    const messages = [
      ...asked.messages,
      ...Array.from({ length: turns }, (_, n) => ({
        role: 'assistant',
        content: [{ type: 'tool_use', id: id(n), name: 'f', input: {} }],
      })),
    ]
    const { request } = exchangeOf('messages', { ...asked, messages })
    const { body, losses } = written('chat.completions', request, target)
    const sent = body.messages as { role: string; tool_calls?: object[] }[]
    expect(sent.map(({ role, tool_calls: calls }) => calls?.length ?? role)).toEqual([
      'user',
      turns,
      ...Array<string>(turns).fill('tool'),
    ])
    expect(losses.filter(({ path }) => path === 'messages[1].content[0].id').length).toBeLessThanOrEqual(2)
  })

  test('stop sequences for which Sluice would have to look itself are few and short', () => {
    const ask = (stop_sequences: string[]) => exchangeOf('messages', { ...asked, stop_sequences })
    const many = Array.from({ length: 65 }, (_, n) => `stop ${n}`)
    for (const provider of ['chat.completions', 'responses', 'generateContent'] as const) {
      expect(refusal(provider, ask(many))).toMatchObject({ code: 'invalid_request', param: 'stop_sequences' })
      expect(refusal(provider, ask(['x'.repeat(1001)]))).toMatchObject({
        code: 'invalid_request',
        param: 'stop_sequences',
      })
      expect(refusal(provider, ask([...many.slice(1), 'x'.repeat(1000)].slice(1)))).toBeUndefined()
    }
    expect(refusal('messages', ask(many))).toBeUndefined()
    expect(refusal('messages', exchangeOf('chat.completions', { ...asked, stop: 'x'.repeat(1001) }))?.param).toBe(
      'stop',
    )
    expect(
      refusal(
        'messages',
        exchangeOf('generateContent', {
          contents: [{ parts: [{ text: 'hi' }] }],
          generationConfig: { stopSequences: ['x'.repeat(1001)] },
        }),
      )?.param,
    ).toBe('generationConfig.stopSequences')
  })
})

import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import type { Quirks } from '../../src/protocols/quirks.ts'
import { readToTranslate, written } from '../translating.ts'

/** Requests with a reasoning effort and a budget, of which most providers take one. */

type Json = Record<string, any>

const BOTH = {
  model: 'a/b',
  max_tokens: 9000,
  thinking: { type: 'enabled', budget_tokens: 3000 },
  output_config: { effort: 'high' },
  messages: [{ role: 'user', content: 'hi' }],
}

function sentTo(
  provider: ConversationName,
  client: ConversationName,
  body: Json,
  capabilities: Capabilities,
  quirks: Quirks = {},
): { body: Json; lost: string[] } {
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
  const request = readToTranslate(client, rawRequest)
  const { body: sent, losses } = written(provider, request, { provider: 'p', model: 'm', quirks, capabilities }, body)
  return { body: sent, lost: losses.map(({ code, path }) => `${code} ${path}`) }
}

describe('what is reported of an effort with a budget', () => {
  const EFFORT_LOST = ['unsupported_combination output_config.effort']
  const BUDGET_LOST = ['unsupported_combination thinking.budget_tokens']

  test('the loss is the effort for a budget model of generateContent, and the budget for one with levels', () => {
    const ofBudget = sentTo('generateContent', 'messages', BOTH, { reasoning: 'budget' })
    expect(ofBudget.body.generationConfig.thinkingConfig).toMatchObject({ thinkingBudget: 3000 })
    expect(ofBudget.lost).toEqual(EFFORT_LOST)
    const ofLevel = sentTo('generateContent', 'messages', BOTH, { reasoning: 'level' })
    expect(ofLevel.body.generationConfig.thinkingConfig).toMatchObject({ thinkingLevel: 'HIGH' })
    expect(ofLevel.lost).toEqual(BUDGET_LOST)
  })

  test('the loss is the effort where chat completions have budgets, and the budget elsewhere', () => {
    const ofBudget = sentTo('chat.completions', 'messages', BOTH, {}, { effortField: 'reasoning' })
    expect(ofBudget.body.reasoning).toEqual({ max_tokens: 3000 })
    expect(ofBudget.lost).toEqual(EFFORT_LOST)
    const ofEffort = sentTo('chat.completions', 'messages', BOTH, {})
    expect([ofEffort.body.reasoning_effort, ofEffort.lost]).toEqual(['high', BUDGET_LOST])
  })

  test('the loss is the effort for a budget model of messages', () => {
    const { messages } = BOTH
    const body = { model: 'a/b', max_tokens: 9000, reasoning: { effort: 'high', max_tokens: 3000 }, messages }
    const { body: sent, lost } = sentTo('messages', 'chat.completions', body, { reasoning: 'budget' })
    expect(sent.thinking).toEqual({ type: 'enabled', budget_tokens: 3000 })
    expect(lost).toEqual(['unsupported_combination reasoning.effort'])
  })
})

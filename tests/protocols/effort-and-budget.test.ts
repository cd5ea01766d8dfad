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

  const withReasoning = (reasoning: Json): Json => ({
    model: 'a/b',
    max_tokens: 9000,
    reasoning,
    messages: BOTH.messages,
  })

  test.each<[ConversationName, Capabilities, adjusted: string[]]>([
    ['messages', {}, []],
    ['messages', { reasoning: 'adaptive' }, []],
    ['messages', { reasoning: 'adaptive', efforts: ['low', 'high'] }, ['effort_adjusted reasoning.max_tokens']],
    ['generateContent', {}, []],
    ['generateContent', { reasoning: 'level' }, ['effort_adjusted reasoning.max_tokens']],
  ])('the loss is the effort beside a budget of 0 for %s with %j', (provider, capabilities, adjusted) => {
    const { lost } = sentTo(
      provider,
      'chat.completions',
      withReasoning({ effort: 'high', max_tokens: 0 }),
      capabilities,
    )
    expect(lost.toSorted()).toEqual([...adjusted, 'unsupported_combination reasoning.effort'])
    const { lost: none } = sentTo(provider, 'chat.completions', withReasoning({ max_tokens: 0 }), capabilities)
    expect(none).toEqual(adjusted)
  })

  test('the loss is the budget beside the effort none for messages', () => {
    const both = withReasoning({ effort: 'none', max_tokens: 3000 })
    const { body, lost } = sentTo('messages', 'chat.completions', both, {})
    expect(body.thinking).toEqual({ type: 'disabled' })
    expect(lost).toEqual(['unsupported_combination reasoning.max_tokens'])
    expect(sentTo('messages', 'chat.completions', withReasoning({ effort: 'none' }), {}).lost).toEqual([])
  })

  test('the loss is the effort for a budget model of messages', () => {
    const body = withReasoning({ effort: 'high', max_tokens: 3000 })
    const { body: sent, lost } = sentTo('messages', 'chat.completions', body, { reasoning: 'budget' })
    expect(sent.thinking).toEqual({ type: 'enabled', budget_tokens: 3000 })
    expect(lost).toEqual(['unsupported_combination reasoning.effort'])
  })
})

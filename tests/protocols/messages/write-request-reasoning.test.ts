import { describe, expect, test } from 'bun:test'
import type { GenerationRequest, Part } from '../../../src/generation/request.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import { type Any, assistant, call, result, tool, user, write } from './kit.ts'

/** Output limits and reasoning in requests to providers of the Messages API. */

describe('reasoning and the output limit', () => {
  test.each([
    [
      'an effort is sent as a budget',
      { reasoning: { effort: 'high' }, maxOutputTokens: 50_000 },
      {},
      { max_tokens: 50_000, thinking: { type: 'enabled', budget_tokens: 24_576 } },
      ['effort_as_budget reasoning_effort'],
    ],
    [
      'an exact budget is sent as it is',
      { reasoning: { budgetTokens: 3000 } },
      {},
      { max_tokens: 5000, thinking: { type: 'enabled', budget_tokens: 3000 } },
      [],
    ],
    [
      'a budget above the output limit is reduced',
      { reasoning: { budgetTokens: 9000 } },
      {},
      { max_tokens: 5000, thinking: { type: 'enabled', budget_tokens: 4000 } },
      ['budget_adjusted reasoning.max_tokens'],
    ],
    [
      'a budget below the smallest is raised',
      { reasoning: { budgetTokens: 10 } },
      {},
      { thinking: { type: 'enabled', budget_tokens: 1024 } },
      ['budget_adjusted reasoning.max_tokens'],
    ],
    [
      'reasoning whose text the response leaves out is requested without a loss',
      { reasoning: { budgetTokens: 3000, visible: false } },
      {},
      { thinking: { type: 'enabled', budget_tokens: 3000 } },
      [],
    ],
    [
      'adaptive reasoning is sent as a budget',
      { reasoning: { adaptive: true }, maxOutputTokens: 50_000 },
      {},
      { thinking: { type: 'enabled', budget_tokens: 8192 } },
      ['reasoning_adjusted reasoning.enabled'],
    ],
    [
      'an output limit without room for a budget switches reasoning off',
      { reasoning: { effort: 'low' }, maxOutputTokens: 1000 },
      {},
      { max_tokens: 1000, thinking: undefined },
      ['reasoning_not_possible reasoning_effort'],
    ],
    [
      'the default output limit leaves room for a budget',
      { reasoning: { effort: 'medium' }, maxOutputTokens: undefined },
      {},
      { max_tokens: 32_768, thinking: { type: 'enabled', budget_tokens: 8192 } },
      ['limit_required max_completion_tokens', 'effort_as_budget reasoning_effort'],
    ],
    [
      'the default output limit leaves room for the largest budget',
      { reasoning: { effort: 'max' }, maxOutputTokens: undefined },
      {},
      { max_tokens: 36_864, thinking: { type: 'enabled', budget_tokens: 32_768 } },
      ['limit_required max_completion_tokens', 'effort_as_budget reasoning_effort'],
    ],
    [
      'the limit of the model is sent where the client has none',
      { maxOutputTokens: undefined },
      { maxOutputTokens: 64_000 },
      { max_tokens: 64_000 },
      [],
    ],
    [
      'a limit above that of the model is reduced',
      { maxOutputTokens: 99_999 },
      { maxOutputTokens: 8192 },
      { max_tokens: 8192 },
      ['value_adjusted max_completion_tokens'],
    ],
    [
      'an effort is sent as an effort',
      { reasoning: { effort: 'xhigh', visible: false } },
      { reasoning: 'adaptive' },
      { thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'xhigh' } },
      [],
    ],
    [
      'a budget is sent as an effort',
      { reasoning: { budgetTokens: 8000 } },
      { reasoning: 'adaptive' },
      { thinking: { type: 'adaptive' }, output_config: { effort: 'medium' } },
      ['budget_as_effort reasoning.max_tokens'],
    ],
    [
      'a small budget is sent as the least effort',
      { reasoning: { budgetTokens: 1000 } },
      { reasoning: 'adaptive' },
      { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
      ['effort_adjusted reasoning.max_tokens'],
    ],
    ['a service tier that both protocols have is sent', { serviceTier: 'auto' }, {}, { service_tier: 'auto' }, []],
    [
      'a temperature is sent alone where the model takes either it or top_p',
      { sampling: { temperature: 0.5, topP: 0.9 } },
      { sampling: 'either' },
      { temperature: 0.5, top_p: undefined },
      ['unsupported_combination top_p'],
    ],
    [
      'top_p is sent where it is alone, also where the model takes either',
      { sampling: { topP: 0.9 } },
      { sampling: 'either' },
      { temperature: undefined, top_p: 0.9 },
      [],
    ],
    [
      'a budget that the model chooses is adaptive reasoning without an effort',
      { reasoning: { budgetTokens: -1 } },
      { reasoning: 'adaptive' },
      { thinking: { type: 'adaptive' }, output_config: undefined },
      [],
    ],
    [
      'an effort counts more than a budget beside it',
      { reasoning: { effort: 'high', budgetTokens: 1000 } },
      { reasoning: 'adaptive' },
      { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
      ['unsupported_combination reasoning.max_tokens'],
    ],
    [
      'a request for summaries alone does not switch reasoning on',
      { reasoning: { summary: 'auto', visible: true } },
      {},
      { thinking: undefined },
      [],
    ],
    [
      'the effort none switches reasoning off where it is one of several efforts',
      { reasoning: { effort: 'none' } },
      { reasoning: 'adaptive', efforts: ['none', 'low', 'high'] },
      { thinking: { type: 'disabled' }, output_config: undefined },
      [],
    ],
    [
      'the effort none switches reasoning off',
      { reasoning: { effort: 'none' } },
      {},
      { thinking: { type: 'disabled' } },
      [],
    ],
    [
      'reasoning is left out for a model without it',
      { reasoning: { effort: 'high' } },
      { reasoning: 'none' },
      { thinking: undefined },
      ['reasoning_unsupported reasoning_effort'],
    ],
  ] as [string, Partial<GenerationRequest>, Capabilities, Any, string[]][])(
    '%s',
    (_name, parts, capabilities, body, lost) => {
      const sent = write(parts, capabilities)
      for (const [name, value] of Object.entries(body)) expect(sent.body[name]).toEqual(value)
      expect(sent.lost).toEqual(lost)
    },
  )

  test('a forced call outranks reasoning, which is reported', () => {
    const forced = { tools: [{ type: 'function', name: 'f' }], toolChoice: { type: 'tool', name: 'f' } } as const
    for (const reasoning of [{ effort: 'high' }, { budgetTokens: 2000 }, { adaptive: true }] as const)
      expect(write({ ...forced, tools: [...forced.tools], reasoning })).toMatchObject({
        body: { tool_choice: { type: 'tool', name: 'f' }, thinking: { type: 'disabled' } },
        lost: ['reasoning_not_possible reasoning_effort'],
      })
  })

  test('a reasoning model gets no temperature, no top_k and no low top_p', () => {
    const { body, lost } = write({
      reasoning: { budgetTokens: 2000 },
      sampling: { temperature: 0.2, topK: 5, topP: 0.5, stop: ['x'] },
    })
    expect(body).toMatchObject({ stop_sequences: ['x'] })
    for (const name of ['temperature', 'top_k', 'top_p']) expect(body[name]).toBeUndefined()
    expect(lost).toEqual([
      'unsupported_combination temperature',
      'unsupported_combination top_k',
      'unsupported_combination top_p',
    ])
  })

  test('a reasoning model gets a top_p of 0.95 or more', () => {
    for (const topP of [0.95, 0.97]) {
      const { body, lost } = write({ reasoning: { budgetTokens: 2000 }, sampling: { topP } })
      expect([body.top_p, lost]).toEqual([topP, []])
    }
  })

  test('a tool turn that does not begin with reasoning of the model continues without reasoning', () => {
    const turns = [user('a'), assistant(call('x')), tool(result('x'))]
    expect(write({ turns, reasoning: { budgetTokens: 2000 } })).toMatchObject({
      lost: ['reasoning_not_possible reasoning_effort'],
    })
    const signature = { data: 's', issuer: { provider: 'there', model: 'upstream-model' } }
    const reasoning: Part = { type: 'reasoning', text: 'hm', signature }
    expect(
      write({
        turns: [user('a'), assistant(reasoning, call('x')), tool(result('x'))],
        reasoning: { budgetTokens: 2000 },
      }).body.thinking,
    ).toEqual({ type: 'enabled', budget_tokens: 2000 })
  })
})

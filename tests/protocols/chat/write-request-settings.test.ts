import { describe, expect, test } from 'bun:test'
import type { GenerationRequest, Part } from '../../../src/generation/request.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import type { Quirks } from '../../../src/protocols/quirks.ts'
import { written } from '../../translating.ts'
import { callOf, requestOf, targetOf, textOf, type Json } from './building.ts'

/** Settings of requests to providers of chat completions: the fields that are sent, and the codes of the losses. */

const sentFor = (fields: Partial<GenerationRequest>, quirks: Quirks = {}, capabilities: Capabilities = {}) => {
  const { body, losses } = written('chat.completions', requestOf(fields), targetOf(quirks, capabilities))
  const { model: _model, messages, ...settings } = JSON.parse(JSON.stringify(body)) as Json
  return { settings, messages: messages as Json[], lost: losses.map(({ code }) => code) }
}

type Row = [
  fields: Partial<GenerationRequest>,
  settings: Json,
  lost: string[],
  of?: Quirks,
  capabilities?: Capabilities,
]

const reasoning = (of: GenerationRequest['reasoning'], more: Partial<GenerationRequest> = {}) => ({
  ...more,
  reasoning: of!,
})
const sampling = (of: GenerationRequest['sampling']) => ({ sampling: of })
const thinking: Quirks = { effortField: 'thinking' }
const object: Quirks = { effortField: 'reasoning' }
const bounded: Capabilities = { reasoning: 'budget', budget: { min: 1_024, max: 2_000 } }
const stop = ['A', 'B', 'C', 'D']
const pairs = (length: number) => Object.fromEntries(Array.from({ length }, (_, n) => [`k${n}`, 'v']))
const tools: GenerationRequest['tools'] = [{ type: 'function', name: 'f', description: 'D' }]
const NAMED = { type: 'function', function: { name: 'f' } }
const tool = { type: 'function', function: { name: 'f', description: 'D' } }

const REASONING: Row[] = [
  [reasoning({ adaptive: true }), {}, ['reasoning_adjusted']],
  [reasoning({ adaptive: true, effort: 'low' }), { reasoning_effort: 'low' }, []],
  [reasoning({ effort: 'low', budgetTokens: 500 }), { reasoning_effort: 'low' }, ['unsupported_combination']],
  [reasoning({ effort: 'high' }), {}, ['reasoning_unsupported'], {}, { reasoning: 'none' }],
  [reasoning({ effort: 'none' }), {}, [], {}, { reasoning: 'none' }],
  [reasoning({ budgetTokens: 0 }), {}, [], {}, { reasoning: 'none' }],
  [reasoning({ adaptive: true }), { thinking: { type: 'enabled' } }, [], thinking],
  [reasoning({ budgetTokens: -1 }), { thinking: { type: 'enabled' } }, [], thinking],
  [reasoning({ effort: 'high' }), { thinking: { type: 'enabled' }, reasoning_effort: 'high' }, [], thinking],
  [reasoning({ effort: 'none' }), { thinking: { type: 'disabled' } }, [], thinking],
  [reasoning({ visible: true }), {}, [], thinking],
  [reasoning({ budgetTokens: 500 }), { reasoning: { max_tokens: 500 } }, [], object],
  [reasoning({ budgetTokens: 0 }), { reasoning: { effort: 'none' } }, [], object],
  [reasoning({ budgetTokens: -1 }), { reasoning: { enabled: true } }, [], object],
  [reasoning({ adaptive: true, effort: 'low' }), { reasoning: { effort: 'low' } }, [], object],
  [reasoning({ visible: true, summary: 'auto' }), { reasoning: { exclude: false, summary: 'auto' } }, [], object],
  [reasoning({ visible: false, summary: 'none' }), { reasoning: { exclude: true } }, [], object],
  [reasoning({ budgetTokens: 1_500 }), { reasoning: { max_tokens: 1_500 } }, [], object, bounded],
  [reasoning({ budgetTokens: 500 }), { reasoning: { max_tokens: 1_024 } }, ['budget_adjusted'], object, bounded],
  [reasoning({ budgetTokens: 9_999 }), { reasoning: { max_tokens: 2_000 } }, ['budget_adjusted'], object, bounded],
  [
    reasoning({ budgetTokens: 2_000 }, { maxOutputTokens: 1_500 }),
    { max_tokens: 1_500, reasoning: { max_tokens: 1_200 } },
    ['budget_adjusted'],
    object,
    bounded,
  ],
  [
    reasoning({ budgetTokens: 1_024 }, { maxOutputTokens: 1_024 }),
    { max_tokens: 1_024 },
    ['reasoning_not_possible'],
    object,
    bounded,
  ],
]

const efforts = (...of: NonNullable<Capabilities['efforts']>): Capabilities => ({ reasoning: 'effort', efforts: of })
const allowed = (mode: string) => ({ type: 'allowed_tools', allowed_tools: { mode, tools: [NAMED, NAMED] } })

const LIMITS: Row[] = [
  [reasoning({ effort: 'medium' }), { reasoning_effort: 'low' }, ['effort_adjusted'], {}, efforts('high', 'low')],
  [reasoning({ effort: 'minimal' }), { reasoning_effort: 'high' }, ['effort_adjusted'], {}, efforts('none', 'high')],
  [reasoning({ effort: 'none' }), { reasoning_effort: 'low' }, ['effort_adjusted'], {}, efforts('low', 'high')],
  [reasoning({ effort: 'low' }), { reasoning_effort: 'low' }, [], {}, efforts('low', 'high')],
  [reasoning({ effort: 'low' }), {}, ['reasoning_not_possible'], {}, efforts()],
  [{ maxOutputTokens: 9 }, { max_tokens: 5 }, ['value_adjusted'], {}, { maxOutputTokens: 5 }],
  [{ maxOutputTokens: 5 }, { max_tokens: 5 }, [], {}, { maxOutputTokens: 5 }],
  [
    { tools, toolChoice: { type: 'required' } },
    { tools: [tool], tool_choice: 'auto' },
    ['tool_choice_adjusted'],
    {},
    { forcedTools: false },
  ],
  [{ tools, toolChoice: { type: 'auto' } }, { tools: [tool], tool_choice: 'auto' }, [], {}, { forcedTools: false }],
  [
    { tools, toolChoice: { type: 'allowed', names: ['f', 'f'], required: true } },
    { tools: [tool], tool_choice: allowed('auto') },
    ['tool_choice_adjusted'],
    { toolChoices: 'allowed' },
    { forcedTools: false },
  ],
  [{ toolChoice: { type: 'required' } }, {}, ['tool_choice_dropped']],
]

const OTHERS: Row[] = [
  [sampling({ stop: ['A'] }), { stop: ['A'] }, []],
  [sampling({ stop }), { stop }, []],
  [sampling({ stop: [...stop, 'E'] }), { stop }, ['stop_applied_here']],
  [sampling({ stop: [] }), {}, []],
  [sampling({ stop: ['A'] }), {}, ['stop_applied_here'], {}, { stops: 0 }],
  [
    sampling({ frequencyPenalty: 1, presencePenalty: 1, topP: 1 }),
    { top_p: 1 },
    ['unsupported_by_model'],
    {},
    { penalties: false },
  ],
  [sampling({ frequencyPenalty: 1 }), { frequency_penalty: 1 }, []],
  [sampling({ topLogprobs: 2 }), { logprobs: true, top_logprobs: 2 }, []],
  [sampling({ topLogprobs: 2, logprobs: false }), { logprobs: false, top_logprobs: 2 }, []],
  [sampling({ seed: 5 }), { random_seed: 5 }, [], { seedField: 'random_seed' }],
  [sampling({ topK: 5 }), {}, ['unsupported_field']],
  ...['auto', 'default', 'flex', 'scale', 'priority', 'fast'].map(
    (tier): Row => [{ serviceTier: tier }, { service_tier: tier }, []],
  ),
  [{ serviceTier: 'standard' }, { service_tier: 'default' }, []],
  [{ serviceTier: 'ultrafast' }, {}, ['unsupported_by_provider']],
  [{ metadata: pairs(16) }, { metadata: pairs(16) }, []],
  [{ metadata: { ...pairs(16), more: 'v' } }, { metadata: pairs(16) }, ['value_adjusted']],
  [{ metadata: { a: 'v', b: 1 } }, { metadata: { a: 'v' } }, ['value_adjusted']],
  [{ metadata: { b: 1 } }, {}, ['value_adjusted']],
  [{ cacheRetention: '24h' }, { prompt_cache_retention: '24h' }, []],
  [{ tools }, { tools: [tool] }, []],
  [
    { tools, toolChoice: { type: 'tool', name: 'f' } },
    {
      tools: [tool],
      tool_choice: { type: 'function', function: { name: 'f' } },
    },
    [],
  ],
  [{ outputFormat: { type: 'text' } }, { response_format: { type: 'text' } }, []],
  [{ outputFormat: { type: 'text' }, tools }, { tools: [tool] }, [], { formatAlone: true }],
  [{ outputFormat: { type: 'text' } }, { response_format: { type: 'text' } }, [], { formatAlone: true }],
  [{ outputModalities: ['image', 'text'] }, { modalities: ['text', 'image'] }, []],
  [{ outputModalities: ['image'] }, { modalities: ['text', 'image'] }, ['value_adjusted']],
  [{ outputModalities: ['image'] }, { modalities: ['image'] }, [], {}, { output: ['image'] }],
  [{ outputModalities: ['text'] }, {}, []],
  [{ webSearch: { contextSize: 'low' } }, { web_search_options: { search_context_size: 'low' } }, []],
]

for (const [what, rows] of [
  ['reasoning', REASONING],
  ['limits of models', LIMITS],
  ['other settings', OTHERS],
] as const)
  describe(what, () => {
    // Without optional parameters: a runner takes one that is absent for a callback.
    test.each(rows.map((row) => ({ row })))('%j is sent', ({ row: [fields, settings, lost, quirks, capabilities] }) => {
      const sent = sentFor(fields, quirks, capabilities)
      expect([sent.settings, sent.lost]).toEqual([settings, lost])
    })
  })

test('entries of one response have one format, and a summary is signed by the next encrypted entry', () => {
  const signed = (data: string) => ({ signature: { data, issuer: { provider: 'p', model: 'up-model' } } })
  const parts: Part[] = [
    { type: 'reasoning', form: 'summary', text: 'S' },
    { type: 'reasoning', text: 'A' },
    { type: 'reasoning', text: '', redacted: true, id: 'own', ...signed('odd;summary\0id\0D') },
    { type: 'reasoning', text: 'B', ...signed('T') },
    { type: 'reasoning', text: 'C' },
    textOf('x'),
    callOf('c'),
  ]
  const turns: GenerationRequest['turns'] = [{ role: 'assistant', parts }]
  const [message] = sentFor({ turns }).messages
  expect(message!.reasoning_details).toEqual([
    { type: 'reasoning.summary', summary: 'S', format: 'odd', index: 0 },
    { type: 'reasoning.summary', summary: 'A', format: 'odd', index: 1 },
    { type: 'reasoning.encrypted', data: 'D', format: 'odd', index: 2, id: 'id' },
    { type: 'reasoning.text', text: 'B', signature: 'T', format: 'odd', index: 3 },
    { type: 'reasoning.text', text: 'C', format: 'odd', index: 4 },
  ])
})

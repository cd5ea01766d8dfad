import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import type { Capabilities } from '../../../src/protocols/protocol.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { rawRequestOf, target, type Any } from './fixtures.ts'
import { lossesOf, request, text, write } from './requests.ts'

/** Requests to providers of the Responses API. */

describe('the body of a request', () => {
  test('has the provider store nothing', () => {
    expect(write()).toEqual({
      body: {
        model: 'upstream',
        input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hi' }] }],
        store: false,
      },
      losses: [],
      transforms: [],
    })
  })

  test('has one plain system text as instructions, and several as a message', () => {
    expect(write({ system: [text('A')] }).body.instructions).toBe('A')
    expect((write({ system: [text('A'), text('B')] }).body.input as Any[])[0]).toEqual({
      type: 'message',
      role: 'system',
      content: [
        { type: 'input_text', text: 'A' },
        { type: 'input_text', text: 'B' },
      ],
    })
  })

  test('has a system text that is all of the conversation as a message, since an empty input is refused', () => {
    const { body } = write({ system: [text('A')], turns: [] })
    expect(body.input).toEqual([{ type: 'message', role: 'system', content: [{ type: 'input_text', text: 'A' }] }])
    expect(body).not.toHaveProperty('instructions')
  })

  test('declares tools as not strict unless the client made them strict', () => {
    const tools: GenerationRequest['tools'] = [
      { type: 'function', name: 'f' },
      { type: 'function', name: 'e', strict: true },
      {
        type: 'function',
        name: 'g',
        description: 'd',
        parameters: { type: 'object', properties: {}, additionalProperties: false },
        strict: true,
      },
      { type: 'custom', name: 'h', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
    ]
    expect(write({ tools, toolChoice: { type: 'tool', name: 'h' }, parallelTools: false }).body).toMatchObject({
      tools: [
        { type: 'function', name: 'f', parameters: { type: 'object', properties: {} }, strict: false },
        {
          type: 'function',
          name: 'e',
          parameters: { type: 'object', properties: {}, additionalProperties: false },
          strict: true,
        },
        {
          type: 'function',
          name: 'g',
          description: 'd',
          parameters: { type: 'object', properties: {}, additionalProperties: false },
          strict: true,
        },
        { type: 'custom', name: 'h', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
      ],
      tool_choice: { type: 'custom', name: 'h' },
      parallel_tool_calls: false,
    })
    expect(
      write({ tools, toolChoice: { type: 'allowed', names: ['f', 'h'], required: true } }).body.tool_choice,
    ).toEqual({
      type: 'allowed_tools',
      mode: 'required',
      tools: [
        { type: 'function', name: 'f' },
        { type: 'custom', name: 'h' },
      ],
    })
  })

  test('refuses a tool of another protocol unless it is optional', () => {
    const native = (optional?: boolean) => ({
      tools: [
        {
          type: 'native' as const,
          protocol: 'messages' as const,
          kind: 'bash_20250124',
          value: {},
          ...(optional === undefined ? {} : { optional }),
        },
      ],
    })
    expect(() => write(native())).toThrow(GatewayError)
    expect(lossesOf(native(true))).toEqual(['tool_native messages'])
  })

  test('has a web search with its options', () => {
    expect(
      write({
        webSearch: { contextSize: 'high', userLocation: { type: 'approximate', approximate: { country: 'DE' } } },
      }).body.tools,
    ).toEqual([
      { type: 'web_search', search_context_size: 'high', user_location: { type: 'approximate', country: 'DE' } },
    ])
  })

  test('reports an output limit that is raised or lowered', () => {
    expect([write({ maxOutputTokens: 1 }).body.max_output_tokens, lossesOf({ maxOutputTokens: 1 })]).toEqual([
      16,
      ['value_adjusted max_tokens'],
    ])
    expect([
      write({ maxOutputTokens: 99 }, { maxOutputTokens: 50 }).body.max_output_tokens,
      lossesOf({ maxOutputTokens: 99 }, { maxOutputTokens: 50 }),
    ]).toEqual([50, ['value_adjusted max_tokens']])
    for (const maxOutputTokens of [16, 20]) expect(lossesOf({ maxOutputTokens })).toEqual([])
    expect(lossesOf({ maxOutputTokens: 15 })).toEqual(['value_adjusted max_tokens'])
  })

  test('has the default service tier for that of messages without priority', () => {
    expect(write({ serviceTier: 'standard_only' }).body.service_tier).toBe('default')
    expect(lossesOf({ serviceTier: 'standard_only' })).toEqual([])
  })

  test('reports settings that the protocol or the provider does not have', () => {
    expect(
      lossesOf({
        sampling: { topK: 1, seed: 0, stop: ['x'], frequencyPenalty: 1, presencePenalty: 1, logitBias: { 1: 2 } },
        outputModalities: ['text', 'audio'],
        serviceTier: 'batch',
        metadata: { a: 1 },
        protocol: 'chat.completions',
      }).sort(),
    ).toEqual([
      'stop_applied_here stop',
      'unsupported_by_provider metadata',
      'unsupported_by_provider service_tier',
      'unsupported_field frequency_penalty',
      'unsupported_field logit_bias',
      'unsupported_field modalities',
      'unsupported_field presence_penalty',
      'unsupported_field seed',
      'unsupported_field top_k',
    ])
    expect(lossesOf({ sampling: { frequencyPenalty: 0, presencePenalty: 0, logitBias: {} } })).toEqual([])
    expect(write({ sampling: { temperature: 0, topP: 0 } }).body).toMatchObject({ temperature: 0, top_p: 0 })
    expect(lossesOf({ sampling: { temperature: 0, topP: 0 } }, { sampling: false })).toEqual([
      'unsupported_by_model temperature',
      'unsupported_by_model top_p',
    ])
  })

  test.each([
    [{ budgetTokens: 0 }, 'none'],
    [{ budgetTokens: 1_024 }, 'minimal'],
    [{ budgetTokens: 1_025 }, 'low'],
    [{ budgetTokens: 4_096 }, 'low'],
    [{ budgetTokens: 16_384 }, 'medium'],
    [{ budgetTokens: 16_385 }, 'high'],
    [{ budgetTokens: 100_000 }, 'xhigh'],
    [{ effort: 'max' as const, budgetTokens: 1 }, 'max'],
    [{ budgetTokens: -1 }, undefined],
    [{ adaptive: true }, undefined],
  ])('sends reasoning %j as effort %j', (reasoning, effort) => {
    expect((write({ reasoning }).body.reasoning as Any | undefined)?.effort).toBe(effort as never)
  })

  test('reports a budget that is sent as an effort, or left out beside an effort', () => {
    expect(lossesOf({ reasoning: { budgetTokens: 2_048 } })).toEqual(['budget_as_effort thinking.budget_tokens'])
    for (const budgetTokens of [0, 1, 2_048])
      expect(lossesOf({ reasoning: { effort: 'low', budgetTokens } })).toEqual([
        'unsupported_combination thinking.budget_tokens',
      ])
    expect(lossesOf({ reasoning: { budgetTokens: 0 } })).toEqual([])
    expect(lossesOf({ reasoning: { adaptive: true } })).toEqual(['reasoning_adjusted thinking'])
    expect(lossesOf({ reasoning: { effort: 'low' } }, { reasoning: 'none' })).toEqual([
      'reasoning_unsupported thinking',
    ])
  })

  test('includes encrypted reasoning whenever the model may reason', () => {
    const includes = (more: Partial<GenerationRequest>, capabilities: Capabilities = {}) =>
      (write(more, capabilities).body.include as string[] | undefined)?.includes('reasoning.encrypted_content') ?? false
    expect([
      includes({}),
      includes({ reasoning: { effort: 'low' } }),
      includes({ reasoning: { effort: 'none' } }),
      includes({}, { reasoning: 'effort' }),
      includes({ reasoning: { effort: 'low' } }, { reasoning: 'none' }),
    ]).toEqual([false, true, false, true, false])
    expect(write({ reasoning: { effort: 'low', visible: true } }).body.reasoning).toEqual({
      effort: 'low',
      summary: 'auto',
    })
  })

  test('has the tiers, metadata, limits and names that it accepts', () => {
    const { body, losses } = write({
      ...{ metadata: { a: 'b' }, serviceTier: 'flex', cacheRetention: '24h', cacheKey: 'k', stream: true },
      sampling: { topLogprobs: 2 },
      outputFormat: { type: 'schema', schema: { type: 'object' }, name: 'n', description: 'd' },
    })
    expect(body).toMatchObject({
      ...{ metadata: { a: 'b' }, service_tier: 'flex', prompt_cache_retention: '24h', prompt_cache_key: 'k' },
      ...{ stream: true, top_logprobs: 2, text: { format: { name: 'n', description: 'd' } } },
    })
    expect(losses).toEqual([])
    expect(write({ outputFormat: { type: 'text' } }).body.text).toEqual({ format: { type: 'text' } })
    const tools = [{ type: 'function' as const, name: 'f', path: 'tools[0]' }]
    for (const type of ['none', 'auto', 'required'] as const)
      expect(write({ tools, toolChoice: { type } }).body.tool_choice).toBe(type)
    expect(lossesOf({ toolChoice: { type: 'required' } })).toHaveLength(1)
    const some = { type: 'allowed' as const, names: ['f', 'unknown'], required: false }
    expect(write({ tools, toolChoice: some }).body.tool_choice).toEqual({
      ...{ type: 'allowed_tools', mode: 'auto' },
      tools: ['f', 'unknown'].map((name) => ({ type: 'function', name })),
    })
    const value = { type: 'file_search', vector_store_ids: ['v'] }
    const native = { type: 'native' as const, protocol: 'responses' as const, kind: 'file_search', value, path: '' }
    expect(write({ tools: [native] }).body.tools).toEqual([value])
    const sampling = { logprobs: true, topLogprobs: 1 }
    expect(lossesOf({ sampling, protocol: 'chat.completions' }, { sampling: false })).toEqual([
      'unsupported_by_model logprobs',
      'unsupported_by_model top_logprobs',
    ])
  })

  test('has the beta headers of the client, and goes to the route of a compaction', () => {
    const headers = (given: Record<string, string>) =>
      responses.call.headers({ ...rawRequestOf({}), headers: new Headers(given) })
    expect([headers({ 'OpenAI-Beta': 'a=v1' }), headers({}), responses.call.headers(undefined)]).toEqual([
      { 'openai-beta': 'a=v1' },
      {},
      {},
    ])
    expect(responses.call.path(target, { ...request(), compaction: true })).toBe('/responses/compact')
    expect(responses.call.path(target, request())).toBe('/responses')
  })

  test('has instructions as a message where they have a breakpoint, or the model refuses them', () => {
    const system = [{ type: 'text' as const, text: 'A', cache: {} }]
    expect(write({ system }).body.instructions).toBe('A')
    const marked = write({ system }, { cacheBreakpoints: 'prompt_cache_breakpoint' }).body
    expect([marked.instructions, (marked.input as Any[])[0]]).toEqual([
      undefined,
      {
        ...{ type: 'message', role: 'system' },
        content: [{ type: 'input_text', text: 'A', prompt_cache_breakpoint: { mode: 'explicit' } }],
      },
    ])
    const tagged = write({ system: [text('A')] }, { system: false }).body
    expect([tagged.instructions, (tagged.input as Any[])[0]!.role]).toEqual([undefined, 'user'])
  })

  test('reports reasoning where the model has none, unless none is wanted', () => {
    const lost = (reasoning: GenerationRequest['reasoning']) =>
      lossesOf({ reasoning: reasoning! }, { reasoning: 'none' })
    expect([lost({ effort: 'none' }), lost({ budgetTokens: 0 })]).toEqual([[], []])
    for (const wanted of [{ budgetTokens: 1 }, { effort: 'low' as const }, { adaptive: true }])
      expect(lost(wanted)).toEqual(['reasoning_unsupported thinking'])
    expect(write({ reasoning: { effort: 'low', summary: 'none' } }).body.reasoning).toEqual({ effort: 'low' })
    expect(write({ reasoning: { summary: 'none' } }).body).not.toHaveProperty('reasoning')
  })

  test('reports options of a search that it does not have, and images and audio without a field', () => {
    const webSearch = { blockedDomains: ['b'], allowedDomains: ['a'], maxUses: 3, path: 'tools[0]' }
    const { body, losses } = write({ webSearch })
    expect(body).toMatchObject({
      max_tool_calls: 3,
      tools: [{ type: 'web_search', filters: { allowed_domains: ['a'] } }],
    })
    expect(losses.map(({ code }) => code)).toEqual(['unsupported_field'])
    expect(() => write({ outputModalities: ['audio'] })).toThrow(GatewayError)
    expect(lossesOf({ imageOutput: { quality: 'high' } })).toEqual(['unsupported_field messages'])
  })

  test('includes log probabilities that are wanted, also without other tokens', () => {
    const includes = (sampling: GenerationRequest['sampling']) => write({ sampling }).body.include
    const logprobs = ['message.output_text.logprobs']
    expect([includes({ logprobs: true }), includes({ topLogprobs: 2 }), includes({ logprobs: false })]).toEqual([
      logprobs,
      logprobs,
      undefined,
    ])
  })

  test('has the output format, and mentions JSON where no message does', () => {
    expect(write({ outputFormat: { type: 'schema', schema: { type: 'object' } }, verbosity: 'low' }).body.text).toEqual(
      { format: { type: 'json_schema', name: 'answer', schema: { type: 'object' } }, verbosity: 'low' },
    )
    // OpenAI looks for it in the messages only, not in the instructions.
    const described = write({ outputFormat: { type: 'json' } }).body
    expect(described).toMatchObject({
      input: [{ role: 'system', content: [{ text: expect.stringContaining('a JSON object') }] }, { role: 'user' }],
      text: { format: { type: 'json_object' } },
    })
    expect(described.instructions).toBeUndefined()
    const [first, second] = write({ system: [text('A')], outputFormat: { type: 'json' } }).body.input as Any[]
    expect([first, second]).toMatchObject([
      { role: 'system', content: [{ text: 'A' }, { text: expect.stringContaining('a JSON object') }] },
      { role: 'user' },
    ])
    const mentioned = write({ system: [text('As JSON.')], outputFormat: { type: 'json' } })
    expect(mentioned.body.input).toMatchObject([{ role: 'system', content: [{ text: 'As JSON.' }] }, { role: 'user' }])
    expect(mentioned.losses).toEqual([])
    expect(() => write({ outputFormat: { type: 'enum', schema: {} } })).toThrow('text/x.enum')
  })
})

test.each([
  [
    400,
    '{"error":{"message":"too long","code":"context_length_exceeded","param":"input"}}',
    'context_length_exceeded',
    400,
  ],
  [401, '{"error":{"message":"bad sk-abcdefghijk"}}', 'upstream_error', 502],
  [422, '{"error":{"message":"x"}}', 'invalid_request', 400],
  [429, '', 'upstream_rate_limited', 429],
  [500, '<html>oops</html>', 'upstream_error', 502],
  [503, 'null', 'overloaded', 503],
  [400, '{"code":"c","error":"bare"}', 'invalid_request', 400],
  [400, '[]', 'invalid_request', 400],
])('maps the error %i %s', (status, body, code, ours) => {
  const error = responses.call.readError(status, body)
  expect([error.code, error.status]).toEqual([code as never, ours])
  expect(error.message + JSON.stringify(error.metadata)).not.toContain('sk-abc')
})

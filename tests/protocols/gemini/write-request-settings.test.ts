import { describe, expect, test } from 'bun:test'
import type { GenerationRequest, Part } from '../../../src/generation/request.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { written } from '../../translating.ts'
import { asked, assistant, callOf, requestOf, resultOf, results, targetOf, textOf, write } from './building.ts'

/** Tools and settings that are sent to providers of generateContent. */

describe('tools', () => {
  test('have JSON Schemas, and a changed name is the same in tools, choice and calls', () => {
    const { body, lost } = write({
      tools: [
        { type: 'function', name: 'f', description: 'd', parameters: { type: 'object', additionalProperties: false } },
        { type: 'function', name: '1 f' },
      ],
      toolChoice: { type: 'tool', name: '1 f' },
      turns: [asked, assistant({ type: 'tool-call', id: '1', name: '1 f', arguments: '', form: 'function' })],
    })
    const { functionDeclarations } = body.tools[0]
    expect(functionDeclarations[0]).toEqual({
      name: 'f',
      description: 'd',
      parametersJsonSchema: { type: 'object', additionalProperties: false },
    })
    expect(body.toolConfig.functionCallingConfig).toEqual({
      mode: 'ANY',
      allowedFunctionNames: [functionDeclarations[1].name],
    })
    expect(body.contents[1].parts[0].functionCall.name).toBe(functionDeclarations[1].name)
    expect(lost).toEqual([{ code: 'tool_renamed', path: 'tools[1]' }])
  })

  test('with names that differ only in refused characters stay different', () => {
    const names = write({
      tools: [
        { type: 'function', name: '1 f' },
        { type: 'function', name: '1_f' },
        { type: 'function', name: 'x'.repeat(80) },
      ],
    }).body.tools[0].functionDeclarations.map((one: { name: string }) => one.name)
    expect(new Set(names).size).toBe(3)
    for (const name of names) expect(name).toMatch(/^[A-Za-z_][\w.:-]{0,63}$/)
  })

  test('with a grammar are functions with one string that describe it', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' }
    const { body, lost } = write({ tools: [{ type: 'custom', name: 'c', format }] })
    expect(body.tools[0].functionDeclarations[0].parametersJsonSchema).toMatchObject({
      properties: { input: { type: 'string', description: expect.stringContaining('start: "a"') } },
      required: ['input'],
    })
    expect(lost).toEqual([{ code: 'tool_grammar_described', path: 'tools[0]' }])
  })

  test('that are all strict are validated', () => {
    const tools: GenerationRequest['tools'] = [
      { type: 'function', strict: true, name: 'a' },
      { type: 'function', strict: true, name: 'b' },
      { type: 'custom', name: 'c' },
    ]
    for (const toolChoice of [{}, { toolChoice: { type: 'auto' } }] as const)
      expect(write({ tools, ...toolChoice })).toMatchObject({
        body: { toolConfig: { functionCallingConfig: { mode: 'VALIDATED' } } },
        lost: [],
      })
    expect(write({ tools, toolChoice: { type: 'required' } }).body.toolConfig).toEqual({
      functionCallingConfig: { mode: 'ANY' },
    })
    expect(write({ tools: [{ type: 'function', name: 'a', strict: false }] })).toMatchObject({
      body: { tools: [{ functionDeclarations: [{ name: 'a' }] }] },
      lost: [],
    })
  })

  test('that are strict beside others are not validated, which is reported for each', () => {
    const tools: GenerationRequest['tools'] = [
      { type: 'function', strict: true, name: 'a' },
      { type: 'function', name: 'b' },
      { type: 'function', strict: true, name: 'c' },
    ]
    const lost = [
      { code: 'strict_not_enforced' as const, path: 'tools[0]' },
      { code: 'strict_not_enforced' as const, path: 'tools[2]' },
    ]
    const written = write({ tools })
    expect(written).toMatchObject({ body: { tools: [{ functionDeclarations: [{ name: 'a' }, {}, {}] }] }, lost })
    expect(written.body.toolConfig).toBeUndefined()
    expect(write({ tools, toolChoice: { type: 'auto' } })).toMatchObject({
      body: { toolConfig: { functionCallingConfig: { mode: 'AUTO' } } },
      lost,
    })
    const choices: GenerationRequest['toolChoice'][] = [
      { type: 'none' },
      { type: 'required' },
      { type: 'allowed', names: ['a'], required: false },
    ]
    for (const toolChoice of choices) expect(write({ tools, toolChoice }).lost).toEqual([])
  })

  test('and parts lose their cache breakpoints', () => {
    expect(write({ tools: [{ type: 'function', name: 'a', cache: {} }] }).lost).toEqual([
      { code: 'cache_breakpoint_dropped', path: 'tools[0]' },
    ])
    const called = assistant(callOf('1'))
    expect(write({ turns: [asked, called, results({ ...resultOf('1', 'x'), cache: {} } as Part)] }).lost).toEqual([
      { code: 'cache_breakpoint_dropped', path: 'messages[2].content[0]' },
    ])
    expect(write({ turns: [asked, assistant({ ...callOf('1'), cache: {} } as Part)] }).lost).toEqual([
      { code: 'cache_breakpoint_dropped', path: 'messages[1].content[0]' },
    ])
  })

  test('of another protocol are refused, or left out where they are optional', () => {
    const tool = { type: 'native', protocol: 'responses', kind: 'shell', value: {} } as const
    expect(() => write({ tools: [tool] })).toThrow(/shell/)
    expect(write({ tools: [{ ...tool, optional: true }] })).toMatchObject({
      lost: [{ code: 'tool_native', path: 'tools[0]' }],
      body: { contents: [{}] },
    })
  })

  test('and web search are not sent together', () => {
    expect(write({ webSearch: {} }).body.tools).toEqual([{ googleSearch: {} }])
    expect(write({ webSearch: {}, toolChoice: { type: 'none' } }).body.tools).toBeUndefined()
    const webSearch = { path: 'web_search_options', maxUses: 2 }
    expect(write({ webSearch }).lost).toEqual([{ code: 'unsupported_field', path: 'web_search_options' }])
    expect(write({ webSearch, tools: [{ type: 'function', name: 'a' }] })).toMatchObject({
      body: { tools: [{ functionDeclarations: [{ name: 'a' }] }] },
      lost: [{ code: 'unsupported_combination', path: 'web_search_options' }],
    })
  })
})

test('a tool choice is a mode with the allowed names', () => {
  const mode = (toolChoice: GenerationRequest['toolChoice']) =>
    write({ tools: [{ type: 'function', name: 'a' }], ...(toolChoice === undefined ? {} : { toolChoice }) }).body
      .toolConfig?.functionCallingConfig
  expect(mode({ type: 'auto' })).toEqual({ mode: 'AUTO' })
  expect(mode({ type: 'none' })).toEqual({ mode: 'NONE' })
  expect(mode({ type: 'required' })).toEqual({ mode: 'ANY' })
  expect(mode({ type: 'allowed', names: ['a'], required: true })).toEqual({ mode: 'ANY', allowedFunctionNames: ['a'] })
  expect(mode({ type: 'allowed', names: ['a'], required: false })).toEqual({
    mode: 'VALIDATED',
    allowedFunctionNames: ['a'],
  })
  expect(write({ toolChoice: { type: 'none' } }).body.toolConfig).toBeUndefined()
  expect(write({ toolChoice: { type: 'required' } }).lost).toEqual([
    { code: 'tool_choice_dropped', path: 'tool_choice' },
  ])
})

describe('settings', () => {
  test('are sent as generationConfig', () => {
    expect(
      write({
        sampling: {
          temperature: 0,
          topP: 0.5,
          topK: 3,
          seed: 0,
          presencePenalty: -2,
          frequencyPenalty: 0,
          stop: ['x'],
          logprobs: true,
          topLogprobs: 2,
        },
        maxOutputTokens: 9,
        outputModalities: ['text', 'image'],
      }).body.generationConfig,
    ).toEqual({
      temperature: 0,
      topP: 0.5,
      topK: 3,
      seed: 0,
      presencePenalty: -2,
      frequencyPenalty: 0,
      stopSequences: ['x'],
      responseLogprobs: true,
      logprobs: 2,
      maxOutputTokens: 9,
      responseModalities: ['TEXT', 'IMAGE'],
    })
  })

  test("have at most the model's output limit", () => {
    expect(write({ maxOutputTokens: 100 }, { maxOutputTokens: 64 })).toMatchObject({
      body: { generationConfig: { maxOutputTokens: 64 } },
      lost: [{ code: 'value_adjusted', path: 'max_completion_tokens' }],
    })
    expect(write({ maxOutputTokens: 64 }, { maxOutputTokens: 64 }).lost).toEqual([])
  })

  test('that cannot be sent are reported', () => {
    const { body, lost } = write({
      sampling: { stop: ['1', '2', '3', '4', '5', '6'], logitBias: { 1: 2 }, presencePenalty: 2, seed: 2 ** 40 },
      user: 'u',
      metadata: { a: 1 },
      parallelTools: false,
      serviceTier: 'scale',
      cacheKey: 'k',
      verbosity: 'low',
    })
    expect(body.generationConfig).toEqual({ stopSequences: ['1', '2', '3', '4', '5'], presencePenalty: 1.99 })
    expect(lost.map(({ code, path }) => `${path} ${code}`).sort()).toEqual([
      'logit_bias unsupported_field',
      'metadata unsupported_field',
      'parallel_tool_calls unsupported_field',
      'presence_penalty value_adjusted',
      'prompt_cache_key unsupported_field',
      'seed unsupported_by_provider',
      'service_tier unsupported_by_provider',
      'stop stop_applied_here',
      'user unsupported_field',
      'verbosity unsupported_field',
    ])
  })

  test('that the model refuses are left out', () => {
    const { body, lost } = write({ sampling: { presencePenalty: 1, frequencyPenalty: 0 } }, { penalties: false })
    expect(body.generationConfig).toBeUndefined()
    expect(lost).toMatchObject([{ code: 'unsupported_by_model', path: 'presence_penalty' }])
  })

  test('of the output format have a media type and a schema', () => {
    const formatOf = (outputFormat: GenerationRequest['outputFormat']) =>
      write({ ...(outputFormat === undefined ? {} : { outputFormat }) }).body.generationConfig
    expect(formatOf({ type: 'json' })).toEqual({ responseMimeType: 'application/json' })
    expect(formatOf({ type: 'schema', schema: { type: 'object' }, name: 'n', description: 'D', strict: true })).toEqual(
      {
        responseMimeType: 'application/json',
        responseJsonSchema: { type: 'object', title: 'n', description: 'D' },
      },
    )
    expect(formatOf({ type: 'schema', schema: true, name: 'n' }).responseJsonSchema).toEqual({ title: 'n' })
    expect(formatOf({ type: 'enum', schema: { type: 'string', enum: ['a'] } })).toEqual({
      responseMimeType: 'text/x.enum',
      responseSchema: { type: 'STRING', enum: ['a'] },
    })
  })
})

describe('reasoning', () => {
  const thinking = (reasoning: GenerationRequest['reasoning'], capabilities: Target['capabilities'] = {}) => {
    const { body, lost } = write({ ...(reasoning === undefined ? {} : { reasoning }) }, capabilities)
    return [body.generationConfig?.thinkingConfig, lost]
  }
  const pro = { reasoning: 'budget', budget: { min: 128, max: 32768 } } as const
  const effort = 'reasoning_effort'
  const budget = 'reasoning.max_tokens'

  test('is a level where the model takes levels', () => {
    expect(thinking({ effort: 'low' }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'LOW', includeThoughts: true },
      [],
    ])
    expect(thinking({ effort: 'max', visible: false }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'HIGH' },
      [{ code: 'effort_adjusted', path: effort }],
    ])
    expect(thinking({ effort: 'none' }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'MINIMAL' },
      [{ code: 'effort_adjusted', path: effort }],
    ])
    expect(thinking({ budgetTokens: 5000 }, { reasoning: 'level' })).toEqual([
      { thinkingLevel: 'MEDIUM', includeThoughts: true },
      [{ code: 'budget_as_effort', path: budget }],
    ])
    expect(thinking({ adaptive: true }, { reasoning: 'level' })).toEqual([{ includeThoughts: true }, []])
  })

  test('is a budget within the limits of the model elsewhere', () => {
    expect(thinking({ effort: 'medium' })).toEqual([
      { thinkingBudget: 8192, includeThoughts: true },
      [{ code: 'effort_as_budget', path: effort }],
    ])
    expect(thinking({ effort: 'high' }, { reasoning: 'budget', budget: { min: 0, max: 20000 } })).toEqual([
      { thinkingBudget: 20000, includeThoughts: true },
      [{ code: 'effort_as_budget', path: effort }],
    ])
    expect(thinking({ budgetTokens: 5000 }, pro)).toEqual([{ thinkingBudget: 5000, includeThoughts: true }, []])
    expect(thinking({ budgetTokens: 64 }, pro)).toEqual([
      { thinkingBudget: 128, includeThoughts: true },
      [{ code: 'budget_adjusted', path: budget }],
    ])
    expect(thinking({ effort: 'none' }, pro)).toEqual([
      { thinkingBudget: 128 },
      [{ code: 'effort_adjusted', path: effort }],
    ])
    expect(thinking({ effort: 'none' })).toEqual([{ thinkingBudget: 0 }, []])
    expect(thinking({ budgetTokens: 0 })).toEqual([{ thinkingBudget: 0 }, []])
    expect(thinking({ budgetTokens: 0 }, { reasoning: 'level', efforts: ['none', 'low'] })).toEqual([
      { thinkingLevel: 'NONE' },
      [],
    ])
    expect(thinking({ budgetTokens: 0 }, { reasoning: 'none' })).toEqual([undefined, []])
    expect(thinking({ budgetTokens: 1 }, { reasoning: 'none' })[1]).toMatchObject([{ code: 'reasoning_unsupported' }])
    for (const range of [undefined, pro])
      expect(thinking({ budgetTokens: -1 }, range)).toEqual([{ thinkingBudget: -1, includeThoughts: true }, []])
  })

  test('is reported as lost for a model that does not reason', () => {
    expect(thinking({ effort: 'high' }, { reasoning: 'none' })).toEqual([
      undefined,
      [{ code: 'reasoning_unsupported', path: effort }],
    ])
    expect(thinking({ effort: 'none' }, { reasoning: 'none' })).toEqual([undefined, []])
  })
})

test('citations of earlier responses are reported', () => {
  const cited = { ...textOf('a'), citations: [{ url: 'https://a.example' }] } as Part
  expect(write({ turns: [assistant(cited)] }).lost).toEqual([
    { code: 'citations_dropped', path: 'messages[0].content[0]' },
  ])
})

describe('a service tier', () => {
  test.each([
    ['flex', 'flex'],
    ['priority', 'priority'],
    ['fast', 'priority'],
    ['default', 'standard'],
    ['standard_only', 'standard'],
    ['auto', 'unspecified'],
  ])('%s is sent as %s', (serviceTier, sent) => {
    const { body, lost } = write({ serviceTier })
    expect([body.serviceTier, lost]).toEqual([sent, []])
  })

  test('that Google does not have is lost', () => {
    const { body, lost } = write({ serviceTier: 'scale' })
    expect([body.serviceTier, lost]).toEqual([undefined, [{ code: 'unsupported_by_provider', path: 'service_tier' }]])
  })

  test('is lost at a provider without the field', () => {
    const target: Target = { ...targetOf(), quirks: { refuses: ['service_tier'] } }
    const { body, losses } = written('generateContent', requestOf({ serviceTier: 'flex' }), target)
    expect([body.serviceTier, losses.map(({ path }) => path)]).toEqual([undefined, ['service_tier']])
  })
})

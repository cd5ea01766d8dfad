import { describe, expect, test } from 'bun:test'
import { familyCapabilities, globs } from '../../src/providers/catalog-rows.ts'
import { catalogueOf } from './catalogues.ts'

/** Capabilities of models by the families of catalog/models.json. */

describe('the capabilities of a model', () => {
  const DOCUMENTS = { input: ['text', 'image', 'file'], output: ['text'], tools: true, structuredOutput: true }
  const EVERYTHING = { ...DOCUMENTS, input: ['text', 'image', 'audio', 'video', 'file'], sampling: true }
  const USUAL = ['low', 'medium', 'high']
  const ALL = ['none', ...USUAL, 'xhigh', 'max']
  const CASES: [string, string, object][] = [
    ['openai', 'gpt-4o-2024-08-06', { ...DOCUMENTS, reasoning: 'none', sampling: true, maxOutputTokens: 16384 }],
    ['openai', 'gpt-4o-audio-preview', { reasoning: 'none', maxOutputTokens: 16384 }],
    [
      'openai',
      'gpt-6-sol',
      {
        ...DOCUMENTS,
        efforts: ALL,
        stops: 0,
        cacheBreakpoints: 'prompt_cache_breakpoint',
        reasoning: 'effort',
        sampling: false,
        maxOutputTokens: 128000,
      },
    ],
    [
      'openai',
      'gpt-image-1.5',
      { api: 'images', input: ['text'], output: ['image'], reasoning: 'none', base64Only: true },
    ],
    [
      'google',
      'gemini-3-pro-image-preview',
      {
        efforts: ['low', 'high'],
        penalties: false,
        input: ['text', 'image'],
        output: ['text', 'image'],
        tools: false,
        reasoning: 'none',
        maxOutputTokens: 32768,
      },
    ],
    [
      'openrouter',
      'openai/gpt-5-image',
      {
        efforts: ['minimal', ...USUAL],
        stops: 0,
        input: ['text', 'image', 'file'],
        output: ['text', 'image'],
        reasoning: 'effort',
        sampling: false,
        maxOutputTokens: 128000,
      },
    ],
    [
      'deepseek',
      'deepseek-v4-pro',
      {
        output: ['text'],
        tools: true,
        reasoning: 'effort',
        efforts: ['none', 'low', 'high', 'max'],
        forcedTools: 'idle',
        formats: ['json_object'],
        maxOutputTokens: 384000,
      },
    ],
    [
      'mistral',
      'mistral-large-2512',
      {
        input: ['text', 'image'],
        output: ['text'],
        tools: true,
        structuredOutput: true,
        sampling: true,
        reasoning: 'none',
      },
    ],
    [
      'groq',
      'openai/gpt-oss-120b',
      {
        efforts: USUAL,
        formats: ['json_object', 'json_schema'],
        input: ['text'],
        output: ['text'],
        tools: true,
        reasoning: 'effort',
      },
    ],
    ['together', 'Gryphe/MythoMax-L2-13b', { efforts: USUAL }],
    [
      'openai',
      'gpt-5-nano',
      {
        ...DOCUMENTS,
        efforts: ['minimal', ...USUAL],
        stops: 0,
        reasoning: 'effort',
        sampling: false,
        maxOutputTokens: 128000,
      },
    ],
    [
      'openai',
      'gpt-5-chat-latest',
      { efforts: ['minimal', ...USUAL], stops: 4, reasoning: 'none', sampling: true, maxOutputTokens: 16384 },
    ],
    [
      'anthropic',
      'claude-haiku-4-5-20251001',
      {
        ...DOCUMENTS,
        sampling: 'either',
        reasoning: 'budget',
        budget: { min: 1024, max: 63999 },
        maxOutputTokens: 64000,
      },
    ],
    [
      'anthropic',
      'claude-sonnet-4-6',
      {
        ...DOCUMENTS,
        efforts: ['none', ...USUAL, 'max'],
        prefill: false,
        sampling: 'either',
        reasoning: 'adaptive',
        budget: { min: 1024, max: 63999 },
        maxOutputTokens: 128000,
      },
    ],
    [
      'anthropic',
      'claude-opus-4-7',
      {
        ...DOCUMENTS,
        efforts: ALL,
        prefill: false,
        reasoning: 'adaptive',
        sampling: false,
        budget: { min: 1024, max: 31999 },
        maxOutputTokens: 128000,
      },
    ],
    [
      'anthropic',
      'claude-opus-5-5',
      {
        ...DOCUMENTS,
        efforts: ALL.slice(1),
        prefill: false,
        forcedTools: false,
        reasoning: 'adaptive',
        sampling: false,
        maxOutputTokens: 128000,
        systemTurns: true,
      },
    ],
    [
      'openrouter',
      'anthropic/claude-opus-4.7',
      {
        efforts: ALL,
        prefill: false,
        cacheBreakpoints: 'cache_control',
        input: ['text', 'image', 'file'],
        output: ['text'],
        tools: true,
        reasoning: 'adaptive',
        sampling: false,
        budget: { min: 1024, max: 31999 },
        maxOutputTokens: 128000,
      },
    ],
    [
      'vertex',
      'gemini-2.5-pro',
      {
        ...EVERYTHING,
        penalties: false,
        reasoning: 'budget',
        budget: { min: 128, max: 32768 },
        maxOutputTokens: 65536,
      },
    ],
    [
      'google',
      'gemini-2.5-flash-lite',
      {
        ...EVERYTHING,
        penalties: false,
        reasoning: 'budget',
        budget: { min: 512, max: 24576, off: true },
        maxOutputTokens: 65536,
      },
    ],
    [
      'google',
      'gemini-3-flash-preview',
      { ...EVERYTHING, efforts: ['minimal', ...USUAL], penalties: false, reasoning: 'level', maxOutputTokens: 65536 },
    ],
    ['acme', 'whatever', {}],
  ]
  for (const [provider, model, capabilities] of CASES)
    test(`of ${provider}/${model} are those of its families`, () =>
      expect(familyCapabilities(provider, model)).toEqual(capabilities))

  test('are extended and overridden by the configuration file', () => {
    const own = catalogueOf(
      { OPENAI_API_KEY: 'k' },
      'models:\n  mine: { endpoints: [{ provider: openai, model: gpt-5 }], capabilities: { maxOutputTokens: 7 } }',
    )
    expect(own.endpoints('mine', 'responses')[0]!.target.capabilities).toEqual({
      ...DOCUMENTS,
      reasoning: 'effort',
      efforts: ['minimal', 'low', 'medium', 'high'],
      sampling: false,
      stops: 0,
      maxOutputTokens: 7,
    } as object)
    expect(own.list().find(({ id }) => id === 'mine')!.capabilities).toEqual({
      ...DOCUMENTS,
      reasoning: 'effort',
      efforts: ['minimal', 'low', 'medium', 'high'],
      sampling: false,
      stops: 0,
      maxOutputTokens: 7,
    } as object)
  })

  test('a glob matches whole names, and only * is special in it', () => {
    expect([
      globs(['a.b*']).test('a.bc'),
      globs(['a.b*']).test('axbc'),
      globs(['a.b*']).test('xa.b'),
      globs([]).test(''),
    ]).toEqual([true, false, false, false])
  })
})

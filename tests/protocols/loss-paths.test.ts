import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { written } from '../translating.ts'
import { NAMES, rawRequestOf } from '../properties/protocol-pairs.ts'
import { IMAGE, LONG, REQUESTS } from './every-field.ts'

/** Losses are reported under exact paths in the client's own request, on every route. */

type Json = Record<string, any>

const MODELS: Capabilities[] = [
  {},
  { reasoning: 'none', sampling: false, maxOutputTokens: 100 },
  { reasoning: 'budget', budget: { min: 1024, max: 2048 } },
  { reasoning: 'level' },
  { reasoning: 'adaptive' },
  { reasoning: 'effort', maxOutputTokens: 8000 },
]

/** Undefined if the provider's protocol refuses the request. */
function lossesOf(
  client: ConversationName,
  body: Json,
  provider: ConversationName,
  capabilities: Capabilities,
): Loss[] | undefined {
  const request = protocols[client].serve.readRequest({ ...rawRequestOf(body), model: 'a/b' })
  try {
    return written(provider, request, { provider: 'p', model: 'm', quirks: {}, capabilities }, body).losses
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

/** The value at a path: `messages[2].content`. */
const valueAt = (body: Json, path: string): unknown =>
  (path.match(/[^.[\]]+/g) ?? []).reduce<any>((value, step) => value?.[step], body)

/** Fields that a provider requires although the client did not send them, in the client's terms. */
const ADDED: Record<ConversationName, readonly string[]> = {
  'chat.completions': ['max_completion_tokens'],
  responses: ['max_output_tokens'],
  messages: [],
  generateContent: ['generationConfig.maxOutputTokens'],
}

const ROUTES = NAMES.flatMap((client) =>
  NAMES.filter((provider) => provider !== client).map((provider) => [client, provider] as const),
)

test.each(ROUTES)('%s -> %s: every loss has an exact path in the request and is reported once', (client, provider) => {
  const conversation = client === 'responses' ? 'input' : client === 'generateContent' ? 'contents' : 'messages'
  const parts = fc.record({
    kept: fc.subarray(
      Object.keys(REQUESTS[client]).filter(
        (name) => name !== 'model' && name !== conversation && !(client === 'messages' && name === 'max_tokens'),
      ),
    ),
    capabilities: fc.constantFrom(...MODELS),
    turns: fc.subarray(REQUESTS[client][conversation] as Json[], { minLength: 1 }),
  })
  let reported = 0
  fc.assert(
    fc.property(parts, ({ kept, capabilities, turns }) => {
      const required = client === 'generateContent' ? [] : client === 'messages' ? ['model', 'max_tokens'] : ['model']
      const body = {
        ...Object.fromEntries([...required, ...kept].map((name) => [name, REQUESTS[client][name]])),
        [conversation]: turns,
      }
      // A tool choice requires tools; requests that the reader refuses are not the subject of this test.
      let losses: Loss[] | undefined
      try {
        losses = lossesOf(client, body, provider, capabilities)
      } catch (error) {
        if (error instanceof GatewayError) return
        throw error
      }
      for (const { path } of losses ?? [])
        expect(
          valueAt(body, path) !== undefined || ADDED[client].includes(path) ? '' : `${path} in ${JSON.stringify(body)}`,
        ).toBe('')
      const texts = (losses ?? []).map(({ code, path, reason }) => `${code} ${path}: ${reason}`)
      expect(new Set(texts).size).toBe(texts.length)
      reported += texts.length
    }),
    { numRuns: 200 },
  )
  expect(reported).toBeGreaterThan(200)
})

const pathsOf = (
  client: ConversationName,
  provider: ConversationName,
  more: Json,
  capabilities: Capabilities = {},
): string[] => {
  const body = {
    'chat.completions': { model: 'a/b', messages: [{ role: 'user', content: 'x' }] },
    responses: { model: 'a/b', input: 'x' },
    messages: { model: 'a/b', max_tokens: 16, messages: [{ role: 'user', content: 'x' }] },
    generateContent: { contents: [{ role: 'user', parts: [{ text: 'x' }] }] },
  }[client]
  return lossesOf(client, { ...body, ...more }, provider, capabilities)!.map(({ path }) => path)
}

describe('the path of a loss', () => {
  const limits: Capabilities = { maxOutputTokens: 20 }
  test.each([
    [
      'chat.completions',
      'messages',
      { seed: 1, logit_bias: { 1: 1 } },
      {},
      ['max_completion_tokens', 'logit_bias', 'seed'],
    ],
    ['chat.completions', 'messages', { max_tokens: 50 }, limits, ['max_tokens']],
    ['chat.completions', 'messages', { max_completion_tokens: 50 }, limits, ['max_completion_tokens']],
    ['chat.completions', 'messages', { max_tokens: 9000, reasoning_effort: 'low' }, {}, ['reasoning_effort']],
    ['chat.completions', 'messages', { max_tokens: 9000, reasoning: { effort: 'low' } }, {}, ['reasoning.effort']],
    [
      'chat.completions',
      'responses',
      { thinking: { type: 'enabled', budget_tokens: 9000 } },
      {},
      ['thinking.budget_tokens'],
    ],
    ['chat.completions', 'responses', { thinking: { type: 'disabled' } }, { efforts: ['low'] }, ['thinking']],
    [
      'messages',
      'chat.completions',
      { thinking: { type: 'disabled' }, output_config: { effort: 'high' } },
      { reasoning: 'effort', efforts: ['low', 'high'] },
      ['thinking'],
    ],
    [
      'responses',
      'generateContent',
      { max_output_tokens: 50, reasoning: { effort: 'xhigh' } },
      { ...limits, reasoning: 'level' },
      ['max_output_tokens', 'reasoning.effort'],
    ],
    [
      'messages',
      'generateContent',
      { stop_sequences: ['1', '2', '3', '4', '5', '6'], thinking: { type: 'enabled', budget_tokens: 9000 } },
      { reasoning: 'level' },
      ['stop_sequences', 'thinking.budget_tokens'],
    ],
    [
      'generateContent',
      'messages',
      { generationConfig: { seed: 1, thinkingConfig: { thinkingLevel: 'LOW' }, maxOutputTokens: 9000 } },
      {},
      ['generationConfig.seed', 'generationConfig.thinkingConfig.thinkingLevel'],
    ],
    [
      'generateContent',
      'messages',
      { generation_config: { seed: 1, max_output_tokens: 50, stop_sequences: [' '] } },
      limits,
      ['generation_config.max_output_tokens', 'generation_config.seed', 'generation_config.stop_sequences'],
    ],
  ] satisfies [ConversationName, ConversationName, Json, Capabilities, string[]][])(
    'is spelled as the client spelled it: %s -> %s %j',
    (client, provider, more, capabilities, expected) => {
      expect(pathsOf(client, provider, more, capabilities).sort()).toEqual(expected.sort())
    },
  )

  test('has the index of its element', () => {
    const tools = [
      { type: 'function', function: { name: 'f' } },
      { type: 'function', function: { name: LONG } },
    ]
    expect(pathsOf('chat.completions', 'responses', { tools })).toEqual(['tools[1].function.name'])
    const ada = { role: 'user', name: 'Ada', content: 'x' }
    expect(pathsOf('chat.completions', 'generateContent', { messages: [{ role: 'user', content: 'x' }, ada] })).toEqual(
      ['messages[1].name'],
    )
    expect(pathsOf('chat.completions', 'generateContent', { messages: [ada, ada] })).toEqual([
      'messages[0].name',
      'messages[1].name',
    ])
    const failed = (id: string) => ({ type: 'tool_result', tool_use_id: id, is_error: true, content: 'no' })
    const calls = {
      role: 'assistant',
      content: [
        { type: 'tool_use', id: 'c1', name: 'f', input: {} },
        { type: 'tool_use', id: 'c2', name: 'f', input: {} },
      ],
    }
    const withResults = (...results: Json[]) => ({
      messages: [{ role: 'user', content: 'x' }, calls, { role: 'user', content: results }],
    })
    expect(pathsOf('messages', 'responses', withResults({ ...failed('c1'), is_error: false }, failed('c2')))).toEqual([
      'messages[2].content[1].is_error',
    ])
    expect(pathsOf('messages', 'responses', withResults(failed('c1'), failed('c2')))).toEqual([
      'messages[2].content[0].is_error',
      'messages[2].content[1].is_error',
    ])
    expect(pathsOf('messages', 'responses', withResults(failed('c1'))).sort()).toEqual([
      'messages[1].content[1]',
      'messages[2].content[0].is_error',
    ])
    expect(
      pathsOf('chat.completions', 'messages', {
        max_tokens: 9,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'x' },
              { type: 'image_url', image_url: { url: IMAGE, detail: 'low' } },
            ],
          },
        ],
      }),
    ).toEqual(['messages[0].content[1].image_url.detail'])
  })

  test('has an exact index for each of many elements', () => {
    const tools = Array.from({ length: 120 }, (_, index) => ({
      type: 'function',
      function: { name: `${LONG}${index}` },
    }))
    expect(pathsOf('chat.completions', 'responses', { tools })).toEqual(
      tools.map((_, index) => `tools[${index}].function.name`),
    )
  })
})

const CHOSEN = { type: 'function', odd: 1, function: { name: 'f', odd: 1 } }
const AUDIO = { type: 'input_audio', odd: 1, input_audio: { data: 'aGk=', format: 'wav', odd: 1 } }

test.each([
  ['chat.completions', { tool_choice: CHOSEN }, ['tool_choice.function.odd', 'tool_choice.odd']],
  [
    'chat.completions',
    { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [CHOSEN], odd: 1 } } },
    [
      'tool_choice.allowed_tools.odd',
      'tool_choice.allowed_tools.tools[0].function.odd',
      'tool_choice.allowed_tools.tools[0].odd',
    ],
  ],
  [
    'chat.completions',
    {
      messages: [
        { role: 'user', content: 'x', odd: 1 },
        { role: 'assistant', odd: 1, function_call: { name: 'f', arguments: '{}', odd: 1 } },
      ],
    },
    ['messages[0].odd', 'messages[1].function_call.odd', 'messages[1].odd'],
  ],
  ['messages', { tool_choice: { type: 'auto', odd: 1 } }, ['tool_choice.odd']],
  ['messages', { tool_choice: { type: 'tool', name: 'f', odd: 1 } }, ['tool_choice.odd']],
  [
    'responses',
    { input: [{ role: 'user', content: [AUDIO], odd: 1 }] },
    ['input[0].content[0].input_audio.odd', 'input[0].content[0].odd', 'input[0].odd'],
  ],
] satisfies [ConversationName, Json, string[]][])(
  'members of %s %j that are not known are reported',
  (client, more, paths) => {
    const body = { model: 'a/b', messages: [{ role: 'user', content: 'x' }], max_tokens: 9, ...more }
    const { extras } = protocols[client].serve.readRequest(rawRequestOf(body))
    expect(
      Object.keys(extras)
        .filter((path) => path.endsWith('odd'))
        .sort(),
    ).toEqual(paths)
  },
)

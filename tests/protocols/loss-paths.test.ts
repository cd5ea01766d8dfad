import { written } from '../translating.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Capabilities } from '../../src/protocols/protocol.ts'
import { NAMES, wireOf } from '../properties/wires.ts'

/** Losses are reported under exact paths in the client's own request, on every route. */

type Json = Record<string, any>

const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'string', minLength: 2 } },
  required: ['a'],
  anyOf: [{ type: 'object', properties: {} }],
}
const LONG = 'x'.repeat(70)
const IMAGE = 'data:image/png;base64,aGk='

/** As much as each protocol can say, so that as much as possible is lost elsewhere. */
const SAID: Record<ConversationName, Json> = {
  'chat.completions': {
    model: 'a/b',
    max_tokens: 70_000,
    temperature: 1.5,
    top_p: 0.5,
    top_k: 4,
    frequency_penalty: 2,
    presence_penalty: 2,
    seed: 2 ** 40,
    stop: [' ', '2', '3', '4'],
    logit_bias: { 5: 1 },
    logprobs: true,
    top_logprobs: 2,
    reasoning: { effort: 'max', max_tokens: 5000, exclude: true },
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema: SCHEMA } },
    verbosity: 'low',
    web_search_options: {
      search_context_size: 'low',
      user_location: { type: 'approximate', approximate: { city: 'Rome' } },
    },
    user: 'u',
    metadata: { a: 'b' },
    service_tier: 'odd',
    prompt_cache_key: 'k',
    parallel_tool_calls: false,
    tool_choice: 'required',
    odd: 1,
    image_config: { aspect_ratio: '1:1' },
    tools: [
      {
        type: 'function',
        function: { name: 'f', parameters: SCHEMA, strict: true },
        cache_control: { type: 'ephemeral' },
      },
      {
        type: 'custom',
        custom: { name: LONG, format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
      },
    ],
    messages: [
      { role: 'system', content: 's' },
      {
        role: 'user',
        name: 'Ada',
        content: [
          { type: 'text', text: 'a', cache_control: { type: 'ephemeral' } },
          { type: 'image_url', image_url: { url: IMAGE, detail: 'low' } },
          { type: 'odd_part' },
        ],
      },
      {
        role: 'assistant',
        content: 'b',
        reasoning_details: [{ type: 'reasoning.text', text: 'hm', signature: 'sig' }],
        tool_calls: [
          {
            id: LONG,
            type: 'function',
            function: { name: 'f', arguments: '{"a' },
            extra_content: { google: { thought_signature: 'sig' } },
          },
          { id: 'c2', type: 'function', function: { name: 'f', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: LONG, content: 'r' },
      { role: 'tool', tool_call_id: 'nobody', content: 'r' },
      { role: 'system', content: 'midway' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: 'begun ' },
    ],
  },
  responses: {
    model: 'a/b',
    instructions: 'i',
    max_output_tokens: 70_000,
    temperature: 1.5,
    top_p: 0.5,
    include: ['message.output_text.logprobs'],
    top_logprobs: 2,
    reasoning: { effort: 'xhigh', summary: 'detailed' },
    text: { format: { type: 'json_schema', name: 'a', schema: SCHEMA }, verbosity: 'low' },
    safety_identifier: 'u',
    metadata: { a: 'b' },
    service_tier: 'odd',
    prompt_cache_key: 'k',
    parallel_tool_calls: false,
    tool_choice: 'required',
    odd: 1,
    tools: [
      { type: 'function', name: 'f', parameters: SCHEMA, strict: true },
      { type: 'custom', name: LONG, format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
      { type: 'web_search', search_context_size: 'low', user_location: { type: 'approximate', city: 'Rome' } },
    ],
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'a', prompt_cache_breakpoint: {} },
          { type: 'input_image', image_url: IMAGE, detail: 'low' },
        ],
      },
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'sig' },
      { type: 'function_call', call_id: LONG, name: 'f', arguments: '{"a' },
      {
        type: 'function_call_output',
        call_id: LONG,
        output: [
          { type: 'input_text', text: 'r' },
          { type: 'input_image', image_url: IMAGE },
        ],
      },
      { type: 'function_call', call_id: 'c2', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'nobody', output: 'r' },
      { role: 'developer', content: 'midway' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: 'begun ' },
    ],
  },
  messages: {
    model: 'a/b',
    max_tokens: 70_000,
    system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }],
    temperature: 1,
    top_p: 0.5,
    top_k: 4,
    stop_sequences: ['1', '2', '3', '4', '5', '6'],
    thinking: { type: 'enabled', budget_tokens: 5000, display: 'omitted' },
    output_config: { format: { type: 'json_schema', schema: SCHEMA } },
    metadata: { user_id: 'u' },
    service_tier: 'standard_only',
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    odd: 1,
    tools: [
      { name: 'f', input_schema: SCHEMA, strict: true, cache_control: { type: 'ephemeral' } },
      { name: LONG, input_schema: { type: 'object' } },
      { type: 'web_search_20250305', name: 'web_search', user_location: { type: 'approximate', city: 'Rome' } },
    ],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'image', source: { type: 'url', url: 'https://h/x.png' } },
          { type: 'search_result', source: 'x', title: 't', content: [] },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'sig' },
          {
            type: 'text',
            text: 'b',
            citations: [
              {
                type: 'char_location',
                cited_text: 'x',
                document_index: 0,
                document_title: null,
                start_char_index: 0,
                end_char_index: 1,
              },
            ],
          },
          { type: 'tool_use', id: LONG, name: 'f', input: {} },
          { type: 'tool_use', id: 'c2', name: 'f', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: LONG,
            is_error: true,
            content: [
              { type: 'text', text: 'r' },
              { type: 'image', source: { type: 'url', url: 'https://h/x.png' } },
            ],
          },
          { type: 'tool_result', tool_use_id: 'nobody', content: 'r' },
        ],
      },
      { role: 'system', content: 'midway' },
      { role: 'user', content: 'c' },
      { role: 'assistant', content: 'begun' },
    ],
  },
  generateContent: {
    systemInstruction: { parts: [{ text: 's' }] },
    cachedContent: 'cachedContents/x',
    toolConfig: { functionCallingConfig: { mode: 'ANY' } },
    generationConfig: {
      maxOutputTokens: 70_000,
      temperature: 1.5,
      topP: 0.5,
      top_k: 4,
      frequencyPenalty: 1,
      presencePenalty: 1,
      seed: 5,
      stopSequences: ['1', '2', '3', '4', '5'],
      responseLogprobs: true,
      logprobs: 2,
      candidateCount: 2,
      thinkingConfig: { thinkingBudget: 5000, includeThoughts: false },
      responseMimeType: 'application/json',
      responseSchema: { type: 'OBJECT', properties: { a: { type: 'STRING', minLength: 2 } } },
      imageConfig: { aspectRatio: '1:1' },
    },
    tools: [
      { functionDeclarations: [{ name: 'f', parametersJsonSchema: SCHEMA }, { name: LONG }] },
      { googleSearch: {} },
    ],
    contents: [
      {
        role: 'user',
        parts: [
          { text: 'a' },
          { inlineData: { mimeType: 'image/png', data: 'aGk=' }, mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' } },
        ],
      },
      {
        role: 'model',
        parts: [
          { text: 'hm', thought: true, thoughtSignature: 'sig' },
          { executableCode: { language: 'PYTHON', code: '1' } },
          { functionCall: { id: 'c1', name: 'f', args: {} }, thoughtSignature: 'sig' },
          { functionCall: { id: 'c2', name: 'f', args: {} } },
        ],
      },
      {
        role: 'user',
        parts: [
          {
            functionResponse: {
              id: 'c1',
              name: 'f',
              response: { error: 'r' },
              parts: [{ inlineData: { mimeType: 'image/png', data: 'aGk=' } }],
            },
          },
          { functionResponse: { id: 'nobody', name: 'f', response: {} } },
        ],
      },
      { role: 'user', parts: [{ text: 'c' }] },
      { role: 'model', parts: [{ text: 'begun ' }] },
    ],
  },
}

const MODELS: Capabilities[] = [
  {},
  { reasoning: 'none', sampling: false, maxOutputTokens: 100 },
  { reasoning: 'budget', budget: { min: 1024, max: 2048 } },
  { reasoning: 'level' },
  { reasoning: 'adaptive' },
  { reasoning: 'effort', maxOutputTokens: 8000 },
]

/** Undefined where the provider refuses the request. */
function lossesOf(
  client: ConversationName,
  body: Json,
  provider: ConversationName,
  capabilities: Capabilities,
): Loss[] | undefined {
  const request = protocols[client].serve.readRequest({ ...wireOf(body), model: 'a/b' })
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
      Object.keys(SAID[client]).filter(
        (name) => name !== 'model' && name !== conversation && !(client === 'messages' && name === 'max_tokens'),
      ),
    ),
    capabilities: fc.constantFrom(...MODELS),
    turns: fc.subarray(SAID[client][conversation] as Json[], { minLength: 1 }),
  })
  let reported = 0
  fc.assert(
    fc.property(parts, ({ kept, capabilities, turns }) => {
      const needed = client === 'generateContent' ? [] : client === 'messages' ? ['model', 'max_tokens'] : ['model']
      const body = {
        ...Object.fromEntries([...needed, ...kept].map((name) => [name, SAID[client][name]])),
        [conversation]: turns,
      }
      // A tool choice needs tools: what a reader refuses is not the subject of this test.
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

  test('has the index of each element', () => {
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
    const asked = (...results: Json[]) => ({
      messages: [{ role: 'user', content: 'x' }, calls, { role: 'user', content: results }],
    })
    expect(pathsOf('messages', 'responses', asked({ ...failed('c1'), is_error: false }, failed('c2')))).toEqual([
      'messages[2].content[1].is_error',
    ])
    expect(pathsOf('messages', 'responses', asked(failed('c1'), failed('c2')))).toEqual([
      'messages[2].content[0].is_error',
      'messages[2].content[1].is_error',
    ])
    expect(pathsOf('messages', 'responses', asked(failed('c1'))).sort()).toEqual([
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

  test('has exact indices however many elements lose something', () => {
    const tools = Array.from({ length: 120 }, (_, index) => ({
      type: 'function',
      function: { name: `${LONG}${index}` },
    }))
    expect(pathsOf('chat.completions', 'responses', { tools })).toEqual(
      tools.map((_, index) => `tools[${index}].function.name`),
    )
  })
})

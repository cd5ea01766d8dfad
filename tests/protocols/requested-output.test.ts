import { expect, test } from 'bun:test'
import type { GenerationRequest, Part, Tool } from '../../src/generation/request.ts'
import { chargedMedia } from '../../src/protocols/plugins.ts'
import { hostedTools, requestedImageModel, requestedSearch } from '../../src/protocols/hosted-tools.ts'
import { mostCandidates, type RequestedClass, requestedOutput } from '../../src/protocols/requested-output.ts'

/** The output that the members of a body may ask for at some server. */

const CHAT = ['max_completion_tokens', 'max_tokens']
const tokens = (body: object): number | 'unlimited' => {
  const requested = requestedOutput(body as Record<string, unknown>, CHAT)
  return requested.unlimited ? 'unlimited' : requested.tokens
}
const count = (body: object): number => requestedOutput(body as Record<string, unknown>, CHAT).count

test('a limit counts under every name that a server may read', () => {
  const names = [
    ...[
      'Max_Tokens',
      'MAX_TOKENS',
      'maxTokens',
      'max-tokens',
      'max_to\u212aens',
      'max_token\u017f',
      'max_tokens_to_sample',
    ],
    ...['n_predict', 'num_predict', 'max_length', 'max_new_tokens', 'max_gen_len', 'max_gen_toks', 'maxTokenCount'],
    ...['max_output_tokens', 'maxOutputTokens', 'num_tokens', 'token_limit', 'max_decode_length', 'max_answer_tokens'],
    ...['tokens_to_generate', 'new_tokens', 'output_tokens', 'response_length', 'gen_length', 'length', 'limit'],
  ]
  expect(names.filter((name) => tokens({ max_tokens: 1, [name]: 5_000 }) !== 5_000)).toEqual([])
  expect(tokens({ max_tokens: 1, n_predict: '5000', max_length: 4_000.5 })).toBe(5_000)
})

test('a limit counts inside the members in which servers have their own options', () => {
  for (const body of [
    { options: { num_predict: 5_000 } },
    { extra_body: { max_tokens: 5_000 } },
    { extra_body: { options: { NUM_PREDICT: 5_000 } } },
    { parameters: { max_new_tokens: 5_000 } },
    { generationConfig: { maxOutputTokens: 1, Max_Output_Tokens: 5_000 } },
    { reasoning: { max_tokens: 5_000 } },
    { thinking: { type: 'enabled', budget_tokens: 5_000 } },
    { options: [{ name: 'a' }, { num_predict: 5_000 }] },
    { options: '{"num_predict":5000}' },
    { extra_body: '[{"options":{"max_tokens":5000}}]' },
    { max_words: 1_250 },
  ])
    expect([body, tokens(body)]).toEqual([body, 5_000])
})

test('a server without a limit is meant by 0, -1, and null under another spelling of the own name', () => {
  for (const body of [{ n_predict: -1 }, { num_predict: 0 }, { Max_Tokens: null }, { options: { max_tokens: -1 } }])
    expect([body, tokens({ max_tokens: 1, ...body })]).toEqual([body, 'unlimited'])
  for (const body of [{ max_tokens: null }, { max_tokens: 0 }, { max_new_tokens: null }, { thinkingBudget: -1 }])
    expect([body, tokens({ max_completion_tokens: 1, ...body })]).toEqual([body, 1])
})

test('members of other meanings are no limits', () => {
  expect(
    requestedOutput({
      model: 'max_tokens',
      max_prompt_tokens: 5_000,
      truncate_prompt_tokens: 5_000,
      num_ctx: 5_000,
      max_context_length: 5_000,
      add_special_tokens: true,
      stop_token_ids: [5_000],
      length_penalty: 5,
      max_tool_calls: 5_000,
      top_k: 5_000,
      seed: 5_000,
      metadata: { max_tokens: 5_000, n: 5 },
      response_format: { json_schema: { schema: { maxLength: 5_000 } } },
      text: { format: { schema: { max_length: 5_000 } } },
      guided_json: { maxLength: 5_000 },
      logit_bias: { 5_000: 1 },
      messages: [{ max_tokens: 5_000 }],
      tools: [{ function: { parameters: { properties: { max_tokens: 5_000, n: 7 } } } }],
    }),
  ).toEqual({ tokens: 0, unlimited: false, count: 1, predicted: 0, classes: [] })
})

test('responses and images are counted under every name, and the largest number counts', () => {
  const names = [
    ...['n', 'N', 'best_of', 'bestOf', 'candidateCount', 'candidate_count', 'numberOfImages', 'num_images'],
    ...['num_outputs', 'num_return_sequences', 'sampleCount', 'num_completions', 'n_choices', 'batch_size'],
  ]
  expect(names.filter((name) => count({ [name]: 4 }) !== 4)).toEqual([])
  expect(count({ n: 2, best_of: 5, options: { n: 3 } })).toBe(5)
  expect(count({ n: null, best_of: 'x', candidateCount: -3 })).toBe(1)
  expect([mostCandidates({}, undefined), mostCandidates({ candidates: 3 }, { count: 2 })]).toEqual([1, 3])
  expect(mostCandidates({ candidates: 3 }, { count: 4 })).toBe(4)
})

test('a predicted response counts with its length', () => {
  expect(requestedOutput({ prediction: { type: 'content', content: 'word '.repeat(100) } }).predicted).toBeGreaterThan(
    500,
  )
})

const listed = (classes: readonly RequestedClass[]): string[] =>
  classes.map(({ member, value, param, engine = '' }) => `${member} ${value} (${param}) ${engine}`.trim())

test.each<[what: string, body: Record<string, unknown>, classes: string[]]>([
  [
    'fallbacks',
    { fallbacks: ['a/b', { model: 'c/d', effort: 'x' }, 5] },
    ['model a/b (fallbacks[0])', 'model c/d (fallbacks[1].model)'],
  ],
  [
    'tools',
    {
      tools: [
        null,
        { model: 'of no type' },
        { type: 'function', model: 'of a client' },
        { type: 'custom', model: 'of a client' },
        { type: 'image_generation', model: 'billed by images' },
        { type: 'advisor', model: 'a', parameters: { analysis_models: ['b', 5, 'c'], submodels: 'd' } },
      ],
    },
    [
      'model a (tools[5].model)',
      'model b (tools[5].parameters.analysis_models)',
      'model c (tools[5].parameters.analysis_models)',
    ],
  ],
  [
    'models of plugins',
    { plugins: [null, { models: 'a' }, { model: 'b' }] },
    ['model a (plugins[1].models)', 'model b (plugins[2].model)'],
  ],
  [
    'plugins',
    {
      plugins: [
        'web',
        { id: 5 },
        { id: 'web', enabled: false },
        { id: 'web' },
        { id: 'web', engine: 'exa', enabled: true },
        { id: 'file-parser', pdf: { engine: 'mistral-ocr' } },
        { id: 'file-parser', pdf: { engine: 5 } },
      ],
    },
    [
      'search web (plugins[3])',
      'search web (plugins[4]) exa',
      'tool plugin file-parser mistral-ocr (plugins[5])',
      'tool plugin file-parser (plugins[6])',
    ],
  ],
  [
    'classes of service',
    { service_tier: 'priority', options: { Speed: 'fast', speed: 5 } },
    ['service_tier priority (service_tier)', 'speed fast (Speed)'],
  ],
  [
    'search tools',
    {
      tools: [
        null,
        { type: 'web_search' },
        { type: 'openrouter:web_search', parameters: { engine: 'exa' } },
        { type: 'openrouter:web_search', engine: 'elsewhere' },
        { type: 'web_search_preview_2025_03_11' },
      ],
    },
    ['search openrouter:web_search (tools[2]) exa', 'search web_search_preview_2025_03_11 (tools[4]) preview'],
  ],
])('other models, tools and searches of %s are billed apart', (_what, body, classes) => {
  expect(listed(requestedOutput(body).classes)).toEqual(classes)
})

test('tools of the provider are billed apart: shells in containers, searches, and the model that draws', () => {
  const tool = (kind: string, value: unknown, path?: string): Tool => ({
    ...{ type: 'native', protocol: 'responses', kind, value },
    ...(path === undefined ? {} : { path }),
  })
  const shell = (environment: unknown): Tool => tool('shell', { type: 'shell', environment }, 'tools[1]')
  expect(
    listed(
      hostedTools([
        { type: 'function', name: 'f' },
        shell({ type: 'container_auto' }),
        shell({ type: 'local' }),
        shell(undefined),
        tool('code_interpreter', {}),
      ]),
    ),
  ).toEqual(['tool shell (tools[1])', 'tool code_interpreter (tools)'])

  const searches = (tools: Tool[], isForwarded: boolean, webSearch?: object): string[] =>
    listed(requestedSearch({ webSearch } as never, tools, isForwarded))
  const found = [tool('x_search', {}, 'tools[0]'), tool('web_search_20250305', {}, 'tools[1]')]
  expect(searches(found, true)).toEqual(['search x_search (tools[0])'])
  expect(searches(found.slice(1), true)).toEqual(['search web_search_20250305 (tools[1])'])
  expect(searches([tool('my_web_search', {}), tool('web_searches', {})], true)).toEqual([])
  expect(searches(found, false)).toEqual([])
  expect(searches(found, false, { path: 'p' })).toEqual(['search web_search (p)'])

  const draws = (tools: Tool[], protocol: string, outputModalities?: string[]): string[] =>
    listed(requestedImageModel({ tools, outputModalities } as never, [{ protocol }], () => 'modalities'))
  const image = tool('image_generation', { type: 'image_generation', model: 'gpt-image' }, 'tools[2]')
  expect(draws([image], 'responses', ['image'])).toEqual(['image gpt-image (tools[2])'])
  expect(draws([image], 'chat.completions')).toEqual([])
  expect(draws([], 'responses', ['text', 'image'])).toEqual(['image  (modalities)'])
  expect(draws([], 'responses', ['text'])).toEqual([])
})

test('audio is charged apart, and PDFs are where an endpoint does not read files and no plugin names a parser', () => {
  const charged = (part: unknown, inputs: (string[] | undefined)[] = [['text']], body = {}): string[] => {
    const text: Part = { type: 'text', text: 'x' }
    const turns: GenerationRequest['turns'] = [{ role: 'user', parts: [text, part as Part] }]
    return chargedMedia({ turns }, body, inputs.map((input) => ({ input })) as never).map(({ value }) => value)
  }
  const file = (source: object) => ({ type: 'file', source })
  const pdf = file({ type: 'data', mediaType: 'application/pdf', data: 'AAAA' })
  expect(charged({ type: 'audio', source: { type: 'url', url: 'https://a.b' } })).toEqual(['audio'])
  expect(charged(pdf)).toEqual(['plugin file-parser'])
  expect(charged(file({ type: 'file', id: 'f' }))).toEqual(['plugin file-parser'])
  expect(charged(file({ type: 'data', mediaType: 'text/csv', data: 'AAAA' }))).toEqual([])
  expect(charged({ type: 'image', source: { type: 'url', url: 'https://a.b' } })).toEqual([])
  expect(charged(pdf, [['text', 'file'], ['text']])).toEqual(['plugin file-parser'])
  expect(charged(pdf, [['text', 'file'], undefined])).toEqual([])
  expect(charged(pdf, [['text']], { plugins: [{ id: 'web' }] })).toEqual(['plugin file-parser'])
  expect(charged(pdf, [['text']], { plugins: [{ id: 'web' }, { id: 'file-parser' }] })).toEqual([])
})

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { startGateway, type Gateway } from '../server.ts'

/**
 * Providers that refuse what their documents refuse, and requests of the other protocols with all that these can say.
 */

type Any = Record<string, any>
/** Why the provider refuses a body; undefined: it answers. */
type Strict = (body: Any) => string | undefined

const NAMED = /^[a-zA-Z0-9_-]{1,64}$/
const NINE = /^[a-zA-Z0-9]{9}$/
const unknownIn = (what: Any, known: readonly string[], where = ''): string | undefined =>
  Object.keys(what)
    .filter((name) => !known.includes(name))
    .map((name) => `${where}${name}: Extra inputs are not permitted`)[0]
const firstOf = (...problems: (string | undefined)[]): string | undefined =>
  problems.find((problem) => problem !== undefined)
const SAMPLING = ['temperature', 'top_p', 'presence_penalty', 'frequency_penalty', 'stop', 'n']
const COMMON = [
  'model',
  'messages',
  'stream',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  ...SAMPLING,
]
const FOLLOWS: Record<string, string[]> = {
  system: ['user', 'assistant', 'system'],
  user: ['assistant', 'system', 'user'],
  assistant: ['assistant', 'user', 'tool'],
  tool: ['assistant', 'tool'],
}
const MEMBERS: Record<string, string[]> = {
  system: ['role', 'content'],
  user: ['role', 'content'],
  assistant: ['role', 'content', 'tool_calls', 'prefix'],
  tool: ['role', 'content', 'tool_call_id', 'name'],
}
const CHUNKS: Record<string, (chunk: Any) => boolean> = {
  text: ({ text }) => typeof text === 'string',
  image_url: () => true,
  document_url: ({ document_url: url }) => typeof url === 'string',
  input_audio: ({ input_audio: data }) => typeof data === 'string',
}

/** As mistral-common's validator reads messages, and Mistral's server the rest. */
const mistral: Strict = (body) =>
  firstOf(
    unknownIn(body, [
      ...COMMON,
      'max_tokens',
      'random_seed',
      'prediction',
      'prompt_mode',
      'reasoning_effort',
      'prompt_cache_key',
      'safe_prompt',
    ]),
    ...body.messages.flatMap((message: Any, place: number) => [
      unknownIn(message, MEMBERS[message.role] ?? [], `messages.${place}.${message.role}.`),
      place > 0 && !FOLLOWS[body.messages[place - 1].role]!.includes(message.role)
        ? `Unexpected role '${message.role}' after role '${body.messages[place - 1].role}'`
        : undefined,
      ...[
        ...(message.tool_calls ?? []).map(({ id }: Any) => id),
        ...(message.role === 'tool' ? [message.tool_call_id] : []),
      ].map((id: string) =>
        NINE.test(id) ? undefined : `Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`,
      ),
      ...(Array.isArray(message.content) ? message.content : []).map((chunk: Any) =>
        CHUNKS[chunk.type]?.(chunk) === true ? undefined : `messages.${place}: no such chunk: ${chunk.type}`,
      ),
      message.role === 'assistant' && !message.content && !message.tool_calls
        ? 'Assistant message must have either content or tool_calls'
        : undefined,
    ]),
    body.messages.at(-1).role === 'assistant' && body.messages.at(-1).prefix !== true
      ? 'Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant'
      : undefined,
    ...(body.tools ?? []).map(({ function: { name } }: Any) =>
      NAMED.test(name) ? undefined : `Function name was ${name}`,
    ),
  )

const choiceIn = (body: Any, ...types: string[]): string | undefined =>
  body.tool_choice === undefined ||
  types.includes(typeof body.tool_choice === 'string' ? 'word' : body.tool_choice.type)
    ? undefined
    : `Invalid tool_choice type: '${body.tool_choice.type}'`
const effortIn = (body: Any, ...efforts: string[]): string | undefined =>
  body.reasoning_effort === undefined || efforts.includes(body.reasoning_effort)
    ? undefined
    : `invalid reasoning value: '${body.reasoning_effort}'`
const spoken = (value: unknown): boolean => /json/i.test(JSON.stringify(value))

const groq =
  (schemas: boolean): Strict =>
  (body) =>
    firstOf(
      effortIn(body, ...(schemas ? ['low', 'medium', 'high'] : [])),
      ...[
        'logprobs',
        'logit_bias',
        'top_logprobs',
        'verbosity',
        'metadata',
        'prompt_cache_key',
        'prompt_cache_retention',
        'web_search_options',
        'modalities',
        'stop_sequences',
        'safety_identifier',
      ].map((name) => (name in body ? `property '${name}' is unsupported` : undefined)),
      ...body.messages.map((message: Any, place: number) =>
        unknownIn(message, ['role', 'content', 'tool_calls', 'tool_call_id', 'reasoning'], `'messages.${place}' : `),
      ),
      ['auto', 'on_demand', 'flex', 'performance', undefined].includes(body.service_tier)
        ? undefined
        : 'service_tier must be one of auto, on_demand, flex, performance',
      choiceIn(body, 'word', 'function'),
      body.response_format !== undefined && (body.tools !== undefined || body.stream === true)
        ? 'response_format cannot be combined with tool/function calling or streaming'
        : undefined,
      body.response_format?.type === 'json_schema' && !schemas
        ? 'This model does not support response format `json_schema`'
        : undefined,
      body.response_format?.type === 'json_object' && !spoken(body.messages)
        ? "'messages' must contain the word 'json' in some form"
        : undefined,
    )

const deepseek: Strict = (body) =>
  firstOf(
    effortIn(body, 'low', 'medium', 'high', 'xhigh', 'max'),
    choiceIn(body, 'word', 'function'),
    [undefined, 'text', 'json_object'].includes(body.response_format?.type)
      ? undefined
      : 'This response_format type is unavailable now',
    body.response_format?.type === 'json_object' && !spoken(body.messages)
      ? "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'"
      : undefined,
  )

const fireworks: Strict = (body) =>
  firstOf(
    unknownIn(body, [
      ...COMMON,
      'max_tokens',
      'max_completion_tokens',
      'stream_options',
      'user',
      'seed',
      'logit_bias',
      'logprobs',
      'top_logprobs',
      'metadata',
      'service_tier',
      'prompt_cache_key',
      'reasoning_effort',
      'thinking',
    ]),
    effortIn(body, 'low', 'medium', 'high'),
    ...body.messages.map((message: Any) =>
      unknownIn(message, ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning_content'], 'messages.'),
    ),
    choiceIn(body, 'word', 'function'),
  )

const lmstudio: Strict = (body) =>
  firstOf(
    choiceIn(body, 'word'),
    effortIn(body, 'none', 'low', 'medium', 'high'),
    [undefined, 'text', 'json_schema'].includes(body.response_format?.type)
      ? undefined
      : "'response_format.type' must be 'json_schema' or 'text'",
  )
const ollama: Strict = (body) => effortIn(body, 'none', 'low', 'medium', 'high', 'max')
const llamacpp: Strict = (body) => choiceIn(body, 'word')

const reasoner: Strict = (body) =>
  firstOf(
    ...['parallel_tool_calls', 'stop', 'temperature', 'top_p', 'max_tokens'].map((name) =>
      name in body ? `Unsupported parameter: '${name}' is not supported with this model.` : undefined,
    ),
  )
const responses: Strict = (body) =>
  body.text?.format?.type === 'json_object' && !spoken(body.input)
    ? "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'."
    : undefined

/** Models by the path of their provider: name there, and what it is like. */
const DIALECTS: Record<
  string,
  { model: string; strict: Strict; protocol?: ConversationName; documents?: false; thinks?: false }
> = {
  mistral: { model: 'mistral-large-2512', strict: mistral, thinks: false },
  'mistral-reasoning': { model: 'mistral-medium-3-5', strict: mistral },
  groq: { model: 'llama-3.3-70b-versatile', strict: groq(false), documents: false, thinks: false },
  'groq-schemas': { model: 'openai/gpt-oss-120b', strict: groq(true), documents: false },
  deepseek: { model: 'deepseek-v4-pro', strict: deepseek, documents: false },
  fireworks: { model: 'accounts/fireworks/models/kimi-k2p6', strict: fireworks, documents: false },
  lmstudio: { model: 'qwen', strict: lmstudio, documents: false },
  llamacpp: { model: 'qwen', strict: llamacpp, documents: false },
  ollama: { model: 'qwen3.5', strict: ollama, documents: false },
  openai: { model: 'o4-mini', strict: reasoner, documents: false },
  'openai-responses': { model: 'gpt-4.1', strict: responses, protocol: 'responses', thinks: false },
}
const providerOf = (name: string): string => name.split('-')[0]!

const PDF = Buffer.from('%PDF-1.4 and so on').toString('base64')
const SCHEMA = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
const TOOLS = ['look', 'write', 'third']
const USER = 'the user, named in words'

type Wish = {
  schema: boolean
  json: boolean
  tools: 'one' | 'some' | 'none'
  begun: boolean
  document: boolean
  stream: boolean
  thinks: boolean
}
const WISHES: [string, Partial<Wish>][] = [
  ['a tool loop, with one tool forced', { tools: 'one' }],
  ['some of the tools allowed', { tools: 'some' }],
  ['a schema beside tools, streamed', { tools: 'one', schema: true, stream: true }],
  ['a schema', { schema: true }],
  ['JSON of which nothing is said', { json: true }],
  ['JSON, streamed', { json: true, stream: true }],
  ['an answer that was begun', { begun: true }],
  ['a document', { document: true }],
]

/** The same wish with all the trimmings of each protocol. */
const BODIES: Partial<Record<ConversationName, (wish: Partial<Wish>) => Any>> = {
  messages: ({ schema, tools, begun, document, stream }) => ({
    max_tokens: 2000,
    stream,
    system: [{ type: 'text', text: 'Be short.', cache_control: { type: 'ephemeral' } }],
    temperature: 0.5,
    top_k: 3,
    stop_sequences: ['END'],
    metadata: { user_id: USER },
    service_tier: 'auto',
    thinking: { type: 'enabled', budget_tokens: 1024 },
    ...(schema ? { output_config: { format: { type: 'json_schema', schema: SCHEMA } } } : {}),
    ...(tools === undefined
      ? {}
      : {
          tools: TOOLS.map((name) => ({ name, description: 'D', input_schema: SCHEMA })),
          tool_choice: {
            ...(tools === 'one' ? { type: 'tool', name: 'look' } : { type: 'any' }),
            disable_parallel_tool_use: true,
          },
        }),
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'hi' },
          ...(document
            ? [
                {
                  type: 'document',
                  title: 'a.pdf',
                  source: { type: 'base64', media_type: 'application/pdf', data: PDF },
                },
              ]
            : []),
        ],
      },
      ...(tools === undefined
        ? []
        : [
            {
              role: 'assistant',
              content: [
                { type: 'text', text: 'I look.' },
                { type: 'tool_use', id: 'toolu_01ABCDEFGHIJKLMNOP', name: 'look', input: { a: 'x' } },
              ],
            },
            {
              role: 'user',
              content: [
                {
                  type: 'tool_result',
                  tool_use_id: 'toolu_01ABCDEFGHIJKLMNOP',
                  is_error: true,
                  content: [{ type: 'text', text: 'no' }],
                },
                { type: 'text', text: 'Now mind this.' },
              ],
            },
          ]),
      ...(begun ? [{ role: 'assistant', content: 'Once upon' }] : []),
    ],
  }),
  responses: ({ schema, json, tools, begun, document, stream }) => ({
    stream,
    instructions: 'Be short.',
    max_output_tokens: 2000,
    temperature: 0.5,
    top_p: 0.9,
    top_logprobs: 2,
    user: USER,
    metadata: { a: 'b' },
    service_tier: 'priority',
    prompt_cache_key: 'k',
    prompt_cache_retention: '24h',
    reasoning: { effort: 'low', summary: 'auto' },
    text: {
      verbosity: 'low',
      ...(schema
        ? { format: { type: 'json_schema', name: 'n', strict: true, schema: SCHEMA } }
        : json
          ? { format: { type: 'json_object' } }
          : {}),
    },
    ...(tools === undefined
      ? {}
      : {
          tools: TOOLS.map((name) => ({ type: 'function', name, parameters: SCHEMA, strict: true })),
          parallel_tool_calls: false,
          tool_choice:
            tools === 'one'
              ? { type: 'function', name: 'look' }
              : {
                  type: 'allowed_tools',
                  mode: 'required',
                  tools: TOOLS.slice(0, 2).map((name) => ({ type: 'function', name })),
                },
        }),
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'hi' },
          ...(document
            ? [{ type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` }]
            : []),
        ],
      },
      { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'Not that.' }] },
      { role: 'developer', content: 'Mind the time.' },
      ...(tools === undefined
        ? []
        : [
            { type: 'function_call', call_id: 'call_abcdefghijklmnop', name: 'look', arguments: '{"a":"x"}' },
            { type: 'function_call_output', call_id: 'call_abcdefghijklmnop', output: 'seen' },
            { role: 'developer', content: 'Be quick.' },
          ]),
      { role: 'user', content: 'go on' },
      ...(begun ? [{ role: 'assistant', content: 'Once upon' }] : []),
    ],
  }),
  generateContent: ({ schema, json, tools, begun, document, thinks }) => ({
    systemInstruction: { parts: [{ text: 'Be short.' }] },
    generationConfig: {
      maxOutputTokens: 2000,
      temperature: 0.5,
      topP: 0.9,
      topK: 3,
      seed: 7,
      presencePenalty: 0.1,
      frequencyPenalty: 0.1,
      stopSequences: ['END'],
      responseLogprobs: true,
      logprobs: 2,
      ...(thinks ? { thinkingConfig: { thinkingBudget: 1024, includeThoughts: true } } : {}),
      ...(schema
        ? { responseMimeType: 'application/json', responseJsonSchema: SCHEMA }
        : json
          ? { responseMimeType: 'application/json' }
          : {}),
    },
    ...(tools === undefined
      ? {}
      : {
          tools: [
            { functionDeclarations: TOOLS.map((name) => ({ name, description: 'D', parametersJsonSchema: SCHEMA })) },
          ],
          toolConfig: {
            functionCallingConfig: { mode: 'ANY', allowedFunctionNames: TOOLS.slice(0, tools === 'one' ? 1 : 2) },
          },
        }),
    contents: [
      {
        role: 'user',
        parts: [{ text: 'hi' }, ...(document ? [{ inlineData: { mimeType: 'application/pdf', data: PDF } }] : [])],
      },
      ...(tools === undefined
        ? []
        : [
            { role: 'model', parts: [{ functionCall: { id: 'x', name: 'look', args: { a: 'x' } } }] },
            {
              role: 'user',
              parts: [
                { functionResponse: { id: 'x', name: 'look', response: { output: 'seen' } } },
                { text: 'Now mind this.' },
              ],
            },
          ]),
      ...(begun ? [{ role: 'model', parts: [{ text: 'Once upon' }] }] : []),
    ],
  }),
}
const CLIENTS = Object.keys(BODIES) as ConversationName[]

const whole = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: '{"a":"b"}' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
}
const response = {
  id: 'r',
  object: 'response',
  created_at: 1,
  model: 'm',
  status: 'completed',
  output: [
    {
      id: 'i',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: '{"a":"b"}', annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
}
const framesOf = (protocol: ConversationName): (object | string)[] =>
  protocol === 'responses'
    ? [
        { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
        { type: 'response.completed', response },
      ]
    : [
        {
          ...whole,
          object: 'chat.completion.chunk',
          choices: [{ index: 0, delta: whole.choices[0]!.message, finish_reason: 'stop' }],
        },
        '[DONE]',
      ]

let upstream: ReturnType<typeof Bun.serve>
let gateway: Gateway
let got: { text: string; refused: string | undefined }

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const text = await request.text()
      if (text === '') return new Response('', { status: 404 })
      const body = JSON.parse(text) as Any
      const { strict, protocol = 'chat.completions' } = Object.entries(DIALECTS).find(
        ([name, { model }]) =>
          model === body.model && new URL(request.url).pathname.startsWith(`/${providerOf(name)}/`),
      )![1]
      got = { text, refused: strict(body) }
      if (got.refused !== undefined)
        return Response.json(
          { error: { message: got.refused, type: 'invalid_request_error', param: null, code: null } },
          { status: 422 },
        )
      if (body.stream !== true) return Response.json(protocol === 'responses' ? response : whole)
      return new Response(
        framesOf(protocol)
          .map((frame) => `data: ${typeof frame === 'string' ? frame : JSON.stringify(frame)}\n\n`)
          .join(''),
        { headers: { 'content-type': 'text/event-stream' } },
      )
    },
  })
  const providers = [...new Set(Object.keys(DIALECTS).map(providerOf))].map(
    (id) => `  ${id}: { baseUrl: "http://127.0.0.1:${upstream.port}/${id}", apiKey: k }`,
  )
  const models = Object.entries(DIALECTS).map(
    ([name, { model, protocol = 'chat.completions' }]) =>
      `  d/${name}: { endpoints: [{ provider: ${providerOf(name)}, model: ${model}, protocol: ${protocol} }] }`,
  )
  gateway = await startGateway({
    config: `limits: { requestsPerMinute: 1000000 }\nproviders:\n${providers.join('\n')}\nmodels:\n${models.join('\n')}\n`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

async function ask(
  client: ConversationName,
  name: string,
  body: Any,
  stream = false,
): Promise<{ status: number; text: string; told: string[] }> {
  const path = {
    'chat.completions': '/v1/chat/completions',
    responses: '/v1/responses',
    messages: '/v1/messages',
    generateContent: `/v1beta/models/d/${name}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }[client]
  const answer = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(client === 'generateContent' ? body : { model: `d/${name}`, ...body }),
  })
  const losses = JSON.parse(answer.headers.get('x-sluice-translation') ?? '[]') as { field: string; what: string }[]
  return { status: answer.status, text: await answer.text(), told: losses.map(({ field, what }) => `${field} ${what}`) }
}

describe.each(Object.keys(DIALECTS))('%s', (name) => {
  for (const client of CLIENTS.filter((protocol) => protocol !== DIALECTS[name]!.protocol))
    for (const [what, wish] of WISHES) {
      if (
        (wish.document === true && DIALECTS[name]!.documents === false) ||
        (wish.json === true && client === 'messages')
      )
        continue
      test(`answers ${client} that wants ${what}`, async () => {
        const { status, text } = await ask(
          client,
          name,
          BODIES[client]!({ thinks: DIALECTS[name]!.thinks ?? true, ...wish }),
          wish.stream,
        )
        expect({ refused: got.refused, status, text: status === 200 ? '' : text }).toEqual({
          refused: undefined,
          status: 200,
          text: '',
        })
      })
    }
})

const sent = (): Any => JSON.parse(got.text) as Any

describe('Mistral', () => {
  test('hears of a seed, a document, an answer that was begun and of ids in its own words', async () => {
    await ask('generateContent', 'mistral', BODIES.generateContent!({ begun: true, document: true }))
    expect(sent()).toMatchObject({
      random_seed: 7,
      messages: [
        { role: 'system' },
        { content: [{ type: 'text' }, { type: 'document_url', document_url: `data:application/pdf;base64,${PDF}` }] },
        { role: 'assistant', content: 'Once upon', prefix: true },
      ],
    })
    const { told } = await ask('messages', 'mistral', BODIES.messages!({ tools: 'one' }))
    const [, , asked, result, between, user] = sent().messages
    expect([asked.tool_calls[0].id, between.role, user.role]).toEqual([result.tool_call_id, 'assistant', 'user'])
    expect(told).toEqual(
      expect.arrayContaining([
        'metadata.user_id left out',
        'service_tier left out',
        'thinking left out',
        'messages approximated',
        expect.stringMatching(/^messages.*id approximated/),
      ]),
    )
    await ask('messages', 'mistral', BODIES.messages!({ tools: 'one' }))
    expect(sent().messages[2].tool_calls[0].id).toBe(asked.tool_calls[0].id)
  })

  test('hears instructions after an answer as marked text of the user, and a refusal as text', async () => {
    await ask('responses', 'mistral', BODIES.responses!({}))
    expect(sent().messages.map(({ role, content }: Any) => [role, content])).toEqual([
      ['system', 'Be short.'],
      ['user', 'hi'],
      ['assistant', 'Not that.'],
      ['user', '<system>\nMind the time.\n</system>'],
      ['user', 'go on'],
    ])
  })
})

test('a schema that cannot be asked for is asked for in words, and told', async () => {
  const { told } = await ask('messages', 'deepseek', BODIES.messages!({ schema: true }))
  expect(told).toContain('output_config.format approximated')
  expect(sent()).toMatchObject({
    response_format: { type: 'json_object' },
    messages: [{ role: 'system', content: expect.stringContaining(JSON.stringify(SCHEMA)) }, {}],
  })
  await ask('messages', 'groq-schemas', BODIES.messages!({ schema: true }))
  expect(sent().response_format).toMatchObject({ type: 'json_schema', json_schema: { schema: SCHEMA } })
})

test('a provider without the words for a choice gets only the tools that may be called', async () => {
  const names = () => sent().tools.map((tool: Any) => tool.function.name)
  await ask('responses', 'deepseek', { ...BODIES.responses!({ tools: 'some' }), reasoning: { effort: 'none' } })
  expect([names(), sent().tool_choice]).toEqual([['look', 'write'], 'required'])
  await ask('messages', 'lmstudio', BODIES.messages!({ tools: 'one' }))
  expect([names(), sent().tool_choice]).toEqual([['look'], 'required'])
  await ask('messages', 'groq', BODIES.messages!({ tools: 'one' }))
  expect([names(), sent().tool_choice]).toEqual([TOOLS, { type: 'function', function: { name: 'look' } }])
})

test('what is refused is told under the name that the client has for it', async () => {
  const { told } = await ask('responses', 'groq', BODIES.responses!({}))
  expect(told).toEqual(
    expect.arrayContaining([
      'top_logprobs left out',
      'text.verbosity left out',
      'metadata left out',
      'service_tier left out',
      'prompt_cache_key left out',
      'prompt_cache_retention left out',
    ]),
  )
  expect((await ask('messages', 'openai', BODIES.messages!({ tools: 'one' }))).told).toContain(
    'tool_choice.disable_parallel_tool_use left out',
  )
})

test("OpenAI's models are asked over responses by clients of the others: chat completions takes no reasoning back, and since GPT-5.6 no tools while the model reasons", () => {
  const catalogue = new Catalogue(
    readConfig(
      'providers: { openai: { apiKey: k }, azure: { apiKey: k, baseUrl: "http://127.0.0.1:9/v1" } }',
      'sluice.yaml',
      {},
    ),
  )
  for (const model of ['openai/gpt-5.6-sol', 'openai/o4-mini', 'azure/gpt-5.6-sol'])
    expect(CLIENTS.map((client) => catalogue.endpoints(model, client)[0]!.protocol)).toEqual([
      'responses',
      'responses',
      'responses',
    ])
})

test('errors and endings in words of their own mean what they mean', () => {
  const { readError, readAnswer } = protocols['chat.completions'].call
  const listed = [
    { type: 'extra_forbidden', loc: ['body', 'messages', 0, 'user', 'name'], msg: 'Extra inputs are not permitted' },
  ]
  for (const body of [{ object: 'error', message: { detail: listed } }, { detail: listed }])
    expect(readError(422, JSON.stringify(body))).toMatchObject({
      status: 400,
      message: 'messages.0.user.name: Extra inputs are not permitted',
    })
  expect(
    readError(
      400,
      '{"code":"Client specified an invalid argument","error":"Argument not supported on this model: stop"}',
    ).message,
  ).toBe('Argument not supported on this model: stop')
  expect(readError(422, '{"detail":[{"a":1}]}').message).toContain('{"a":1}')
  const ended = (word: string) =>
    readAnswer({ ...whole, choices: [{ ...whole.choices[0], finish_reason: word }] }, {}).find(
      ({ type }) => type === 'finish',
    )
  for (const [word, reason] of [
    ['model_length', 'length'],
    ['sensitive', 'content-filter'],
    ['model_context_window_exceeded', 'length'],
  ] as const)
    expect(ended(word)).toEqual({ type: 'finish', reason, raw: word })
  for (const word of ['error', 'network_error', 'insufficient_system_resource'])
    expect(() => ended(word)).toThrow('The provider')
})

test("a chat client's own body travels as it is, and hears its provider", async () => {
  const body = {
    messages: [{ role: 'user', content: 'hi', name: 'x' }],
    seed: 7,
    user: USER,
    response_format: { type: 'json_object' },
  }
  const { status, text } = await ask('chat.completions', 'mistral', body)
  expect([status, text]).toEqual([400, expect.stringContaining('Extra inputs are not permitted')])
  expect(sent()).toEqual({ ...body, model: 'mistral-large-2512' })
  expect(
    (
      await ask('chat.completions', 'mistral', {
        messages: [{ role: 'user', content: 'hi' }],
        max_completion_tokens: 5,
      })
    ).status,
  ).toBe(200)
})

import {
  CODES,
  flag,
  listOf,
  nullable,
  object,
  oneOf,
  type Operation,
  real,
  reference,
  type Schema,
  text,
  whole,
} from './operation.ts'

/** The operations that generate, by protocol: their main fields. Each protocol takes further ones. */

const MODEL: Schema = { type: 'string', description: '<provider>/<model>, or a name in sluice.yaml' }
const ANY_OF_TEXT_AND_LIST: Schema = { anyOf: [text, listOf(object({}))] }

const tokens = (...names: string[]): Schema => object(Object.fromEntries(names.map((name) => [name, whole])))

export const generationSchemas: Record<string, Schema> = {
  ChatCompletionRequest: object({
    '!model': MODEL,
    '!messages': listOf(
      object({ '!role': oneOf('system', 'developer', 'user', 'assistant', 'tool', 'function'), content: {} }),
    ),
    stream: flag,
    max_completion_tokens: nullable(whole),
    max_tokens: nullable(whole),
    temperature: nullable(real),
    top_p: nullable(real),
    stop: {},
    tools: listOf(object({})),
    tool_choice: {},
    response_format: object({}),
    reasoning_effort: nullable(text),
    stream_options: nullable(object({ include_usage: flag })),
    metadata: nullable(object({})),
    user: text,
  }),
  ChatCompletion: object({
    '!id': text,
    '!object': { const: 'chat.completion' },
    '!created': whole,
    '!model': text,
    '!choices': listOf(
      object({ '!index': whole, '!message': object({ '!role': text }), '!finish_reason': nullable(text) }),
    ),
    usage: tokens('prompt_tokens', 'completion_tokens', 'total_tokens'),
  }),
  ResponseRequest: object({
    '!model': MODEL,
    input: ANY_OF_TEXT_AND_LIST,
    instructions: nullable(text),
    stream: nullable(flag),
    store: nullable(flag),
    background: nullable(flag),
    previous_response_id: nullable(text),
    max_output_tokens: nullable(whole),
    tools: listOf(object({})),
    reasoning: nullable(object({})),
    text: object({}),
  }),
  Response: object({
    '!id': text,
    '!object': { const: 'response' },
    '!created_at': whole,
    '!status': text,
    '!model': text,
    '!output': listOf(object({ '!type': text })),
    usage: nullable(tokens('input_tokens', 'output_tokens', 'total_tokens')),
  }),
  CompactionRequest: object({
    '!model': MODEL,
    input: { anyOf: [text, listOf(object({})), { type: 'null' }] },
    instructions: nullable(text),
    previous_response_id: nullable(text),
  }),
  Compaction: object({
    '!id': text,
    '!object': { const: 'response.compaction' },
    '!created_at': whole,
    '!output': listOf(object({ '!type': text })),
    '!usage': tokens('input_tokens', 'output_tokens', 'total_tokens'),
  }),
  MessageRequest: object({
    '!model': MODEL,
    '!max_tokens': whole,
    '!messages': listOf(object({ '!role': oneOf('user', 'assistant', 'system'), '!content': ANY_OF_TEXT_AND_LIST })),
    system: ANY_OF_TEXT_AND_LIST,
    stream: flag,
    temperature: real,
    top_p: real,
    top_k: whole,
    stop_sequences: listOf(text),
    tools: listOf(object({})),
    tool_choice: object({}),
    thinking: object({}),
  }),
  Message: object({
    '!id': text,
    '!type': { const: 'message' },
    '!role': { const: 'assistant' },
    '!model': text,
    '!content': listOf(object({ '!type': text })),
    '!stop_reason': nullable(text),
    '!usage': tokens('input_tokens', 'output_tokens'),
  }),
  GenerateContentRequest: object({
    '!contents': listOf(object({ role: text, '!parts': listOf(object({})) })),
    systemInstruction: object({}),
    generationConfig: object({ maxOutputTokens: whole, temperature: real, topP: real, topK: real }),
    tools: listOf(object({})),
    toolConfig: object({}),
    safetySettings: listOf(object({})),
  }),
  GenerateContentResponse: object({
    '!candidates': listOf(object({ content: object({ role: text, parts: listOf(object({})) }), finishReason: text })),
    usageMetadata: tokens('promptTokenCount', 'candidatesTokenCount', 'totalTokenCount'),
    modelVersion: text,
    responseId: text,
  }),
  ImageRequest: object({
    '!model': MODEL,
    '!prompt': text,
    n: nullable(whole),
    size: nullable(text),
    quality: nullable(text),
    response_format: nullable(oneOf('url', 'b64_json')),
  }),
  Images: object({ '!created': whole, '!data': listOf(object({ url: text, b64_json: text })) }),
}

type Generation = Pick<Operation, 'path' | 'summary' | 'errors'> & {
  request: string
  response: string
  example: unknown
  isStreamed?: boolean
}

const generation = ({ request, response, example, isStreamed = true, ...rest }: Generation): Operation => ({
  ...rest,
  method: 'post',
  tag: 'Generations',
  security: 'key',
  codes: CODES.generation,
  hasProviderErrors: true,
  body: { type: 'application/json', schema: reference(request), example },
  answer: {
    schema: reference(response),
    description: 'The response; with `stream`, its events',
    otherTypes: isStreamed ? ['text/event-stream'] : [],
  },
})

const OPENAI = 'OpenAIError'
const SANDBOX = 'sandbox/chat'
const contents = [{ role: 'user', parts: [{ text: 'Hello' }] }]

const openAi: Generation[] = [
  {
    path: '/v1/chat/completions',
    summary: 'Chat completions',
    errors: OPENAI,
    request: 'ChatCompletionRequest',
    response: 'ChatCompletion',
    example: { model: SANDBOX, messages: [{ role: 'user', content: 'Hello' }] },
  },
  {
    path: '/v1/responses',
    summary: 'Responses',
    errors: OPENAI,
    request: 'ResponseRequest',
    response: 'Response',
    example: { model: SANDBOX, input: 'Hello' },
  },
  {
    path: '/v1/responses/compact',
    summary: 'Compact a conversation, by a provider of the responses API',
    errors: OPENAI,
    request: 'CompactionRequest',
    response: 'Compaction',
    example: { model: 'sandbox/responses', input: 'Hello' },
    isStreamed: false,
  },
  {
    path: '/v1/messages',
    summary: 'Messages',
    errors: 'AnthropicError',
    request: 'MessageRequest',
    response: 'Message',
    example: { model: SANDBOX, max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
  },
  {
    path: '/v1/images/generations',
    summary: 'Images',
    errors: OPENAI,
    request: 'ImageRequest',
    response: 'Images',
    example: { model: 'sandbox/image', prompt: 'a red circle' },
    isStreamed: false,
  },
]

/** Where Google's clients look for a model, and for a model of a publisher. */
export const GOOGLE_MODELS = ['/v1beta/models/{model}', '/v1/publishers/{publisher}/models/{model}'] as const

const google = GOOGLE_MODELS.flatMap((models): Generation[] => [
  {
    path: `${models}:generateContent`,
    summary: 'Generate content',
    errors: 'GoogleError',
    request: 'GenerateContentRequest',
    response: 'GenerateContentResponse',
    example: { contents },
    isStreamed: false,
  },
  {
    path: `${models}:streamGenerateContent`,
    summary: 'Generate content, streamed: as events with `alt=sse`, otherwise as one array',
    errors: 'GoogleError',
    request: 'GenerateContentRequest',
    response: 'GenerateContentResponses',
    example: { contents },
  },
])
generationSchemas.GenerateContentResponses = listOf(reference('GenerateContentResponse'))

const counting = (
  path: string,
  errors: Operation['errors'],
  schema: Schema,
  answer: Schema,
  example: unknown,
): Operation => ({
  method: 'post',
  path,
  tag: 'Token counts',
  summary: 'Count the tokens of a request',
  security: 'key',
  errors,
  codes: CODES.generation,
  hasProviderErrors: true,
  body: { type: 'application/json', schema, example },
  answer: { schema: answer, description: 'The number of tokens' },
})

const countMessages = (prefix: string): Operation =>
  counting(
    `${prefix}/v1/messages/count_tokens`,
    'AnthropicError',
    object({ '!model': MODEL, '!messages': listOf(object({})) }),
    object({ '!input_tokens': whole }),
    { model: SANDBOX, messages: [{ role: 'user', content: 'Hello' }] },
  )

const countResponses = counting(
  '/v1/responses/input_tokens',
  OPENAI,
  object({ '!model': MODEL, input: {} }),
  object({ '!object': { const: 'response.input_tokens' }, '!input_tokens': whole }),
  { model: SANDBOX, input: 'Hello' },
)

const withAlt = (operation: Operation): Operation =>
  operation.path.endsWith(':streamGenerateContent') ? { ...operation, query: { alt: oneOf('sse', 'json') } } : operation

export const generations: readonly Operation[] = [
  ...['', '/relay'].flatMap((prefix) => [
    ...openAi.map((one) => generation({ ...one, path: prefix + one.path })),
    countMessages(prefix),
  ]),
  countResponses,
  ...google.map(generation).map(withAlt),
  ...GOOGLE_MODELS.map((models) =>
    counting(`${models}:countTokens`, 'GoogleError', object({}), object({ '!totalTokens': whole }), { contents }),
  ),
]

import type { ConversationName } from '../../src/generation/request.ts'

/** Validators that refuse what real providers refuse, by their documentation and recorded errors. */

export type Json = Record<string, any>
/** Why the provider refuses a body; undefined if it accepts it. */
export type Validator = (body: Json) => string | undefined

const NAMED = /^[a-zA-Z0-9_-]{1,64}$/
const NINE = /^[a-zA-Z0-9]{9}$/
const unknownField = (object: Json, known: readonly string[], prefix = ''): string | undefined =>
  Object.keys(object)
    .filter((name) => !known.includes(name))
    .map((name) => `${prefix}${name}: Extra inputs are not permitted`)[0]
const firstProblem = (...problems: (string | undefined)[]): string | undefined =>
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
const CHUNKS: Record<string, (chunk: Json) => boolean> = {
  text: ({ text }) => typeof text === 'string',
  image_url: () => true,
  document_url: ({ document_url: url }) => typeof url === 'string',
  input_audio: ({ input_audio: data }) => typeof data === 'string',
}

/** The rules for messages of mistral-common's validator, and for other fields of Mistral's server. */
const mistral: Validator = (body) =>
  firstProblem(
    unknownField(body, [
      ...COMMON,
      'max_tokens',
      'random_seed',
      'prediction',
      'prompt_mode',
      'reasoning_effort',
      'prompt_cache_key',
      'safe_prompt',
    ]),
    ...body.messages.flatMap((message: Json, index: number) => [
      unknownField(message, MEMBERS[message.role] ?? [], `messages.${index}.${message.role}.`),
      index > 0 && !FOLLOWS[body.messages[index - 1].role]!.includes(message.role)
        ? `Unexpected role '${message.role}' after role '${body.messages[index - 1].role}'`
        : undefined,
      ...[
        ...(message.tool_calls ?? []).map(({ id }: Json) => id),
        ...(message.role === 'tool' ? [message.tool_call_id] : []),
      ].map((id: string) =>
        NINE.test(id) ? undefined : `Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`,
      ),
      ...(Array.isArray(message.content) ? message.content : []).map((chunk: Json) =>
        CHUNKS[chunk.type]?.(chunk) === true ? undefined : `messages.${index}: no such chunk: ${chunk.type}`,
      ),
      message.role === 'assistant' && !message.content && !message.tool_calls
        ? 'Assistant message must have either content or tool_calls'
        : undefined,
    ]),
    body.messages.at(-1).role === 'assistant' && body.messages.at(-1).prefix !== true
      ? 'Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant'
      : undefined,
    ...(body.tools ?? []).map(({ function: { name } }: Json) =>
      NAMED.test(name) ? undefined : `Function name was ${name}`,
    ),
  )

const refusedChoice = (body: Json, ...types: string[]): string | undefined =>
  body.tool_choice === undefined ||
  types.includes(typeof body.tool_choice === 'string' ? 'word' : body.tool_choice.type)
    ? undefined
    : `Invalid tool_choice type: '${body.tool_choice.type}'`
const refusedEffort = (body: Json, ...efforts: string[]): string | undefined =>
  body.reasoning_effort === undefined || efforts.includes(body.reasoning_effort)
    ? undefined
    : `invalid reasoning value: '${body.reasoning_effort}'`
const mentionsJson = (value: unknown): boolean => /json/i.test(JSON.stringify(value))

const groq =
  (schemas: boolean): Validator =>
  (body) =>
    firstProblem(
      refusedEffort(body, ...(schemas ? ['low', 'medium', 'high'] : [])),
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
      ...body.messages.map((message: Json, index: number) =>
        unknownField(message, ['role', 'content', 'tool_calls', 'tool_call_id', 'reasoning'], `'messages.${index}' : `),
      ),
      ['auto', 'on_demand', 'flex', 'performance', undefined].includes(body.service_tier)
        ? undefined
        : 'service_tier must be one of auto, on_demand, flex, performance',
      refusedChoice(body, 'word', 'function'),
      body.response_format !== undefined && (body.tools !== undefined || body.stream === true)
        ? 'response_format cannot be combined with tool/function calling or streaming'
        : undefined,
      body.response_format?.type === 'json_schema' && !schemas
        ? 'This model does not support response format `json_schema`'
        : undefined,
      body.response_format?.type === 'json_object' && !mentionsJson(body.messages)
        ? "'messages' must contain the word 'json' in some form"
        : undefined,
    )

const deepseek: Validator = (body) =>
  firstProblem(
    refusedEffort(body, 'low', 'medium', 'high', 'xhigh', 'max'),
    refusedChoice(body, 'word', 'function'),
    [undefined, 'text', 'json_object'].includes(body.response_format?.type)
      ? undefined
      : 'This response_format type is unavailable now',
    body.response_format?.type === 'json_object' && !mentionsJson(body.messages)
      ? "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'"
      : undefined,
  )

const fireworks: Validator = (body) =>
  firstProblem(
    unknownField(body, [
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
    refusedEffort(body, 'low', 'medium', 'high'),
    ...body.messages.map((message: Json) =>
      unknownField(
        message,
        ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning_content'],
        'messages.',
      ),
    ),
    refusedChoice(body, 'word', 'function'),
  )

const lmstudio: Validator = (body) =>
  firstProblem(
    refusedChoice(body, 'word'),
    refusedEffort(body, 'none', 'low', 'medium', 'high'),
    [undefined, 'text', 'json_schema'].includes(body.response_format?.type)
      ? undefined
      : "'response_format.type' must be 'json_schema' or 'text'",
  )
const ollama: Validator = (body) => refusedEffort(body, 'none', 'low', 'medium', 'high', 'max')
const llamacpp: Validator = (body) => refusedChoice(body, 'word')

const reasoner: Validator = (body) =>
  firstProblem(
    ...['parallel_tool_calls', 'stop', 'temperature', 'top_p', 'max_tokens'].map((name) =>
      name in body ? `Unsupported parameter: '${name}' is not supported with this model.` : undefined,
    ),
  )
const responses: Validator = (body) =>
  body.text?.format?.type === 'json_object' && !mentionsJson(body.input)
    ? "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'."
    : undefined

/** A model of each provider with its validator, by the path of the provider. */
export const DIALECTS: Record<
  string,
  { model: string; validate: Validator; protocol?: ConversationName; documents?: false; reasons?: false }
> = {
  mistral: { model: 'mistral-large-2512', validate: mistral, reasons: false },
  'mistral-reasoning': { model: 'mistral-medium-3-5', validate: mistral },
  groq: { model: 'llama-3.3-70b-versatile', validate: groq(false), documents: false, reasons: false },
  'groq-schemas': { model: 'openai/gpt-oss-120b', validate: groq(true), documents: false },
  deepseek: { model: 'deepseek-v4-pro', validate: deepseek, documents: false },
  fireworks: { model: 'accounts/fireworks/models/kimi-k2p6', validate: fireworks, documents: false },
  lmstudio: { model: 'qwen', validate: lmstudio, documents: false },
  llamacpp: { model: 'qwen', validate: llamacpp, documents: false },
  ollama: { model: 'qwen3.5', validate: ollama, documents: false },
  openai: { model: 'o4-mini', validate: reasoner, documents: false },
  'openai-responses': { model: 'gpt-4.1', validate: responses, protocol: 'responses', reasons: false },
}
export const providerOf = (name: string): string => name.split('-')[0]!

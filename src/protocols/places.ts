import { GatewayError, invalid } from '../error.ts'
import type { ProtocolName } from '../generation/request.ts'
import { isObject, snakeOf } from './fields.ts'
import type { TranslationContext, Loss, ReportedLoss } from './protocol.ts'
import { type SchemaRefusal, stepInto } from './schema/schema.ts'

/**
 * Where something stands in a request, as its client writes it: a path, several, or null where the protocol does not
 * have it. `[]`: some element of the list;
 * `?name`: of the kind that has this member.
 */
type Place = string | readonly string[] | null

const COLUMNS: Record<ProtocolName, number> = {
  'chat.completions': 0,
  responses: 1,
  messages: 2,
  generateContent: 3,
  images: 4,
}

const CONFIG = 'generationConfig'
const PART = 'contents[].parts[]'
const BLOCK = 'messages[].content[]'

/** Our words for what a writer could not carry, in the order of COLUMNS. */
const PLACES = {
  conversation: ['messages', 'input', 'messages', 'contents', 'prompt'],
  system: ['messages', ['instructions', 'input'], ['system', 'messages'], 'systemInstruction', null],
  instruction: ['messages[]', 'input[]', 'messages[]', null, null],
  name: ['messages[].name', null, null, null, null],
  part: [
    BLOCK,
    ['input[]', 'input[].content[]', 'input[].output[]'],
    [BLOCK, `${BLOCK}.content[]`],
    [PART, `${PART}.functionResponse.parts[]`],
    null,
  ],
  detail: [
    `${BLOCK}.image_url.detail`,
    ['input[].content[].detail', 'input[].output[].detail'],
    null,
    [`${PART}.mediaResolution`, `${CONFIG}.mediaResolution`],
    null,
  ],
  filename: [
    `${BLOCK}.file.filename`,
    ['input[].content[].filename', 'input[].output[].filename'],
    [`${BLOCK}.title`, `${BLOCK}.content[].title`],
    [
      `${PART}.inlineData.displayName`,
      `${PART}.fileData.displayName`,
      `${PART}.functionResponse.parts[].inlineData.displayName`,
    ],
    null,
  ],
  cache: [
    [`${BLOCK}.cache_control`, `${BLOCK}.prompt_cache_breakpoint`, 'messages[].cache_control'],
    ['input[].content[].prompt_cache_breakpoint', 'input[].output[].prompt_cache_breakpoint'],
    [`${BLOCK}.cache_control`, `${BLOCK}.content[].cache_control`, 'system[].cache_control'],
    null,
    null,
  ],
  'request.cache': ['cache_control', null, 'cache_control', null, null],
  citations: ['messages[].annotations', 'input[].content[].annotations', `${BLOCK}.citations`, null, null],
  refusal: [['messages[].refusal', `${BLOCK}?refusal`], 'input[].content[]?refusal', null, null, null],
  thoughts: [
    ['messages[].reasoning_details', 'messages[].reasoning_content', 'messages[].reasoning'],
    'input[]?summary',
    [`${BLOCK}?thinking`, `${BLOCK}?data`],
    `${PART}?thought`,
    null,
  ],
  signature: [
    ['messages[].tool_calls[].extra_content', 'messages[].reasoning_details'],
    'input[].encrypted_content',
    [`${BLOCK}.data`, `${BLOCK}.signature`],
    `${PART}.thoughtSignature`,
    null,
  ],
  call: ['messages[].tool_calls[]', 'input[]?name', `${BLOCK}?input`, `${PART}.functionCall`, null],
  'call.id': [
    ['messages[].tool_calls[].id', 'messages[].tool_call_id'],
    'input[].call_id',
    [`${BLOCK}?input.id`, `${BLOCK}.tool_use_id`],
    [`${PART}.functionCall.id`, `${PART}.functionResponse.id`],
    null,
  ],
  'call.arguments': [
    ['messages[].tool_calls[].function.arguments', 'messages[].tool_calls[].custom.input'],
    ['input[].arguments', 'input[].input'],
    `${BLOCK}.input`,
    `${PART}.functionCall.args`,
    null,
  ],
  result: ['messages[]?tool_call_id', 'input[]?output', `${BLOCK}?tool_use_id`, `${PART}.functionResponse`, null],
  'result.content': [
    'messages[]?tool_call_id.content',
    'input[].output',
    `${BLOCK}?tool_use_id.content`,
    [`${PART}.functionResponse.parts`, `${PART}.functionResponse.response`],
    null,
  ],
  'result.isError': [null, null, `${BLOCK}.is_error`, `${PART}.functionResponse.response.error`, null],
  tool: [
    ['tools[].function', 'tools[].custom', 'tools[]'],
    ['tools[]', 'tools[].tools[]', 'input[].tools[]'],
    'tools[]',
    ['tools[].functionDeclarations[]', 'tools[]'],
    null,
  ],
  'tool.parameters': [
    'tools[].function.parameters',
    ['tools[].parameters', 'tools[].tools[].parameters', 'input[].tools[].parameters'],
    'tools[].input_schema',
    ['tools[].functionDeclarations[].parametersJsonSchema', 'tools[].functionDeclarations[].parameters'],
    null,
  ],
  'tool.strict': [
    'tools[].function.strict',
    ['tools[].strict', 'tools[].tools[].strict', 'input[].tools[].strict'],
    'tools[].strict',
    'toolConfig.functionCallingConfig.mode',
    null,
  ],
  'tool.cache': [
    ['tools[].cache_control', 'tools[].function.cache_control'],
    null,
    'tools[].cache_control',
    null,
    null,
  ],
  'tool.format': [
    'tools[].custom.format',
    ['tools[].format', 'tools[].tools[].format', 'input[].tools[].format'],
    null,
    null,
    null,
  ],
  webSearch: [
    ['web_search_options', 'tools[]'],
    'tools[]',
    'tools[]',
    ['tools[].googleSearch', 'tools[].googleSearchRetrieval'],
    null,
  ],
  'webSearch.contextSize': [
    ['web_search_options.search_context_size', 'tools[].parameters.search_context_size'],
    'tools[].search_context_size',
    null,
    null,
    null,
  ],
  'webSearch.userLocation': [
    ['web_search_options.user_location', 'tools[].parameters.user_location'],
    'tools[].user_location',
    'tools[].user_location',
    null,
    null,
  ],
  'webSearch.allowedDomains': [null, 'tools[].filters.allowed_domains', 'tools[].allowed_domains', null, null],
  'webSearch.blockedDomains': [
    null,
    'tools[].filters.blocked_domains',
    'tools[].blocked_domains',
    'tools[].googleSearch.excludeDomains',
    null,
  ],
  'webSearch.maxUses': [null, 'max_tool_calls', 'tools[].max_uses', null, null],
  toolChoice: ['tool_choice', 'tool_choice', 'tool_choice', 'toolConfig.functionCallingConfig', null],
  parallelTools: ['parallel_tool_calls', 'parallel_tool_calls', 'tool_choice.disable_parallel_tool_use', null, null],
  temperature: ['temperature', 'temperature', 'temperature', `${CONFIG}.temperature`, null],
  topP: ['top_p', 'top_p', 'top_p', `${CONFIG}.topP`, null],
  topK: ['top_k', null, 'top_k', `${CONFIG}.topK`, null],
  frequencyPenalty: ['frequency_penalty', null, null, `${CONFIG}.frequencyPenalty`, null],
  presencePenalty: ['presence_penalty', null, null, `${CONFIG}.presencePenalty`, null],
  seed: ['seed', null, null, `${CONFIG}.seed`, null],
  stop: ['stop', null, 'stop_sequences', `${CONFIG}.stopSequences`, null],
  logitBias: ['logit_bias', null, null, null, null],
  logprobs: [
    ['logprobs', 'top_logprobs'],
    ['include', 'top_logprobs'],
    null,
    [`${CONFIG}.responseLogprobs`, `${CONFIG}.logprobs`],
    null,
  ],
  topLogprobs: ['top_logprobs', 'top_logprobs', null, `${CONFIG}.logprobs`, null],
  maxOutputTokens: [
    ['max_completion_tokens', 'max_tokens'],
    'max_output_tokens',
    'max_tokens',
    `${CONFIG}.maxOutputTokens`,
    null,
  ],
  reasoning: [
    ['reasoning_effort', 'reasoning', 'include_reasoning'],
    'reasoning',
    ['thinking', 'output_config.effort'],
    `${CONFIG}.thinkingConfig`,
    null,
  ],
  'reasoning.effort': [
    ['reasoning_effort', 'reasoning.effort', 'reasoning.enabled'],
    'reasoning.effort',
    ['output_config.effort', 'thinking'],
    [`${CONFIG}.thinkingConfig.thinkingLevel`, `${CONFIG}.thinkingConfig.thinkingBudget`],
    null,
  ],
  'reasoning.budgetTokens': [
    'reasoning.max_tokens',
    null,
    'thinking.budget_tokens',
    `${CONFIG}.thinkingConfig.thinkingBudget`,
    null,
  ],
  'reasoning.adaptive': ['reasoning.enabled', null, 'thinking', `${CONFIG}.thinkingConfig.thinkingBudget`, null],
  'reasoning.visible': [
    ['reasoning.exclude', 'include_reasoning'],
    ['reasoning.summary', 'reasoning.generate_summary'],
    'thinking.display',
    `${CONFIG}.thinkingConfig.includeThoughts`,
    null,
  ],
  'reasoning.summary': [null, ['reasoning.summary', 'reasoning.generate_summary'], null, null, null],
  outputFormat: [
    'response_format',
    'text.format',
    ['output_config.format', 'output_format'],
    `${CONFIG}.responseMimeType`,
    null,
  ],
  'outputFormat.schema': [
    'response_format.json_schema.schema',
    'text.format.schema',
    ['output_config.format.schema', 'output_format.schema'],
    [`${CONFIG}.responseJsonSchema`, `${CONFIG}.responseSchema`],
    null,
  ],
  outputModalities: ['modalities', 'tools[]', null, `${CONFIG}.responseModalities`, 'prompt'],
  imageOutput: [
    'image_config',
    null,
    null,
    `${CONFIG}.imageConfig`,
    ['size', 'quality', 'background', 'output_format', 'output_compression', 'n'],
  ],
  'imageOutput.size': [null, null, null, null, 'size'],
  'imageOutput.quality': [null, null, null, null, 'quality'],
  'imageOutput.background': [null, null, null, null, 'background'],
  'imageOutput.format': [null, null, null, null, 'output_format'],
  'imageOutput.compression': [null, null, null, null, 'output_compression'],
  verbosity: ['verbosity', 'text.verbosity', null, null, null],
  user: ['user', ['user', 'safety_identifier'], 'metadata.user_id', null, 'user'],
  metadata: ['metadata', 'metadata', null, null, null],
  serviceTier: ['service_tier', 'service_tier', 'service_tier', null, null],
  cacheKey: ['prompt_cache_key', 'prompt_cache_key', null, null, null],
  cacheRetention: ['prompt_cache_retention', 'prompt_cache_retention', null, null, null],
} as const satisfies Record<string, readonly Place[]>

export type Word = keyof typeof PLACES

/**
 * Elements of lists that are looked at for one request: a long conversation can lose something in each of its turns.
 */
const LOOKS_MAX = 20_000

/**
 * Losses in the client's words, each once. `extras`: paths of fields that only its protocol has, which are lost, too.
 */
export function tell(context: TranslationContext, losses: readonly Loss[], extras: readonly string[]): ReportedLoss[] {
  if (losses.length + extras.length === 0) return []
  const groups = Map.groupBy(losses, ({ field, what, why }) => `${field}\n${what}\n${why}`)
  const search = new Search()
  const told = [...groups.values()].flatMap((same): ReportedLoss[] => {
    const { field: word, what, why } = same[0]!
    return pathsOf(context, search, word, new Set(same.map(({ of }) => of))).map((field) => ({ field, what, why }))
  })
  return [
    ...told,
    ...extras.map((field): ReportedLoss => ({ field, what: 'left out', why: "only the client's own protocol has it" })),
  ]
}

/** The refusal of a schema, under the path that it has in the client's request. */
export function refusalAt(context: TranslationContext, { which, place, wrong }: SchemaRefusal): GatewayError {
  const [schema] = pathsOf(context, new Search(), which?.field ?? 'tool.parameters', new Set([which?.of])) as [string]
  return invalid(place === '' ? schema : stepInto(schema, place), wrong)
}

/** The refusal of a wish that a writer has no words for, and named in ours, under the client's own. */
export function refusalOfWord(context: TranslationContext, error: GatewayError): GatewayError {
  if (error.param === undefined || !Object.hasOwn(PLACES, error.param)) return error
  const [param] = pathsOf(context, new Search(), error.param as Word, new Set([undefined])) as [string]
  return new GatewayError(error.code, `${param}: ${error.message}`, { param })
}

/**
 * The place itself, where it is the only one; else that of the list, or of each list in which one of several stands.
 */
function pathsOf(
  { rawRequest: { body }, request: { protocol } }: TranslationContext,
  search: Search,
  word: Word,
  names: ReadonlySet<string | undefined>,
): string[] {
  const place: Place = PLACES[word][COLUMNS[protocol]] ?? PLACES.conversation[COLUMNS[protocol]]!
  const paths = typeof place === 'string' ? [place] : place
  const found = paths.map((path) => search.placesIn(body, path.match(/\[\]|\??\w+/g)!))
  const named = names.has(undefined)
    ? found
    : found.map((places) => places.filter(({ through }) => through.some((one) => isNamed(one, names))))
  const [only, ...others] = named.flat()
  // Behind items that were put in, they stand elsewhere than in the client's own list.
  const own = typeof body.previous_response_id !== 'string'
  if (only !== undefined && others.length === 0 && names.size === 1 && own && search.left > 0) return [only.path]
  // As the client spells it, which may be in another case than here.
  const lists = [...named, ...found].flatMap(([first]) => (first === undefined ? [] : [first.path]))
  const told = (
    only === undefined || names.size === 1 ? [lists[0] ?? paths[0]!] : named.flat().map(({ path }) => path)
  ).map((path) => path.replaceAll(/\?\w+/g, '').replaceAll(/\[\d+\]/g, '[]'))
  return [...new Set(told)]
}

type Found = { path: string; through: Record<string, unknown>[] }

class Search {
  left = LOOKS_MAX

  /** The places to which the steps lead, each with the objects on the way there. */
  placesIn(value: unknown, [step, ...rest]: readonly string[], path = '', through: Found['through'] = []): Found[] {
    const passed = isObject(value) && path !== '' ? [...through, value] : through
    if (step === undefined) return [{ path, through: passed }]
    if (step === '[]')
      return Array.isArray(value)
        ? value
            .slice(0, Math.max(this.left, 0))
            .flatMap((element, index) =>
              this.left-- > 0 ? this.placesIn(element, rest, `${path}[${index}]`, passed) : [],
            )
        : []
    if (!isObject(value)) return []
    const member = step.replace('?', '')
    const name = Object.hasOwn(value, member) ? member : snakeOf(member)
    if (!Object.hasOwn(value, name) || value[name] === null) return []
    return step === member
      ? this.placesIn(value[name], rest, path === '' ? name : `${path}.${name}`, passed)
      : this.placesIn(value, rest, path, through)
  }
}

const NAMES = ['id', 'call_id', 'tool_call_id', 'tool_use_id', 'name', 'type', 'role']

const isNamed = (one: Record<string, unknown>, names: ReadonlySet<unknown>): boolean =>
  NAMES.some((name) => names.has(one[name])) || Object.keys(one).some((name) => names.has(name))

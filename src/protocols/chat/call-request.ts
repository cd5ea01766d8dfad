import { GatewayError } from '../../error.ts'
import type { Effort, GenerationRequest, Tool, ToolChoice } from '../../generation/request.ts'
import { isObject, noBareChoice, nothingSaid, present, snakeOf } from '../fields.ts'
import { drawing, imageConfigOf } from '../image-config.ts'
import type { Loss, Target, Written } from '../protocol.ts'
import { answerSchema, functionSchema } from '../schema-openai.ts'
import { wireName } from '../tool-names.ts'
import { MessagesWriter } from './call-turns.ts'
import type { Json } from './shapes.ts'

/** Our request as a `POST /chat/completions` body for this target, and what that could not carry. */
export function writeRequest(asked: GenerationRequest, target: Target): Written {
  const request = drawing(asked, target)
  const losses: Loss[] = []
  const { quirks } = target
  const messages = new MessagesWriter(request, target, losses).write(request.system, request.turns)
  if (messages.length === 0) throw nothingSaid(request)
  if (messages.at(-1)!.role === 'assistant') losses.push({ field: 'conversation', what: 'approximated', why: 'the answer that the client began is sent as an earlier one: many providers begin anew' })
  const body: Json = {
    model: target.model,
    messages,
    ...(request.stream ? { stream: true, ...(quirks.refusesStreamOptions === true ? {} : { stream_options: { include_usage: true } }) } : {}),
    ...(request.maxOutputTokens === undefined ? {} : { [quirks.maxTokensField ?? 'max_tokens']: request.maxOutputTokens }),
    ...writeSampling(request, target, losses),
    ...writeTools(request, target, losses),
    ...writeReasoning(request, target, losses),
    ...writeFormat(request, losses),
    ...writeModalities(request, target, losses),
    ...(request.verbosity === undefined ? {} : { verbosity: request.verbosity }),
    ...writeWebSearch(request),
    ...writeIdentity(request, losses),
  }
  if (hasCacheMarks(request)) losses.push({ field: 'cache', what: 'left out', why: 'chat completions has no cache marks' })
  return { body, losses }
}

const STOP_MAX = 4

function writeSampling({ sampling }: GenerationRequest, { abilities }: Target, losses: Loss[]): Json {
  const { temperature, topP, topK, frequencyPenalty, presencePenalty, seed, stop, logitBias, logprobs, topLogprobs } = sampling
  if (topK !== undefined) losses.push({ field: 'topK', what: 'left out', why: 'chat completions has no such field' })
  const chosen = { temperature, topP, frequencyPenalty, presencePenalty, logitBias, logprobs, topLogprobs }
  const written: Json = {}
  for (const field of Object.keys(chosen) as (keyof typeof chosen)[]) {
    if (chosen[field] === undefined) continue
    if (abilities.sampling === false) losses.push({ field, what: 'left out', why: 'the model refuses sampling parameters' })
    else written[snakeOf(field)] = chosen[field]
  }
  // OpenAI counts alternatives only of log probabilities that were asked for.
  if (written.top_logprobs !== undefined && written.logprobs === undefined) written.logprobs = true
  if (seed !== undefined) written.seed = seed
  if (stop !== undefined && stop.length > 0) {
    if (stop.length > STOP_MAX) losses.push({ field: 'stop', what: 'approximated', why: `only the first ${STOP_MAX} stop sequences are carried` })
    written.stop = stop.slice(0, STOP_MAX)
  }
  return written
}

function writeTools(request: GenerationRequest, target: Target, losses: Loss[]): Json {
  const tools = request.tools.flatMap((tool) => writeTool(tool, target, losses))
  if (tools.length === 0) {
    if (forces(request.toolChoice)) throw new GatewayError('unsupported_parameter', 'tool_choice: demands a tool call, but the model\'s provider can be given none of the tools.', { param: 'tool_choice' })
    return {}
  }
  return {
    tools,
    ...(request.toolChoice === undefined ? {} : { tool_choice: writeToolChoice(request.toolChoice, request, target) }),
    ...(request.parallelTools === undefined ? {} : { parallel_tool_calls: request.parallelTools }),
  }
}

const forces = (choice: ToolChoice | undefined): boolean => choice !== undefined && (choice.type === 'required' || choice.type === 'tool' || (choice.type === 'allowed' && choice.required))

function writeTool(tool: Tool, { quirks }: Target, losses: Loss[]): Json[] {
  if (tool.type === 'foreign') {
    if (tool.optional !== true) throw new GatewayError('unsupported_parameter', `tools: the model's provider speaks chat completions, which has no tool of type '${tool.kind}'.`, { param: 'tools' })
    losses.push({ field: 'tool', of: tool.kind, what: 'left out', why: `chat completions has no tool '${tool.kind}'` })
    return []
  }
  const name = wireName(tool.name)
  if (name !== tool.name) losses.push({ field: 'tool', of: tool.name, what: 'approximated', why: `the provider knows it as ${name}, because names have up to 64 letters, digits, _ and -` })
  const described = tool.description === undefined ? {} : { description: tool.description }
  if (tool.type === 'function') return [{ type: 'function', function: { name, ...described, ...(tool.parameters === undefined ? present('strict', tool.strict) : functionSchema(tool, losses)) } }]
  if (quirks.customTools === true) return [{ type: 'custom', custom: { name, ...described, ...(tool.format === undefined ? {} : { format: writeGrammar(tool.format) }) } }]
  losses.push({ field: 'tool', of: tool.name, what: 'approximated', why: 'a custom tool travels as a function with one string, input' })
  return [{ type: 'function', function: { name, ...described, parameters: { type: 'object', properties: { input: { type: 'string', description: grammarNote(tool.format) } }, required: ['input'], additionalProperties: false } } }]
}

/** The responses protocol spells a grammar flat, chat completions in an object of its own. */
function writeGrammar(format: unknown): unknown {
  if (!isObject(format) || format.type !== 'grammar' || format.grammar !== undefined) return format
  const { type, ...grammar } = format
  return { type, grammar }
}

/** The grammar itself is kept in words: a model without custom tools can still follow it. */
function grammarNote(format: unknown): string {
  const grammar = isObject(format) && format.type === 'grammar' ? (isObject(format.grammar) ? format.grammar : format) : undefined
  return typeof grammar?.definition === 'string' ? `The whole input as free text, in this ${String(grammar.syntax ?? '')} grammar:\n${grammar.definition}` : 'The whole input as free text.'
}

function writeToolChoice(choice: ToolChoice, request: GenerationRequest, { quirks }: Target): unknown {
  const named = (name: string): Json => {
    const custom = quirks.customTools === true && request.tools.some((tool) => tool.type === 'custom' && tool.name === name)
    return custom ? { type: 'custom', custom: { name: wireName(name) } } : { type: 'function', function: { name: wireName(name) } }
  }
  if (choice.type === 'tool') return named(choice.name)
  if (choice.type !== 'allowed') return choice.type
  if (choice.required && choice.names.length === 1) return named(choice.names[0]!)
  return { type: 'allowed_tools', allowed_tools: { mode: choice.required ? 'required' : 'auto', tools: choice.names.map(named) } }
}

/** Budgets as efforts, for providers that know only efforts: up to this many tokens is this effort. */
const EFFORT_BY_BUDGET: [number, Effort][] = [[0, 'none'], [1_024, 'minimal'], [4_096, 'low'], [16_384, 'medium'], [32_768, 'high'], [Infinity, 'xhigh']]

function writeReasoning({ reasoning }: GenerationRequest, { quirks, abilities }: Target, losses: Loss[]): Json {
  if (reasoning === undefined) return {}
  if (reasoning.summary !== undefined) losses.push({ field: 'reasoning.summary', what: 'left out', why: 'chat completions has no switch for summaries' })
  if (abilities.reasoning === 'none') {
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0) losses.push({ field: 'reasoning', what: 'left out', why: 'the model does not reason' })
    return {}
  }
  return quirks.effortField === 'reasoning' ? writeReasoningObject(reasoning) : writeEffort(reasoning, losses)
}

/** OpenRouter's object. */
function writeReasoningObject({ effort, budgetTokens, adaptive, visible }: NonNullable<GenerationRequest['reasoning']>): Json {
  const depth = budgetTokens !== undefined && budgetTokens > 0 ? { max_tokens: budgetTokens }
    : effort !== undefined ? { effort: effort === 'max' ? 'xhigh' : effort }
      : budgetTokens === 0 ? { effort: 'none' } : adaptive === true || budgetTokens === -1 ? { enabled: true } : {}
  const wish = { ...depth, ...(visible === undefined ? {} : { exclude: !visible }) }
  return Object.keys(wish).length > 0 ? { reasoning: wish } : {}
}

function writeEffort({ effort, budgetTokens, adaptive }: NonNullable<GenerationRequest['reasoning']>, losses: Loss[]): Json {
  if (effort !== undefined) {
    if (effort === 'max') losses.push({ field: 'reasoning.effort', what: 'approximated', why: "'max' is 'xhigh' here" })
    if (budgetTokens !== undefined && budgetTokens >= 0) losses.push({ field: 'reasoning.budgetTokens', what: 'left out', why: 'the provider takes efforts, not budgets' })
    return { reasoning_effort: effort === 'max' ? 'xhigh' : effort }
  }
  if (budgetTokens !== undefined && budgetTokens >= 0) {
    const near = EFFORT_BY_BUDGET.find(([tokens]) => budgetTokens <= tokens)![1]
    losses.push({ field: 'reasoning.budgetTokens', what: 'approximated', why: `the provider takes efforts, not budgets: '${near}'` })
    return { reasoning_effort: near }
  }
  if (adaptive === true) losses.push({ field: 'reasoning.adaptive', what: 'approximated', why: 'the model reasons as deep as it does by default' })
  return {}
}

function writeFormat(request: GenerationRequest, losses: Loss[]): Json {
  const { outputFormat: format } = request
  switch (format?.type) {
    case undefined: return {}
    case 'text': return { response_format: { type: 'text' } }
    case 'json': return { response_format: { type: 'json_object' } }
    case 'enum': throw noBareChoice()
    case 'schema': {
      const { name, description } = format
      return { response_format: { type: 'json_schema', json_schema: { name: name === undefined ? 'answer' : wireName(name), ...present('description', description), ...answerSchema(format, request, losses) } } }
    }
  }
}

function writeModalities(request: GenerationRequest, { abilities: { output } }: Target, losses: Loss[]): Json {
  const { outputModalities: wanted = ['text'] } = request
  if (wanted.includes('audio')) throw new GatewayError('unsupported_parameter', 'The model\'s provider speaks chat completions, which needs a voice and a format for audio output.', { param: 'responseModalities' })
  const config = imageConfigOf(request, losses)
  return {
    // A model that makes images alone refuses to be asked for text.
    ...(wanted.includes('image') ? { modalities: output === undefined ? wanted : wanted.filter((kind) => kind !== 'text' || output.includes(kind)) } : {}),
    ...(config === undefined ? {} : { image_config: { ...present('aspect_ratio', config.aspectRatio), ...present('image_size', config.imageSize) } }),
  }
}

function writeWebSearch({ webSearch }: GenerationRequest): Json {
  if (webSearch === undefined) return {}
  return { web_search_options: { ...(webSearch.contextSize === undefined ? {} : { search_context_size: webSearch.contextSize }), ...(webSearch.userLocation === undefined ? {} : { user_location: writeLocation(webSearch.userLocation) }) } }
}

/** The responses and messages protocols spell the place flat, chat completions in an object of its own. */
function writeLocation(location: unknown): unknown {
  if (!isObject(location) || location.approximate !== undefined) return location
  const { type, ...approximate } = location
  return { type: type ?? 'approximate', approximate }
}

const TIERS = ['auto', 'default', 'flex', 'scale', 'priority']

function writeIdentity(request: GenerationRequest, losses: Loss[]): Json {
  const written: Json = {}
  if (request.user !== undefined) written.user = request.user
  if (request.cacheKey !== undefined) written.prompt_cache_key = request.cacheKey
  if (request.serviceTier !== undefined) {
    if (TIERS.includes(request.serviceTier)) written.service_tier = request.serviceTier
    else losses.push({ field: 'serviceTier', what: 'left out', why: `chat completions has no tier '${request.serviceTier}'` })
  }
  const pairs = Object.entries(request.metadata ?? {})
  const texts = pairs.filter(([, value]) => typeof value === 'string').slice(0, 16)
  if (texts.length < pairs.length) losses.push({ field: 'metadata', what: 'approximated', why: 'only the first 16 pairs of text are carried' })
  if (texts.length > 0) written.metadata = Object.fromEntries(texts)
  return written
}

const hasCacheMarks = (request: GenerationRequest): boolean =>
  request.tools.some((tool) => tool.type === 'function' && tool.cache !== undefined) ||
  [request.system, ...request.turns.map((turn) => turn.parts)].some((parts) => parts.some((part) => 'cache' in part && part.cache !== undefined))

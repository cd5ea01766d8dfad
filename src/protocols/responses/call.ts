import { parsed } from '../../generation/json-text.ts'
import { GatewayError } from '../../error.ts'
import type { Effort, GenerationRequest, Reasoning, Tool, ToolChoice } from '../../generation/request.ts'
import type { Abilities, Target, Wire, Written } from '../protocol.ts'
import { answerSchema, functionSchema } from '../schema-openai.ts'
import { wireName } from '../tool-names.ts'
import { upstreamError, plainText } from '../upstream-error.ts'
import { isObject, noBareChoice } from '../fields.ts'
import { InputWriter, Losses } from './call-input.ts'
import { objectOf, type Json } from './shapes.ts'

export const path = (): string => '/responses'

/** The versions and betas of a client that speaks this protocol are its own business with the provider. */
export function headers(wire: Wire | undefined): Record<string, string> {
  const beta = wire?.headers.get('openai-beta')
  return beta === undefined || beta === null ? {} : { 'openai-beta': beta }
}

/** Our words -> a body for a provider that stores nothing: Sluice keeps the state. */
export function writeRequest(request: GenerationRequest, target: Target): Written {
  const losses = new Losses()
  const input = new InputWriter(request, target, losses)
  const [first] = request.system
  const plain = request.system.length === 1 && first?.type === 'text' && first.cache === undefined ? first.text : undefined
  if (plain === undefined) input.system(request.system)
  for (const turn of request.turns) input.turn(turn)
  if (input.items.at(-1)?.role === 'assistant') losses.add('conversation', 'approximated', 'the answer that the client began is sent as an earlier one: the provider begins anew')
  const body: Json = {
    model: target.model,
    ...(plain === undefined ? {} : { instructions: plain }),
    input: input.items,
    ...writeTools(request, losses),
    ...writeLimits(request, target.abilities, losses),
    ...writeSampling(request, target.abilities, losses),
    ...writeReasoning(request.reasoning, target.abilities, losses),
    ...writeText(request, losses),
    ...writeLabels(request, losses),
    store: false,
    ...(request.stream ? { stream: true } : {}),
  }
  const include = writeInclude(request, target.abilities)
  if (include.length > 0) body.include = include
  return { body, losses: losses.list }
}

function writeTools(request: GenerationRequest, losses: Losses): Json {
  const tools = request.tools.flatMap((tool) => writeTool(tool, losses))
  const { webSearch } = request
  if (webSearch !== undefined) {
    const native = objectOf(webSearch.native)
    tools.push(typeof native.type === 'string' && /^web_search(_preview)?(_2025_\d\d_\d\d)?$/.test(native.type) ? native : {
      type: 'web_search',
      ...(webSearch.contextSize === undefined ? {} : { search_context_size: webSearch.contextSize }),
      ...writeLocation(webSearch.userLocation),
    })
  }
  return {
    ...(tools.length > 0 ? { tools } : {}),
    ...(request.toolChoice === undefined ? {} : { tool_choice: writeToolChoice(request.toolChoice, request.tools) }),
    ...(request.parallelTools === undefined ? {} : { parallel_tool_calls: request.parallelTools }),
  }
}

/** Here the place stands flat beside its type; elsewhere it stands in `approximate`. */
function writeLocation(location: unknown): Json {
  if (!isObject(location)) return {}
  return { user_location: { type: 'approximate', ...(isObject(location.approximate) ? location.approximate : location) } }
}

function writeTool(tool: Tool, losses: Losses): Json[] {
  const name = tool.type === 'foreign' ? '' : wireName(tool.name)
  if (tool.type !== 'foreign' && name !== tool.name) losses.add('tool', 'approximated', `the provider knows it as ${name}, because names have up to 64 letters, digits, _ and -`, tool.name)
  switch (tool.type) {
    // Without `strict: false` the provider takes a schema as strict and refuses most that were not made for it.
    case 'function': return [{
      type: 'function', name, ...(tool.description === undefined ? {} : { description: tool.description }),
      strict: false, ...functionSchema(tool, losses.list),
    }]
    case 'custom': return [{
      type: 'custom', name, ...(tool.description === undefined ? {} : { description: tool.description }),
      ...(tool.format === undefined ? {} : { format: writeGrammar(tool.format) }),
    }]
    case 'foreign':
      // Its tools are written flat.
      if (tool.protocol === 'responses' && tool.kind !== 'namespace') return [objectOf(tool.value)]
      if (tool.optional !== true) throw new GatewayError('unsupported_parameter', `tools: a tool of type '${tool.kind}' cannot be offered to this model`, { param: 'tools' })
      losses.add('tool', 'left out', `the provider has no tool '${tool.kind}'`, tool.kind)
      return []
  }
}

/** Chat completions nests the grammar, this protocol does not. */
const writeGrammar = (format: unknown): unknown => isObject(format) && isObject(format.grammar) ? { type: format.type, ...format.grammar } : format

function writeToolChoice(choice: ToolChoice, tools: Tool[]): unknown {
  const formOf = (name: string): string => tools.find((tool) => tool.type !== 'foreign' && tool.name === name)?.type ?? 'function'
  switch (choice.type) {
    case 'tool': return { type: choice.form ?? formOf(choice.name), name: wireName(choice.name) }
    case 'allowed': return { type: 'allowed_tools', mode: choice.required ? 'required' : 'auto', tools: choice.names.map((name) => ({ type: formOf(name), name: wireName(name) })) }
    default: return choice.type
  }
}

const OUTPUT_TOKENS_MIN = 16

function writeLimits({ maxOutputTokens }: GenerationRequest, { maxOutputTokens: most }: Abilities, losses: Losses): Json {
  if (maxOutputTokens === undefined) return {}
  if (maxOutputTokens < OUTPUT_TOKENS_MIN) {
    losses.add('maxOutputTokens', 'approximated', `raised to ${OUTPUT_TOKENS_MIN}, the least the provider takes`)
    return { max_output_tokens: OUTPUT_TOKENS_MIN }
  }
  if (most !== undefined && maxOutputTokens > most) {
    losses.add('maxOutputTokens', 'approximated', `lowered to ${most}, the most the model writes`)
    return { max_output_tokens: most }
  }
  return { max_output_tokens: maxOutputTokens }
}

const UNKNOWN_SAMPLING = ['topK', 'frequencyPenalty', 'presencePenalty', 'seed', 'logitBias'] as const

function writeSampling({ sampling }: GenerationRequest, abilities: Abilities, losses: Losses): Json {
  for (const name of UNKNOWN_SAMPLING) if (sampling[name] !== undefined) losses.add(name, 'left out', 'the provider\'s protocol has no such field')
  if ((sampling.stop ?? []).length > 0) losses.add('stop', 'approximated', 'the provider knows no stop sequences: the answer is cut where one stands, and what the model writes after it is paid for')
  const { temperature, topP, topLogprobs } = sampling
  if (abilities.sampling === false) {
    if (temperature !== undefined) losses.add('temperature', 'left out', 'the model refuses it')
    if (topP !== undefined) losses.add('topP', 'left out', 'the model refuses it')
  }
  return {
    ...(abilities.sampling === false ? {} : { ...(temperature === undefined ? {} : { temperature }), ...(topP === undefined ? {} : { top_p: topP }) }),
    ...(topLogprobs === undefined ? {} : { top_logprobs: topLogprobs }),
  }
}

/**
 * A budget of thinking tokens as an effort, since this protocol has no budgets: 0 none, up to 2,048 low, up to 8,192 medium,
 * above high. A budget of -1 leaves the depth to the model.
 */
const effortOf = (budgetTokens: number): Effort | undefined =>
  budgetTokens < 0 ? undefined : budgetTokens === 0 ? 'none' : budgetTokens <= 2_048 ? 'low' : budgetTokens <= 8_192 ? 'medium' : 'high'

function writeReasoning(reasoning: Reasoning | undefined, abilities: Abilities, losses: Losses): Json {
  if (reasoning === undefined) return {}
  if (abilities.reasoning === 'none') {
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0) losses.add('reasoning', 'left out', 'the model does not reason')
    return {}
  }
  const { effort = reasoning.budgetTokens === undefined ? undefined : effortOf(reasoning.budgetTokens), budgetTokens, visible, summary = visible === true ? 'auto' : undefined } = reasoning
  if (reasoning.effort === undefined && budgetTokens !== undefined && budgetTokens > 0) losses.add('reasoning.budgetTokens', 'approximated', `as effort '${effort}': the provider has no budgets`)
  const wire = { ...(effort === undefined ? {} : { effort }), ...(summary === undefined || summary === 'none' ? {} : { summary }) }
  return Object.keys(wire).length === 0 ? {} : { reasoning: wire }
}

/** Whether the model may think, so that its thoughts have to come back sealed for the next turn. */
export const mayReason = (asked: boolean, effort: unknown, abilities: Abilities): boolean =>
  effort !== 'none' && (asked || (abilities.reasoning !== undefined && abilities.reasoning !== 'none'))

function writeInclude({ reasoning, sampling }: GenerationRequest, abilities: Abilities): string[] {
  const reasons = abilities.reasoning !== 'none' && reasoning?.budgetTokens !== 0 && mayReason(reasoning !== undefined, reasoning?.effort, abilities)
  return [...(reasons ? ['reasoning.encrypted_content'] : []), ...(sampling.logprobs === true || sampling.topLogprobs !== undefined ? ['message.output_text.logprobs'] : [])]
}

function writeText(request: GenerationRequest, losses: Losses): Json {
  const { verbosity, outputModalities, imageOutput } = request
  if (imageOutput !== undefined) losses.add('imageOutput', 'left out', 'the provider answers in text')
  if (outputModalities?.some((kind) => kind !== 'text')) losses.add('outputModalities', 'left out', 'the provider answers in text')
  const format = writeFormat(request, losses)
  const text = { ...(format === undefined ? {} : { format }), ...(verbosity === undefined ? {} : { verbosity }) }
  return Object.keys(text).length === 0 ? {} : { text }
}

function writeFormat(request: GenerationRequest, losses: Losses): Json | undefined {
  const { outputFormat: format } = request
  switch (format?.type) {
    case undefined: return undefined
    case 'enum': throw noBareChoice()
    case 'text': return { type: 'text' }
    case 'json': return { type: 'json_object' }
    case 'schema': return {
      // The provider asks for a name, which shows nowhere.
      type: 'json_schema', name: wireName(format.name ?? 'answer'), ...(format.description === undefined ? {} : { description: format.description }),
      ...answerSchema(format, request, losses.list),
    }
  }
}

const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast'])

function writeLabels({ user, metadata, serviceTier, cacheKey }: GenerationRequest, losses: Losses): Json {
  const body: Json = {}
  if (user !== undefined) body.user = user
  if (cacheKey !== undefined) body.prompt_cache_key = cacheKey
  if (serviceTier !== undefined && TIERS.has(serviceTier)) body.service_tier = serviceTier
  else if (serviceTier !== undefined) losses.add('serviceTier', 'left out', `the provider has no tier '${serviceTier}'`)
  if (metadata !== undefined && Object.values(metadata).every((value) => typeof value === 'string')) body.metadata = metadata
  else if (metadata !== undefined) losses.add('metadata', 'left out', 'the provider takes only texts as values')
  return body
}

/** A provider's error answer: OpenAI's error object, a bare string in its place, a `detail`, or no JSON at all. */
export function readError(status: number, body: string): GatewayError {
  const wire = parsed(body)
  const error = isObject(wire) ? wire.error : undefined
  const said = isObject(error) ? error : objectOf(wire)
  const message = [said.message, error, said.detail].find((text) => typeof text === 'string') ?? (isObject(wire) ? '' : plainText(body))
  return upstreamError(status, message, {
    ...(typeof said.type === 'string' ? { type: said.type } : {}),
    ...(typeof said.code === 'string' || typeof said.code === 'number' ? { code: said.code } : {}),
    ...(typeof said.param === 'string' ? { param: said.param } : {}),
  })
}

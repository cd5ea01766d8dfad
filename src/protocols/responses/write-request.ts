import { GatewayError } from '../../error.ts'
import type { Effort, GenerationRequest, Reasoning, Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import type { Capabilities, Loss, Target, RawRequest, WrittenRequest } from '../protocol.ts'
import { resultsBehindCalls } from '../tool-results.ts'
import { writeLabels } from '../user-ids.ts'
import { answerSchema, functionSchema } from '../schema/openai.ts'
import { refuseTool } from '../provider-native.ts'
import { cutLoss } from '../stop-sequences.ts'
import { wireName } from '../tool-names.ts'
import { lossesOfChoice, unforced } from '../tool-choice.ts'
import { lossesOfCitations, lossesOfSearch, placeOf } from '../web-search.ts'
import { loseUnsupported } from '../unsupported-settings.ts'
import { loseBreakpoints } from '../cache-breakpoints.ts'
import { nearestEffort, samples, withinLimit } from '../capabilities.ts'
import { isObject, noBareChoice, present } from '../fields.ts'
import { jsonInWords, speaksOfJson } from '../json-instruction.ts'
import { breakpoints, InputWriter } from './write-request-input.ts'
import { objectOf, type Json } from './shapes.ts'

export const path = (): string => '/responses'

/** The versions and betas of a client that speaks this protocol are its own business with the provider. */
export function headers(rawRequest: RawRequest | undefined): Record<string, string> {
  const beta = rawRequest?.headers.get('openai-beta')
  return beta === undefined || beta === null ? {} : { 'openai-beta': beta }
}

/** Our words -> a body for a provider that stores nothing: Sluice keeps the state. */
export function writeRequest(request: GenerationRequest, target: Target): WrittenRequest {
  const losses: Loss[] = lossesOfCitations(request)
  const input = new InputWriter(target, losses)
  const unspoken = request.outputFormat?.type === 'json' && !speaksOfJson(request)
  if (unspoken)
    losses.push({
      field: 'outputFormat',
      what: 'approximated',
      why: 'the model is told in words, too: providers refuse such a request in which JSON is not spoken of',
    })
  const system = [...request.system, ...(unspoken ? [jsonInWords()] : [])]
  const [first] = system
  const simple =
    target.capabilities.system !== false &&
    system.length === 1 &&
    first?.type === 'text' &&
    (first.cache === undefined || breakpoints(target) === undefined)
  const plain = simple ? first.text : undefined
  if (plain === undefined) input.system(system)
  for (const turn of resultsBehindCalls(request.turns)) input.turn(turn)
  input.end()
  if (input.items.at(-1)?.role === 'assistant')
    losses.push({
      field: 'conversation',
      what: 'approximated',
      why: 'the answer that the client began is sent as an earlier one: the provider begins anew',
    })
  const reasoning = writeReasoning(request.reasoning, target.capabilities, losses)
  const reasons = reasoning?.effort !== 'none'
  const body: Json = {
    model: target.model,
    ...(plain === undefined ? {} : { instructions: plain }),
    input: input.items,
    ...writeTools(request, target.capabilities, reasons, losses),
    ...writeLimit(request, target.capabilities, losses),
    ...writeSampling(request, target.capabilities, reasons, losses),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...writeText(request, losses),
    ...writeIdentity(request, losses),
    store: false,
    ...(request.stream ? { stream: true } : {}),
  }
  const include = writeInclude(request, target.capabilities, reasons)
  if (include.length > 0) body.include = include
  loseBreakpoints(request, breakpoints(target), losses)
  return { body, losses }
}

function writeTools(request: GenerationRequest, capabilities: Capabilities, reasons: boolean, losses: Loss[]): Json {
  const tools = request.tools.flatMap((tool) => writeTool(tool, losses))
  const { webSearch } = request
  if (webSearch !== undefined) tools.push(writeWebSearch(webSearch, losses))
  if (tools.length === 0) {
    losses.push(...lossesOfChoice(request))
    return {}
  }
  return {
    tools,
    // It counts searches with the other calls of the provider's own tools, of which there are none.
    ...present('max_tool_calls', webSearch?.maxUses),
    ...(request.toolChoice === undefined
      ? {}
      : { tool_choice: writeToolChoice(unforced(request.toolChoice, capabilities, reasons, losses), request.tools) }),
    ...(request.parallelTools === undefined ? {} : { parallel_tool_calls: request.parallelTools }),
  }
}

function writeWebSearch(search: WebSearch, losses: Loss[]): Json {
  losses.push(...lossesOfSearch(search, 'contextSize', 'userLocation', 'allowedDomains', 'maxUses'))
  const place = placeOf(search)
  return {
    type: 'web_search',
    ...present('search_context_size', search.contextSize),
    ...(place === undefined ? {} : { user_location: { type: 'approximate', ...place } }),
    ...(search.allowedDomains === undefined ? {} : { filters: { allowed_domains: search.allowedDomains } }),
  }
}

function writeTool(tool: Tool, losses: Loss[]): Json[] {
  const name = tool.type === 'native' ? '' : wireName(tool.name)
  if (tool.type !== 'native' && name !== tool.name)
    losses.push({
      field: 'tool',
      of: tool.name,
      what: 'approximated',
      why: `the provider knows it as ${name}, because names have up to 64 letters, digits, _ and -`,
    })
  switch (tool.type) {
    // Without `strict: false` the provider takes a schema as strict and refuses most that were not made for it.
    case 'function':
      return [
        {
          type: 'function',
          name,
          ...(tool.description === undefined ? {} : { description: tool.description }),
          strict: false,
          ...functionSchema(tool, losses),
        },
      ]
    case 'custom':
      return [
        {
          type: 'custom',
          name,
          ...(tool.description === undefined ? {} : { description: tool.description }),
          ...(tool.format === undefined ? {} : { format: writeGrammar(tool.format) }),
        },
      ]
    case 'native':
      // Its tools are written flat.
      if (tool.protocol === 'responses' && tool.kind !== 'namespace') return [objectOf(tool.value)]
      refuseTool(tool)
      losses.push({ field: 'tool', of: tool.kind, what: 'left out', why: `the provider has no tool '${tool.kind}'` })
      return []
  }
}

/** Chat completions nests the grammar, this protocol does not. */
const writeGrammar = (format: unknown): unknown =>
  isObject(format) && isObject(format.grammar) ? { type: format.type, ...format.grammar } : format

function writeToolChoice(choice: ToolChoice, tools: Tool[]): unknown {
  const formOf = (name: string): string =>
    tools.find((tool) => tool.type !== 'native' && tool.name === name)?.type ?? 'function'
  switch (choice.type) {
    case 'tool':
      return { type: choice.form ?? formOf(choice.name), name: wireName(choice.name) }
    case 'allowed':
      return {
        type: 'allowed_tools',
        mode: choice.required ? 'required' : 'auto',
        tools: choice.names.map((name) => ({ type: formOf(name), name: wireName(name) })),
      }
    default:
      return choice.type
  }
}

const OUTPUT_TOKENS_MIN = 16

function writeLimit({ maxOutputTokens: limit }: GenerationRequest, capabilities: Capabilities, losses: Loss[]): Json {
  if (limit === undefined || limit >= OUTPUT_TOKENS_MIN)
    return present('max_output_tokens', withinLimit(limit, capabilities, losses))
  losses.push({
    field: 'maxOutputTokens',
    what: 'approximated',
    why: `raised to ${OUTPUT_TOKENS_MIN}, the least the provider takes`,
  })
  return { max_output_tokens: OUTPUT_TOKENS_MIN }
}

function writeSampling(request: GenerationRequest, capabilities: Capabilities, reasons: boolean, losses: Loss[]): Json {
  const { sampling } = request
  loseUnsupported(
    request,
    ['topK', 'frequencyPenalty', 'presencePenalty', 'seed', 'logitBias'],
    "the provider's protocol has no such field",
    losses,
  )
  if ((sampling.stop ?? []).length > 0) losses.push(cutLoss('the provider knows no stop sequences'))
  if (!samples(capabilities, reasons)) {
    for (const name of ['temperature', 'topP', 'logprobs', 'topLogprobs'] as const)
      if (sampling[name] !== undefined) losses.push({ field: name, what: 'left out', why: 'the model refuses it' })
    return {}
  }
  const { temperature, topP, topLogprobs } = sampling
  return { ...present('temperature', temperature), ...present('top_p', topP), ...present('top_logprobs', topLogprobs) }
}

/**
 * A budget of thinking tokens as an effort, since this protocol has no budgets: 0 none, up to 2,048 low, up to 8,192
 * medium,
 * above high. A budget of -1 leaves the depth to the model.
 */
const effortOf = (budgetTokens: number): Effort | undefined =>
  budgetTokens < 0
    ? undefined
    : budgetTokens === 0
      ? 'none'
      : budgetTokens <= 2_048
        ? 'low'
        : budgetTokens <= 8_192
          ? 'medium'
          : 'high'

function writeReasoning(
  reasoning: Reasoning | undefined,
  capabilities: Capabilities,
  losses: Loss[],
): Json | undefined {
  if (reasoning === undefined) return undefined
  if (capabilities.reasoning === 'none') {
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0)
      losses.push({ field: 'reasoning', what: 'left out', why: 'the model does not reason' })
    return undefined
  }
  const { budgetTokens, visible, summary = visible === true ? 'auto' : undefined } = reasoning
  const field = reasoning.effort === undefined ? 'reasoning.budgetTokens' : 'reasoning.effort'
  const meant = reasoning.effort ?? (budgetTokens === undefined ? undefined : effortOf(budgetTokens))
  const effort = meant === undefined ? undefined : nearestEffort(meant, capabilities, field, losses)
  if (budgetTokens !== undefined && budgetTokens > 0 && effort === meant)
    losses.push({
      field: 'reasoning.budgetTokens',
      what: 'approximated',
      why: `as effort '${effort}': the provider has no budgets`,
    })
  if (reasoning.adaptive === true && meant === undefined)
    losses.push({
      field: 'reasoning.adaptive',
      what: 'approximated',
      why: 'the model reasons as deep as it does by default',
    })
  const rawRequest = {
    ...present('effort', effort),
    ...(summary === undefined || summary === 'none' ? {} : { summary }),
  }
  return Object.keys(rawRequest).length === 0 ? undefined : rawRequest
}

/** Whether the model may think, so that its thoughts have to come back sealed for the next turn. */
export const mayReason = (asked: boolean, effort: unknown, capabilities: Capabilities): boolean =>
  effort !== 'none' && (asked || (capabilities.reasoning !== undefined && capabilities.reasoning !== 'none'))

function writeInclude(
  { reasoning, sampling }: GenerationRequest,
  capabilities: Capabilities,
  reasons: boolean,
): string[] {
  const seals =
    capabilities.reasoning !== 'none' && reasons && mayReason(reasoning !== undefined, undefined, capabilities)
  return [
    ...(seals ? ['reasoning.encrypted_content'] : []),
    ...(samples(capabilities, reasons) && (sampling.logprobs === true || sampling.topLogprobs !== undefined)
      ? ['message.output_text.logprobs']
      : []),
  ]
}

function writeText(request: GenerationRequest, losses: Loss[]): Json {
  const { verbosity, outputModalities, imageOutput } = request
  if (imageOutput !== undefined)
    losses.push({ field: 'imageOutput', what: 'left out', why: 'the provider answers in text' })
  if (outputModalities?.some((kind) => kind !== 'text'))
    losses.push({ field: 'outputModalities', what: 'left out', why: 'the provider answers in text' })
  const format = writeFormat(request, losses)
  const text = { ...(format === undefined ? {} : { format }), ...(verbosity === undefined ? {} : { verbosity }) }
  return Object.keys(text).length === 0 ? {} : { text }
}

function writeFormat(request: GenerationRequest, losses: Loss[]): Json | undefined {
  const { outputFormat: format } = request
  switch (format?.type) {
    case undefined:
      return undefined
    case 'enum':
      throw noBareChoice()
    case 'text':
      return { type: 'text' }
    case 'json':
      return { type: 'json_object' }
    case 'schema':
      return {
        // The provider asks for a name, which shows nowhere.
        type: 'json_schema',
        name: wireName(format.name ?? 'answer'),
        ...(format.description === undefined ? {} : { description: format.description }),
        ...answerSchema(format, request, losses),
      }
  }
}

const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast'])

function writeIdentity(request: GenerationRequest, losses: Loss[]): Json {
  const { metadata, serviceTier, cacheRetention } = request
  const body: Json = writeLabels(request, losses)
  if (cacheRetention !== undefined) body.prompt_cache_retention = cacheRetention
  if (serviceTier !== undefined && TIERS.has(serviceTier)) body.service_tier = serviceTier
  else if (serviceTier !== undefined)
    losses.push({ field: 'serviceTier', what: 'left out', why: `the provider has no tier '${serviceTier}'` })
  if (metadata !== undefined && Object.values(metadata).every((value) => typeof value === 'string'))
    body.metadata = metadata
  else if (metadata !== undefined)
    losses.push({ field: 'metadata', what: 'left out', why: 'the provider takes only texts as values' })
  return body
}

import { GatewayError } from '../../error.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import type { Effort, GenerationRequest, Reasoning, Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import type { Capabilities, Target, RawRequest, WrittenRequest } from '../protocol.ts'
import { resultsBehindCalls } from '../tool-results.ts'
import { writeUserIds } from '../user-ids.ts'
import { responseSchema, functionSchema } from '../schema/openai.ts'
import { refuseTool } from '../provider-native.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import { acceptedName, OPENAI_NAMES, ToolNames } from '../tool-names.ts'
import { loseToolChoice, unforced } from '../tool-choice.ts'
import { loseCitations, loseSearchOptions, placeOf } from '../web-search.ts'
import { loseSettings } from '../unsupported-settings.ts'
import { loseBreakpoints } from '../cache-breakpoints.ts'
import { nearestEffort, samples, withinLimit } from '../capabilities.ts'
import { isObject, present } from '../fields.ts'
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
export function writeRequest(translation: Translation): Json {
  const { request, target } = translation
  loseCitations(translation)
  const input = new InputWriter(target, translation)
  const unspoken = request.outputFormat?.type === 'json' && !speaksOfJson(request)
  if (unspoken)
    translation.lose(
      'todo_approximated',
      translation.setting('outputFormat'),
      'the model is told in words, too: providers refuse such a request in which JSON is not spoken of',
    )
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
    translation.lose(
      'todo_approximated',
      translation.setting('conversation'),
      'the answer that the client began is sent as an earlier one: the provider begins anew',
    )
  const reasoning = writeReasoning(request.reasoning, target.capabilities, translation)
  const reasons = reasoning?.effort !== 'none'
  const body: Json = {
    model: target.model,
    ...(plain === undefined ? {} : { instructions: plain }),
    input: input.items,
    ...writeTools(request, target.capabilities, reasons, translation),
    ...writeLimit(request, target.capabilities, translation),
    ...writeSampling(request, target.capabilities, reasons, translation),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...writeText(request, translation),
    ...writeIdentity(request, translation),
    store: false,
    ...(request.stream ? { stream: true } : {}),
  }
  const include = writeInclude(request, target.capabilities, reasons)
  if (include.length > 0) body.include = include
  loseBreakpoints(translation, breakpoints(target))
  return body
}

function writeTools(
  request: GenerationRequest,
  capabilities: Capabilities,
  reasons: boolean,
  translation: Translation,
): Json {
  const tools = request.tools.flatMap((tool) => writeTool(tool, translation))
  const { webSearch } = request
  if (webSearch !== undefined) tools.push(writeWebSearch(webSearch, translation))
  if (tools.length === 0) {
    loseToolChoice(translation)
    return {}
  }
  return {
    tools,
    // It counts searches with the other calls of the provider's own tools, of which there are none.
    ...present('max_tool_calls', webSearch?.maxUses),
    ...(request.toolChoice === undefined
      ? {}
      : {
          tool_choice: writeToolChoice(unforced(request.toolChoice, capabilities, reasons, translation), request.tools),
        }),
    ...(request.parallelTools === undefined ? {} : { parallel_tool_calls: request.parallelTools }),
  }
}

function writeWebSearch(search: WebSearch, translation: Translation): Json {
  loseSearchOptions(search, translation, 'contextSize', 'userLocation', 'allowedDomains', 'maxUses')
  const place = placeOf(search)
  return {
    type: 'web_search',
    ...present('search_context_size', search.contextSize),
    ...(place === undefined ? {} : { user_location: { type: 'approximate', ...place } }),
    ...(search.allowedDomains === undefined ? {} : { filters: { allowed_domains: search.allowedDomains } }),
  }
}

function writeTool(tool: Tool, translation: Translation): Json[] {
  const name = tool.type === 'native' ? '' : acceptedName(tool.name, OPENAI_NAMES)
  if (tool.type !== 'native' && name !== tool.name)
    translation.lose(
      'todo_approximated',
      translation.setting('conversation') /* tool of tool.name */,
      `the provider knows it as ${name}, because names have up to 64 letters, digits, _ and -`,
    )
  switch (tool.type) {
    // Without `strict: false` the provider takes a schema as strict and refuses most that were not made for it.
    case 'function':
      return [
        {
          type: 'function',
          name,
          ...(tool.description === undefined ? {} : { description: tool.description }),
          strict: false,
          ...translation.schemaCache.write(functionSchema, tool, translation),
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
      translation.lose(
        'todo_dropped',
        translation.setting('conversation') /* tool of tool.kind */,
        `the provider has no tool '${tool.kind}'`,
      )
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
      return { type: choice.form ?? formOf(choice.name), name: acceptedName(choice.name, OPENAI_NAMES) }
    case 'allowed':
      return {
        type: 'allowed_tools',
        mode: choice.required ? 'required' : 'auto',
        tools: choice.names.map((name) => ({ type: formOf(name), name: acceptedName(name, OPENAI_NAMES) })),
      }
    default:
      return choice.type
  }
}

const OUTPUT_TOKENS_MIN = 16

function writeLimit(
  { maxOutputTokens: limit }: GenerationRequest,
  capabilities: Capabilities,
  translation: Translation,
): Json {
  if (limit === undefined || limit >= OUTPUT_TOKENS_MIN)
    return present('max_output_tokens', withinLimit(limit, capabilities, translation))
  translation.lose(
    'todo_approximated',
    translation.setting('maxOutputTokens'),
    `raised to ${OUTPUT_TOKENS_MIN}, the least the provider takes`,
  )
  return { max_output_tokens: OUTPUT_TOKENS_MIN }
}

function writeSampling(
  request: GenerationRequest,
  capabilities: Capabilities,
  reasons: boolean,
  translation: Translation,
): Json {
  const { sampling } = request
  loseSettings(
    translation,
    ['topK', 'frequencyPenalty', 'presencePenalty', 'seed', 'logitBias'],
    'unsupported_field',
    "the provider's protocol has no such field",
  )
  if ((sampling.stop ?? []).length > 0) loseStopSequences(translation, 'the provider knows no stop sequences')
  if (!samples(capabilities, reasons)) {
    for (const name of ['temperature', 'topP', 'logprobs', 'topLogprobs'] as const)
      if (sampling[name] !== undefined)
        translation.lose('todo_dropped', translation.setting(name as SettingName), 'the model refuses it')
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
  translation: Translation,
): Json | undefined {
  if (reasoning === undefined) return undefined
  if (capabilities.reasoning === 'none') {
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0)
      translation.lose('todo_dropped', translation.setting('reasoning'), 'the model does not reason')
    return undefined
  }
  const { budgetTokens, visible, summary = visible === true ? 'auto' : undefined } = reasoning
  const field = reasoning.effort === undefined ? 'reasoning.budgetTokens' : 'reasoning.effort'
  const meant = reasoning.effort ?? (budgetTokens === undefined ? undefined : effortOf(budgetTokens))
  const effort = meant === undefined ? undefined : nearestEffort(meant, capabilities, field, translation)
  if (budgetTokens !== undefined && budgetTokens > 0 && effort === meant)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.budgetTokens'),
      `as effort '${effort}': the provider has no budgets`,
    )
  if (reasoning.adaptive === true && meant === undefined)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.adaptive'),
      'the model reasons as deep as it does by default',
    )
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

function writeText(request: GenerationRequest, translation: Translation): Json {
  const { verbosity, outputModalities, imageOutput } = request
  if (imageOutput !== undefined)
    translation.lose('todo_dropped', translation.setting('imageOutput'), 'the provider answers in text')
  if (outputModalities?.some((kind) => kind !== 'text'))
    translation.lose('todo_dropped', translation.setting('outputModalities'), 'the provider answers in text')
  const format = writeFormat(request, translation)
  const text = { ...(format === undefined ? {} : { format }), ...(verbosity === undefined ? {} : { verbosity }) }
  return Object.keys(text).length === 0 ? {} : { text }
}

function writeFormat(request: GenerationRequest, translation: Translation): Json | undefined {
  const { outputFormat: format } = request
  switch (format?.type) {
    case undefined:
      return undefined
    case 'enum':
      throw translation.bareEnum()
    case 'text':
      return { type: 'text' }
    case 'json':
      return { type: 'json_object' }
    case 'schema':
      return {
        // The provider asks for a name, which shows nowhere.
        type: 'json_schema',
        name: acceptedName(format.name ?? 'answer', OPENAI_NAMES),
        ...(format.description === undefined ? {} : { description: format.description }),
        ...responseSchema(format, translation),
      }
  }
}

const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast'])

function writeIdentity(request: GenerationRequest, translation: Translation): Json {
  const { metadata, serviceTier, cacheRetention } = request
  const body: Json = writeUserIds(translation)
  if (cacheRetention !== undefined) body.prompt_cache_retention = cacheRetention
  if (serviceTier !== undefined && TIERS.has(serviceTier)) body.service_tier = serviceTier
  else if (serviceTier !== undefined)
    translation.lose('todo_dropped', translation.setting('serviceTier'), `the provider has no tier '${serviceTier}'`)
  if (metadata !== undefined && Object.values(metadata).every((value) => typeof value === 'string'))
    body.metadata = metadata
  else if (metadata !== undefined)
    translation.lose('todo_dropped', translation.setting('metadata'), 'the provider takes only texts as values')
  return body
}

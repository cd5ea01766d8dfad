import type { Reasoning, RequestSettings, Tool, ToolChoice, WebSearch } from '../../generation/request.ts'
import { openaiTier } from '../../generation/service-class.ts'
import { loseBreakpoints } from '../cache-breakpoints.ts'
import { nearestEffort, acceptsSampling, limitOutputTokens, refuseAudioAlone } from '../capabilities.ts'
import { isObject, objectOf } from '../../json/parse.ts'
import { rememberLike, WrittenArrays } from '../element-memory.ts'
import { present } from '../fields.ts'
import { writeHosted } from '../hosted-tools.ts'
import { writeImageTool } from '../image-config.ts'
import { jsonInstruction, mentionsJson } from '../json-instruction.ts'
import { rememberWritten, writeTurns } from '../pieces.ts'
import type { Capabilities, RawRequest, Target } from '../protocol.ts'
import { effortOfBudget } from '../reasoning-effort.ts'
import { functionSchema, responseSchema } from '../schema/openai.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import { loseToolChoice, acceptedToolChoice, preferForcedCall } from '../tool-choice.ts'
import { acceptedName, OPENAI_NAMES, ToolNames } from '../tool-names.ts'
import { orderToolResults } from '../tool-results.ts'
import type { Translation } from '../translation.ts'
import { loseSettings } from '../unsupported-settings.ts'
import { writeUserIds } from '../user-ids.ts'
import { loseCitations, loseSearchOptions, locationFields } from '../web-search.ts'
import { writeHostedTool } from './hosted-tools.ts'
import type { Json } from './shapes.ts'
import { breakpoints, InputWriter } from './write-request-input.ts'

export const path = (_target: Target, { compaction }: Pick<RequestSettings, 'compaction'>): string =>
  compaction === true ? '/responses/compact' : '/responses'

/** Versions and betas of a client that speaks this protocol are passed on. */
export function headers(rawRequest: RawRequest | undefined): Record<string, string> {
  const beta = rawRequest?.headers.get('openai-beta')
  return beta === undefined || beta === null ? {} : { 'openai-beta': beta }
}

/** A generation request -> the body for a provider that stores nothing, since Sluice stores responses itself. */
export function writeRequest(translation: Translation): Json {
  const { request, target } = translation
  loseCitations(translation)
  const names = new ToolNames(translation, OPENAI_NAMES)
  const conversation = writeConversation(translation, names)
  const preferred = preferForcedCall(request, target.capabilities, true, translation)
  const reasoning = writeReasoning(preferred.reasoning, translation)
  const reasons = reasoning?.effort !== 'none'
  const include = writeInclude(translation, reasons)
  const body: Json = {
    model: target.model,
    ...conversation,
    ...writeTools(translation, names, reasons),
    ...writeLimit(translation),
    ...writeSampling(translation, reasons),
    ...present('reasoning', reasoning),
    ...writeText(translation),
    ...writeMetadata(translation),
    store: false,
    ...(request.stream ? { stream: true } : {}),
    ...(include.length > 0 ? { include } : {}),
  }
  loseBreakpoints(translation, breakpoints(target), false)
  return body
}

function writeConversation(translation: Translation, names: ToolNames): Json {
  const { request, target } = translation
  const input = new InputWriter(translation, names)
  const needsJson = request.outputFormat?.type === 'json' && !mentionsJson(request)
  if (needsJson)
    translation.lose(
      'format_described',
      translation.setting('outputFormat'),
      'the prompt asks for JSON too: providers refuse JSON mode where no message mentions it',
    )
  const system = [...request.system, ...(needsJson ? [jsonInstruction()] : [])]
  const [first] = system
  // The provider refuses an empty input, and JSON mode where its messages do not mention it, also beside instructions.
  const isPlain =
    request.turns.length > 0 &&
    request.outputFormat?.type !== 'json' &&
    target.capabilities.system !== false &&
    system.length === 1 &&
    first?.type === 'text' &&
    (first.cache === undefined || breakpoints(target) === undefined)
  const instructions = isPlain ? first.text : undefined
  if (instructions === undefined) input.system(system)
  const { items } = input
  const { length } = items
  writeTurns(translation, items, (turns) => {
    for (const turn of orderToolResults(turns, translation)) input.turn(turn)
    input.end()
  })
  const last = request.turns.at(-1)
  if (last !== undefined && items.at(-1)?.role === 'assistant')
    translation.lose('prefill_unsupported', translation.at(last))
  return { ...present('instructions', instructions), input: rememberWritten(translation, items, length) }
}

function writeTools(translation: Translation, names: ToolNames, reasons: boolean): Json {
  const { request, target } = translation
  const written = writtenTools.of(request.tools, translation, () =>
    rememberLike(
      request.tools,
      request.tools.flatMap((tool) => writeTool(tool, names, translation)),
      target,
    ),
  )
  const { webSearch, toolChoice } = request
  const others = webSearch === undefined ? [] : [writeWebSearch(webSearch, translation)]
  const imageTool = writeImageTool(request, translation)
  if (imageTool !== undefined) others.push(imageTool)
  const tools = others.length === 0 ? written : [...written, ...others]
  if (tools.length === 0) {
    loseToolChoice(translation)
    return {}
  }
  const choice = toolChoice && acceptedToolChoice(toolChoice, target.capabilities, reasons, translation)
  return {
    tools,
    // It counts searches with the other calls of the provider's own tools, of which there are none.
    ...present('max_tool_calls', webSearch?.maxUses),
    ...(choice === undefined ? {} : { tool_choice: writeToolChoice(choice, request.tools, names) }),
    ...present('parallel_tool_calls', request.parallelTools),
  }
}

const writtenTools = new WrittenArrays<Json[]>()

function writeWebSearch(search: WebSearch, translation: Translation): Json {
  loseSearchOptions(search, translation, 'contextSize', 'userLocation', 'allowedDomains', 'maxUses')
  const location = locationFields(search)
  return {
    type: 'web_search',
    ...present('search_context_size', search.contextSize),
    ...(location === undefined ? {} : { user_location: { type: 'approximate', ...location } }),
    ...(search.allowedDomains === undefined ? {} : { filters: { allowed_domains: search.allowedDomains } }),
  }
}

function writeTool(tool: Tool, names: ToolNames, translation: Translation): Json[] {
  switch (tool.type) {
    // Without `strict: false` the provider takes a schema as strict and refuses most that were not made for it.
    case 'function':
      return [
        {
          type: 'function',
          name: names.sent(tool.name),
          ...present('description', tool.description),
          strict: false,
          ...translation.schemaCache.write(functionSchema, tool, translation),
        },
      ]
    case 'custom':
      return [
        {
          type: 'custom',
          name: names.sent(tool.name),
          ...present('description', tool.description),
          ...(tool.format === undefined ? {} : { format: writeGrammar(tool.format) }),
        },
      ]
    case 'native':
      if (tool.protocol === 'responses') return [objectOf(tool.value)]
      return writeHosted(tool, translation, writeHostedTool)
  }
}

/** Chat completions nests the grammar, this protocol does not. */
const writeGrammar = (format: unknown): unknown =>
  isObject(format) && isObject(format.grammar) ? { type: format.type, ...format.grammar } : format

function writeToolChoice(choice: ToolChoice, tools: Tool[], names: ToolNames): unknown {
  const formOf = (name: string): string =>
    tools.find((tool) => tool.type !== 'native' && tool.name === name)?.type ?? 'function'
  switch (choice.type) {
    case 'tool':
      return { type: choice.form ?? formOf(choice.name), name: names.sent(choice.name) }
    case 'allowed':
      return {
        type: 'allowed_tools',
        mode: choice.required ? 'required' : 'auto',
        tools: choice.names.map((name) => ({ type: formOf(name), name: names.sent(name) })),
      }
    default:
      return choice.type
  }
}

const OUTPUT_TOKENS_MIN = 16

function writeLimit(translation: Translation): Json {
  const { request, target } = translation
  const limit = request.maxOutputTokens
  if (limit === undefined || limit >= OUTPUT_TOKENS_MIN)
    return present('max_output_tokens', limitOutputTokens(limit, target.capabilities, translation))
  translation.lose(
    'value_adjusted',
    translation.setting('maxOutputTokens'),
    `the provider requires at least ${OUTPUT_TOKENS_MIN} tokens`,
  )
  return { max_output_tokens: OUTPUT_TOKENS_MIN }
}

function writeSampling(translation: Translation, reasons: boolean): Json {
  const { request, target } = translation
  const { temperature, topP, topLogprobs, stop = [] } = request.sampling
  loseSettings(translation, ['topK', 'frequencyPenalty', 'presencePenalty', 'seed', 'logitBias'], 'unsupported_field')
  if (stop.length > 0) loseStopSequences(translation, 'the provider has no stop sequences')
  if (!acceptsSampling(target.capabilities, reasons)) {
    loseSettings(translation, ['temperature', 'topP', 'logprobs', 'topLogprobs'], 'unsupported_by_model')
    return {}
  }
  return { ...present('temperature', temperature), ...present('top_p', topP), ...present('top_logprobs', topLogprobs) }
}

function writeReasoning(reasoning: Reasoning | undefined, translation: Translation): Json | undefined {
  const { target } = translation
  if (reasoning === undefined) return undefined
  if (target.capabilities.reasoning === 'none') {
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0)
      translation.lose('reasoning_unsupported', translation.setting('reasoning'))
    return undefined
  }
  const { visible, summary = visible === true ? 'auto' : undefined } = reasoning
  const written = {
    ...writeEffort(reasoning, translation),
    ...(summary === undefined || summary === 'none' ? {} : { summary }),
  }
  return Object.keys(written).length === 0 ? undefined : written
}

function writeEffort({ effort, budgetTokens, adaptive }: Reasoning, translation: Translation): Json {
  const { capabilities } = translation.target
  const budgetPath = translation.setting('reasoning.budgetTokens')
  if (effort !== undefined) {
    if (budgetTokens !== undefined && budgetTokens >= 0)
      translation.lose('unsupported_combination', budgetPath, 'the provider takes an effort instead of a budget')
    return present('effort', nearestEffort(effort, capabilities, 'reasoning.effort', translation))
  }
  const meant = budgetTokens === undefined ? undefined : effortOfBudget(budgetTokens)
  if (meant === undefined) {
    if (adaptive === true) translation.lose('reasoning_adjusted', translation.setting('reasoning.adaptive'))
    return {}
  }
  const sent = nearestEffort(meant, capabilities, 'reasoning.budgetTokens', translation)
  if (budgetTokens !== 0 && sent === meant)
    translation.lose('budget_as_effort', budgetPath, `the provider takes an effort instead of a budget: '${sent}'`)
  return present('effort', sent)
}

/** Reports whether the model may reason, so that its reasoning has to come back encrypted for the next turn. */
export const mayReason = (requested: boolean, effort: unknown, capabilities: Capabilities): boolean =>
  effort !== 'none' && (requested || (capabilities.reasoning !== undefined && capabilities.reasoning !== 'none'))

function writeInclude({ request, target }: Translation, reasons: boolean): string[] {
  const { capabilities } = target
  const { reasoning, sampling } = request
  const encrypts =
    capabilities.reasoning !== 'none' && reasons && mayReason(reasoning !== undefined, undefined, capabilities)
  const logprobs =
    acceptsSampling(capabilities, reasons) && (sampling.logprobs === true || sampling.topLogprobs !== undefined)
  return [...(encrypts ? ['reasoning.encrypted_content'] : []), ...(logprobs ? ['message.output_text.logprobs'] : [])]
}

function writeText(translation: Translation): Json {
  const { verbosity, outputModalities, imageOutput } = translation.request
  const hasImages = outputModalities?.includes('image') === true
  if (imageOutput !== undefined && !hasImages) translation.lose('unsupported_field', translation.setting('imageOutput'))
  refuseAudioAlone(false, translation)
  if (outputModalities?.includes('audio') === true)
    translation.lose('unsupported_field', translation.setting('outputModalities'))
  const text = { ...present('format', writeFormat(translation)), ...present('verbosity', verbosity) }
  return Object.keys(text).length === 0 ? {} : { text }
}

function writeFormat(translation: Translation): Json | undefined {
  const { outputFormat: format } = translation.request
  switch (format?.type) {
    case undefined:
      return undefined
    case 'enum':
      throw translation.plainEnumRefusal()
    case 'text':
      return { type: 'text' }
    case 'json':
      return { type: 'json_object' }
    case 'schema':
      return {
        // The provider requires a name, which appears nowhere else.
        type: 'json_schema',
        name: acceptedName(format.name ?? 'answer', OPENAI_NAMES),
        ...present('description', format.description),
        ...responseSchema(format, translation),
      }
  }
}

function writeMetadata(translation: Translation): Json {
  const { metadata, serviceTier, cacheRetention } = translation.request
  const body: Json = writeUserIds(translation)
  if (cacheRetention !== undefined) body.prompt_cache_retention = cacheRetention
  const tier = openaiTier(serviceTier)
  if (tier !== undefined) body.service_tier = tier
  else if (serviceTier !== undefined)
    translation.lose(
      'unsupported_by_provider',
      translation.setting('serviceTier'),
      `the provider has no service tier '${serviceTier}'`,
    )
  if (metadata !== undefined && Object.values(metadata).every((value) => typeof value === 'string'))
    body.metadata = metadata
  else if (metadata !== undefined)
    translation.lose(
      'unsupported_by_provider',
      translation.setting('metadata'),
      'the provider accepts only strings as values',
    )
  return body
}

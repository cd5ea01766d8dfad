import { GatewayError } from '../../error.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import {
  EFFORTS,
  type Effort,
  type GenerationRequest,
  type Reasoning,
  type Tool,
  type ToolChoice,
} from '../../generation/request.ts'
import { limitBreakpoints, loseBreakpoints, breakpointOf } from '../cache-breakpoints.ts'
import { nearestEffort, samples, withinLimit } from '../capabilities.ts'
import { refuseTool } from '../provider-native.ts'
import { inputSchema, loseGrammar } from '../custom-tools.ts'
import { isObject, present, snakeOf } from '../fields.ts'
import { drawing, imageConfigOf } from '../image-config.ts'
import { REFUSABLE, type Capabilities, type Quirks, type Target, type WrittenRequest } from '../protocol.ts'
import { writeUserIds } from '../user-ids.ts'
import { functionSchema } from '../schema/openai.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import { acceptedName, OPENAI_NAMES, ToolNames } from '../tool-names.ts'
import { forces, loseToolChoice, unforced } from '../tool-choice.ts'
import { loseCitations, loseSearchOptions, placeOf } from '../web-search.ts'
import { writeFormat } from './write-request-format.ts'
import { MessagesWriter, REFUSED } from './write-request-messages.ts'
import type { Json } from './shapes.ts'

/** Our request as a `POST /chat/completions` body for this target, and what that could not carry. */
export function writeRequest(translation: Translation): Json {
  const { request: asked, target } = translation
  const request = drawing(asked, target)
  loseCitations(translation)
  const { quirks } = target
  const names = new ToolNames(translation, OPENAI_NAMES)
  const format = writeFormat(request, target, translation)
  const messages = new MessagesWriter(request, target, translation).write(
    [...request.system, ...format.told],
    request.turns,
  )
  if (messages.length === 0) throw translation.emptyConversation()
  const { role, prefix } = messages.at(-1)!
  if (role === 'assistant')
    translation.lose(
      'todo_approximated',
      translation.setting('conversation'),
      prefix === true
        ? 'the provider repeats the answer that the client began'
        : 'the answer that the client began is sent as an earlier one: many providers begin anew',
    )
  const reasoning = writeReasoning(request, target, translation)
  const reasons = !(isObject(reasoning.reasoning)
    ? reasoning.reasoning.effort === 'none'
    : isObject(reasoning.thinking)
      ? reasoning.thinking.type === 'disabled'
      : reasoning.reasoning_effort === 'none')
  const body: Json = {
    model: target.model,
    messages,
    ...(request.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...present(
      quirks.maxTokensField ?? 'max_tokens',
      withinLimit(request.maxOutputTokens, target.capabilities, translation),
    ),
    ...writeSampling(request, target, reasons, translation),
    ...writeTools(request, target, reasons, translation),
    ...reasoning,
    ...format.field,
    ...writeModalities(request, target, translation),
    ...(request.verbosity === undefined ? {} : { verbosity: request.verbosity }),
    ...writeWebSearch(request, translation),
    ...writeIdentity(request, translation),
    ...(target.capabilities.cacheBreakpoints === 'cache_control' ? breakpointOf(request, 'cache_control') : {}),
  }
  takeRefused(body, quirks, translation)
  loseBreakpoints(translation, target.capabilities.cacheBreakpoints)
  limitBreakpoints([...(Array.isArray(body.tools) ? body.tools.filter(isObject) : []), ...messages], translation)
  return body
}

/** Takes out what the provider refuses. */
function takeRefused(body: Json, { refuses = [] }: Quirks, translation: Translation): void {
  for (const name of refuses) {
    const field = REFUSABLE[name]
    if (field !== null && body[name] !== undefined)
      translation.lose('todo_dropped', translation.setting(field as SettingName), REFUSED)
    delete body[name]
  }
}

const STOP_MAX = 4

function writeSampling(
  { sampling }: GenerationRequest,
  { quirks, capabilities }: Target,
  reasons: boolean,
  translation: Translation,
): Json {
  const { temperature, topP, topK, frequencyPenalty, presencePenalty, seed, stop, logitBias, logprobs, topLogprobs } =
    sampling
  if (topK !== undefined)
    translation.lose('todo_dropped', translation.setting('topK'), 'chat completions has no such field')
  const chosen = { temperature, topP, frequencyPenalty, presencePenalty, logitBias, logprobs, topLogprobs }
  const written: Json = {}
  for (const field of Object.keys(chosen) as (keyof typeof chosen)[]) {
    if (chosen[field] === undefined) continue
    if (!samples(capabilities, reasons))
      translation.lose(
        'todo_dropped',
        translation.setting(field as SettingName),
        'the model refuses sampling parameters',
      )
    else if (capabilities.penalties === false && field.endsWith('Penalty'))
      translation.lose('todo_dropped', translation.setting(field as SettingName), 'the model refuses penalties')
    else written[snakeOf(field)] = chosen[field]
  }
  // OpenAI counts alternatives only of log probabilities that were asked for.
  if (written.top_logprobs !== undefined && written.logprobs === undefined) written.logprobs = true
  if (seed !== undefined) written[quirks.seedField ?? 'seed'] = seed
  if (stop !== undefined && stop.length > 0) {
    const { stops = STOP_MAX } = capabilities
    if (stop.length > stops)
      loseStopSequences(
        translation,
        stops === 0
          ? 'the model refuses stop sequences'
          : `the provider takes ${stops} stop sequences, and is sent the first`,
      )
    if (stops > 0) written.stop = stop.slice(0, stops)
  }
  return written
}

function writeTools(request: GenerationRequest, target: Target, reasons: boolean, translation: Translation): Json {
  const choice =
    request.toolChoice === undefined
      ? undefined
      : unforced(request.toolChoice, target.capabilities, reasons, translation)
  const narrow = choice === undefined ? undefined : narrowed(choice, target)
  if (narrow !== undefined)
    translation.lose('todo_approximated', translation.setting('toolChoice'), 'only the allowed tools are sent')
  const tools = request.tools
    .filter((tool) => tool.type === 'native' || narrow?.includes(tool.name) !== false)
    .flatMap((tool) => writeTool(tool, target, translation))
  if (tools.length === 0) {
    loseToolChoice(translation)
    return {}
  }
  return {
    tools,
    ...(choice === undefined
      ? {}
      : {
          tool_choice:
            narrow === undefined ? writeToolChoice(choice, request, target) : forces(choice) ? 'required' : 'auto',
        }),
    ...writeParallel(request, target, translation),
  }
}

function writeParallel({ parallelTools }: GenerationRequest, { capabilities }: Target, translation: Translation): Json {
  if (capabilities.parallelTools !== false) return present('parallel_tool_calls', parallelTools)
  if (parallelTools === false)
    translation.lose(
      'todo_dropped',
      translation.setting('parallelTools'),
      'the model decides how many tools it calls at once',
    )
  return {}
}

/**
 * The tools that may be called, where the provider has no words for the choice: it is sent these alone, which comes to
 * the same.
 */
function narrowed(choice: ToolChoice, { quirks: { toolChoices = 'named' } }: Target): string[] | undefined {
  const chosen = choice.type === 'tool' ? [choice.name] : choice.type === 'allowed' ? choice.names : undefined
  if (chosen === undefined || toolChoices === 'allowed') return undefined
  return toolChoices === 'named' && chosen.length === 1 && forces(choice) ? undefined : chosen
}

function writeTool(tool: Tool, { quirks, capabilities }: Target, translation: Translation): Json[] {
  if (tool.type === 'native') {
    refuseTool(tool)
    translation.lose(
      'todo_dropped',
      translation.setting('conversation') /* tool of tool.kind */,
      `chat completions has no tool '${tool.kind}'`,
    )
    return []
  }
  const name = acceptedName(tool.name, OPENAI_NAMES)
  const mark =
    tool.type === 'function' && capabilities.cacheBreakpoints === 'cache_control'
      ? breakpointOf(tool, 'cache_control')
      : {}
  if (name !== tool.name)
    translation.lose(
      'todo_approximated',
      translation.setting('conversation') /* tool of tool.name */,
      `the provider knows it as ${name}, because names have up to 64 letters, digits, _ and -`,
    )
  const described = tool.description === undefined ? {} : { description: tool.description }
  if (tool.type === 'function')
    return [
      {
        type: 'function',
        function: {
          name,
          ...described,
          ...(tool.parameters === undefined
            ? present('strict', tool.strict)
            : translation.schemaCache.write(functionSchema, tool, translation)),
        },
        ...mark,
      },
    ]
  if (quirks.customTools === true)
    return [
      {
        type: 'custom',
        custom: { name, ...described, ...(tool.format === undefined ? {} : { format: writeGrammar(tool.format) }) },
      },
    ]
  loseGrammar(tool, translation)
  return [{ type: 'function', function: { name, ...described, parameters: inputSchema(tool) } }]
}

/** The responses protocol spells a grammar flat, chat completions in an object of its own. */
function writeGrammar(format: unknown): unknown {
  if (!isObject(format) || format.type !== 'grammar' || format.grammar !== undefined) return format
  const { type, ...grammar } = format
  return { type, grammar }
}

function writeToolChoice(choice: ToolChoice, request: GenerationRequest, { quirks }: Target): unknown {
  const named = (name: string): Json => {
    const custom =
      quirks.customTools === true && request.tools.some((tool) => tool.type === 'custom' && tool.name === name)
    return custom
      ? { type: 'custom', custom: { name: acceptedName(name, OPENAI_NAMES) } }
      : { type: 'function', function: { name: acceptedName(name, OPENAI_NAMES) } }
  }
  if (choice.type === 'tool') return named(choice.name)
  if (choice.type !== 'allowed') return choice.type
  if (choice.required && choice.names.length === 1) return named(choice.names[0]!)
  return {
    type: 'allowed_tools',
    allowed_tools: { mode: choice.required ? 'required' : 'auto', tools: choice.names.map(named) },
  }
}

/** Budgets as efforts, for providers that know only efforts: up to this many tokens is this effort. */
const EFFORT_BY_BUDGET: [number, Effort][] = [
  [0, 'none'],
  [1_024, 'minimal'],
  [4_096, 'low'],
  [16_384, 'medium'],
  [32_768, 'high'],
  [Infinity, 'xhigh'],
]

function writeReasoning(
  { reasoning, maxOutputTokens }: GenerationRequest,
  target: Target,
  translation: Translation,
): Json {
  const { quirks, capabilities } = target
  if (reasoning === undefined) return {}
  if (reasoning.summary !== undefined)
    translation.lose(
      'todo_dropped',
      translation.setting('reasoning.summary'),
      'chat completions has no switch for summaries',
    )
  if (capabilities.reasoning === 'none') {
    if (reasoning.effort !== 'none' && reasoning.budgetTokens !== 0)
      translation.lose('todo_dropped', translation.setting('reasoning'), 'the model does not reason')
    return {}
  }
  const effort = depthOf(reasoning, target, translation)
  const { budgetTokens, visible } = reasoning
  const deep = reasoning.adaptive === true || budgetTokens === -1
  if (quirks.effortField === 'reasoning') {
    const budget =
      takesBudgets(target) && budgetTokens !== undefined && budgetTokens > 0
        ? budgetOf(budgetTokens, maxOutputTokens, capabilities, translation)
        : undefined
    const depth =
      budget !== undefined ? { max_tokens: budget } : effort !== undefined ? { effort } : deep ? { enabled: true } : {}
    const wish = { ...depth, ...(visible === undefined ? {} : { exclude: !visible }) }
    return Object.keys(wish).length > 0 ? { reasoning: wish } : {}
  }
  if (quirks.effortField === 'thinking')
    return effort === 'none'
      ? { thinking: { type: 'disabled' } }
      : {
          ...(deep || effort !== undefined ? { thinking: { type: 'enabled' } } : {}),
          ...present('reasoning_effort', effort),
        }
  if (reasoning.adaptive === true && effort === undefined)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.adaptive'),
      'the model reasons as deep as it does by default',
    )
  return present('reasoning_effort', effort)
}

/** Only OpenRouter's object has budgets. */
const takesBudgets = ({ quirks, capabilities: { reasoning = 'budget' } }: Target): boolean =>
  quirks.effortField === 'reasoning' && reasoning === 'budget'

/**
 * A budget that the model takes and that leaves room for an answer, since the limit counts the thinking too; undefined
 * where there is none.
 */
function budgetOf(
  wanted: number,
  limit = Infinity,
  { budget: { min, max } = { min: 1, max: Infinity } }: Capabilities,
  translation: Translation,
): number | undefined {
  const bounded = Math.min(Math.max(wanted, min), max)
  const budget = bounded < limit ? bounded : Math.floor(limit * 0.8)
  if (budget < min)
    translation.lose(
      'todo_dropped',
      translation.setting('reasoning.budgetTokens'),
      `the limit of ${limit} output tokens leaves no room for the least budget of ${min}`,
    )
  else if (budget !== wanted)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.budgetTokens'),
      `the model and the output limit allow ${budget} tokens`,
    )
  return budget < min ? undefined : budget
}

// What compatible servers know, where it is not known what the model takes.
const KNOWN = EFFORTS.filter((effort) => effort !== 'max')

function depthOf({ effort, budgetTokens }: Reasoning, target: Target, translation: Translation): Effort | undefined {
  const { efforts = target.quirks.effortField === 'reasoning' ? EFFORTS : KNOWN } = target.capabilities
  const near = (wish: Effort, field: SettingName): Effort | undefined =>
    nearestEffort(wish, { efforts: [...efforts] }, field, translation)
  const budget =
    budgetTokens !== undefined && budgetTokens >= 0 && !takesBudgets(target)
      ? budgetTokens
      : budgetTokens === 0
        ? 0
        : undefined
  if (effort !== undefined) {
    if (budget !== undefined)
      translation.lose(
        'todo_dropped',
        translation.setting('reasoning.budgetTokens'),
        'the provider takes efforts, not budgets',
      )
    return near(effort, 'reasoning.effort')
  }
  if (budget === undefined) return undefined
  const meant = EFFORT_BY_BUDGET.find(([tokens]) => budget <= tokens)![1]
  const depth = near(meant, 'reasoning.budgetTokens')
  if (budget > 0 && depth === meant)
    translation.lose(
      'todo_approximated',
      translation.setting('reasoning.budgetTokens'),
      `the provider takes efforts, not budgets: '${depth}'`,
    )
  return depth
}

function writeModalities(
  request: GenerationRequest,
  { capabilities: { output } }: Target,
  translation: Translation,
): Json {
  const { outputModalities: wanted = ['text'] } = request
  if (wanted.includes('audio'))
    throw new GatewayError(
      'unsupported_parameter',
      "the model's provider speaks chat completions, which needs a voice and a format for audio output",
      { param: 'outputModalities' },
    )
  const config = imageConfigOf(request, translation)
  return {
    // A model that makes images alone refuses to be asked for text.
    ...(wanted.includes('image')
      ? {
          modalities: output === undefined ? wanted : wanted.filter((kind) => kind !== 'text' || output.includes(kind)),
        }
      : {}),
    ...(config === undefined
      ? {}
      : {
          image_config: { ...present('aspect_ratio', config.aspectRatio), ...present('image_size', config.imageSize) },
        }),
  }
}

function writeWebSearch({ webSearch, toolChoice }: GenerationRequest, translation: Translation): Json {
  if (webSearch === undefined || toolChoice?.type === 'none') return {}
  loseSearchOptions(webSearch, translation, 'contextSize', 'userLocation')
  const approximate = placeOf(webSearch)
  return {
    web_search_options: {
      ...present('search_context_size', webSearch.contextSize),
      ...(approximate === undefined ? {} : { user_location: { type: 'approximate', approximate } }),
    },
  }
}

const TIERS = ['auto', 'default', 'flex', 'scale', 'priority']

function writeIdentity(request: GenerationRequest, translation: Translation): Json {
  const written: Json = writeUserIds(translation)
  if (request.cacheRetention !== undefined) written.prompt_cache_retention = request.cacheRetention
  if (request.serviceTier !== undefined) {
    if (TIERS.includes(request.serviceTier)) written.service_tier = request.serviceTier
    else
      translation.lose(
        'todo_dropped',
        translation.setting('serviceTier'),
        `chat completions has no tier '${request.serviceTier}'`,
      )
  }
  const pairs = Object.entries(request.metadata ?? {})
  const texts = pairs.filter(([, value]) => typeof value === 'string').slice(0, 16)
  if (texts.length < pairs.length)
    translation.lose(
      'todo_approximated',
      translation.setting('metadata'),
      'only the first 16 pairs of text are carried',
    )
  if (texts.length > 0) written.metadata = Object.fromEntries(texts)
  return written
}

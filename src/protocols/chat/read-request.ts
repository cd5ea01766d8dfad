import { invalid } from '../../error.ts'
import type {
  GenerationRequest,
  OutputFormat,
  Sampling,
  Tool,
  ToolChoice,
  WebSearch,
} from '../../generation/request.ts'
import { ReadArrays, rememberLike } from '../element-memory.ts'
import { collectExtras, type Extras, Fields, present, refuseElsewhere, tryRead } from '../fields.ts'
import { isObject } from '../../json/parse.ts'
import type { RawRequest } from '../protocol.ts'
import { takeRoutingMembers } from '../routing-members.ts'
import { readUser } from '../user-ids.ts'
import { readMessages } from './read-request-messages.ts'
import { readCache } from './read-request-parts.ts'
import { readReasoningOptions } from './read-request-reasoning.ts'

/**
 * The request in the body of `POST /v1/chat/completions`. Unknown fields go to `extras`. Throws a GatewayError with the
 * path of an invalid field that Sluice needs itself.
 */
export function readRequest(rawRequest: RawRequest): GenerationRequest {
  const extras: Extras = Object.create(null)
  const body = new Fields(rawRequest.body, '', extras)
  const { needed } = body
  const model = needed.require('model', needed.string('model'), 'the model as <provider>/<model_name>')
  if (model === '') throw invalid('model', 'must not be empty')
  const messages = tryRead(conversationOf, body, extras) ?? []
  const { system, turns } = readMessages(body, messages, extras)
  const candidates = needed.integer('n', { min: 1 })
  body.integer('n', { min: 1, max: 1 })
  const { tools, search } = readTools(body, extras)
  const request: GenerationRequest = {
    model,
    system,
    turns,
    tools,
    toolChoice: tryRead(readToolChoice, body, extras),
    parallelTools: body.boolean('parallel_tool_calls'),
    sampling: readSampling(body),
    maxOutputTokens: readLimit(body),
    ...(candidates === undefined || candidates === 1 ? {} : { candidates }),
    reasoning: readReasoningOptions(body, extras),
    outputFormat: tryRead(readFormat, body, extras),
    outputModalities: readModalities(body, extras),
    imageOutput: readImageConfig(body),
    verbosity: body.oneOf('verbosity', ['low', 'medium', 'high'] as const),
    webSearch: readWebSearch(body) ?? readSearchTool(search, extras) ?? readPlugins(body, extras),
    user: readUser(body, extras),
    metadata: readMetadata(body),
    serviceTier: body.string('service_tier'),
    cacheKey: body.string('prompt_cache_key'),
    ...readCache(body),
    cacheRetention: body.string('prompt_cache_retention'),
    stream: needed.boolean('stream') ?? false,
    includeUsage: readIncludeUsage(body),
    protocol: 'chat.completions',
    extras,
  }
  takeRoutingMembers(body)
  collectExtras(body, extras)
  return request
}

const conversationOf = (body: Fields): unknown[] =>
  body.require('messages', body.array('messages', { min: 1, of: 'messages' }), 'the conversation so far')

/**
 * The larger of two names of one limit: a provider of this protocol gets both and may apply either. Undefined, so no
 * limit of the request, where one of them is not a limit (many servers take -1 or 0 for none).
 */
function readLimit(body: Fields): number | undefined {
  let limit: number | undefined
  let isLimited = true
  for (const name of ['max_tokens', 'max_completion_tokens']) {
    if (!body.has(name)) continue
    const read = body.integer(name, { min: 1 })
    if (read === undefined) isLimited = false
    else limit = Math.max(limit ?? 0, read)
  }
  return isLimited ? limit : undefined
}

function readSampling(body: Fields): Sampling {
  const topK = body.value.top_k
  return {
    temperature: body.number('temperature'),
    topP: body.number('top_p'),
    // Not a field of OpenAI's, but many servers accept it; only an integer has the usual meaning.
    topK: Number.isInteger(topK) ? body.integer('top_k') : undefined,
    frequencyPenalty: body.number('frequency_penalty', { min: -2, max: 2 }),
    presencePenalty: body.number('presence_penalty', { min: -2, max: 2 }),
    seed: body.integer('seed'),
    stop: readStop(body),
    logitBias: tryRead(readLogitBias, body, body.extras!),
    logprobs: body.boolean('logprobs'),
    topLogprobs: body.integer('top_logprobs', { min: 0, max: 20 }),
  }
}

function readStop(body: Fields): string[] | undefined {
  const stop = body.take('stop')
  if (stop === undefined) return undefined
  if (typeof stop === 'string') return [stop]
  if (Array.isArray(stop)) return body.strings('stop', { max: 4, of: 'sequences' })
  refuseElsewhere(body.extras!, invalid('stop', 'must be a string or an array of up to 4 strings'))
  return undefined
}

function readLogitBias(body: Fields): Record<string, number> | undefined {
  const bias = body.object('logit_bias')
  if (bias === undefined) return undefined
  const read: Record<string, number> = Object.create(null)
  for (const token of Object.keys(bias.value)) {
    if (!/^\d+$/.test(token)) throw invalid('logit_bias', `must have token ids as keys, not '${token.slice(0, 40)}'`)
    read[token] = bias.require(token, bias.number(token, { min: -100, max: 100 }), 'a number from -100 to 100')
  }
  return read
}

/**
 * `functions`, the predecessor of `tools`, as a native tool: other protocols refuse it, since a response that never
 * calls them would mislead.
 */
function readFunctions(body: Fields): Tool[] {
  const value = body.array('functions') ?? []
  return value.length === 0
    ? []
    : [{ type: 'native', protocol: 'chat.completions', kind: 'functions', value, path: 'functions' }]
}

/** `search`: the place of a tool that is a request to search. */
type ToolsReading = { tools: Tool[]; search: number | undefined }

const readings = new ReadArrays<ToolsReading>()

function readTools(body: Fields, extras: Extras): { tools: Tool[]; search: Fields | undefined } {
  const source = body.take('tools')
  const { tools, search } = readings.of(source, extras, () => readOwnTools(body, extras))
  const functions = readFunctions(body)
  return {
    tools: functions.length === 0 ? tools : [...tools, ...functions],
    search: search === undefined ? undefined : body.element('tools', source as unknown[], search),
  }
}

function readOwnTools(body: Fields, extras: Extras): ToolsReading {
  const source = body.array('tools') ?? []
  const tools: Tool[] = []
  let search: number | undefined
  for (let index = 0; index < source.length; index++) {
    const tool = body.element('tools', source, index)
    if (tool === undefined) continue
    if (isSearch(tool)) search ??= index
    else tools.push(readTool(tool, extras))
  }
  return { tools: rememberLike(source, tools), search }
}

function readTool(tool: Fields, extras: Extras): Tool {
  const type = tool.string('type')
  const own = type === 'function' || type === 'custom' ? tryRead(readOwnTool, tool, extras) : undefined
  if (own !== undefined) return own
  if (type === undefined) refuseElsewhere(extras, invalid(tool.at('type'), "is required: 'function' or 'custom'"))
  return { type: 'native', protocol: 'chat.completions', kind: type ?? 'unknown', value: tool.value, path: tool.path }
}

function readOwnTool(tool: Fields, extras: Extras): Tool {
  const type = tool.value.type as 'function' | 'custom'
  const { path } = tool
  const inner = tool.require(type, tool.object(type), `the ${type} that can be called`)
  const name = inner.require('name', inner.string('name'), 'the name of the tool')
  if (name === '') throw invalid(inner.at('name'), 'must not be empty')
  const described = present('description', inner.string('description'))
  const read: Tool =
    type === 'custom'
      ? { type, name, ...described, ...present('format', readGrammar(inner)), path }
      : {
          type,
          name,
          ...described,
          ...present('parameters', inner.record('parameters')),
          ...present('strict', inner.boolean('strict')),
          path,
        }
  // OpenRouter has the cache breakpoint beside the function, LiteLLM also in it.
  if (read.type === 'function') Object.assign(read, readCache(inner), readCache(tool))
  collectExtras(tool, extras)
  return read
}

/** The format of free text; of a kind that is not known, all of it. */
function readGrammar(tool: Fields): Record<string, unknown> | undefined {
  const format = tool.object('format')
  if (format === undefined || !isObject(format.value.grammar)) return format?.whole()
  const grammar = format.object('grammar')!
  for (const fields of [format, grammar]) for (const name of ['type', 'syntax', 'definition']) fields.take(name)
  return format.value
}

const TOOL_CHOICES = ['none', 'auto', 'required', 'any'] as const

function readToolChoice(body: Fields): ToolChoice | undefined {
  if (typeof body.value.tool_choice === 'string') {
    // `any` is Mistral's word for a required call.
    const type = body.oneOf('tool_choice', TOOL_CHOICES)
    return type && { type: type === 'any' ? 'required' : type }
  }
  const choice = body.object('tool_choice')
  if (choice === undefined) return undefined
  const type = choice.require(
    'type',
    choice.oneOf('type', ['function', 'custom', 'allowed_tools'] as const),
    "'function', 'custom' or 'allowed_tools'",
  )
  if (type !== 'allowed_tools') return { type: 'tool', name: toolName(choice, type), form: type }
  const allowed = choice.require('allowed_tools', choice.object('allowed_tools'), 'an object with mode and tools')
  const mode = allowed.require('mode', allowed.oneOf('mode', ['auto', 'required']), "'auto' or 'required'")
  const tools = allowed.require(
    'tools',
    allowed.objects('tools', { min: 1, of: 'tools' }),
    'the tools that may be called',
  )
  const names = tools.map((tool) => {
    const type = tool.require('type', tool.oneOf('type', ['function', 'custom'] as const), "'function' or 'custom'")
    return toolName(tool, type)
  })
  return { type: 'allowed', names, required: mode === 'required' }
}

function toolName(holder: Fields, type: 'function' | 'custom'): string {
  const inner = holder.require(type, holder.object(type), 'an object with the name of the tool')
  return inner.require('name', inner.string('name'), 'the name of the tool')
}

function readFormat(body: Fields, extras: Extras): OutputFormat | undefined {
  const format = body.object('response_format')
  if (format === undefined) return undefined
  const type = format.require('type', format.string('type'), "'text', 'json_object' or 'json_schema'")
  if (type === 'text' || type === 'json_object') return { type: type === 'text' ? 'text' : 'json' }
  if (type !== 'json_schema') {
    // Some providers have more formats, such as a grammar or a regular expression.
    extras[format.path] = format.value
    return undefined
  }
  const schema = format.require('json_schema', format.object('json_schema'), 'an object with name and schema')
  return {
    type: 'schema',
    schema: schema.record('schema') ?? {},
    ...present('name', schema.string('name')),
    ...present('description', schema.string('description')),
    ...present('strict', schema.boolean('strict')),
  }
}

const MODALITIES = ['text', 'image', 'audio'] as const

function readModalities(body: Fields, extras: Extras): GenerationRequest['outputModalities'] {
  const requested = body.strings('modalities')
  if (requested === undefined) return undefined
  if (requested.some((kind) => !(MODALITIES as readonly string[]).includes(kind))) extras.modalities = requested
  return MODALITIES.filter((kind) => requested.includes(kind))
}

/** OpenRouter's options of an image; in any other form they are an extra. */
function readImageConfig(body: Fields): GenerationRequest['imageOutput'] {
  const { image_config: options } = body.value
  const isRead =
    isObject(options) &&
    [options.aspect_ratio, options.image_size].every((value) => value === undefined || typeof value === 'string')
  if (!isRead) return undefined
  const config = body.object('image_config')!
  return {
    ...present('aspectRatio', config.string('aspect_ratio')),
    ...present('imageSize', config.string('image_size')),
  }
}

function readWebSearch(body: Fields): WebSearch | undefined {
  const options = body.object('web_search_options')
  if (options === undefined) return undefined
  return {
    ...present('contextSize', options.string('search_context_size')),
    ...present('userLocation', readLocation(options)),
    path: options.path,
  }
}

/** OpenAI has the place in `approximate`; others have it beside the type. */
function readLocation(options: Fields): Record<string, unknown> | undefined {
  const location = options.object('user_location')
  if (location === undefined || !isObject(location.value.approximate)) return location?.whole()
  location.take('type')
  location.record('approximate')
  return location.value
}

/** OpenRouter's tool for the same. */
const isSearch = (tool: Fields): boolean => tool.value.type === 'openrouter:web_search'

function readSearchTool(tool: Fields | undefined, extras: Extras): WebSearch | undefined {
  if (tool === undefined) return undefined
  tool.take('type')
  const parameters = tool.object('parameters')
  const search = {
    ...present('contextSize', parameters?.string('search_context_size')),
    ...present('userLocation', parameters && readLocation(parameters)),
    path: tool.path,
  }
  collectExtras(tool, extras)
  return search
}

/** OpenRouter's plugin for the same. */
function readPlugins(body: Fields, extras: Extras): WebSearch | undefined {
  const plugins = body.value.plugins
  if (!Array.isArray(plugins) || !plugins.some((plugin) => isObject(plugin) && plugin.id === 'web')) return undefined
  let path: string | undefined
  for (const plugin of body.objects('plugins') ?? []) {
    if (plugin.value.id !== 'web') {
      extras[plugin.path] = plugin.value
      continue
    }
    path ??= plugin.path
    plugin.take('id')
  }
  return { path }
}

function readMetadata(body: Fields): Record<string, unknown> | undefined {
  const metadata = body.record('metadata')
  const count = metadata === undefined ? 0 : Object.keys(metadata).length
  if (count > 16) refuseElsewhere(body.extras!, invalid('metadata', `must hold at most 16 pairs, not ${count}`))
  return metadata
}

/** OpenAI's switch for the usage chunk, and OpenRouter's `usage: {include: true}`. */
function readIncludeUsage(body: Fields): boolean | undefined {
  const options = body.object('stream_options')
  const requested = options?.boolean('include_usage')
  const usage = body.value.usage
  if (!isObject(usage)) return requested
  body.take('usage')
  return requested ?? usage.include === true
}

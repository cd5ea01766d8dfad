import { GatewayError } from '../../error.ts'
import type { Effort, GenerationRequest, OutputFormat, Reasoning, ToolChoice } from '../../generation/request.ts'
import { collectExtras, type Extras, Fields, present, tryRead } from '../fields.ts'
import type { RawRequest } from '../protocol.ts'
import { takeRoutingMembers } from '../routing-members.ts'
import { readConversation } from './read-request-messages.ts'
import { readCache, readTools } from './read-request-tools.ts'

/**
 * The body of `POST /v1/messages`. Throws a GatewayError with the path of an invalid field that Sluice needs itself;
 * ranges that vary by model are not checked.
 */
export const readRequest = (rawRequest: RawRequest): GenerationRequest => {
  const fields = fieldsOf(rawRequest)
  const maxOutputTokens = tryRead(readLimit, fields, fields.extras!)
  return { ...read(fields, rawRequest), ...present('maxOutputTokens', maxOutputTokens) }
}

const readLimit = (fields: Fields): number =>
  fields.require(
    'max_tokens',
    fields.integer('max_tokens', { min: 0 }),
    'the largest number of tokens to generate; 0 only fills the cache',
  )

/** The body of `POST /v1/messages/count_tokens`: the same, but `max_tokens` is optional. */
export const readCountRequest = (rawRequest: RawRequest): GenerationRequest => {
  const fields = fieldsOf(rawRequest)
  const maxOutputTokens = fields.integer('max_tokens', { min: 0 })
  return { ...read(fields, rawRequest), ...present('maxOutputTokens', maxOutputTokens) }
}

/** For this exact error code, Anthropic's SDK sends whole conversations instead of a thread kept on the server. */
function fieldsOf(rawRequest: RawRequest): Fields {
  const extras: Extras = Object.create(null)
  const fields = new Fields(rawRequest.body, '', extras)
  if (fields.has('thread')) {
    throw new GatewayError(
      'invalid_request',
      'thread: message threads are not supported; send the full conversation in messages',
      {
        param: 'thread',
        details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
      },
    )
  }
  return fields
}

function read(fields: Fields, rawRequest: RawRequest): GenerationRequest {
  const extras = fields.extras!
  const { needed } = fields
  const model = needed.require('model', needed.string('model'), 'the model, as <provider>/<model>')
  const stream = needed.boolean('stream') ?? false
  const { system, turns } = readConversation(fields, rawRequest, extras)
  const tools = readTools(fields, extras)
  const choice = tryRead((body) => readToolChoice(body, tools, extras), fields, extras)
  const output = readOutput(fields, extras)
  const reasoning = tryRead((body) => readThinking(body, output.effort, extras), fields, extras)
  const metadata = fields.object('metadata')
  const user = metadata?.string('user_id')
  const serviceTier = fields.string('service_tier')
  const request: GenerationRequest = {
    model,
    system,
    turns,
    ...tools,
    ...choice,
    sampling: readSampling(fields),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(output.format === undefined ? {} : { outputFormat: output.format }),
    ...(user === undefined ? {} : { user }),
    ...(serviceTier === undefined ? {} : { serviceTier }),
    ...readCache(fields),
    stream,
    protocol: 'messages',
    extras,
  }
  // Both callers read it; only one of them requires it.
  fields.take('max_tokens')
  takeRoutingMembers(fields)
  collectExtras(fields, extras)
  return request
}

function readSampling(fields: Fields): GenerationRequest['sampling'] {
  const temperature = fields.number('temperature')
  const topP = chosen(fields.number('top_p'))
  const topK = chosen(fields.integer('top_k'))
  const stop = fields.strings('stop_sequences')
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(topK === undefined ? {} : { topK }),
    ...(stop === undefined || stop.length === 0 ? {} : { stop }),
  }
}

/** Anthropic takes -1 for its default, as its first clients sent it; the other providers refuse it. */
const chosen = (value: number | undefined): number | undefined => (value === -1 ? undefined : value)

function readToolChoice(
  fields: Fields,
  { tools, webSearch }: Pick<GenerationRequest, 'tools' | 'webSearch'>,
  extras: Extras,
): { toolChoice?: ToolChoice; parallelTools?: boolean } {
  const choice = fields.object('tool_choice')
  if (choice === undefined) return {}
  const type = choice.require(
    'type',
    choice.oneOf<'auto' | 'any' | 'tool' | 'none'>('type', ['auto', 'any', 'tool', 'none']),
    "one of 'auto', 'any', 'tool', 'none'",
  )
  const single = choice.boolean('disable_parallel_tool_use')
  const parallel = single === undefined ? {} : { parallelTools: !single }
  const name = type === 'tool' ? choice.require('name', choice.string('name'), 'the name of the tool to call') : ''
  const isSearch = webSearch !== undefined && name === 'web_search'
  const isNative = tools.some((tool) => tool.type === 'native' && (tool.value as { name?: unknown }).name === name)
  if (type === 'tool' && isNative && !isSearch) {
    extras.tool_choice = choice.value
    return parallel
  }
  if (type === 'tool' && !isSearch) return { toolChoice: { type, name }, ...parallel }
  return { toolChoice: { type: type === 'any' || type === 'tool' ? 'required' : type }, ...parallel }
}

const EFFORTS: readonly string[] = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'] satisfies Effort[]

/** `output_config`, and the older `output_format` beside it. */
function readOutput(fields: Fields, extras: Extras): { effort?: Effort; format?: OutputFormat } {
  const config = fields.object('output_config')
  const effort = config?.string('effort')
  const format = formatIn(config, 'format', extras) ?? formatIn(fields, 'output_format', extras)
  const known = effort !== undefined && EFFORTS.includes(effort)
  if (effort !== undefined && !known) extras['output_config.effort'] = effort
  return { ...(known ? { effort: effort as Effort } : {}), ...(format === undefined ? {} : { format }) }
}

function formatIn(fields: Fields | undefined, name: string, extras: Extras): OutputFormat | undefined {
  const format = fields?.object(name)
  return format && tryRead(readFormat, format, extras)
}

function readFormat(format: Fields, extras: Extras): OutputFormat | undefined {
  if (format.string('type') !== 'json_schema') {
    extras[format.path] = format.value
    return undefined
  }
  const schema = format.require('schema', format.record('schema'), 'a JSON Schema')
  return { type: 'schema', schema, strict: true }
}

function readThinking(fields: Fields, effort: Effort | undefined, extras: Extras): Reasoning | undefined {
  const thinking = fields.object('thinking')
  const withEffort = effort === undefined ? undefined : { effort }
  if (thinking === undefined) return withEffort
  const type = thinking.require('type', thinking.string('type'), "one of 'enabled', 'disabled', 'adaptive'")
  const budgetTokens = thinking.integer('budget_tokens', { min: 0 })
  const display = thinking.string('display')
  const visible = display === undefined ? {} : { visible: display !== 'omitted' }
  switch (type) {
    case 'enabled':
      return { ...withEffort, ...(budgetTokens === undefined ? { adaptive: true } : { budgetTokens }), ...visible }
    case 'adaptive':
      return { ...withEffort, adaptive: true, ...visible }
    case 'disabled':
      // Without thinking, the effort is that of the response itself, which other protocols do not have.
      if (effort !== undefined) extras['output_config.effort'] = effort
      return { effort: 'none' }
    default:
      extras.thinking = thinking.value
      return withEffort
  }
}

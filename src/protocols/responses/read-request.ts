import { invalid } from '../../error.ts'
import { EFFORTS, type GenerationRequest, type OutputFormat, type Reasoning } from '../../generation/request.ts'
import { collectExtras, type Extras, Fields, present, refuseElsewhere, tryRead } from '../fields.ts'
import type { RawRequest } from '../protocol.ts'
import { takeRoutingMembers } from '../routing-members.ts'
import { readUser } from '../user-ids.ts'
import { compactionRefusal } from './compaction.ts'
import { namespaceNames } from './namespaces.ts'
import { InputReader } from './read-request-input.ts'
import { readTools, readToolChoice } from './read-request-tools.ts'

/**
 * A body -> a generation request. What OpenAI restricts is checked, all other members are kept in `extras`. Throws a
 * GatewayError with the path of an invalid field that Sluice needs itself.
 */
export function readRequest(rawRequest: RawRequest): GenerationRequest {
  const extras: Extras = Object.create(null)
  const body = new Fields(rawRequest.body, '', extras)
  const { needed } = body
  const model = needed.require('model', needed.string('model'), 'the name of a model')
  if (model === '') throw invalid('model', 'must not be empty')
  const stream = needed.boolean('stream') ?? false
  if (rawRequest.compaction === true) checkCompaction(model, stream, extras)
  const names = namespaceNames(rawRequest.body)
  const input = new InputReader(names, extras)
  input.readInstructions(body)
  input.readInput(body, rawRequest)
  const tools = readTools(body, rawRequest, names, extras)
  const request: GenerationRequest = {
    model,
    system: input.reading.system,
    turns: input.reading.turns,
    ...tools,
    ...tryRead((fields) => readToolChoice(fields, names, tools, extras), body, extras),
    ...readReasoning(body, extras),
    ...readText(body, extras),
    ...readMetadata(body, extras),
    sampling: readSampling(body, extras),
    ...present('parallelTools', body.boolean('parallel_tool_calls')),
    ...present('maxOutputTokens', body.integer('max_output_tokens', { min: 1 })),
    stream,
    ...present('compaction', rawRequest.compaction),
    protocol: 'responses',
    extras,
  }
  readState(body, tools, extras)
  takeRoutingMembers(body)
  collectExtras(body, extras)
  return request
}

/** Only a provider of this protocol compacts a conversation, which for others is the work of clients. */
function checkCompaction(model: string, stream: boolean, extras: Extras): void {
  if (stream) throw invalid('stream', 'must be false: a compaction is not streamed')
  refuseElsewhere(extras, compactionRefusal(model))
}

function readReasoning(body: Fields, extras: Extras): Pick<GenerationRequest, 'reasoning'> {
  const fields = body.object('reasoning')
  if (fields === undefined) return {}
  const requested = fields.string('effort')
  const effort = EFFORTS.find((known) => known === requested)
  // Models may have efforts that are not known here.
  if (requested !== undefined && effort === undefined) extras[fields.at('effort')] = requested
  const older = fields.string('generate_summary'),
    summary = fields.string('summary') ?? older
  const reasoning: Reasoning = {
    ...present('effort', effort),
    ...(summary === undefined ? {} : { summary, visible: summary !== 'none' }),
  }
  return Object.keys(reasoning).length === 0 ? {} : { reasoning }
}

function readText(body: Fields, extras: Extras): Pick<GenerationRequest, 'outputFormat' | 'verbosity'> {
  const text = body.object('text')
  if (text === undefined) return {}
  const verbosity = text.oneOf('verbosity', ['low', 'medium', 'high'])
  const format = text.object('format')
  return {
    ...(format === undefined ? {} : present('outputFormat', tryRead(readFormat, format, extras))),
    ...present('verbosity', verbosity),
  }
}

function readFormat(format: Fields, extras: Extras): OutputFormat | undefined {
  const type = format.require('type', format.string('type'), 'text, json_object or json_schema')
  switch (type) {
    case 'text':
    case 'json_object':
      return { type: type === 'text' ? 'text' : 'json' }
    case 'json_schema': {
      const name = format.require('name', format.string('name'), 'a name for the schema')
      const schema = format.require('schema', format.record('schema'), 'a JSON Schema')
      const strict = format.boolean('strict'),
        description = format.string('description')
      return {
        type: 'schema',
        schema,
        name,
        ...present('strict', strict),
        ...present('description', description),
      }
    }
    default:
      extras[format.path] = format.value
      return undefined
  }
}

function readSampling(body: Fields, extras: Extras): GenerationRequest['sampling'] {
  const include = body.strings('include') ?? []
  const topLogprobs = body.integer('top_logprobs', { min: 0 })
  for (const [index, member] of include.entries())
    if (member !== 'reasoning.encrypted_content' && member !== 'message.output_text.logprobs')
      extras[`include[${index}]`] = member
  return {
    ...present('temperature', body.number('temperature')),
    ...present('topP', body.number('top_p')),
    ...(include.includes('message.output_text.logprobs') ? { logprobs: true } : {}),
    ...present('topLogprobs', topLogprobs),
  }
}

type Metadata = Pick<GenerationRequest, 'user' | 'metadata' | 'serviceTier' | 'cacheKey' | 'cacheRetention'>

function readMetadata(body: Fields, extras: Extras): Metadata {
  return {
    ...present('user', readUser(body, extras)),
    ...present('metadata', body.record('metadata')),
    ...present('serviceTier', body.string('service_tier')),
    ...present('cacheKey', body.string('prompt_cache_key')),
    ...present('cacheRetention', body.string('prompt_cache_retention')),
  }
}

/** Fields about stored state, which Sluice keeps for every provider, and those whose default has no effect. */
function readState(body: Fields, { webSearch }: Pick<GenerationRequest, 'webSearch'>, extras: Extras): void {
  const { needed } = body
  const store = needed.boolean('store')
  needed.string('previous_response_id')
  if (needed.boolean('background') === true) {
    if (store === false)
      throw invalid(
        'background',
        'must be false if store is false, since only a stored response can be retrieved later',
      )
    extras.background = true
  }
  const truncation = body.string('truncation')
  if (truncation !== undefined && truncation !== 'disabled') extras.truncation = truncation
  const calls = body.integer('max_tool_calls')
  if (calls !== webSearch?.maxUses) extras.max_tool_calls = calls
}

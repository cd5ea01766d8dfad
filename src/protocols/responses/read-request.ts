import { invalid } from '../../error.ts'
import { unfold, type Answer } from '../../generation/event.ts'
import { EFFORTS, type GenerationRequest, type OutputFormat, type Reasoning } from '../../generation/request.ts'
import { collectExtras, type Extras } from '../extras.ts'
import { Fields, present } from '../fields.ts'
import type { TranslationContext, RawRequest } from '../protocol.ts'
import { flatNames } from './namespaces.ts'
import { InputReader } from './read-request-input.ts'
import { ResponseWriter } from './write-response-stream.ts'
import { readTools, readToolChoice } from './read-request-tools.ts'

/** Wire -> our words (specification: "Responses"). What the document restricts is checked, all else is taken along. */
export function readRequest({ body: rawRequest }: RawRequest): GenerationRequest {
  const body = new Fields(rawRequest)
  const extras: Extras = Object.create(null)
  const model = body.require('model', body.string('model'), 'the name of a model')
  if (model === '') throw invalid('model', 'must not be empty')
  const stream = body.boolean('stream') ?? false
  const names = flatNames(rawRequest)
  const input = new InputReader(names, extras)
  readInstructions(body, input)
  input.read(body, 'input')
  const tools = readTools(body, names, extras)
  const request: GenerationRequest = {
    model,
    system: input.system,
    turns: input.turns,
    ...tools,
    ...readToolChoice(body, names, tools, extras),
    ...readReasoning(body, extras),
    ...readText(body, extras),
    ...readLabels(body, extras),
    sampling: readSampling(body, extras),
    ...present('parallelTools', body.boolean('parallel_tool_calls')),
    ...present('maxOutputTokens', body.integer('max_output_tokens', { min: 1 })),
    stream,
    protocol: 'responses',
    extras,
  }
  readState(body, tools, extras)
  collectExtras(body, extras)
  return request
}

/** A string, or items that stand before the input. */
function readInstructions(body: Fields, input: InputReader): void {
  const value = body.take('instructions')
  if (typeof value === 'string') input.system.push({ type: 'text', text: value })
  else if (value !== undefined && !Array.isArray(value))
    throw invalid('instructions', 'must be a string or an array of items')
  else input.read(body, 'instructions')
}

function readReasoning(body: Fields, extras: Extras): Pick<GenerationRequest, 'reasoning'> {
  const rawRequest = body.object('reasoning')
  if (rawRequest === undefined) return {}
  const wish = rawRequest.string('effort')
  const effort = EFFORTS.find((known) => known === wish)
  // Which words a model knows is its own affair.
  if (wish !== undefined && effort === undefined) extras[rawRequest.at('effort')] = wish
  const older = rawRequest.string('generate_summary'),
    summary = rawRequest.string('summary') ?? older
  collectExtras(rawRequest, extras)
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
  collectExtras(text, extras)
  return {
    ...(format === undefined ? {} : present('outputFormat', readFormat(format, extras))),
    ...present('verbosity', verbosity),
  }
}

function readFormat(format: Fields, extras: Extras): OutputFormat | undefined {
  const type = format.require('type', format.string('type'), 'text, json_object or json_schema')
  switch (type) {
    case 'text':
      return { type: 'text' }
    case 'json_object':
      return { type: 'json' }
    case 'json_schema': {
      const name = format.require('name', format.string('name'), 'a name for the schema')
      const schema = format.require('schema', format.object('schema'), 'a JSON Schema')
      const strict = format.boolean('strict'),
        description = format.string('description')
      return {
        type: 'schema',
        schema: schema.value,
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
  for (const [index, wish] of include.entries())
    if (wish !== 'reasoning.encrypted_content' && wish !== 'message.output_text.logprobs')
      extras[`include[${index}]`] = wish
  return {
    ...present('temperature', body.number('temperature')),
    ...present('topP', body.number('top_p')),
    ...(include.includes('message.output_text.logprobs') ? { logprobs: true } : {}),
    ...present('topLogprobs', topLogprobs),
  }
}

type Labels = Pick<GenerationRequest, 'user' | 'metadata' | 'serviceTier' | 'cacheKey' | 'cacheRetention'>

function readLabels(body: Fields, extras: Extras): Labels {
  const user = body.string('user'),
    safety = body.string('safety_identifier')
  if (user !== undefined && safety !== undefined && user !== safety) extras.safety_identifier = safety
  return {
    ...present('user', user ?? safety),
    ...present('metadata', body.object('metadata')?.value),
    ...present('serviceTier', body.string('service_tier')),
    ...present('cacheKey', body.string('prompt_cache_key')),
    ...present('cacheRetention', body.string('prompt_cache_retention')),
  }
}

/** Fields about state, which is kept here for every provider, and those whose default asks for nothing. */
function readState(body: Fields, { webSearch }: Pick<GenerationRequest, 'webSearch'>, extras: Extras): void {
  const store = body.boolean('store')
  body.string('previous_response_id')
  if (body.boolean('background') === true) {
    if (store === false)
      throw invalid('background', 'must be false with store: false, as only a stored response can be asked for later')
    extras.background = true
  }
  const truncation = body.string('truncation')
  if (truncation !== undefined && truncation !== 'disabled') extras.truncation = truncation
  const calls = body.integer('max_tool_calls')
  if (calls !== webSearch?.maxUses) extras.max_tool_calls = calls
}

/** A whole answer -> the response object: the one with which its stream would have ended. */
export function writeAnswer(answer: Answer, context: TranslationContext): object {
  const writer = new ResponseWriter(context)
  for (const event of unfold(answer)) writer.write(event)
  return writer.response
}

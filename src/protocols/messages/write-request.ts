import { GatewayError, invalid } from '../../error.ts'
import type { Translation } from '../translation.ts'
import type { SettingName } from '../request-paths.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import type { GenerationRequest, OutputFormat } from '../../generation/request.ts'
import { limitBreakpoints, breakpointOf } from '../cache-breakpoints.ts'
import { samples } from '../capabilities.ts'
import type { Target, RawRequest, WrittenRequest } from '../protocol.ts'
import { loseSettings } from '../unsupported-settings.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import { loseToolChoice } from '../tool-choice.ts'
import { isObject } from '../fields.ts'
import { mayThink, writeConversation } from './write-request-messages.ts'
import { type Depth, writeDepth } from './write-request-reasoning.ts'
import { errorOf } from './read-error.ts'
import { outputSchema } from './schema.ts'
import { reader } from './read-response.ts'
import { ToolNames } from '../tool-names.ts'
import { ANTHROPIC_NAMES, writeToolChoice, writeTools } from './write-request-tools.ts'
import type { Json } from './shapes.ts'

export const path = (): string => '/messages'

/**
 * The version that the client speaks (`compat-version` is another name of it) and the betas it asks for are passed on.
 */
export function headers(rawRequest: RawRequest | undefined): Record<string, string> {
  const beta = given(rawRequest, 'anthropic-beta')
  return {
    'anthropic-version': given(rawRequest, 'anthropic-version') ?? given(rawRequest, 'compat-version') ?? '2023-06-01',
    ...(beta === undefined ? {} : { 'anthropic-beta': beta }),
  }
}

function given(rawRequest: RawRequest | undefined, name: string): string | undefined {
  const value = rawRequest?.headers.get(name) ?? undefined
  if (value !== undefined && !/^[\t\x20-\x7e]*$/.test(value)) throw invalid(name, 'must be ASCII')
  return value
}

const UNKNOWN = 'the provider has no such parameter'

export function writeRequest(translation: Translation): Json {
  const { request, target } = translation
  const modality = request.outputModalities?.find((wanted) => wanted !== 'text')
  if (modality !== undefined)
    throw new GatewayError('unsupported_parameter', `the model answers in text only, not with ${modality}`, {
      param: 'outputModalities',
    })
  const names = new ToolNames(translation, ANTHROPIC_NAMES)
  const { system, messages } = writeConversation(request, target, names, translation)
  const tools = writeTools(request, names, translation)
  const depth = writeDepth(request, target, mayThink(messages), translation)
  const thinks = depth.thinking !== undefined && depth.thinking.type !== 'disabled'
  const toolChoice = tools.length === 0 ? undefined : writeToolChoice(request, target, names, thinks, translation)
  if (tools.length === 0) loseToolChoice(translation)
  limitBreakpoints([...tools, ...system, ...messages.flatMap(({ content }) => content)], translation)
  const { logprobs, topLogprobs = 0 } = request.sampling
  loseSettings(
    translation,
    [
      'frequencyPenalty',
      'presencePenalty',
      'seed',
      'logitBias',
      'verbosity',
      'imageOutput',
      'metadata',
      'cacheKey',
      'cacheRetention',
      'reasoning.summary',
    ],
    'unsupported_field',
    UNKNOWN,
  )
  if (logprobs === true || topLogprobs > 0) translation.lose('todo_dropped', translation.setting('logprobs'), UNKNOWN)
  const body: Json = {
    model: target.model,
    max_tokens: depth.maxTokens,
    ...(system.length === 0 ? {} : { system }),
    messages,
    ...(tools.length === 0 ? {} : { tools }),
    ...(toolChoice === undefined ? {} : { tool_choice: toolChoice }),
    ...(depth.thinking === undefined ? {} : { thinking: depth.thinking }),
    ...writeOutputConfig(request.outputFormat, depth, translation),
    ...writeSampling(request, target, thinks, translation),
    ...(request.user === undefined ? {} : { metadata: { user_id: request.user } }),
    ...writeServiceTier(request.serviceTier, translation),
    ...breakpointOf(request, 'cache_control'),
    ...(request.stream ? { stream: true } : {}),
  }
  return body
}

function writeOutputConfig(format: OutputFormat | undefined, { effort }: Depth, translation: Translation): Json {
  const wanted =
    format?.type === 'schema'
      ? { format: { type: 'json_schema', schema: outputSchema(format.schema, translation) } }
      : {}
  // A schema that allows any object does not exist here (objects are closed), and we do not write prompts for the
  // client.
  if (format?.type === 'json')
    translation.lose('todo_dropped', translation.setting('outputFormat'), 'the provider knows JSON only with a schema')
  if (format?.type === 'enum') throw translation.bareEnum()
  const config = { ...(effort === undefined ? {} : { effort }), ...wanted }
  return Object.keys(config).length === 0 ? {} : { output_config: config }
}

function writeSampling(
  { sampling }: GenerationRequest,
  { capabilities }: Target,
  thinks: boolean,
  translation: Translation,
): Json {
  const stop = (sampling.stop ?? []).filter((text) => text.trim() !== '')
  if (stop.length < (sampling.stop?.length ?? 0))
    loseStopSequences(translation, 'the provider refuses stop sequences of nothing but space')
  const stops = stop.length === 0 ? {} : { stop_sequences: stop }
  const { temperature, topP, topK } = sampling
  if (!samples(capabilities, thinks)) {
    for (const field of ['temperature', 'topP', 'topK'] as const)
      if (sampling[field] !== undefined)
        translation.lose(
          'todo_dropped',
          translation.setting(field as SettingName),
          'the model takes no sampling parameters',
        )
    return stops
  }
  if (!thinks) {
    const both = capabilities.sampling === 'either' && temperature !== undefined && topP !== undefined && topP !== 1
    if (both)
      translation.lose('todo_dropped', translation.setting('topP'), 'the model takes a temperature or top_p, not both')
    if (temperature !== undefined && temperature > 1)
      translation.lose(
        'todo_approximated',
        translation.setting('temperature'),
        "the provider's highest temperature is 1",
      )
    return {
      ...(temperature === undefined ? {} : { temperature: Math.min(temperature, 1) }),
      ...(both ? {} : writeTopP(topP, 0)),
      ...(topK === undefined ? {} : { top_k: topK }),
      ...stops,
    }
  }
  if (temperature !== undefined && temperature !== 1)
    translation.lose('todo_dropped', translation.setting('temperature'), 'the model thinks at temperature 1 only')
  if (topK !== undefined)
    translation.lose('todo_dropped', translation.setting('topK'), 'the model takes no top_k while it thinks')
  if (topP !== undefined && topP < 0.95)
    translation.lose('todo_dropped', translation.setting('topP'), 'the model takes no top_p below 0.95 while it thinks')
  return { ...writeTopP(topP, 0.95), ...stops }
}

/** 1 means nothing and is not sent: newer models refuse it beside a temperature. */
const writeTopP = (topP: number | undefined, least: number): Json =>
  topP === undefined || topP === 1 || topP < least ? {} : { top_p: topP }

function writeServiceTier(tier: string | undefined, translation: Translation): Json {
  if (tier === undefined) return {}
  if (tier === 'auto' || tier === 'standard_only') return { service_tier: tier }
  if (tier === 'default') return { service_tier: 'standard_only' }
  translation.lose('todo_dropped', translation.setting('serviceTier'), `the provider has no tier '${tier}'`)
  return {}
}

/** A message object -> events; an error object that came with status 200 is thrown as what it says. */
export function readAnswer(body: unknown): GenerationEvent[] {
  if (isObject(body) && Array.isArray(body.content)) return [...reader().whole(body)]
  if (isObject(body) && (body.type === 'error' || body.error !== undefined)) throw errorOf(body)
  throw new GatewayError('upstream_error', 'The provider answered with something that is not a message.')
}

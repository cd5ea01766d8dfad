import { invalid } from '../../error.ts'
import type { OutputFormat } from '../../generation/request.ts'
import { breakpointOf, limitBreakpoints } from '../cache-breakpoints.ts'
import { acceptsSampling } from '../capabilities.ts'
import { present } from '../fields.ts'
import type { RawRequest } from '../protocol.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import { loseToolChoice, preferForcedCall } from '../tool-choice.ts'
import { ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import { loseSettings } from '../unsupported-settings.ts'
import { MCP } from './hosted-tools.ts'
import { outputSchema } from './schema.ts'
import type { Json } from './shapes.ts'
import { allowsThinking, writeConversation } from './write-request-messages.ts'
import { writeReasoning } from './write-request-reasoning.ts'
import { ANTHROPIC_NAMES, forcedToolsOf, writeToolChoice, writeTools } from './write-request-tools.ts'

export const path = (): string => '/messages'

/** The client's version (`compat-version` is another name of it) and betas are passed on. */
export function headers(rawRequest: RawRequest | undefined): Record<string, string> {
  const beta = headerOf(rawRequest, 'anthropic-beta')
  const version = headerOf(rawRequest, 'anthropic-version') ?? headerOf(rawRequest, 'compat-version')
  return { 'anthropic-version': version ?? '2023-06-01', ...present('anthropic-beta', beta) }
}

function headerOf(rawRequest: RawRequest | undefined, name: string): string | undefined {
  const value = rawRequest?.headers.get(name) ?? undefined
  if (value !== undefined && !/^[\t\x20-\x7e]*$/.test(value)) throw invalid(name, 'must be ASCII')
  return value
}

/** Throws a GatewayError with the path of what this protocol cannot represent. */
export function writeRequest(translation: Translation): Json {
  const { request, target } = translation
  const modality = request.outputModalities?.find((requested) => requested !== 'text')
  if (modality !== undefined)
    throw translation.refusal(translation.setting('outputModalities'), `the model responds with text, not ${modality}`)
  const names = new ToolNames(translation, ANTHROPIC_NAMES)
  const { system, messages } = writeConversation(names, translation)
  const { tools, servers } = writeTools(names, translation)
  const preferred = preferForcedCall(
    request,
    { ...target.capabilities, forcedTools: forcedToolsOf(target.capabilities) },
    false,
    translation,
  )
  const { maxTokens, thinking, effort } = writeReasoning(preferred, allowsThinking(messages), translation)
  const reasons = thinking !== undefined && thinking.type !== 'disabled'
  const toolChoice = tools.length === 0 ? undefined : writeToolChoice(names, reasons, translation)
  if (tools.length === 0) loseToolChoice(translation)
  const [limitedTools, limitedSystem, limitedMessages] = limitBreakpoints(
    [tools, system, messages] as const,
    translation,
  )
  loseUnsupported(translation)
  return {
    model: target.model,
    max_tokens: maxTokens,
    ...(system.length === 0 ? {} : { system: limitedSystem }),
    messages: limitedMessages,
    ...(tools.length === 0 ? {} : { tools: limitedTools }),
    ...(servers.length === 0 ? {} : { [MCP.member]: servers }),
    ...present('tool_choice', toolChoice),
    ...present('thinking', thinking),
    ...writeOutputConfig(request.outputFormat, effort, translation),
    ...writeSampling(reasons, translation),
    ...(request.user === undefined ? {} : { metadata: { user_id: request.user } }),
    ...writeServiceTier(request.serviceTier, translation),
    ...breakpointOf(request, 'cache_control'),
    ...(request.stream ? { stream: true } : {}),
  }
}

function loseUnsupported(translation: Translation): void {
  const { logprobs, topLogprobs = 0 } = translation.request.sampling
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
  )
  if (logprobs === true || topLogprobs > 0)
    translation.lose('unsupported_field', translation.setting(logprobs === true ? 'logprobs' : 'topLogprobs'))
}

function writeOutputConfig(
  format: OutputFormat | undefined,
  effort: string | undefined,
  translation: Translation,
): { output_config?: Json } {
  if (format?.type === 'enum') throw translation.plainEnumRefusal()
  const config = {
    ...present('effort', effort),
    ...(format?.type === 'schema'
      ? { format: { type: 'json_schema', schema: outputSchema(format, translation) } }
      : {}),
  }
  return Object.keys(config).length === 0 ? {} : { output_config: config }
}

function writeSampling(reasons: boolean, translation: Translation): Json {
  const { request, target } = translation
  const { sampling } = request
  const stop = (sampling.stop ?? []).filter((text) => text.trim() !== '')
  if (stop.length < (sampling.stop?.length ?? 0))
    loseStopSequences(translation, 'the provider does not accept stop sequences of whitespace')
  const stops = stop.length === 0 ? {} : { stop_sequences: stop }
  if (!acceptsSampling(target.capabilities, reasons)) {
    loseSettings(translation, ['temperature', 'topP', 'topK'], 'unsupported_by_model')
    return stops
  }
  return { ...(reasons ? writeSamplingOfReasoning(translation) : writePlainSampling(translation)), ...stops }
}

function writePlainSampling(translation: Translation): Json {
  const { temperature, topP, topK } = translation.request.sampling
  const { sampling } = translation.target.capabilities
  const onlyTemperature = sampling === 'either' && temperature !== undefined && topP !== undefined && topP !== 1
  if (onlyTemperature)
    translation.lose(
      'unsupported_combination',
      translation.setting('topP'),
      'the model accepts temperature or top_p, not both',
    )
  if (temperature !== undefined && temperature > 1)
    translation.lose('value_adjusted', translation.setting('temperature'), 'the provider accepts at most 1')
  return {
    ...(temperature === undefined ? {} : { temperature: Math.min(temperature, 1) }),
    ...(onlyTemperature ? {} : writeTopP(topP, 0)),
    ...present('top_k', topK),
  }
}

/** A reasoning model accepts no other temperature than 1, no top_k, and top_p from 0.95. */
function writeSamplingOfReasoning(translation: Translation): Json {
  const { temperature, topP, topK } = translation.request.sampling
  if (temperature !== undefined && temperature !== 1)
    translation.lose(
      'unsupported_combination',
      translation.setting('temperature'),
      'the model accepts only 1 while it reasons',
    )
  if (topK !== undefined)
    translation.lose(
      'unsupported_combination',
      translation.setting('topK'),
      'the model does not accept it while it reasons',
    )
  if (topP !== undefined && topP < 0.95)
    translation.lose(
      'unsupported_combination',
      translation.setting('topP'),
      'the model accepts at least 0.95 while it reasons',
    )
  return writeTopP(topP, 0.95)
}

/** The default, 1, is not sent: newer models refuse it beside a temperature. */
const writeTopP = (topP: number | undefined, least: number): Json =>
  topP === undefined || topP === 1 || topP < least ? {} : { top_p: topP }

function writeServiceTier(tier: string | undefined, translation: Translation): Json {
  if (tier === undefined) return {}
  if (tier === 'auto' || tier === 'standard_only') return { service_tier: tier }
  if (tier === 'default' || tier === 'standard') return { service_tier: 'standard_only' }
  translation.lose(
    'unsupported_by_provider',
    translation.setting('serviceTier'),
    `the provider has no service tier '${tier}'`,
  )
  return {}
}

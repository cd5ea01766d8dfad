import type { GenerationRequest } from '../../generation/request.ts'
import { openaiTier } from '../../generation/service-class.ts'
import { breakpointOf, limitBreakpoints, loseBreakpoints } from '../cache-breakpoints.ts'
import { acceptsSampling, limitOutputTokens } from '../capabilities.ts'
import { present, snakeCase } from '../fields.ts'
import { withImageOutput, imageConfigOf } from '../image-config.ts'
import { REFUSABLE, type Quirks } from '../quirks.ts'
import type { SettingName } from '../request-paths.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import { preferForcedCall } from '../tool-choice.ts'
import { OPENAI_NAMES, ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import { writeUserIds } from '../user-ids.ts'
import { loseCitations, loseSearchOptions, locationFields } from '../web-search.ts'
import type { Json } from './shapes.ts'
import { writeFormat } from './write-request-format.ts'
import { MessagesWriter } from './write-request-messages.ts'
import { mayReason, writeReasoning } from './write-request-reasoning.ts'
import { writeTools } from './write-request-tools.ts'

/**
 * A `POST /chat/completions` body for this target. Throws a GatewayError with the path of a value that the protocol
 * cannot represent.
 */
export function writeRequest(translation: Translation): Json {
  const { target } = translation
  const { quirks, capabilities } = target
  const request = withImageOutput(translation.request, target)
  loseCitations(translation)
  const names = new ToolNames(translation, OPENAI_NAMES)
  const format = writeFormat(request, translation)
  const messages = new MessagesWriter(translation, names).write([...request.system, ...format.instructions])
  if (messages.length === 0) throw translation.emptyConversation()
  const reasoning = writeReasoning(preferForcedCall(request, capabilities, true, translation), translation)
  const reasons = mayReason(reasoning)
  const body: Json = {
    model: target.model,
    messages,
    ...(request.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...present(
      quirks.maxTokensField ?? 'max_tokens',
      limitOutputTokens(request.maxOutputTokens, capabilities, translation),
    ),
    ...writeSampling(request, reasons, translation),
    ...writeTools(request, reasons, names, translation),
    ...reasoning,
    ...format.field,
    ...writeModalities(request, translation),
    ...present('verbosity', request.verbosity),
    ...writeWebSearch(request, translation),
    ...writeIdentity(request, translation),
    ...(capabilities.cacheBreakpoints === 'cache_control' ? breakpointOf(request, 'cache_control') : {}),
  }
  removeRefused(body, quirks, translation)
  loseBreakpoints(translation, capabilities.cacheBreakpoints)
  if (capabilities.cacheBreakpoints === undefined) return body
  const tools = Array.isArray(body.tools) ? (body.tools as Json[]) : []
  const [limitedTools, limitedMessages] = limitBreakpoints([tools, messages] as const, translation)
  return { ...body, messages: limitedMessages, ...(tools.length === 0 ? {} : { tools: limitedTools }) }
}

/** Removes the fields that the provider refuses. */
function removeRefused(body: Json, { refuses = [] }: Quirks, translation: Translation): void {
  for (const name of refuses) {
    const field = REFUSABLE[name]
    if (field !== null && body[name] !== undefined)
      translation.lose('unsupported_by_provider', translation.setting(field as SettingName))
    delete body[name]
  }
}

/** Stop sequences that the protocol accepts, for models whose own number is not known. */
const STOP_MAX = 4

function writeSampling({ sampling }: GenerationRequest, reasons: boolean, translation: Translation): Json {
  const { quirks, capabilities } = translation.target
  const { topK, seed, stop, temperature, topP, frequencyPenalty, presencePenalty, logitBias, logprobs, topLogprobs } =
    sampling
  if (topK !== undefined) translation.lose('unsupported_field', translation.setting('topK'))
  const chosen = { temperature, topP, frequencyPenalty, presencePenalty, logitBias, logprobs, topLogprobs }
  const written: Json = {}
  for (const field of Object.keys(chosen) as (keyof typeof chosen)[]) {
    if (chosen[field] === undefined) continue
    const refused =
      !acceptsSampling(capabilities, reasons) || (capabilities.penalties === false && field.endsWith('Penalty'))
    if (refused) translation.lose('unsupported_by_model', translation.setting(field))
    else written[snakeCase(field)] = chosen[field]
  }
  // OpenAI accepts a number of alternatives only together with `logprobs`.
  if (written.top_logprobs !== undefined && written.logprobs === undefined) written.logprobs = true
  if (seed !== undefined) written[quirks.seedField ?? 'seed'] = seed
  if (stop !== undefined && stop.length > 0) Object.assign(written, writeStop(stop, translation))
  return written
}

function writeStop(stop: string[], translation: Translation): Json {
  const { stops = STOP_MAX } = translation.target.capabilities
  if (stop.length > stops)
    loseStopSequences(
      translation,
      stops === 0
        ? 'the model does not accept stop sequences'
        : `the provider accepts ${stops} stop sequences and gets the first ones`,
    )
  return stops > 0 ? { stop: stop.slice(0, stops) } : {}
}

function writeModalities(request: GenerationRequest, translation: Translation): Json {
  const { output } = translation.target.capabilities
  const { outputModalities: requested = ['text'] } = request
  if (requested.includes('audio'))
    throw translation.refusal(
      translation.setting('outputModalities'),
      'audio output is not available: chat completions requires a voice and a format, which this request does not have',
    )
  const config = imageConfigOf(request, translation)
  // A model that makes only images refuses a request for text; all others require one.
  const hasText = output?.includes('text') !== false
  if (hasText && requested.includes('image') && !requested.includes('text'))
    translation.lose(
      'value_adjusted',
      translation.setting('outputModalities'),
      'the provider makes images only beside text',
    )
  return {
    ...(requested.includes('image') ? { modalities: hasText ? ['text', 'image'] : ['image'] } : {}),
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
  const approximate = locationFields(webSearch)
  return {
    web_search_options: {
      ...present('search_context_size', webSearch.contextSize),
      ...(approximate === undefined ? {} : { user_location: { type: 'approximate', approximate } }),
    },
  }
}

const SERVICE_TIERS = ['auto', 'default', 'flex', 'scale', 'priority', 'fast']
const METADATA_MAX = 16

/** User, cache key, service tier and metadata. */
function writeIdentity(request: GenerationRequest, translation: Translation): Json {
  const { cacheRetention, serviceTier, metadata = {} } = request
  const written: Json = { ...writeUserIds(translation), ...present('prompt_cache_retention', cacheRetention) }
  if (serviceTier !== undefined) {
    const tier = openaiTier(serviceTier)
    if (tier !== undefined && SERVICE_TIERS.includes(tier)) written.service_tier = tier
    else
      translation.lose(
        'unsupported_by_provider',
        translation.setting('serviceTier'),
        `the provider has no service tier '${serviceTier}'`,
      )
  }
  const pairs = Object.entries(metadata)
  const texts = pairs.filter(([, value]) => typeof value === 'string').slice(0, METADATA_MAX)
  if (texts.length < pairs.length)
    translation.lose(
      'value_adjusted',
      translation.setting('metadata'),
      `only the first ${METADATA_MAX} pairs with a text value are sent`,
    )
  if (texts.length > 0) written.metadata = Object.fromEntries(texts)
  return written
}

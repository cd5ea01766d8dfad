import { randomBytes } from 'node:crypto'
import type { GatewayError } from '../../error.ts'
import type { FinishReason } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import {
  cachedTokens,
  completionTokens,
  count,
  countSearches,
  isCount,
  promptTokens,
  type Usage,
} from '../../generation/usage.ts'
import { isObject, stringOf, objectOf, objectsOf } from '../../json/parse.ts'
import type { TextOffsets } from '../offsets.ts'

/** A JSON object whose members are not checked yet. */
export type Json = Record<string, unknown>

/** An item id with the prefix that clients and providers expect; 128 random bits make it unique across responses. */
export const newId = (prefix: 'msg' | 'rs' | 'fc' | 'ctc' | 'tsc' | 'ig' | 'ci' | 'mcp' | 'item'): string =>
  `${prefix}_${randomBytes(16).toString('hex')}`

/** Why a response is `incomplete`; every other reason is `completed`, tool calls included. */
export const INCOMPLETE: Partial<Record<FinishReason, 'max_output_tokens' | 'content_filter'>> = {
  length: 'max_output_tokens',
  'content-filter': 'content_filter',
  refusal: 'content_filter',
}

/** `incomplete_details.reason` as a finish reason. A response without one was cut too. */
export const readIncomplete = (reason: string): FinishReason =>
  reason === 'max_output_tokens' || reason === 'max_tokens' || reason === ''
    ? 'length'
    : reason === 'content_filter'
      ? 'content-filter'
      : 'other'

/**
 * `usage` of a response -> usage buckets; undefined where there is none, without output tokens where it has none.
 * `searches`: web searches among the items, used where the provider gives no number of its own.
 */
export function readUsage(response: Json, searches: number): Partial<Usage> | undefined {
  const usage = readOwnUsage(response, searches)
  const tool = readImageToolUsage(objectOf(response.tool_usage).image_gen)
  return usage === undefined && tool === undefined ? undefined : { ...usage, ...tool }
}

/** Tokens of the image model that the tool drew with, which no other counts include; undefined where it did not. */
function readImageToolUsage(usage: unknown): Partial<Usage> | undefined {
  const { input_tokens, output_tokens, input_tokens_details, output_tokens_details } = objectOf(usage)
  const [seen, drawn] = [count(objectOf(input_tokens_details).image_tokens), objectOf(output_tokens_details)]
  const [input, output] = [Math.max(count(input_tokens), seen), count(output_tokens)]
  if (input + output === 0) return undefined
  const written = Math.min(count(drawn.text_tokens), output)
  return {
    imageToolInputTokens: input - seen,
    imageToolInputImageTokens: seen,
    imageToolOutputTokens: written,
    imageToolOutputImageTokens: output - written,
  }
}

/** The model of the image tool in a response, which has the tools of its request; undefined where it names none. */
export function readImageModel(response: Json): string | undefined {
  const tool = objectsOf(response.tools).find(({ type }) => type === 'image_generation')
  return typeof tool?.model === 'string' && tool.model !== '' ? tool.model : undefined
}

function readOwnUsage(response: Json, searches: number): Partial<Usage> | undefined {
  const usage = response.usage
  if (!isObject(usage) || (!isCount(usage.input_tokens) && !isCount(usage.output_tokens))) return undefined
  const inputDetails = objectOf(usage.input_tokens_details),
    outputDetails = objectOf(usage.output_tokens_details)
  const [input, output, total] = [count(usage.input_tokens), count(usage.output_tokens), count(usage.total_tokens)]
  const [cached, written, reasoning] = [
    count(inputDetails.cached_tokens),
    count(inputDetails.cache_write_tokens),
    count(outputDetails.reasoning_tokens),
  ]
  // OpenAI's sums include their details; a compatible server whose sums do not is known by its total, or by details
  // above the sum.
  const inputExcludesDetails = cached + written > input || total === input + cached + written + output
  const outputExcludesDetails = reasoning > output || total === input + output + reasoning
  const [uncached, visible] = [
    inputExcludesDetails ? input : input - cached - written,
    outputExcludesDetails ? output : output - reasoning,
  ]
  const [audioInput, audioOutput] = [
    Math.min(count(inputDetails.audio_tokens), uncached),
    Math.min(count(outputDetails.audio_tokens), visible),
  ]
  const imageInput = Math.min(count(inputDetails.image_tokens), uncached - audioInput)
  return {
    inputTokens: uncached - audioInput - imageInput,
    cacheReadTokens: cached,
    cacheWrite5mTokens: written,
    ...(audioInput > 0 ? { inputAudioTokens: audioInput } : {}),
    ...(imageInput > 0 ? { inputImageTokens: imageInput } : {}),
    ...(isCount(usage.output_tokens) ? { outputTokens: visible - audioOutput } : {}),
    reasoningTokens: reasoning,
    ...(audioOutput > 0 ? { outputAudioTokens: audioOutput } : {}),
    webSearches: reportedSearches(response, usage, inputDetails) ?? searches,
  }
}

function reportedSearches(response: Json, usage: Json, inputDetails: Json): number | undefined {
  const reported =
    objectOf(objectOf(response.tool_usage).web_search).num_requests ??
    searchesOfXai(objectOf(usage.server_side_tool_usage_details)) ??
    inputDetails.web_search
  return reported === undefined || reported === null ? undefined : countSearches(reported)
}

/** Searches of the web and of X have one price. */
const searchesOfXai = ({ web_search_calls: web, x_search_calls: x }: Json): number | undefined =>
  isCount(web) || isCount(x) ? count(web) + count(x) : undefined

/** Usage -> `usage` with all details, since one client fails on details without some member. */
export const writeUsage = (usage: Usage): Json => ({
  input_tokens: promptTokens(usage),
  input_tokens_details: {
    cached_tokens: cachedTokens(usage),
    cache_write_tokens: usage.cacheWrite5mTokens + usage.cacheWrite1hTokens,
    web_search: usage.webSearches,
  },
  output_tokens: completionTokens(usage),
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: promptTokens(usage) + completionTokens(usage),
})

/** An annotation of an `output_text` part -> a citation of its text. */
export function readAnnotation(annotation: Json, text: TextOffsets): Citation {
  const title = annotation.title ?? annotation.filename
  return {
    ...(typeof annotation.url === 'string' ? { url: annotation.url } : {}),
    ...(typeof title === 'string' && title !== '' ? { title } : {}),
    ...text.fromProtocol(annotation.start_index, annotation.end_index),
    native: annotation,
  }
}

/** Annotations of this protocol; citations of others have members of the same names. */
const ANNOTATIONS: readonly unknown[] = ['url_citation', 'file_citation', 'container_file_citation', 'file_path']

/**
 * A citation of a text -> an annotation of one of the document's types. One without a URL points into a file of the
 * request.
 */
export function writeAnnotation({ native, url, title = '', start = 0, end }: Citation, text: TextOffsets): Json {
  const own = objectOf(native)
  if (
    ANNOTATIONS.includes(own.type) &&
    (typeof own.file_id === 'string' || (typeof own.url === 'string' && typeof own.end_index === 'number'))
  )
    return own
  if (url === undefined) return { type: 'file_citation', file_id: '', filename: title, index: 0 }
  return {
    type: 'url_citation',
    url,
    title,
    start_index: text.toProtocol(start),
    end_index: end === undefined ? text.length : text.toProtocol(end),
  }
}

export function readLogprobs(logprobs: unknown): TokenLogprob[] | undefined {
  const found = objectsOf(logprobs).map((entry) => ({
    ...readToken(entry),
    ...(Array.isArray(entry.top_logprobs) ? { top: objectsOf(entry.top_logprobs).map(readToken) } : {}),
  }))
  return found.length === 0 ? undefined : found
}

const readToken = (entry: Json): { token: string; logprob: number; bytes?: number[] | null } => ({
  token: stringOf(entry.token),
  logprob: typeof entry.logprob === 'number' ? entry.logprob : 0,
  ...(Array.isArray(entry.bytes)
    ? { bytes: entry.bytes.filter((byte): byte is number => typeof byte === 'number') }
    : {}),
})

export const writeLogprobs = (logprobs: TokenLogprob[] | undefined): Json[] =>
  (logprobs ?? []).map((entry) => ({ ...writeToken(entry), top_logprobs: (entry.top ?? []).map(writeToken) }))

const writeToken = (entry: { token: string; logprob: number; bytes?: number[] | null }): Json => ({
  token: entry.token,
  logprob: entry.logprob,
  bytes: entry.bytes ?? [...Buffer.from(entry.token)],
})

/** Error codes on which clients of this protocol wait, retry or give up. */
export function failureCode(error: GatewayError): string {
  switch (error.code) {
    case 'rate_limit_exceeded':
    case 'upstream_rate_limited':
      return 'rate_limit_exceeded'
    case 'quota_exceeded':
    case 'insufficient_credit':
      return 'insufficient_quota'
    case 'context_length_exceeded':
      return 'context_length_exceeded'
    case 'overloaded':
    case 'store_unavailable':
      return 'server_is_overloaded'
    case 'invalid_request':
    case 'unsupported_parameter':
      return 'invalid_prompt'
    default:
      return 'server_error'
  }
}

/** The message of a failed response. A known wait is in the phrase that clients search for. */
export const failureMessage = (error: GatewayError): string =>
  error.retryAfterSeconds === undefined || error.message.includes('try again in')
    ? error.message
    : `${error.message} Please try again in ${error.retryAfterSeconds}s.`

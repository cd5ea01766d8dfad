import { randomBytes } from 'node:crypto'
import type { GatewayError } from '../../error.ts'
import type { FinishReason } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import { completionTokens, count, countSearches, isCount, promptTokens, type Usage } from '../../generation/usage.ts'
import { isObject } from '../fields.ts'
import type { Offsets } from '../offsets.ts'

/** An object of the wire whose members nobody has checked yet. */
export type Json = Record<string, unknown>
export const objectOf = (value: unknown): Json => (isObject(value) ? value : {})
export const arrayOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
export const objectsOf = (value: unknown): Json[] => arrayOf(value).filter(isObject)
export const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/**
 * An item id with the prefix that replaying clients and providers expect: 128 random bits, so that ids are unique
 * across answers.
 */
export const newId = (prefix: 'msg' | 'rs' | 'fc' | 'ctc' | 'ig' | 'item'): string =>
  `${prefix}_${randomBytes(16).toString('hex')}`

/** Why a response is `incomplete`; every other reason is `completed`, tool calls included. */
export const INCOMPLETE: Partial<Record<FinishReason, 'max_output_tokens' | 'content_filter'>> = {
  length: 'max_output_tokens',
  'content-filter': 'content_filter',
  refusal: 'content_filter',
}

/** `incomplete_details.reason` in our words. */
export const readIncomplete = (reason: string): FinishReason =>
  reason === 'max_output_tokens' || reason === 'max_tokens'
    ? 'length'
    : reason === 'content_filter'
      ? 'content-filter'
      : 'other'

/**
 * `usage` of a response -> our buckets; undefined where there is none, without output where it does not say that.
 * `searches`: web searches seen among the items, used where
 * the provider gives no number of its own.
 */
export function readUsage(response: Json, searches: number): Partial<Usage> | undefined {
  const rawRequest = response.usage
  if (!isObject(rawRequest) || (!isCount(rawRequest.input_tokens) && !isCount(rawRequest.output_tokens)))
    return undefined
  const into = objectOf(rawRequest.input_tokens_details),
    out = objectOf(rawRequest.output_tokens_details)
  const [input, output, total] = [
    count(rawRequest.input_tokens),
    count(rawRequest.output_tokens),
    count(rawRequest.total_tokens),
  ]
  const [cached, written, reasoning] = [
    count(into.cached_tokens),
    count(into.cache_write_tokens),
    count(out.reasoning_tokens),
  ]
  // The document counts details inside their sums; a compatible server that counts them beside is known by its total or
  // by details above the sum.
  const inputBeside =
    cached + written > 0 &&
    (cached + written > input || (total !== input + output && total === input + cached + written + output))
  const outputBeside =
    reasoning > output || (reasoning > 0 && total !== input + output && total === input + output + reasoning)
  const [uncached, visible] = [
    inputBeside ? input : input - cached - written,
    outputBeside ? output : output - reasoning,
  ]
  const [audio, spoken] = [Math.min(count(into.audio_tokens), uncached), Math.min(count(out.audio_tokens), visible)]
  return {
    inputTokens: uncached - audio,
    cacheReadTokens: cached,
    cacheWrite5mTokens: written,
    ...(audio > 0 ? { inputAudioTokens: audio } : {}),
    ...(isCount(rawRequest.output_tokens) ? { outputTokens: visible - spoken } : {}),
    reasoningTokens: reasoning,
    ...(spoken > 0 ? { outputAudioTokens: spoken } : {}),
    webSearches: reportedSearches(response, rawRequest, into) ?? searches,
  }
}

function reportedSearches(response: Json, usage: Json, into: Json): number | undefined {
  const said =
    objectOf(objectOf(response.tool_usage).web_search).num_requests ??
    objectOf(usage.server_side_tool_usage_details).web_search_calls ??
    into.web_search
  return said === undefined || said === null ? undefined : countSearches(said)
}

/** Our buckets -> `usage`, details complete, since one client fails on details with a member missing. */
export const writeUsage = (usage: Usage): Json => ({
  input_tokens: promptTokens(usage),
  input_tokens_details: {
    cached_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWrite5mTokens + usage.cacheWrite1hTokens,
    web_search: usage.webSearches,
  },
  output_tokens: completionTokens(usage),
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: promptTokens(usage) + completionTokens(usage),
})

/** An annotation of an `output_text` part -> a citation of its text. */
export function readAnnotation(rawRequest: Json, text: Offsets): Citation {
  const title = rawRequest.title ?? rawRequest.filename
  return {
    ...(typeof rawRequest.url === 'string' ? { url: rawRequest.url } : {}),
    ...(typeof title === 'string' && title !== '' ? { title } : {}),
    ...text.read(rawRequest.start_index, rawRequest.end_index),
    native: rawRequest,
  }
}

/**
 * A citation of a text -> an annotation of one of the document's types. One without a URL points into a file of the
 * request.
 */
export function writeAnnotation({ native, url, title = '', start = 0, end }: Citation, text: Offsets): Json {
  const own = objectOf(native)
  if (
    typeof own.type === 'string' &&
    (typeof own.file_id === 'string' || (typeof own.url === 'string' && typeof own.end_index === 'number'))
  )
    return own
  if (url === undefined) return { type: 'file_citation', file_id: '', filename: title, index: 0 }
  return {
    type: 'url_citation',
    url,
    title,
    start_index: text.written(start),
    end_index: end === undefined ? text.length : text.written(end),
  }
}

export function readLogprobs(rawRequest: unknown): TokenLogprob[] | undefined {
  const found = objectsOf(rawRequest).map((entry) => ({
    ...readToken(entry),
    ...(Array.isArray(entry.top_logprobs) ? { top: objectsOf(entry.top_logprobs).map(readToken) } : {}),
  }))
  return found.length === 0 ? undefined : found
}

const readToken = (rawRequest: Json): { token: string; logprob: number; bytes?: number[] | null } => ({
  token: stringOf(rawRequest.token),
  logprob: typeof rawRequest.logprob === 'number' ? rawRequest.logprob : 0,
  ...(Array.isArray(rawRequest.bytes)
    ? { bytes: rawRequest.bytes.filter((byte): byte is number => typeof byte === 'number') }
    : {}),
})

export const writeLogprobs = (logprobs: TokenLogprob[] | undefined): Json[] =>
  (logprobs ?? []).map((entry) => ({ ...writeToken(entry), top_logprobs: (entry.top ?? []).map(writeToken) }))

const writeToken = (entry: { token: string; logprob: number; bytes?: number[] | null }): Json => ({
  token: entry.token,
  logprob: entry.logprob,
  bytes: entry.bytes ?? [...Buffer.from(entry.token)],
})

/** Codes that clients of this protocol act upon: they wait, retry or give up by these words. */
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

/** The message of a failed response. A known wait is said in the words that clients look for. */
export const failureMessage = (error: GatewayError): string =>
  error.retryAfterSeconds === undefined || error.message.includes('try again in')
    ? error.message
    : `${error.message} Please try again in ${error.retryAfterSeconds}s.`

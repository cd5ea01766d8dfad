import { type FinishReason, withToolCalls } from '../../generation/event.ts'
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
import { isObject, objectOf } from '../../json/parse.ts'
import type { TextOffsets } from '../offsets.ts'

/**
 * Fields of the chat completions protocol that both sides of it need. Source: OpenAI's API reference, and OpenRouter's
 * for reasoning and images.
 */

/** Any JSON object of a request or a response. */
export type Json = Record<string, unknown>

/** The value when it is a non-empty string. */
export const nonEmpty = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

const FINISH: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop-sequence'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['tool_calls', 'tool-calls'],
  ['function_call', 'tool-calls'],
  ['content_filter', 'content-filter'],
  ['refusal', 'refusal'],
  // Z.ai's.
  ['sensitive', 'content-filter'],
  ['model_context_window_exceeded', 'length'],
])

/**
 * `called`: the response has a call of a client's tool. With a named tool_choice providers finish with `stop` although
 * it has one, and clients wait for `tool_calls` then.
 */
export const readFinishReason = (raw: string, called: boolean): FinishReason =>
  withToolCalls(FINISH.get(raw) ?? 'other', called)

const FINISH_REASONS: Record<FinishReason, string> = {
  stop: 'stop',
  'stop-sequence': 'stop',
  length: 'length',
  'tool-calls': 'tool_calls',
  'content-filter': 'content_filter',
  refusal: 'content_filter',
  pause: 'stop',
  other: 'stop',
}

/**
 * `refused`: the message has a refusal, for which OpenAI's reason is `stop`. The provider's own reason is sent as
 * `native_finish_reason`.
 */
export const writeFinishReason = (reason: FinishReason, refused: boolean): string =>
  reason === 'refusal' && refused ? 'stop' : FINISH_REASONS[reason]

/**
 * A provider's usage object in disjoint buckets; undefined without counts, and without `outputTokens` where they are
 * not counted. OpenAI counts cached tokens inside the prompt and reasoning inside the completion.
 */
export function readUsage(usage: unknown): Partial<Usage> | undefined {
  if (!isObject(usage) || (!isCount(usage.prompt_tokens) && !isCount(usage.completion_tokens))) return undefined
  const prompt = objectOf(usage.prompt_tokens_details)
  const completion = objectOf(usage.completion_tokens_details)
  // A part is never more than its whole, whatever the provider counts.
  const counted = count(usage.prompt_tokens)
  const generated = count(usage.completion_tokens)
  // Tokens that only the total counts: xAI's reasoning beside the completion, Mistral's audio beside the prompt.
  const beyond = count(usage.total_tokens) - counted - generated
  const reasoning = first(completion.reasoning_tokens, usage.reasoning_tokens, unnamedReasoning(usage, beyond))
  const beside = reasoning > 0 && (beyond === reasoning || chargesReasoningApart(usage))
  const audio = count(prompt.audio_tokens)
  const prompted = !beside && beyond === audio ? counted + audio : counted
  const cacheRead = Math.min(first(prompt.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens), counted)
  const cacheWrite = Math.min(count(prompt.cache_write_tokens), counted - cacheRead)
  const audioIn = Math.min(audio, prompted - cacheRead - cacheWrite)
  const imageIn = Math.min(count(prompt.image_tokens), prompted - cacheRead - cacheWrite - audioIn)
  const inside = beside ? 0 : Math.min(reasoning, generated)
  const audioOut = Math.min(count(completion.audio_tokens), generated - inside)
  const imageOut = Math.min(count(completion.image_tokens), generated - inside - audioOut)
  return {
    inputTokens: prompted - cacheRead - cacheWrite - audioIn - imageIn,
    cacheReadTokens: cacheRead,
    cacheWrite5mTokens: cacheWrite,
    cacheWrite1hTokens: 0,
    inputAudioTokens: audioIn,
    inputImageTokens: imageIn,
    ...(isCount(usage.completion_tokens) ? { outputTokens: generated - inside - audioOut - imageOut } : {}),
    reasoningTokens: beside ? reasoning : inside,
    outputAudioTokens: audioOut,
    outputImageTokens: imageOut,
    webSearches: countSearches(
      first(
        objectOf(usage.server_tool_use_details).web_search_requests,
        objectOf(usage.server_tool_use).web_search_requests,
        usage.num_search_queries,
        count(objectOf(usage.server_side_tool_usage_details).web_search_calls) +
          count(objectOf(usage.server_side_tool_usage_details).x_search_calls),
      ),
    ),
    images: 0,
  }
}

/**
 * Perplexity's models for research count their reasoning neither in the completion nor in the total, and charge for it
 * beside both. Only they count and charge citations.
 */
const chargesReasoningApart = ({ citation_tokens: citations, cost }: Json): boolean =>
  isCount(citations) || isCount(objectOf(cost).reasoning_tokens_cost)

/** Google's compatible endpoint has no name for the thoughts that its total counts, nor any other details. */
const unnamedReasoning = (usage: Json, beyond: number): number | undefined =>
  beyond > 0 && Object.keys(usage).every((name) => SUMS.includes(name)) ? beyond : undefined
const SUMS = ['prompt_tokens', 'completion_tokens', 'total_tokens']

/** Usage as OpenAI's usage object; details without tokens are left out, except the cached and the reasoning ones. */
export function writeUsage(usage: Usage): Json {
  const written = usage.cacheWrite5mTokens + usage.cacheWrite1hTokens
  return {
    prompt_tokens: promptTokens(usage),
    completion_tokens: completionTokens(usage),
    total_tokens: promptTokens(usage) + completionTokens(usage),
    prompt_tokens_details: {
      cached_tokens: cachedTokens(usage),
      ...(written > 0 ? { cache_write_tokens: written } : {}),
      ...(usage.inputAudioTokens > 0 ? { audio_tokens: usage.inputAudioTokens } : {}),
      ...(usage.inputImageTokens > 0 ? { image_tokens: usage.inputImageTokens } : {}),
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens,
      ...(usage.outputAudioTokens > 0 ? { audio_tokens: usage.outputAudioTokens } : {}),
      ...(usage.outputImageTokens > 0 ? { image_tokens: usage.outputImageTokens } : {}),
    },
    ...(usage.webSearches > 0 ? { server_tool_use_details: { web_search_requests: usage.webSearches } } : {}),
  }
}

/** The first number among the values, as a count. */
const first = (...values: unknown[]): number => count(values.find((value) => typeof value === 'number'))

/** The `logprobs` of a choice. */
export const writeLogprobs = (logprobs: TokenLogprob[]): Json => ({
  content: logprobs.map(({ token, logprob, bytes, top }) => ({
    token,
    logprob,
    bytes: bytes ?? null,
    top_logprobs: (top ?? []).map((one) => ({ token: one.token, logprob: one.logprob, bytes: one.bytes ?? null })),
  })),
  refusal: null,
})

export function readLogprobs(value: unknown): TokenLogprob[] | undefined {
  if (!isObject(value) || !Array.isArray(value.content)) return undefined
  const read = value.content.flatMap((entry: unknown) => {
    const token = readToken(entry)
    if (token === undefined) return []
    const top =
      isObject(entry) && Array.isArray(entry.top_logprobs)
        ? entry.top_logprobs.map(readToken).filter((one) => one !== undefined)
        : []
    return [top.length > 0 ? { ...token, top } : token]
  })
  return read.length > 0 ? read : undefined
}

function readToken(entry: unknown): TokenLogprob | undefined {
  if (!isObject(entry) || typeof entry.token !== 'string' || typeof entry.logprob !== 'number') return undefined
  const bytes =
    Array.isArray(entry.bytes) && entry.bytes.every((byte) => typeof byte === 'number')
      ? { bytes: entry.bytes as number[] }
      : entry.bytes === null
        ? { bytes: null }
        : {}
  return { token: entry.token, logprob: entry.logprob, ...bytes }
}

/**
 * A `url_citation` annotation of a text part that begins at `base` in the content; undefined for a citation without a
 * URL.
 */
export function writeAnnotation(
  { url, title, start, end }: Citation,
  content: TextOffsets,
  base: number,
): Json | undefined {
  if (url === undefined) return undefined
  const range =
    start === undefined || end === undefined
      ? { start_index: 0, end_index: 0 }
      : { start_index: content.toProtocol(base + start), end_index: content.toProtocol(base + end) }
  return { type: 'url_citation', url_citation: { url, title: title ?? '', ...range } }
}

/**
 * An annotation as a citation of the content's last text part, which begins at `base`. Servers write an empty range
 * where they know none.
 */
export function readAnnotation(annotation: unknown, content: TextOffsets, base: number): Citation | undefined {
  const cited = isObject(annotation) && isObject(annotation.url_citation) ? annotation.url_citation : undefined
  if (cited === undefined || typeof cited.url !== 'string') return undefined
  const range = content.fromProtocol(cited.start_index, cited.end_index)
  return {
    url: cited.url,
    ...(nonEmpty(cited.title) === undefined ? {} : { title: nonEmpty(cited.title) }),
    ...(nonEmpty(cited.content) === undefined ? {} : { citedText: nonEmpty(cited.content) }),
    ...(range !== undefined && range.start >= base ? { start: range.start - base, end: range.end - base } : {}),
    native: annotation,
  } as Citation
}

/** Media type and data of `data:image/png;base64,...`; undefined for anything else. */
export function parseDataUrl(url: string): { mediaType: string; data: string } | undefined {
  const comma = url.indexOf(',')
  if (!/^data:/i.test(url) || comma < 0) return undefined
  const [mediaType, ...parameters] = url.slice(5, comma).split(';')
  if (parameters.at(-1)?.toLowerCase() !== 'base64' || mediaType === undefined || mediaType === '') return undefined
  return { mediaType: mediaType.toLowerCase(), data: url.slice(comma + 1) }
}

/** Base64 that came in pieces: each padded on its own, or one text cut anywhere. */
export const joinedBase64 = (pieces: readonly string[]): string =>
  pieces.slice(0, -1).some((piece) => piece.endsWith('='))
    ? Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString('base64')
    : pieces.join('')

/** Ids in `reasoning_details` of the signatures of a text and of the n-th image, which have no ids of their own. */
export const TEXT_ID = 'text'
export const imageId = (n: number): string => `image-${n}`

/**
 * Position of a part in its response: UTF-16 units of text before it and calls before it; of a text part also where it
 * ends. Messages have no field for it, so it is the note in a signature's envelope.
 */
export type PartPosition = { text: number; calls: number; end?: number }

/** The note of a position. */
export const positionNote = ({ text, calls, end }: PartPosition): string =>
  end === undefined && text === 0 && calls === 0 ? '' : [text, calls, ...(end === undefined ? [] : [end])].join(' ')

/** The position in a note. Without one the part is at the start, and a text part is all of the text. */
export function positionOf(note: string | undefined): Required<PartPosition> {
  const [text = 0, calls = 0, end = Infinity] = note?.split(' ').map(Number) ?? []
  return { text, calls, end }
}

/**
 * The `format` of `reasoning_details` entries in none of OpenRouter's formats: clients drop entries without a format,
 * and do not interpret this one.
 */
export const FORMAT = 'unknown'

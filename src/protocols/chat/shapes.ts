import type { FinishReason } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import { completionTokens, count, countSearches, isCount, promptTokens, type Usage } from '../../generation/usage.ts'
import { isObject } from '../fields.ts'
import type { Offsets } from '../offsets.ts'

/**
 * Words of the chat completions protocol that both sides of it need. Source: OpenAI's API reference, and OpenRouter's
 * for reasoning and images.
 */

/** Any JSON object of the wire. */
export type Json = Record<string, unknown>

/** The value when it is a non-empty string. */
export const words = (value: unknown): string | undefined =>
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
 * `called`: whether the answer holds a client tool call. A named tool_choice ends `stop` although it does, and clients
 * wait for `tool_calls` then.
 */
export function readFinishReason(raw: string, called: boolean): FinishReason {
  const reason = FINISH.get(raw) ?? 'other'
  if (called && (reason === 'stop' || reason === 'other')) return 'tool-calls'
  return reason === 'tool-calls' && !called ? 'stop' : reason
}

const FINISH_WORDS: Record<FinishReason, string> = {
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
 * `refused`: a refusal was written into the message, where OpenAI says `stop`. The provider's own word travels as
 * `native_finish_reason`.
 */
export const writeFinishReason = (reason: FinishReason, refused: boolean): string =>
  reason === 'refusal' && refused ? 'stop' : FINISH_WORDS[reason]

/**
 * A wire usage object in our buckets; undefined when it says nothing, without output when it does not say that. OpenAI
 * counts cached tokens inside the prompt and reasoning inside the completion.
 */
export function readUsage(usage: unknown): Partial<Usage> | undefined {
  if (!isObject(usage) || (!isCount(usage.prompt_tokens) && !isCount(usage.completion_tokens))) return undefined
  const prompt = detailsOf(usage.prompt_tokens_details)
  const completion = detailsOf(usage.completion_tokens_details)
  // A part is never more than its whole, whatever the provider says.
  const asked = count(usage.prompt_tokens)
  const cacheRead = Math.min(first(prompt.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens), asked)
  const cacheWrite = Math.min(count(prompt.cache_write_tokens), asked - cacheRead)
  const audioIn = Math.min(count(prompt.audio_tokens), asked - cacheRead - cacheWrite)
  const reasoning = first(completion.reasoning_tokens, usage.reasoning_tokens)
  const generated = count(usage.completion_tokens)
  // xAI counts reasoning beside the completion; only the sum tells.
  const beside = reasoning > 0 && count(usage.total_tokens) === asked + generated + reasoning
  const inside = beside ? 0 : Math.min(reasoning, generated)
  const audioOut = Math.min(count(completion.audio_tokens), generated - inside)
  const imageOut = Math.min(count(completion.image_tokens), generated - inside - audioOut)
  return {
    inputTokens: asked - cacheRead - cacheWrite - audioIn,
    cacheReadTokens: cacheRead,
    cacheWrite5mTokens: cacheWrite,
    cacheWrite1hTokens: 0,
    inputAudioTokens: audioIn,
    ...(isCount(usage.completion_tokens) ? { outputTokens: generated - inside - audioOut - imageOut } : {}),
    reasoningTokens: beside ? reasoning : inside,
    outputAudioTokens: audioOut,
    outputImageTokens: imageOut,
    webSearches: countSearches(
      first(
        detailsOf(usage.server_tool_use_details).web_search_requests,
        detailsOf(usage.server_tool_use).web_search_requests,
        usage.num_search_queries,
      ),
    ),
    images: 0,
  }
}

/** Our buckets as OpenAI's usage object; details that nobody counted are left away. */
export function writeUsage(usage: Usage): Json {
  const written = usage.cacheWrite5mTokens + usage.cacheWrite1hTokens
  return {
    prompt_tokens: promptTokens(usage),
    completion_tokens: completionTokens(usage),
    total_tokens: promptTokens(usage) + completionTokens(usage),
    prompt_tokens_details: {
      cached_tokens: usage.cacheReadTokens,
      ...(written > 0 ? { cache_write_tokens: written } : {}),
      ...(usage.inputAudioTokens > 0 ? { audio_tokens: usage.inputAudioTokens } : {}),
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens,
      ...(usage.outputAudioTokens > 0 ? { audio_tokens: usage.outputAudioTokens } : {}),
      ...(usage.outputImageTokens > 0 ? { image_tokens: usage.outputImageTokens } : {}),
    },
    ...(usage.webSearches > 0 ? { server_tool_use_details: { web_search_requests: usage.webSearches } } : {}),
  }
}

const detailsOf = (value: unknown): Json => (isObject(value) ? value : {})

/** The first that is a number, as a count. */
const first = (...values: unknown[]): number => count(values.find((value) => typeof value === 'number'))

/** `{content, refusal}` of a choice's logprobs. */
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
 * A `url_citation` annotation of a text part, which begins in the content at `base`. Undefined when there is no URL to
 * show.
 */
export function writeAnnotation(
  { url, title, start, end }: Citation,
  content: Offsets,
  base: number,
): Json | undefined {
  if (url === undefined) return undefined
  const range =
    start === undefined || end === undefined
      ? { start_index: 0, end_index: 0 }
      : { start_index: content.written(base + start), end_index: content.written(base + end) }
  return { type: 'url_citation', url_citation: { url, title: title ?? '', ...range } }
}

/**
 * An annotation as a citation of the content's last text part, which begins at `base`. An empty range is a server's way
 * of not saying where.
 */
export function readAnnotation(annotation: unknown, content: Offsets, base: number): Citation | undefined {
  const cited = isObject(annotation) && isObject(annotation.url_citation) ? annotation.url_citation : undefined
  if (cited === undefined || typeof cited.url !== 'string') return undefined
  const range = content.read(cited.start_index, cited.end_index)
  return {
    url: cited.url,
    ...(words(cited.title) === undefined ? {} : { title: words(cited.title) }),
    ...(words(cited.content) === undefined ? {} : { citedText: words(cited.content) }),
    ...(range !== undefined && range.start >= base ? { start: range.start - base, end: range.end - base } : {}),
    native: annotation,
  } as Citation
}

/** `data:image/png;base64,...` in its pieces; undefined when it is something else. */
export function readDataUrl(url: string): { mediaType: string; data: string } | undefined {
  const comma = url.indexOf(',')
  if (!/^data:/i.test(url) || comma < 0) return undefined
  const [mediaType, ...parameters] = url.slice(5, comma).split(';')
  if (parameters.at(-1)?.toLowerCase() !== 'base64' || mediaType === undefined || mediaType === '') return undefined
  return { mediaType: mediaType.toLowerCase(), data: url.slice(comma + 1) }
}

/** A recording that comes in pieces: each padded by itself, or one text of base64 cut anywhere. */
export const joinedBase64 = (pieces: readonly string[]): string =>
  pieces.slice(0, -1).some((piece) => piece.endsWith('='))
    ? Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString('base64')
    : pieces.join('')

/** What `reasoning_details` call a signature of the text or of the n-th image: these parts have no id on the wire. */
export const TEXT_ID = 'text'
export const imageId = (n: number): string => `image-${n}`

/**
 * Where a part stands in its answer: behind how much text (UTF-16 units; `end`: where a text ends) and how many calls.
 * Messages tell nothing of that.
 */
export type PartLocation = { text: number; calls: number; end?: number }

/** A place for its part's sealed signature. */
export const noteOf = ({ text, calls, end }: PartLocation): string =>
  end === undefined && text === 0 && calls === 0 ? '' : [text, calls, ...(end === undefined ? [] : [end])].join(' ')

/** What `noteOf` wrote. Of a text without a note: all of it. */
export function placeOf(note: string | undefined): Required<PartLocation> {
  const [text = 0, calls = 0, end = Infinity] = note?.split(' ').map(Number) ?? []
  return { text, calls, end }
}

/**
 * What `reasoning_details` say of entries in none of OpenRouter's formats. Clients drop those without a format, and
 * read nothing into this one.
 */
export const FORMAT = 'unknown'

import type { FinishReason } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import { completionTokens, count, isCount, promptTokens, type Usage } from '../../generation/usage.ts'
import { isObject } from '../fields.ts'
import { Offsets } from '../offsets.ts'

/** One element of `content.parts` as we write it. */
export type WirePart = Record<string, unknown>
/** An element of `contents`. */
export type WireContent = { role: 'user' | 'model'; parts: WirePart[] }

/** What Gemini 3 accepts where history has no signature of its own (documented for histories of other models). */
export const UNSIGNED = 'skip_thought_signature_validator'
export const UNSIGNED_WHY =
  'a call that came back without the signature of this model is sent as one that another model made'

/** On the seal of thoughts whose maker hid them. */
export const HIDDEN = 'hidden'

const REASONS: Map<string, FinishReason> = new Map(
  Object.entries({
    STOP: 'stop',
    MAX_TOKENS: 'length',
    SAFETY: 'content-filter',
    RECITATION: 'content-filter',
    BLOCKLIST: 'content-filter',
    PROHIBITED_CONTENT: 'content-filter',
    SPII: 'content-filter',
    MODEL_ARMOR: 'content-filter',
    IMAGE_SAFETY: 'content-filter',
    IMAGE_PROHIBITED_CONTENT: 'content-filter',
    IMAGE_RECITATION: 'content-filter',
  } as const),
)

/**
 * The word of a `finishReason`; gRPC gateways write protobuf's number, whose first five mean the same in both of
 * Google's APIs.
 */
export const finishWord = (rawRequest: unknown): string | undefined =>
  typeof rawRequest === 'string'
    ? rawRequest
    : typeof rawRequest === 'number' && rawRequest > 0
      ? (['STOP', 'MAX_TOKENS', 'SAFETY', 'RECITATION'][rawRequest - 1] ?? 'OTHER')
      : undefined

/**
 * `finishReason` of a candidate. There is no word for a tool turn: `called` says whether a function was called, asked
 * for (STOP) or not (UNEXPECTED_TOOL_CALL).
 */
export const readFinishReason = (raw: string, called: boolean): FinishReason => {
  const reason = REASONS.get(raw) ?? 'other'
  return called && (reason === 'stop' || reason === 'other') ? 'tool-calls' : reason
}

/**
 * A refusal that ended the answer is Google's SAFETY; refusing words that ended by themselves are text and STOP, as
 * `finish` says it.
 */
export function writeFinishReason(reason: FinishReason): string {
  switch (reason) {
    case 'stop':
    case 'stop-sequence':
    case 'tool-calls':
      return 'STOP'
    case 'length':
      return 'MAX_TOKENS'
    case 'content-filter':
    case 'refusal':
      return 'SAFETY'
    // A paused turn is not a whole answer, and Google has no word for it.
    case 'pause':
    case 'other':
      return 'OTHER'
  }
}

/**
 * `usageMetadata` -> buckets; undefined where no count is in it. Google's JSON leaves a 0 out: of an answer that goes
 * on, output left out is not yet told. Google counts cached and audio tokens inside the prompt, thoughts beside the
 * candidates.
 */
export function readUsage(
  rawRequest: Record<string, unknown>,
  searches: number,
  ended: boolean,
): Partial<Usage> | undefined {
  if (!COUNTS.some((name) => isCount(rawRequest[name]))) return undefined
  const prompt = count(rawRequest['promptTokenCount']) + count(rawRequest['toolUsePromptTokenCount'])
  const cached = Math.min(count(rawRequest['cachedContentTokenCount']), prompt)
  const audio = Math.min(
    Math.max(
      modality(rawRequest['promptTokensDetails'], 'AUDIO') - modality(rawRequest['cacheTokensDetails'], 'AUDIO'),
      0,
    ),
    prompt - cached,
  )
  const candidates = count(rawRequest['candidatesTokenCount'])
  const audioOut = Math.min(modality(rawRequest['candidatesTokensDetails'], 'AUDIO'), candidates)
  const imageOut = Math.min(modality(rawRequest['candidatesTokensDetails'], 'IMAGE'), candidates - audioOut)
  return {
    inputTokens: prompt - cached - audio,
    cacheReadTokens: cached,
    inputAudioTokens: audio,
    ...(isCount(rawRequest['candidatesTokenCount'] ?? (ended ? 0 : undefined))
      ? { outputTokens: candidates - audioOut - imageOut }
      : {}),
    outputAudioTokens: audioOut,
    outputImageTokens: imageOut,
    reasoningTokens: count(rawRequest['thoughtsTokenCount']),
    ...(searches > 0 ? { webSearches: searches } : {}),
  }
}

const COUNTS = [
  'promptTokenCount',
  'candidatesTokenCount',
  'thoughtsTokenCount',
  'totalTokenCount',
  'toolUsePromptTokenCount',
]

const modality = (details: unknown, name: string): number =>
  !Array.isArray(details)
    ? 0
    : details.reduce(
        (sum: number, entry: unknown) =>
          sum + (isObject(entry) && entry['modality'] === name ? count(entry['tokenCount']) : 0),
        0,
      )

export const writeUsage = (usage: Usage): Record<string, unknown> => ({
  promptTokenCount: promptTokens(usage),
  candidatesTokenCount: completionTokens(usage) - usage.reasoningTokens,
  ...(usage.outputImageTokens + usage.outputAudioTokens > 0 ? { candidatesTokensDetails: outputDetails(usage) } : {}),
  thoughtsTokenCount: usage.reasoningTokens,
  cachedContentTokenCount: usage.cacheReadTokens,
  totalTokenCount: promptTokens(usage) + completionTokens(usage),
})

const outputDetails = (usage: Usage): { modality: string; tokenCount: number }[] =>
  [
    { modality: 'TEXT', tokenCount: usage.outputTokens },
    { modality: 'IMAGE', tokenCount: usage.outputImageTokens },
    { modality: 'AUDIO', tokenCount: usage.outputAudioTokens },
  ].filter(({ tokenCount }) => tokenCount > 0)

/** The inline media types that the specification allows in a request. */
export const INLINE_TYPES: ReadonlySet<string> = new Set([
  'application/pdf',
  'audio/mpeg',
  'audio/mp3',
  'audio/wav',
  'image/png',
  'image/jpeg',
  'image/webp',
  'text/plain',
  'video/mov',
  'video/mpeg',
  'video/mp4',
  'video/mpg',
  'video/avi',
  'video/wmv',
  'video/mpegps',
  'video/flv',
  'video/x-ms-wmv',
])

export const writeLogprobs = (logprobs: TokenLogprob[]): Record<string, unknown> => ({
  chosenCandidates: logprobs.map(({ token, logprob }) => ({ token, logProbability: logprob })),
  topCandidates: logprobs.map(({ top }) => ({
    candidates: (top ?? []).map(({ token, logprob }) => ({ token, logProbability: logprob })),
  })),
})

/** A citation with its place in the text Google counts in: `base` UTF-16 units before the cited part, in `text`. */
export type Placed = { citation: Citation; text: string; base: number; partIndex?: number }

/** Passages that hold one another say the same words again and again: further ones are told by their numbers alone. */
const WORDS_MAX = 1_000_000

/** Whether there is anything by which a client could know the source. */
export const isSource = ({ url, title, citedText }: Citation): boolean => (url ?? title ?? citedText) !== undefined

/**
 * Citations -> `groundingMetadata`, where there are any: sources once, and the passages that rest on them in UTF-8
 * bytes.
 */
export function writeGrounding(placed: readonly Placed[]): { groundingMetadata?: object } {
  const chunks: Record<string, unknown>[] = []
  const indexes = new Map<string, number>()
  const supports: Record<string, unknown>[] = []
  const measured = new Map<string, Offsets>()
  let words = 0
  for (const { citation, text, base, partIndex } of placed) {
    if (!isSource(citation)) continue
    const key = JSON.stringify(writeSource(citation))
    const index = indexes.get(key) ?? chunks.push(writeSource(citation)) - 1
    indexes.set(key, index)
    if (citation.start === undefined || citation.end === undefined) continue
    const [start, end] = [base + citation.start, base + citation.end]
    const offsets = measured.get(text) ?? new Offsets(text, 'bytes')
    measured.set(text, offsets)
    words += end - start
    const segment = {
      ...(partIndex === undefined ? {} : { partIndex }),
      startIndex: offsets.written(start),
      endIndex: offsets.written(end),
      ...(words > WORDS_MAX ? {} : { text: text.slice(start, end) }),
    }
    supports.push({ segment, groundingChunkIndices: [index] })
  }
  return chunks.length === 0
    ? {}
    : {
        groundingMetadata: {
          groundingChunks: chunks,
          ...(supports.length === 0 ? {} : { groundingSupports: supports }),
        },
      }
}

const writeSource = ({ url, title, citedText }: Citation): Record<string, unknown> =>
  url === undefined
    ? {
        retrievedContext: {
          ...(title === undefined ? {} : { title }),
          ...(citedText === undefined ? {} : { text: citedText }),
        },
      }
    : { web: { uri: url, ...(title === undefined ? {} : { title }) } }

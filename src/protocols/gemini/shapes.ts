import { type ContentFilter, type FinishReason, withToolCalls } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { cachedTokens, completionTokens, count, isCount, promptTokens, type Usage } from '../../generation/usage.ts'
import { isObject, stringOf } from '../../json/parse.ts'

/** An element of `content.parts` as Sluice writes it. */
export type GeminiPart = Record<string, unknown>
/** An element of `contents`. */
export type GeminiContent = { role: 'user' | 'model'; parts: GeminiPart[] }

/** Members of a part that only Google's protocol has. */
export const NATIVE_PARTS = [
  'executableCode',
  'codeExecutionResult',
  'toolCall',
  'toolResponse',
  'audioTranscription',
] as const

/**
 * The signature that Gemini 3 accepts for a call of another model (ai.google.dev/gemini-api/docs/thought-signatures).
 */
export const PLACEHOLDER_SIGNATURE = 'skip_thought_signature_validator'

/** The note on the wrapped signature of reasoning whose provider hides the text. */
export const HIDDEN = 'hidden'

const FINISH_REASONS: ReadonlyMap<string, FinishReason> = new Map(
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
 * The name of a `finishReason`. gRPC gateways write protobuf's number, whose first five are the same in both of
 * Google's APIs.
 */
export const finishReasonName = (value: unknown): string | undefined =>
  typeof value === 'string'
    ? value
    : typeof value === 'number' && value > 0
      ? (['STOP', 'MAX_TOKENS', 'SAFETY', 'RECITATION'][value - 1] ?? 'OTHER')
      : undefined

/**
 * The `finishReason` of a candidate. Google has none for tool calls: a response that `called` a function ends with
 * STOP, or with UNEXPECTED_TOOL_CALL where the request has no such function.
 */
export const readFinishReason = (raw: string, called: boolean): FinishReason =>
  withToolCalls(FINISH_REASONS.get(raw) ?? 'other', called)

/** `refusal` is SAFETY only where it ended the response; a refusal in words is text that ends with STOP. */
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
    // A paused turn is not a complete response, and Google has no reason for it.
    case 'pause':
    case 'other':
      return 'OTHER'
  }
}

const COUNTS = [
  'promptTokenCount',
  'candidatesTokenCount',
  'thoughtsTokenCount',
  'toolUsePromptTokenCount',
  'totalTokenCount',
]

/**
 * `usageMetadata` as disjoint counts; undefined where it has none. Google counts cached and audio tokens inside the
 * prompt, reasoning beside the candidates. Its JSON omits zeros: in a complete response, an omitted output count is one
 * if there was no output (`isSilent`), or if the total has none either, as for output that Google does not charge.
 */
export function readUsage(
  usage: Record<string, unknown>,
  webSearches: number,
  { isComplete, isSilent }: { isComplete: boolean; isSilent: boolean },
): Partial<Usage> | undefined {
  if (!COUNTS.some((name) => isCount(usage[name]))) return undefined
  const { tools, thoughtsInside } = sumsOf(usage)
  const prompt = count(usage.promptTokenCount) + tools
  const cached = Math.min(count(usage.cachedContentTokenCount), prompt)
  const cachedAudio = Math.min(modality(usage.cacheTokensDetails, 'AUDIO'), cached)
  const audio = Math.min(uncached(usage, 'AUDIO'), prompt - cached)
  const images = Math.min(uncached(usage, 'IMAGE'), prompt - cached - audio)
  const candidates = Math.max(count(usage.candidatesTokenCount) - thoughtsInside, 0)
  const audioOut = Math.min(modality(usage.candidatesTokensDetails, 'AUDIO'), candidates)
  const imageOut = Math.min(modality(usage.candidatesTokensDetails, 'IMAGE'), candidates - audioOut)
  const videoOut = Math.min(modality(usage.candidatesTokensDetails, 'VIDEO'), candidates - audioOut - imageOut)
  const isZero = isComplete && (isSilent || prompt + count(usage.thoughtsTokenCount) === usage.totalTokenCount)
  const isOutputKnown = isCount(usage.candidatesTokenCount ?? (isZero ? 0 : undefined))
  return {
    inputTokens: prompt - cached - audio - images,
    cacheReadTokens: cached - cachedAudio,
    cacheReadAudioTokens: cachedAudio,
    inputAudioTokens: audio,
    inputImageTokens: images,
    ...(isOutputKnown ? { outputTokens: candidates - audioOut - imageOut - videoOut } : {}),
    outputAudioTokens: audioOut,
    outputImageTokens: imageOut,
    outputVideoTokens: videoOut,
    reasoningTokens: count(usage.thoughtsTokenCount),
    ...(webSearches > 0 ? { webSearches } : {}),
  }
}

/**
 * Prompt tokens of Google's own tools beside the prompt, and reasoning inside the candidates, where the total shows it:
 * a later chunk of a stream may have in its prompt what an earlier one had beside it.
 */
function sumsOf(usage: Record<string, unknown>): { tools: number; thoughtsInside: number } {
  const [prompt, candidates, thoughts, tools, total] = COUNTS.map((name) => count(usage[name])) as [
    number,
    number,
    number,
    number,
    number,
  ]
  const missing = total - prompt - candidates
  if (missing === tools && thoughts > 0 && thoughts <= candidates) return { tools, thoughtsInside: thoughts }
  return { tools: missing === thoughts ? 0 : tools, thoughtsInside: 0 }
}

/** Modalities with protobuf's numbers, which gRPC gateways write. */
const MODALITIES = { IMAGE: 2, VIDEO: 3, AUDIO: 4 }
type Modality = keyof typeof MODALITIES

const modality = (details: unknown, name: Modality): number =>
  !Array.isArray(details)
    ? 0
    : details.reduce(
        (sum: number, entry: unknown) =>
          sum +
          (isObject(entry) && (entry.modality === name || entry.modality === MODALITIES[name])
            ? count(entry.tokenCount)
            : 0),
        0,
      )

/** Tokens of the prompt in this modality that were not cached. */
const uncached = (usage: Record<string, unknown>, name: Modality): number =>
  Math.max(0, modality(usage.promptTokensDetails, name) - modality(usage.cacheTokensDetails, name))

export const writeUsage = (usage: Usage, tier?: string): Record<string, unknown> => ({
  promptTokenCount: promptTokens(usage),
  ...detailsOf('promptTokensDetails', promptTokens(usage), {
    IMAGE: usage.inputImageTokens,
    AUDIO: usage.inputAudioTokens + usage.cacheReadAudioTokens,
  }),
  candidatesTokenCount: completionTokens(usage) - usage.reasoningTokens,
  ...detailsOf('candidatesTokensDetails', completionTokens(usage) - usage.reasoningTokens, {
    IMAGE: usage.outputImageTokens,
    AUDIO: usage.outputAudioTokens,
    VIDEO: usage.outputVideoTokens,
  }),
  thoughtsTokenCount: usage.reasoningTokens,
  cachedContentTokenCount: cachedTokens(usage),
  ...detailsOf('cacheTokensDetails', cachedTokens(usage), { AUDIO: usage.cacheReadAudioTokens }),
  totalTokenCount: promptTokens(usage) + completionTokens(usage),
  ...(tier === undefined ? {} : { serviceTier: tier }),
})

/** The modalities of `sum` tokens as a member; none where all are text. */
function detailsOf(
  name: string,
  sum: number,
  others: Partial<Record<Modality, number>>,
): Record<string, { modality: string; tokenCount: number }[]> {
  const text = Object.values(others).reduce((rest, tokens) => rest - tokens, sum)
  if (text === sum) return {}
  const details = Object.entries({ TEXT: text, ...others }).map(([modality, tokenCount]) => ({ modality, tokenCount }))
  return { [name]: details.filter(({ tokenCount }) => tokenCount > 0) }
}

/** `safetyRatings` by category in lower case, without the prefix; undefined where there are none. */
export function readRatings(source: ContentFilter['source'], ratings: unknown): ContentFilter | undefined {
  const read = Array.isArray(ratings) ? ratings.filter(isObject) : []
  if (read.length === 0) return undefined
  const results = read.map(({ category, probability, blocked }): [string, ContentFilter['results'][string]] => {
    const severity = (stringOf(probability) || 'unknown').toLowerCase()
    return [
      stringOf(category)
        .replace(/^HARM_CATEGORY_/, '')
        .toLowerCase(),
      { filtered: blocked === true, severity: severity === 'negligible' ? 'safe' : severity },
    ]
  })
  const blocked = results.some(([, { filtered }]) => filtered)
  return { source, blocked, results: Object.fromEntries(results), raw: ratings }
}

/** `logprobsResult` as logprobs of the chosen tokens; undefined where there are none. */
export function readLogprobs(result: unknown): TokenLogprob[] | undefined {
  if (!isObject(result) || !Array.isArray(result.chosenCandidates)) return undefined
  const alternatives: unknown[] = Array.isArray(result.topCandidates) ? result.topCandidates : []
  return result.chosenCandidates.filter(isObject).map((chosen, index) => {
    const entry = alternatives[index]
    const top =
      isObject(entry) && Array.isArray(entry.candidates) ? entry.candidates.filter(isObject).map(readToken) : undefined
    return { ...readToken(chosen), ...(top === undefined ? {} : { top }) }
  })
}

const readToken = ({ token, logProbability }: Record<string, unknown>): { token: string; logprob: number } => ({
  token: stringOf(token),
  logprob: typeof logProbability === 'number' ? logProbability : 0,
})

export const writeLogprobs = (logprobs: readonly TokenLogprob[]): Record<string, unknown> => ({
  chosenCandidates: logprobs.map(writeToken),
  topCandidates: logprobs.map(({ top }) => ({ candidates: (top ?? []).map(writeToken) })),
})

const writeToken = ({ token, logprob }: { token: string; logprob: number }): Record<string, unknown> => ({
  token,
  logProbability: logprob,
})

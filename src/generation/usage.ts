/**
 * Token usage in disjoint buckets, so that no code outside a protocol folder subtracts one from another. Each protocol
 * converts its own counts: OpenAI and Google count cached tokens within the input, Anthropic beside it; Google counts
 * reasoning beside the output, the others within it.
 */
export type Usage = {
  /** Prompt tokens at the full price: text, files and video; without cached tokens, audio and images. */
  inputTokens: number
  /** Read from a cache; without audio. */
  cacheReadTokens: number
  /** Written to a cache with a lifetime of 5 minutes, or of an unknown one. */
  cacheWrite5mTokens: number
  cacheWrite1hTokens: number
  inputAudioTokens: number
  /** Visible output: text, tool arguments. */
  outputTokens: number
  reasoningTokens: number
  outputAudioTokens: number
  outputImageTokens: number
  /** Number of web searches by the provider. */
  webSearches: number
  /** Number of generated images, for models with a price per image. */
  images: number
  /** Images of the prompt that were not cached, where the provider counts them apart. */
  inputImageTokens: number
  cacheReadAudioTokens: number
  outputVideoTokens: number
  /** Tokens of the image model that a provider's tool draws with, which are not in the prompt or the output. */
  imageToolInputTokens: number
  imageToolInputImageTokens: number
  imageToolOutputTokens: number
  imageToolOutputImageTokens: number
}

/** The order is that of rows and of progress on the disk: new buckets are the last. */
export const noUsage = (): Usage => ({
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWrite5mTokens: 0,
  cacheWrite1hTokens: 0,
  inputAudioTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  outputAudioTokens: 0,
  outputImageTokens: 0,
  webSearches: 0,
  images: 0,
  inputImageTokens: 0,
  cacheReadAudioTokens: 0,
  outputVideoTokens: 0,
  imageToolInputTokens: 0,
  imageToolInputImageTokens: 0,
  imageToolOutputTokens: 0,
  imageToolOutputImageTokens: 0,
})

export const USAGE_BUCKETS: readonly (keyof Usage)[] = Object.keys(noUsage()) as (keyof Usage)[]

/** Adds each bucket of `usage` to the same one of `sum`. */
export function addUsage(sum: Usage, usage: Usage): void {
  for (const bucket of USAGE_BUCKETS) sum[bucket] += usage[bucket]
}

/** The buckets of a prompt, and those of what was generated for it; others count searches, images and other models. */
export const PROMPT_BUCKETS = [
  'inputTokens',
  'cacheReadTokens',
  'cacheWrite5mTokens',
  'cacheWrite1hTokens',
  'inputAudioTokens',
  'inputImageTokens',
  'cacheReadAudioTokens',
] as const satisfies readonly (keyof Usage)[]
export const OUTPUT_BUCKETS = [
  'outputTokens',
  'reasoningTokens',
  'outputAudioTokens',
  'outputImageTokens',
  'outputVideoTokens',
] as const satisfies readonly (keyof Usage)[]
/** Those of a tool's image model. */
export const IMAGE_TOOL_BUCKETS = [
  'imageToolInputTokens',
  'imageToolInputImageTokens',
  'imageToolOutputTokens',
  'imageToolOutputImageTokens',
] as const satisfies readonly (keyof Usage)[]
export type OutputBucket = (typeof OUTPUT_BUCKETS)[number]

/** All prompt-side tokens, as OpenAI's `prompt_tokens` counts them. Written out, because streams call it often. */
export const promptTokens = (u: Usage): number =>
  u.inputTokens +
  u.cacheReadTokens +
  u.cacheWrite5mTokens +
  u.cacheWrite1hTokens +
  u.inputAudioTokens +
  u.inputImageTokens +
  u.cacheReadAudioTokens

/** The tokens of a prompt that were read from a cache. */
export const cachedTokens = (u: Usage): number => u.cacheReadTokens + u.cacheReadAudioTokens

/** All generated tokens including reasoning, as OpenAI's `completion_tokens` counts them. */
export const completionTokens = (u: Usage): number =>
  u.outputTokens + u.reasoningTokens + u.outputAudioTokens + u.outputImageTokens + u.outputVideoTokens

/**
 * No request has a billion tokens. With rates of at most 1000 USD per million tokens every amount stays far below the
 * largest 64-bit integer.
 */
export const TOKENS_MAX = 1e9

/** True for a credible count of tokens. A negative, infinite or absurdly large one is treated as not reported. */
export const isCount = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value <= TOKENS_MAX

/** A provider's number as a whole count; 0 for anything else, so that no bill is negative. */
export const count = (value: unknown): number => (isCount(value) ? Math.floor(value) : 0)

/** No response needs more web searches; one costs as much as thousands of tokens. */
const SEARCHES_MAX = 10_000

/** A provider's number of web searches as a count. */
export const countSearches = (value: unknown): number => Math.min(count(value), SEARCHES_MAX)

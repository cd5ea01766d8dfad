/**
 * Token usage in buckets that never overlap: nobody outside a protocol folder adds or subtracts one from another.
 * Each protocol converts at its edge (OpenAI and Google count cached tokens inside input, Anthropic beside it;
 * Google counts thinking beside output, the others inside it).
 */
export type Usage = {
  /**
   * Prompt tokens read at the full price: text, images and files, without what came from or went to a cache, without
   * audio.
   */
  inputTokens: number
  cacheReadTokens: number
  /** Written to a cache that lives 5 minutes (also: lifetime not said). */
  cacheWrite5mTokens: number
  cacheWrite1hTokens: number
  inputAudioTokens: number
  /** Visible output: text, tool arguments. */
  outputTokens: number
  reasoningTokens: number
  outputAudioTokens: number
  outputImageTokens: number
  /** Web searches run by the provider, a count. */
  webSearches: number
  /** Images generated, a count: for models that are paid by the image. */
  images: number
}

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
})

/** All prompt-side tokens, as OpenAI's `prompt_tokens` counts them. */
export const promptTokens = (u: Usage): number =>
  u.inputTokens + u.cacheReadTokens + u.cacheWrite5mTokens + u.cacheWrite1hTokens + u.inputAudioTokens

/** All generated tokens including reasoning, as OpenAI's `completion_tokens` counts them. */
export const completionTokens = (u: Usage): number =>
  u.outputTokens + u.reasoningTokens + u.outputAudioTokens + u.outputImageTokens

/**
 * No request has a billion tokens. With no rate above 1000 USD per million tokens every amount is then far within the
 * 64-bit integers of the database.
 */
export const MOST_TOKENS = 1e9

/**
 * Whether a wire value says how many: a negative, endless or absurdly large number says nothing, and is counted here
 * instead.
 */
export const isCount = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value <= MOST_TOKENS

/** A wire number as a count: what is none counts as 0, so that hostile usage never bills below nothing. */
export const count = (value: unknown): number => (isCount(value) ? Math.floor(value) : 0)

/** No answer searches the web so often; a search costs as much as thousands of tokens. */
const MOST_SEARCHES = 10_000

/** A wire number of web searches. */
export const countSearches = (value: unknown): number => Math.min(count(value), MOST_SEARCHES)

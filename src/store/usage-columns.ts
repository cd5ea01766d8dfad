import { addUsage, noUsage, OUTPUT_BUCKETS, PROMPT_BUCKETS, USAGE_BUCKETS, type Usage } from '../generation/usage.ts'

const COLUMNS: Record<keyof Usage, string> = {
  inputTokens: 'input_tokens',
  cacheReadTokens: 'cache_read_tokens',
  cacheWrite5mTokens: 'cache_write_5m_tokens',
  cacheWrite1hTokens: 'cache_write_1h_tokens',
  inputAudioTokens: 'input_audio_tokens',
  outputTokens: 'output_tokens',
  reasoningTokens: 'reasoning_tokens',
  outputAudioTokens: 'output_audio_tokens',
  outputImageTokens: 'output_image_tokens',
  webSearches: 'web_searches',
  images: 'images',
  inputImageTokens: 'input_image_tokens',
  cacheReadAudioTokens: 'cache_read_audio_tokens',
  outputVideoTokens: 'output_video_tokens',
  imageToolInputTokens: 'image_tool_input_tokens',
  imageToolInputImageTokens: 'image_tool_input_image_tokens',
  imageToolOutputTokens: 'image_tool_output_tokens',
  imageToolOutputImageTokens: 'image_tool_output_image_tokens',
}

/** The columns of the usage buckets, in the order of `USAGE_BUCKETS`, in which a row is bound. */
export const USAGE_COLUMNS: readonly string[] = USAGE_BUCKETS.map((bucket) => COLUMNS[bucket])

/** SQL of the tokens of a row, of prompt and output. */
export const TOKENS = [...PROMPT_BUCKETS, ...OUTPUT_BUCKETS].map((bucket) => COLUMNS[bucket]).join(' + ')
/** SQL of the generated ones. */
export const OUTPUT_TOKENS = OUTPUT_BUCKETS.map((bucket) => COLUMNS[bucket]).join(' + ')

/** SQL that gives each column, or what is made of it, the name of its bucket. */
export const usageSelected = (expression: (column: string) => string): string =>
  USAGE_BUCKETS.map((bucket) => `${expression(COLUMNS[bucket])} AS "${bucket}"`).join(', ')

/** The usage in a row that has other columns, too. */
export function usageIn(row: Usage): Usage {
  const usage = noUsage()
  addUsage(usage, row)
  return usage
}

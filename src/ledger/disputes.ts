import { completionTokens, promptTokens, type Usage } from '../generation/usage.ts'
import { ASSUMED_OUTPUT_TOKENS } from './estimate.ts'

/** Tokens that a provider may add to a prompt: instructions of its own, and those for tools. */
const PROVIDER_PROMPT_TOKENS = 20_000
/** The same where the provider may search: what it found is part of the prompt. */
const SEARCH_RESULT_TOKENS = 1_000_000
/** Searches of one request that are credible where it lets its provider search. */
const CREDIBLE_SEARCHES = 100
/** An assumed output limit is none that the provider was given: so many times as much is credible. */
const CREDIBLE_EXCESS = 10

const PROMPT_BUCKETS = [
  'inputTokens',
  'cacheReadTokens',
  'cacheWrite5mTokens',
  'cacheWrite1hTokens',
  'inputAudioTokens',
] as const
const OUTPUT_BUCKETS = ['outputTokens', 'reasoningTokens', 'outputAudioTokens', 'outputImageTokens'] as const

/**
 * Reported usage that a request cannot have asked for: output above its limit, and a prompt far above its size. That
 * part is charged as it was held, so that no provider can take more than the hold for it. `disputed`: the counts as
 * reported; undefined where all are credible. `worst`: the usage that was held for.
 */
export function credible(usage: Usage, worst: Usage): { usage: Usage; disputed?: Partial<Usage> } {
  const added = worst.webSearches > 0 ? SEARCH_RESULT_TOKENS : PROVIDER_PROMPT_TOKENS
  const changed: Partial<Usage> = {}
  if (promptTokens(usage) > promptTokens(worst) + added)
    for (const bucket of PROMPT_BUCKETS) changed[bucket] = worst[bucket]
  const excess = worst.outputTokens === ASSUMED_OUTPUT_TOKENS ? CREDIBLE_EXCESS : 1
  if (completionTokens(usage) > worst.outputTokens * excess) {
    const largest = OUTPUT_BUCKETS.reduce((most, bucket) => (usage[bucket] > usage[most] ? bucket : most))
    for (const bucket of OUTPUT_BUCKETS) changed[bucket] = bucket === largest ? worst.outputTokens : 0
  }
  if (usage.webSearches > CREDIBLE_SEARCHES) changed.webSearches = worst.webSearches
  const buckets = (Object.keys(changed) as (keyof Usage)[]).filter((bucket) => usage[bucket] > 0)
  if (buckets.length === 0) return { usage }
  return {
    usage: { ...usage, ...changed },
    disputed: Object.fromEntries(buckets.map((bucket) => [bucket, usage[bucket]])),
  }
}

/** A line for the operator. */
export function disputeText(id: string, provider: string | undefined, disputed: Partial<Usage>, usage: Usage): string {
  const counts = (of: Partial<Usage>): string =>
    Object.keys(disputed)
      .map((bucket) => `${bucket} ${of[bucket as keyof Usage]}`)
      .join(', ')
  return (
    `Disputed usage of generation ${id}: ${provider ?? 'its provider'} reported ${counts(disputed)}, ` +
    `more than was asked for. It is charged as ${counts(usage)}.`
  )
}

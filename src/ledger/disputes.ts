import {
  completionTokens,
  IMAGE_TOOL_BUCKETS,
  OUTPUT_BUCKETS,
  PROMPT_BUCKETS,
  promptTokens,
  type Usage,
} from '../generation/usage.ts'
import { ASSUMED_OUTPUT_TOKENS } from './estimate.ts'

/**
 * Tokens that a provider may add to a prompt: instructions, the results of tools that it runs, what it stored before.
 * The largest context windows have about as many.
 */
const ADDED_PROMPT_TOKENS = 1_000_000
/** Searches of one request that are credible. */
const CREDIBLE_SEARCHES = 100
/**
 * So many times the output limit is credible where that was only assumed, or where a provider that runs tools may have
 * generated several times.
 */
const CREDIBLE_EXCESS = 10

/** Tokens of an image tool that are credible of any request: a stored prompt may have the tool. */
const LEAST_IMAGE_TOOL_TOKENS = 100_000

const imageToolTokens = (usage: Usage): number => IMAGE_TOOL_BUCKETS.reduce((sum, bucket) => sum + usage[bucket], 0)

/**
 * Reported usage that a request cannot have asked for: output above its limit, and a prompt far above its size. That
 * part is charged as it was held, so that no provider can take more than the hold for it. `disputed`: the counts as
 * reported; undefined where all are credible. `worst`: the usage that was held for.
 */
export function credible(
  usage: Usage,
  { worst, hasTools }: { worst: Usage; hasTools?: boolean | undefined },
): { usage: Usage; disputed?: Partial<Usage> } {
  const changed: Partial<Usage> = {}
  if (promptTokens(usage) > promptTokens(worst) + ADDED_PROMPT_TOKENS)
    for (const bucket of PROMPT_BUCKETS) changed[bucket] = worst[bucket]
  const mayExceed = hasTools === true || worst.webSearches > 0 || worst.outputTokens === ASSUMED_OUTPUT_TOKENS
  if (completionTokens(usage) > worst.outputTokens * (mayExceed ? CREDIBLE_EXCESS : 1)) {
    const largest = OUTPUT_BUCKETS.reduce((most, bucket) => (usage[bucket] > usage[most] ? bucket : most))
    for (const bucket of OUTPUT_BUCKETS) changed[bucket] = bucket === largest ? worst.outputTokens : 0
  }
  if (imageToolTokens(usage) > CREDIBLE_EXCESS * Math.max(imageToolTokens(worst), LEAST_IMAGE_TOOL_TOKENS))
    for (const bucket of IMAGE_TOOL_BUCKETS) changed[bucket] = worst[bucket]
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

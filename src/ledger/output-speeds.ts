import { completionTokens } from '../generation/usage.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import { CHARACTERS_PER_TOKEN } from './estimate.ts'
import type { OpenGeneration } from './open-generation.ts'

/** Tokens per millisecond assumed for a model of which nothing was measured. */
const ASSUMED_SPEED = 0.05

/** Models whose speed is kept. */
const MODELS_MAX = 5_000

/**
 * An average is that of so many milliseconds of generating. Weighted by time, it is not moved by many short requests.
 */
const AVERAGED_MS = 600_000

/** Reasoning is hidden where less than this part of its tokens was received as text. */
const SHOWN_PART = 0.5

/** A running average: tokens and the milliseconds in which they were generated. */
type Average = { tokens: number; ms: number }

/** `whole`: of all output, in responses that came in one piece; `hidden`: of reasoning that streams do not show. */
type Speeds = { whole: Average; hidden: Average }

/**
 * The measured output speed of each model at each provider, for responses whose usage was not reported because their
 * client left. No client can slow down what is measured: whole responses are read by Sluice alone, and of streams only
 * the time until their first output counts.
 */
export class OutputSpeeds {
  readonly #models = new BoundedMap<string, Speeds>(MODELS_MAX)

  /** Measures a response with reported usage. */
  measure({ request, meter }: OpenGeneration): void {
    const key = keyOf(request.model, meter.attempts.at(-1)?.provider)
    let speeds = this.#models.get(key)
    if (speeds === undefined)
      this.#models.set(key, (speeds = { whole: { tokens: 0, ms: 0 }, hidden: { tokens: 0, ms: 0 } }))
    const { usage, firstOutputMs, received } = meter
    if (!request.streamed) return add(speeds.whole, completionTokens(usage), meter.generatingMs)
    const shown = received.reasoning / CHARACTERS_PER_TOKEN
    const isHidden = shown < usage.reasoningTokens * SHOWN_PART
    if (firstOutputMs !== undefined) add(speeds.hidden, isHidden ? usage.reasoningTokens - shown : 0, firstOutputMs)
  }

  /** Tokens of reasoning that a stream may have generated without showing them, assumed where nothing was measured. */
  possible({ request, meter }: OpenGeneration): number {
    const { hidden } = this.#models.get(keyOf(request.model, meter.attempts.at(-1)?.provider)) ?? UNMEASURED
    return Math.round((speedOf(hidden) ?? ASSUMED_SPEED) * meter.unseenMs)
  }

  /** Tokens that a model has generated until its client left without anything received of them. */
  unseen({ request, meter }: OpenGeneration): number {
    const { whole, hidden } = this.#models.get(keyOf(request.model, meter.attempts.at(-1)?.provider)) ?? UNMEASURED
    const speed = request.streamed
      ? (speedOf(hidden) ?? (meter.showsReasoning ? ASSUMED_SPEED : 0))
      : (speedOf(whole) ?? speedOf(hidden) ?? ASSUMED_SPEED)
    return Math.round(speed * meter.unseenMs)
  }
}

const UNMEASURED: Speeds = { whole: { tokens: 0, ms: 0 }, hidden: { tokens: 0, ms: 0 } }

const keyOf = (model: string, provider: string | undefined): string => `${provider} ${model}`

const speedOf = ({ tokens, ms }: Average): number | undefined => (ms === 0 ? undefined : tokens / ms)

function add(average: Average, tokens: number, ms: number): void {
  average.tokens += tokens
  average.ms += Math.max(1, ms)
  const excess = average.ms / AVERAGED_MS
  if (excess <= 1) return
  average.tokens /= excess
  average.ms /= excess
}

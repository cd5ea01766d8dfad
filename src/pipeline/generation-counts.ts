import { addUsage, completionTokens, noUsage, promptTokens, type Usage } from '../generation/usage.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import { DURATION_BOUNDS, Histogram, TOKEN_BOUNDS } from '../telemetry/histogram.ts'

/** Models with series of their own; the rest are counted together. A client may name any number of models. */
const MODELS_MAX = 100
const OTHER = 'other'
const NONE = 'none'

/** Counts by label, of which there are few. */
export type Counts = Map<string, number>

export const increment = (counts: Counts, label: string): void => void counts.set(label, (counts.get(label) ?? 0) + 1)

/** The counts of one model at one provider. */
export type ModelCounts = {
  model: string
  provider: string
  outcomes: Counts
  /** Generations that failed or timed out, by the code of their error. */
  failures: Counts
  /** Attempts by their error code, or `served`. */
  attempts: Counts
  tokens: Usage
  nanoUsd: number
  lossy: number
  estimated: number
  disputed: number
  firstToken: Histogram
  duration: Histogram
  inputTokens: Histogram
  outputTokens: Histogram
}

const noCounts = (model: string, provider: string): ModelCounts => ({
  model,
  provider,
  outcomes: new Map(),
  failures: new Map(),
  attempts: new Map(),
  tokens: noUsage(),
  nanoUsd: 0,
  lossy: 0,
  estimated: 0,
  disputed: 0,
  firstToken: new Histogram(DURATION_BOUNDS),
  duration: new Histogram(DURATION_BOUNDS),
  inputTokens: new Histogram(TOKEN_BOUNDS),
  outputTokens: new Histogram(TOKEN_BOUNDS),
})

/** All generations that ended, by model and provider. */
export class GenerationCounts {
  /** Model -> provider. */
  readonly #models = new Map<string, Map<string, ModelCounts>>()

  all(): ModelCounts[] {
    return [...this.#models.values()].flatMap((providers) => [...providers.values()])
  }

  add({ meter, request, record }: OpenGeneration): void {
    if (record === undefined) return
    const { usage, ending } = record
    const isServed = ending === 'completed'
    const counts = this.#of(record.model, record.provider ?? NONE, isServed)
    increment(counts.outcomes, ending)
    if (ending === 'failed' || ending === 'timed-out') increment(counts.failures, failureOf(meter))
    addUsage(counts.tokens, usage)
    counts.nanoUsd += Number(record.bill)
    if (meter.losses.length > 0) counts.lossy++
    if (record.estimated) counts.estimated++
    if (record.disputed !== null) counts.disputed++
    if (request.streamed && meter.begunMs !== undefined) counts.firstToken.observe(record.latency / 1000)
    counts.duration.observe((record.latency + record.duration) / 1000)
    if (isServed) {
      counts.inputTokens.observe(promptTokens(usage))
      counts.outputTokens.observe(completionTokens(usage))
    }
    for (const { provider, error } of meter.attempts) {
      const tried = provider === counts.provider ? counts : this.#of(record.model, provider, isServed)
      increment(tried.attempts, error ?? 'served')
    }
  }

  /** A model gets series of its own once it was served, so that no client fills them with names that do not exist. */
  #of(model: string, provider: string, isServed: boolean): ModelCounts {
    let providers = this.#models.get(model)
    if (providers === undefined) {
      if (model !== OTHER && (!isServed || this.#models.size >= MODELS_MAX)) return this.#of(OTHER, provider, isServed)
      this.#models.set(model, (providers = new Map()))
    }
    let counts = providers.get(provider)
    if (counts === undefined) providers.set(provider, (counts = noCounts(model, provider)))
    return counts
  }
}

const failureOf = ({ attempts, unasked }: OpenGeneration['meter']): string =>
  attempts.findLast(({ error }) => error !== undefined)?.error ?? unasked?.error ?? NONE

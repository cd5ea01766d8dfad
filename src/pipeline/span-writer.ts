import providerNames from '../../catalog/telemetry-names.json'
import { completionTokens, promptTokens } from '../generation/usage.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import type { RequestEntry } from '../log/request-line.ts'
import type { AttemptRecord } from '../providers/attempt-record.ts'
import type { GenerationRecord } from '../store/store.ts'
import {
  beginSpan,
  doubleAttribute,
  KIND_CLIENT,
  KIND_SERVER,
  sharedBySpans,
  textAttribute,
  textsAttribute,
  wholeAttribute,
} from '../telemetry/otlp.ts'
import type { OtlpWriter, Prepared } from '../telemetry/otlp-writer.ts'
import type { RequestTrace } from '../telemetry/trace.ts'

/** A request that has ended, as far as its spans show it. */
export type EndedRequest = { trace: RequestTrace; entry: RequestEntry; generation: EndedGeneration | undefined }

/** `servedModel`: as the response names it. `hasBegun`: the first event of the response came. */
export type EndedGeneration = {
  attempts: readonly AttemptRecord[]
  servedModel: string | undefined
  hasBegun: boolean
  record: GenerationRecord
}

const SHARED_MAX = 1_000
/** Names of models are cut to this length: clients could fill the memory with them. */
const NAME_LENGTH = 256

/** Provider ids -> names of the GenAI semantic conventions, where those differ. */
const NAMES = new Map(Object.entries(providerNames))

export const genAiProvider = (id: string): string => NAMES.get(id) ?? id

/** The operation of a protocol in the GenAI semantic conventions. */
const genAiOperation = (protocol: string | undefined): string =>
  protocol === 'generateContent' || protocol === 'images' ? 'generate_content' : 'chat'

type Value = string | number | undefined

/** Fields that many spans share, by the values in them. Most spans need those of the one before. */
class SharedFields {
  readonly #known = new BoundedMap<string, Prepared>(SHARED_MAX)
  #lastValues: readonly Value[] = []
  #last: Prepared | undefined

  /** `values`: always as many. */
  get(values: readonly Value[]): Prepared | undefined {
    if (isSame(values, this.#lastValues)) return this.#last
    this.#lastValues = values
    return (this.#last = this.#known.get(keyOf(values)))
  }

  set(values: readonly Value[], prepared: Prepared): void {
    this.#lastValues = values
    this.#last = prepared
    this.#known.set(keyOf(values), prepared)
  }
}

function isSame(values: readonly Value[], others: readonly Value[]): boolean {
  for (let i = 0; i < values.length; i++) if (values[i] !== others[i]) return false
  return true
}

/** Names of keys and models are texts of users, with any character: each text has its length before it. */
const keyOf = (values: readonly Value[]): string =>
  values.map((value) => (typeof value === 'string' ? `${value.length} ${value}` : String(value))).join('\n')

/** Writes the spans of requests that have ended, always in the same encoding. */
export class SpanWriter {
  readonly #ofRequests = new SharedFields()
  readonly #ofAttempts = new SharedFields()

  /** Writes the span of a request, and those of its attempts that have one. */
  write(out: OtlpWriter, { trace, entry, generation }: EndedRequest): void {
    this.#writeRequest(out, trace, entry)
    if (generation === undefined) return
    for (const attempt of generation.attempts)
      if (attempt.spanId !== undefined) this.#writeAttempt(out, trace, entry, attempt, generation)
  }

  #writeRequest(out: OtlpWriter, trace: RequestTrace, entry: RequestEntry): void {
    const { startedAt, spanId, parent } = trace
    const shared = this.#sharedByRequests(out, trace, entry)
    beginSpan(out, trace, spanId, parent?.spanId, startedAt, startedAt + entry.ms, entry.level === 'error', shared)
    const { requestId, generation } = entry
    textAttribute(out, 'sluice.request_id', requestId)
    if (generation !== undefined) {
      const { id, cost, losses } = generation
      textAttribute(out, 'sluice.generation_id', id)
      doubleAttribute(out, 'sluice.cost_usd', Number(cost))
      if (losses.length > 0) textsAttribute(out, 'sluice.losses', losses)
    }
    out.end()
  }

  /** `attempt`: one of `attempts`, with a span. */
  #writeAttempt(
    out: OtlpWriter,
    trace: RequestTrace,
    entry: RequestEntry,
    attempt: AttemptRecord,
    { attempts, servedModel, hasBegun, record }: EndedGeneration,
  ): void {
    const startMs = trace.attemptsAt + (attempt.startedMs ?? 0)
    const isLast = attempt === attempts.at(-1) && attempt.error === undefined
    const endMs = isLast ? trace.startedAt + entry.ms : startMs + attempt.milliseconds
    const hasFailed = attempt.error !== undefined || (isLast && entry.level === 'error')
    const shared = this.#sharedByAttempts(out, attempt, record, isLast, servedModel)
    beginSpan(out, trace, attempt.spanId!, trace.spanId, startMs, endMs, hasFailed, shared)
    if (!isLast) writeFailure(out, attempt)
    else {
      writeUsage(out, record.usage)
      // The first chunk of its stream came.
      if (record.streamed && hasBegun) {
        const seconds = Math.max(0, trace.startedAt + record.latency - startMs) / 1000
        doubleAttribute(out, 'gen_ai.response.time_to_first_chunk', seconds)
      }
    }
    out.end()
  }

  #sharedByRequests(out: OtlpWriter, { method }: RequestTrace, entry: RequestEntry): Prepared {
    const { route, status, key, error, generation, level } = entry
    const model = entry.model?.slice(0, NAME_LENGTH)
    const outcome = generation?.outcome
    const errorType = error ?? (level === 'error' ? (outcome ?? String(status)) : undefined)
    const values = [method, route, status, outcome, errorType, key, model]
    const known = this.#ofRequests.get(values)
    if (known !== undefined) return known
    const prepared = sharedBySpans(out, `${method} ${route}`, KIND_SERVER, (shared) => {
      textAttribute(shared, 'http.request.method', method)
      textAttribute(shared, 'http.route', route)
      wholeAttribute(shared, 'http.response.status_code', status)
      textAttribute(shared, 'url.scheme', 'http')
      if (key !== undefined) textAttribute(shared, 'sluice.key', key)
      if (model !== undefined) textAttribute(shared, 'gen_ai.request.model', model)
      if (errorType !== undefined) textAttribute(shared, 'error.type', errorType)
      if (outcome !== undefined) textAttribute(shared, 'sluice.outcome', outcome)
    })
    this.#ofRequests.set(values, prepared)
    return prepared
  }

  /** `isLast`: it served the request, by `servedModel`. */
  #sharedByAttempts(
    out: OtlpWriter,
    { provider, protocol, model: requested }: AttemptRecord,
    record: GenerationRecord,
    isLast: boolean,
    servedModel: string | undefined,
  ): Prepared {
    const operation = genAiOperation(protocol)
    const model = (requested ?? record.model).slice(0, NAME_LENGTH)
    const served = isLast ? servedModel?.slice(0, NAME_LENGTH) : undefined
    const finish = isLast ? record.finish : undefined
    const values = [operation, provider, finish, model, served]
    const known = this.#ofAttempts.get(values)
    if (known !== undefined) return known
    const prepared = sharedBySpans(out, `${operation} ${model}`, KIND_CLIENT, (shared) => {
      textAttribute(shared, 'gen_ai.operation.name', operation)
      textAttribute(shared, 'gen_ai.provider.name', genAiProvider(provider))
      textAttribute(shared, 'gen_ai.request.model', model)
      if (served !== undefined) textAttribute(shared, 'gen_ai.response.model', served)
      if (finish !== undefined) textsAttribute(shared, 'gen_ai.response.finish_reasons', [finish])
    })
    this.#ofAttempts.set(values, prepared)
    return prepared
  }
}

/** `error.type` is the code of the failure; a call that lost a race has none. */
function writeFailure(out: OtlpWriter, { error, status }: AttemptRecord): void {
  if (error !== undefined) textAttribute(out, 'error.type', error)
  if (status !== undefined) wholeAttribute(out, 'http.response.status_code', status)
}

function writeUsage(out: OtlpWriter, usage: GenerationRecord['usage']): void {
  wholeAttribute(out, 'gen_ai.usage.input_tokens', promptTokens(usage))
  wholeAttribute(out, 'gen_ai.usage.output_tokens', completionTokens(usage))
  if (usage.cacheReadTokens > 0) wholeAttribute(out, 'gen_ai.usage.cache_read.input_tokens', usage.cacheReadTokens)
  const written = usage.cacheWrite5mTokens + usage.cacheWrite1hTokens
  if (written > 0) wholeAttribute(out, 'gen_ai.usage.cache_creation.input_tokens', written)
  if (usage.reasoningTokens > 0) wholeAttribute(out, 'gen_ai.usage.reasoning.output_tokens', usage.reasoningTokens)
}

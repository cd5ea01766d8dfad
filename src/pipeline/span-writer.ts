import providerNames from '../../catalog/telemetry-names.json'
import { cachedTokens, completionTokens, promptTokens, type Usage } from '../generation/usage.ts'
import type { RequestEntry } from '../log/request-line.ts'
import type { AttemptRecord } from '../providers/attempt-record.ts'
import type { GenerationRecord } from '../store/store.ts'
import {
  beginSpan,
  endSpan,
  KIND_CLIENT,
  KIND_SERVER,
  leaveDouble,
  leaveText,
  leaveWhole,
  spanTemplate,
  textAttribute,
  textsAttribute,
  wholeAttribute,
} from '../telemetry/otlp.ts'
import { bytesOf, type OtlpWriter, type Template, type TemplateWriter } from '../telemetry/otlp-writer.ts'
import { Templates, type Value } from '../telemetry/templates.ts'
import { newSpanId, type RequestTrace } from '../telemetry/trace.ts'

/**
 * A request that has ended, as far as its spans show it. `record`: undefined where it began no generation;
 * `servedModel`: as the response names it; `hasBegun`: the first event of the response came.
 */
export type EndedRequest = {
  trace: RequestTrace
  entry: RequestEntry
  record: GenerationRecord | undefined
  attempts: readonly AttemptRecord[]
  servedModel: string | undefined
  hasBegun: boolean
}

/** Names of models are cut to this length: clients could fill the memory with them. */
const NAME_LENGTH = 256

/** Provider ids -> names of the GenAI semantic conventions, where those differ. */
const NAMES = new Map(Object.entries(providerNames))

export const genAiProvider = (id: string): string => NAMES.get(id) ?? id

/** The operation of a protocol in the GenAI semantic conventions. */
const genAiOperation = (protocol: string | undefined): string =>
  protocol === 'generateContent' || protocol === 'images' ? 'generate_content' : 'chat'

/** Attributes of usage. The first two are always there, the others where they are more than 0. */
const USAGE_KEYS = [
  'gen_ai.usage.input_tokens',
  'gen_ai.usage.output_tokens',
  'gen_ai.usage.cache_read.input_tokens',
  'gen_ai.usage.cache_creation.input_tokens',
  'gen_ai.usage.reasoning.output_tokens',
]
const ALWAYS = 2
/** More than the bytes that a number takes. */
const SIZES = 16

/** Writes the spans of requests that have ended, always in the same encoding. */
export class SpanWriter {
  readonly #requests = new Templates()
  readonly #served = new Templates()
  readonly #others = new Templates()
  /** The values that a template leaves out, and those that decide it. New lists for each span would be garbage. */
  readonly #values: (string | number)[] = []
  readonly #ofRequest: Value[] = []
  readonly #ofServed: Value[] = []
  readonly #usage: number[] = USAGE_KEYS.map(() => 0)

  /** Writes the span of a request, and those of its attempts that have one. */
  write(out: OtlpWriter, ended: EndedRequest): void {
    const spanId = newSpanId()
    this.#writeRequest(out, spanId, ended)
    const { record, attempts } = ended
    if (record === undefined) return
    for (const attempt of attempts)
      if (attempt.spanId !== undefined) this.#writeAttempt(out, spanId, attempt, ended, record)
  }

  #writeRequest(out: OtlpWriter, spanId: string, { trace, entry }: EndedRequest): void {
    const { requestId, generation, ms } = entry
    const template = this.#requestTemplate(out, trace, entry)
    let at = this.#begin(trace, spanId, trace.parent?.spanId, trace.startedAt, trace.startedAt + ms)
    const values = this.#values
    values[at++] = requestId
    if (generation !== undefined) {
      values[at++] = generation.id
      values[at] = Number(generation.cost)
    }
    beginSpan(out, template, values)
    if (generation !== undefined && generation.losses.length > 0)
      textsAttribute(out, 'sluice.losses', generation.losses)
    endSpan(out, trace)
  }

  /** `attempt`: one of those of the request, with a span. */
  #writeAttempt(
    out: OtlpWriter,
    parentId: string,
    attempt: AttemptRecord,
    ended: EndedRequest,
    record: GenerationRecord,
  ): void {
    const { trace, entry, attempts } = ended
    const startMs = trace.attemptsAt + (attempt.startedMs ?? 0)
    const isServed = attempt.error === undefined && attempt === attempts.at(-1)
    const endMs = isServed ? trace.startedAt + entry.ms : startMs + attempt.milliseconds
    const template = isServed
      ? this.#servedTemplate(out, attempt, ended, record)
      : this.#otherTemplate(out, attempt, record)
    let at = this.#begin(trace, attempt.spanId!, parentId, startMs, endMs)
    const values = this.#values
    if (isServed) {
      const counts = this.#usage
      for (let i = 0; i < counts.length; i++) if (i < ALWAYS || counts[i]! > 0) values[at++] = counts[i]!
      values[at] = Math.max(0, trace.startedAt + record.latency - startMs) / 1000
    }
    beginSpan(out, template, values)
    endSpan(out, trace)
  }

  /** The values with which all spans begin. Returns their number. */
  #begin(
    { traceId }: RequestTrace,
    spanId: string,
    parentId: string | undefined,
    startMs: number,
    endMs: number,
  ): number {
    const values = this.#values
    let at = 0
    values[at++] = traceId
    values[at++] = spanId
    if (parentId !== undefined) values[at++] = parentId
    values[at++] = startMs
    values[at++] = Math.max(startMs, endMs)
    return at
  }

  #requestTemplate(out: OtlpWriter, { method, parent }: RequestTrace, entry: RequestEntry): Template {
    const { route, status, key, error, generation, level, requestId } = entry
    const model = entry.model?.slice(0, NAME_LENGTH)
    const outcome = generation?.outcome
    const hasFailed = level === 'error'
    const errorType = error ?? (hasFailed ? (outcome ?? String(status)) : undefined)
    const hasParent = parent !== undefined
    const idLength = generation?.id.length
    const deciding = this.#ofRequest
    deciding[0] = model
    deciding[1] = key
    deciding[2] = status
    deciding[3] = route
    deciding[4] = method
    deciding[5] = outcome
    deciding[6] = errorType
    deciding[7] = idLength
    deciding[8] = (hasParent ? 2 : 0) + (hasFailed ? 1 : 0)
    const known = this.#requests.get(deciding)
    if (known !== undefined) return known
    const write = (span: TemplateWriter): void => {
      textAttribute(span, 'http.request.method', method)
      textAttribute(span, 'http.route', route)
      wholeAttribute(span, 'http.response.status_code', status)
      textAttribute(span, 'url.scheme', 'http')
      if (key !== undefined) textAttribute(span, 'sluice.key', key)
      if (model !== undefined) textAttribute(span, 'gen_ai.request.model', model)
      if (errorType !== undefined) textAttribute(span, 'error.type', errorType)
      if (outcome !== undefined) textAttribute(span, 'sluice.outcome', outcome)
      leaveText(span, 'sluice.request_id', requestId.length)
      if (idLength === undefined) return
      leaveText(span, 'sluice.generation_id', idLength)
      leaveDouble(span, 'sluice.cost_usd')
    }
    const form = { name: `${method} ${route}`, kind: KIND_SERVER, hasParent, hasFailed, write }
    return this.#requests.add(deciding, spanTemplate(out, form))
  }

  /** The template of the attempt that served a request. Collects the usage, which it leaves out. */
  #servedTemplate(
    out: OtlpWriter,
    { provider, protocol, model: requested }: AttemptRecord,
    { entry, servedModel, hasBegun }: EndedRequest,
    { model: listed, finish, streamed, usage }: GenerationRecord,
  ): Template {
    const operation = genAiOperation(protocol)
    const model = (requested ?? listed).slice(0, NAME_LENGTH)
    const served = servedModel?.slice(0, NAME_LENGTH)
    const hasFailed = entry.level === 'error'
    // The first chunk of its stream came.
    const hasFirst = streamed && hasBegun
    const deciding = this.#ofServed
    deciding[0] = model
    deciding[1] = this.#collectUsage(usage)
    deciding[2] = provider
    deciding[3] = operation
    deciding[4] = served
    deciding[5] = finish
    deciding[6] = (hasFirst ? 2 : 0) + (hasFailed ? 1 : 0)
    const known = this.#served.get(deciding)
    if (known !== undefined) return known
    const write = (span: TemplateWriter): void => {
      writeCall(span, operation, provider, model)
      if (served !== undefined) textAttribute(span, 'gen_ai.response.model', served)
      textsAttribute(span, 'gen_ai.response.finish_reasons', [finish])
      for (const [index, count] of this.#usage.entries())
        if (index < ALWAYS || count > 0) leaveWhole(span, USAGE_KEYS[index]!, bytesOf(count))
      if (hasFirst) leaveDouble(span, 'gen_ai.response.time_to_first_chunk')
    }
    const form = { name: `${operation} ${model}`, kind: KIND_CLIENT, hasParent: true, hasFailed, write }
    return this.#served.add(deciding, spanTemplate(out, form))
  }

  /** The template of another attempt. `error.type` is the code of its failure; a call that lost a race has none. */
  #otherTemplate(
    out: OtlpWriter,
    { provider, protocol, model: requested, error, status }: AttemptRecord,
    { model: listed }: GenerationRecord,
  ): Template {
    const operation = genAiOperation(protocol)
    const model = (requested ?? listed).slice(0, NAME_LENGTH)
    const deciding = [model, error, status, provider, operation]
    const known = this.#others.get(deciding)
    if (known !== undefined) return known
    const write = (span: TemplateWriter): void => {
      writeCall(span, operation, provider, model)
      if (error !== undefined) textAttribute(span, 'error.type', error)
      if (status !== undefined) wholeAttribute(span, 'http.response.status_code', status)
    }
    const hasFailed = error !== undefined
    const form = { name: `${operation} ${model}`, kind: KIND_CLIENT, hasParent: true, hasFailed, write }
    return this.#others.add(deciding, spanTemplate(out, form))
  }

  /** Collects the counts of the attributes of usage. Returns the bytes that each takes, in one number. */
  #collectUsage(usage: Usage): number {
    const counts = this.#usage
    counts[0] = promptTokens(usage)
    counts[1] = completionTokens(usage)
    counts[2] = cachedTokens(usage)
    counts[3] = usage.cacheWrite5mTokens + usage.cacheWrite1hTokens
    counts[4] = usage.reasoningTokens
    let sizes = 0
    for (let i = 0; i < counts.length; i++) sizes = sizes * SIZES + (counts[i]! > 0 ? bytesOf(counts[i]!) : 0)
    return sizes
  }
}

function writeCall(span: TemplateWriter, operation: string, provider: string, model: string): void {
  textAttribute(span, 'gen_ai.operation.name', operation)
  textAttribute(span, 'gen_ai.provider.name', genAiProvider(provider))
  textAttribute(span, 'gen_ai.request.model', model)
}

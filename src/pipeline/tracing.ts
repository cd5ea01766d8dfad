import { version } from '../../package.json'
import providerNames from '../../catalog/telemetry-names.json'
import { promptTokens, completionTokens } from '../generation/usage.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { RequestEntry } from '../log/request-line.ts'
import type { GenerationRecord } from '../store/store.ts'
import type { AttemptRecord } from '../providers/attempt-record.ts'
import { BatchExporter } from '../telemetry/otlp-exporter.ts'
import {
  doubleAttribute,
  envelope,
  KIND_CLIENT,
  KIND_SERVER,
  spanJson,
  textAttribute,
  textsAttribute,
  wholeAttribute,
} from '../telemetry/otlp-json.ts'
import type { OtlpSettings } from '../telemetry/otlp-settings.ts'
import { isSampled, remoteParent, RequestTrace, type Sampler } from '../telemetry/trace.ts'

/** A request as far as its trace needs it. `trace`: null where it is not recorded. */
type Traced = { request: Request; id: string; receivedAt: number; trace?: RequestTrace | null }

/** Provider ids -> names of the GenAI semantic conventions, where those differ. */
const NAMES = new Map(Object.entries(providerNames))

export const genAiProvider = (id: string): string => NAMES.get(id) ?? id

/** The operation of a protocol in the GenAI semantic conventions. */
const genAiOperation = (protocol: string | undefined): string =>
  protocol === 'generateContent' || protocol === 'images' ? 'generate_content' : 'chat'

/** The spans of requests and of their attempts, on their way to a collector. */
export class Tracing {
  readonly exporter: BatchExporter<Ended>
  readonly #sampler: Sampler

  constructor(traces: NonNullable<OtlpSettings['traces']>, resource: OtlpSettings['resource']) {
    this.#sampler = traces.sampler
    this.exporter = new BatchExporter({ ...traces, ...envelope('Spans', resource, version), write: spansOf })
  }

  /** The trace of a request; undefined where it is not recorded. Without one of the client, its id is the request's. */
  of(inbound: Traced): RequestTrace | undefined {
    if (inbound.trace === undefined) {
      const { request, id, receivedAt } = inbound
      const parent = remoteParent(request.headers)
      const traceId = parent?.traceId ?? id
      inbound.trace = isSampled(this.#sampler, traceId, parent)
        ? new RequestTrace(traceId, parent, request.method, receivedAt)
        : null
    }
    return inbound.trace ?? undefined
  }

  /** Records a request that has ended, and its attempts. */
  end(trace: RequestTrace, entry: RequestEntry, open: OpenGeneration | undefined): void {
    const record = open?.record
    if (open === undefined || record === undefined)
      return this.exporter.add({ trace, entry, spans: 1, generation: undefined })
    const { tries, served, begunMs } = open.meter
    const showsFirst = record.streamed && begunMs !== undefined
    this.exporter.add({ trace, entry, spans: 1 + tries.length, generation: { record, tries, served, showsFirst } })
  }
}

/** A request that has ended. */
type Ended = { trace: RequestTrace; entry: RequestEntry; spans: number; generation: EndedGeneration | undefined }

/** `showsFirst`: the first chunk of its stream came. */
type EndedGeneration = {
  record: GenerationRecord
  tries: readonly AttemptRecord[]
  served: Served
  showsFirst: boolean
}
type Served = OpenGeneration['meter']['served']

function spansOf({ trace, entry, generation }: Ended): string {
  const { method, startedAt, spanId, parent } = trace
  const endMs = startedAt + entry.ms
  let spans = spanJson({
    trace,
    spanId,
    parentId: parent?.spanId,
    name: `${method} ${entry.route}`,
    kind: KIND_SERVER,
    startMs: startedAt,
    endMs,
    attributes: requestAttributes(trace, entry),
    hasFailed: entry.level === 'error',
  })
  if (generation === undefined) return spans
  const { tries } = generation
  for (const attempt of tries)
    if (attempt.spanId !== undefined) spans += `,${attemptSpan(trace, entry, generation, attempt, endMs)}`
  return spans
}

function attemptSpan(
  trace: RequestTrace,
  entry: RequestEntry,
  generation: EndedGeneration,
  attempt: AttemptRecord,
  endMs: number,
): string {
  const { record, tries } = generation
  const startMs = trace.attemptsAt + (attempt.startedMs ?? 0)
  const isLast = attempt === tries.at(-1) && attempt.error === undefined
  const operation = genAiOperation(attempt.protocol)
  const served = isLast ? servedAttributes(trace, generation, startMs) : failedAttributes(attempt)
  return spanJson({
    trace,
    spanId: attempt.spanId!,
    parentId: trace.spanId,
    name: `${operation} ${attempt.model ?? record.model}`,
    kind: KIND_CLIENT,
    startMs,
    endMs: isLast ? endMs : startMs + attempt.milliseconds,
    attributes: `${attemptAttributes(attempt, operation, record)}${served}`,
    hasFailed: attempt.error !== undefined || (isLast && entry.level === 'error'),
  })
}

function requestAttributes({ method }: RequestTrace, entry: RequestEntry): string {
  const { route, status, requestId, key, model, error, generation, level } = entry
  let attributes =
    `${textAttribute('http.request.method', method)},${textAttribute('http.route', route)}` +
    `,${wholeAttribute('http.response.status_code', status)},${textAttribute('url.scheme', 'http')}` +
    `,${textAttribute('sluice.request_id', requestId)}`
  if (key !== undefined) attributes += `,${textAttribute('sluice.key', key)}`
  if (model !== undefined) attributes += `,${textAttribute('gen_ai.request.model', model)}`
  const errorType = error ?? (level === 'error' ? (generation?.outcome ?? String(status)) : undefined)
  if (errorType !== undefined) attributes += `,${textAttribute('error.type', errorType)}`
  if (generation === undefined) return attributes
  const { id, outcome, cost, losses } = generation
  attributes +=
    `,${textAttribute('sluice.generation_id', id)},${textAttribute('sluice.outcome', outcome)}` +
    `,${doubleAttribute('sluice.cost_usd', Number(cost))}`
  return losses.length === 0 ? attributes : `${attributes},${textsAttribute('sluice.losses', losses)}`
}

const attemptAttributes = ({ provider, model }: AttemptRecord, operation: string, record: GenerationRecord): string =>
  `${textAttribute('gen_ai.operation.name', operation)}` +
  `,${textAttribute('gen_ai.provider.name', genAiProvider(provider))}` +
  `,${textAttribute('gen_ai.request.model', model ?? record.model)}`

/** `error.type` is the code of the failure; a call that lost a race has none. */
function failedAttributes({ error, status }: AttemptRecord): string {
  const type = error === undefined ? '' : `,${textAttribute('error.type', error)}`
  return status === undefined ? type : `${type},${wholeAttribute('http.response.status_code', status)}`
}

function servedAttributes(
  { startedAt }: RequestTrace,
  { record: { usage, finish, latency }, served, showsFirst }: EndedGeneration,
  startMs: number,
): string {
  let attributes =
    `,${textsAttribute('gen_ai.response.finish_reasons', [finish])}` +
    `,${wholeAttribute('gen_ai.usage.input_tokens', promptTokens(usage))}` +
    `,${wholeAttribute('gen_ai.usage.output_tokens', completionTokens(usage))}`
  if (served !== undefined) attributes += `,${textAttribute('gen_ai.response.model', served.model)}`
  if (usage.cacheReadTokens > 0)
    attributes += `,${wholeAttribute('gen_ai.usage.cache_read.input_tokens', usage.cacheReadTokens)}`
  const written = usage.cacheWrite5mTokens + usage.cacheWrite1hTokens
  if (written > 0) attributes += `,${wholeAttribute('gen_ai.usage.cache_creation.input_tokens', written)}`
  if (usage.reasoningTokens > 0)
    attributes += `,${wholeAttribute('gen_ai.usage.reasoning.output_tokens', usage.reasoningTokens)}`
  if (showsFirst) {
    const seconds = Math.max(0, startedAt + latency - startMs) / 1000
    attributes += `,${doubleAttribute('gen_ai.response.time_to_first_chunk', seconds)}`
  }
  return attributes
}

import { version } from '../../package.json'
import providerNames from '../../catalog/telemetry-names.json'
import { BoundedMap } from '../http/bounded-map.ts'
import { promptTokens, completionTokens } from '../generation/usage.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { RequestEntry } from '../log/request-line.ts'
import type { GenerationRecord } from '../store/store.ts'
import type { AttemptRecord } from '../providers/attempt-record.ts'
import { ByteWriter } from '../telemetry/byte-writer.ts'
import { BatchExporter } from '../telemetry/otlp-exporter.ts'
import {
  doubleAttribute,
  envelope,
  KIND_CLIENT,
  KIND_SERVER,
  sharedJson,
  textAttribute,
  textsAttribute,
  wholeAttribute,
  writeSpan,
} from '../telemetry/otlp-json.ts'
import type { OtlpSettings } from '../telemetry/otlp-settings.ts'
import { isSampled, remoteParent, RequestTrace, type Sampler } from '../telemetry/trace.ts'

/** A request as far as its trace needs it. `trace`: null where it is not recorded. */
type Traced = { request: Request; id: string; receivedAt: number; trace?: RequestTrace | null }

const SHARED_MAX = 1_000
/** A value that is absent, in a list of values: no name has it. */
const NONE = '\r'

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
    this.exporter = new BatchExporter({ ...traces, write: messagesWith(envelope('Spans', resource, version)) })
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

/** Writes the message with the spans of requests, into the same memory each time. */
function messagesWith({ head, tail }: { head: string; tail: string }): (requests: readonly Ended[]) => Uint8Array {
  const out = new ByteWriter()
  return (requests) => {
    out.clear()
    out.text(head)
    for (const [index, ended] of requests.entries()) {
      if (index > 0) out.text(',')
      writeSpans(out, ended)
    }
    out.text(tail)
    return out.written
  }
}

function writeSpans(out: ByteWriter, { trace, entry, generation }: Ended): void {
  const { startedAt, spanId, parent } = trace
  const endMs = startedAt + entry.ms
  writeSpan(out, {
    trace,
    spanId,
    parentId: parent?.spanId,
    startMs: startedAt,
    endMs,
    hasFailed: entry.level === 'error',
    shared: sharedByRequests(trace, entry),
    attributes: requestAttributes(entry),
  })
  if (generation === undefined) return
  for (const attempt of generation.tries) {
    if (attempt.spanId === undefined) continue
    out.text(',')
    writeAttempt(out, trace, entry, generation, attempt)
  }
}

function writeAttempt(
  out: ByteWriter,
  trace: RequestTrace,
  entry: RequestEntry,
  generation: EndedGeneration,
  attempt: AttemptRecord,
): void {
  const startMs = trace.attemptsAt + (attempt.startedMs ?? 0)
  const isLast = attempt === generation.tries.at(-1) && attempt.error === undefined
  writeSpan(out, {
    trace,
    spanId: attempt.spanId!,
    parentId: trace.spanId,
    startMs,
    endMs: isLast ? trace.startedAt + entry.ms : startMs + attempt.milliseconds,
    hasFailed: attempt.error !== undefined || (isLast && entry.level === 'error'),
    shared: sharedByAttempts(attempt, generation.record, isLast ? generation.served?.model : undefined),
    attributes: isLast ? servedAttributes(trace, generation, startMs) : failedAttributes(attempt),
  })
}

/** JSON that many spans share, by the values in it. */
const sharedJsons = new BoundedMap<string, Uint8Array>(SHARED_MAX)

function sharedByRequests({ method }: RequestTrace, entry: RequestEntry): Uint8Array {
  const { route, status, key, model, error, generation, level } = entry
  const errorType = error ?? (level === 'error' ? (generation?.outcome ?? String(status)) : undefined)
  // Names of keys and models are texts of users, with any character.
  const ofKey = key === undefined ? NONE : `${key.length} ${key}`
  const values = `${method}\n${route}\n${status}\n${errorType ?? NONE}\n${ofKey}\n${model ?? NONE}`
  const known = sharedJsons.get(values)
  if (known !== undefined) return known
  let attributes =
    `${textAttribute('http.request.method', method)},${textAttribute('http.route', route)}` +
    `,${wholeAttribute('http.response.status_code', status)},${textAttribute('url.scheme', 'http')}`
  if (key !== undefined) attributes += `,${textAttribute('sluice.key', key)}`
  if (model !== undefined) attributes += `,${textAttribute('gen_ai.request.model', model)}`
  if (errorType !== undefined) attributes += `,${textAttribute('error.type', errorType)}`
  const json = sharedJson(`${method} ${route}`, KIND_SERVER, attributes)
  sharedJsons.set(values, json)
  return json
}

function requestAttributes({ requestId, generation }: RequestEntry): string {
  const attributes = `,${textAttribute('sluice.request_id', requestId)}`
  if (generation === undefined) return attributes
  const { id, outcome, cost, losses } = generation
  const ended =
    `${attributes},${textAttribute('sluice.generation_id', id)},${textAttribute('sluice.outcome', outcome)}` +
    `,${doubleAttribute('sluice.cost_usd', Number(cost))}`
  return losses.length === 0 ? ended : `${ended},${textsAttribute('sluice.losses', losses)}`
}

/** `servedModel`: the model that a provider named in its response. */
function sharedByAttempts(
  { provider, protocol, model: requested }: AttemptRecord,
  record: GenerationRecord,
  servedModel: string | undefined,
): Uint8Array {
  const operation = genAiOperation(protocol)
  const model = requested ?? record.model
  const values = `${operation}\n${provider}\n${model}\n${servedModel ?? NONE}`
  const known = sharedJsons.get(values)
  if (known !== undefined) return known
  let attributes =
    `${textAttribute('gen_ai.operation.name', operation)}` +
    `,${textAttribute('gen_ai.provider.name', genAiProvider(provider))},${textAttribute('gen_ai.request.model', model)}`
  if (servedModel !== undefined) attributes += `,${textAttribute('gen_ai.response.model', servedModel)}`
  const json = sharedJson(`${operation} ${model}`, KIND_CLIENT, attributes)
  sharedJsons.set(values, json)
  return json
}

/** `error.type` is the code of the failure; a call that lost a race has none. */
function failedAttributes({ error, status }: AttemptRecord): string {
  const type = error === undefined ? '' : `,${textAttribute('error.type', error)}`
  return status === undefined ? type : `${type},${wholeAttribute('http.response.status_code', status)}`
}

function servedAttributes(
  { startedAt }: RequestTrace,
  { record: { usage, finish, latency }, showsFirst }: EndedGeneration,
  startMs: number,
): string {
  let attributes =
    `,${textsAttribute('gen_ai.response.finish_reasons', [finish])}` +
    `,${wholeAttribute('gen_ai.usage.input_tokens', promptTokens(usage))}` +
    `,${wholeAttribute('gen_ai.usage.output_tokens', completionTokens(usage))}`
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

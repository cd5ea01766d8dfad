import { version } from '../../package.json'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { RequestEntry } from '../log/request-line.ts'
import type { AttemptRecord } from '../providers/attempt-record.ts'
import { beginMessage } from '../telemetry/otlp.ts'
import { BatchExporter } from '../telemetry/otlp-exporter.ts'
import type { OtlpSettings } from '../telemetry/otlp-settings.ts'
import { isSampled, remoteParent, RequestTrace, type Sampler } from '../telemetry/trace.ts'
import { SpanWriter } from './span-writer.ts'

/** A request as far as its trace needs it. `trace`: null where it is not recorded. */
type Traced = { request: Request; id: string; receivedAt: number; trace?: RequestTrace | null }

/** The spans of requests and of their attempts, on their way to a collector. */
export class Tracing {
  readonly exporter: BatchExporter
  readonly #sampler: Sampler
  readonly #spans = new SpanWriter()

  constructor(traces: NonNullable<OtlpSettings['traces']>, resource: OtlpSettings['resource']) {
    this.#sampler = traces.sampler
    this.exporter = new BatchExporter(traces, (out) => beginMessage(out, 'traces', resource, version))
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
    const tries = record === undefined ? NO_ATTEMPTS : open!.meter.tries
    const out = this.exporter.messageFor(1 + tries.length)
    if (out === undefined) return
    this.#spans.writeRequest(out, trace, entry)
    for (const attempt of tries)
      if (attempt.spanId !== undefined) this.#spans.writeAttempt(out, trace, entry, attempt, open!.meter, record!)
  }
}

const NO_ATTEMPTS: readonly AttemptRecord[] = []

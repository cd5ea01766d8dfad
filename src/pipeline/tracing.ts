import { version } from '../../package.json'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { RequestEntry } from '../log/request-line.ts'
import { beginMessage } from '../telemetry/otlp.ts'
import { BatchExporter } from '../telemetry/otlp-exporter.ts'
import type { OtlpSettings } from '../telemetry/otlp-settings.ts'
import { isSampled, remoteParent, RequestTrace, type Sampler } from '../telemetry/trace.ts'
import { type EndedRequest, SpanWriter } from './span-writer.ts'

/** A request as far as its trace needs it. `trace`: null where it is not recorded. */
type Traced = { request: Request; id: string; receivedAt: number; trace?: RequestTrace | null }

/** The spans of requests and of their attempts, on their way to a collector. */
export class Tracing {
  readonly exporter: BatchExporter<EndedRequest>
  readonly #sampler: Sampler

  constructor(traces: NonNullable<OtlpSettings['traces']>, resource: OtlpSettings['resource']) {
    this.#sampler = traces.sampler
    const spans = new SpanWriter()
    this.exporter = new BatchExporter<EndedRequest>(traces, {
      begin: (out) => beginMessage(out, 'traces', resource, version),
      write: (out, ended) => spans.write(out, ended),
    })
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
    if (record === undefined) {
      this.exporter.add({ trace, entry, record, attempts: [], servedModel: undefined, hasBegun: false }, 1)
      return
    }
    // The meter has the text of the response, and refers to the request.
    const { attempts, namedModel, served, begunMs } = open!.meter
    const servedModel = namedModel === '' ? served?.model : namedModel
    const ended = { trace, entry, record, attempts, servedModel, hasBegun: begunMs !== undefined }
    this.exporter.add(ended, 1 + attempts.length)
  }
}

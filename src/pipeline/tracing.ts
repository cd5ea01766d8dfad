import { version } from '../../package.json'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { RequestEntry } from '../log/request-line.ts'
import type { GenerationRecord } from '../store/store.ts'
import { beginMessage } from '../telemetry/otlp.ts'
import { BatchExporter } from '../telemetry/otlp-exporter.ts'
import type { OtlpSettings } from '../telemetry/otlp-settings.ts'
import { isSampled, remoteParent, RequestTrace, type Sampler } from '../telemetry/trace.ts'
import { SpanWriter, type EndedGeneration, type EndedRequest } from './span-writer.ts'

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
    const generation = open?.record === undefined ? undefined : endedGeneration(open.meter, open.record)
    this.exporter.add({ trace, entry, generation }, 1 + (generation?.attempts.length ?? 0))
  }
}

/** Without the meter, which has the text of the response and refers to the request. */
const endedGeneration = (
  { tries, served, namedModel, begunMs }: OpenGeneration['meter'],
  record: GenerationRecord,
): EndedGeneration => ({
  attempts: tries,
  servedModel: namedModel === '' ? served?.model : namedModel,
  hasBegun: begunMs !== undefined,
  record,
})

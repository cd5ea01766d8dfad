import type { AppContext, PublicRequest } from '../context.ts'
import type { Config } from '../config/config.ts'
import type { Ledger, OpenGeneration } from '../ledger/ledger.ts'
import { log } from '../log/log.ts'
import type { Store } from '../store/store.ts'
import type { RefusalLog } from './refusal-log.ts'
import { RequestCounts } from './request-counts.ts'
import { completed, entryOf, isQuiet, levelOf } from './request-log.ts'
import { SharedTail } from './shared-tail.ts'
import { Tail } from './tail.ts'
import { openTelemetry } from './telemetry.ts'

type Observers = Pick<AppContext, 'counts' | 'tracing'>

/**
 * Reports a request whose response is ready: in the metrics, and in the log and as a trace once it has ended. A
 * streamed generation has when it is recorded; nothing of the request itself is kept until then.
 */
export function observeResponse(app: AppContext, inbound: PublicRequest, status: number): void {
  app.counts.responded(inbound.route, status, inbound.errorCode)
  if (isQuiet(inbound, status)) return
  const trace = app.tracing?.of(inbound)
  if (!log.hasRequests && trace === undefined) return
  const { open } = inbound
  if (open !== undefined && open.record === undefined) {
    open.entry = entryOf(inbound, 'info', status, app.clock.now())
    open.trace = trace
    return
  }
  const level = levelOf(status, open?.record?.ending)
  const isLogged = log.hasRequestsOf(level)
  if (!isLogged && trace === undefined) return
  const entry = completed(entryOf(inbound, level, status, app.clock.now()), open)
  if (isLogged) log.request(entry)
  if (trace !== undefined) app.tracing!.end(trace, entry, open)
}

/** Everything that follows requests and generations. */
export function openObservers(
  config: Config,
  ledger: Ledger,
  refusals: RefusalLog,
  { messages }: Pick<Store, 'messages'>,
): Observers & Pick<AppContext, 'otlp' | 'tail'> {
  const counts = new RequestCounts(config.metrics.enabled)
  const telemetry = openTelemetry(config.env)
  const tail = new Tail({ ledger, refusals })
  if (messages !== undefined) new SharedTail(tail, messages)
  ledger.onClosed = (open) => {
    observeClosing({ counts, ...telemetry }, open)
    tail.closed(open)
  }
  return { counts, tail, ...telemetry }
}

/** Reports a generation that ended, with a request or without one. */
function observeClosing({ counts, tracing }: Observers, open: OpenGeneration): void {
  counts.closed(open)
  const { entry, record, trace } = open
  if (entry === undefined || record === undefined) return
  entry.level = levelOf(entry.status, record.ending)
  const isLogged = log.hasRequestsOf(entry.level)
  if (!isLogged && trace === undefined) return
  completed(entry, open)
  if (isLogged) log.request(entry)
  if (trace !== undefined) tracing!.end(trace, entry, open)
}

import type { AppContext, PublicRequest } from '../context.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import { logClosed, logRequest } from './request-log.ts'

/** Reports a request whose response is ready; a stream begins. */
export function observeResponse({ counts, clock }: AppContext, inbound: PublicRequest, status: number): void {
  counts.responded(inbound.route, status, inbound.errorCode)
  logRequest(inbound, status, clock.now())
}

/** Reports a generation that ended, with a request or without one. */
export function observeClosing({ counts }: Pick<AppContext, 'counts'>, open: OpenGeneration): void {
  counts.closed(open)
  logClosed(open)
}

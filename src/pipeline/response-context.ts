import type { Clock } from '../accounts/clock.ts'
import type { AuthenticatedRequest } from '../context.ts'
import type { RequestSettings } from '../generation/request.ts'
import { protocols } from '../protocols/index.ts'
import type { ResponseContext } from '../protocols/protocol.ts'
import type { GenerationRoute } from './hooks.ts'
import type { ParsedRequest } from './prepare.ts'

/** The facts that writing the response to a request needs. */
export const responseContext = (
  { clock }: { clock: Pick<Clock, 'now'> },
  { id }: Pick<AuthenticatedRequest, 'id'>,
  { protocol }: GenerationRoute,
  { rawRequest, options }: Pick<ParsedRequest, 'rawRequest' | 'options'>,
  request: RequestSettings,
): ResponseContext => {
  const now = clock.now()
  return {
    rawRequest,
    request,
    responseIdentity: {
      id: protocols[protocol].serve.idPrefix + id,
      model: request.model,
      createdAt: Math.floor(now / 1000),
      aheadMs: now - Date.now(),
    },
    report: options.report,
  }
}

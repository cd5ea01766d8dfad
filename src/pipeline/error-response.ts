import type { PublicRequest } from '../context.ts'
import type { GatewayError } from '../error.ts'
import type { ProtocolName } from '../generation/request.ts'
import { log } from '../log/log.ts'
import { protocols } from '../protocols/index.ts'
import { identityHeaders } from './response-headers.ts'

/** An error in the format of the route's protocol. The cause of an internal one is logged, and not sent. */
export function errorResponse(error: GatewayError, format: ProtocolName, inbound: PublicRequest): Response {
  inbound.errorCode = error.code
  if (error.code === 'internal_error') log.error(`${inbound.requestId}: internal error`, error.cause ?? error)
  const { serve } = protocols[format]
  const headers: Record<string, string> = {
    ...inbound.errorHeaders,
    ...error.headers,
    'content-type': 'application/json',
    ...identityHeaders(inbound),
  }
  if (error.retryAfterSeconds !== undefined) headers['retry-after'] = String(error.retryAfterSeconds)
  if (error.shouldRetry !== undefined) headers['x-should-retry'] = String(error.shouldRetry)
  return new Response(JSON.stringify(serve.writeError(error, inbound.requestId)), {
    status: serve.statusOf?.(error) ?? error.status,
    headers,
  })
}

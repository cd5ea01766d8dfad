import type { GatewayError } from '../../error.ts'
import type { Frame } from '../../http/frames.ts'

/** google.rpc.Status in JSON: `{error: {code, message, status, details}}`. */
export function writeError(error: GatewayError, requestId?: string): { error: Record<string, unknown> } {
  const details: Record<string, unknown>[] = []
  if (error.param !== undefined)
    details.push({
      '@type': 'type.googleapis.com/google.rpc.BadRequest',
      fieldViolations: [{ field: error.param, description: error.message }],
    })
  if (error.retryAfterSeconds !== undefined)
    details.push({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${error.retryAfterSeconds}s` })
  details.push({
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: error.code.toUpperCase(),
    domain: 'sluice',
    ...writeMetadata(error),
  })
  if (requestId !== undefined) details.push({ '@type': 'type.googleapis.com/google.rpc.RequestInfo', requestId })
  return { error: { code: error.status, message: error.message, status: error.googleStatus, details } }
}

/** `ErrorInfo.metadata` is a map of strings. */
function writeMetadata({ metadata, details }: GatewayError): { metadata?: Record<string, string> } {
  const entries = Object.entries({ ...metadata, ...details }).map(([name, value]): [string, string] => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ])
  return entries.length === 0 ? {} : { metadata: Object.fromEntries(entries) }
}

/**
 * An error in a stream that has begun, in two forms: the AI SDK recognizes it only in a `data:` frame, Google's SDK
 * before 3.0 and other clients only as raw JSON, as Google sends it.
 */
export const errorFrames = (error: GatewayError): Frame[] => {
  const data = JSON.stringify(writeError(error))
  return [{ data }, { bare: true, data }]
}

import type { ErrorCode, GatewayError } from '../../error.ts'
import type { Frame } from '../../http/frames.ts'

/** Google's `status`. Source: docs/errors.md. */
const STATUS_BY_CODE: Record<ErrorCode, string> = {
  invalid_request: 'INVALID_ARGUMENT',
  unsupported_parameter: 'INVALID_ARGUMENT',
  context_length_exceeded: 'INVALID_ARGUMENT',
  invalid_api_key: 'UNAUTHENTICATED',
  insufficient_credit: 'FAILED_PRECONDITION',
  permission_denied: 'PERMISSION_DENIED',
  account_suspended: 'PERMISSION_DENIED',
  not_found: 'NOT_FOUND',
  model_not_found: 'NOT_FOUND',
  method_not_allowed: 'INVALID_ARGUMENT',
  sign_in_required: 'UNAUTHENTICATED',
  role_required: 'PERMISSION_DENIED',
  request_in_progress: 'ABORTED',
  conflict: 'ABORTED',
  set_in_file: 'FAILED_PRECONDITION',
  misdirected_request: 'INVALID_ARGUMENT',
  request_too_large: 'INVALID_ARGUMENT',
  unsupported_media_type: 'INVALID_ARGUMENT',
  rate_limit_exceeded: 'RESOURCE_EXHAUSTED',
  upgrade_required: 'FAILED_PRECONDITION',
  precondition_required: 'FAILED_PRECONDITION',
  quota_exceeded: 'RESOURCE_EXHAUSTED',
  upstream_rate_limited: 'RESOURCE_EXHAUSTED',
  internal_error: 'INTERNAL',
  upstream_error: 'UNAVAILABLE',
  overloaded: 'UNAVAILABLE',
  store_unavailable: 'UNAVAILABLE',
  upstream_timeout: 'DEADLINE_EXCEEDED',
}

/** The HTTP status of a provider takes precedence over the code. */
const STATUS_BY_HTTP_STATUS: Partial<Record<number, string>> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  504: 'DEADLINE_EXCEEDED',
}

const googleStatusOf = ({ status, code }: GatewayError): string => STATUS_BY_HTTP_STATUS[status] ?? STATUS_BY_CODE[code]

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
  return { error: { code: error.status, message: error.message, status: googleStatusOf(error), details } }
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
  return [{ data }, { unprefixed: true, data }]
}

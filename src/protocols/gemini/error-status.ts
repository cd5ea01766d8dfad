import type { ErrorCode, GatewayError } from '../../error.ts'

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
  request_too_large: 'INVALID_ARGUMENT',
  unsupported_media_type: 'INVALID_ARGUMENT',
  rate_limit_exceeded: 'RESOURCE_EXHAUSTED',
  upgrade_required: 'FAILED_PRECONDITION',
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

export const googleStatusOf = ({ status, code }: GatewayError): string =>
  STATUS_BY_HTTP_STATUS[status] ?? STATUS_BY_CODE[code]

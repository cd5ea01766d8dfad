import type { ErrorCode, GatewayError } from '../../error.ts'
import type { Block } from './shapes.ts'

/** The `type` of the error object. Source: docs/errors.md. */
const TYPE_BY_CODE: Record<ErrorCode, string> = {
  invalid_request: 'invalid_request_error',
  unsupported_parameter: 'invalid_request_error',
  context_length_exceeded: 'invalid_request_error',
  invalid_api_key: 'authentication_error',
  insufficient_credit: 'billing_error',
  permission_denied: 'permission_error',
  account_suspended: 'permission_error',
  not_found: 'not_found_error',
  model_not_found: 'not_found_error',
  method_not_allowed: 'invalid_request_error',
  sign_in_required: 'authentication_error',
  role_required: 'permission_error',
  request_in_progress: 'invalid_request_error',
  conflict: 'invalid_request_error',
  set_in_file: 'invalid_request_error',
  misdirected_request: 'invalid_request_error',
  request_too_large: 'request_too_large',
  unsupported_media_type: 'invalid_request_error',
  rate_limit_exceeded: 'rate_limit_error',
  upgrade_required: 'invalid_request_error',
  precondition_required: 'invalid_request_error',
  quota_exceeded: 'rate_limit_error',
  upstream_rate_limited: 'rate_limit_error',
  internal_error: 'api_error',
  upstream_error: 'api_error',
  overloaded: 'overloaded_error',
  store_unavailable: 'overloaded_error',
  upstream_timeout: 'timeout_error',
}

/** The status of a provider takes precedence over the code. */
const TYPE_BY_STATUS: Partial<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

/** The error object. `requestId` is absent inside a stream. */
export const writeError = (error: GatewayError, requestId?: string): Block => ({
  type: 'error',
  error: {
    type: TYPE_BY_STATUS[error.status] ?? TYPE_BY_CODE[error.code],
    message: error.message,
    ...(error.details === undefined ? {} : { details: error.details }),
    ...(error.metadata === undefined ? {} : { metadata: error.metadata }),
  },
  ...(requestId === undefined ? {} : { request_id: requestId }),
})

/** Anthropic's clients know overload as 529. */
export const statusOf = (error: GatewayError): number => (error.status === 503 ? 529 : error.status)

import type { ErrorCode, GatewayError } from '../error.ts'

const TYPE_BY_CODE: Partial<Record<ErrorCode, string>> = {
  invalid_api_key: 'authentication_error', insufficient_credit: 'insufficient_quota', permission_denied: 'permission_error', account_suspended: 'permission_error',
  rate_limit_exceeded: 'rate_limit_error', quota_exceeded: 'insufficient_quota', upstream_rate_limited: 'rate_limit_error',
}

/** The `error` object of OpenAI's protocols; `metadata` holds what the provider said. */
export const errorObject = (error: GatewayError): Record<string, unknown> => ({
  message: error.message,
  type: TYPE_BY_CODE[error.code] ?? (error.status >= 500 ? 'server_error' : 'invalid_request_error'),
  param: error.param ?? null,
  code: error.code,
  ...(error.metadata === undefined ? {} : { metadata: error.metadata }),
})

/** OpenAI's error body, the same for chat completions and responses. */
export const writeError = (error: GatewayError): object => ({ error: errorObject(error) })

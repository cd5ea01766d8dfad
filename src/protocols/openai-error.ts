import { isObject, tryParse } from '../json/parse.ts'
import type { ErrorCode, GatewayError } from '../error.ts'
import { plainText, upstreamError, validationProblems } from './upstream-error.ts'

const TYPE_BY_CODE: Partial<Record<ErrorCode, string>> = {
  invalid_api_key: 'authentication_error',
  sign_in_required: 'authentication_error',
  role_required: 'permission_error',
  insufficient_credit: 'insufficient_quota',
  permission_denied: 'permission_error',
  account_suspended: 'permission_error',
  rate_limit_exceeded: 'rate_limit_error',
  quota_exceeded: 'insufficient_quota',
  upstream_rate_limited: 'rate_limit_error',
}

/** The `error` object of OpenAI's protocols; `metadata` has the provider's own error. */
export const errorObject = (error: GatewayError): Record<string, unknown> => ({
  message: error.message,
  type: TYPE_BY_CODE[error.code] ?? (error.status >= 500 ? 'server_error' : 'invalid_request_error'),
  param: error.param ?? null,
  code: error.code,
  ...(error.metadata === undefined ? {} : { metadata: error.metadata }),
})

/** OpenAI's error body, the same for chat completions, responses and images. */
export const writeError = (error: GatewayError): object => ({ error: errorObject(error) })

/** The value if it is a non-empty string. */
const nonEmpty = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)

/**
 * A provider's error body: `{error: {...}}`, `{error: "..."}`, `{code, error}`, `{message}`, `{detail}` with a text or
 * a list, `{message: {detail}}`, an array with one of these, a JSON string, or an HTML page.
 */
export function readError(status: number, body: string): GatewayError {
  const value = tryParse(body)
  const outer = Array.isArray(value) ? value[0] : value
  if (!isObject(outer)) return upstreamError(status, typeof outer === 'string' ? outer : plainText(body))
  const error = isObject(outer.error) ? outer.error : outer
  const detail = isObject(error.message) ? error.message.detail : error.detail
  const message =
    nonEmpty(outer.error) ??
    nonEmpty(error.message) ??
    nonEmpty(detail) ??
    validationProblems(detail) ??
    plainText(JSON.stringify(detail ?? outer))
  return upstreamError(
    status,
    [message, nonEmpty(rawOf(error))].filter((line) => line !== undefined && line !== '').join(' - '),
    {
      ...(nonEmpty(error.type) === undefined ? {} : { type: error.type as string }),
      ...(typeof error.code === 'string' || typeof error.code === 'number' ? { code: error.code } : {}),
      ...(nonEmpty(error.param) === undefined ? {} : { param: error.param as string }),
    },
  )
}

/** OpenRouter returns the error of the provider behind it in `metadata.raw`. */
const rawOf = (error: Record<string, unknown>): unknown => (isObject(error.metadata) ? error.metadata.raw : undefined)

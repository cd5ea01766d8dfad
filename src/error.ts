/** Every way in which a request can fail. Protocols only write these errors in their own format. */

/** Error code -> HTTP status. Source: the error table in docs/errors.md. */
export const STATUS_BY_CODE = {
  invalid_request: 400,
  unsupported_parameter: 400,
  context_length_exceeded: 400,
  invalid_api_key: 401,
  insufficient_credit: 402,
  permission_denied: 403,
  account_suspended: 403,
  not_found: 404,
  model_not_found: 404,
  method_not_allowed: 405,
  sign_in_required: 401,
  role_required: 403,
  request_in_progress: 409,
  conflict: 409,
  set_in_file: 409,
  request_too_large: 413,
  unsupported_media_type: 415,
  misdirected_request: 421,
  rate_limit_exceeded: 422,
  upgrade_required: 426,
  precondition_required: 428,
  quota_exceeded: 429,
  upstream_rate_limited: 429,
  internal_error: 500,
  upstream_error: 502,
  overloaded: 503,
  store_unavailable: 503,
  upstream_timeout: 504,
} as const

export type ErrorCode = keyof typeof STATUS_BY_CODE

/** Codes by which a provider refuses what the client sent: no failure of the provider, or of this server. */
export const REQUEST_CODES: ReadonlySet<string> = new Set([
  'invalid_request',
  'unsupported_parameter',
  'context_length_exceeded',
  'request_too_large',
] satisfies ErrorCode[])

export type ErrorDetails = {
  /** Path of the invalid parameter in the client's request: `messages[2].content`. */
  param?: string
  /** HTTP status if it differs from the code's, e.g. the 4xx status of a provider. */
  status?: number
  /** Seconds after which a retry may succeed, sent as `Retry-After`. */
  retryAfterSeconds?: number
  /** Sent as `x-should-retry`, which the SDKs of OpenAI and Anthropic obey. */
  shouldRetry?: boolean
  /** The provider's error without secrets, sent as `error.metadata`. */
  metadata?: Record<string, unknown>
  /** Additional members of the protocol's `details`, e.g. `error_code`, which Anthropic's SDK reads. */
  details?: Record<string, unknown>
  /** Further headers of the response. */
  headers?: Record<string, string>
  cause?: unknown
}

/**
 * The error class for everything that a client may see. `message` says what is wrong and what to do, and contains no
 * secret.
 */
export class GatewayError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly param: string | undefined
  readonly retryAfterSeconds: number | undefined
  readonly shouldRetry: boolean | undefined
  readonly metadata: Record<string, unknown> | undefined
  readonly details: Record<string, unknown> | undefined
  readonly headers: Record<string, string> | undefined

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'GatewayError'
    this.code = code
    this.status = details.status ?? STATUS_BY_CODE[code]
    this.param = details.param
    this.retryAfterSeconds = details.retryAfterSeconds
    this.shouldRetry = details.shouldRetry
    this.metadata = details.metadata
    this.details = details.details
    this.headers = details.headers
  }

  /** A copy with some details, or the message, replaced. It keeps the stack. */
  with({ message = this.message, ...changes }: ErrorDetails & { message?: string }): GatewayError {
    const copy = new GatewayError(this.code, message, { ...this, cause: this.cause, ...changes })
    if (this.stack !== undefined) copy.stack = this.stack
    return copy
  }
}

/** A 400 for bad input. `message` says what `param`, a path in the client's request, must be. */
export const invalid = (param: string, message: string): GatewayError =>
  new GatewayError('invalid_request', `${param}: ${message}`, { param })

/** True where the store could not be read or written, and a retry may succeed. */
export const isUnavailable = (error: unknown): error is GatewayError =>
  error instanceof GatewayError && error.code === 'store_unavailable'

/** Anything thrown as a GatewayError. An unexpected error becomes a 500 whose message reveals nothing internal. */
export const asGatewayError = (error: unknown): GatewayError =>
  error instanceof GatewayError ? error : new GatewayError('internal_error', 'Internal error.', { cause: error })

/** A text for people, of which so many characters are kept, and the sign that there was more. */
export const shortened = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most - 3)}...` : text

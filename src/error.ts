/** Every way in which a request can fail. Protocols only write these errors in their own format. */

/**
 * Error code -> HTTP status, `type` of Anthropic's error object, and Google's status. Source: the error table in
 * docs/errors.md.
 */
const CODES = {
  invalid_request: { status: 400, messagesType: 'invalid_request_error', googleStatus: 'INVALID_ARGUMENT' },
  unsupported_parameter: { status: 400, messagesType: 'invalid_request_error', googleStatus: 'INVALID_ARGUMENT' },
  context_length_exceeded: { status: 400, messagesType: 'invalid_request_error', googleStatus: 'INVALID_ARGUMENT' },
  invalid_api_key: { status: 401, messagesType: 'authentication_error', googleStatus: 'UNAUTHENTICATED' },
  insufficient_credit: { status: 402, messagesType: 'billing_error', googleStatus: 'FAILED_PRECONDITION' },
  permission_denied: { status: 403, messagesType: 'permission_error', googleStatus: 'PERMISSION_DENIED' },
  account_suspended: { status: 403, messagesType: 'permission_error', googleStatus: 'PERMISSION_DENIED' },
  not_found: { status: 404, messagesType: 'not_found_error', googleStatus: 'NOT_FOUND' },
  model_not_found: { status: 404, messagesType: 'not_found_error', googleStatus: 'NOT_FOUND' },
  method_not_allowed: { status: 405, messagesType: 'invalid_request_error', googleStatus: 'INVALID_ARGUMENT' },
  request_too_large: { status: 413, messagesType: 'request_too_large', googleStatus: 'INVALID_ARGUMENT' },
  unsupported_media_type: { status: 415, messagesType: 'invalid_request_error', googleStatus: 'INVALID_ARGUMENT' },
  rate_limit_exceeded: { status: 422, messagesType: 'rate_limit_error', googleStatus: 'RESOURCE_EXHAUSTED' },
  upgrade_required: { status: 426, messagesType: 'invalid_request_error', googleStatus: 'FAILED_PRECONDITION' },
  quota_exceeded: { status: 429, messagesType: 'rate_limit_error', googleStatus: 'RESOURCE_EXHAUSTED' },
  upstream_rate_limited: { status: 429, messagesType: 'rate_limit_error', googleStatus: 'RESOURCE_EXHAUSTED' },
  internal_error: { status: 500, messagesType: 'api_error', googleStatus: 'INTERNAL' },
  upstream_error: { status: 502, messagesType: 'api_error', googleStatus: 'UNAVAILABLE' },
  overloaded: { status: 503, messagesType: 'overloaded_error', googleStatus: 'UNAVAILABLE' },
  store_unavailable: { status: 503, messagesType: 'overloaded_error', googleStatus: 'UNAVAILABLE' },
  upstream_timeout: { status: 504, messagesType: 'timeout_error', googleStatus: 'DEADLINE_EXCEEDED' },
} as const

export type ErrorCode = keyof typeof CODES

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

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'GatewayError'
    this.code = code
    this.status = details.status ?? CODES[code].status
    this.param = details.param
    this.retryAfterSeconds = details.retryAfterSeconds
    this.shouldRetry = details.shouldRetry
    this.metadata = details.metadata
    this.details = details.details
  }

  /** A copy with some details, or the message, replaced. It keeps the stack. */
  with({ message = this.message, ...changes }: ErrorDetails & { message?: string }): GatewayError {
    const copy = new GatewayError(this.code, message, { ...this, cause: this.cause, ...changes })
    if (this.stack !== undefined) copy.stack = this.stack
    return copy
  }

  /** The `type` of Anthropic's error object. The status of a provider takes precedence over the code. */
  get messagesType(): string {
    return TYPE_BY_STATUS[this.status] ?? CODES[this.code].messagesType
  }

  /** Google's status. The status of a provider takes precedence over the code. */
  get googleStatus(): string {
    return GOOGLE_BY_STATUS[this.status] ?? CODES[this.code].googleStatus
  }
}

const TYPE_BY_STATUS: Record<number, string> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

const GOOGLE_BY_STATUS: Record<number, string> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  504: 'DEADLINE_EXCEEDED',
}

/** A 400 for bad input. `message` says what `param`, a path in the client's request, must be. */
export const invalid = (param: string, message: string): GatewayError =>
  new GatewayError('invalid_request', `${param}: ${message}`, { param })

/** Anything thrown as a GatewayError. An unexpected error becomes a 500 whose message reveals nothing internal. */
export const asGatewayError = (error: unknown): GatewayError =>
  error instanceof GatewayError ? error : new GatewayError('internal_error', 'Internal error.', { cause: error })

/**
 * Every way in which a request can fail, said once. Protocols dress these in their own shapes; nothing else invents a
 * status.
 */

/**
 * One row per code: HTTP status, the `type` of Anthropic's error object, Google's status word. Source: the error table
 * in docs/errors.md.
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
  /** Path of the offending parameter in the client's own words: `messages[2].content`. */
  param?: string
  /** HTTP status when it differs from the code's own, e.g. a provider's 4xx about the request that keeps its status. */
  status?: number
  /** Seconds after which a retry may succeed; becomes `Retry-After`. */
  retryAfterSeconds?: number
  /** Becomes `x-should-retry`, which the OpenAI and Anthropic SDKs obey. */
  shouldRetry?: boolean
  /** What the provider said, secrets scrubbed; shown as `error.metadata`. */
  metadata?: Record<string, unknown>
  /** Extra members of the protocol's own `details`, e.g. `error_code` that Anthropic's SDK looks for. */
  details?: Record<string, unknown>
  cause?: unknown
}

/**
 * The one error class. `message` is shown to clients: it says what was wrong and what would be right, and never holds a
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

  /** The `type` word of Anthropic's error object. A provider's own status decides where it says more than the code. */
  get messagesType(): string {
    return TYPE_BY_STATUS[this.status] ?? CODES[this.code].messagesType
  }

  /** Google's status word. */
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

/** A 400 for bad input: names the parameter by path and says what would be right. */
export const invalid = (param: string, message: string): GatewayError =>
  new GatewayError('invalid_request', `${param}: ${message}`, { param })

/** Anything thrown -> a GatewayError. What we did not foresee is a 500 whose text gives nothing away. */
export const asGatewayError = (error: unknown): GatewayError =>
  error instanceof GatewayError
    ? error
    : new GatewayError('internal_error', 'Sluice failed on this request.', { cause: error })

import { asGatewayError, type GatewayError } from '../error.ts'

/** The error response of a provider: `native` as it is, for a client that uses its protocol. */
type ErrorResponse = {
  native: { status: number; body: string } | undefined
  status: number
  /** The time after which it accepts a retry, if it says so. */
  retryAfterMs: number | undefined
}

/** A failure of a provider before the first byte of a response. */
export class UpstreamRefusal extends Error {
  readonly error: GatewayError
  readonly provider: string
  readonly attempts: number
  /** Undefined where the provider gave no response. */
  readonly response: ErrorResponse | undefined
  /** The output limit to ask again with, where Sluice has chosen one that is too high. */
  allowedLimit: number | undefined
  /** The provider has no route for the request. */
  lacksRoute = false

  constructor(error: GatewayError, provider: string, attempts: number, response?: ErrorResponse) {
    super(error.message)
    this.error = error
    this.provider = provider
    this.attempts = attempts
    this.response = response
  }
}

/** The error of the request whose attempt threw this. */
export const errorOfAttempt = (thrown: unknown): GatewayError =>
  asGatewayError(thrown instanceof UpstreamRefusal ? thrown.error : thrown)

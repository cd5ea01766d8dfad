import { type ErrorCode, type ErrorDetails, GatewayError } from '../error.ts'

/** An error as data, for another process. */
export type ErrorData = { code: ErrorCode; message: string; details: ErrorDetails }

/** Undefined for an error that is a defect of Sluice. */
export function errorData(error: unknown): ErrorData | undefined {
  if (!(error instanceof GatewayError)) return undefined
  const { code, message, status, param, retryAfterSeconds, shouldRetry, metadata, details } = error
  const given = Object.entries({ status, param, retryAfterSeconds, shouldRetry, metadata, details })
  return { code, message, details: Object.fromEntries(given.filter(([, value]) => value !== undefined)) }
}

export const errorOf = ({ code, message, details }: ErrorData): GatewayError => new GatewayError(code, message, details)

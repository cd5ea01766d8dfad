import type { GatewayError } from '../../error.ts'
import { isObject, tryParse, stringOf } from '../../json/parse.ts'
import { plainText, upstreamError, upstreamStreamError, type ProviderErrorFields } from '../upstream-error.ts'

/** An error response: google.rpc.Status, alone or in an array, or whatever a proxy in front of Google sent. */
export function readError(status: number, body: string): GatewayError {
  const error = findError(tryParse(body))
  if (error === undefined) return upstreamError(status, plainText(body))
  return upstreamError(status, messageOf(error), detailsOf(error))
}

/** The `error` object of a chunk. */
export function readStreamError(error: Record<string, unknown>): GatewayError {
  const details = detailsOf(error)
  // 499 means that a peer on Google's side closed the connection; the client's request was not at fault.
  return upstreamStreamError(messageOf(error), details.code === 499 ? { ...details, code: 502 } : details)
}

function findError(value: unknown): Record<string, unknown> | undefined {
  const first: unknown = Array.isArray(value) ? value[0] : value
  if (typeof first === 'string') return { message: first }
  if (!isObject(first)) return undefined
  if (isObject(first.error)) return first.error
  if (typeof first.error === 'string') return { message: first.error }
  return typeof first.message === 'string' ? first : undefined
}

const messageOf = ({ message }: Record<string, unknown>): string => stringOf(message)

function detailsOf({ status, code, details }: Record<string, unknown>): ProviderErrorFields {
  const entries = Array.isArray(details) ? details.filter(isObject) : []
  const reason = entries.map((entry) => entry.reason).find((value) => typeof value === 'string')
  const field = entries
    .flatMap(({ fieldViolations }) => (Array.isArray(fieldViolations) ? fieldViolations : []))
    .filter(isObject)
    .map((violation) => violation.field)
    .find((name) => typeof name === 'string')
  const delay = entries.map((entry) => entry.retryDelay).find((text) => typeof text === 'string')
  const seconds = delay === undefined ? NaN : Number.parseFloat(delay)
  const errorCode = typeof code === 'number' ? code : reason
  return {
    ...(typeof status === 'string' ? { type: status } : {}),
    ...(errorCode === undefined ? {} : { code: errorCode }),
    ...(field === undefined ? {} : { param: field }),
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retryAfterSeconds: Math.ceil(seconds) } : {}),
  }
}

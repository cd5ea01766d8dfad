import type { GatewayError } from '../../error.ts'
import { isObject, tryParse } from '../../json/parse.ts'
import { plainText, upstreamError, upstreamStreamError } from '../upstream-error.ts'
import type { Json } from './shapes.ts'

/** The error of a response with an error status; its body may be anything. */
export function readError(status: number, body: string): GatewayError {
  const { message, ...details } = detailsOf(tryParse(body)) ?? { message: plainText(body) }
  return upstreamError(status, message, details)
}

/** The error of an object that came with status 200 or inside a stream: its type gives the status. */
export function errorOf(data: Json): GatewayError {
  const { message, ...details } = detailsOf(data) ?? { message: '' }
  const status = STATUS_BY_TYPE.get(details.type ?? '')
  return status === undefined ? upstreamStreamError(message, details) : upstreamError(status, message, details)
}

const STATUS_BY_TYPE: ReadonlyMap<string, number> = new Map([
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['not_found_error', 404],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['api_error', 500],
  ['timeout_error', 504],
  ['overloaded_error', 529],
])

/** `{type: 'error', error: {type, message}}`, and the other forms of compatible servers. */
function detailsOf(data: unknown): { message: string; type?: string; code?: string | number } | undefined {
  const outer: unknown = Array.isArray(data) ? data[0] : data
  const error = isObject(outer) ? (outer.error ?? outer) : outer
  if (typeof error === 'string') return { message: error }
  if (!isObject(error) || typeof error.message !== 'string') return undefined
  const { message, type, code } = error
  return {
    message,
    ...(typeof type === 'string' ? { type } : {}),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
  }
}

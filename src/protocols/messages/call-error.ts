import { parsed } from '../../generation/json-text.ts'
import type { GatewayError } from '../../error.ts'
import { plainText, upstreamError, upstreamStreamError } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import type { Json } from './shapes.ts'

/** A provider's answer with an error status. The body may be anything. */
export function readError(status: number, body: string): GatewayError {
  const { message, type } = spoken(parsed(body)) ?? { message: plainText(body), type: undefined }
  return upstreamError(status, message, type === undefined ? {} : { type })
}

/** An error object that came with status 200 or inside a stream: its type says which status it would have been. */
export function errorOf(data: Json): GatewayError {
  const { message, type } = spoken(data) ?? { message: '', type: undefined }
  const status = type === undefined ? undefined : STATUS_BY_TYPE.get(type)
  return status === undefined ? upstreamStreamError(message, type === undefined ? {} : { type }) : upstreamError(status, message, { type })
}

const STATUS_BY_TYPE: ReadonlyMap<string, number> = new Map([
  ['invalid_request_error', 400], ['authentication_error', 401], ['billing_error', 402], ['permission_error', 403], ['not_found_error', 404],
  ['request_too_large', 413], ['rate_limit_error', 429], ['api_error', 500], ['timeout_error', 504], ['overloaded_error', 529],
])

/** `{type: 'error', error: {type, message}}`, and the looser forms of compatible servers. */
function spoken(data: unknown): { message: string; type: string | undefined } | undefined {
  if (typeof data === 'string') return { message: data, type: undefined }
  const error = isObject(data) ? data.error ?? data : undefined
  if (typeof error === 'string') return { message: error, type: undefined }
  if (!isObject(error) || typeof error.message !== 'string') return undefined
  return { message: error.message, type: typeof error.type === 'string' ? error.type : undefined }
}

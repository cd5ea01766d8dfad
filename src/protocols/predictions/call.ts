import { isObject, stringOf, tryParse } from '../../json/parse.ts'
import { GatewayError, invalid } from '../../error.ts'
import type { PredictionStatus } from '../../store/store.ts'
import { scrub } from '../../log/secrets.ts'
import { describeType, present } from '../fields.ts'
import type { Target } from '../protocol.ts'
import { plainText, upstreamError, validationProblems, type ProviderErrorFields } from '../upstream-error.ts'

/** The client side of Replicate's HTTP API: a prediction is created, polled until it ends, and may be cancelled. */

/** A prediction as reported by its provider. Times in Unix milliseconds; invalid values are absent. */
export type UpstreamPrediction = {
  id: string
  status: PredictionStatus
  output: unknown
  error: string | null
  logs: string
  predictSeconds?: number
  startedAt?: number
  completedAt?: number
}

/** Path after the base URL, and JSON body. */
export type CreateRequest = { path: string; body: Record<string, unknown> }

/** A hash, or a name that refers to one. */
const VERSION = /^[\w.-]{1,255}$/

/**
 * The request for a prediction: by model for `owner/name`, otherwise by version. `version`: chosen by the client; it is
 * sent together with the model that is billed, since alone it could be a version of any model. Throws model_not_found
 * for a malformed name, and invalid_request for a version other than the one in the name.
 */
export function createRequest(
  { model }: Pick<Target, 'model'>,
  input: Record<string, unknown>,
  version?: string,
): CreateRequest {
  const [, owner, name, versionInName] = /^(?:([^/:]+)\/)?([^/:]+)(?::([^/:]+))?$/.exec(model) ?? []
  if (name === undefined)
    throw new GatewayError(
      'model_not_found',
      `${model} is not the name of a prediction model: expected owner/name or owner/name:version.`,
      { param: 'model' },
    )
  if (version !== undefined && !VERSION.test(version)) throw invalid('version', 'must be a hash, or owner/name:hash')
  if (version !== undefined && versionInName !== undefined && version !== versionInName)
    throw invalid('version', `must be ${versionInName}, the version in the name of the model`)
  const chosen = version ?? versionInName
  if (owner !== undefined && chosen === undefined)
    return { path: `/models/${encodeURIComponent(owner)}/${encodeURIComponent(name)}/predictions`, body: { input } }
  const fullName = owner === undefined ? (versionInName ?? name) : `${owner}/${name}`
  return {
    path: '/predictions',
    body: { version: chosen === undefined || chosen === fullName ? fullName : `${fullName}:${chosen}`, input },
  }
}

/** Throws upstream_error for an id that is not a single path segment. */
export const getPath = (id: string): string => `/predictions/${pathSegment(id)}`

/** For a POST. Throws like `getPath`. */
export const cancelPath = (id: string): string => `${getPath(id)}/cancel`

const ID = /^[A-Za-z0-9_-][A-Za-z0-9._~-]{0,4095}$/

function pathSegment(id: string): string {
  if (ID.test(id)) return id
  throw new GatewayError('upstream_error', 'The provider returned a prediction with an invalid id.')
}

const STATUSES = new Map<string, PredictionStatus>([
  ['starting', 'starting'],
  ['booting', 'starting'],
  ['queued', 'starting'],
  ['processing', 'processing'],
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  // `aborted`: its deadline passed before it started.
  ['canceled', 'canceled'],
  ['cancelled', 'canceled'],
  ['aborted', 'canceled'],
])

/** Reads the response of a create, get or cancel. Throws upstream_error if it is not a prediction. */
export function readPrediction(body: unknown): UpstreamPrediction {
  if (!isObject(body)) throw notAPrediction(describeType(body))
  const { id, status, output, error, logs, metrics } = body
  if (typeof id !== 'string') throw notAPrediction('an object without an id')
  const known = typeof status === 'string' ? STATUSES.get(status) : undefined
  if (known === undefined) throw notAPrediction('an object whose status is unknown')
  const startedAt = instantOf(body.started_at)
  const completedAt = instantOf(body.completed_at)
  return {
    id: pathSegment(id),
    status: known,
    output: checkDepth(output ?? null),
    error: errorText(error),
    logs: typeof logs === 'string' ? truncated(logs, LOGS_LENGTH) : '',
    ...present('predictSeconds', isObject(metrics) ? secondsOf(metrics.predict_time) : undefined),
    ...present('startedAt', startedAt),
    // An end before the start is invalid.
    ...present(
      'completedAt',
      startedAt !== undefined && completedAt !== undefined && completedAt < startedAt ? undefined : completedAt,
    ),
  }
}

const notAPrediction = (received: string): GatewayError =>
  new GatewayError('upstream_error', `The provider responded with ${received} instead of a prediction.`)

/** Limits on logs and errors in characters: they are stored, and sent in every response and webhook. */
const LOGS_LENGTH = 256 * 1024
const ERROR_LENGTH = 4_000

/** The beginning of the text, so that what was already sent stays valid when the text grows. */
const truncated = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length)}\n[cut]` : text

function errorText(error: unknown): string | null {
  if (error === undefined || error === null || error === '') return null
  const text = reasonOf(isObject(error) ? (error.detail ?? error.message) : error)
  return text === '' ? 'The provider gave no reason.' : truncated(scrub(text), ERROR_LENGTH)
}

/** Deeper values would exhaust the stack when they are serialized. */
const DEPTH_MAX = 64

function checkDepth(output: unknown): unknown {
  let level = [output]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEPTH_MAX) throw notAPrediction(`an output nested more than ${DEPTH_MAX} levels deep`)
    level = level.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []))
  }
  return output
}

/** Limit on the reported duration of a prediction, one year: a longer one is not credible. */
const SECONDS_MAX = 366 * 86_400

const secondsOf = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= SECONDS_MAX ? value : undefined

function instantOf(value: unknown): number | undefined {
  const instant = typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(instant) ? undefined : instant
}

/** A response with an error status: `{title, detail, status}`, `{detail}` with a text or a list, or any other body. */
export function readError(status: number, body: string): GatewayError {
  const value = tryParse(body)
  if (!isObject(value)) return upstreamError(status, typeof value === 'string' ? value : plainText(body))
  const message = [stringOf(value.title), reasonOf(value.detail ?? value.error ?? value.message)]
    .filter((text) => text !== '')
    .join(': ')
  const fields: ProviderErrorFields = {
    ...present('param', firstInvalidField(value)),
    ...present('retryAfterSeconds', retryAfterOf(value.retry_after)),
  }
  return upstreamError(status, message === '' ? plainText(body) : message, fields)
}

const reasonOf = (detail: unknown): string => validationProblems(detail) ?? stringOf(detail).trim()

function firstInvalidField({ invalid_fields: fields }: Record<string, unknown>): string | undefined {
  const first: unknown = Array.isArray(fields) ? fields[0] : undefined
  return isObject(first) && typeof first.field === 'string' ? first.field : undefined
}

const retryAfterOf = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= 86_400 ? Math.ceil(value) : undefined

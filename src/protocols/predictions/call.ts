import { tryParse } from '../../json/parse.ts'
import { GatewayError, invalid } from '../../error.ts'
import type { PredictionStatus } from '../../store/store.ts'
import { isObject, kindOf, present } from '../fields.ts'
import type { Target } from '../protocol.ts'
import { plainText, scrub, upstreamError, type ProviderSaid } from '../upstream-error.ts'

/**
 * Replicate's HTTP API, as we speak it to a provider: a prediction is created, asked after until it has ended, and may
 * be cancelled.
 */

/** A prediction as its provider tells it. Instants in Unix milliseconds; what the provider says wrongly is absent. */
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

/** A hash, or a word that stands for one. */
const VERSION = /^[\w.-]{1,255}$/

/**
 * How a prediction is asked for: `owner/name` by its model, `owner/name:version`, and a name without an owner, by the
 * version. `version`: the one that the client chose,
 * sent with the model that it pays for, since by itself it may be that of any other. Throws model_not_found for a name
 * that is none of these, and invalid_request
 * for a version that is not the one in the name.
 */
export function createRequest(
  { model }: Pick<Target, 'model'>,
  input: Record<string, unknown>,
  version?: string,
): CreateRequest {
  const [, owner, name, named] = /^(?:([^/:]+)\/)?([^/:]+)(?::([^/:]+))?$/.exec(model) ?? []
  if (name === undefined)
    throw new GatewayError(
      'model_not_found',
      `${model} is no model that predictions are made with: their names are owner/name or owner/name:version.`,
      { param: 'model' },
    )
  if (version !== undefined && !VERSION.test(version)) throw invalid('version', 'must be a hash, or owner/name:hash')
  if (version !== undefined && named !== undefined && version !== named)
    throw invalid('version', `must be ${named}, which is the one that this model has here`)
  const chosen = version ?? named
  if (owner !== undefined && chosen === undefined)
    return { path: `/models/${encodeURIComponent(owner)}/${encodeURIComponent(name)}/predictions`, body: { input } }
  const whole = owner === undefined ? (named ?? name) : `${owner}/${name}`
  return {
    path: '/predictions',
    body: { version: chosen === undefined || chosen === whole ? whole : `${whole}:${chosen}`, input },
  }
}

/** Throws upstream_error for an id that would not stay one segment of a path. */
export const getPath = (id: string): string => `/predictions/${pathSegment(id)}`

/** Asked for by POST. Throws like `getPath`. */
export const cancelPath = (id: string): string => `${getPath(id)}/cancel`

const ID = /^[A-Za-z0-9_-][A-Za-z0-9._~-]{0,4095}$/

function pathSegment(id: string): string {
  if (ID.test(id)) return id
  throw new GatewayError('upstream_error', 'The provider calls its prediction by an id that cannot be asked after.')
}

const STATUSES = new Map<string, PredictionStatus>([
  ['starting', 'starting'],
  ['booting', 'starting'],
  ['queued', 'starting'],
  ['processing', 'processing'],
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  // `aborted`: its deadline passed before it began.
  ['canceled', 'canceled'],
  ['cancelled', 'canceled'],
  ['aborted', 'canceled'],
])

/** The JSON of a create, get or cancel. Throws upstream_error for what is no prediction. */
export function readPrediction(body: unknown): UpstreamPrediction {
  if (!isObject(body)) throw noPrediction(kindOf(body))
  const { id, status, output, error, logs, metrics } = body
  if (typeof id !== 'string') throw noPrediction('an object without an id')
  const known = typeof status === 'string' ? STATUSES.get(status) : undefined
  if (known === undefined) throw noPrediction('an object whose status is unknown')
  const startedAt = instantOf(body.started_at)
  const completedAt = instantOf(body.completed_at)
  return {
    id: pathSegment(id),
    status: known,
    output: shallow(output ?? null),
    error: errorText(error),
    logs: typeof logs === 'string' ? bounded(logs, LOGS_LENGTH) : '',
    ...present('predictSeconds', isObject(metrics) ? secondsOf(metrics.predict_time) : undefined),
    ...present('startedAt', startedAt),
    // Two that contradict each other are none.
    ...present(
      'completedAt',
      startedAt !== undefined && completedAt !== undefined && completedAt < startedAt ? undefined : completedAt,
    ),
  }
}

const noPrediction = (what: string): GatewayError =>
  new GatewayError('upstream_error', `The provider answered with ${what} where a prediction was expected.`)

/** Characters of logs and errors that are kept: they go into the store, every answer and every webhook. */
const LOGS_LENGTH = 256 * 1024
const ERROR_LENGTH = 4_000

/** The beginning, so that what was told of it stays true when more comes. */
const bounded = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length)}\n[cut]` : text

function errorText(error: unknown): string | null {
  if (error === undefined || error === null || error === '') return null
  const said =
    typeof error === 'string' ? error : isObject(error) ? (detailOf(error.detail ?? error.message) ?? '') : ''
  return said === '' ? 'The provider did not say why.' : bounded(scrub(said), ERROR_LENGTH)
}

/** Deeper ones would exhaust the stack of whatever writes them. */
const MOST_DEPTH = 64

function shallow(output: unknown): unknown {
  let level = [output]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_DEPTH) throw noPrediction(`an output nested more than ${MOST_DEPTH} levels deep`)
    level = level.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []))
  }
  return output
}

/** No prediction takes longer than a year, nor less than no time. */
const MOST_SECONDS = 366 * 86_400

const secondsOf = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= MOST_SECONDS ? value : undefined

function instantOf(value: unknown): number | undefined {
  const instant = typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(instant) ? undefined : instant
}

/** An answer with an error status: `{title, detail, status}`, `{detail}`, a list of fields, or anything. */
export function readError(status: number, body: string): GatewayError {
  const said = tryParse(body)
  if (!isObject(said)) return upstreamError(status, typeof said === 'string' ? said : plainText(body))
  const detail = detailOf(said.detail ?? said.error ?? said.message)
  const message = [said.title, detail]
    .filter((text): text is string => typeof text === 'string' && text.trim() !== '')
    .join(': ')
  const about: ProviderSaid = {
    ...present('param', paramOf(said)),
    ...present('retryAfterSeconds', retryAfterOf(said.retry_after)),
  }
  return upstreamError(status, message === '' ? plainText(body) : message, about)
}

/** A text, or FastAPI's list of `{loc, msg}`, which Cog's own servers answer with. */
function detailOf(detail: unknown): string | undefined {
  if (typeof detail === 'string') return detail.trim()
  if (!Array.isArray(detail)) return undefined
  return detail
    .filter(isObject)
    .map(({ loc, msg }) => `${Array.isArray(loc) ? `${loc.join('.')}: ` : ''}${String(msg)}`)
    .join('; ')
}

function paramOf({ invalid_fields: fields }: Record<string, unknown>): string | undefined {
  const first: unknown = Array.isArray(fields) ? fields[0] : undefined
  return isObject(first) && typeof first.field === 'string' ? first.field : undefined
}

const retryAfterOf = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= 86_400 ? Math.ceil(value) : undefined

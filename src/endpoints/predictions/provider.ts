import type { AppContext } from '../../context.ts'
import { asGatewayError, GatewayError } from '../../error.ts'
import { readAll } from '../../http/call.ts'
import type { CallSignal } from '../../http/connection.ts'
import type { Meter } from '../../ledger/meter.ts'
import {
  cancelPath,
  createRequest,
  getPath,
  readError,
  readPrediction,
  type UpstreamPrediction,
} from '../../protocols/predictions/call.ts'
import { parseResponse, transport, withRetryAfter } from '../../providers/attempt.ts'
import { UpstreamRefusal } from '../../providers/upstream-refusal.ts'
import { recordFailure, type AttemptRecord } from '../../providers/attempt-record.ts'
import type { PredictionEndpoint } from '../../providers/catalogue.ts'
import type { ForwardedWork } from './work.ts'

/** Calls to a provider of predictions. */

type Modules = Pick<AppContext, 'config'>

/** Outputs may contain media as data. */
const RESPONSE_BYTES = 64 * 1024 * 1024

/** More than a working provider needs to report a prediction, and to send all of its output. */
const POLL_FIRST_BYTE_MS = 30_000
const POLL_TOTAL_MS = 120_000

/**
 * Statuses with which a provider did not take the prediction, so that another may. After any other failure it may run.
 */
const NOT_TAKEN = new Set([401, 402, 403, 429, 503, 529])

/** A provider answered with an error status. */
class ErrorStatus extends Error {
  readonly status: number
  readonly error: GatewayError

  constructor(status: number, error: GatewayError) {
    super(error.message)
    this.status = status
    this.error = error
  }
}

/**
 * Creates a prediction at the first provider that takes it. Throws the last provider's error: an UpstreamRefusal where
 * it has not taken the prediction. No other is tried after one that may have taken it.
 */
export async function createPrediction(
  app: Modules,
  { endpoints, version, input }: ForwardedWork,
  meter: Meter,
  signal: CallSignal,
): Promise<{ endpoint: PredictionEndpoint; reported: UpstreamPrediction }> {
  for (const [index, endpoint] of endpoints.entries()) {
    const startedAt = performance.now()
    const attempt = attemptAt(endpoint)
    meter.attempts.push(attempt)
    try {
      const { path, body } = createRequest(endpoint.target, input, version ?? undefined)
      const onSent = (): void => {
        attempt.sent = true
      }
      const create = { method: 'POST', path, body: JSON.stringify(body), once: true, signal, onSent } as const
      const reported = await call(app, endpoint, create)
      meter.served = endpoint.target
      return { endpoint, reported }
    } catch (error) {
      const isLast = index === endpoints.length - 1 || signal.aborted
      if (!(error instanceof ErrorStatus)) {
        recordFailure(attempt, asGatewayError(error))
        if (attempt.sent === true || isLast) throw error
        continue
      }
      attempt.status = error.status
      recordFailure(attempt, error.error)
      if (!NOT_TAKEN.has(error.status)) throw error.error
      if (isLast) throw new UpstreamRefusal(error.error, endpoint.provider.id, index + 1)
    } finally {
      attempt.milliseconds = Math.round(performance.now() - startedAt)
    }
  }
  throw new GatewayError('internal_error', 'No provider is left for this prediction.')
}

const attemptAt = ({ provider, target, credential }: PredictionEndpoint): AttemptRecord => ({
  provider: provider.id,
  model: target.model,
  protocol: 'predictions',
  milliseconds: 0,
  ...(credential === undefined ? {} : { credential }),
})

/** The state of a prediction. Undefined where its provider does not know it; throws where it cannot be polled. */
export const getPrediction = (
  app: Modules,
  endpoint: PredictionEndpoint,
  id: string,
  signal: CallSignal,
): Promise<UpstreamPrediction | undefined> =>
  orUnknown(call(app, endpoint, { method: 'GET', path: getPath(id), signal }))

/** Cancels a prediction; gives its state then, as `getPrediction` does. */
export const cancelPrediction = (
  app: Modules,
  endpoint: PredictionEndpoint,
  id: string,
  signal: CallSignal,
): Promise<UpstreamPrediction | undefined> =>
  orUnknown(call(app, endpoint, { method: 'POST', path: cancelPath(id), signal }))

async function orUnknown(reported: Promise<UpstreamPrediction>): Promise<UpstreamPrediction | undefined> {
  try {
    return await reported
  } catch (error) {
    if (error instanceof ErrorStatus && error.status === 404) return undefined
    throw error instanceof ErrorStatus ? error.error : error
  }
}

type ProviderCall = {
  method: 'GET' | 'POST'
  path: string
  body?: string
  once?: boolean
  signal: CallSignal
  onSent?: () => void
}

async function call(
  { config: { timeouts } }: Modules,
  endpoint: PredictionEndpoint,
  { path, ...options }: ProviderCall,
): Promise<UpstreamPrediction> {
  const isPoll = options.body === undefined
  const incoming = await transport(endpoint)({
    url: endpoint.baseUrl + path,
    headers: {
      accept: 'application/json',
      ...(isPoll ? {} : { 'content-type': 'application/json' }),
      ...endpoint.provider.headers,
      ...endpoint.credentials,
    },
    timeouts: isPoll
      ? {
          ...timeouts,
          firstByteMs: Math.min(timeouts.firstByteMs, POLL_FIRST_BYTE_MS),
          totalMs: Math.min(timeouts.totalMs, POLL_TOTAL_MS),
        }
      : timeouts,
    ...options,
  })
  const { status } = incoming
  const text = await readAll(incoming.body, RESPONSE_BYTES)
  if (status < 200 || status > 299)
    throw new ErrorStatus(status, withRetryAfter(readError(status, text), incoming.headers))
  return readPrediction(parseResponse(text))
}

import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'
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
import { parseAnswer, UpstreamRefusal, transport, withRetryAfter } from '../../providers/attempt.ts'
import type { PredictionEndpoint } from '../../providers/catalogue.ts'
import type { Forwarded } from './work.ts'

/** Calls to a provider that makes predictions. */

type Rooms = Pick<AppContext, 'config'>

/** Outputs may hold media as data. */
const ANSWER_BYTES = 64 * 1024 * 1024

/** Longer than an honest provider takes to say how a prediction is getting on, and with all of its output. */
const ASKED_MS = 30_000
const TOLD_MS = 120_000

/**
 * With these a provider did not take the prediction, and another one may: any other failure leaves it open whether it
 * runs.
 */
const NOT_TAKEN = new Set([401, 402, 403, 429, 503, 529])

/** A provider answered with an error status. */
class SaidNo extends Error {
  readonly status: number
  readonly error: GatewayError

  constructor(status: number, error: GatewayError) {
    super(error.message)
    this.status = status
    this.error = error
  }
}

/**
 * Creates a prediction at the first provider that takes it. Throws what the last one said, as a Refusal where that is
 * that it has not taken it; one of which it is not known whether it took it is the last one.
 */
export async function create(
  rooms: Rooms,
  { endpoints, version, input }: Forwarded,
  meter: Meter,
  signal: CallSignal,
): Promise<{ endpoint: PredictionEndpoint; said: UpstreamPrediction }> {
  for (const [index, endpoint] of endpoints.entries()) {
    const begun = performance.now()
    const tried: Meter['tries'][number] = { provider: endpoint.provider.id, milliseconds: 0 }
    meter.tries.push(tried)
    try {
      const { path, body } = createRequest(endpoint.target, input, version ?? undefined)
      const said = await call(rooms, endpoint, {
        method: 'POST',
        path,
        body: JSON.stringify(body),
        once: true,
        signal,
        onSent: () => {
          tried.sent = true
        },
      })
      meter.served = endpoint.target
      return { endpoint, said }
    } catch (error) {
      tried.error =
        error instanceof SaidNo ? error.error.code : error instanceof GatewayError ? error.code : 'internal_error'
      const mayHaveTaken = error instanceof SaidNo ? !NOT_TAKEN.has(error.status) : tried.sent === true
      if (mayHaveTaken || index === endpoints.length - 1 || signal.aborted)
        throw error instanceof SaidNo ? refusal(error, mayHaveTaken, endpoint.provider.id, index + 1) : error
    } finally {
      tried.milliseconds = Math.round(performance.now() - begun)
    }
  }
  throw new GatewayError('internal_error', 'There was no provider to ask.')
}

const refusal = ({ error }: SaidNo, mayHaveTaken: boolean, provider: string, attempts: number): Error =>
  mayHaveTaken ? error : new UpstreamRefusal(error, undefined, provider, attempts)

/** How a prediction is getting on. Undefined where its provider does not know it; throws where it does not say. */
export const ask = (
  rooms: Rooms,
  endpoint: PredictionEndpoint,
  id: string,
  signal: CallSignal,
): Promise<UpstreamPrediction | undefined> => known(call(rooms, endpoint, { method: 'GET', path: getPath(id), signal }))

/** Tells its provider that nobody wants it any more; gives how it is then, as far as that is said. */
export const cancel = (
  rooms: Rooms,
  endpoint: PredictionEndpoint,
  id: string,
  signal: CallSignal,
): Promise<UpstreamPrediction | undefined> =>
  known(call(rooms, endpoint, { method: 'POST', path: cancelPath(id), signal }))

async function known(answer: Promise<UpstreamPrediction>): Promise<UpstreamPrediction | undefined> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof SaidNo && error.status === 404) return undefined
    throw error instanceof SaidNo ? error.error : error
  }
}

type Call = {
  method: 'GET' | 'POST'
  path: string
  body?: string
  once?: boolean
  signal: CallSignal
  onSent?: () => void
}

async function call(
  { config: { timeouts } }: Rooms,
  endpoint: PredictionEndpoint,
  { path, ...call }: Call,
): Promise<UpstreamPrediction> {
  const headers = {
    accept: 'application/json',
    ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
    ...endpoint.provider.headers,
    ...endpoint.credentials,
  }
  const patience =
    call.body === undefined
      ? {
          ...timeouts,
          firstByteMs: Math.min(timeouts.firstByteMs, ASKED_MS),
          totalMs: Math.min(timeouts.totalMs, TOLD_MS),
        }
      : timeouts
  const {
    status,
    headers: told,
    body,
  } = await transport(endpoint)({ url: endpoint.baseUrl + path, headers, timeouts: patience, ...call })
  const text = await readAll(body, ANSWER_BYTES)
  if (status < 200 || status > 299) throw new SaidNo(status, withRetryAfter(readError(status, text), told))
  return readPrediction(parseAnswer(text))
}

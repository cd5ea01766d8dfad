import type { PublicRequest } from '../context.ts'
import type { LogLevel } from '../config/terms.ts'
import { cachedTokens, completionTokens, promptTokens } from '../generation/usage.ts'
import type { ProtocolName } from '../generation/request.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { GenerationEntry, RequestEntry } from '../log/request-line.ts'
import { usdText } from '../money.ts'
import { protocols } from '../protocols/index.ts'
import type { GenerationRecord } from '../store/store.ts'

/** Routes that a supervisor calls again and again; only their failures are worth a line. */
const PROBES = new Set(['livez', 'readyz', 'metrics'])

export const isProbe = ({ route }: PublicRequest): boolean => route !== undefined && PROBES.has(route)

/** Requests without a line of their own. A page of the console has many files, and is asked for until it is built. */
export const isQuiet = ({ route }: PublicRequest, status: number): boolean =>
  route !== undefined && (PROBES.has(route) ? status === 200 : route === 'console' && status !== 500)

/** The entry with the facts of its generation, which has ended. */
export function completed(entry: RequestEntry, open: OpenGeneration | undefined): RequestEntry {
  const record = open?.record
  if (record === undefined) return entry
  entry.generation = generationOf(open!, record)
  entry.model = record.model
  // The client of a stream got its error behind the status.
  if (record.ending === 'failed' || record.ending === 'timed-out') entry.error ??= open!.meter.attempts.at(-1)?.error
  entry.ms = record.latency + record.duration
  return entry
}

export function levelOf(status: number, outcome = 'completed'): LogLevel {
  if (status >= 500 || outcome === 'failed' || outcome === 'timed-out') return 'error'
  return status >= 400 || outcome !== 'completed' ? 'warn' : 'info'
}

export function entryOf(inbound: PublicRequest, level: LogLevel, status: number, now: number): RequestEntry {
  const { requestId, identity, model, errorCode, receivedAt } = inbound
  return {
    level,
    requestId,
    route: routeOf(inbound),
    status,
    key: identity && (identity.keyName ?? identity.keyId),
    model,
    error: errorCode,
    ms: Math.max(0, now - receivedAt),
    generation: undefined,
  }
}

/** The name of a request's route; method and path where it has none. */
export const routeOf = ({ route, request, path }: PublicRequest): string =>
  route ?? `${request.method} ${knownPath(path)}`

function generationOf({ meter }: OpenGeneration, record: GenerationRecord): GenerationEntry {
  const { id, api, streamed, usage, bill, latency, ending } = record
  return {
    id: protocols[api as ProtocolName].serve.idPrefix + id,
    protocol: api,
    isStream: streamed,
    outcome: ending,
    served: meter.served,
    attempts: meter.attempts,
    inputTokens: promptTokens(usage),
    cachedTokens: cachedTokens(usage),
    outputTokens: completionTokens(usage) - usage.reasoningTokens,
    reasoningTokens: usage.reasoningTokens,
    cost: usdText(bill),
    firstMs: meter.begunMs === undefined ? undefined : latency,
    losses: meter.losses.length === 0 ? NO_LOSSES : [...new Set(meter.losses.map(({ code }) => code))],
  }
}

const NO_LOSSES: readonly string[] = []

/** Segments of paths that clients mean to use. Others may be anything, a key too. */
const SEGMENTS = new Set(
  (
    ' api openai anthropic relay v1 v1beta v1beta1 v1alpha v2 chat completions responses messages models images ' +
    'generations files predictions embeddings audio management projects publishers'
  ).split(' '),
)

/** A path that has no route, as far as it can be shown. */
const knownPath = (path: string): string =>
  path
    .split('/', 10)
    .map((segment) => (SEGMENTS.has(segment) ? segment : '*'))
    .join('/')

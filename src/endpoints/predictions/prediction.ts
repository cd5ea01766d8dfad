import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import { parseExact } from '../../json/exact.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Outcome } from '../../ledger/outcomes.ts'
import type { Json, PredictionChange, PredictionStatus, StoredPrediction } from '../../store/store.ts'
import { streamToken } from './stream-token.ts'

export const PREFIX = 'pred_'

export const WEBHOOK_EVENTS = ['start', 'output', 'logs', 'completed'] as const
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]

/**
 * One state of a prediction: each change makes a new object. Times are in Unix milliseconds. `input`: numbers that a
 * double cannot represent are raw JSON (parseExact).
 */
export type Prediction = Omit<StoredPrediction, 'state' | 'input'> & State & { input: Json }

/** The part that is stored as JSON. */
type State = {
  /** The requested version. */
  version: string | null
  output: unknown
  error: string | null
  logs: string
  /** The start of this server's URLs, as its client knows it: for webhooks and output. */
  origin: string
  webhook?: { url: string; events: readonly WebhookEvent[] }
  /** When sending it to a provider began: without an `upstream` it is not known whether it runs there. */
  sentAt?: number | undefined
  /** The provider's id in the catalogue, and the provider's own id of the prediction. */
  upstream?: { provider: string; id: string }
  /** Its client has cancelled it. */
  unwanted?: boolean
  /** Its run time in seconds, as its provider reports it. */
  predictSeconds?: number
  /** The end of its generation, from which it is settled after a crash. */
  outcome?: PredictionOutcome
}

/** Without `usage` nothing is charged. */
export type PredictionOutcome = { ending: Outcome; usage?: Usage; estimated?: boolean; served?: Target }

type Target = { provider: string; model: string }

/** A request to create a prediction, validated. */
export type NewPrediction = { bodyBytes: number } & Pick<Prediction, 'model' | 'version' | 'input' | 'origin'> &
  Partial<Pick<Prediction, 'webhook'>>

/** A prediction that is not written yet. */
export const created = (
  { id, identity, receivedAt }: AuthenticatedRequest,
  { model, version, input, origin, webhook }: NewPrediction,
): Prediction => ({
  id,
  accountId: identity.accountId,
  model,
  status: 'starting',
  createdAt: receivedAt,
  startedAt: null,
  completedAt: null,
  version,
  input,
  output: null,
  error: null,
  logs: '',
  origin,
  ...(webhook === undefined ? {} : { webhook }),
})

const ENDED: ReadonlySet<PredictionStatus> = new Set(['succeeded', 'failed', 'canceled'])

export const hasEnded = ({ status }: Prediction): boolean => ENDED.has(status)

export const readStored = ({ state, input, ...row }: StoredPrediction): Prediction => ({
  ...row,
  input: parseExact(input) as Json,
  ...readState(state),
})

export const readState = (state: string): State => JSON.parse(state) as State

export const failedAt = (completedAt: number, error: string): Pick<Prediction, 'status' | 'error' | 'completedAt'> => ({
  status: 'failed',
  error,
  completedAt,
})

export const toStored = (prediction: Prediction): StoredPrediction => ({
  ...toChange(prediction),
  input: JSON.stringify(prediction.input),
})

export function toChange({
  id,
  accountId,
  model,
  status,
  createdAt,
  startedAt,
  completedAt,
  input: _,
  ...state
}: Prediction): PredictionChange {
  return { id, accountId, model, status, createdAt, startedAt, completedAt, state: JSON.stringify(state) }
}

/** A prediction as Replicate's API represents it. `origin`: the start of its URLs. */
export function toReplicate({ keys }: Pick<AppContext, 'keys'>, prediction: Prediction, origin: string): Json {
  const {
    id,
    model,
    version,
    input,
    output,
    logs,
    error,
    status,
    createdAt,
    startedAt,
    completedAt,
    webhook,
    predictSeconds,
  } = prediction
  const url = `${origin}/v1/predictions/${PREFIX}${id}`
  const seconds =
    predictSeconds ?? (startedAt === null || completedAt === null ? undefined : (completedAt - startedAt) / 1000)
  return {
    id: PREFIX + id,
    model,
    // Replicate's value for a model whose versions cannot be chosen; its Python client requires a string.
    version: version ?? 'hidden',
    input,
    output,
    logs,
    error,
    status,
    created_at: iso(createdAt),
    started_at: iso(startedAt),
    completed_at: iso(completedAt),
    metrics: seconds === undefined ? {} : { predict_time: seconds },
    urls: { get: url, cancel: `${url}/cancel`, stream: `${origin}/v1/streams/${streamToken(keys, prediction)}` },
    data_removed: false,
    source: 'api',
    ...(webhook === undefined ? {} : { webhook: webhook.url, webhook_events_filter: webhook.events }),
  }
}

const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())

/** Called with the state after each change; for the end of a prediction, after that is committed. */
export type Listener = (prediction: Prediction, event: WebhookEvent) => void

import type { AppContext } from '../../context.ts'
import { parseExact } from '../../json/exact.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Outcome } from '../../ledger/outcomes.ts'
import type { Json, PredictionChange, PredictionStatus, StoredPrediction } from '../../store/store.ts'
import { streamToken } from './stream-token.ts'

export const PREFIX = 'pred_'

export const WEBHOOK_EVENTS = ['start', 'output', 'logs', 'completed'] as const
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number]

/**
 * A prediction as it is at one time: each change makes another one. Instants in Unix milliseconds. `input`: numbers
 * that would lose something are raw JSON (parseExact).
 */
export type Prediction = Omit<StoredPrediction, 'state' | 'input'> & State & { input: Json }

/** What is kept of it as JSON. */
type State = {
  /** The version that was asked for. */
  version: string | null
  output: unknown
  error: string | null
  logs: string
  /** Where its client finds this server: what URLs in webhook calls and in its output begin with. */
  origin: string
  webhook?: { url: string; events: readonly WebhookEvent[] }
  /** When it began to go out to a provider: without an `upstream` nobody knows whether it runs there. */
  sentAt?: number | undefined
  /** Where it runs: the provider's id in the catalogue, and its own id of the prediction. */
  upstream?: { provider: string; id: string }
  /** Its client wants it no more. */
  unwanted?: boolean
  /** Seconds that its provider says it ran. */
  predictSeconds?: number
  /** How its generation ends, and with what usage: it is settled by this after a crash. */
  outcome?: PredictionOutcome
}

/** `usage` absent: it is charged nothing. */
export type PredictionOutcome = { ending: Outcome; usage?: Usage; estimated?: boolean; served?: Target }

type Target = { provider: string; model: string }

const ENDED: ReadonlySet<PredictionStatus> = new Set(['succeeded', 'failed', 'canceled'])

export const hasEnded = ({ status }: Prediction): boolean => ENDED.has(status)

export const readStored = ({ state, input, ...row }: StoredPrediction): Prediction => ({
  ...row,
  input: parseExact(input) as Json,
  ...readState(state),
})

export const readState = (state: string): State => JSON.parse(state) as State

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

/** A prediction in the words of Replicate's API. `origin`: what its URLs begin with. */
export function shown({ keys }: Pick<AppContext, 'keys'>, prediction: Prediction, origin: string): Json {
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
    version,
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

/**
 * What the rest hears of a prediction under way: as it is after the change. Called after what it tells is committed,
 * where it is its end.
 */
export type Listener = (prediction: Prediction, event: WebhookEvent) => void

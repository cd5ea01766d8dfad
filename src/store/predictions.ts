export type PredictionStatus = 'starting' | 'processing' | 'succeeded' | 'failed' | 'canceled'

/** A prediction. `id`: that of its generation, 32 hex digits. `input` and `state`: the endpoint's own JSON. */
export type StoredPrediction = PredictionChange & { input: string }

/** A prediction without its input, which never changes. */
export type PredictionChange = {
  id: string
  accountId: string
  model: string
  status: PredictionStatus
  createdAt: number
  startedAt: number | null
  completedAt: number | null
  state: string
}

/** A webhook call that has not been delivered yet. The id is the same in every attempt. */
export type WebhookDelivery = {
  id: string
  accountId: string
  predictionId: string
  url: string
  body: string
  attempts: number
  nextAt: number
}

export interface PredictionStore {
  add(prediction: StoredPrediction): Promise<void>
  find(accountId: string, id: string): Promise<StoredPrediction | undefined>
  /** Newest first; fewer than `limit` if they are large. `before`: only those older than this id. */
  list(accountId: string, limit: number, before?: string): Promise<StoredPrediction[]>
  /** One page of the predictions that have not ended, oldest first. `after`: only those younger than this id. */
  unfinished(after?: string): Promise<PredictionChange[]>
  /**
   * Writes the progress of a prediction, or its end together with the webhook calls that follow from it.
   * False, and nothing changed, if it has ended already.
   */
  update(change: PredictionChange, deliveries?: readonly WebhookDelivery[]): Promise<boolean>
  /** Removes predictions that ended before this instant. Returns their number. */
  purge(endedBefore: number): Promise<number>
  /** Webhook calls due at `now`, oldest first. `except`: ids of calls and of accounts to skip. */
  dueDeliveries(now: number, limit: number, except?: readonly string[]): Promise<WebhookDelivery[]>
  /** The instant at which the first webhook call that is not skipped is due. */
  nextDelivery(except: readonly string[]): Promise<number | undefined>
  /** Sets the instant of the next attempt; undefined removes the call. */
  updateDelivery(id: string, attempts: number, nextAt: number | undefined): Promise<void>
}

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

/** Sorts after the ids of all predictions, which are hexadecimal digits. */
export const AFTER_ALL_PREDICTIONS = 'g'

/** A page ends early when its predictions have more text together: inputs and outputs may be large. */
export const PREDICTION_PAGE = 8 * 1024 * 1024

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

/** `changed`: it has gone on. `unwanted`: a cancellation was asked for. */
export type PredictionNotice = { kind: 'changed' | 'unwanted' | 'ended'; id: string; accountId: string }

/** Predictions of several processes: each runs its own, and any shows them. */
export interface SharedPredictions {
  /** Calls the one listener after changes by any process. Some may be lost. */
  onChange(listener: (change: PredictionNotice) => void): void
  /** A prediction without its input, as its process wrote it last. */
  findState(accountId: string, id: string): Promise<PredictionChange | undefined>
  /**
   * Counts a prediction that is still to be admitted, until it is added or leaves. False, and not counted, where its
   * account has `most` unfinished ones already, over all processes.
   */
  enterQueue(accountId: string, id: string, most: number): Promise<boolean>
  leaveQueue(id: string): Promise<void>
  /** Lets one of this process run until it ends. False where `most` of its account run, over all processes. */
  takeTurn(accountId: string, id: string, most: number): Promise<boolean>
  /** Asks the process that has a prediction to cancel it. */
  requestCancel(accountId: string, id: string): Promise<void>
  /** Those of this process whose cancellation another one asked for. */
  cancelRequests(): Promise<Pick<PredictionChange, 'accountId' | 'id'>[]>
  /**
   * Reserves a webhook call that has had so many attempts, for a minute or until it is updated. False where another
   * process makes it, or has made it.
   */
  claimDelivery(id: string, attempts: number): Promise<boolean>
}

export interface PredictionStore {
  /** Set where several processes share the store. */
  readonly shared?: SharedPredictions
  add(prediction: StoredPrediction): Promise<void>
  find(accountId: string, id: string): Promise<StoredPrediction | undefined>
  /** Newest first; fewer than `limit` if they are large. `before`: only those older than this id. */
  list(accountId: string, limit: number, before?: string): Promise<StoredPrediction[]>
  /**
   * One page of the predictions of this process that have not ended, oldest first. `after`: only those younger than
   * this id.
   */
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

import { Deadline, deadlines, type Expiring } from '../../deadlines.ts'
import type { OpenGeneration } from '../../ledger/ledger.ts'
import type { Store } from '../../store/store.ts'
import { toChange, type Listener, type Prediction, type WebhookEvent } from './prediction.ts'

/** The interval between writes of new output: a crash loses no more than this. */
const WRITE_EVERY_MS = 2_000

/** One prediction that this process queues or runs. */
export class Job implements Expiring {
  readonly id: string
  readonly accountId: string
  readonly open: OpenGeneration
  /** Its client has cancelled it. */
  unwanted: boolean
  /** Its end is being written, and cannot change any more. */
  isEnding = false
  /** Fires when it is cancelled, and when the server stops. */
  readonly cut = new AbortController()
  /** Resolves when its end is written, or when it is left to the next start. */
  readonly over = Promise.withResolvers<void>()
  readonly listeners = new Set<Listener>()
  /** Its current state. Absent while it is queued: inputs may be large. */
  prediction: Prediction | undefined
  readonly #store: Store
  readonly #nextWrite = new Deadline(this)
  #writtenAt = performance.now()

  constructor(
    store: Store,
    { id, accountId, unwanted }: Pick<Prediction, 'id' | 'accountId' | 'unwanted'>,
    open: OpenGeneration,
  ) {
    this.#store = store
    this.id = id
    this.accountId = accountId
    this.unwanted = unwanted === true
    this.open = open
  }

  /** The state of a prediction that runs, and so has been read. */
  get running(): Prediction {
    if (this.prediction === undefined) throw new Error(`prediction ${this.id} is not running`)
    return this.prediction
  }

  /** Changes the state, and resolves when that is committed. */
  async write(change: Partial<Prediction>): Promise<void> {
    this.prediction = { ...this.running, ...change }
    this.#writtenAt = performance.now()
    await this.#store.predictions.update(toChange(this.prediction))
  }

  /** Changes the state, notifies the listeners, and writes it if the last write is some time ago. */
  change(change: Partial<Prediction>, event: WebhookEvent): void {
    this.prediction = { ...this.running, ...change }
    // A failed write is made up for by the next one, or by the end.
    if (performance.now() - this.#writtenAt > WRITE_EVERY_MS) this.onDeadline()
    // Other processes show what is written.
    else if (this.#store.isShared) deadlines.setWithin(this.#nextWrite, WRITE_EVERY_MS)
    this.notify(event)
  }

  onDeadline(): void {
    void this.write({}).catch(() => {})
  }

  notify(event: WebhookEvent): void {
    for (const listener of [...this.listeners]) listener(this.running, event)
  }
}

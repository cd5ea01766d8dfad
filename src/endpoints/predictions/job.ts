import type { OpenGeneration } from '../../ledger/ledger.ts'
import type { Store } from '../../store/store.ts'
import { toChange, type Listener, type Prediction, type WebhookEvent } from './prediction.ts'

/** How often what a prediction has put out is written: a crash loses no more of it. */
const WRITE_EVERY_MS = 2_000

/** One prediction under way in this process. */
export class Job {
  readonly id: string
  readonly accountId: string
  readonly open: OpenGeneration
  /** Its client wants it no more. */
  unwanted: boolean
  /** Its end is being written: nothing else can end it. */
  ending = false
  /** Fires when it is unwanted, and when the server stops. */
  readonly cut = new AbortController()
  /** Resolves when its end is written, or when it is left to the next start. */
  readonly over = Promise.withResolvers<void>()
  readonly listeners = new Set<Listener>()
  /** As it is now. Absent while it waits: inputs may be large. */
  prediction: Prediction | undefined
  readonly #store: Store
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

  /** What it is asked to do: it runs, so it has been read. */
  get running(): Prediction {
    if (this.prediction === undefined) throw new Error(`prediction ${this.id} does not run`)
    return this.prediction
  }

  /** Changes it, and resolves when that is committed. */
  async write(change: Partial<Prediction>): Promise<void> {
    this.prediction = { ...this.running, ...change }
    this.#writtenAt = performance.now()
    await this.#store.predictions.update(toChange(this.prediction))
  }

  /** Changes it, tells whoever listens, and writes it if that was not done a moment ago. */
  change(change: Partial<Prediction>, event: WebhookEvent): void {
    this.prediction = { ...this.running, ...change }
    // What cannot be written now is written with the next change, or the end.
    if (performance.now() - this.#writtenAt > WRITE_EVERY_MS) void this.write({}).catch(() => {})
    this.tell(event)
  }

  tell(event: WebhookEvent): void {
    for (const listener of [...this.listeners]) listener(this.running, event)
  }
}

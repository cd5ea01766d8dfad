import type { Config } from '../../config/load.ts'
import { log } from '../../log/log.ts'
import type { PredictionChange, SharedPredictions } from '../../store/store.ts'
import type { Job } from './job.ts'
import { hasEnded, readState, type Listener, type Prediction } from './prediction.ts'
import { queueFull } from './queue.ts'
import { sleep } from './sleep.ts'

/**
 * The interval of polls for a prediction of another process, and for what its clients requested. Notifications arrive
 * earlier, but can be lost.
 */
const LOOK_EVERY_MS = 500

/** No id of a prediction or an account. */
const CANCELLATION = ''

/** Predictions that other processes run, and requests to other processes about those that this one runs. */
export class RemotePredictions {
  readonly #shared: SharedPredictions
  readonly #limits: Config['predictions']
  readonly #stopping: AbortSignal
  readonly #lookEveryMs: number
  /** Those who wait for a change of a prediction, for the end of one of an account, or for a cancellation. */
  readonly #waiting = new Map<string, Set<AbortController>>()

  constructor(
    shared: SharedPredictions,
    limits: Config['predictions'],
    stopping: AbortSignal,
    lookEveryMs: number = LOOK_EVERY_MS,
  ) {
    this.#shared = shared
    this.#limits = limits
    this.#stopping = stopping
    this.#lookEveryMs = lookEveryMs
    shared.onChange(({ kind, id, accountId }) => {
      this.#wake(id)
      if (kind !== 'changed') this.#wake(kind === 'ended' ? accountId : CANCELLATION)
    })
  }

  #wake(subject: string): void {
    for (const one of this.#waiting.get(subject) ?? []) one.abort()
  }

  /** Until a notification about the subject, the next poll, or the signal. */
  async #changed(subject: string, signal: AbortSignal): Promise<void> {
    const notified = new AbortController()
    const waiting = this.#waiting.get(subject) ?? new Set()
    this.#waiting.set(subject, waiting.add(notified))
    const stop = (): void => notified.abort()
    signal.addEventListener('abort', stop, { once: true })
    if (!signal.aborted) await sleep(this.#lookEveryMs, notified.signal)
    signal.removeEventListener('abort', stop)
    waiting.delete(notified)
    if (waiting.size === 0) this.#waiting.delete(subject)
  }

  /**
   * Counts a prediction that is still to be admitted among all of its account; gives the function for one that is not
   * stored after all. Throws quota_exceeded where the queue is full.
   */
  async enterQueue(accountId: string, id: string): Promise<() => Promise<void>> {
    const { concurrency, waiting } = this.#limits
    if (!(await this.#shared.enterQueue(accountId, id, concurrency + waiting))) throw queueFull(this.#limits)
    return () =>
      this.#shared.leaveQueue(id).catch((error: unknown) => log.error('A prediction counts for too long', error))
  }

  /** Resolves when few enough of its account run, over all processes; also when it is cancelled or the server stops. */
  async takeTurn({ accountId, id, cut }: Job): Promise<void> {
    const left = AbortSignal.any([cut.signal, this.#stopping])
    while (!left.aborted) {
      try {
        if (await this.#shared.takeTurn(accountId, id, this.#limits.concurrency)) return
      } catch (error) {
        log.warn(`A prediction waits for the store: ${(error as Error).message}`)
      }
      await this.#changed(accountId, left)
    }
  }

  /** Calls the listener with what is written of a prediction until that has ended; gives the function that ends it. */
  follow(accountId: string, id: string, listener: Listener): () => void {
    const left = new AbortController()
    void this.#look(accountId, id, AbortSignal.any([left.signal, this.#stopping]), (prediction) =>
      listener(prediction, hasEnded(prediction) ? 'completed' : 'output'),
    )
    return () => left.abort()
  }

  /** Has its process cancel a prediction. Resolves when it has ended, at the latest after this time. */
  async cancel(accountId: string, id: string, atMostMs: number): Promise<void> {
    await this.#shared.requestCancel(accountId, id)
    await this.#look(accountId, id, AbortSignal.any([AbortSignal.timeout(atMostMs), this.#stopping]), () => {})
  }

  /** Until it has ended or is not there any more. A store that is away is asked again. */
  async #look(
    accountId: string,
    id: string,
    signal: AbortSignal,
    seen: (prediction: Prediction) => void,
  ): Promise<void> {
    while (!signal.aborted) {
      await this.#changed(id, signal)
      try {
        const stored = await this.#shared.findState(accountId, id)
        if (stored === undefined || signal.aborted) return
        const prediction = withoutInput(stored)
        seen(prediction)
        if (hasEnded(prediction)) return
      } catch (error) {
        log.warn(`A prediction of another process could not be read: ${(error as Error).message}`)
      }
    }
  }

  /** Calls the listener, until the server stops, with predictions of this process that another's client cancelled. */
  async watchCancellations(hasAny: () => boolean, cancel: (accountId: string, id: string) => void): Promise<void> {
    while (!this.#stopping.aborted) {
      await this.#changed(CANCELLATION, this.#stopping)
      if (!hasAny()) continue
      const wanted = await this.#shared.cancelRequests().catch(() => [])
      for (const { accountId, id } of wanted) cancel(accountId, id)
    }
  }
}

const withoutInput = ({ state, ...row }: PredictionChange): Prediction => ({ ...row, input: {}, ...readState(state) })

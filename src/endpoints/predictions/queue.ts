import { GatewayError } from '../../error.ts'
import type { Job } from './job.ts'

type Options = {
  concurrency: number
  waiting: number
  /** Never rejects. */
  run: (job: Job) => Promise<void>
  /** Called when the queue is empty and nothing runs. */
  onEmpty: () => void
}

export const queueFull = ({ concurrency, waiting }: Pick<Options, 'concurrency' | 'waiting'>): GatewayError =>
  new GatewayError(
    'quota_exceeded',
    `Queue full: ${concurrency} predictions of this account run and ${waiting} wait. ` +
      'Create it again when one of them has ended.',
    { retryAfterSeconds: 5, shouldRetry: true },
  )

/** Predictions of one account at this process: `concurrency` of them run, up to `waiting` more are queued. */
export class Queue {
  readonly #options: Options
  readonly #runs = new Set<Promise<void>>()
  #waiting: Job[] = []
  #reserved = 0

  constructor(options: Options) {
    this.#options = options
  }

  /** Reserves a slot for a prediction that is still to be admitted; gives the function that releases it. */
  reserve(): () => void {
    const { concurrency, waiting } = this.#options
    if (this.#runs.size + this.#waiting.length + this.#reserved >= concurrency + waiting) throw queueFull(this.#options)
    this.#reserved++
    return () => {
      this.#reserved--
      this.#next()
    }
  }

  /** `isRunning`: it runs at its provider already, and counts even above the limit. */
  add(job: Job, isRunning = false): void {
    if (isRunning) this.#begin(job)
    else this.#waiting.push(job)
    this.#next()
  }

  /** Removes a job that waits; false where it does not. */
  remove(job: Job): boolean {
    const at = this.#waiting.indexOf(job)
    if (at >= 0) this.#waiting.splice(at, 1)
    return at >= 0
  }

  /** Resolves when no job runs. */
  async settled(): Promise<void> {
    while (this.#runs.size > 0) await Promise.all(this.#runs)
  }

  #next(): void {
    while (this.#runs.size < this.#options.concurrency && this.#waiting.length > 0) this.#begin(this.#waiting.shift()!)
    if (this.#runs.size + this.#waiting.length + this.#reserved === 0) this.#options.onEmpty()
  }

  #begin(job: Job): void {
    const run = this.#options.run(job).finally(() => {
      this.#runs.delete(run)
      this.#next()
    })
    this.#runs.add(run)
  }
}

import { GatewayError } from '../../error.ts'
import type { Job } from './job.ts'

type Options = {
  concurrency: number
  waiting: number
  /** Never rejects. */
  run: (job: Job) => Promise<void>
  /** Called when there is nothing in it any more. */
  empty: () => void
}

/** Predictions of one account: so many run, the others wait for their turn. */
export class Queue {
  readonly #options: Options
  readonly #runs = new Set<Promise<void>>()
  #waiting: Job[] = []
  #reserved = 0

  constructor(options: Options) {
    this.#options = options
  }

  /**
   * Keeps a place for one that is still to be admitted; gives what gives it up. Throws quota_exceeded where there is
   * none.
   */
  reserve(): () => void {
    const { concurrency, waiting } = this.#options
    if (this.#runs.size + this.#waiting.length + this.#reserved >= concurrency + waiting) {
      throw new GatewayError(
        'quota_exceeded',
        `${concurrency} predictions of this account run and ${waiting} wait, which is the most: create it again when one of them has ended.`,
        { retryAfterSeconds: 5, shouldRetry: true },
      )
    }
    this.#reserved++
    return () => {
      this.#reserved--
      this.#next()
    }
  }

  /** `began`: it runs elsewhere already, and takes its place whether there is one or not. */
  add(job: Job, began = false): void {
    if (began) this.#begin(job)
    else this.#waiting.push(job)
    this.#next()
  }

  /** Whether it waited; it does not any more. */
  remove(job: Job): boolean {
    const at = this.#waiting.indexOf(job)
    if (at >= 0) this.#waiting.splice(at, 1)
    return at >= 0
  }

  /** Resolves when none runs. */
  async settled(): Promise<void> {
    while (this.#runs.size > 0) await Promise.all(this.#runs)
  }

  #next(): void {
    while (this.#runs.size < this.#options.concurrency && this.#waiting.length > 0) this.#begin(this.#waiting.shift()!)
    if (this.#runs.size + this.#waiting.length + this.#reserved === 0) this.#options.empty()
  }

  #begin(job: Job): void {
    const run = this.#options.run(job).finally(() => {
      this.#runs.delete(run)
      this.#next()
    })
    this.#runs.add(run)
  }
}

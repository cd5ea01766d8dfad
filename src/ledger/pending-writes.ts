import { GatewayError } from '../error.ts'
import { log } from '../log/log.ts'

export type Write = () => Promise<void>

/** Writes that the store could not take, kept until a retry succeeds. */
export class PendingWrites {
  #waiting: Write[] = []
  #lastRetry = Promise.resolve()

  get size(): number {
    return this.#waiting.length
  }

  /**
   * Fails as the write does; one that fails because the store is unavailable is kept and retried, and `kept` is called.
   */
  async attempt(write: Write, kept: () => void): Promise<void> {
    try {
      await write()
    } catch (error) {
      if (isUnavailable(error)) {
        if (this.#waiting.length === 0)
          log.error(`Rejecting billable requests until the ledger can be written. ${error.message}`)
        this.#waiting.push(write)
        kept()
      }
      throw error
    }
  }

  /** Gives up a write that waits; false where it does not wait any more. */
  cancel(write: Write): boolean {
    const waits = this.#waiting.includes(write)
    this.#remove(write)
    return waits
  }

  /** Retries all that wait, after any retry under way has ended. */
  retry(): Promise<void> {
    return (this.#lastRetry = this.#lastRetry.then(async () => {
      const [first, ...others] = this.#waiting
      // The first write probes the store, so that an unavailable one is not sent a thousand.
      if (first === undefined || !(await this.#succeeds(first))) return
      await Promise.all(others.map((write) => this.#succeeds(write)))
      if (this.#waiting.length === 0) log.warn('The ledger is written again: accepting billable requests.')
    }))
  }

  async #succeeds(write: Write): Promise<boolean> {
    try {
      await write()
    } catch (error) {
      if (isUnavailable(error)) return false
      // The store committed the first attempt and could not confirm it.
      log.error('A write was committed and not confirmed', error)
    }
    this.#remove(write)
    return true
  }

  #remove(write: Write): void {
    this.#waiting = this.#waiting.filter((other) => other !== write)
  }
}

/** True where the store could not be written and a retry may succeed. */
export const isUnavailable = (error: unknown): error is GatewayError =>
  error instanceof GatewayError && error.code === 'store_unavailable'

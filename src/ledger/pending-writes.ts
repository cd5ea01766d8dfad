import { isUnavailable } from '../error.ts'
import { log } from '../log/log.ts'

export type Write = () => Promise<void>

/** Writes that the store could not take, kept until a retry succeeds. */
export class PendingWrites {
  #waiting: Write[] = []
  readonly #underWay = new Set<Promise<void>>()
  #retrying: Promise<void> | undefined

  get size(): number {
    return this.#waiting.length
  }

  /**
   * Fails as the write does; one that fails because the store is unavailable is kept and retried, and `kept` is called.
   */
  async attempt(write: Write, kept: () => void): Promise<void> {
    const written = write()
    this.#underWay.add(written)
    try {
      await written
    } catch (error) {
      if (isUnavailable(error)) {
        if (this.#waiting.length === 0)
          log.error(`Rejecting billable requests until the ledger can be written. ${error.message}`)
        this.#waiting.push(write)
        kept()
      }
      throw error
    } finally {
      this.#underWay.delete(written)
    }
  }

  /** Gives up a write that waits; false where it does not wait any more. */
  cancel(write: Write): boolean {
    const waits = this.#waiting.includes(write)
    this.#remove(write)
    return waits
  }

  /** Retries all that wait. Calls while that goes on, which lasts where the store does not answer, do not repeat it. */
  retry(): Promise<void> {
    return (this.#retrying ??= this.#retryAll().finally(() => (this.#retrying = undefined)))
  }

  /** Waits for all writes that are under way, and retries those that the store has not taken a last time. */
  async finish(): Promise<void> {
    await Promise.allSettled(this.#underWay)
    await this.retry()
  }

  async #retryAll(): Promise<void> {
    const [first, ...others] = this.#waiting
    // The first write probes the store, so that an unavailable one is not sent a thousand.
    if (first === undefined || !(await this.#succeeds(first))) return
    await Promise.all(others.map((write) => this.#succeeds(write)))
    if (this.#waiting.length === 0) log.warn('The ledger is written again: accepting billable requests.')
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

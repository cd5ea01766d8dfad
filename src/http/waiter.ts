import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import type { GatewayError } from '../error.ts'
import type { CallSignal } from './connection.ts'

/** A request of an owner that waits to be admitted, for a limited time and as long as its client is there. */
export class Waiter implements Expiring {
  readonly owner: string
  readonly #signal: CallSignal
  readonly #leave: () => GatewayError
  readonly #settle = Promise.withResolvers<void>()
  readonly #deadline = new Deadline(this)

  /** `leave`: takes it out of its queue and gives the error for it. */
  constructor(owner: string, signal: CallSignal, waitMs: number, leave: () => GatewayError) {
    this.owner = owner
    this.#signal = signal
    this.#leave = leave
    deadlines.set(this.#deadline, waitMs)
    signal.addEventListener('abort', this.#onAbort)
  }

  /** Resolves when it is admitted. Rejects with its error, also when its client leaves, who does not see it. */
  get promise(): Promise<void> {
    return this.#settle.promise
  }

  readonly #onAbort = (): void => this.onDeadline()

  onDeadline(): void {
    this.#end()
    this.#settle.reject(this.#leave())
  }

  admit(): void {
    this.#end()
    this.#settle.resolve()
  }

  #end(): void {
    deadlines.clear(this.#deadline)
    this.#signal.removeEventListener('abort', this.#onAbort)
  }
}

import type { GatewayError } from './error.ts'

/** One generation under way: what can end it from outside. */
export class Underway {
  readonly #abort = new AbortController()
  readonly #clientSignal: AbortSignal
  readonly #registry: Set<Underway>
  /** Why the server ended it. */
  reason: GatewayError | undefined
  /** Set while an answer streams: the client is told in its own protocol. */
  onCut: ((error: GatewayError) => void) | undefined

  constructor(clientSignal: AbortSignal, registry: Set<Underway>) {
    this.#clientSignal = clientSignal
    this.#registry = registry
    registry.add(this)
    if (clientSignal.aborted) this.#left()
    else clientSignal.addEventListener('abort', this.#left, { once: true })
  }

  /** Fires when the client goes or the server stops. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  #left = (): void => this.#abort.abort()

  /** It is over. */
  leave(): void {
    this.#clientSignal.removeEventListener('abort', this.#left)
    this.#registry.delete(this)
  }

  cut(error: GatewayError): void {
    this.reason = error
    if (this.onCut === undefined) this.#abort.abort()
    else this.onCut(error)
  }
}

/** All generations under way. */
export class Open {
  readonly #all = new Set<Underway>()

  get size(): number {
    return this.#all.size
  }

  enter(clientSignal: AbortSignal): Underway {
    return new Underway(clientSignal, this.#all)
  }

  /** Waits until none is left, at most this long; then ends what remains with this error. */
  async drain(atMostMs: number, error: GatewayError): Promise<void> {
    const deadline = performance.now() + atMostMs
    while (this.#all.size > 0 && performance.now() < deadline) await Bun.sleep(20)
    for (const one of [...this.#all]) one.cut(error)
  }
}

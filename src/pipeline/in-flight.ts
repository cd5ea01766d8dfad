import type { GatewayError } from '../error.ts'
import type { CallSignal } from '../http/connection.ts'

/**
 * One generation under way: what can end it from outside. To outgoing calls it is their signal, which fires when the
 * client goes or the server stops.
 */
export class InFlightRequest implements CallSignal {
  aborted = false
  /** Why the server ended it. */
  reason: GatewayError | undefined
  /** Set while an answer streams: the client is told in its own protocol. */
  onCut: ((error: GatewayError) => void) | undefined
  readonly #listeners: (() => void)[] = []
  readonly #clientSignal: AbortSignal
  readonly #registry: Set<InFlightRequest>

  constructor(clientSignal: AbortSignal, registry: Set<InFlightRequest>) {
    this.#clientSignal = clientSignal
    this.#registry = registry
    registry.add(this)
    if (clientSignal.aborted) this.#abort()
    else clientSignal.addEventListener('abort', this.#abort, { once: true })
  }

  #abort = (): void => {
    this.aborted = true
    for (const listener of this.#listeners.splice(0)) listener()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener)
    if (at >= 0) this.#listeners.splice(at, 1)
  }

  /** It is over; false where it was before. */
  leave(): boolean {
    this.#clientSignal.removeEventListener('abort', this.#abort)
    return this.#registry.delete(this)
  }

  cut(error: GatewayError): void {
    this.reason = error
    if (this.onCut === undefined) this.#abort()
    else this.onCut(error)
  }
}

/** All generations under way. */
export class InFlightRequests {
  readonly #all = new Set<InFlightRequest>()
  #over: GatewayError | undefined

  get size(): number {
    return this.#all.size
  }

  /** Throws the error of the drain when that is over: nobody would wait for this one's end. */
  enter(clientSignal: AbortSignal): InFlightRequest {
    if (this.#over !== undefined) throw this.#over
    return new InFlightRequest(clientSignal, this.#all)
  }

  /** Waits until none is left, at most this long; then ends what remains with this error. */
  async drain(atMostMs: number, error: GatewayError): Promise<void> {
    const deadline = performance.now() + atMostMs
    while (this.#all.size > 0 && performance.now() < deadline) await Bun.sleep(20)
    this.#over = error
    for (const one of [...this.#all]) one.cut(error)
  }
}

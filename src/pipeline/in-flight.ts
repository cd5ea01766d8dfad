import { edenGC } from 'bun:jsc'
import type { GatewayError } from '../error.ts'
import type { CallSignal } from '../http/connection.ts'

/**
 * One request in flight. It is the abort signal of its outgoing calls, which fires when the client leaves or the server
 * stops.
 */
export class InFlightRequest implements CallSignal {
  aborted = false
  /** The error with which the server ended it. */
  reason: GatewayError | undefined
  /** Set while a response streams: ends the stream with this error, in the client's protocol. */
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

  /** Removes it from the registry; false where it was removed before. */
  leave(): boolean {
    this.#clientSignal.removeEventListener('abort', this.#abort)
    return this.#registry.delete(this)
  }

  /** Ends it because the server stops. */
  cut(error: GatewayError): void {
    this.reason = error
    if (this.onCut === undefined) this.#abort()
    else this.onCut(error)
  }
}

/**
 * Each time that so many more requests than ever before are in flight, the garbage of their beginnings is collected: a
 * few milliseconds. Streams that stay would otherwise be scattered over a heap of twice the size, which never shrinks.
 */
const COLLECT_EVERY = 256

/** All requests in flight. */
export class InFlightRequests {
  readonly #all = new Set<InFlightRequest>()
  #drained: GatewayError | undefined
  #mostAtCollection = 0

  get size(): number {
    return this.#all.size
  }

  /** Throws the error of the drain once that is over: nothing would wait for this request to end. */
  enter(clientSignal: AbortSignal): InFlightRequest {
    if (this.#drained !== undefined) throw this.#drained
    if (this.#all.size >= this.#mostAtCollection + COLLECT_EVERY) {
      this.#mostAtCollection = this.#all.size
      edenGC()
    }
    return new InFlightRequest(clientSignal, this.#all)
  }

  /** Waits until none is left, at most this long; then ends those that remain with this error. */
  async drain(atMostMs: number, error: GatewayError): Promise<void> {
    const deadline = performance.now() + atMostMs
    while (this.#all.size > 0 && performance.now() < deadline) await Bun.sleep(20)
    this.#drained = error
    for (const one of [...this.#all]) one.cut(error)
  }
}

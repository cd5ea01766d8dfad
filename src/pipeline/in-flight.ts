import { edenGC } from 'bun:jsc'
import { type Listed, LinkedSet } from '../collections/linked-set.ts'
import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import type { GatewayError } from '../error.ts'
import type { CallSignal } from '../http/connection.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import { ReadOn } from './read-on.ts'

/**
 * One request in flight. It is the abort signal of its outgoing calls, which fires when the server stops, and when the
 * client leaves unless the provider is read on.
 */
export class InFlightRequest implements CallSignal, Expiring, Listed {
  /** See `Listed`. */
  link: Listed['link']
  aborted = false
  /** The client left. */
  left = false
  /** Its answer is kept for a client that repeats the request: it goes on without its client. */
  isKept = false
  /** Set for a generation whose provider may be read on. */
  generation: { open: OpenGeneration; endpoints: readonly Endpoint[] } | undefined
  /** The error with which the server ended it. */
  reason: GatewayError | undefined
  /** Set while a response streams: ends the stream with this error, in the client's protocol. */
  onCut: ((error: GatewayError) => void) | undefined
  readonly #listeners: (() => void)[] = []
  readonly #clientSignal: AbortSignal
  readonly #registry: LinkedSet<InFlightRequest>
  readonly #readOn: ReadOn
  /** Goes on without its client, as if that were there. */
  #goesOn = false
  /** Set while the provider is read on. */
  #readOnEnd: Deadline | undefined

  constructor(clientSignal: AbortSignal, registry: LinkedSet<InFlightRequest>, readOn: ReadOn) {
    this.#clientSignal = clientSignal
    this.#registry = registry
    this.#readOn = readOn
    registry.add(this)
    if (clientSignal.aborted) this.clientLeft()
    else clientSignal.addEventListener('abort', this.clientLeft, { once: true })
  }

  /** The client left. True where the provider is read on. */
  readonly clientLeft = (): boolean => {
    if (this.left || this.#goesOn) return !this.aborted
    const { generation } = this
    if (this.isKept && generation !== undefined) this.#goesOn = this.#readOn.take(generation.open)
    if (this.#goesOn) return !this.aborted
    this.left = true
    generation?.open.meter.markLeft()
    if (generation !== undefined && this.#readOn.begin(generation.open, generation.endpoints)) {
      this.#readOnEnd = new Deadline(this)
      deadlines.set(this.#readOnEnd, this.#readOn.mostMs)
    } else this.#abort()
    return !this.aborted
  }

  /** The end of the time for which the provider is read on. */
  onDeadline(): void {
    this.#abort()
  }

  /** Ends the reading without a client, if this is one. */
  giveUp(): void {
    if (this.#readOnEnd !== undefined) this.#abort()
  }

  #abort(): void {
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
    this.#clientSignal.removeEventListener('abort', this.clientLeft)
    if (this.#readOnEnd !== undefined) {
      deadlines.clear(this.#readOnEnd)
      this.#readOnEnd = undefined
      this.#readOn.end(this.generation!.open)
    }
    if (this.#goesOn) {
      this.#goesOn = false
      this.#readOn.end(this.generation!.open)
    }
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
  readonly #all = new LinkedSet<InFlightRequest>()
  readonly #readOn: ReadOn
  #drained: GatewayError | undefined
  #mostAtCollection = 0

  /** `readOnMs`: the longest time for which a provider is read after the client left. */
  constructor(readOnMs: number) {
    this.#readOn = new ReadOn(readOnMs)
  }

  /** Another time for providers whose clients leave from now on. */
  set readOnMs(value: number) {
    if (this.#drained === undefined) this.#readOn.mostMs = value
  }

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
    return new InFlightRequest(clientSignal, this.#all, this.#readOn)
  }

  /** Waits until none is left, at most this long; then ends those that remain with this error. */
  async drain(atMostMs: number, error: GatewayError): Promise<void> {
    for (const one of [...this.#all]) one.giveUp()
    this.#readOn.stop()
    const deadline = performance.now() + atMostMs
    while (this.#all.size > 0 && performance.now() < deadline) await Bun.sleep(20)
    this.#drained = error
    for (const one of [...this.#all]) one.cut(error)
  }
}

/** Requests between two looks at the event loop. */
const LOOK_EVERY = 16
/** So many requests are handled in one turn of the event loop; others wait for the next one. */
const IN_ONE_TURN = 256
/** The number of those that waited that go on in one turn. */
const AT_ONCE = 32

/**
 * Gives streams and timers their turn. The runtime accepts connections as long as there are any, and has their requests
 * handled meanwhile: clients that come again as fast as they are answered would hold up all else for as long as they
 * go on.
 */
export class LoopTurns {
  /** Since the event loop was seen to turn. */
  #requests = 0
  #isLooking = false
  readonly #waiting: (() => void)[] = []

  /** Undefined for a request that may be handled at once; otherwise resolves when it may. */
  wait(): Promise<void> | undefined {
    const requests = ++this.#requests
    if (!this.#isLooking && requests >= LOOK_EVERY) this.#look()
    if (requests <= IN_ONE_TURN && this.#waiting.length === 0) return undefined
    return new Promise((resolve) => void this.#waiting.push(resolve))
  }

  #look(): void {
    this.#isLooking = true
    setImmediate(() => this.#turned())
  }

  #turned(): void {
    this.#requests = 0
    this.#isLooking = false
    if (this.#waiting.length > 0) this.#look()
    for (const resolve of this.#waiting.splice(0, AT_ONCE)) resolve()
  }
}

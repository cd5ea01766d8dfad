import { Histogram, SHORT_BOUNDS } from './histogram.ts'

const EVERY_MS = 50
/** Without a reader for so long, nothing is measured any more: a server at rest stays at rest. */
const UNREAD_MS = 300_000

/** The delays in seconds with which the event loop runs a timer. Measured from the first look on. */
export class LoopDelay {
  readonly #delays = new Histogram(SHORT_BOUNDS)
  #timer: Timer | undefined
  #readAt = 0
  #dueAt = 0

  read(): Histogram {
    this.#readAt = performance.now()
    if (this.#timer === undefined) {
      this.#dueAt = this.#readAt + EVERY_MS
      this.#timer = setInterval(this.#measure, EVERY_MS).unref()
    }
    return this.#delays
  }

  readonly #measure = (): void => {
    const now = performance.now()
    this.#delays.observe(Math.max(0, now - this.#dueAt) / 1000)
    this.#dueAt = now + EVERY_MS
    if (now - this.#readAt > UNREAD_MS) this.stop()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

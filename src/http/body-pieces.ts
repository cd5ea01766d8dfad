import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import { exclusiveTurn } from '../json/exclusive-turn.ts'

/** The least that must come of a body in each period. */
type Pace = { periodMs: number; bytes: number }
const PACE: Pace = { periodMs: 10_000, bytes: 10 * 1024 }

/**
 * After a smaller piece others are waited for: a client may send a body in chunks of one byte, each of which would be
 * a hundred in memory. The runtime joins those for which no read waits.
 */
const SMALL_BYTES = 1024

/**
 * A request body as it arrives; the client's socket is read only as fast as `next` is called. A body whose client stops
 * sending ends too late, however fast it sent before.
 */
export class BodyPieces implements Expiring {
  /** Bytes so far. */
  received = 0
  /** The body did not come in time; `next` has given undefined. */
  tooLate = false
  readonly #reader: { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; cancel(): Promise<void> }
  readonly #deadline = new Deadline(this)
  readonly #endsAt: number
  readonly #pace: Pace
  #receivedBefore = 0
  #isReading = false
  #wasSmall = false

  constructor(body: ReadableStream<Uint8Array>, atMostMs: number, pace = PACE) {
    this.#pace = pace
    this.#reader = body.getReader()
    this.#endsAt = performance.now() + atMostMs
    deadlines.set(this.#deadline, Math.min(pace.periodMs, atMostMs))
  }

  /** The next piece, or undefined at the end. Rejects if the client leaves. */
  async next(): Promise<Uint8Array | undefined> {
    if (this.#wasSmall) await exclusiveTurn()
    this.#isReading = true
    const { value } = await this.#reader.read()
    this.#isReading = false
    this.received += value?.length ?? 0
    this.#wasSmall = value !== undefined && value.length < SMALL_BYTES
    return value
  }

  /** Reads no more. */
  end(): void {
    deadlines.clear(this.#deadline)
    this.#reader.cancel().catch(() => {})
  }

  onDeadline(): void {
    const left = this.#endsAt - performance.now()
    const isSlow = this.#isReading && this.received - this.#receivedBefore < this.#pace.bytes
    if (left <= 0 || isSlow) {
      this.tooLate = true
      return this.end()
    }
    this.#receivedBefore = this.received
    deadlines.set(this.#deadline, Math.min(this.#pace.periodMs, left))
  }
}

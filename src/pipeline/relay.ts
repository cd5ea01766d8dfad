import { Deadline, deadlines, within } from '../deadlines.ts'
import { asGatewayError, type GatewayError } from '../error.ts'
import type { ByteSource } from '../http/call.ts'
import { FrameSplitter, type Frame } from '../http/frames.ts'
import type { Chunk, WriteNow } from '../http/stream.ts'
import { outcomeOf, type Outcome } from '../ledger/outcomes.ts'
import type { Framing } from './framing.ts'
import type { InFlightRequest } from './in-flight.ts'
import type { MeteredStream } from './metered-stream.ts'

/** A last frame without its blank line counts, unless the connection broke in the middle of it. */
const isWhole = ({ data }: Frame): boolean => {
  try {
    JSON.parse(data)
    return true
  } catch {
    return data === '[DONE]'
  }
}

/** Takes the place of the client who left. */
const discard: WriteNow = () => 'written'

/** The wait for the bytes after a terminal event, so that the provider's connection can be reused. */
const TAIL_MS = 1_000

/**
 * Called with the outcome and awaited before the last frames leave. Resolves with the frames to write in their place;
 * never rejects.
 */
export type Close = (outcome: Outcome, last: Frame[]) => Promise<Frame[]>

/**
 * The one loop through which every streamed response passes. Each network chunk leaves in the turn of the event loop in
 * which it came, without a promise while the client takes what is written.
 */
export class Relay {
  readonly #source: ByteSource
  readonly #stream: MeteredStream
  readonly #framing: Framing
  readonly #splitter = new FrameSplitter()
  readonly #close: Close
  readonly #inFlight: Pick<InFlightRequest, 'clientLeft' | 'left'> | undefined
  #early: Promise<Chunk | undefined> | undefined
  #last: Promise<Chunk | undefined> | undefined
  #cut: GatewayError | undefined
  #isExhausted = false
  /** The last frames, of a chunk that was consumed as it came: the loop writes them. */
  #rest: Frame[] | undefined
  /** The text of such a chunk that the client did not take: `pull` gives it. */
  #unwritten: Chunk | undefined
  #done = false

  /** `inFlight`: of a response whose client may leave. */
  constructor(
    source: ByteSource,
    stream: MeteredStream,
    framing: Framing,
    close: Close,
    inFlight?: Pick<InFlightRequest, 'clientLeft' | 'left'>,
  ) {
    this.#inFlight = inFlight
    this.#source = source
    this.#stream = stream
    this.#framing = framing
    this.#close = close
  }

  /** Waits at most this long for the first chunk, so that a failure before it still gets an HTTP status of its own. */
  async begin(atMostMs: number): Promise<void> {
    this.#early = this.pull()
    await within(this.#early, atMostMs, () => undefined)
  }

  /**
   * The next chunk for the client; undefined at the end. Rejects only for a defect of Sluice, after closing the
   * generation: otherwise its hold would stay for ever.
   */
  pull(write?: WriteNow): Promise<Chunk | undefined> {
    const early = this.#early
    this.#early = undefined
    return (this.#last = early ?? this.#next(write))
  }

  async #next(write: WriteNow | undefined): Promise<Chunk | undefined> {
    const consume = (bytes: Uint8Array) => this.#consume(bytes, write)
    try {
      while (!this.#done) {
        let bytes: Uint8Array | undefined
        let broke: unknown
        try {
          bytes = await this.#source.read(consume)
        } catch (error) {
          broke = error
        }
        const unwritten = this.#unwritten
        this.#unwritten = undefined
        if (unwritten !== undefined) return unwritten
        let frames = this.#received(bytes, broke)
        const isLast = this.#stream.ended !== undefined
        if (isLast) frames = await this.#finish(frames)
        const chunk = this.#framing.write(frames, isLast)
        if (chunk !== '') return chunk
      }
      return undefined
    } catch (error) {
      this.#done = true
      this.#source.cancel()
      await this.#close('failed', [])
      throw error
    }
  }

  /** The frames of what was read, or of the error with which that ended. */
  #received(bytes: Uint8Array | undefined, broke: unknown): Frame[] {
    // A source that was cancelled meanwhile rejects what it has read.
    if (this.#rest !== undefined) return this.#rest
    try {
      return broke === undefined ? this.#take(bytes) : this.#takeBroken(broke)
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** The frames of a connection that broke. What the provider sent last says more: Google ends with a bare error. */
  #takeBroken(error: unknown): Frame[] {
    const last = this.#done || this.#isExhausted || this.#cut !== undefined ? [] : this.#takeLast()
    return [...last, ...this.#fail(error)]
  }

  /** The frames after which no more come. */
  #fail(error: unknown): Frame[] {
    return this.#isExhausted ? this.#take(undefined) : this.#stream.fail(this.#cut ?? asGatewayError(error))
  }

  #takeLast(): Frame[] {
    return this.#stream.take(this.#splitter.end().filter(isWhole))
  }

  /** Relays a chunk in the turn in which it came. False where the loop has to go on, with what this has left. */
  #consume(bytes: Uint8Array, write: WriteNow | undefined): boolean {
    try {
      const frames = this.#take(bytes)
      if (this.#stream.ended === undefined) return this.#write(frames, write)
      this.#rest = frames
    } catch (error) {
      this.#rest = this.#fail(error)
    }
    return false
  }

  #write(frames: Frame[], write: WriteNow | undefined): boolean {
    const chunk = this.#framing.write(frames, false)
    if (chunk === '') return true
    const result = typeof chunk === 'string' && write !== undefined ? write(chunk) : 'refused'
    if (result === 'written') return true
    this.#unwritten = result === 'full' ? '' : chunk
    return false
  }

  #take(bytes: Uint8Array | undefined): Frame[] {
    if (this.#cut !== undefined) return this.#stream.fail(this.#cut)
    let frames: Frame[] = []
    if (bytes !== undefined) frames = this.#stream.take(this.#splitter.push(bytes))
    else if (!this.#isExhausted) frames = [...this.#takeLast(), ...this.#stream.end()]
    if (this.#isExhausted) this.#stream.exhaust()
    return frames
  }

  get #outcome(): Outcome {
    if (this.#cut !== undefined) return 'shutdown'
    if (this.#stream.error !== undefined) return outcomeOf(this.#stream.error)
    if (this.#stream.ended === 'exhausted') return 'exhausted'
    return this.#inFlight?.left === true ? 'client-left' : 'completed'
  }

  async #finish(last: Frame[]): Promise<Frame[]> {
    this.#done = true
    const outcome = this.#outcome
    const frames = await this.#close(outcome, [...last, ...(await this.#stream.conclude())])
    if (outcome === 'completed' || outcome === 'client-left') void this.#drain()
    else this.#source.cancel()
    return frames
  }

  /** Reads the tail of a complete stream; a provider that keeps sending is cut. */
  async #drain(): Promise<void> {
    const deadline = new Deadline({ onDeadline: () => this.#source.cancel() })
    deadlines.set(deadline, TAIL_MS)
    try {
      while ((await this.#source.read()) !== undefined) continue
    } catch {
      // The response was complete; how its connection ended does not matter.
    } finally {
      deadlines.clear(deadline)
    }
  }

  /** The client left: the provider is read on, or the call to it is aborted at once. */
  cancel(): void {
    if (this.#done) return
    if (this.#inFlight?.clientLeft() === true) return void this.#readOn()
    this.#done = true
    this.#source.cancel()
    void this.#close('client-left', [])
  }

  /** Meters the rest of a response. Its end, also one by a failure, closes the generation. */
  async #readOn(): Promise<void> {
    try {
      while ((await this.#last) !== undefined) this.#last = this.#next(discard)
    } catch {
      // A defect of Sluice, which the client would have seen.
    }
  }

  /** No more can be held for the response: it ends with what came so far, as at its output limit. */
  readonly exhaust = (): void => {
    if (this.#done || this.#cut !== undefined) return
    this.#isExhausted = true
    this.#source.cancel()
  }

  /** The server stops: the client gets this error in its own protocol. */
  readonly cut = (error: GatewayError): void => {
    if (this.#done) return
    this.#cut = error
    this.#source.cancel()
  }
}

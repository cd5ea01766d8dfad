import { asGatewayError, GatewayError } from '../error.ts'
import { withUsage, type GenerationEvent } from '../generation/event.ts'
import type { ReplayRecorder } from '../generation/replay.ts'
import type { Usage } from '../generation/usage.ts'
import type { ByteSource } from '../http/call.ts'
import { FrameSplitter, type Frame } from '../http/frames.ts'
import { outcomeOf, type Outcome } from '../ledger/outcomes.ts'
import type { Meter } from '../ledger/meter.ts'
import type { Reader, Passthrough, Writer } from '../protocols/protocol.ts'

/** The way of frames from a provider to a client: read, heard by the meter, written. Lives as long as one answer. */
export class Lane {
  readonly #reader: Reader
  readonly #out: { writer: Writer } | { passthrough: Passthrough }
  readonly #meter: Meter
  readonly #replayRecorder: ReplayRecorder | undefined
  /** Set by the terminal event. */
  ended: 'completed' | 'failed' | undefined
  /** What it failed with. */
  error: GatewayError | undefined
  /** The failure that came before anything else was said. */
  failedAtOnce: GatewayError | undefined
  #spoke = false
  /** On the passing lane the provider's frame that may be the last one: it leaves with the next, or with the end. */
  #held: Frame | undefined
  /** The end of an answer whose usage has to be counted first. */
  #unsaid: { events: GenerationEvent[]; frame: Frame | undefined } | undefined

  constructor(
    reader: Reader,
    out: { writer: Writer } | { passthrough: Passthrough },
    meter: Meter,
    replayRecorder?: ReplayRecorder,
  ) {
    this.#reader = reader
    this.#out = out
    this.#meter = meter
    this.#replayRecorder = replayRecorder
  }

  /**
   * Frames of one network chunk -> the client's frames. What comes after the terminal event is not an answer any more.
   */
  take(frames: readonly Frame[]): Frame[] {
    const out: Frame[] = []
    for (const frame of frames) {
      if (this.ended !== undefined) break
      this.#write(this.#reader.read(frame), frame, out)
      this.#spoke ||= out.length > 0
    }
    return out
  }

  /** The provider's bytes ended: a stream without its terminal event is a failure, said in the client's protocol. */
  end(): Frame[] {
    const out: Frame[] = []
    if (this.ended === undefined) this.#write(this.#reader.end(), undefined, out)
    return out
  }

  /** The stream broke. Nothing is said after a terminal event. */
  fail(error: GatewayError): Frame[] {
    if (this.ended !== undefined) return []
    const out: Frame[] = []
    this.#write([{ type: 'error', error }], undefined, out)
    return out
  }

  /** The last frames of an answer that came without its usage: with what was counted instead. */
  async conclude(): Promise<Frame[]> {
    if (this.#unsaid === undefined) return []
    const { events, frame } = this.#unsaid
    const usage = await this.#meter.count()
    const out: Frame[] = []
    const counted = (one: Frame | undefined): Frame | undefined =>
      one !== undefined && usage !== undefined && 'passthrough' in this.#out
        ? (this.#out.passthrough.counted?.(one, usage) ?? one)
        : one
    this.#held = counted(this.#held)
    this.#say(withUsage(events, usage), counted(frame), out, usage)
    return out
  }

  #write(events: GenerationEvent[], frame: Frame | undefined, out: Frame[]): void {
    this.#meter.record(events)
    this.#replayRecorder?.record(events)
    if (!this.#meter.lacksUsage) return this.#say(events, frame, out)
    this.ended = 'completed'
    this.#unsaid = { events, frame }
  }

  #say(events: GenerationEvent[], frame: Frame | undefined, out: Frame[], counted?: Usage): void {
    if (frame === undefined) this.#letGo(out)
    for (const event of events) {
      const silent = !this.#spoke && out.length === 0
      if ('writer' in this.#out) for (const written of this.#out.writer.write(event)) out.push(written)
      // On the passing lane an error without a frame of the provider's own is ours to say.
      else if (event.type === 'error' && frame === undefined) out.push(...this.#out.passthrough.fail(event.error))
      // Not before it is written: what cannot be said has not ended so.
      if (event.type === 'finish') this.ended = 'completed'
      else if (event.type === 'error') {
        this.ended = 'failed'
        this.error = event.error
        if (silent) this.failedAtOnce = event.error
      }
    }
    if ('passthrough' in this.#out && frame !== undefined) this.#pass(this.#out.passthrough.frame(frame), out)
    if ('passthrough' in this.#out && this.ended === 'completed')
      for (const frame of this.#out.passthrough.end?.(counted) ?? []) out.push(frame)
  }

  /** What is left out for this client does not tell whether the frame before it was the last. */
  #pass(frame: Frame | undefined, out: Frame[]): void {
    if (frame === undefined) return
    this.#letGo(out)
    if (this.#reader.finishing === true && this.ended === undefined) this.#held = frame
    else out.push(frame)
  }

  #letGo(out: Frame[]): void {
    if (this.#held !== undefined) out.push(this.#held)
    this.#held = undefined
  }
}

/** How frames become text for the client: server-sent events, or the pieces of a JSON array. */
export interface Framing {
  write(frames: readonly Frame[]): string
  /** Text that closes the stream. */
  end(): string
}

/** A last frame without its blank line counts, unless the connection broke in the middle of it. */
const isWhole = ({ data }: Frame): boolean => {
  try {
    JSON.parse(data)
    return true
  } catch {
    return data === '[DONE]'
  }
}

/**
 * How long the bytes after a terminal event are waited for, so that the connection to the provider can be used again.
 */
const TAIL_MS = 1_000

/**
 * Google's SDK hears an error in a stream only when a network chunk holds nothing else (seen in 3.1.0): a busy client
 * must have read what came before.
 */
const APART_MS = 100

/**
 * Told how it ended, awaited before the last frames leave. Gives what is said in the end: these frames, unless they
 * would not be true. Never rejects.
 */
export type Close = (ending: Outcome, last: Frame[]) => Promise<Frame[]>

/**
 * The one loop through which every streamed answer passes. Awaits once per network chunk; a chunk leaves in the turn in
 * which it came.
 */
export class Relay {
  readonly #source: ByteSource
  readonly #lane: Lane
  readonly #framing: Framing
  readonly #splitter = new FrameSplitter()
  readonly #close: Close
  #early: Promise<string | undefined> | undefined
  #cut: GatewayError | undefined
  /** A bare frame that waits for its own write. */
  #apart: string | undefined
  #done = false

  constructor(source: ByteSource, lane: Lane, framing: Framing, close: Close) {
    this.#source = source
    this.#lane = lane
    this.#framing = framing
    this.#close = close
  }

  /** Waits for the first text, at most this long, so that a failure before it still gets a status of its own. */
  async begin(atMostMs: number): Promise<void> {
    this.#early = this.pull()
    let timer: Timer | undefined
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, atMostMs)
    })
    await Promise.race([this.#early, patience])
    clearTimeout(timer)
  }

  /**
   * Next text for the client; undefined when all is said. Rejects for a mistake of ours only, with the generation
   * closed: else its hold would stay for ever.
   */
  async pull(): Promise<string | undefined> {
    const early = this.#early
    if (early !== undefined) {
      this.#early = undefined
      return early
    }
    try {
      return await this.#next()
    } catch (error) {
      this.#done = true
      this.#source.cancel()
      await this.#close('failed', [])
      throw error
    }
  }

  async #next(): Promise<string | undefined> {
    if (this.#apart !== undefined) return this.#sayApart(this.#apart)
    while (!this.#done) {
      let frames: Frame[]
      try {
        frames = this.#take(await this.#source.read())
      } catch (error) {
        frames = this.#lane.fail(this.#cut ?? asGatewayError(error))
      }
      const last = this.#lane.ended !== undefined
      if (last) frames = await this.#finish(this.#ending, frames)
      const bare = frames.at(-1)?.bare === true ? frames.splice(-1) : []
      const text = frames.length > 0 ? this.#framing.write(frames) : ''
      const end = last ? this.#framing.end() : ''
      if (bare.length > 0) this.#apart = this.#framing.write(bare) + end
      if (text + end !== '' && bare.length === 0) return text + end
      if (this.#apart !== undefined) return text === '' ? this.#sayApart(this.#apart) : text
    }
    return undefined
  }

  get #ending(): Outcome {
    return this.#cut !== undefined
      ? 'shutdown'
      : this.#lane.error !== undefined
        ? outcomeOf(this.#lane.error)
        : 'completed'
  }

  async #sayApart(text: string): Promise<string> {
    this.#apart = undefined
    await Bun.sleep(APART_MS)
    return text
  }

  #take(bytes: Uint8Array | undefined): Frame[] {
    if (this.#cut !== undefined) return this.#lane.fail(this.#cut)
    if (bytes !== undefined) return this.#lane.take(this.#splitter.push(bytes))
    return [...this.#lane.take(this.#splitter.end().filter(isWhole)), ...this.#lane.end()]
  }

  async #finish(ending: Outcome, last: Frame[]): Promise<Frame[]> {
    this.#done = true
    const said = await this.#close(ending, [...last, ...(await this.#lane.conclude())])
    if (ending === 'completed') void this.#drain()
    else this.#source.cancel()
    return said
  }

  /** Reads the tail of a finished stream; a provider that goes on talking is cut. */
  async #drain(): Promise<void> {
    const timer = setTimeout(() => this.#source.cancel(), TAIL_MS)
    try {
      while ((await this.#source.read()) !== undefined) continue
    } catch {
      // The answer was complete: how its connection ended is of no interest.
    } finally {
      clearTimeout(timer)
    }
  }

  /** The client went: the provider is told at once. */
  leave(): void {
    if (this.#done) return
    this.#done = true
    this.#source.cancel()
    void this.#close('client-left', [])
  }

  /** The server stops: the client is told in its own protocol. */
  cut(error: GatewayError): void {
    if (this.#done) return
    this.#cut = error
    this.#source.cancel()
  }
}

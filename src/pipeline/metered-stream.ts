import type { GatewayError } from '../error.ts'
import { withUsage, type GenerationEvent } from '../generation/event.ts'
import type { ReplayRecorder } from '../generation/replay.ts'
import type { Frame } from '../http/frames.ts'
import type { Meter } from '../ledger/meter.ts'
import type { Reader } from '../protocols/protocol.ts'
import type { LossReport } from '../protocols/translation.ts'
import type { Output } from './output.ts'

/** One streamed response: provider frames -> events -> meter -> the client's frames. The meter always comes first. */
export class MeteredStream {
  readonly #reader: Reader
  readonly #output: Output
  readonly #meter: Meter
  readonly #replayRecorder: ReplayRecorder | undefined
  readonly #losses: LossReport | undefined
  /** Set by the terminal event. */
  ended: 'completed' | 'failed' | 'exhausted' | undefined
  /** The error of a stream that failed. */
  error: GatewayError | undefined
  /** The same, where nothing had been written before it: its client can still get a status. */
  failedAtOnce: GatewayError | undefined
  #hasWritten = false
  /** The end of a response whose usage has to be counted before it can be written. */
  #uncounted: { events: GenerationEvent[]; frame: Frame | undefined } | undefined

  /** `losses`: of the response, to which its early end is added. */
  constructor(reader: Reader, output: Output, meter: Meter, replayRecorder?: ReplayRecorder, losses?: LossReport) {
    this.#losses = losses
    this.#reader = reader
    this.#output = output
    this.#meter = meter
    this.#replayRecorder = replayRecorder
  }

  /** Frames of one network chunk -> the client's frames. Frames behind the terminal event are ignored. */
  take(frames: readonly Frame[]): Frame[] {
    const out: Frame[] = []
    for (const frame of frames) {
      if (this.ended !== undefined) break
      this.#record(this.#reader.read(frame), frame, out)
      this.#hasWritten ||= out.length > 0
    }
    return out
  }

  /** The provider's bytes ended: a stream without its terminal event has failed. */
  end(): Frame[] {
    const out: Frame[] = []
    if (this.ended === undefined) this.#record(this.#reader.end(), undefined, out)
    return out
  }

  /** The stream broke: the provider's own error says more. No effect after a terminal event. */
  fail(error: GatewayError): Frame[] {
    if (this.ended !== undefined) return []
    const out: Frame[] = []
    this.#record([{ type: 'error', error: this.#reader.failure ?? error }], undefined, out)
    return out
  }

  /** Ends the response because no more can be held for it. No effect after its end. */
  exhaust(): void {
    const { exhausted } = this.#meter
    if (this.ended !== undefined || exhausted === undefined) return
    this.ended = 'exhausted'
    const tokens = exhausted.tokens.toLocaleString('en')
    const reason = `ended at the ${tokens} tokens of output that could be held: ${exhausted.cause}`
    this.#losses?.add('cut_at_balance', 'response', reason)
  }

  /** The last frames of a response that is ended early, or came without its usage, with what was counted instead. */
  async conclude(): Promise<Frame[]> {
    if (this.ended === 'exhausted') {
      const out: Frame[] = []
      await this.#meter.count()
      this.#output.endEarly?.(this.#meter.usage, this.#losses?.losses ?? [], out)
      return out
    }
    if (this.#uncounted === undefined) return []
    const { events, frame } = this.#uncounted
    const usage = await this.#meter.count()
    const out: Frame[] = []
    this.#output.counted(usage)
    this.#write(withUsage(events, usage), frame, out)
    return out
  }

  #record(events: GenerationEvent[], frame: Frame | undefined, out: Frame[]): void {
    this.#meter.record(events)
    this.#replayRecorder?.record(events)
    if (!this.#output.reportsUsage || !this.#meter.lacksUsage) return this.#write(events, frame, out)
    this.ended = 'completed'
    this.#uncounted = { events, frame }
  }

  #write(events: GenerationEvent[], frame: Frame | undefined, out: Frame[]): void {
    for (const event of events) {
      const isFirst = !this.#hasWritten && out.length === 0
      this.#output.event(event, frame !== undefined, out)
      // Set after writing: an event that cannot be written has not ended the response.
      if (event.type === 'finish') this.ended = 'completed'
      else if (event.type === 'error') {
        this.ended = 'failed'
        this.error = event.error
        if (isFirst) this.failedAtOnce = event.error
      }
    }
    if (frame !== undefined) this.#output.frame(frame, this.#reader.finishing === true && this.ended === undefined, out)
    if (this.ended === 'completed') this.#output.end(out)
  }
}

import type { GatewayError } from '../error.ts'
import type { GenerationEvent } from '../generation/event.ts'
import type { Usage } from '../generation/usage.ts'
import type { Frame } from '../http/frames.ts'
import type { Passthrough, Writer } from '../protocols/protocol.ts'
import type { Loss } from '../protocols/translation.ts'

/**
 * Receives the events and frames of one streamed response. For each provider frame `event` is called once for
 * each of its events, then `frame`. Frames for the client are appended to `out`.
 */
export interface Output {
  /** True if frames report the usage: it is counted before the last of them where the provider sent none. */
  readonly reportsUsage: boolean
  /** `isFramed`: the event comes from a provider frame, which follows; otherwise Sluice made it. */
  event(event: GenerationEvent, isFramed: boolean, out: Frame[]): void
  /** `mayBeLast`: only the next frame, or the end of the bytes, shows whether more follows. */
  frame(frame: Frame, mayBeLast: boolean, out: Frame[]): void
  /** Usage that Sluice counted, for the frames still to come. Called at most once, before the last of them. */
  counted(usage: Usage | undefined): void
  /** The response is complete. */
  end(out: Frame[]): void
  /**
   * Sluice ends the response as a provider does at its output limit: what is open is closed. Absent: it never does.
   * `losses`: of the whole response.
   */
  endEarly?(usage: Usage, losses: readonly Loss[], out: Frame[]): void
}

/** Events written in the client's protocol, which is not the provider's. */
export class TranslatedOutput implements Output {
  readonly reportsUsage = true
  readonly #writer: Writer
  #hasStarted = false
  #openPart: number | undefined

  constructor(writer: Writer) {
    this.#writer = writer
  }

  event(event: GenerationEvent, _isFramed: boolean, out: Frame[]): void {
    if (event.type === 'start') this.#hasStarted = true
    else if (event.type === 'part-start') this.#openPart = event.part
    else if (event.type === 'part-end') this.#openPart = undefined
    for (const frame of this.#writer.write(event)) out.push(frame)
  }

  frame(): void {}

  counted(): void {}

  end(): void {}

  endEarly(usage: Usage, _losses: readonly Loss[], out: Frame[]): void {
    const part = this.#openPart
    if (!this.#hasStarted) this.event({ type: 'start', id: '', model: '' }, false, out)
    if (part !== undefined) this.event({ type: 'part-end', part }, false, out)
    this.event({ type: 'usage', usage }, false, out)
    this.event({ type: 'finish', reason: 'length', raw: 'cut_at_balance' }, false, out)
  }
}

/** The provider's own frames, for a client of the same protocol. */
export class PassthroughOutput implements Output {
  readonly reportsUsage = true
  readonly #passthrough: Passthrough
  readonly #reports: boolean
  /** The frame that may be the last one: it leaves with the next frame, or with the end, so never before the commit. */
  #held: Frame | undefined
  #usage: Usage | undefined
  /** The error that the provider's frame reports. */
  #error: GatewayError | undefined

  /** `reports`: the client requests the losses in the body. */
  constructor(passthrough: Passthrough, reports: boolean) {
    this.#passthrough = passthrough
    this.#reports = reports
  }

  /** The provider's frame carries its events; only an error of Sluice's own has to be written. */
  event(event: GenerationEvent, isFramed: boolean, out: Frame[]): void {
    if (isFramed) {
      if (event.type === 'part-delta') this.#passthrough.append?.(event.text)
      else if (event.type === 'error') this.#error = event.error
      return
    }
    this.#release(out)
    if (event.type === 'error') out.push(...this.#passthrough.fail(event.error))
  }

  /** A frame that is left out for this client says nothing about whether the one before it was the last. */
  frame(frame: Frame, mayBeLast: boolean, out: Frame[]): void {
    // Clients skip JSON without a field, which may be the provider's error; where they do not, the passthrough knows.
    const named = frame.unprefixed === true ? { data: frame.data } : frame
    const passed = this.#passthrough.frame(this.#withUsage(named))
    if (passed === undefined) return this.#writeError(out)
    this.#release(out)
    if (mayBeLast) this.#held = passed
    else out.push(passed)
    if (this.#error !== undefined) out.push(...(this.#passthrough.again?.(passed, this.#error) ?? []))
  }

  counted(usage: Usage | undefined): void {
    this.#usage = usage
    if (this.#held !== undefined) this.#held = this.#withUsage(this.#held)
  }

  end(out: Frame[]): void {
    this.#release(out)
    for (const frame of this.#passthrough.end?.(this.#usage) ?? []) out.push(frame)
  }

  endEarly(usage: Usage, losses: readonly Loss[], out: Frame[]): void {
    this.#release(out)
    const report = this.#reports ? { sluice: { translation: losses } } : {}
    for (const frame of this.#passthrough.endEarly?.({ usage, report }) ?? []) out.push(frame)
    for (const frame of this.#passthrough.end?.(usage) ?? []) out.push(frame)
  }

  #withUsage(frame: Frame): Frame {
    return this.#usage === undefined ? frame : (this.#passthrough.counted?.(frame, this.#usage) ?? frame)
  }

  /** Writes an error whose frame is left out: clients do not read its form. */
  #writeError(out: Frame[]): void {
    if (this.#error === undefined) return
    this.#release(out)
    out.push(...this.#passthrough.fail(this.#error))
  }

  #release(out: Frame[]): void {
    if (this.#held === undefined) return
    out.push(this.#held)
    this.#held = undefined
  }
}

import type { FinishReason, GenerationEvent } from '../generation/event.ts'
import { noUsage, type Usage } from '../generation/usage.ts'

/** How a generation ended: one of these, once. */
export type Ending = 'completed' | 'failed' | 'client-left' | 'shutdown'

/** One open generation. It hears every event before the client does, and is closed exactly once, whatever ends it. */
export class Meter {
  readonly usage: Usage = noUsage()
  /** Whether the provider reported usage at all. */
  reported = false
  finish: { reason: FinishReason; raw: string } | undefined
  ending: Ending | undefined
  readonly startedAtMs = performance.now()
  firstEventAtMs: number | undefined
  endedAtMs: number | undefined

  hear(events: readonly GenerationEvent[]): void {
    for (const event of events) {
      this.firstEventAtMs ??= performance.now()
      if (event.type === 'usage') {
        Object.assign(this.usage, event.usage)
        this.reported = true
      } else if (event.type === 'finish') this.finish = { reason: event.reason, raw: event.raw }
    }
  }

  /** The first ending counts; a later one is a no-op. */
  close(ending: Ending): boolean {
    if (this.ending !== undefined) return false
    this.ending = ending
    this.endedAtMs = performance.now()
    return true
  }
}

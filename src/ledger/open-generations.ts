import type { OpenGeneration } from './open-generation.ts'

/**
 * Generations younger than this are not written as open: most end earlier, and a crash only loses an unpaid response.
 */
const WRITE_AFTER_MS = 100
/** The interval at which an open generation is written again, if anything was received since. */
const REWRITE_EVERY_MS = 5_000
/** Rewrites wait this long for others, so that they are one transaction. */
const GROUP_REWRITES_MS = 250

/** All open generations, and which of them have to be written. Only those that are due are looked at. */
export class OpenGenerations {
  /** Never written, the oldest first. */
  readonly #young = new Set<OpenGeneration>()
  /** The one that was looked at longest ago first. */
  readonly #old = new Set<OpenGeneration>()

  add(open: OpenGeneration): void {
    this.#young.add(open)
  }

  delete(open: OpenGeneration): void {
    if (!this.#young.delete(open)) this.#old.delete(open)
  }

  has(open: OpenGeneration): boolean {
    return this.#young.has(open) || this.#old.has(open)
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  /** Those whose providers work on in the background. */
  get deferred(): OpenGeneration[] {
    return [...this.#young, ...this.#old].filter(({ deferred }) => deferred === true)
  }

  /** Takes those that have to be written now. */
  takeDue(): OpenGeneration[] {
    const seen: OpenGeneration[] = []
    for (const open of this.#young) {
      if (open.meter.ageMs <= WRITE_AFTER_MS) break
      seen.push(open)
    }
    for (const open of this.#old) {
      if (open.meter.ageMs - open.writtenAtMs! <= REWRITE_EVERY_MS) break
      seen.push(open)
    }
    for (const open of seen) {
      open.writtenAtMs = open.meter.ageMs
      this.delete(open)
      this.#old.add(open)
    }
    return seen.filter(({ deferred, meter }) => deferred !== true && meter.takeChanged())
  }

  /** Milliseconds until one may be due; undefined where none is open. */
  get dueInMs(): number | undefined {
    if (this.#young.size > 0) return WRITE_AFTER_MS
    for (const { meter, writtenAtMs } of this.#old)
      return Math.max(writtenAtMs! + REWRITE_EVERY_MS - meter.ageMs, GROUP_REWRITES_MS)
    return undefined
  }
}

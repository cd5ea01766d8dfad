import { LinkedSet } from '../collections/linked-set.ts'
import { serializeProgress, type OpenGeneration } from './open-generation.ts'

/** The progress of all responses is written at once, within this time after any received something. */
export const PROGRESS_EVERY_MS = 70
/** Generations whose response began less long ago are not written as open: many end earlier. */
const BEGUN_FOR_MS = 20
/** The same for those without a response, of which a crash loses nothing. */
const WRITE_AFTER_MS = 100
/** The interval at which an open generation is written again, if anything was received since: for power cuts. */
const REWRITE_EVERY_MS = 5_000
/** Rewrites wait this long for others, so that they are one transaction. */
const GROUP_REWRITES_MS = 250

/** All open generations, and which of them have to be written. */
export class OpenGenerations {
  /** Not written since their response began, or never. */
  readonly #young = new LinkedSet<OpenGeneration>()
  /** The one that was looked at longest ago first. Only those that are due are looked at. */
  readonly #old = new LinkedSet<OpenGeneration>()

  /** Returns the milliseconds until it may be due. */
  add(open: OpenGeneration): number {
    this.#young.add(open)
    return dueOf(open)
  }

  delete(open: OpenGeneration): void {
    if (!this.#young.delete(open)) this.#old.delete(open)
  }

  has(open: OpenGeneration): boolean {
    return this.#young.has(open) || this.#old.has(open)
  }

  *[Symbol.iterator](): Generator<OpenGeneration> {
    yield* this.#young
    yield* this.#old
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  get counts(): { streamed: number; whole: number } {
    let streamed = 0
    for (const all of [this.#young, this.#old]) for (const { request } of all) streamed += Number(request.streamed)
    return { streamed, whole: this.size - streamed }
  }

  /** Those whose providers work on in the background. */
  get deferred(): OpenGeneration[] {
    return [...this.#young, ...this.#old].filter(({ deferred }) => deferred === true)
  }

  /** Takes those that are looked at now: some of them have to be written. */
  takeSeen(): OpenGeneration[] {
    const seen: OpenGeneration[] = []
    for (const open of this.#young) if (waitOf(open) < 0) seen.push(open)
    for (const open of this.#old) {
      if (open.meter.ageMs - open.writtenAtMs! <= REWRITE_EVERY_MS) break
      seen.push(open)
    }
    for (const open of seen) {
      open.writtenAtMs = open.meter.ageMs
      if (open.meter.begunMs === undefined) continue
      this.delete(open)
      this.#old.add(open)
    }
    return seen
  }

  /** Takes those whose response has begun and that received more. */
  takeMoved(): OpenGeneration[] {
    const moved: OpenGeneration[] = []
    for (const open of this.#old) if (open.meter.takeMoved()) moved.push(open)
    return moved
  }

  /** The progress of all whose response has begun, as JSON. `moved`: those that received more since the last call. */
  progress(moved: readonly OpenGeneration[]): string {
    for (const open of moved) open.progress = serializeProgress(open)
    let all = ''
    for (const { progress } of this.#old) if (progress !== undefined) all += all === '' ? progress : `,${progress}`
    return `[${all}]`
  }

  /** Milliseconds until one may be due; undefined where none is open. */
  get dueInMs(): number | undefined {
    let due: number | undefined
    for (const open of this.#young) due = Math.min(due ?? Infinity, dueOf(open))
    for (const { meter, writtenAtMs } of this.#old)
      return Math.min(due ?? Infinity, Math.max(writtenAtMs! + REWRITE_EVERY_MS - meter.ageMs, GROUP_REWRITES_MS))
    return due
  }
}

/** Milliseconds until one may be due that was not written since its response began. */
function dueOf(open: OpenGeneration): number {
  const isRewrite = open.writtenAtMs !== undefined && open.meter.begunMs === undefined
  return Math.max(waitOf(open), isRewrite ? GROUP_REWRITES_MS : 1)
}

/** Milliseconds until one has to be written that was not written since its response began. */
function waitOf({ meter, writtenAtMs }: OpenGeneration): number {
  const { begunMs, ageMs } = meter
  if (begunMs !== undefined) return BEGUN_FOR_MS - begunMs
  return writtenAtMs === undefined ? WRITE_AFTER_MS - ageMs : writtenAtMs + REWRITE_EVERY_MS - ageMs
}

import type { CaptureConfig } from '../../config/config.ts'
import { log } from '../../log/log.ts'
import { configuredCredentials } from '../../log/secrets.ts'
import { threadModule } from '../../worker/modules.ts'
import { Thread } from '../../worker/thread.ts'
import type { Preparing, Writing, WritingAnswers, Written } from './writing-worker.ts'

/** The thread ends when it was asked nothing for so long. */
const IDLE_MS = 60_000

/** The bytes that may wait until their requests have ended and they are written. */
const WAITING_BYTES = 64 * 2 ** 20

const WARN_EVERY_MS = 60_000

/** Prepares and writes bodies in a thread, and counts what is left out because there is too much. */
export class BodyWriter {
  /** Requests of which something was left out. */
  leftOut = 0
  readonly #config: CaptureConfig
  readonly #mostBytes: number
  readonly #thread = new Thread<WritingAnswers>({
    module: threadModule('pipeline/bodies/writing-worker.ts'),
    idleMs: IDLE_MS,
    failed: (reason) => new Error(reason),
  })
  #waitingBytes = 0
  #warnedAt = -Infinity

  constructor(config: CaptureConfig, mostBytes = WAITING_BYTES) {
    this.#config = config
    this.#mostBytes = mostBytes
  }

  /** True while nothing more can wait. */
  get isFull(): boolean {
    return this.#waitingBytes >= this.#mostBytes
  }

  /** Counts bytes that wait, to be released; false where there are too many. */
  take(bytes: number): boolean {
    if (this.#waitingBytes + bytes > this.#mostBytes) return false
    this.#waitingBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#waitingBytes -= bytes
  }

  shorten(data: Uint8Array): Promise<{ text: string; cut: number }> {
    return this.#thread.ask('shorten', data, this.#preparing)
  }

  write(writing: Omit<Writing, 'preparing'>): Promise<Written> {
    return this.#thread.ask('write', { ...writing, preparing: this.#preparing })
  }

  /** Counts a request that is left out because of an error, which no client is to get. */
  failed(error: unknown): void {
    this.leftOut++
    const now = performance.now()
    if (now - this.#warnedAt < WARN_EVERY_MS) return
    this.#warnedAt = now
    log.warn(`bodies of requests are not kept: ${(error as Error).message}`)
  }

  end(): void {
    this.#thread.end()
  }

  get #preparing(): Preparing {
    const { bytes, redact } = this.#config
    return { bytes, redact, credentials: configuredCredentials() }
  }
}

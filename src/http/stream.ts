import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import type { MemoryBudget } from './memory-budget.ts'

/**
 * The output of one pull: text for one write, or several writes, each `pauseBefore` milliseconds after the previous.
 */
export type Chunk = string | readonly { text: string; pauseBefore: number }[]

/**
 * Writes a text at once. `full`: it was written, but the client reads too slowly for another one. `refused`: it was not
 * written, since an earlier text has not left yet.
 */
export type WriteNow = (text: string) => 'written' | 'full' | 'refused'

/** The source of a streamed response. */
export type TextSource = {
  /**
   * The next chunk, '' for nothing yet, or undefined at the end. Called only after the previous chunk was written. A
   * rejection cuts the connection, so that no client mistakes the response for a complete one. Until it resolves,
   * `write` may be called for chunks before the one that it gives, which costs no promise.
   */
  pull(write?: WriteNow): Promise<Chunk | undefined>
  /**
   * The client left, or the server stops. Called at most once, and never after `pull` returned undefined or rejected.
   */
  cancel(reason: 'client-left' | 'shutdown'): void
}

/** Text sent after `afterMs` without output, so that proxies keep the connection. A complete frame or comment. */
export type KeepAlive = { text: string; afterMs: number }

/**
 * Bun's controller of a direct stream. `write` returns a promise if the socket is full; it resolves on drain or close.
 */
type DirectController = { write(text: string): number | Promise<number>; close(): void }

/** A client that has not taken what was written for so long is gone, although its connection is open. */
const STALLED_MS = 120_000

/** Interval of looks at a client that has not taken what was written. */
const LOOK_EVERY_MS = 1_000

/** The same where memory is short. */
const STALLED_WITHOUT_MEMORY_MS = 5_000

/** Where the memory of a client that is slow is counted, on behalf of `owner`. */
export type SlowMemory = { budget: MemoryBudget; owner: string }

/** Marks requests by their signal, because nothing can be attached to Bun's Request or to a direct stream. */
const streamed = new WeakSet<AbortSignal>()

/** True if the request with this signal has a streamed response, during which the connection is not idle. */
export const isStreamed = (signal: AbortSignal): boolean => streamed.has(signal)

/**
 * The body of a streamed Response. Each text is written at once, in the event-loop turn in which it was pulled.
 * `signal`: the request's, which aborts when the client leaves while nothing is being written. Abort it with the reason
 * 'shutdown' to cancel the source for that reason.
 */
export const streamBody = (
  source: TextSource,
  keepAlive: KeepAlive | undefined,
  signal?: AbortSignal,
  stalledMs = STALLED_MS,
  memory?: SlowMemory,
): ReadableStream => {
  const writer = new StreamWriter({ source, keepAlive, signal, stalledMs, memory })
  if (signal !== undefined) streamed.add(signal)
  return new ReadableStream({
    type: 'direct',
    pull: (controller: unknown) => writer.run(controller as DirectController),
    cancel: () => writer.cancel(),
  } as unknown as Bun.DirectUnderlyingSource)
}

type Streaming = {
  source: TextSource
  keepAlive: KeepAlive | undefined
  signal: AbortSignal | undefined
  stalledMs: number
  memory: SlowMemory | undefined
}

class StreamWriter implements Expiring {
  #source: TextSource
  #signal: AbortSignal | undefined
  #controller: DirectController | undefined
  #closed = false
  readonly #keepAlive: KeepAlive | undefined
  readonly #deadline = new Deadline(this)
  #lastWriteAt = 0
  #drained: number | Promise<number> = 0
  readonly #stalledMs: number
  readonly #memory: SlowMemory | undefined
  #isCounted = false
  /** A full socket as the deadline last saw it, and when it saw it first. */
  #seenFull: number | Promise<number> = 0
  #fullSince = 0
  /** Rejects for a client that takes nothing; made when a socket is full. */
  #stalled: PromiseWithResolvers<never> | undefined
  #stall: Error | undefined
  #onAbort = () => this.cancel()

  constructor({ source, keepAlive, signal, stalledMs, memory }: Streaming) {
    this.#stalledMs = stalledMs
    this.#memory = memory
    this.#source = source
    this.#keepAlive = keepAlive
    this.#signal = signal
    signal?.addEventListener('abort', this.#onAbort, { once: true })
    if (signal?.aborted === true) this.cancel()
  }

  async run(controller: DirectController): Promise<void> {
    if (this.#closed) return controller.close()
    this.#controller = controller
    deadlines.set(this.#deadline, this.#keepAlive?.afterMs ?? this.#stalledMs)
    this.#lastWriteAt = performance.now()
    const write: WriteNow = (text) => this.#writeNow(controller, text)
    try {
      for (;;) {
        const chunk = await this.#source.pull(write)
        if (this.#isOver()) return
        if (chunk === undefined) break
        if (typeof chunk !== 'string') {
          await this.#writeWithPauses(controller, chunk)
          if (this.#isOver()) return
          continue
        }
        // A keep-alive or a write of the source may have filled the socket during the pull.
        if (typeof this.#drained !== 'number') await this.#hasDrained(this.#drained)
        if (this.#isOver()) return
        if (chunk !== '') this.#drained = controller.write(chunk)
        if (typeof this.#drained !== 'number') await this.#hasDrained(this.#drained)
        this.#drained = 0
        this.#lastWriteAt = performance.now()
        if (this.#isOver()) return
      }
      this.#close()
      controller.close()
    } catch (error) {
      this.#close()
      throw error
    }
  }

  #writeNow(controller: DirectController, text: string): 'written' | 'full' | 'refused' {
    if (this.#closed || typeof this.#drained !== 'number') return 'refused'
    this.#drained = controller.write(text)
    if (typeof this.#drained !== 'number') return 'full'
    this.#lastWriteAt = performance.now()
    return 'written'
  }

  async #writeWithPauses(controller: DirectController, writes: Exclude<Chunk, string>): Promise<void> {
    for (const { text, pauseBefore } of writes) {
      if (pauseBefore > 0) await Bun.sleep(pauseBefore)
      if (typeof this.#drained !== 'number') await this.#hasDrained(this.#drained)
      if (this.#isOver()) return
      this.#drained = controller.write(text)
      if (typeof this.#drained !== 'number') await this.#hasDrained(this.#drained)
      this.#drained = 0
      this.#lastWriteAt = performance.now()
      if (this.#isOver()) return
    }
  }

  cancel(): void {
    if (this.#closed) return
    this.#close()
    this.#source.cancel(this.#signal?.reason === 'shutdown' ? 'shutdown' : 'client-left')
  }

  /** Frames only move the end of the silence: the deadline is not set again for each. */
  onDeadline(): void {
    const now = performance.now()
    if (typeof this.#drained !== 'number') {
      const isStill = this.#drained === this.#seenFull
      if (!isStill) this.#fullSince = now
      this.#seenFull = this.#drained
      if (isStill !== this.#isCounted) this.#setCounted(isStill)
      if (now - this.#fullSince >= this.#patienceMs) return this.#cut()
      return deadlines.set(this.#deadline, Math.min(LOOK_EVERY_MS, this.#stalledMs))
    }
    if (this.#isCounted) this.#setCounted(false)
    if (this.#keepAlive === undefined) return deadlines.set(this.#deadline, this.#stalledMs)
    const { text, afterMs } = this.#keepAlive
    if (now - this.#lastWriteAt >= afterMs) {
      this.#lastWriteAt = now
      this.#writeKeepAlive(text)
    }
    if (!this.#closed) deadlines.set(this.#deadline, this.#lastWriteAt + afterMs - now)
  }

  /** Resolves when the client has taken what was written. */
  #hasDrained(drained: Promise<number>): Promise<number> {
    this.#stalled = Promise.withResolvers()
    deadlines.setWithin(this.#deadline, LOOK_EVERY_MS)
    return Promise.race([drained, this.#stalled.promise])
  }

  get #patienceMs(): number {
    const isShort = this.#memory?.budget.isFull === true
    return isShort ? Math.min(this.#stalledMs, STALLED_WITHOUT_MEMORY_MS) : this.#stalledMs
  }

  #setCounted(isSlow: boolean): void {
    this.#isCounted = isSlow
    if (isSlow) this.#memory?.budget.keepForSlow(this.#memory.owner)
    else this.#memory?.budget.giveOfSlow(this.#memory.owner)
  }

  /** Ends the stream of a client that takes nothing. */
  #cut(): void {
    this.#stall = new Error('The client has taken nothing for too long.')
    this.#stalled?.reject(this.#stall)
    this.cancel()
  }

  /** The stream was closed. Throws to break the connection of a client that takes nothing. */
  #isOver(): boolean {
    if (this.#stall !== undefined) throw this.#stall
    return this.#closed
  }

  #writeKeepAlive(text: string): void {
    const onDrained = (): number => {
      this.#drained = 0
      return 0
    }
    this.#drained = this.#controller!.write(text)
    // Handled here too, because nothing may be awaiting it when it rejects.
    if (typeof this.#drained !== 'number') this.#drained = this.#drained.then(onDrained, onDrained)
  }

  #close(): void {
    this.#closed = true
    if (this.#isCounted) this.#setCounted(false)
    deadlines.clear(this.#deadline)
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }
}

import { Deadline, deadlines, type Expiring } from '../deadlines.ts'

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
): ReadableStream => {
  const writer = new StreamWriter(source, keepAlive, signal)
  if (signal !== undefined) streamed.add(signal)
  return new ReadableStream({
    type: 'direct',
    pull: (controller: unknown) => writer.run(controller as DirectController),
    cancel: () => writer.cancel(),
  } as unknown as Bun.DirectUnderlyingSource)
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
  #onAbort = () => this.cancel()

  constructor(source: TextSource, keepAlive: KeepAlive | undefined, signal: AbortSignal | undefined) {
    this.#source = source
    this.#keepAlive = keepAlive
    this.#signal = signal
    signal?.addEventListener('abort', this.#onAbort, { once: true })
    if (signal?.aborted === true) this.cancel()
  }

  async run(controller: DirectController): Promise<void> {
    if (this.#closed) return controller.close()
    this.#controller = controller
    if (this.#keepAlive !== undefined) deadlines.set(this.#deadline, this.#keepAlive.afterMs)
    this.#lastWriteAt = performance.now()
    const write: WriteNow = (text) => this.#writeNow(controller, text)
    try {
      for (;;) {
        const chunk = await this.#source.pull(write)
        if (this.#closed) return
        if (chunk === undefined) break
        if (typeof chunk !== 'string') {
          await this.#writeWithPauses(controller, chunk)
          if (this.#closed) return
          continue
        }
        // A keep-alive or a write of the source may have filled the socket during the pull.
        if (typeof this.#drained !== 'number') await this.#drained
        if (this.#closed) return
        if (chunk !== '') this.#drained = controller.write(chunk)
        if (typeof this.#drained !== 'number') await this.#drained
        this.#drained = 0
        this.#lastWriteAt = performance.now()
        if (this.#closed) return
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
      if (typeof this.#drained !== 'number') await this.#drained
      if (this.#closed) return
      this.#drained = controller.write(text)
      if (typeof this.#drained !== 'number') await this.#drained
      this.#drained = 0
      this.#lastWriteAt = performance.now()
      if (this.#closed) return
    }
  }

  cancel(): void {
    if (this.#closed) return
    this.#close()
    this.#source.cancel(this.#signal?.reason === 'shutdown' ? 'shutdown' : 'client-left')
  }

  /** Frames only move the end of the silence: the deadline is not set again for each. */
  onDeadline(): void {
    const { text, afterMs } = this.#keepAlive!
    const now = performance.now()
    const isFull = typeof this.#drained !== 'number'
    if (!isFull && now - this.#lastWriteAt >= afterMs) {
      this.#lastWriteAt = now
      this.#writeKeepAlive(text)
    }
    if (!this.#closed) deadlines.set(this.#deadline, isFull ? afterMs : this.#lastWriteAt + afterMs - now)
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
    deadlines.clear(this.#deadline)
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }
}

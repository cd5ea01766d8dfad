/**
 * What one pull gives to write: text that leaves in one write, or several writes, each `pauseBefore` milliseconds after
 * the one before it.
 */
export type Chunk = string | readonly { text: string; pauseBefore: number }[]

/** The source of a streamed response's text. */
export type TextSource = {
  /**
   * The next chunk, or undefined at the end. Called only when the client has taken what was written before. A rejection
   * cuts the connection, so that no client takes the response for a complete one.
   */
  pull(): Promise<Chunk | undefined>
  /** The client went, or the server stops. Called at most once, and never after `pull` gave undefined or rejected. */
  cancel(reason: 'client-left' | 'shutdown'): void
}

/**
 * Text sent after a silence, so that proxies between us and the client keep the connection. Must be a whole frame or
 * comment.
 */
export type KeepAlive = { text: string; afterMs: number }

/**
 * Bun's own controller of a direct stream: `write` gives a promise when the socket is full, which resolves when it has
 * drained or died.
 */
type DirectController = { write(text: string): number | Promise<number>; close(): void }

const streamed = new WeakSet<AbortSignal>()

/** Whether the request with this signal is answered by a stream, whose silences are not the connection's. */
export const isStreamed = (signal: AbortSignal): boolean => streamed.has(signal)

/**
 * The body of a streamed Response. Each pulled text leaves in one write, in the same turn of the loop. `signal`: the
 * request's,
 * which fires when the client goes while nothing is being written; abort it with the reason 'shutdown' to end for that
 * reason.
 */
export const streamBody = (
  source: TextSource,
  keepAlive: KeepAlive | undefined,
  signal?: AbortSignal,
): ReadableStream => {
  const sending = new Sending(source, signal)
  if (signal !== undefined) streamed.add(signal)
  return new ReadableStream({
    type: 'direct',
    pull: (controller: unknown) => sending.run(controller as DirectController, keepAlive),
    cancel: () => sending.leave(),
  } as unknown as Bun.DirectUnderlyingSource)
}

class Sending {
  #source: TextSource
  #signal: AbortSignal | undefined
  #over = false
  #timer: ReturnType<typeof setInterval> | undefined
  #lastAt = 0
  #drained: number | Promise<number> = 0
  #onAbort = () => this.leave()

  constructor(source: TextSource, signal: AbortSignal | undefined) {
    this.#source = source
    this.#signal = signal
    signal?.addEventListener('abort', this.#onAbort, { once: true })
    if (signal?.aborted === true) this.leave()
  }

  async run(controller: DirectController, keepAlive: KeepAlive | undefined): Promise<void> {
    if (this.#over) return controller.close()
    if (keepAlive !== undefined)
      this.#timer = setInterval(() => this.#breakSilence(controller, keepAlive), keepAlive.afterMs / 2)
    this.#lastAt = performance.now()
    try {
      for (;;) {
        const chunk = await this.#source.pull()
        if (this.#over) return
        if (chunk === undefined) break
        if (typeof chunk !== 'string') {
          await this.#writePaused(controller, chunk)
          if (this.#over) return
          continue
        }
        // A keep-alive may have filled the socket while we waited for the source.
        if (typeof this.#drained !== 'number') await this.#drained
        if (this.#over) return
        this.#drained = controller.write(chunk)
        if (typeof this.#drained !== 'number') await this.#drained
        this.#drained = 0
        this.#lastAt = performance.now()
        if (this.#over) return
      }
      this.#close()
      controller.close()
    } catch (error) {
      this.#close()
      throw error
    }
  }

  async #writePaused(controller: DirectController, writes: Exclude<Chunk, string>): Promise<void> {
    for (const { text, pauseBefore } of writes) {
      if (pauseBefore > 0) await Bun.sleep(pauseBefore)
      if (typeof this.#drained !== 'number') await this.#drained
      if (this.#over) return
      this.#drained = controller.write(text)
      if (typeof this.#drained !== 'number') await this.#drained
      this.#drained = 0
      this.#lastAt = performance.now()
      if (this.#over) return
    }
  }

  leave(): void {
    if (this.#over) return
    this.#close()
    this.#source.cancel(this.#signal?.reason === 'shutdown' ? 'shutdown' : 'client-left')
  }

  #breakSilence(controller: DirectController, keepAlive: KeepAlive): void {
    if (typeof this.#drained !== 'number' || performance.now() - this.#lastAt < keepAlive.afterMs) return
    this.#lastAt = performance.now()
    this.#drained = controller.write(keepAlive.text)
    // Settled here also when nobody is waiting for it, so that no rejection is left alone.
    if (typeof this.#drained !== 'number')
      this.#drained = this.#drained.then(
        () => (this.#drained = 0),
        () => (this.#drained = 0),
      )
  }

  #close(): void {
    this.#over = true
    clearInterval(this.#timer)
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }
}

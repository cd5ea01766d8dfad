/** Where the text of a streamed answer comes from. */
export type TextSource = {
  /** The next text, or undefined at the end. Called only when the client has taken what was written before. A rejection breaks the connection. */
  pull(): Promise<string | undefined>
  /** The client went, or the server stops. Called at most once, and never after `pull` gave undefined. */
  cancel(reason: 'client-left' | 'shutdown'): void
}

/** Text sent after a silence, so that proxies between us and the client keep the connection. Must be a whole frame or comment. */
export type KeepAlive = { text: string; afterMs: number }

/** The body of a streamed Response. `signal`: the request's, which fires when the client goes while nothing is being written. */
export const streamBody = (source: TextSource, keepAlive: KeepAlive | undefined, signal?: AbortSignal): ReadableStream => {
  const encoder = new TextEncoder()
  let over = false
  let timer: ReturnType<typeof setInterval> | undefined
  let last = performance.now()
  const close = () => {
    over = true
    clearInterval(timer)
    signal?.removeEventListener('abort', leave)
  }
  const leave = () => {
    if (over) return
    close()
    source.cancel('client-left')
  }
  return new ReadableStream<Uint8Array>({
    start(controller) {
      if (signal?.aborted === true) return leave()
      signal?.addEventListener('abort', leave, { once: true })
      if (keepAlive === undefined) return
      timer = setInterval(() => {
        if (performance.now() - last < keepAlive.afterMs || (controller.desiredSize ?? 0) <= 0) return
        last = performance.now()
        controller.enqueue(encoder.encode(keepAlive.text))
      }, keepAlive.afterMs)
    },
    async pull(controller) {
      try {
        const text = await source.pull()
        if (over) return
        last = performance.now()
        if (text !== undefined) return controller.enqueue(encoder.encode(text))
        close()
        controller.close()
      } catch (error) {
        close()
        throw error
      }
    },
    cancel: leave,
  }, { highWaterMark: 1 })
}

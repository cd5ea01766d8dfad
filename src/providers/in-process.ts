import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { type ByteSource, type IncomingResponse, type OutgoingRequest, type send, timedOut } from '../http/call.ts'
import { bodyText } from '../http/encode-request.ts'

/** Calls the sandbox in this process. */
export const callInProcess: typeof send = (request) => new InProcessCall(request).start()

/** One call of the sandbox, with the timeouts of any other. */
class InProcessCall implements ByteSource, Expiring {
  readonly #request: OutgoingRequest
  readonly #abort = new AbortController()
  readonly #startedAt = performance.now()
  readonly #deadline = new Deadline(this)
  readonly #onAbort = (): void => this.#end()
  #phase: 'first byte' | 'idle' = 'first byte'
  /** The beginning of the present wait for the sandbox; undefined while none waits. */
  #waitingSince: number | undefined = this.#startedAt
  #failure: GatewayError | undefined
  #reader: { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; cancel(): Promise<void> } | undefined

  constructor(request: OutgoingRequest) {
    this.#request = request
  }

  async start(): Promise<IncomingResponse> {
    const { url, method, headers, body, signal, onSent } = this.#request
    onSent?.()
    signal.addEventListener('abort', this.#onAbort, { once: true })
    this.#setDeadline()
    try {
      // Most servers never call it, and its modules take 3 MB.
      const { sandbox } = await import('./sandbox/server.ts')
      const response = await sandbox(
        new Request(url, {
          method,
          headers,
          signal: this.#abort.signal,
          ...(body === undefined ? {} : { body: bodyText(body) }),
        }),
      )
      this.#phase = 'idle'
      this.#waitingSince = undefined
      this.#reader = response.body?.getReader()
      return { status: response.status, headers: response.headers, body: this }
    } catch (error) {
      this.#close()
      throw this.#failure ?? error
    }
  }

  async read(): Promise<Uint8Array | undefined> {
    this.#waitingSince = performance.now()
    this.#setDeadline()
    try {
      const chunk = (await this.#reader?.read())?.value
      if (chunk === undefined) this.#close()
      return chunk
    } catch (error) {
      this.#close()
      throw (
        this.#failure ??
        new GatewayError('upstream_error', 'The connection to the provider broke before its answer was complete.', {
          cause: error,
        })
      )
    } finally {
      this.#waitingSince = undefined
    }
  }

  cancel(): void {
    this.#close()
    this.#reader?.cancel().catch(() => {})
  }

  onDeadline(): void {
    const now = performance.now()
    if (now < this.#phaseEnd && now < this.#totalEnd) return this.#setDeadline()
    this.#failure = timedOut(this.#phaseEnd >= this.#totalEnd ? 'total' : this.#phase)
    this.#end()
  }

  get #phaseEnd(): number {
    const { firstByteMs, idleMs } = this.#request.timeouts
    return this.#waitingSince === undefined
      ? Infinity
      : this.#waitingSince + (this.#phase === 'first byte' ? firstByteMs : idleMs)
  }

  get #totalEnd(): number {
    return this.#startedAt + this.#request.timeouts.totalMs
  }

  #setDeadline(): void {
    deadlines.setWithin(this.#deadline, Math.min(this.#phaseEnd, this.#totalEnd) - performance.now())
  }

  #end(): void {
    this.#close()
    this.#abort.abort()
  }

  #close(): void {
    deadlines.clear(this.#deadline)
    this.#request.signal.removeEventListener('abort', this.#onAbort)
  }
}

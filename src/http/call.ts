import { GatewayError } from '../error.ts'

/** Milliseconds of each phase of one outgoing call: TCP and TLS; until the head of the answer; between two chunks; all together. */
export type Timeouts = { connectMs: number; firstByteMs: number; idleMs: number; totalMs: number }

/** Bytes of one answer, pulled: nothing is read from the provider's socket beyond a bounded buffer until `read` is called. */
export interface ByteSource {
  /** The next chunk, or undefined at the clean end. Throws GatewayError upstream_error or upstream_timeout, whose message names the phase. */
  read(): Promise<Uint8Array | undefined>
  /** Closes the connection to the provider, unless the answer is complete. Never throws; may be called at any time. */
  cancel(): void
}

/** The head of an answer, and its body. 3xx is a status like any other. */
export type Incoming = { status: number; headers: Headers; body: ByteSource }

/** One outgoing call. `signal` closes the connection at any phase. */
export type Outgoing = {
  url: string
  method: 'POST' | 'GET' | 'DELETE'
  headers: Record<string, string>
  body?: string
  timeouts: Timeouts
  signal: AbortSignal
}

/**
 * Sends one request and resolves at the head of the answer. Throws GatewayError upstream_error (could not connect, broken
 * connection) or upstream_timeout. Redirects are never followed: the provider's key must not travel to another host.
 */
export const send = async (out: Outgoing): Promise<Incoming> => {
  const abort = new AbortController()
  const leave = () => abort.abort()
  out.signal.addEventListener('abort', leave, { once: true })
  const timer = setTimeout(() => abort.abort(timedOut('first byte')), out.timeouts.connectMs + out.timeouts.firstByteMs)
  const { method, body, headers } = out
  try {
    const response = await fetch(out.url, { method, headers: { 'accept-encoding': 'identity', ...headers }, body, redirect: 'manual', signal: abort.signal, timeout: false } as RequestInit)
    return { status: response.status, headers: response.headers, body: new FetchSource(response, abort, out.timeouts, () => out.signal.removeEventListener('abort', leave)) }
  } catch (error) {
    if (error instanceof GatewayError) throw error
    throw new GatewayError('upstream_error', `could not connect to ${new URL(out.url).host}`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

const timedOut = (phase: string): GatewayError => new GatewayError('upstream_timeout', `The provider did not answer in time (${phase}).`)

class FetchSource implements ByteSource {
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  #abort: AbortController
  #timeouts: Timeouts
  #done: () => void

  constructor(response: Response, abort: AbortController, timeouts: Timeouts, done: () => void) {
    this.#reader = response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array> | undefined
    this.#abort = abort
    this.#timeouts = timeouts
    this.#done = done
  }

  async read(): Promise<Uint8Array | undefined> {
    const timer = setTimeout(() => this.#abort.abort(timedOut('idle')), this.#timeouts.idleMs)
    try {
      const result = await this.#reader?.read()
      if (result === undefined || result.done) { this.#done(); return undefined }
      return result.value
    } catch (error) {
      this.#done()
      if (error instanceof GatewayError) throw error
      throw new GatewayError('upstream_error', 'The connection to the provider broke before its answer was complete.', { cause: error })
    } finally {
      clearTimeout(timer)
    }
  }

  cancel(): void {
    this.#done()
    this.#abort.abort()
  }
}

/** The whole body as text. More than `limitBytes` is GatewayError upstream_error, and the connection is closed. */
export const readAll = async (source: ByteSource, limitBytes: number): Promise<string> => {
  const chunks: Uint8Array[] = []
  let length = 0
  for (let chunk = await source.read(); chunk !== undefined; chunk = await source.read()) {
    length += chunk.length
    if (length > limitBytes) {
      source.cancel()
      throw new GatewayError('upstream_error', `The provider's answer is larger than ${limitBytes} bytes.`)
    }
    chunks.push(chunk)
  }
  return (chunks.length === 1 ? Buffer.from(chunks[0]!.buffer, chunks[0]!.byteOffset, length) : Buffer.concat(chunks, length)).toString('utf8')
}

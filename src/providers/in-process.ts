import { GatewayError } from '../error.ts'
import type { ByteSource, send } from '../http/call.ts'
import { bodyText } from '../http/encode-request.ts'

/** Calls the sandbox in this process. */
export const callInProcess: typeof send = async ({ url, method, headers, body, signal, onSent }) => {
  onSent?.()
  const abort = new AbortController()
  signal.addEventListener('abort', () => abort.abort(), { once: true })
  // Most servers never call it, and its modules take 3 MB.
  const { sandbox } = await import('./sandbox/server.ts')
  const response = await sandbox(
    new Request(url, {
      method,
      headers,
      signal: abort.signal,
      ...(body === undefined ? {} : { body: bodyText(body) }),
    }),
  )
  return { status: response.status, headers: response.headers, body: new StreamSource(response.body) }
}

class StreamSource implements ByteSource {
  readonly #reader:
    | { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; cancel(): Promise<void> }
    | undefined

  constructor(stream: ReadableStream<Uint8Array> | null) {
    this.#reader = stream?.getReader()
  }

  async read(): Promise<Uint8Array | undefined> {
    try {
      return (await this.#reader?.read())?.value
    } catch (error) {
      throw new GatewayError('upstream_error', 'The connection to the provider broke before its answer was complete.', {
        cause: error,
      })
    }
  }

  cancel(): void {
    this.#reader?.cancel().catch(() => {})
  }
}

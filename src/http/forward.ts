import { GatewayError } from '../error.ts'
import type { Listening, ListenOptions } from './serve.ts'

/** Time in which clients that have a connection here make their next one, to the other server. */
const FORWARD_MS = 2_000

/** Where requests go. `url`: `http://HOST:PORT`; undefined where there is no other server, and they wait here. */
type Target = { readonly url: string | undefined }

/** Passes requests on to another server, for a client whose connection ends here. */
export class Forwarder {
  readonly #target: Target
  readonly #here: ListenOptions['fetch']
  /** Requests whose responses have not ended. */
  readonly #inFlight = new Set<Request>()

  /** `here`: answers where there is no other server. */
  constructor(target: Target, here: ListenOptions['fetch']) {
    this.#target = target
    this.#here = here
  }

  /** The other server's response. It closes the connection, so that the client's next one goes there itself. */
  handle: ListenOptions['fetch'] = async (request, server) => {
    const origin = this.#target.url
    if (origin === undefined) return this.#here(request, server)
    this.#inFlight.add(request)
    const end = (): void => void this.#inFlight.delete(request)
    try {
      const { status, headers, body } = await send(origin, request)
      if (body === null) end()
      return new Response(body === null ? null : untilEnd(body, end), {
        status,
        headers: { ...withoutFraming(headers), connection: 'close' },
      })
    } catch (error) {
      end()
      const { message, code } = new GatewayError('overloaded', 'Sluice is restarting: send the request again.', {
        cause: error,
      })
      return Response.json({ error: { message, code } }, { status: 503, headers: { 'retry-after': '1' } })
    }
  }

  /** Passes requests on for a while, then stops the server, and waits for the responses in flight. */
  async finish(server: Listening, atMostMs: number): Promise<void> {
    await Bun.sleep(FORWARD_MS)
    const stopped = server.stop(atMostMs)
    const giveUpAt = performance.now() + atMostMs
    while (this.#inFlight.size > 0 && performance.now() < giveUpAt) await Bun.sleep(20)
    await stopped
  }
}

function send(origin: string, { url, method, headers, body, signal }: Request): Promise<Response> {
  const path = url.slice(url.indexOf('/', url.indexOf('://') + 3))
  return fetch(origin + path, {
    method,
    headers: withoutFraming(headers),
    body,
    signal,
    redirect: 'manual',
    decompress: false,
    // Bun ends a call after five minutes otherwise.
    timeout: false,
  } as RequestInit)
}

/** Headers of one connection. */
const FRAMING = new Set(['connection', 'keep-alive', 'content-length', 'transfer-encoding', 'date'])

const withoutFraming = (headers: Headers): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => !FRAMING.has(name)))

/** The same body; `end` is called once it is read or cancelled. */
function untilEnd(body: ReadableStream<Uint8Array>, end: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        end()
        throw error
      })
      if (!done) return controller.enqueue(value)
      end()
      controller.close()
    },
    cancel(reason) {
      end()
      return reader.cancel(reason)
    },
  })
}

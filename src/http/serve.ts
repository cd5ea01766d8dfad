import type { Server } from 'bun'
import { GatewayError, invalid } from '../error.ts'

export type ListenOptions = {
  host: string
  /** 0: any free port. */
  port: number
  fetch(request: Request, server: Server<undefined>): Promise<Response> | Response
  maxBodyBytes: number
}

export type Listening = {
  /** `http://HOST:PORT`, an IPv6 host in brackets. */
  url: string
  port: number
  /** Accepts nothing more, waits up to `drainMs` for open requests, then closes what is left. */
  stop(drainMs: number): Promise<void>
}

/** Opens the server. Throws Bun's own error when the address is taken or not ours. */
export const listen = (options: ListenOptions): Listening => {
  const server = Bun.serve({
    hostname: options.host,
    port: options.port,
    maxRequestBodySize: options.maxBodyBytes + 1024,
    idleTimeout: 0,
    fetch: options.fetch,
  })
  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  return {
    url: `http://${host}:${server.port}`,
    port: server.port ?? 0,
    stop: async drainMs => {
      const drained = server.stop(false)
      const late = Bun.sleep(drainMs).then(() => server.stop(true))
      await Promise.race([drained, late])
    },
  }
}

/**
 * The request's body as text. GatewayError request_too_large (413) over `limitBytes`, declared or chunked; invalid_request for
 * bytes that are not UTF-8; unsupported_media_type (415) for a compressed body.
 */
export const readText = async (request: Request, limitBytes: number): Promise<string> => {
  const encoding = request.headers.get('content-encoding')
  if (encoding !== null && encoding !== 'identity') throw new GatewayError('unsupported_media_type', 'Content-Encoding must be absent: compressed request bodies are not read.')
  if (Number(request.headers.get('content-length') ?? 0) > limitBytes) throw tooLarge(limitBytes)
  const bytes = await request.arrayBuffer()
  if (bytes.byteLength > limitBytes) throw tooLarge(limitBytes)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid('body', 'must be UTF-8')
  }
}

const tooLarge = (limitBytes: number): GatewayError => new GatewayError('request_too_large', `The request body must be at most ${limitBytes} bytes.`)

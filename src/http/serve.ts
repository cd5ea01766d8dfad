import type { Server } from 'bun'
import { isUtf8 } from 'node:buffer'
import { GatewayError, invalid } from '../error.ts'
import { isStreamed } from './stream.ts'

export type ListenOptions = {
  host: string
  /** 0: any free port. */
  port: number
  fetch(request: Request, server: Server<undefined>): Promise<Response> | Response
}

export type Listening = {
  /** `http://HOST:PORT`, an IPv6 host in brackets. */
  url: string
  port: number
  /** Accepts nothing more, waits up to `drainMs` for open requests, then closes what is left. */
  stop(drainMs: number): Promise<void>
}

/**
 * Seconds after which a connection that waits for nothing is closed; longer than the load balancers in front of us keep
 * theirs.
 */
const IDLE_SECONDS = 75

/**
 * Opens the server; a request has no time limit here, only idle connections do. Throws Bun's own error when the address
 * is taken or not ours.
 */
export const listen = (options: ListenOptions): Listening => {
  const server = Bun.serve({
    // Else the runtime prints the error of every stream that is cut on purpose, and answers failures with a page of its
    // own.
    development: false,
    // In that mode two servers would share a port without a word.
    reusePort: false,
    hostname: options.host,
    port: options.port,
    // Bun's own 413 has no body and so no protocol's shape: the limit is held where bodies are read, by readText.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    idleTimeout: IDLE_SECONDS,
    async fetch(request, server) {
      server.timeout(request, 0)
      const response = await options.fetch(request, server)
      if (!isStreamed(request.signal)) server.timeout(request, IDLE_SECONDS)
      return response
    },
  })
  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  return {
    url: `http://${host}:${server.port}`,
    port: server.port ?? 0,
    async stop(drainMs) {
      const late = Promise.withResolvers<void>()
      const timer = setTimeout(() => late.resolve(server.stop(true)), drainMs)
      await Promise.race([server.stop(false), late.promise])
      // Left alone, the timer would keep the program alive to its end.
      clearTimeout(timer)
    },
  }
}

/**
 * Time for a whole body. The idle time does not serve here: Bun counts it from the head, however much of the body
 * comes.
 */
const BODY_MS = 300_000

/**
 * The request's body as text. GatewayError request_too_large (413) over `limitBytes`, declared or chunked;
 * invalid_request for
 * bytes that are not UTF-8, and as 408 for a body that is not there within `atMostMs`; unsupported_media_type (415) for
 * a compressed body.
 */
export const readText = async (request: Request, limitBytes: number, atMostMs = BODY_MS): Promise<string> => {
  const length = declaredLength(request, limitBytes)
  const bytes = await inTime(length === undefined ? readBounded(request, limitBytes) : request.bytes(), atMostMs).catch(
    brokenOff,
  )
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (!isUtf8(text)) throw invalid('body', 'must be UTF-8')
  return text.toString('utf8', hasMark(text) ? 3 : 0)
}

/**
 * What the request says that its body has, undefined where it does not. GatewayError for what need not be read to be
 * refused.
 */
export const declaredLength = ({ headers }: Request, limitBytes: number): number | undefined => {
  const encoding = headers.get('content-encoding')
  if (encoding !== null && encoding !== 'identity')
    throw new GatewayError(
      'unsupported_media_type',
      'Content-Encoding must be absent: compressed request bodies are not read.',
    )
  const length = headers.get('content-length')
  if (Number(length ?? 0) > limitBytes) throw tooLarge(limitBytes)
  return length === null ? undefined : Number(length)
}

/**
 * A body may be waited for so long in all, and longer by what it brought: `bytesPerSecond` are the fewest that keep it
 * going.
 */
export type Patience = { ms: number; bytesPerSecond: number }

const PATIENCE: Patience = { ms: 30_000, bytesPerSecond: 16 * 1024 }

/**
 * The request's body as it comes, piece by piece: the client waits while a piece is worked on, and each is gone when
 * the next is asked for.
 * Fails as `readText` does; only waiting for the client counts as its slowness. Whoever stops early lets go of the
 * rest.
 */
export async function* readPieces(
  request: Request,
  limitBytes: number,
  { ms, bytesPerSecond }: Patience = PATIENCE,
): AsyncGenerator<Uint8Array> {
  declaredLength(request, limitBytes)
  const reader = request.body?.getReader()
  if (reader === undefined) return
  let received = 0
  let waited = 0
  try {
    for (;;) {
      const began = performance.now()
      const { done, value } = await inTime(reader.read(), ms + (received / bytesPerSecond) * 1000 - waited).catch(
        brokenOff,
      )
      if (done) return
      waited += performance.now() - began
      received += value.length
      if (received > limitBytes) throw tooLarge(limitBytes)
      yield value
      // Frees its memory now: the collector lets tens of megabytes of them come together.
      value.buffer.transfer(0)
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

const inTime = <T>(bytes: Promise<T>, atMostMs: number): Promise<T> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new GatewayError('invalid_request', 'The request body did not arrive in time.', { status: 408 })),
      atMostMs,
    )
    bytes.then(
      (whole) => {
        clearTimeout(timer)
        resolve(whole)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })

const brokenOff = (error: unknown): never => {
  throw error instanceof GatewayError
    ? error
    : new GatewayError('invalid_request', 'The request body broke off before its end.', { cause: error })
}

/** A byte order mark is no part of the text. */
const hasMark = (bytes: Uint8Array): boolean => bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf

/** A body that does not say its length is read piece by piece, so that it never fills the memory. */
const readBounded = async (request: Request, limitBytes: number): Promise<Uint8Array> => {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    length += piece.byteLength
    if (length > limitBytes) throw tooLarge(limitBytes)
    pieces.push(piece)
  }
  return Buffer.concat(pieces, length)
}

const tooLarge = (limitBytes: number): GatewayError =>
  new GatewayError('request_too_large', `The request body must be at most ${limitBytes} bytes.`)

/** Where this client finds the server, for URLs in answers: `publicUrl`, else what its Host header says. */
export const originOf = (request: Request, publicUrl: string | undefined): string =>
  publicUrl ?? `http://${request.headers.get('host') ?? 'localhost'}`

import type { Server } from 'bun'
import { isUtf8 } from 'node:buffer'
import { within } from '../deadlines.ts'
import { GatewayError, invalid } from '../error.ts'
import { BodyPieces } from './body-pieces.ts'
import type { PerAddress } from './address-bound.ts'
import { ConnectionLimits } from './connection-limits.ts'
import { type MemoryBudget, UNCOUNTED_BYTES } from './memory-budget.ts'
import { isStreamed } from './stream.ts'
import { LoopTurns } from './loop-turns.ts'

export type ListenOptions = {
  host: string
  /** 0: any free port. */
  port: number
  fetch(request: Request, server: Server<undefined>): Promise<Response> | Response
  /** Listens beside servers that have the port, too. */
  shared?: boolean
  /** Connections that clients may have from one address; without it, any number. */
  perAddress?: PerAddress
}

export type Listening = {
  /** `http://HOST:PORT`, an IPv6 host in brackets. */
  url: string
  port: number
  /** Stops accepting, waits up to `drainMs` for open requests, then closes their connections. */
  stop(drainMs: number): Promise<void>
}

/** Seconds after which an idle connection is closed; longer than the keep-alive of load balancers in front of us. */
const IDLE_SECONDS = 75

/** Starts the server. Fails with an Error for the operator if the address cannot be used. */
export const listen = (options: ListenOptions): Listening => {
  try {
    if (options.shared !== true && IS_SHARED && options.port !== 0) assertFree(options)
    return serve(options)
  } catch (error) {
    throw listenError(error, options)
  }
}

/** Fails with an Error for the operator if another program, or one that shares its port, has the port. */
export const requireFree = (address: { host: string; port: number }): void => {
  try {
    assertFree(address)
  } catch (error) {
    throw listenError(error, address)
  }
}

function listenError(error: unknown, { host, port }: { host: string; port: number }): unknown {
  switch ((error as { code?: unknown }).code) {
    case 'EADDRINUSE':
      return new Error(`port ${port} of ${host} is in use by another program; choose another one with --port`)
    case 'EACCES':
      return new Error(`this user may not listen on port ${port}; choose one from 1024 on with --port`)
    default:
      return new Error(`cannot listen on ${host} port ${port} (${(error as Error).message}); see --host and --port`)
  }
}

/** Servers share their port with their successors where the system divides the connections among both. */
const IS_SHARED = process.platform === 'linux'

/** A second server would otherwise start beside any that shares its port. */
const assertFree = ({ host, port }: { host: string; port: number }): void =>
  Bun.listen({ hostname: host, port, socket: { data() {} } }).stop(true)

/** Requests have no time limit here, only idle connections do. */
function serve(options: ListenOptions): Listening {
  const turns = new LoopTurns()
  const server = Bun.serve({
    // In development mode Bun logs the error of every stream that is cut on purpose and sends its own error page.
    development: false,
    reusePort: IS_SHARED && (options.port !== 0 || options.shared === true),
    hostname: options.host,
    port: options.port,
    // Bun's own 413 has no body in the client's protocol; readText enforces the limit.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    idleTimeout: IDLE_SECONDS,
    async fetch(request, server) {
      limits.began(request)
      server.timeout(request, 0)
      const waiting = turns.wait()
      if (waiting !== undefined) await waiting
      const response = await options.fetch(request, server)
      if (!isStreamed(request.signal)) server.timeout(request, IDLE_SECONDS)
      return response
    },
  })
  const limits = new ConnectionLimits(server, options.perAddress)
  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  return {
    url: `http://${host}:${server.port}`,
    port: server.port ?? 0,
    async stop(drainMs) {
      limits.stop()
      await within(server.stop(false), drainMs, () => server.stop(true))
    },
  }
}

/**
 * Deadline for a whole body. Bun's idle timeout cannot serve, because it runs from the head even while bytes arrive.
 */
const BODY_MS = 300_000

/** A body that is not received in pieces may take so long: as much as at this rate, and more for a slow start. */
const SLOWEST_BYTES_PER_MS = 8
const START_MS = 15_000

/** Longer bodies are received in pieces, into memory of their own length. */
const IN_PIECES_BYTES = 1024 * 1024

/**
 * The request body, without a byte order mark. Throws GatewayError request_too_large (413) over `limitBytes`, declared
 * or chunked; invalid_request for bytes that are not UTF-8, and with status 408 for a body that comes too slowly;
 * unsupported_media_type (415) for a compressed body; overloaded where there is no memory for a large one. `memory`:
 * where a large one takes it, on behalf of `owner`.
 */
export const readBody = async (
  request: Request & Received,
  limitBytes: number,
  memory?: MemoryBudget,
  owner = '',
  atMostMs = BODY_MS,
): Promise<Buffer> => {
  if (request.received !== undefined) return request.received
  const length = declaredLength(request, limitBytes)
  // Until it is read, the bytes of the body wait with the client.
  if (memory !== undefined && length !== undefined && length > UNCOUNTED_BYTES) {
    const waiting = memory.receive(request.signal, owner, length)
    if (waiting !== undefined) await waiting
  }
  const bytes =
    length === undefined
      ? await readUndeclared(request, limitBytes, memory, owner, atMostMs)
      : length > IN_PIECES_BYTES
        ? await readInto(request, Buffer.allocUnsafeSlow(length), atMostMs)
        : await readAtOnce(request, Math.min(atMostMs, START_MS + length / SLOWEST_BYTES_PER_MS))
  if (!isUtf8(bytes)) throw invalid('body', 'must be UTF-8')
  return hasByteOrderMark(bytes) ? bytes.subarray(3) : bytes
}

type Received = { received?: Buffer }

/** The request with a body that was read from it. */
export const withBody = ({ url, method, headers, signal }: Request, bytes: Buffer): Request & Received =>
  ({
    received: bytes,
    url,
    method,
    headers,
    signal,
    bytes: () => Promise.resolve(bytes),
    get body() {
      return new Response(bytes).body
    },
  }) as unknown as Request & Received

/** The same as text. */
export const readText = async (request: Request, limitBytes: number, atMostMs?: number): Promise<string> =>
  (await readBody(request, limitBytes, undefined, undefined, atMostMs)).toString()

const readAtOnce = async (request: Request, atMostMs: number): Promise<Buffer> => {
  try {
    const bytes = await within(request.bytes(), atMostMs, throwTooLate)
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  } catch (error) {
    return throwBodyError(error)
  }
}

/** Reads a body into memory that is occupied only as the bytes arrive. */
const readInto = async (request: Request, into: Buffer, atMostMs: number): Promise<Buffer> => {
  const pieces = new BodyPieces(request.body!, atMostMs)
  try {
    for (let piece = await pieces.next(); piece !== undefined; piece = await pieces.next()) {
      into.set(piece, pieces.received - piece.length)
      // Frees the memory at once; the garbage collector would let as much accumulate again.
      ;(piece.buffer as ArrayBuffer).transfer(0)
    }
  } catch (error) {
    return throwBodyError(error)
  } finally {
    pieces.end()
  }
  if (pieces.tooLate) throwTooLate()
  return pieces.received === into.length ? into : throwBodyError(undefined)
}

/** Reads a body without a declared length, so that an oversized one is never kept in memory. */
const readUndeclared = async (
  request: Request,
  limitBytes: number,
  memory: MemoryBudget | undefined,
  owner: string,
  atMostMs: number,
): Promise<Buffer> => {
  if (request.body === null) return Buffer.alloc(0)
  const pieces = new BodyPieces(request.body, atMostMs)
  const read: Uint8Array[] = []
  let taken = UNCOUNTED_BYTES
  try {
    for (let piece = await pieces.next(); piece !== undefined; piece = await pieces.next()) {
      if (pieces.received > limitBytes) throw tooLarge(limitBytes)
      read.push(piece)
      if (pieces.received <= taken) continue
      const more = Math.min(2 * taken, limitBytes) - taken
      taken += more
      const waiting = memory?.receive(request.signal, owner, more)
      if (waiting !== undefined) await waiting
    }
  } catch (error) {
    return throwBodyError(error)
  } finally {
    pieces.end()
  }
  return pieces.tooLate ? throwTooLate() : Buffer.concat(read, pieces.received)
}

/**
 * The Content-Length, or undefined. Throws unsupported_media_type and request_too_large, so that such a body is refused
 * unread.
 */
export const declaredLength = ({ headers }: Request, limitBytes: number): number | undefined => {
  const encoding = headers.get('content-encoding')
  if (encoding !== null && !/^(?:identity)?$/i.test(encoding))
    throw new GatewayError(
      'unsupported_media_type',
      'Compressed request bodies are not supported; send the body without Content-Encoding.',
    )
  const length = headers.get('content-length')
  if (Number(length ?? 0) > limitBytes) throw tooLarge(limitBytes)
  return length === null ? undefined : Number(length)
}

/** Time to wait for a body: `ms` in total, plus the time that its received bytes take at `bytesPerSecond`. */
type ReadDeadline = { ms: number; bytesPerSecond: number }

const READ_DEADLINE: ReadDeadline = { ms: 30_000, bytesPerSecond: 16 * 1024 }

/**
 * The request body in chunks, with back-pressure. Each chunk is freed when the next one is requested. Throws as
 * `readText` does; only time spent waiting for the client counts towards the deadline. Stopping early cancels the rest.
 */
export async function* readChunks(
  request: Request,
  limitBytes: number,
  { ms, bytesPerSecond }: ReadDeadline = READ_DEADLINE,
): AsyncGenerator<Uint8Array> {
  declaredLength(request, limitBytes)
  const reader = request.body?.getReader()
  if (reader === undefined) return
  let received = 0
  let waited = 0
  try {
    for (;;) {
      const startedAt = performance.now()
      const atMostMs = ms + (received / bytesPerSecond) * 1000 - waited
      const { done, value } = await within(reader.read(), atMostMs, throwTooLate).catch(throwBodyError)
      if (done) return
      waited += performance.now() - startedAt
      received += value.length
      if (received > limitBytes) throw tooLarge(limitBytes)
      yield value
      // Frees the memory at once; the garbage collector would let tens of megabytes accumulate.
      value.buffer.transfer(0)
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

const throwTooLate = (): never => {
  throw new GatewayError('invalid_request', 'The request body was not received in time.', { status: 408 })
}

const throwBodyError = (error: unknown): never => {
  throw error instanceof GatewayError
    ? error
    : new GatewayError('invalid_request', 'The request body ended early.', { cause: error })
}

const hasByteOrderMark = (bytes: Uint8Array): boolean => bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf

const tooLarge = (limitBytes: number): GatewayError =>
  new GatewayError('request_too_large', `The request body must be at most ${limitBytes} bytes.`)

/** The server's origin as this client sees it, for URLs in responses: `publicUrl`, otherwise from its Host header. */
export const originOf = (request: Request, publicUrl: string | undefined): string =>
  publicUrl ?? `http://${request.headers.get('host') ?? 'localhost'}`

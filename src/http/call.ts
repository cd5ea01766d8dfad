import { BoundedMap } from './bounded-map.ts'
import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { UNCOUNTED_BYTES } from './memory-budget.ts'
import { ResponseParser } from './response-parser.ts'
import { type CallSignal, Connection, type ConnectionUser, type Origin, takeIdle } from './connection.ts'

/** Milliseconds: connecting (TCP and TLS); until the response head; between two chunks; for the whole call. */
export type Timeouts = { connectMs: number; firstByteMs: number; idleMs: number; totalMs: number }

/**
 * The bytes of one response. Beyond a bounded buffer, the provider's socket is read only as fast as `read` is called.
 */
export interface ByteSource {
  /**
   * The next chunk, or undefined at the regular end. One call at a time. Throws GatewayError upstream_error for an
   * incomplete or malformed response and after `cancel`, upstream_timeout with the phase (idle, total) in the message.
   * `consume` may take chunks that come during the wait, in the turn in which they come: after true the wait goes on,
   * after false it ends with that chunk. It must not throw. A source may do without it.
   */
  read(consume?: (chunk: Uint8Array) => boolean): Promise<Uint8Array | undefined>
  /**
   * Closes the connection to the provider, unless the response is complete. Never throws; may be called at any time.
   */
  cancel(): void
}

/** The head of a response, and its body. 3xx is a status like any other. */
export type IncomingResponse = { status: number; headers: Headers; body: ByteSource }

/** A body: a text, or bytes and texts one after the other. */
export type RequestBody = string | readonly (Uint8Array | string)[]

/** One outgoing request. `signal` closes the connection in any phase. */
export type OutgoingRequest = {
  url: string
  /** The address to connect to, instead of resolving the URL's host. Such a call gets a connection of its own. */
  address?: string
  method: 'POST' | 'GET' | 'DELETE'
  headers: Record<string, string>
  body?: RequestBody
  timeouts: Timeouts
  signal: CallSignal
  /** Never sent a second time, not even if it cannot have been read: it gets a connection of its own. */
  once?: boolean
  /** Called when the connection is open, directly before the request is written. */
  onSent?: () => void
}

/**
 * Bytes kept for a reader that does not read, before the socket is paused. One network read, of up to 512 KB, may come
 * on top; a reader that consumes gets a longer one in pieces of so many bytes.
 */
const MAX_QUEUED_BYTES = 64 * 1024

/**
 * Sends one request and resolves at the response head. Throws GatewayError upstream_error (could not connect, broken
 * connection, cancelled) or upstream_timeout (connect, first byte, total). Redirects are never followed, because the
 * provider's key must not travel to another host. Resent once, on a new connection, only if a kept connection closed
 * before any byte of the response.
 */
export const send = async (request: OutgoingRequest): Promise<IncomingResponse> => {
  const { address, timeouts, signal } = request
  if (signal.aborted) throw cancelled()
  const startedAt = performance.now()
  const target = address === undefined ? knownTarget(request.url) : parseTarget(request.url, address)
  const encoded = encodeRequest(request, target)
  const kept = address === undefined && request.once !== true ? takeIdle(target.origin) : undefined
  if (kept !== undefined) {
    request.onSent?.()
    const response = await new OutgoingCall(kept, request, startedAt).start(encoded)
    if (response !== undefined) return response
  }
  const connection = await new Connection(target.origin).open(Math.min(timeouts.connectMs, timeouts.totalMs), signal)
  request.onSent?.()
  const response = await new OutgoingCall(connection, request, startedAt).start(encoded)
  return response!
}

/** `length`: in bytes. */
type EncodedRequest = { data: string | Buffer; length: number }

type RequestTarget = { origin: Origin; path: string; host: string }

/**
 * Parsed URLs of providers. They are few, and parsing one costs 5 % of proxying a small request. The limit is for
 * catalogues with very many models whose names are part of the URL.
 */
const knownTargets = new BoundedMap<string, RequestTarget>(1024)

const knownTarget = (url: string): RequestTarget => {
  const known = knownTargets.get(url)
  if (known !== undefined) return known
  const target = parseTarget(url)
  knownTargets.set(url, target)
  return target
}

const parseTarget = (url: string, address?: string): RequestTarget => {
  const { protocol, hostname, port, pathname, search, host } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new GatewayError('internal_error', 'The URL of a provider must begin with http:// or https://.')
  const secure = protocol === 'https:'
  const portNumber = port === '' ? (secure ? 443 : 80) : Number(port)
  const origin: Origin = {
    host: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname,
    port: portNumber,
    secure,
    name: `${hostname}:${portNumber}`,
  }
  if (address !== undefined) origin.address = address
  return { origin, path: pathname + search, host }
}

/** Headers of the connection and the framing: set here, never by the caller. */
const CONNECTION_HEADERS = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'accept-encoding',
  'expect',
  'upgrade',
])

const HEADER_LINE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e]*\r\n$/

/** A longer body does not leave in one write; as a Buffer it is encoded once, not again for each remainder. */
const LONG_BODY_BYTES = 256 * 1024

const encodeRequest = (request: OutgoingRequest, { path, host }: RequestTarget): EncodedRequest => {
  const { method, headers, body, address } = request
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\naccept-encoding: identity\r\n`
  if (address !== undefined) head += 'connection: close\r\n'
  for (const name in headers) {
    if (CONNECTION_HEADERS.has(name.toLowerCase())) continue
    const line = `${name}: ${headers[name]}\r\n`
    if (!HEADER_LINE.test(line))
      throw new GatewayError('internal_error', `The header "${name}" has a character that HTTP does not allow.`)
    head += line
  }
  const bodyBytes = body === undefined ? 0 : lengthOf(body)
  if (body !== undefined || method === 'POST') head += `content-length: ${bodyBytes}\r\n`
  head += '\r\n'
  const length = head.length + bodyBytes
  if (body === undefined || (typeof body === 'string' && bodyBytes < LONG_BODY_BYTES))
    return { data: head + (body ?? ''), length }
  const data = Buffer.allocUnsafe(length)
  writeBody(body, data, data.write(head))
  return { data, length }
}

/** The number of bytes of a body. */
export const lengthOf = (body: RequestBody): number => {
  if (typeof body === 'string') return Buffer.byteLength(body)
  let length = 0
  for (const piece of body) length += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length
  return length
}

const writeBody = (body: RequestBody, data: Buffer, at: number): void => {
  for (const piece of typeof body === 'string' ? [body] : body) {
    if (typeof piece === 'string') at += data.write(piece, at)
    else {
      data.set(piece, at)
      at += piece.length
    }
  }
}

/** A body as text, for a provider in this process and for people. */
export const bodyText = (body: RequestBody): string => {
  if (typeof body === 'string') return body
  const data = Buffer.alloc(lengthOf(body))
  writeBody(body, data, 0)
  return data.toString()
}

/** One request and its response on one connection. */
class OutgoingCall implements ByteSource, ConnectionUser, Expiring {
  #connection: Connection
  #parser = new ResponseParser()
  #timeouts: Timeouts
  #signal: CallSignal
  #startedAt: number
  #phase: 'first byte' | 'body' | 'over' = 'first byte'
  #receivedAnything = false
  #waitingSince: number
  #response = Promise.withResolvers<IncomingResponse | undefined>()
  #reader: PromiseWithResolvers<Uint8Array | undefined> | undefined
  #consume: ((chunk: Uint8Array) => boolean) | undefined
  #queue: Uint8Array[] = []
  #queuedBytes = 0
  #paused = false
  #failure: GatewayError | undefined
  readonly #deadline = new Deadline(this)
  #onAbort = () => this.cancel()

  constructor(connection: Connection, { timeouts, signal }: OutgoingRequest, startedAt: number) {
    this.#connection = connection
    this.#timeouts = timeouts
    this.#signal = signal
    this.#startedAt = startedAt
    this.#waitingSince = performance.now()
  }

  /** Resolves at the response head; with undefined if a kept connection was already closed, so it may be resent. */
  start(request: EncodedRequest): Promise<IncomingResponse | undefined> {
    this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    this.#setDeadline()
    if (this.#signal.aborted) this.cancel()
    else this.#connection.use(this, request.data, request.length)
    return this.#response.promise
  }

  read(consume?: (chunk: Uint8Array) => boolean): Promise<Uint8Array | undefined> {
    const chunk = this.#queue.shift()
    if (chunk !== undefined) {
      this.#queuedBytes -= chunk.length
      return Promise.resolve(chunk)
    }
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    if (this.#phase === 'over') return ENDED
    if (this.#paused) {
      this.#paused = false
      this.#connection.resume()
    }
    this.#waitingSince = performance.now()
    this.#consume = consume
    this.#reader = Promise.withResolvers()
    this.#setDeadline()
    return this.#reader.promise
  }

  cancel(): void {
    if (this.#phase === 'over') return
    this.#queue = []
    this.#fail(cancelled())
  }

  onData(bytes: Buffer): void {
    this.#receivedAnything = true
    try {
      const body = this.#parser.push(bytes)
      if (this.#phase === 'first byte' && this.#parser.head !== undefined) this.#receiveHead()
      if (body !== undefined && this.#phase !== 'over') this.#deliver(body)
      if (this.#parser.complete) this.#finish()
    } catch (error) {
      this.#fail(
        error instanceof GatewayError
          ? error
          : new GatewayError('upstream_error', 'The response of the provider could not be read.', { cause: error }),
      )
    }
  }

  onClosed(cause: unknown): void {
    if (this.#phase === 'over') return
    if (this.#connection.reused && !this.#receivedAnything) {
      this.#close()
      return this.#response.resolve(undefined)
    }
    try {
      this.#parser.end()
      this.#finish()
    } catch (error) {
      this.#fail(new GatewayError('upstream_error', (error as Error).message, { cause }))
    }
  }

  #receiveHead(): void {
    const { status, headers } = this.#parser.head!
    const coding = headers.get('content-encoding')
    if (coding !== null && coding !== 'identity')
      throw new GatewayError('upstream_error', 'The provider sent a compressed response, which was not requested.')
    this.#phase = 'body'
    this.#response.resolve({ status, headers, body: this })
  }

  #deliver(body: Uint8Array): void {
    if (this.#reader === undefined) {
      this.#queue.push(body)
      this.#queuedBytes += body.length
    } else if (this.#consume !== undefined && body.length > MAX_QUEUED_BYTES) {
      return this.#deliverInPieces(body)
    } else if (this.#consume?.(body) === true) {
      this.#waitingSince = performance.now()
    } else {
      this.#reader?.resolve(body)
      this.#reader = undefined
    }
    if (this.#queuedBytes < MAX_QUEUED_BYTES || this.#paused || this.#parser.complete) return
    this.#paused = true
    this.#connection.pause()
  }

  /** After the piece that a client's full socket refuses, the rest waits as bytes, and the provider's socket too. */
  #deliverInPieces(body: Uint8Array): void {
    for (let from = 0; from < body.length && this.#phase !== 'over'; from += MAX_QUEUED_BYTES)
      this.#deliver(body.subarray(from, from + MAX_QUEUED_BYTES))
  }

  #finish(): void {
    if (this.#phase === 'over') return
    this.#close()
    if (this.#paused) this.#connection.resume()
    this.#connection.release(this.#parser.head!.keepAlive && !this.#parser.surplus)
    this.#reader?.resolve(undefined)
    this.#reader = undefined
  }

  #fail(error: GatewayError): void {
    if (this.#phase === 'over') return
    const atHead = this.#phase === 'first byte'
    this.#close()
    this.#connection.close()
    this.#failure = error
    if (atHead) this.#response.reject(error)
    this.#reader?.reject(error)
    this.#reader = undefined
  }

  #close(): void {
    this.#phase = 'over'
    deadlines.clear(this.#deadline)
    this.#signal.removeEventListener('abort', this.#onAbort)
  }

  /** The end of the wait for the head, or for the chunk that is being read. */
  get #phaseEnd(): number {
    if (this.#phase === 'first byte') return this.#waitingSince + this.#timeouts.firstByteMs
    return this.#reader === undefined ? Infinity : this.#waitingSince + this.#timeouts.idleMs
  }

  get #totalEnd(): number {
    return this.#startedAt + this.#timeouts.totalMs
  }

  /** If the nearest end moves away meanwhile, the deadline passes early and is set again. */
  #setDeadline(): void {
    deadlines.setWithin(this.#deadline, Math.min(this.#phaseEnd, this.#totalEnd) - performance.now())
  }

  onDeadline(): void {
    const now = performance.now()
    if (now < this.#phaseEnd && now < this.#totalEnd) return this.#setDeadline()
    const phase = this.#phaseEnd >= this.#totalEnd ? 'total' : this.#phase === 'first byte' ? 'first byte' : 'idle'
    this.#fail(new GatewayError('upstream_timeout', `The provider did not respond in time (${phase} timeout).`))
  }
}

/** Shared by all calls, so that the end of a body allocates nothing. */
const ENDED = Promise.resolve(undefined)

const cancelled = (): GatewayError => new GatewayError('upstream_error', 'The call to the provider was cancelled.')

/** Takes memory for more bytes of a response in one piece; a promise where it has to wait. */
export type TakeMemory = (bytes: number) => Promise<void> | undefined

/**
 * The whole body as text. Over `limitBytes` it throws GatewayError upstream_error and closes the connection.
 * `declared`: its length, if the provider said so.
 */
export const readAll = async (
  source: ByteSource,
  limitBytes: number,
  takeMemory?: TakeMemory,
  declared = 0,
): Promise<string> => {
  const chunks: Uint8Array[] = []
  let length = 0
  let taken = UNCOUNTED_BYTES
  for (let chunk = await source.read(); chunk !== undefined; chunk = await source.read()) {
    length += chunk.length
    if (length > limitBytes) {
      source.cancel()
      throw new GatewayError('upstream_error', `The response of the provider is larger than ${limitBytes} bytes.`)
    }
    chunks.push(chunk)
    if (length <= taken) continue
    const more = Math.min(Math.max(declared, 2 * taken), limitBytes) - taken
    taken += more
    const waiting = takeMemory?.(more)
    if (waiting !== undefined) await waiting
  }
  const whole = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length)
  return (whole instanceof Buffer ? whole : Buffer.from(whole)).toString('utf8')
}

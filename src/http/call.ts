import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { type EncodedRequest, encodeRequest, knownTarget, parseTarget, type RequestBody } from './encode-request.ts'
import type { HeaderReader } from './header-lines.ts'
import { free, isLong, packed, PackedBytes, type Waiting } from './long-reads.ts'
import { exclusiveTurn } from '../json/exclusive-turn.ts'
import { UNCOUNTED_BYTES } from './memory-budget.ts'
import { ResponseParser } from './response-parser.ts'
import { type CallSignal, Connection, type ConnectionUser, takeIdle } from './connection.ts'

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
   * after false it ends with that chunk. It must not throw. Where it is given, chunks are valid until the next call,
   * since their memory is freed. A source may do without it.
   */
  read(consume?: (chunk: Uint8Array) => boolean): Promise<Uint8Array | undefined>
  /**
   * Closes the connection to the provider, unless the response is complete. Never throws; may be called at any time.
   */
  cancel(): void
}

/** The head of a response, and its body. 3xx is a status like any other. */
export type IncomingResponse = { status: number; headers: HeaderReader; body: ByteSource }

/** One outgoing request. `signal` closes the connection in any phase. */
export type OutgoingRequest = {
  url: string
  /** The address to connect to, instead of resolving the URL's host. Such a call gets a connection of its own. */
  address?: string
  method: 'POST' | 'GET' | 'PUT' | 'DELETE'
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
 * on top.
 */
const MAX_QUEUED_BYTES = 16 * 1024

/** Time for which a long read waits for its reader as it is. Then it is compressed. */
const PACK_AFTER_MS = 500

/** A reader that consumes gets a longer read in pieces of so many bytes, and its time is measured. */
const PIECE_BYTES = 16 * 1024

/**
 * The time that consuming long reads of all calls may take in one turn of the event loop. Each call with bytes left
 * goes on in a later turn of its own.
 */
const TURN_MS = 8

/** When the first long read of this turn of the event loop came. */
let turnStartedAt: number | undefined

/** Reports whether long reads have taken their time in this turn. */
const isTurnOver = (): boolean => {
  const now = performance.now()
  if (turnStartedAt === undefined) {
    turnStartedAt = now
    setImmediate(() => (turnStartedAt = undefined))
  }
  return now - turnStartedAt > TURN_MS
}

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
  #queue: Waiting[] = []
  #queuedBytes = 0
  #paused = false
  /** When long reads in the queue will have waited for too long. */
  #packAt = Infinity
  /** Long reads have taken their time in this turn: the rest of them is in the queue. */
  #resting = false
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
    else this.#connection.use(this, request)
    return this.#response.promise
  }

  read(consume?: (chunk: Uint8Array) => boolean): Promise<Uint8Array | undefined> {
    if (this.#queue.length > 0 && consume === undefined) return Promise.resolve(this.#takeQueued())
    if (this.#queue.length === 0) {
      if (this.#failure !== undefined) return Promise.reject(this.#failure)
      if (this.#phase === 'over') return ENDED
    }
    this.#consume = consume
    const { promise } = (this.#reader = Promise.withResolvers())
    if (!this.#resting) this.#goOn()
    return promise
  }

  cancel(): void {
    if (this.#phase !== 'over' || this.#resting) this.#queue = []
    if (this.#phase !== 'over') this.#fail(cancelled())
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
      this.#parser.end(cause !== undefined)
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
    if (this.#reader === undefined || this.#resting) {
      this.#queue.push(body)
      this.#hasQueued(body)
    } else if (this.#consume === undefined) this.#resolve(body)
    else if (body.length > PIECE_BYTES) this.#deliverInPieces(body)
    else if (this.#consume(body)) this.#waitingSince = performance.now()
    else this.#resolve(body)
    if (this.#queuedBytes < MAX_QUEUED_BYTES || this.#paused || this.#parser.complete) return
    this.#paused = true
    this.#connection.pause()
  }

  /** The rest waits as bytes where a client's socket is full, and where it would take too long in this turn. */
  #deliverInPieces(body: Uint8Array): void {
    for (let from = 0; from < body.length; from += PIECE_BYTES) {
      if (this.#reader === undefined || this.#resting) return this.#putBack(body.subarray(from))
      const piece = body.subarray(from, from + PIECE_BYTES)
      if (!this.#consume!(piece)) this.#resolve(piece)
      this.#waitingSince = performance.now()
      if (isTurnOver()) this.#rest()
    }
    // Otherwise the reader has yet to look at the last piece.
    if (this.#reader !== undefined) free(body)
  }

  #putBack(body: Uint8Array): void {
    this.#queue.unshift(body)
    this.#hasQueued(body)
  }

  #hasQueued(body: Uint8Array): void {
    this.#queuedBytes += body.length
    if (isLong(body)) this.#packSoon()
  }

  #takeQueued(): Uint8Array {
    const body = this.#queue.shift()!
    this.#queuedBytes -= body.length
    return body instanceof PackedBytes ? body.unpack() : body
  }

  /** A reader that takes a little all the time does not put it off. */
  #packSoon(): void {
    if (this.#packAt < Infinity) return
    this.#packAt = performance.now() + PACK_AFTER_MS
    this.#setDeadline()
  }

  #pack(): void {
    if (this.#reader !== undefined) return void (this.#packAt = performance.now() + PACK_AFTER_MS)
    this.#packAt = Infinity
    this.#queue = packed(this.#queue)
  }

  /** Leaves the event loop to others. */
  #rest(): void {
    this.#resting = true
    void exclusiveTurn().then(() => {
      turnStartedAt = undefined
      this.#resting = false
      if (this.#reader !== undefined) this.#goOn()
    })
  }

  /** The reader gets what is queued, then the end, or waits for more. */
  #goOn(): void {
    while (this.#queue.length > 0 && this.#reader !== undefined && !this.#resting)
      if (this.#consume === undefined) this.#resolve(this.#takeQueued())
      else this.#deliverInPieces(this.#takeQueued())
    if (this.#resting || this.#reader === undefined) return
    this.#packAt = Infinity
    if (this.#phase === 'over') return this.#end()
    if (this.#paused) {
      this.#paused = false
      this.#connection.resume()
    }
    this.#waitingSince = performance.now()
    this.#setDeadline()
  }

  #resolve(body: Uint8Array | undefined): void {
    this.#reader?.resolve(body)
    this.#reader = undefined
  }

  /** The reader has got everything. */
  #end(): void {
    if (this.#failure === undefined) return this.#resolve(undefined)
    this.#reader?.reject(this.#failure)
    this.#reader = undefined
  }

  #finish(): void {
    if (this.#phase === 'over') return
    this.#close()
    if (this.#paused) this.#connection.resume()
    this.#connection.release(this.#parser.head!.keepAlive && !this.#parser.surplus)
    if (!this.#resting) this.#end()
  }

  #fail(error: GatewayError): void {
    if (this.#phase === 'over') return
    const atHead = this.#phase === 'first byte'
    this.#close()
    this.#connection.close()
    this.#failure = error
    if (atHead) this.#response.reject(error)
    if (!this.#resting) this.#end()
  }

  #close(): void {
    this.#phase = 'over'
    deadlines.clear(this.#deadline)
    // The rest of the body may have to be compressed.
    if (this.#packAt < Infinity) this.#setDeadline()
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
    const end = this.#phase === 'over' ? Infinity : Math.min(this.#phaseEnd, this.#totalEnd)
    deadlines.setWithin(this.#deadline, Math.min(end, this.#packAt) - performance.now())
  }

  onDeadline(): void {
    const now = performance.now()
    if (now >= this.#packAt) this.#pack()
    if (this.#phase === 'over') return
    if (now < this.#phaseEnd && now < this.#totalEnd) return this.#setDeadline()
    this.#fail(
      timedOut(this.#phaseEnd >= this.#totalEnd ? 'total' : this.#phase === 'first byte' ? 'first byte' : 'idle'),
    )
  }
}

/** Shared by all calls, so that the end of a body allocates nothing. */
const ENDED = Promise.resolve(undefined)

export const timedOut = (phase: 'first byte' | 'idle' | 'total'): GatewayError =>
  new GatewayError('upstream_timeout', `The provider did not respond in time (${phase} timeout).`)

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

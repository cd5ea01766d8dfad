import { GatewayError } from '../error.ts'
import { AnswerParser } from './answer-parser.ts'
import { Connection, takeIdle } from './connection.ts'
import type { CallSignal, ConnectionUser, Origin } from './connection.ts'

/**
 * Milliseconds of each phase of one outgoing call: TCP and TLS; until the head of the answer; between two chunks; all
 * together.
 */
export type Timeouts = { connectMs: number; firstByteMs: number; idleMs: number; totalMs: number }

/**
 * Bytes of one answer, pulled: nothing is read from the provider's socket beyond a bounded buffer until `read` is
 * called.
 */
export interface ByteSource {
  /**
   * The next chunk, or undefined at the clean end. One call at a time. Throws GatewayError upstream_error for a cut or
   * malformed
   * answer or after `cancel`, upstream_timeout with the phase (idle, total) in the message.
   */
  read(): Promise<Uint8Array | undefined>
  /** Closes the connection to the provider, unless the answer is complete. Never throws; may be called at any time. */
  cancel(): void
}

/** The head of an answer, and its body. 3xx is a status like any other. */
export type Incoming = { status: number; headers: Headers; body: ByteSource }

/** One outgoing call. `signal` closes the connection at any phase. */
export type Outgoing = {
  url: string
  /** An address to connect to in place of what the host's name would be resolved to, on a connection of its own. */
  address?: string
  method: 'POST' | 'GET' | 'DELETE'
  headers: Record<string, string>
  body?: string
  timeouts: Timeouts
  signal: CallSignal
  /** Must not go out twice, not even where it cannot have been read: it takes a connection of its own. */
  once?: boolean
  /** Called when a connection stands, before the request goes out. */
  onSent?: () => void
}

/** Bytes held for a reader that does not ask, before the provider is made to wait. One network read may come on top. */
const MAX_QUEUED_BYTES = 64 * 1024

/**
 * Sends one request and resolves at the head of the answer. Throws GatewayError upstream_error (could not connect,
 * broken
 * connection, cancelled) or upstream_timeout (connect, first byte, total). Redirects are never followed: the provider's
 * key must
 * not travel to another host. Repeated once, on a fresh connection, only when a kept connection died before any byte of
 * an answer.
 */
export const send = async (out: Outgoing): Promise<Incoming> => {
  if (out.signal.aborted) throw cancelled()
  const startedAt = performance.now()
  const target = out.address === undefined ? targetOf(out.url) : readTarget(out.url)
  const origin = out.address === undefined ? target.origin : { ...target.origin, address: out.address }
  const request = encodeRequest(out, target)
  const kept = out.address === undefined && out.once !== true ? takeIdle(origin) : undefined
  if (kept !== undefined) {
    out.onSent?.()
    const exchange = new Exchange(kept, out, startedAt)
    const incoming = await exchange.start(request)
    if (incoming !== undefined) return incoming
  }
  const fresh = await new Connection(origin).open(Math.min(out.timeouts.connectMs, out.timeouts.totalMs), out.signal)
  out.onSent?.()
  const incoming = await new Exchange(fresh, out, startedAt).start(request)
  return incoming!
}

/** `length`: in bytes. */
type Request = { data: string | Buffer; length: number }

type Target = { origin: Origin; path: string; host: string }

/** Addresses come from the catalogue, so they are few; parsed once each. */
const targets = new Map<string, Target>()
const MAX_TARGETS = 1024

const targetOf = (url: string): Target => {
  const known = targets.get(url)
  if (known !== undefined) return known
  const target = readTarget(url)
  if (targets.size >= MAX_TARGETS) targets.clear()
  targets.set(url, target)
  return target
}

const readTarget = (url: string): Target => {
  const { protocol, hostname, port, pathname, search, host } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:')
    throw new GatewayError('internal_error', "A provider's address must begin with http:// or https://.")
  const secure = protocol === 'https:'
  const portNumber = port === '' ? (secure ? 443 : 80) : Number(port)
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return {
    origin: { host: bare, port: portNumber, secure, name: `${hostname}:${portNumber}` },
    path: pathname + search,
    host,
  }
}

/** Header names that describe the connection and the framing: these are ours to say. */
const OURS = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'accept-encoding',
  'expect',
  'upgrade',
])

const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e]*\r\n$/

const encodeRequest = (out: Outgoing, { path, host }: Target): Request => {
  let head = `${out.method} ${path} HTTP/1.1\r\nhost: ${host}\r\naccept-encoding: identity\r\n`
  if (out.address !== undefined) head += 'connection: close\r\n'
  for (const name in out.headers) {
    if (OURS.has(name.toLowerCase())) continue
    const line = `${name}: ${out.headers[name]}\r\n`
    if (!HEADER.test(line))
      throw new GatewayError(
        'internal_error',
        `The header "${name}" for the provider holds a character that cannot be sent.`,
      )
    head += line
  }
  const bodyLength = out.body === undefined ? 0 : Buffer.byteLength(out.body)
  if (out.body !== undefined || out.method === 'POST') head += `content-length: ${bodyLength}\r\n`
  head += '\r\n'
  const length = head.length + bodyLength
  if (out.body === undefined || bodyLength < LONG_BYTES) return { data: head + (out.body ?? ''), length }
  const data = Buffer.allocUnsafe(length)
  data.write(out.body, data.write(head))
  return { data, length }
}

/** A longer body does not leave in one piece: it is encoded once, and not again for what is left of it. */
const LONG_BYTES = 256 * 1024

/** One request and its answer on one connection. */
class Exchange implements ByteSource, ConnectionUser {
  #connection: Connection
  #parser = new AnswerParser()
  #timeouts: Timeouts
  #signal: CallSignal
  #startedAt: number
  #phase: 'first byte' | 'body' | 'over' = 'first byte'
  #heardAnything = false
  #waitsSince: number
  #head = Promise.withResolvers<Incoming | undefined>()
  #reader: PromiseWithResolvers<Uint8Array | undefined> | undefined
  #queue: Uint8Array[] = []
  #queuedBytes = 0
  #paused = false
  #failure: GatewayError | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #timerAt = Infinity
  #onAbort = () => this.cancel()

  constructor(connection: Connection, out: Outgoing, startedAt: number) {
    this.#connection = connection
    this.#timeouts = out.timeouts
    this.#signal = out.signal
    this.#startedAt = startedAt
    this.#waitsSince = performance.now()
  }

  /**
   * Resolves at the head; with undefined when a kept connection turned out to be dead, so that the request may be sent
   * again.
   */
  start(request: Request): Promise<Incoming | undefined> {
    this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    this.#arm()
    if (this.#signal.aborted) this.cancel()
    else this.#connection.use(this, request.data, request.length)
    return this.#head.promise
  }

  read(): Promise<Uint8Array | undefined> {
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
    this.#waitsSince = performance.now()
    this.#reader = Promise.withResolvers()
    this.#arm()
    return this.#reader.promise
  }

  cancel(): void {
    if (this.#phase === 'over') return
    this.#queue = []
    this.#fail(cancelled())
  }

  bytes(piece: Buffer): void {
    this.#heardAnything = true
    try {
      const body = this.#parser.push(piece)
      if (this.#phase === 'first byte' && this.#parser.head !== undefined) this.#begin()
      if (body !== undefined && this.#phase !== 'over') this.#give(body)
      if (this.#parser.complete) this.#finish()
    } catch (error) {
      this.#fail(
        error instanceof GatewayError
          ? error
          : new GatewayError('upstream_error', "The provider's answer could not be read.", { cause: error }),
      )
    }
  }

  gone(cause: unknown): void {
    if (this.#phase === 'over') return
    if (this.#connection.reused && !this.#heardAnything) {
      this.#close()
      return this.#head.resolve(undefined)
    }
    try {
      this.#parser.end()
      this.#finish()
    } catch (error) {
      this.#fail(new GatewayError('upstream_error', (error as Error).message, { cause }))
    }
  }

  #begin(): void {
    const { status, headers } = this.#parser.head!
    const coding = headers.get('content-encoding')
    if (coding !== null && coding !== 'identity')
      throw new GatewayError('upstream_error', 'The provider compressed its answer without being asked.')
    this.#phase = 'body'
    this.#head.resolve({ status, headers, body: this })
  }

  #give(body: Uint8Array): void {
    if (this.#reader !== undefined) {
      this.#reader.resolve(body)
      this.#reader = undefined
      return
    }
    this.#queue.push(body)
    this.#queuedBytes += body.length
    if (this.#queuedBytes < MAX_QUEUED_BYTES || this.#paused || this.#parser.complete) return
    this.#paused = true
    this.#connection.pause()
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
    if (atHead) this.#head.reject(error)
    this.#reader?.reject(error)
    this.#reader = undefined
  }

  #close(): void {
    this.#phase = 'over'
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#onAbort)
  }

  #deadline(): { at: number; phase: string } {
    const total = this.#startedAt + this.#timeouts.totalMs
    const waits =
      this.#phase === 'first byte'
        ? this.#waitsSince + this.#timeouts.firstByteMs
        : this.#reader !== undefined
          ? this.#waitsSince + this.#timeouts.idleMs
          : Infinity
    return waits < total
      ? { at: waits, phase: this.#phase === 'first byte' ? 'first byte' : 'idle' }
      : { at: total, phase: 'total' }
  }

  /** One timer a call, set to the nearest deadline; a deadline that moved away lets it fire early and be set again. */
  #arm(): void {
    const { at } = this.#deadline()
    if (at >= this.#timerAt) return
    clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(
      () => {
        this.#timerAt = Infinity
        const due = this.#deadline()
        if (performance.now() < due.at) this.#arm()
        else
          this.#fail(
            new GatewayError('upstream_timeout', `The provider did not answer in time (${due.phase} timeout).`),
          )
      },
      Math.min(at - performance.now() + 1, 2 ** 31 - 1),
    )
  }
}

/** Most answers end like this; one promise serves them all. */
const ENDED = Promise.resolve(undefined)

const cancelled = (): GatewayError => new GatewayError('upstream_error', 'The call to the provider was cancelled.')

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
  const whole = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length)
  return (whole instanceof Buffer ? whole : Buffer.from(whole)).toString('utf8')
}

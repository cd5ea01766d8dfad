import type { Socket, TCPSocketConnectOptions } from 'bun'
import { GatewayError } from '../error.ts'

/**
 * Where a connection leads. `name` is host:port as shown in messages. `address`: connected to in place of what the
 * host's name would be resolved to;
 * the certificate is still the host's.
 */
export type Origin = { host: string; port: number; secure: boolean; name: string; address?: string }

/**
 * Tells an outgoing call that nobody waits for it any more. An AbortSignal is one; making a real one for each call
 * would cost more than the rest of its bookkeeping.
 */
export interface CallSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void, options?: { once: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** What a connection tells the call that uses it. */
export interface ConnectionUser {
  bytes(piece: Buffer): void
  /** The connection is gone, by the other side or by an error; never called for a `close` of our own. */
  gone(cause: unknown): void
}

/** Longest time an unused connection is kept. Load balancers in front of providers close at 60 s and more. */
const IDLE_MS = 50_000
const SWEEP_MS = 5_000
const MAX_IDLE_PER_ORIGIN = 256

/** One TCP or TLS connection to a provider; serves one call after the other. */
export class Connection {
  readonly origin: Origin
  /** True once it has served a call: only then may a silent death be blamed on keep-alive. */
  reused = false
  #socket: Socket<Connection> | undefined
  #user: ConnectionUser | undefined
  #unsent: Buffer | undefined
  #idleUntil = 0
  #closed = false
  #opened: PromiseWithResolvers<Connection> | undefined

  constructor(origin: Origin) {
    this.origin = origin
  }

  /**
   * Resolves when bytes can be sent, TLS checked. Rejects with GatewayError upstream_error or, after `connectMs`,
   * upstream_timeout.
   */
  open(connectMs: number, signal: CallSignal): Promise<Connection> {
    const opened = (this.#opened = Promise.withResolvers<Connection>())
    const { host, port, secure, name, address } = this.origin
    const timer = setTimeout(
      () =>
        this.#refuse(
          new GatewayError(
            'upstream_timeout',
            `The provider at ${name} did not accept a connection in ${connectMs} ms.`,
          ),
        ),
      connectMs,
    )
    const leave = () => this.#refuse(new GatewayError('upstream_error', 'The call was cancelled while connecting.'))
    signal.addEventListener('abort', leave, { once: true })
    const options: TCPSocketConnectOptions<Connection> = {
      hostname: address ?? host,
      port,
      socket: HANDLERS,
      data: this,
    }
    if (secure) options.tls = { serverName: host, rejectUnauthorized: true }
    Bun.connect(options).catch((error: unknown) => this.#refuse(unreachable(this.origin, error)))
    return opened.promise.finally(() => {
      clearTimeout(timer)
      signal.removeEventListener('abort', leave)
    })
  }

  /** Takes the connection for one call and sends its request, of `length` bytes, a text in UTF-8. */
  use(user: ConnectionUser, request: string | Buffer, length: number): void {
    this.#user = user
    const written = Math.max(0, this.#socket?.write(request) ?? 0)
    if (written < length)
      this.#unsent = (typeof request === 'string' ? Buffer.from(request) : request).subarray(written)
  }

  pause(): void {
    this.#socket?.pause()
  }

  resume(): void {
    this.#socket?.resume()
  }

  /** Ends the call's use. Kept for another when `reusable` and the request has left whole; else closed. */
  release(reusable: boolean): void {
    this.#user = undefined
    // One that was opened to a certain address must not serve calls that only name the host.
    if (!reusable || this.origin.address !== undefined || this.#unsent !== undefined || this.#closed)
      return this.close()
    this.reused = true
    this.#idleUntil = performance.now() + IDLE_MS
    if (!keep(this)) this.close()
  }

  close(): void {
    this.#user = undefined
    this.#closed = true
    this.#unsent = undefined
    this.#socket?.terminate()
  }

  get usable(): boolean {
    return !this.#closed && performance.now() < this.#idleUntil
  }

  /** The methods below are for the socket's own events. */
  onOpen(socket: Socket<Connection>): void {
    this.#socket = socket
    if (this.#closed) socket.terminate()
    else if (!this.origin.secure) this.#opened?.resolve(this)
  }

  /** `refusal`: why the certificate was not accepted, its names included. */
  onHandshake(success: boolean, refusal: Error | null): void {
    if (success && refusal === null) this.#opened?.resolve(this)
    else
      this.#refuse(
        new GatewayError(
          'upstream_error',
          `could not connect to ${this.origin.name}: its TLS certificate was not accepted`,
          { cause: refusal },
        ),
      )
  }

  onBytes(piece: Buffer): void {
    // Bytes that answer nothing would be taken for the head of the next answer.
    if (this.#user === undefined) this.onGone(undefined)
    else this.#user.bytes(piece)
  }

  onDrain(socket: Socket<Connection>): void {
    if (this.#unsent === undefined) return
    const written = Math.max(0, socket.write(this.#unsent))
    this.#unsent = written < this.#unsent.length ? this.#unsent.subarray(written) : undefined
  }

  onGone(cause: unknown): void {
    const user = this.#user
    this.close()
    forget(this)
    this.#opened?.reject(unreachable(this.origin, cause))
    user?.gone(cause)
  }

  #refuse(error: GatewayError): void {
    this.#opened?.reject(error)
    this.close()
  }
}

const unreachable = (origin: Origin, cause: unknown): GatewayError =>
  new GatewayError('upstream_error', `could not connect to ${origin.name}`, { cause })

const HANDLERS = {
  open: (socket: Socket<Connection>) => socket.data.onOpen(socket),
  handshake: (socket: Socket<Connection>, success: boolean, error: Error | null) =>
    socket.data.onHandshake(success, error),
  data: (socket: Socket<Connection>, piece: Buffer) => socket.data.onBytes(piece),
  drain: (socket: Socket<Connection>) => socket.data.onDrain(socket),
  end: (socket: Socket<Connection>) => socket.data.onGone(undefined),
  close: (socket: Socket<Connection>, error?: Error) => socket.data.onGone(error),
  error: (socket: Socket<Connection>, error: Error) => socket.data.onGone(error),
  connectError: (socket: Socket<Connection>, error: Error) => socket.data.onGone(error),
}

const idle = new Map<string, Connection[]>()
let sweeper: ReturnType<typeof setInterval> | undefined

const keyOf = (origin: Origin): string => (origin.secure ? 's' : 'p') + origin.name

/** An unused connection to this origin, the one used last: the older ones may grow cold and be closed. */
export const takeIdle = (origin: Origin): Connection | undefined => {
  const list = idle.get(keyOf(origin))
  for (let connection = list?.pop(); connection !== undefined; connection = list?.pop()) {
    if (connection.usable) return connection
    connection.close()
  }
  return undefined
}

const keep = (connection: Connection): boolean => {
  const key = keyOf(connection.origin)
  const list = idle.get(key)
  if (list === undefined) idle.set(key, [connection])
  else if (list.length < MAX_IDLE_PER_ORIGIN) list.push(connection)
  else return false
  sweeper ??= setInterval(sweep, SWEEP_MS).unref()
  return true
}

const forget = (connection: Connection): void => {
  const list = idle.get(keyOf(connection.origin))
  const at = list?.lastIndexOf(connection) ?? -1
  if (at !== -1) list!.splice(at, 1)
}

const sweep = (): void => {
  for (const [key, list] of idle) {
    for (const connection of list) if (!connection.usable) connection.close()
    const kept = list.filter((connection) => connection.usable)
    if (kept.length === 0) idle.delete(key)
    else idle.set(key, kept)
  }
  if (idle.size > 0) return
  clearInterval(sweeper)
  sweeper = undefined
}

/** Closes every unused connection: for the end of the program and of tests. */
export const closeIdle = (): void => {
  for (const list of idle.values()) for (const connection of list) connection.close()
  idle.clear()
  clearInterval(sweeper)
  sweeper = undefined
}

import type { Socket, TCPSocketConnectOptions } from 'bun'
import { Deadline, deadlines, type Expiring } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { descriptorReserve } from './descriptor-limit.ts'
import type { EncodedRequest } from './encode-request.ts'
import { writePieces, writeRequest } from './write-pieces.ts'

/**
 * The remote end of a connection. `name`: host:port as shown in messages. `address`: connected to instead of resolving
 * the host; the certificate must still be the host's.
 */
export type Origin = { host: string; port: number; secure: boolean; name: string; address?: string }

/**
 * Cancels an outgoing call. AbortSignal implements it; the interface exists because creating a real AbortSignal for
 * each call would cost more than the rest of its bookkeeping.
 */
export interface CallSignal {
  readonly aborted: boolean
  /** The client left, although the call goes on. */
  readonly left?: boolean
  addEventListener(type: 'abort', listener: () => void, options?: { once: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Receives the events of the connection that it uses. */
export interface ConnectionUser {
  onData(bytes: Buffer): void
  /** Closed by the remote end, or broken by `cause`; never called for our own `close`. */
  onClosed(cause: unknown): void
}

/** Longest time that an idle connection is kept. Load balancers in front of providers close after 60 s or more. */
const IDLE_MS = 50_000
const MAX_IDLE_PER_ORIGIN = 256

/** One TCP or TLS connection to a provider, used by one call at a time. */
export class Connection implements Expiring {
  readonly origin: Origin
  /** True once it has served a call: only then may a close without a response be caused by keep-alive. */
  reused = false
  #socket: Socket<Connection> | undefined
  #user: ConnectionUser | undefined
  #unsent: Uint8Array[] | undefined
  #closed = false
  #hasDescriptor = false
  #connectMs = 0
  /** Until it is open, and while it is idle. */
  readonly #deadline = new Deadline(this)
  #opened: PromiseWithResolvers<Connection> | undefined

  constructor(origin: Origin) {
    this.origin = origin
  }

  /**
   * Resolves when bytes can be sent and the TLS certificate is verified. Rejects with GatewayError upstream_error, or
   * upstream_timeout after `connectMs`.
   */
  open(connectMs: number, signal: CallSignal): Promise<Connection> {
    const opened = Promise.withResolvers<Connection>()
    this.#opened = opened
    const { host, port, secure, address } = this.origin
    this.#connectMs = connectMs
    deadlines.set(this.#deadline, connectMs)
    const onAbort = () => this.#fail(new GatewayError('upstream_error', 'The call was cancelled while connecting.'))
    signal.addEventListener('abort', onAbort, { once: true })
    const options: TCPSocketConnectOptions<Connection> = {
      hostname: address ?? host,
      port,
      socket: SOCKET_HANDLERS,
      data: this,
    }
    descriptorReserve.take()
    this.#hasDescriptor = true
    if (secure) options.tls = { serverName: host, rejectUnauthorized: true }
    Bun.connect(options).catch((error: unknown) => this.#fail(unreachable(error)))
    return opened.promise.finally(() => {
      deadlines.clear(this.#deadline)
      signal.removeEventListener('abort', onAbort)
    })
  }

  onDeadline(): void {
    if (this.reused) {
      forget(this)
      return this.close()
    }
    const message = `The provider at ${this.origin.name} did not accept a connection within ${this.#connectMs} ms.`
    this.#fail(new GatewayError('upstream_timeout', message))
  }

  /** Assigns the connection to one call and writes its request. */
  use(user: ConnectionUser, request: EncodedRequest): void {
    deadlines.clear(this.#deadline)
    this.#user = user
    if (this.#socket !== undefined) this.#unsent = writeRequest(this.#socket, request)
  }

  pause(): void {
    this.#socket?.pause()
  }

  resume(): void {
    this.#socket?.resume()
  }

  /** Ends the call's use. Kept for the next call if `reusable` and the request was written completely, else closed. */
  release(reusable: boolean): void {
    this.#user = undefined
    // A connection to a given address must not serve calls that name only the host.
    if (!reusable || this.origin.address !== undefined || this.#unsent !== undefined || this.#closed)
      return this.close()
    this.reused = true
    if (keep(this)) deadlines.set(this.#deadline, IDLE_MS)
    else this.close()
  }

  close(): void {
    this.#user = undefined
    this.#closed = true
    this.#unsent = undefined
    deadlines.clear(this.#deadline)
    this.#socket?.terminate()
    if (this.#hasDescriptor) descriptorReserve.giveBack()
    this.#hasDescriptor = false
  }

  /** The methods below handle the socket's events. */
  onOpen(socket: Socket<Connection>): void {
    this.#socket = socket
    if (this.#closed) socket.terminate()
    else if (!this.origin.secure) this.#opened?.resolve(this)
  }

  /** `error`: why the certificate was not accepted, a wrong host name included. */
  onHandshake(success: boolean, error: Error | null): void {
    if (success && error === null) this.#opened?.resolve(this)
    else
      this.#fail(
        new GatewayError('upstream_error', 'The provider could not be reached: its TLS certificate was not accepted.', {
          cause: error,
        }),
      )
  }

  onData(bytes: Buffer): void {
    // Bytes outside a call would be taken for the head of the next response.
    if (this.#user === undefined) this.onClosed(undefined)
    else this.#user.onData(bytes)
  }

  onDrain(socket: Socket<Connection>): void {
    if (this.#unsent !== undefined) this.#unsent = writePieces(socket, this.#unsent)
  }

  onClosed(cause: unknown): void {
    const user = this.#user
    this.close()
    forget(this)
    this.#opened?.reject(unreachable(cause))
    user?.onClosed(cause)
  }

  #fail(error: GatewayError): void {
    this.#opened?.reject(error)
    this.close()
  }
}

/** Clients see the message: it has the system's code, but no address, which may be one of the operator's network. */
function unreachable(cause: unknown): GatewayError {
  const { code } = (cause ?? {}) as { code?: unknown }
  const reason = typeof code === 'string' ? ` (${code})` : ''
  return new GatewayError('upstream_error', `The provider could not be reached${reason}.`, { cause })
}

const SOCKET_HANDLERS = {
  open: (socket: Socket<Connection>) => socket.data.onOpen(socket),
  handshake: (socket: Socket<Connection>, success: boolean, error: Error | null) =>
    socket.data.onHandshake(success, error),
  data: (socket: Socket<Connection>, bytes: Buffer) => socket.data.onData(bytes),
  drain: (socket: Socket<Connection>) => socket.data.onDrain(socket),
  end: (socket: Socket<Connection>) => socket.data.onClosed(undefined),
  close: (socket: Socket<Connection>, error?: Error) => socket.data.onClosed(error),
  error: (socket: Socket<Connection>, error: Error) => socket.data.onClosed(error),
  connectError: (socket: Socket<Connection>, error: Error) => socket.data.onClosed(error),
}

/** The connection pool, the only state of this module: idle connections by origin, the last used one at the end. */
const idle = new Map<string, Connection[]>()

const poolKey = (origin: Origin): string => (origin.secure ? 's' : 'p') + origin.name

/** The idle connection to this origin that was used last, so that surplus ones expire. */
export const takeIdle = (origin: Origin): Connection | undefined => idle.get(poolKey(origin))?.pop()

const keep = (connection: Connection): boolean => {
  const key = poolKey(connection.origin)
  const list = idle.get(key)
  if (list === undefined) idle.set(key, [connection])
  else if (list.length < MAX_IDLE_PER_ORIGIN) list.push(connection)
  else return false
  return true
}

const forget = (connection: Connection): void => {
  const key = poolKey(connection.origin)
  const list = idle.get(key)
  const at = list?.lastIndexOf(connection) ?? -1
  if (list === undefined || at === -1) return
  list.splice(at, 1)
  if (list.length === 0) idle.delete(key)
}

/** Closes every idle connection, at the end of the program and of tests. */
export const closeIdle = (): void => {
  // Each is taken out of its list as it closes.
  for (const connection of [...idle.values()].flat()) connection.close()
  idle.clear()
}

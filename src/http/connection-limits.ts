import type { Server } from 'bun'
import { closeSync, openSync } from 'node:fs'
import { AcceptedSockets, descriptors } from './accepted-sockets.ts'
import { AddressBound, type PerAddress } from './address-bound.ts'
import { closeIdle } from './connection.ts'
import { descriptorLimit, descriptorReserve, isScarce, RESERVE } from './descriptor-limit.ts'

/** Interval of looks at the number of descriptors. */
const LOOK_EVERY_MS = 1_000
/** The same while they are short: others wait to be accepted. */
const SHORT_EVERY_MS = 100
/** Descriptors that are kept for the work of closing connections. */
const SPARE = 8
/** A connection that has had no request for so long may be closed when descriptors run out. */
const UNUSED_MS = 400

/** A connection without a request: its client's port, and when it was seen first. */
type Unused = { port: number; since: number }

/**
 * Keeps descriptors free for those who ask something: the runtime accepts connections until there are none, and shows
 * none that has not sent a request. When they run out, connections without a request in flight are closed; those of one
 * address above its bound are closed at any time. On Linux only; elsewhere the runtime's own timeouts have to do.
 */
export class ConnectionLimits {
  readonly #server: Server<undefined>
  readonly #limit = descriptorLimit
  #spare: number[] = []
  #sockets: AcceptedSockets | undefined
  readonly #open = (): AcceptedSockets => (this.#sockets ??= new AcceptedSockets(this.#server.port ?? 0))
  readonly #bound: AddressBound | undefined
  #timer: Timer | undefined
  /** Those in flight; until the next look, those that have ended since the last one, too. */
  #requests: Request[] = []
  /** Connections that the last look has found without a request. */
  #unused = new Map<number, Unused>()

  constructor(server: Server<undefined>, perAddress?: PerAddress) {
    this.#server = server
    this.#bound = perAddress && new AddressBound(perAddress)
    if (this.#limit === undefined) return
    this.#fillSpare()
    descriptorReserve.fill()
    this.#lookIn(LOOK_EVERY_MS)
  }

  /** A request has come. They are counted only where connections can use up the descriptors. */
  began(request: Request): void {
    if (isScarce) this.#requests.push(request)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#freeSpare()
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(() => this.#look(), ms)
    this.#timer.unref()
  }

  #look(): void {
    const lowest = lowestFree()
    const isShort = lowest === undefined || lowest >= this.#limit! - RESERVE
    this.#requests = this.#requests.filter((request) => this.#server.requestIP(request) !== null)
    if (isShort) {
      this.#server.closeIdleConnections()
      closeIdle()
      this.#freeSpare()
    } else this.#unused.clear()
    try {
      this.#bound?.enforce(this.#open)
      if (isShort) this.#closeUnused()
    } catch {
      // Without the C library the runtime's timeouts have to do.
    }
    if (isShort) this.#fillSpare()
    descriptorReserve.fill()
    this.#lookIn(isShort ? SHORT_EVERY_MS : LOOK_EVERY_MS)
  }

  /**
   * Closes connections that are silent, or whose clients take their time with a head, or with what follows a request
   * that was answered. What has come and was not read yet may be a request.
   */
  #closeUnused(): void {
    const sockets = this.#open()
    const busy = new Set(this.#requests.map((request) => this.#server.requestIP(request)?.port))
    const unused = new Map<number, Unused>()
    const now = performance.now()
    for (const fd of sockets.among(descriptors())) {
      const port = sockets.portOf(fd)
      const traffic = sockets.trafficOf(fd)
      if (port === undefined || traffic === undefined || busy.has(port) || sockets.hasUnread(fd)) continue
      if (!isScarce && !traffic.isSilent) continue
      const before = this.#unused.get(fd)
      const since = before?.port === port ? before.since : now - traffic.lastDataMs
      if (now - since >= UNUSED_MS) sockets.close(fd)
      else unused.set(fd, { port, since })
    }
    this.#unused = unused
  }

  #fillSpare(): void {
    try {
      while (this.#spare.length < SPARE) this.#spare.push(openSync('/dev/null', 'r'))
    } catch {
      // As many as there are.
    }
  }

  #freeSpare(): void {
    for (const fd of this.#spare.splice(0)) closeSync(fd)
  }
}

/** The lowest descriptor that is free; undefined if none is. */
function lowestFree(): number | undefined {
  try {
    const fd = openSync('/dev/null', 'r')
    closeSync(fd)
    return fd
  } catch {
    return undefined
  }
}

import { closeSync, openSync } from 'node:fs'
import { AcceptedSockets, descriptors } from './accepted-sockets.ts'
import { AddressBound, type PerAddress } from './address-bound.ts'
import { closeIdle } from './connection.ts'
import { descriptorLimit, descriptorReserve, RESERVE } from './descriptor-limit.ts'

/** Interval of looks at the number of descriptors. */
const LOOK_EVERY_MS = 1_000
/** Descriptors that are kept for the work of closing connections. */
const SPARE = 8
/** A connection that has sent nothing for so long may be closed when descriptors run out. */
const SILENT_MS = 400

/**
 * Keeps descriptors free for those who ask something: the runtime accepts connections until there are none, and shows
 * none that has not sent a request. When they run out, connections without a request in flight are closed; those of one
 * address above its bound are closed at any time. On Linux only; elsewhere the runtime's own timeouts have to do.
 */
export class ConnectionLimits {
  readonly #port: number
  readonly #closeIdle: () => unknown
  readonly #limit = descriptorLimit
  #spare: number[] = []
  #sockets: AcceptedSockets | undefined
  readonly #open = (): AcceptedSockets => (this.#sockets ??= new AcceptedSockets(this.#port))
  readonly #bound: AddressBound | undefined
  readonly #timer: Timer | undefined

  /** `port`: that the server listens on. `closeIdle`: closes connections whose last request was answered. */
  constructor(port: number, closeIdle: () => unknown, perAddress?: PerAddress) {
    this.#port = port
    this.#closeIdle = closeIdle
    this.#bound = perAddress && new AddressBound(perAddress)
    if (this.#limit === undefined) return
    this.#fillSpare()
    descriptorReserve.fill()
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#freeSpare()
  }

  #look(): void {
    const lowest = lowestFree()
    const isShort = lowest === undefined || lowest >= this.#limit! - RESERVE
    if (isShort) {
      this.#closeIdle()
      closeIdle()
      this.#freeSpare()
    }
    try {
      this.#bound?.enforce(this.#open)
      if (isShort) this.#closeSilent()
    } catch {
      // Without the C library the runtime's timeouts have to do.
    }
    if (isShort) this.#fillSpare()
    descriptorReserve.fill()
  }

  #closeSilent(): void {
    const sockets = this.#open()
    for (const fd of sockets.among(descriptors())) {
      const traffic = sockets.trafficOf(fd)
      if (traffic?.isSilent === true && traffic.lastDataMs >= SILENT_MS) sockets.close(fd)
    }
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

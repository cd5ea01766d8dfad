import { dlopen } from 'bun:ffi'
import { closeSync, openSync, readFileSync } from 'node:fs'

/** Interval of looks at the number of descriptors. */
const LOOK_EVERY_MS = 500
/** Descriptors that connections may not use up, and those that are kept for the work of closing connections. */
const RESERVE = 64
const SPARE = 8
/** A connection that has sent nothing for so long may be closed when descriptors run out. */
const SILENT_MS = 400

/** Constants of the C library of Linux. */
const SOL_TCP = 6
const TCP_INFO = 11
const SHUT_RDWR = 2
const AF_INET6 = 10
/** Offsets in `struct tcp_info`: milliseconds since the last data, and bytes received. */
const LAST_DATA_AT = 52
const RECEIVED_AT = 128
const INFO_BYTES = 136

const SYMBOLS = {
  getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
  getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
  shutdown: { args: ['i32', 'i32'], returns: 'i32' },
} as const

/**
 * Keeps descriptors free for those who ask something: the runtime accepts connections until there are none, and shows
 * none that has not sent a request. When they run out, connections without a request in flight are closed. On Linux
 * only; elsewhere the runtime's own timeouts have to do.
 */
export class DescriptorReserve {
  readonly #port: number
  readonly #closeIdle: () => unknown
  readonly #limit = softLimit()
  #spare: number[] = []
  #library: ReturnType<typeof dlopen<typeof SYMBOLS>> | undefined
  readonly #timer: Timer | undefined

  /** `port`: that the server listens on. `closeIdle`: closes connections whose last request was answered. */
  constructor(port: number, closeIdle: () => unknown) {
    this.#port = port
    this.#closeIdle = closeIdle
    if (this.#limit === undefined) return
    this.#fillSpare()
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#freeSpare()
  }

  #look(): void {
    const lowest = lowestFree()
    if (lowest !== undefined && lowest < this.#limit! - RESERVE) return
    this.#closeIdle()
    this.#freeSpare()
    try {
      this.#closeSilent()
    } catch {
      // Without this library the runtime's timeouts have to do.
    }
    this.#fillSpare()
  }

  #closeSilent(): void {
    this.#library ??= dlopen('libc.so.6', SYMBOLS)
    const { getsockname, getsockopt, shutdown } = this.#library.symbols
    const address = Buffer.alloc(28)
    const info = Buffer.alloc(INFO_BYTES)
    const length = new Uint32Array(1)
    for (let fd = 3; fd < this.#limit!; fd++) {
      length[0] = address.length
      if (getsockname(fd, address, length) !== 0) continue
      const family = address.readUInt16LE(0)
      if ((family !== 2 && family !== AF_INET6) || address.readUInt16BE(2) !== this.#port) continue
      length[0] = INFO_BYTES
      if (getsockopt(fd, SOL_TCP, TCP_INFO, info, length) !== 0 || length[0]! < INFO_BYTES) continue
      const isOpen = info[0] === 1
      if (isOpen && info.readBigUInt64LE(RECEIVED_AT) === 0n && info.readUInt32LE(LAST_DATA_AT) >= SILENT_MS)
        shutdown(fd, SHUT_RDWR)
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

/** The limit of this process, undefined where it is not known. */
function softLimit(): number | undefined {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return limit === undefined ? undefined : Number(limit)
  } catch {
    return undefined
  }
}

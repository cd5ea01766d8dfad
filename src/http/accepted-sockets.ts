import { dlopen } from 'bun:ffi'
import { readdirSync, statSync } from 'node:fs'

/** Constants of the C library of Linux. */
const SOL_TCP = 6
const TCP_INFO = 11
const SHUT_RDWR = 2
const MSG_PEEK = 0x02
const MSG_DONTWAIT = 0x40
const AF_INET = 2
const AF_INET6 = 10
/** Offsets in `struct tcp_info`: milliseconds since the last data, and bytes received. */
const LAST_DATA_AT = 52
const RECEIVED_AT = 128
const INFO_BYTES = 136
const ADDRESS_BYTES = 28

const SYMBOLS = {
  getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
  getpeername: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
  getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
  recv: { args: ['i32', 'ptr', 'usize', 'i32'], returns: 'i64' },
  shutdown: { args: ['i32', 'i32'], returns: 'i32' },
} as const

/** The first 12 bytes of an IPv4 address that is written as one of IPv6. */
const MAPPED = Buffer.from('00000000000000000000ffff', 'hex')

const DESCRIPTORS = '/proc/self/fd'

/** The state of an open connection: whether its client sent anything, and how long ago it did last. */
export type Traffic = { isSilent: boolean; lastDataMs: number }

/** The descriptors of this process. Throws where the system does not list them. */
export const descriptors = (): number[] => readdirSync(DESCRIPTORS).map(Number)

/** Their number, which Linux has as the size of the folder from 6.2 on. Throws as `descriptors` does. */
export const descriptorCount = (): number => statSync(DESCRIPTORS).size || descriptors().length

/**
 * The connections that a server has accepted, as the system knows them: the runtime shows none without a request. On
 * Linux only; the constructor throws where the C library is missing.
 */
export class AcceptedSockets {
  readonly #port: number
  readonly #library = dlopen('libc.so.6', SYMBOLS).symbols
  readonly #address = Buffer.alloc(ADDRESS_BYTES)
  readonly #info = Buffer.alloc(INFO_BYTES)
  readonly #length = new Uint32Array(1)

  /** `port`: that the server listens on. */
  constructor(port: number) {
    this.#port = port
  }

  /** Those of the descriptors that are accepted connections. */
  among(all: readonly number[]): number[] {
    return all.filter((fd) => {
      this.#length[0] = ADDRESS_BYTES
      if (this.#library.getsockname(fd, this.#address, this.#length) !== 0) return false
      const family = this.#address.readUInt16LE(0)
      if ((family !== AF_INET && family !== AF_INET6) || this.#address.readUInt16BE(2) !== this.#port) return false
      return this.#readPeer(fd)
    })
  }

  /** The client's address as text; undefined once the connection is closed. */
  addressOf(fd: number): string | undefined {
    if (!this.#readPeer(fd)) return undefined
    const address = this.#address
    if (address.readUInt16LE(0) === AF_INET) return [...address.subarray(4, 8)].join('.')
    if (address.compare(MAPPED, 0, 12, 8, 20) === 0) return [...address.subarray(20, 24)].join('.')
    return address.toString('hex', 8, 24).match(/.{4}/g)!.join(':')
  }

  /** The same for connections of one IPv4 address, or of one IPv6 network of 64 bits, which is one host's. */
  originOf(fd: number): number | string {
    if (!this.#readPeer(fd)) return ''
    const address = this.#address
    if (address.readUInt16LE(0) === AF_INET) return address.readUInt32BE(4)
    if (address.compare(MAPPED, 0, 12, 8, 20) === 0) return address.readUInt32BE(20)
    return address.toString('latin1', 8, 16)
  }

  /** Undefined for a connection that is being closed. */
  trafficOf(fd: number): Traffic | undefined {
    const info = this.#info
    this.#length[0] = INFO_BYTES
    if (this.#library.getsockopt(fd, SOL_TCP, TCP_INFO, info, this.#length) !== 0) return undefined
    if (this.#length[0]! < INFO_BYTES || info[0] !== 1) return undefined
    return { isSilent: info.readBigUInt64LE(RECEIVED_AT) === 0n, lastDataMs: info.readUInt32LE(LAST_DATA_AT) }
  }

  /** The client's port; undefined once the connection is closed. */
  portOf(fd: number): number | undefined {
    return this.#readPeer(fd) ? this.#address.readUInt16BE(2) : undefined
  }

  /** True where the client sent something that the runtime has not read yet. */
  hasUnread(fd: number): boolean {
    return Number(this.#library.recv(fd, this.#info, 1, MSG_PEEK | MSG_DONTWAIT)) > 0
  }

  /** The runtime sees the end of the connection and closes its descriptor. */
  close(fd: number): void {
    this.#library.shutdown(fd, SHUT_RDWR)
  }

  #readPeer(fd: number): boolean {
    this.#length[0] = ADDRESS_BYTES
    return this.#library.getpeername(fd, this.#address, this.#length) === 0
  }
}

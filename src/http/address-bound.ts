import { isIP } from 'node:net'
import { type AcceptedSockets, descriptorCount, descriptors } from './accepted-sockets.ts'
import { blockListOf } from './addresses.ts'
import { descriptorReserve } from './descriptor-limit.ts'
import { log } from '../log/log.ts'

/** A line about closed connections is printed at most so often. */
const REPORT_EVERY_MS = 60_000

/** Bounds the connections that clients have from one address. `proxies`: addresses and ranges without a bound. */
export type PerAddress = { limit: number; proxies: readonly string[] }

/** Closes the connections of an address above its limit. */
export class AddressBound {
  readonly #limit: number
  readonly #proxies: ReturnType<typeof blockListOf>
  #reportedAt = -Infinity

  constructor({ limit, proxies }: PerAddress) {
    this.#limit = limit
    this.#proxies = blockListOf(...proxies)
  }

  /** Costs one system call, and some for each descriptor only where there are more than one address may have. */
  enforce(sockets: () => AcceptedSockets): void {
    if (descriptorCount() - descriptorReserve.used <= this.#limit) return
    const accepted = sockets()
    const byOrigin = new Map<number | string, number[]>()
    for (const fd of accepted.among(descriptors())) {
      const origin = accepted.originOf(fd)
      const list = byOrigin.get(origin)
      if (list === undefined) byOrigin.set(origin, [fd])
      else list.push(fd)
    }
    for (const list of byOrigin.values()) if (list.length > this.#limit) this.#closeSurplus(accepted, list)
  }

  /** Silent connections first, then those whose clients sent something last: requests under way for long go on. */
  #closeSurplus(accepted: AcceptedSockets, list: readonly number[]): void {
    const open = list.flatMap((fd) => {
      const address = accepted.addressOf(fd)
      const traffic = accepted.trafficOf(fd)
      if (address === undefined || traffic === undefined || this.#isProxy(address)) return []
      return [{ fd, address, rank: traffic.isSilent ? -1 : traffic.lastDataMs }]
    })
    const surplus = open.sort((one, other) => one.rank - other.rank).slice(0, Math.max(0, open.length - this.#limit))
    for (const { fd } of surplus) accepted.close(fd)
    if (surplus.length > 0) this.#report(surplus.length, surplus[0]!.address)
  }

  #isProxy(address: string): boolean {
    return this.#proxies.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6')
  }

  #report(count: number, address: string): void {
    if (performance.now() - this.#reportedAt < REPORT_EVERY_MS) return
    this.#reportedAt = performance.now()
    log.warn(
      `closed ${count} connections of ${address}, which had more than limits.connectionsPerAddress (${this.#limit}); ` +
        'if it is a proxy, name it in listen.proxies',
    )
  }
}

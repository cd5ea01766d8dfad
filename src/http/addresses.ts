import { BlockList, isIP } from 'node:net'

/** `ranges` in CIDR notation, for example `10.0.0.0/8`, or single addresses. */
export const blockListOf = (...ranges: string[]): BlockList => {
  const list = new BlockList()
  for (const range of ranges) {
    const [address, prefixLength] = range.split('/') as [string, string?]
    const isV4 = isIP(address) === 4
    list.addSubnet(address, Number(prefixLength ?? (isV4 ? 32 : 128)), isV4 ? 'ipv4' : 'ipv6')
  }
  return list
}

/**
 * Ranges that are not globally routable, from the IANA special-purpose address registries. 168.63.129.16 is the address
 * at which Azure hands a virtual machine its secrets.
 */
const RESERVED_V4 = blockListOf(
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/3', '168.63.129.16/32'],
)

/**
 * All IPv6 space that has been allocated. Everything outside is loopback, link-local, multicast, or embeds an IPv4
 * address (mapped, compatible, NAT64).
 */
const GLOBAL_V6 = blockListOf('2000::/3')

/** Exceptions inside GLOBAL_V6: protocol assignments including Teredo, documentation, 6to4. */
const RESERVED_V6 = blockListOf('2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20')

/**
 * True for the text of a globally routable IPv4 or IPv6 address. False for anything else, zone identifiers included.
 */
export const isPublicAddress = (text: string): boolean => {
  if (text.includes('%')) return false
  const family = isIP(text)
  if (family === 4) return !RESERVED_V4.check(text, 'ipv4')
  return family === 6 && GLOBAL_V6.check(text, 'ipv6') && !RESERVED_V6.check(text, 'ipv6')
}

const loopback = blockListOf('127.0.0.0/8', '::1/128', '::ffff:127.0.0.0/104')

/** True for addresses and names that only this machine has. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || (isIP(host) !== 0 && loopback.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4'))

/** The same for all addresses of one host: an IPv4 address, or the first 64 bits of an IPv6 one. */
export function hostNetworkOf(address: string): string {
  if (isIP(address) !== 6 || address.includes('.')) return address
  const [before = [], after = []] = address.split('::').map((groups) => groups.split(':').filter((one) => one !== ''))
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  const groups = [...before, ...zeros, ...after].slice(0, 4)
  return groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')
}

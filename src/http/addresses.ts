import { isIPv4, isIPv6 } from 'node:net'

/** `bits`: how many leading ones of `bytes` an address must share to lie in it. */
type Block = { bytes: number[]; bits: number }

/** The bytes of an address as text, 4 or 16 of them; undefined for anything else, an address with a zone included. */
const bytesOf = (text: string): number[] | undefined => {
  if (isIPv4(text)) return text.split('.').map(Number)
  if (!isIPv6(text) || text.includes('%')) return undefined
  const [before, after] = text.split('::').map(groupBytes) as [number[], number[]?]
  return after === undefined
    ? before
    : [...before, ...new Array<number>(16 - before.length - after.length).fill(0), ...after]
}

/** Half of an IPv6 address; its last group may be an IPv4 address. */
const groupBytes = (half: string): number[] =>
  half === ''
    ? []
    : half.split(':').flatMap((group) => {
        const value = parseInt(group, 16)
        return group.includes('.') ? group.split('.').map(Number) : [value >> 8, value & 255]
      })

const block = (text: string): Block => {
  const [address, bits] = text.split('/') as [string, string]
  return { bytes: bytesOf(address)!, bits: Number(bits) }
}

const lies = (address: number[], { bytes, bits }: Block): boolean =>
  address.length === bytes.length &&
  bytes.every((byte, index) => {
    const shared = Math.min(8, Math.max(0, bits - 8 * index))
    return (byte ^ address[index]!) >> (8 - shared) === 0
  })

/**
 * Not globally routable, by the IANA registries of special-purpose addresses; the last one is where Azure's machines
 * ask for their secrets.
 */
const RESERVED_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
  '168.63.129.16/32',
].map(block)

/**
 * All of IPv6 that is given out. What lies elsewhere is loopback, local, multicast, or an IPv4 address in other clothes
 * (mapped, compatible, NAT64).
 */
const GLOBAL_V6 = block('2000::/3')

/** Inside it: protocol assignments with Teredo, documentation, 6to4. */
const RESERVED_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'].map(block)

/**
 * Whether this is the text of an address that anybody on the internet reaches as we do. False for what is no address.
 */
export const isPublicAddress = (text: string): boolean => {
  const bytes = bytesOf(text)
  if (bytes === undefined) return false
  if (bytes.length === 4) return !RESERVED_V4.some((reserved) => lies(bytes, reserved))
  return lies(bytes, GLOBAL_V6) && !RESERVED_V6.some((reserved) => lies(bytes, reserved))
}

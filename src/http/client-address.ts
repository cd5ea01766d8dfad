import { isIP } from 'node:net'
import { blockListOf } from './addresses.ts'

/**
 * The address of the client itself: behind one of our proxies, the last one in `X-Forwarded-For`, which that proxy has
 * seen. `address`: of the connection.
 */
export function clientAddress(
  { headers }: Request,
  address: string | undefined,
  proxies: readonly string[],
): string | undefined {
  const forwarded = headers.get('x-forwarded-for')?.split(',').at(-1)?.trim() ?? ''
  return address !== undefined && isIP(forwarded) !== 0 && isAmong(address, proxies) ? forwarded : address
}

function isAmong(address: string, ranges: readonly string[]): boolean {
  const text = address.replace(/^::ffff:(?=\d+\.)/i, '')
  return blockListOf(...ranges).check(text, isIP(text) === 4 ? 'ipv4' : 'ipv6')
}

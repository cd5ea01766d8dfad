import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { hostNetworkOf, isPublicAddress } from '../../src/http/addresses.ts'

/** A range as numbers: an address is in it if its leading bits are those of `first`. */
type Range = { first: bigint; hostBits: bigint }

const numberOf = (parts: readonly number[], bitsPerPart: bigint): bigint =>
  parts.reduce((sum, part) => (sum << bitsPerPart) | BigInt(part), 0n)
const contains = ({ first, hostBits }: Range, address: bigint): boolean => address >> hostBits === first >> hostBits

const RESERVED_V4: [number[], prefixLength: number][] = [
  [[0, 0, 0, 0], 8],
  [[10, 0, 0, 0], 8],
  [[100, 64, 0, 0], 10],
  [[127, 0, 0, 0], 8],
  [[169, 254, 0, 0], 16],
  [[172, 16, 0, 0], 12],
  [[192, 0, 0, 0], 24],
  [[192, 0, 2, 0], 24],
  [[192, 88, 99, 0], 24],
  [[192, 168, 0, 0], 16],
  [[198, 18, 0, 0], 15],
  [[198, 51, 100, 0], 24],
  [[203, 0, 113, 0], 24],
  [[224, 0, 0, 0], 4],
  [[240, 0, 0, 0], 4],
  [[168, 63, 129, 16], 32],
]
const RESERVED_V6: [number[], prefixLength: number][] = [
  [[0x0000], 3],
  [[0x4000], 2],
  [[0x8000], 1],
  [[0x2001, 0], 23],
  [[0x2001, 0xdb8], 32],
  [[0x2002], 16],
  [[0x3fff], 20],
]
const rangesV4 = RESERVED_V4.map(
  ([bytes, length]): Range => ({
    first: numberOf(bytes, 8n),
    hostBits: BigInt(32 - length),
  }),
)
const rangesV6 = RESERVED_V6.map(
  ([groups, length]): Range => ({
    first: numberOf([...groups, ...new Array<number>(8 - groups.length).fill(0)], 16n),
    hostBits: BigInt(128 - length),
  }),
)

describe('isPublicAddress', () => {
  const anyV4 = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 })
  /** Addresses near the edges of the reserved ranges, where mistakes are. */
  const nearEdge = fc
    .tuple(fc.constantFrom(...RESERVED_V4), fc.integer({ min: 0, max: 3 }), fc.integer({ min: -1, max: 64 }))
    .map(([[bytes], at, by]) => bytes.map((byte, index) => (index === at ? (byte + by + 256) % 256 : byte)))

  test('an IPv4 address is public unless a registry reserves it', () => {
    fc.assert(
      fc.property(fc.oneof(anyV4, nearEdge), (bytes) => {
        const address = numberOf(bytes, 8n)
        return isPublicAddress(bytes.join('.')) === !rangesV4.some((range) => contains(range, address))
      }),
      { numRuns: 5000 },
    )
  })

  const group = fc.oneof(
    fc.constantFrom(0, 1, 0x2000, 0x2001, 0x2002, 0x3fff, 0x01ff, 0x0200, 0xdb8, 0xffff),
    fc.integer({ min: 0, max: 0xffff }),
  )
  const spelledV6 = fc
    .tuple(fc.array(group, { minLength: 8, maxLength: 8 }), fc.boolean(), fc.boolean(), fc.boolean())
    .map(([groups, upper, padded, dotted]) => {
      const hex = groups.map((one) => one.toString(16).padStart(padded ? 4 : 1, '0'))
      const tail = dotted
        ? [[groups[6]! >> 8, groups[6]! & 255, groups[7]! >> 8, groups[7]! & 255].join('.')]
        : hex.slice(6)
      const text = [...hex.slice(0, 6), ...tail].join(':')
      return {
        address: numberOf(groups, 16n),
        text: upper ? text.toUpperCase() : text,
        short: new URL(`http://[${text}]/`).hostname.slice(1, -1),
      }
    })

  test('an IPv6 address is public if it is allocated and not reserved, in every spelling', () => {
    fc.assert(
      fc.property(spelledV6, ({ address, text, short }) => {
        const isPublic = !rangesV6.some((range) => contains(range, address))
        return isPublicAddress(text) === isPublic && isPublicAddress(short) === isPublic
      }),
      { numRuns: 5000 },
    )
  })

  test('IPv4 addresses embedded in IPv6 are refused, public ones included', () => {
    for (const address of ['8.8.8.8', '127.0.0.1', '10.0.0.1', '169.254.169.254']) {
      const bytes = address.split('.').map(Number)
      const [high, low] = [(bytes[0]! << 8) | bytes[1]!, (bytes[2]! << 8) | bytes[3]!].map((one) => one.toString(16))
      for (const text of [
        `::ffff:${address}`,
        `::ffff:0:${address}`,
        `::${address}`,
        `64:ff9b::${address}`,
        `64:ff9b:1::${address}`,
        `2002:${high}:${low}::1`,
        `2001:0:${high}:${low}::1`,
      ])
        expect(isPublicAddress(text), text).toBe(false)
    }
  })

  test('the first and last address of each range are refused, and their neighbours are public', () => {
    const refused = [
      '0.0.0.0',
      '0.255.255.255',
      '10.0.0.0',
      '10.255.255.255',
      '100.64.0.0',
      '100.127.255.255',
      '127.0.0.0',
      '127.255.255.255',
      '169.254.0.0',
      '169.254.255.255',
      '172.16.0.0',
      '172.31.255.255',
      '192.0.0.0',
      '192.0.0.255',
      '192.0.2.0',
      '192.0.2.255',
      '192.88.99.0',
      '192.168.0.0',
      '192.168.255.255',
      '198.18.0.0',
      '198.19.255.255',
      '198.51.100.255',
      '203.0.113.0',
      '224.0.0.0',
      '255.255.255.255',
      '168.63.129.16',
    ]
    const accepted = [
      '1.0.0.0',
      '9.255.255.255',
      '11.0.0.0',
      '100.63.255.255',
      '100.128.0.0',
      '126.255.255.255',
      '128.0.0.0',
      '169.253.255.255',
      '169.255.0.0',
      '172.15.255.255',
      '172.32.0.0',
      '192.0.1.0',
      '192.0.3.0',
      '192.88.98.255',
      '192.167.255.255',
      '192.169.0.0',
      '198.17.255.255',
      '198.20.0.0',
      '203.0.112.255',
      '203.0.114.0',
      '223.255.255.255',
      '168.63.129.15',
      '2606:4700::1111',
      '2001:200::',
      '2001:4860:4860::8888',
      '2003::1',
      '3ffe::1',
      '2a00:1450::1',
    ]
    expect(refused.filter(isPublicAddress)).toEqual([])
    expect(accepted.filter((address) => !isPublicAddress(address))).toEqual([])
  })

  test('a text that is not an address is not public', () => {
    for (const text of [
      '',
      '8.8.8',
      '8.8.8.8.',
      '08.8.8.8',
      '8.8.8.8 ',
      '0x8.8.8.8',
      '2606:4700::1111%eth0',
      '2606::4700::1',
      '[2606:4700::1111]',
      'example.com',
      '8.8.8.8/32',
    ])
      expect(isPublicAddress(text), text).toBe(false)
  })
})

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:0DB8:0001:0002::9', '2001:db8:1:2'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
  ['', ''],
])('the network of the host with the address %p is %p', (address, network) => {
  expect(hostNetworkOf(address)).toBe(network)
})

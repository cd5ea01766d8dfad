import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { divideHalfEven, nanoOf, usdOf, usdText } from '../../src/money.ts'

describe('amounts', () => {
  test.each([
    ['12.5', 12_500_000_000n],
    ['0', 0n],
    ['-0.000001', -1_000n],
    ['+3', 3_000_000_000n],
    ['0.000000001', 1n],
    ['1e-9', 1n],
    ['2.5E3', 2_500_000_000_000n],
    ['1.0000000000000', 1_000_000_000n],
    ['9007199254.740993001', 9_007_199_254_740_993_001n],
    [0.1, 100_000_000n],
    [1e-7, 100n],
    [1e21, 10n ** 30n],
    ['1e30', 10n ** 39n],
    [-0, 0n],
  ])('%p USD are read exactly', (usd, nano) => expect(nanoOf(usd)).toBe(nano))

  test.each(['', ' 1', '1,5', '.5', '1.', '0x10', 'NaN', '1e', '1e99', '1e-999', '--1', '1_000', NaN, Infinity, 1e300])(
    '%p is refused as an amount of USD',
    (usd) => expect(() => nanoOf(usd)).toThrow(/is not an amount of USD/),
  )

  test.each(['0.0000000001', '1.1234567891', 1e-10, 0.1 + 0.2])('%p USD has too many decimals and is refused', (usd) =>
    expect(() => nanoOf(usd)).toThrow(/more than 9 decimals/),
  )

  test.each([
    [12_500_000_000n, '12.5'],
    [1_500_000_000n, '1.5'],
    [-1_000n, '-0.000001'],
    [0n, '0'],
    [1n, '0.000000001'],
    [-12_000_000_000n, '-12'],
    [10n ** 18n, '1000000000'],
  ])('%p nano-USD are written as %p', (nano, text) => expect(usdText(nano)).toBe(text))

  test('a written amount is read back exactly, and the double is the nearest one', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n }), (nano) => {
        expect(nanoOf(usdText(nano))).toBe(nano)
        expect(usdOf(nano)).toBe(Number(`${nano}e-9`))
      }),
    )
  })
})

describe('rounding half to even', () => {
  test.each([
    [5n, 10n, 0n],
    [15n, 10n, 2n],
    [25n, 10n, 2n],
    [35n, 10n, 4n],
    [-5n, 10n, 0n],
    [-15n, 10n, -2n],
    [-25n, 10n, -2n],
    [24n, 10n, 2n],
    [26n, 10n, 3n],
    [1n, 2n, 0n],
    [3n, 2n, 2n],
    [7n, 1n, 7n],
    [1n, 3n, 0n],
    [2n, 3n, 1n],
  ])('%p / %p is %p', (a, b, quotient) => expect(divideHalfEven(a, b)).toBe(quotient))

  test('a quotient is at most a half away, and even at a half', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
        fc.bigInt({ min: 1n, max: 10n ** 12n }),
        (a, b) => {
          const off = (divideHalfEven(a, b) * b - a) * 2n
          expect(off >= -b && off <= b).toBe(true)
          if (off === b || off === -b) expect(divideHalfEven(a, b) % 2n).toBe(0n)
        },
      ),
    )
    // Random operands rarely give exactly a half.
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }),
        fc.bigInt({ min: 1n, max: 10n ** 9n }),
        (whole, half) => {
          expect(divideHalfEven(whole * 2n * half + half, 2n * half)).toBe(whole % 2n === 0n ? whole : whole + 1n)
        },
      ),
    )
  })
})

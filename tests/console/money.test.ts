import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { changePercent, compareUsd, exactUsd, headUsd, listUsd, sumUsd } from '../../console/parts/money.ts'
import { usdText } from '../../src/money.ts'

const amounts = fc.bigInt({ min: -(10n ** 24n), max: 10n ** 24n })

describe('money on the page', () => {
  test('a list has six decimals, rounded, with thousands grouped', () => {
    expect(['0', '0.005211', '0.0000005', '0.0000015', '12345.6', '-0.00997349'].map(listUsd)).toEqual([
      '0.000000',
      '0.005211',
      '0.000000',
      '0.000002',
      '12,345.600000',
      '-0.009973',
    ])
  })

  test('a head has two decimals, and four significant digits below one USD', () => {
    expect(['0', '12.4', '1.005', '0.4', '0.123456789', '0.005211', '0.000000007', '999999.999'].map(headUsd)).toEqual([
      '0.00',
      '12.40',
      '1.00',
      '0.40',
      '0.1235',
      '0.005211',
      '0.000000007',
      '1,000,000.00',
    ])
  })

  test('an absent amount is a dash', () => {
    expect([listUsd(null), headUsd(null), exactUsd(null)]).toEqual(['-', '-', '-'])
  })

  test('no digit is lost in an exact text or a sum, however large the amount is', () => {
    fc.assert(
      fc.property(fc.array(amounts, { maxLength: 8 }), (all) => {
        const sum = all.reduce((total, one) => total + one, 0n)
        expect(sumUsd(all.map(usdText))).toBe(usdText(sum))
        expect(exactUsd(usdText(sum)).replaceAll(',', '')).toBe(`${usdText(sum)} USD`)
      }),
    )
  })

  test('the rounding of a list is never off by more than half of its last digit', () => {
    fc.assert(
      fc.property(amounts, (nano) => {
        const [whole = '', fraction = ''] = listUsd(usdText(nano)).replaceAll(',', '').split('.')
        const shown = BigInt(whole + fraction) * 1000n
        const off = shown > nano ? shown - nano : nano - shown
        expect(off <= 500n).toBe(true)
      }),
    )
  })

  test('amounts are compared, and a change is given in whole percent', () => {
    expect(['0.2', '10', '-1'].sort(compareUsd)).toEqual(['-1', '0.2', '10'])
    expect(changePercent('108', '100')).toBe(8)
    expect(changePercent('50', '100')).toBe(-50)
    expect(changePercent('1', '0')).toBeUndefined()
  })
})

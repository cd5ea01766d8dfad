import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { isRawJson, parseExact, parseWithExact, readObject, stringifyAs } from '../../src/json/exact.ts'

const BIG = '12345678901234567890'

test('parseExact prints numbers as they were spelled', () => {
  for (const text of [`{"a":[${BIG},1.0,-0,1e3,0.10,7]}`, '1.0', '[]'])
    expect(JSON.stringify(parseExact(text))).toBe(text)
  expect(isRawJson(parseExact('1.0'))).toBe(true)
  expect(parseExact('{"n":7}')).toEqual({ n: 7 })
  expect(() => parseExact('{"a":1.0')).toThrow(SyntaxError)
})

test('parseExact and JSON.parse agree on every number that a double prints as it is spelled', () => {
  const digits = fc.stringMatching(/^[0-9]{1,17}$/)
  const number = fc
    .tuple(
      fc.constantFrom('', '-'),
      fc.oneof(fc.constantFrom('0', '1', '10'), digits),
      fc.option(fc.oneof(digits, fc.constantFrom('0', '5', '50', '05', '00000012'))),
      fc.option(fc.constantFrom('e3', 'E+20', 'e-7', 'e0')),
    )
    .map(([sign, whole, fraction, exponent]) =>
      [sign, whole.replace(/^0+(?=.)/, ''), fraction === null ? '' : `.${fraction}`, exponent ?? ''].join(''),
    )
  fc.assert(
    fc.property(number, fc.string(), (one, text) => {
      const source = JSON.stringify({ [text]: text, n: 0 }).replace(/0}$/, `${one}}`)
      expect(JSON.stringify(parseExact(source))).toBe(source)
      expect(isRawJson((parseExact(source) as { n: unknown }).n)).toBe(String(Number(one)) !== one)
    }),
    { numRuns: 2_000 },
  )
})

test('parseExact takes little longer than JSON.parse where no number is spelled in another way', () => {
  const text = JSON.stringify(Array.from({ length: 50_000 }, (_, index) => [index * 7.5, `1e3 ${index}`]))
  const times = [() => parseExact(text), () => JSON.parse(text) as unknown].map((parse) => ({
    parse,
    fastest: Infinity,
  }))
  // One after the other, so that what slows down the machine for a while slows down both.
  for (let round = 0; round < 15; round++)
    for (const one of times) {
      const startedAt = performance.now()
      one.parse()
      one.fastest = Math.min(one.fastest, performance.now() - startedAt)
    }
  expect(times[0]!.fastest / times[1]!.fastest).toBeLessThan(3)
})

test('parseWithExact keeps the spelling only in members with the given name', () => {
  const value = parseWithExact(`{"n":${BIG},"calls":[{"args":{"n":${BIG}}}]}`, 'args')
  expect(JSON.stringify(value)).toBe(`{"n":${Number(BIG)},"calls":[{"args":{"n":${BIG}}}]}`)
})

test('readObject reads a complete object and nothing else', () => {
  expect(JSON.stringify(readObject(` {"n": ${BIG}} `))).toBe(`{"n":${BIG}}`)
  for (const text of ['', ' ', '{"a":1', '[1]', '1.0', '"a"', 'null', 'x']) expect(readObject(text)).toBeUndefined()
  const nested = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
  expect(readObject(nested(1_000))).toBeDefined()
  expect(readObject(nested(1_001))).toBeUndefined()
})

test('stringifyAs spells big integers as the source does, unless two of them round to the same double', () => {
  const source =
    '{"a": 12345678901234567890, "b": [-9223372036854775807], "c": "12345678901234567890", ' +
    '"d": 9007199254740993, "e": 9007199254740992}'
  expect(stringifyAs(source, JSON.parse(source))).toBe(
    '{"a":12345678901234567890,"b":[-9223372036854775807],"c":"12345678901234567890",' +
      '"d":9007199254740992,"e":9007199254740992}',
  )
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(stringifyAs(JSON.stringify(value), value)).toBe(JSON.stringify(value))
    }),
  )
})

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

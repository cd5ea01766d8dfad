import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { readObject } from '../../src/json/exact.ts'
import { ObjectText } from '../../src/json/object-text.ts'
import { runs } from '../runs.ts'

/** Objects whose text comes in pieces. */

const inPieces = (text: string, cuts: readonly number[]): ObjectText => {
  const object = new ObjectText()
  const at = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].sort((a, b) => a - b)
  for (let n = 1; n < at.length; n++) object.add(text.slice(at[n - 1], at[n]))
  return object
}
const cuts = fc.array(fc.nat(200), { maxLength: 8 })
const values = fc.oneof(
  fc.json({ stringUnit: 'binary' }),
  fc.jsonValue().map((value) => JSON.stringify(value, null, 2)),
  fc.constantFrom(
    '{"a":1e5,"b":-0.10E-3,"n":123456789012345678901234567890}',
    '{"a":"\\u00e9\\ud83d\\ude00 \\"\\\\\\/\\b\\f\\n\\r\\t"}',
    '{"a":"\ud83d"}',
    '{"a":true,"b":[false,null,[],{}]}',
    ' { } ',
  ),
)

/** An edit that mostly makes a text invalid. */
const damaged = fc
  .tuple(values, fc.nat(), fc.constantFrom('', ',', '"', '}', ']', ':', '0', '01', 'x', '\\', '\n', '-', '\u0001', 'E'))
  .map(([text, at, inserted]) => {
    const from = at % (text.length + 1)
    return text.slice(0, from) + inserted + text.slice(inserted === '' ? from + 1 : from)
  })

test('a text is an object, with the same value, exactly where JSON.parse finds one, however it is cut', () => {
  let objects = 0
  fc.assert(
    fc.property(
      fc.oneof(
        values,
        values.map((value) => `{"a":${value}}`),
        damaged,
        damaged.map((value) => `{"a":${value}}`),
      ),
      cuts,
      (text, where) => {
        const { complete } = inPieces(text, where)
        const parsed = readObject(text)
        expect(complete === undefined).toBe(parsed === undefined)
        if (complete === undefined) return
        objects++
        expect(JSON.stringify(readObject(complete))).toBe(JSON.stringify(parsed))
        expect(complete.isWellFormed()).toBe(true)
      },
    ),
    { numRuns: runs(4_000, 200_000) },
  )
  expect(objects).toBeGreaterThan(1_000)
})

test('white space between values is left out, and their spelling stays', () => {
  const text = ' {\r\n\t"a" : [ 1.0 , -0 ] , "b\\u0041" : " x " }\n'
  for (let at = 0; at <= text.length; at++)
    expect(inPieces(text, [at]).complete).toBe('{"a":[1.0,-0],"b\\u0041":" x "}')
})

test('what is nested too deeply to be written again is no object', () => {
  const nested = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
  expect(inPieces(nested(1_000), []).complete).toBe(nested(1_000))
  expect(inPieces(nested(1_001), []).complete).toBeUndefined()
  expect(readObject(nested(1_001))).toBeUndefined()
})

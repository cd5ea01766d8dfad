import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { positionOfSyntaxError } from '../../src/json/syntax-error.ts'
import { runs } from '../runs.ts'

describe('the position of a syntax error', () => {
  test.each([
    ['{"a":1,}', 'line 1, column 8'],
    ['{\n  "a": 1\n  "b": 2\n}', 'line 3, column 3'],
    ['{"a": [1, 2}', 'line 1, column 12'],
    ["{'a':1}", 'line 1, column 2'],
    ['{"a":NaN}', 'line 1, column 6'],
    ['{"a":01}', 'line 1, column 7'],
    ['{"a":"\\x"}', 'line 1, column 7'],
    ['{"a":"b\nc"}', 'line 1, column 8'],
    ['{"a":"b', 'line 1, column 8'],
    ['{"a":[', 'line 1, column 7'],
    ['{"a" 1}', 'line 1, column 6'],
    ['{"a":1} {}', 'line 1, column 9'],
    ['[1]]', 'line 1, column 4'],
    ['', 'line 1, column 1'],
  ])('%j is wrong at %s', (text, place) => {
    expect(positionOfSyntaxError(text)).toBe(place)
  })

  test('a text has a place exactly if JSON.parse refuses it', () => {
    const valid = fc.json({ maxDepth: 4 })
    const broken = fc.tuple(
      valid,
      fc.nat(),
      fc.constantFrom('', '"', '{', ']', ',', ':', '\\', '\u0001', '1', 'e', ' '),
    )
    fc.assert(
      fc.property(fc.oneof(valid, broken), (given) => {
        const [text, at, change] = typeof given === 'string' ? [given, 0, undefined] : given
        const position = at % (text.length + 1)
        const changed = change === undefined ? text : text.slice(0, position) + change + text.slice(position + 1)
        let isValid = true
        try {
          JSON.parse(changed)
        } catch {
          isValid = false
        }
        expect([changed, positionOfSyntaxError(changed) === undefined]).toEqual([changed, isValid])
      }),
      { numRuns: runs(2_000, 200_000) },
    )
  })

  test('the end of a very long text is not searched', () => {
    expect(positionOfSyntaxError(`["${'x'.repeat(5_000_000)}",]`)).toBeUndefined()
    expect(positionOfSyntaxError(`[${'['.repeat(1_000_000)}`)).toBe('line 1, column 1000002')
  })
})

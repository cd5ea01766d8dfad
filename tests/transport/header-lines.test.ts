import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { HeaderLines } from '../../src/http/header-lines.ts'

const latin1 = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code))
const spaces = fc.stringMatching(/^[ \t]{0,3}$/)
const text = fc.string({ unit: latin1, maxLength: 12 }).filter((one) => !/[\0\r\n]/.test(one))
const names = fc.constantFrom(
  'retry-after',
  'Retry-After',
  'content-type',
  'x-ratelimit-limit',
  'X-RATELIMIT-limit',
  'a',
)
const lines = fc.array(
  fc.tuple(
    names,
    fc.tuple(spaces, text, spaces).map((parts) => parts.join('')),
  ),
  { maxLength: 8 },
)

const written = (headers: [string, string][]): string => headers.map(([name, value]) => `${name}:${value}\r\n`).join('')

/** The runtime's own reading; undefined where it refuses a line. */
function headersOf(all: [string, string][]): Headers | undefined {
  const headers = new Headers()
  try {
    for (const [name, value] of all) headers.append(name, value)
    return headers
  } catch {
    return undefined
  }
}

test('headers of a response have the values that Headers gives them, repeated ones joined', () => {
  fc.assert(
    fc.property(lines, (all) => {
      const read = HeaderLines.of(written(all))!
      const expected = headersOf(all)!
      for (const name of ['retry-after', 'content-type', 'x-ratelimit-limit', 'a', 'limit', 'b'])
        expect(read.get(name)).toBe(expected.get(name))
      const joined = new Headers()
      for (const [name, one] of read) joined.append(name, one)
      expect([...joined]).toEqual([...expected])
    }),
  )
})

test('the characters that Headers refuses in names and values are refused', () => {
  for (let code = 0; code < 256; code++) {
    const character = String.fromCharCode(code)
    const headers: [string, string][] = [
      [`a${character}`, 'b'],
      ['a', `b${character}c`],
    ]
    for (const header of headers) {
      if (/[\r\n]/.test(character) || header[0] === 'a:') continue
      expect([header, HeaderLines.of(written([header])) === undefined]).toEqual([
        header,
        headersOf([header]) === undefined,
      ])
    }
  }
})

test('a line break in a value, and a line without a colon, are refused', () => {
  for (const bad of [
    'a: b\rc\r\n',
    'a: b\nc: d\r\n',
    'a\r\n',
    'a: b\r\nc\r\n',
    ' a: b\r\n',
    'a: b\r\n c: d\r\n',
    'a: b',
  ])
    expect(HeaderLines.of(bad)).toBeUndefined()
  expect(HeaderLines.of('')!.get('a')).toBeNull()
})

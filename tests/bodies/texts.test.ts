import { describe, expect, test } from 'bun:test'
import { blankTexts, shortenData } from '../../src/pipeline/bodies/shorten.ts'
import { TimedText } from '../../src/pipeline/bodies/timed-text.ts'

/** Bodies on their way to the disk: what is replaced in them, and the times of what is left. */

const timed = (...pieces: string[]): TimedText => {
  let from = 0
  const times = pieces.map((piece, index) => {
    const time = { from, atMs: index * 10 }
    from += piece.length
    return time
  })
  return new TimedText(pieces.join(''), times)
}

/** The text in the pieces in which it came. */
const pieces = ({ text, times }: TimedText): string[] =>
  times.map(({ from }, index) => text.slice(from, times[index + 1]?.from))

describe('times', () => {
  test.each([
    ['before, within and after a piece', ['one ', 'two ', 'three'], /t\w+/g, ['one ', '<> ', '<>']],
    ['over two pieces', ['one t', 'wo three'], /two/g, ['one <>', ' three']],
    ['over a whole piece', ['a b', 'c', 'd e'], /bcd/g, ['a <>', '', ' e']],
    ['nothing', ['a', 'b'], /x/g, ['a', 'b']],
  ] as const)('stay with what is left where a replacement is %s', (_, parts, pattern, left) => {
    const text = timed(...parts)
    text.replace(pattern, () => '<>')
    expect(pieces(text)).toEqual([...left])
    expect(text.times.map(({ atMs }) => atMs)).toEqual(parts.map((__, index) => index * 10))
  })

  test('a long text is cut in the middle, between characters', () => {
    const text = timed('€'.repeat(200), 'middle', 'ü'.repeat(300))
    expect(text.cut(400)).toBe(600 + 6 + 600 - 168 - 168)
    expect(text.text).toBe(`${'€'.repeat(56)}\n<870 bytes left out>\n${'ü'.repeat(84)}`)
    expect(Buffer.byteLength(text.text)).toBeLessThanOrEqual(400)
    expect(text.cut(400)).toBe(0)
  })
})

const DATA = Buffer.from(Array.from({ length: 900 }, (_, index) => (index * 91) % 251)).toString('base64')

describe('long data', () => {
  const shortened = (text: string): string => {
    const one = timed(text)
    shortenData(one)
    return one.text
  }

  test('is named by the type that its URL or its neighbour has', () => {
    expect(shortened(`"url":"data:audio/wav;base64,${DATA}"`)).toMatch(
      /^"url":"<audio\/wav 0\.9 kB sha256 [\da-f]{16}>"$/,
    )
    expect(shortened(`{"mimeType": "image/png","data":"${DATA}"}`)).toContain('"data":"<image/png 0.9 kB')
    expect(shortened(`{"signature":"${DATA}"}`)).toContain('"signature":"<base64 0.9 kB')
  })

  test('is no long word, and no short data', () => {
    const plain = `${'x'.repeat(2_000)} ${DATA.slice(0, 500)}`
    expect(shortened(plain)).toBe(plain)
  })

  test('takes a time that does not grow with the square of the text', () => {
    const long = `${'aB3'.repeat(100)}.`.repeat(20_000)
    const startedAt = performance.now()
    expect(shortened(long)).toBe(long)
    expect(performance.now() - startedAt).toBeLessThan(5_000)
  })
})

describe('blanked texts', () => {
  const blanked = (text: string, kinds: Parameters<typeof blankTexts>[1] = []): string => {
    const one = timed(text)
    blankTexts(one, kinds, ['a configured one'])
    return one.text
  }

  test('are replaced where they are credentials, whatever the settings', () => {
    expect(blanked('x sk-proj-abcdef123456 y')).toBe('x [hidden] y')
    expect(blanked('Bearer abc.def.ghi and a configured one')).toBe('Bearer [hidden] and [hidden]')
    expect(blanked('"api_key": "0123456789abc"')).toBe('"api_key": "[hidden]"')
  })

  test('others where they are asked for', () => {
    const text =
      'ann.lee+x@mail.example.org, +49 (0)171 2345678, (212) 555-0147, 4111-1111-1111-1111, 4111-1111-1111-1112'
    expect(blanked(text)).toBe(text)
    expect(blanked(text, ['emails', 'phones', 'cards'])).toBe('[e-mail], [phone], [phone], [card], 4111-1111-1111-1112')
    // Times, versions, amounts and ids are none of them.
    const facts =
      '{"created":1732322222,"id":"msg_0123456789","usd":0.000123456789,"at":"2026-11-23T14:07:00Z","v":"1.2.345"}'
    expect(blanked(facts, ['emails', 'phones', 'cards'])).toBe(facts)
  })
})

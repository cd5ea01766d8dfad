import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import { CHUNK, COUNTED_CHARACTERS, GrowingText } from '../../src/ledger/counted-text.ts'

const grown = (pieces: readonly string[]): GrowingText => {
  const text = new GrowingText()
  for (const piece of pieces) text.append(piece)
  return text
}

/** New strings, as parsing makes them. */
const pieces = (count: number): string[] => JSON.parse(JSON.stringify(Array.from({ length: count }, (_, n) => `${n}`)))

test('a text has its whole length, and keeps its beginning as far as that is counted', () => {
  const short = pieces(1_000)
  expect(grown(short).beginning).toBe(short.join(''))
  const long = pieces(50_000)
  const text = grown(long)
  expect(text.length).toBe(long.join('').length)
  expect(long.join('').startsWith(text.beginning)).toBe(true)
  expect(text.beginning.length).toBeGreaterThanOrEqual(COUNTED_CHARACTERS)
  expect(text.beginning.length).toBeLessThan(COUNTED_CHARACTERS + CHUNK + 10)
  text.clear()
  expect([text.length, text.beginning]).toEqual([0, ''])
})

test('a text of many small pieces takes little more memory than its characters', () => {
  const kept: GrowingText[] = []
  const begin = memory()
  for (let n = 0; n < 20; n++) kept.push(grown(pieces(50_000)))
  expect((memory() - begin) / kept.length).toBeLessThan(4 * COUNTED_CHARACTERS)
})

test('wide characters do not double the memory of the others', () => {
  const kept: GrowingText[] = []
  const begin = memory()
  for (let n = 0; n < 20; n++) kept.push(grown(pieces(50_000).map((piece, at) => (at % 100 === 0 ? '\u4e16' : piece))))
  expect(kept[0]!.beginning).toStartWith('\u4e161234')
  expect((memory() - begin) / kept.length).toBeLessThan(3 * COUNTED_CHARACTERS)
})

function memory(): number {
  Bun.gc(true)
  const { heapSize, extraMemorySize } = heapStats()
  return heapSize + extraMemorySize
}

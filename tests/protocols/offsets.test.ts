import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { TextOffsets } from '../../src/protocols/offsets.ts'
import { protocols } from '../../src/protocols/index.ts'

const units = { 'code points': (text: string) => [...text].length, bytes: (text: string) => Buffer.byteLength(text) }

/** Texts that are longer than what is measured at once, plain at first or everywhere. */
const piece = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 20 }),
  fc.integer({ min: 1, max: 9_000 }).map((length) => 'a'.repeat(length)),
  fc.constantFrom('é', '😀', '\ud83d', '\ude00'),
)

test.each(['code points', 'bytes'] as const)('offsets of a text in pieces are those of its %s', (unit) => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.nat(), (pieces, at) => {
      const offsets = new TextOffsets('', unit)
      const countOf = units[unit]
      for (const [index, one] of pieces.entries()) {
        offsets.append(one)
        // A measured text may end within a pair.
        if (index % 2 === at % 2)
          expect(offsets.length).toBe(
            countOf(
              pieces
                .slice(0, index + 1)
                .join('')
                .toWellFormed(),
            ),
          )
      }
      const text = pieces.join('').toWellFormed()
      fc.pre(text === pieces.join(''))
      expect(offsets.length).toBe(countOf(text))
      const start = [...text].slice(0, at % ([...text].length + 1)).join('')
      expect(offsets.toProtocol(start.length)).toBe(countOf(start))
      if (start.length < text.length)
        expect(offsets.fromProtocol(countOf(start), countOf(text))).toEqual({ start: start.length, end: text.length })
    }),
  )
})

/** Looking at the heap is as much work as collecting its garbage. */
function heap(): { size: number; withExtra: number } {
  Bun.gc(true)
  const { heapSize, extraMemorySize } = heapStats()
  return { size: heapSize, withExtra: heapSize + extraMemorySize }
}

test('a long response in many pieces takes little memory while it is read', () => {
  const reader = protocols['chat.completions'].call.reader({})
  const delta = (content: string): string =>
    JSON.stringify({ id: 'a', model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: null }] })
  reader.read({ data: delta('begin') })
  const before = heap().withExtra
  for (let n = 0; n < 20_000; n++) reader.read({ data: delta(`${n} ${'x'.repeat(1_000)}`) })
  expect(heap().withExtra - before).toBeLessThan(5e6)
  expect(reader.end()).toBeArray()
})

test('short pieces that were not measured yet take little memory', () => {
  const before = heap().size
  const all = Array.from({ length: 50 }, () => {
    const offsets = new TextOffsets('', 'code points')
    for (let n = 0; n < 4_000; n++) offsets.append(`${n % 10}abc`)
    return offsets
  })
  expect((heap().size - before) / all.length).toBeLessThan(60_000)
  expect(all[0]!.length).toBe(16_000)
})

test.each([
  ['an early emoji', 'a', 100_000],
  ['emojis everywhere', '😀 and 中文 ', 800_000],
])('a long text takes little memory: %s', (_, text, mostBytes) => {
  const before = heap().withExtra
  const offsets = new TextOffsets('😀', 'code points')
  for (let length = 2; length < 500_000; length += text.length) offsets.append(text)
  expect(offsets.length).toBeGreaterThan(400_000)
  expect(heap().withExtra - before).toBeLessThan(mostBytes)
  expect(offsets.toProtocol(2)).toBe(1)
})

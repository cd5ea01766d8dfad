import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { nearest } from '../../src/nearest.ts'

test('close spellings are found, the closest first', () => {
  expect(nearest('sandbox/chta', ['sandbox/chat', 'sandbox/gemini'])).toEqual(['sandbox/chat'])
  expect(nearest('prot', ['host', 'port'])).toEqual(['port'])
  expect(nearest('PORT', ['port'])).toEqual(['port'])
  expect(nearest('xyz', ['port', 'host'])).toEqual([])
  expect(nearest('opus', ['anthropic/claude-opus-4-8', 'anthropic/claude-opus-5', 'openai/gpt-5'])).toEqual([
    'anthropic/claude-opus-5',
    'anthropic/claude-opus-4-8',
  ])
  expect(nearest('a', ['b', 'c', 'd', 'e', 'f'])).toHaveLength(3)
  expect(nearest('abcd', ['abce', 'abcf'], 1)).toEqual(['abce'])
})

test('a name with one typing mistake is found', () => {
  const name = fc.stringMatching(/^[a-z/-]{3,12}$/)
  fc.assert(
    fc.property(name, fc.nat(20), fc.constantFrom('drop', 'double', 'swap'), (wanted, at, slip) => {
      const i = at % (wanted.length - 1)
      const typed =
        slip === 'drop'
          ? wanted.slice(0, i) + wanted.slice(i + 1)
          : slip === 'double'
            ? wanted.slice(0, i) + wanted[i]! + wanted.slice(i)
            : wanted.slice(0, i) + wanted[i + 1]! + wanted[i]! + wanted.slice(i + 2)
      expect(nearest(typed, ['0'.repeat(wanted.length), wanted])).toEqual([wanted])
    }),
  )
})

test('the banded edit distance equals that of the whole table', () => {
  const plain = (a: string, b: string): number => {
    const table = Array.from({ length: a.length + 1 }, (_, i) =>
      Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : i)),
    )
    for (let i = 1; i <= a.length; i++)
      for (let j = 1; j <= b.length; j++) {
        table[i]![j] = Math.min(
          table[i]![j - 1]! + 1,
          table[i - 1]![j]! + 1,
          table[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1),
        )
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
          table[i]![j] = Math.min(table[i]![j]!, table[i - 2]![j - 2]! + 1)
      }
    return table[a.length]![b.length]!
  }
  // Their first letters differ, so neither contains the other except at its end, which the guard below excludes.
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 10, maxLength: 14 })
  fc.assert(
    fc.property(word, word, (a, b) => {
      const [wanted, known] = [`x${a}`, `y${b}`]
      const allowed = Math.min(4, Math.floor(wanted.length / 3))
      if (wanted.includes(known) || known.includes(wanted)) return
      expect([wanted, known, nearest(wanted, [known]).length]).toEqual([
        wanted,
        known,
        plain(wanted, known) <= allowed ? 1 : 0,
      ])
    }),
    { numRuns: 500 },
  )
})

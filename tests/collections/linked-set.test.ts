import { describe, expect, test } from 'bun:test'
import { edenGC, fullGC, heapStats } from 'bun:jsc'
import fc from 'fast-check'
import { type Listed, LinkedSet } from '../../src/collections/linked-set.ts'
import { runs } from '../runs.ts'

type Member = Listed & { id: number }

describe('LinkedSet', () => {
  test('has what a Set would have after the same steps, in the same order', () => {
    const step = fc.record({ isAdded: fc.boolean(), id: fc.nat(9) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const members: Member[] = Array.from({ length: 10 }, (_, id) => ({ id }))
        const linked = new LinkedSet<Member>()
        const plain = new Set<Member>()
        for (const { isAdded, id } of steps) {
          const member = members[id]!
          if (!isAdded) expect(linked.delete(member)).toBe(plain.delete(member))
          else {
            linked.add(member)
            plain.add(member)
          }
          expect(linked.has(member)).toBe(plain.has(member))
        }
        expect([...linked]).toEqual([...plain])
        expect(linked.size).toBe(plain.size)
        expect(linked.first).toBe([...plain][0])
      }),
      { numRuns: runs(200, 20_000) },
    )
  })

  test('a member of another set is no member', () => {
    const [one, other] = [new LinkedSet<Member>(), new LinkedSet<Member>()]
    const member: Member = { id: 0 }
    one.add(member)
    expect(other.has(member)).toBe(false)
    expect(other.delete(member)).toBe(false)
    expect(one.delete(member)).toBe(true)
    other.add(member)
    expect([...other]).toEqual([member])
  })

  test('members that have left do not survive small collections', () => {
    const linked = new LinkedSet<Listed & { bytes: ArrayBuffer }>()
    const present: (Listed & { bytes: ArrayBuffer })[] = []
    const buffers = (): number => heapStats().objectTypeCounts.ArrayBuffer ?? 0
    const comeAndGo = (): void => {
      for (let i = 0; i < 500; i++) {
        const member = { bytes: new ArrayBuffer(8) }
        present.push(member)
        linked.add(member)
        if (present.length > 8) linked.delete(present.shift()!)
      }
    }
    comeAndGo()
    fullGC()
    const before = buffers()
    for (let round = 0; round < 4; round++) {
      comeAndGo()
      edenGC()
    }
    // A Set would keep all 2,000.
    expect(buffers() - before).toBeLessThan(200)
  })
})

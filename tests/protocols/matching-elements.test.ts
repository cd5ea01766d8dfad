import { expect, test } from 'bun:test'
import { matchingElements, remember } from '../../src/protocols/element-memory.ts'

/** Elements of arrays that come again are tested once. */

test('elements of a growing array are tested once, and those of a changed one again', () => {
  const tested: number[] = []
  const isEven = ({ n }: { n: number }): boolean => {
    tested.push(n)
    return n % 2 === 0
  }
  const [one, two, three, four] = [1, 2, 3, 4].map((n) => ({ n }))
  const first = [one!, two!]
  remember(first)
  expect(matchingElements(first, isEven)).toEqual([two!])
  const grown = [one!, two!, three!, four!]
  remember(grown, first)
  expect(matchingElements(grown, isEven)).toEqual([two!, four!])
  expect(tested).toEqual([1, 2, 3, 4])
  const edited = [one!, four!]
  remember(edited, grown)
  expect(matchingElements(edited, isEven)).toEqual([four!])
  expect(tested).toEqual([1, 2, 3, 4, 4])
})

test('elements of an array that is not remembered are filtered', () => {
  expect(matchingElements([1, 2, 3], (n) => n > 1)).toEqual([2, 3])
})

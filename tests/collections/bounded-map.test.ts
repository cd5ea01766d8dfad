import { expect, test } from 'bun:test'
import { BoundedMap } from '../../src/collections/bounded-map.ts'

test('a bounded map is emptied when a new key would exceed its size', () => {
  const map = new BoundedMap<string, number>(2)
  map.set('a', 1).set('b', 2)
  map.set('b', 3)
  expect([...map]).toEqual([
    ['a', 1],
    ['b', 3],
  ])
  map.set('c', 4)
  expect([...map]).toEqual([['c', 4]])
})

import { expect, test } from 'bun:test'
import { LoopTurns } from '../../src/http/loop-turns.ts'

/** Requests that come without a pause, as the runtime gives them while it accepts connections. */

const begin = (turns: LoopTurns, count: number): (Promise<void> | undefined)[] =>
  Array.from({ length: count }, () => turns.wait())

test('requests above those of one turn go on in later turns in their order, with other work between them', async () => {
  const turns = new LoopTurns()
  const order: (number | 'other work')[] = []
  const waits = begin(turns, 1_000)
  expect(waits.findIndex((wait) => wait !== undefined)).toBe(256)
  setImmediate(() => order.push('other work'))
  await Promise.all(waits.map((wait, index) => wait?.then(() => order.push(index))))
  expect(order.filter((one) => one !== 'other work')).toEqual(Array.from({ length: 744 }, (_, n) => 256 + n))
  expect(order.indexOf('other work')).toBeLessThan(order.length - 1)
  expect(turns.wait()).toBeUndefined()
})

test('a request that comes while others wait goes on after them', async () => {
  const turns = new LoopTurns()
  const waits = begin(turns, 300)
  const order: string[] = []
  for (const wait of waits) void wait?.then(() => order.push('before'))
  await new Promise((resolve) => setImmediate(resolve))
  await turns.wait()!.then(() => order.push('after'))
  expect(order.at(-1)).toBe('after')
  expect(order).toHaveLength(45)
})

test('requests of many turns do not wait', async () => {
  const turns = new LoopTurns()
  for (let turn = 0; turn < 50; turn++) {
    expect(begin(turns, 100).filter((wait) => wait !== undefined)).toEqual([])
    await new Promise((resolve) => setImmediate(resolve))
  }
})

import { expect, test } from 'bun:test'
import { exclusiveTurn } from '../../src/json/exclusive-turn.ts'

test('of many that wait for a turn of their own, each gets one, in the order of their steps', async () => {
  let turn = 0
  let isOver = false
  const countTurns = (): void => {
    turn++
    if (!isOver) setImmediate(countTurns)
  }
  setImmediate(countTurns)
  const steps: { who: number; turn: number }[] = []
  const work = async (who: number): Promise<void> => {
    for (let step = 0; step < 3; step++) {
      await exclusiveTurn()
      steps.push({ who, turn })
    }
  }
  await Promise.all([work(1), work(2), work(3)])
  isOver = true
  expect(steps.map(({ who }) => who)).toEqual([1, 2, 3, 1, 2, 3, 1, 2, 3])
  expect(new Set(steps.map((step) => step.turn)).size).toBe(9)
})

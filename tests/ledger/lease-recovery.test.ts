import { expect } from 'bun:test'
import { type Acquired, LeaseLane } from '../../src/ledger/lease-lane.ts'
import { once } from '../stores.ts'

/** A lane whose store may have more as leased than the process knows of. */

const LOST = new Error('the answer was lost')

type Answer<T> = PromiseWithResolvers<T>

/** A lane, and the questions that its store was asked, which a test answers. */
function laneWithQuestions(giveBack: () => Promise<void> | void = () => {}): {
  lane: LeaseLane
  asked: string[]
  leases: Answer<Acquired>[]
  returns: Answer<boolean>[]
} {
  const asked: string[] = []
  const leases: Answer<Acquired>[] = []
  const returns: Answer<boolean>[] = []
  const ask = <T>(question: string, answers: Answer<T>[]): Promise<T> => {
    asked.push(question)
    answers.push(Promise.withResolvers())
    return answers.at(-1)!.promise
  }
  const lane = new LeaseLane({
    left: () => 0n,
    acquire: () => ask('lease', leases),
    reclaim: async () => {},
    giveBack,
    giveBackAll: () => ask('return all', returns),
  })
  return { lane, asked, leases, returns }
}

const GRANTED = { granted: 1n, elsewhere: 0n }
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

once('after a lost answer all goes back before anything is leased again', async () => {
  const { lane, asked, leases, returns } = laneWithQuestions()
  const lost = lane.get(1n).catch((error: unknown) => error)
  leases[0]!.reject(LOST)
  expect(await lost).toBe(LOST)
  const next = lane.get(1n)
  await turn()
  expect(asked).toEqual(['lease', 'return all'])
  returns[0]!.resolve(true)
  await turn()
  leases[1]!.resolve(GRANTED)
  expect(await next).toBe(true)
  await turn()
  const last = lane.get(1n)
  leases[2]!.resolve(GRANTED)
  expect([await last, asked]).toEqual([true, ['lease', 'return all', 'lease', 'lease']])
})

once('after a return of which it is not known whether it was made, all goes back', async () => {
  const { lane, asked, leases, returns } = laneWithQuestions(() => Promise.reject(LOST))
  lane.giveBack()
  await turn()
  const next = lane.get(1n)
  await turn()
  expect(asked).toEqual(['return all'])
  returns[0]!.resolve(true)
  await turn()
  leases[0]!.resolve(GRANTED)
  expect(await next).toBe(true)
})

once('what is held by a request goes back later, and leases go on meanwhile', async () => {
  const { lane, asked, leases, returns } = laneWithQuestions()
  const lost = lane.get(1n).catch(() => {})
  leases[0]!.reject(LOST)
  await lost
  const next = lane.get(1n)
  await turn()
  returns[0]!.resolve(false)
  await turn()
  leases[1]!.resolve(GRANTED)
  expect(await next).toBe(true)
  await turn()
  // A look at the lane some time later.
  expect(lane.round(performance.now() + 60_000)).toBe(true)
  expect(asked).toEqual(['lease', 'return all', 'lease', 'return all'])
  returns[1]!.resolve(true)
  await turn()
  leases[2]!.resolve(GRANTED)
})

import { expect } from 'bun:test'
import { standingStill } from '../../src/accounts/clock.ts'
import { Budgets } from '../../src/accounts/budget.ts'
import { type Acquired, SharedLease } from '../../src/ledger/shared-lease.ts'
import { Leases } from '../../src/ledger/leases.ts'
import type { ReservationRequest } from '../../src/ledger/open-generation.ts'
import { Wallet } from '../../src/ledger/wallet.ts'
import { once } from '../stores.ts'

/** A lease whose store may have more as leased than the process knows of. */

const LOST = new Error('the answer was lost')

type Answer<T> = PromiseWithResolvers<T>

/** A lease, and the questions that its store was asked, which a test answers. */
function leaseWithQuestions(giveBack: () => Promise<void> | void = () => {}): {
  lease: SharedLease
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
  const lease = new SharedLease({
    left: () => 0n,
    acquire: () => ask('lease', leases),
    reclaim: async () => {},
    giveBack,
    giveBackAll: () => ask('return all', returns),
  })
  return { lease, asked, leases, returns }
}

const GRANTED = { granted: 1n, elsewhere: 0n }
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

once('after a lost answer all goes back before anything is leased again', async () => {
  const { lease, asked, leases, returns } = leaseWithQuestions()
  const lost = lease.get(1n).catch((error: unknown) => error)
  leases[0]!.reject(LOST)
  expect(await lost).toBe(LOST)
  const next = lease.get(1n)
  await turn()
  expect(asked).toEqual(['lease', 'return all'])
  returns[0]!.resolve(true)
  await turn()
  leases[1]!.resolve(GRANTED)
  expect(await next).toBe(true)
  await turn()
  const last = lease.get(1n)
  leases[2]!.resolve(GRANTED)
  expect([await last, asked]).toEqual([true, ['lease', 'return all', 'lease', 'lease']])
})

once('after a return of which it is not known whether it was made, all goes back', async () => {
  const { lease, asked, leases, returns } = leaseWithQuestions(() => Promise.reject(LOST))
  lease.giveBack()
  await turn()
  const next = lease.get(1n)
  await turn()
  expect(asked).toEqual(['return all'])
  returns[0]!.resolve(true)
  await turn()
  leases[0]!.resolve(GRANTED)
  expect(await next).toBe(true)
})

once('what is held by a request goes back later, and leases go on meanwhile', async () => {
  const { lease, asked, leases, returns } = leaseWithQuestions()
  const lost = lease.get(1n).catch(() => {})
  leases[0]!.reject(LOST)
  await lost
  const next = lease.get(1n)
  await turn()
  returns[0]!.resolve(false)
  await turn()
  leases[1]!.resolve(GRANTED)
  expect(await next).toBe(true)
  await turn()
  // A look at the lease some time later.
  expect(lease.round(performance.now() + 60_000)).toBe(true)
  expect(asked).toEqual(['lease', 'return all', 'lease', 'return all'])
  returns[1]!.resolve(true)
  await turn()
  leases[2]!.resolve(GRANTED)
})

once('nothing goes back as a whole while a part of it is on its way', async () => {
  const returning = Promise.withResolvers<void>()
  const { lease, asked, leases, returns } = leaseWithQuestions(() => returning.promise)
  const lost = lease.get(1n).catch(() => {})
  leases[0]!.reject(LOST)
  await lost
  lease.giveBack()
  const next = lease.get(1n)
  await turn()
  expect(asked).toEqual(['lease', 'lease'])
  leases[1]!.resolve(GRANTED)
  await next
  returning.resolve()
  await turn()
  const last = lease.get(1n)
  await turn()
  returns[0]!.resolve(true)
  await turn()
  leases[2]!.resolve(GRANTED)
  expect([await last, asked.slice(2)]).toEqual([true, ['return all', 'lease']])
})

once('what a settlement pays that is not written yet does not go back', async () => {
  const [asked, wallet] = [[] as string[], new Wallet(0n)]
  let isKnown = false
  const funds = (): Promise<object> => {
    asked.push('lease')
    return asked.length === 1 ? Promise.reject(LOST) : Promise.resolve({ credit: 1n, bonus: 0n, elsewhere: 0n })
  }
  const giveBackAll = async (): Promise<void> => void asked.push('return all')
  const leases = new Leases({
    store: { isAlive: true, onReclaim: () => {}, funds, giveBackAll } as never,
    clock: { now: Date.now, elapsed: standingStill },
    wallet: () => wallet,
    quota: (() => undefined) as never,
    budgets: () => new Budgets([], standingStill, true),
    isKnown: () => isKnown,
  })
  const request = { id: '1', accountId: 'a', kind: 'pay-as-you-go' } as ReservationRequest
  expect(await leases.cover(request, 1n)).toBe(false)
  // Another settlement could not be written.
  expect(await leases.cover(request, 1n)).toBe(true)
  await turn()
  isKnown = true
  const { promise: written, resolve } = Promise.withResolvers<void>()
  leases.onSettled({ request, bill: 1n, flows: 0n, written })
  expect(await leases.cover(request, 2n)).toBe(true)
  resolve()
  await turn()
  expect(await leases.cover(request, 1n)).toBe(true)
  expect(asked).toEqual(['lease', 'lease', 'lease', 'return all', 'lease'])
  leases.stop()
})

import { expect } from 'bun:test'
import { standingStill } from '../../src/accounts/clock.ts'
import { Budgets } from '../../src/accounts/budget.ts'
import { SharedLease, type LeaseTime, REAL } from '../../src/ledger/shared-lease.ts'
import { Leases, whenLeased } from '../../src/ledger/leases.ts'
import type { ReservationRequest } from '../../src/ledger/open-generation.ts'
import { Wallet } from '../../src/ledger/wallet.ts'
import { once } from '../stores.ts'

/** Amounts that a process leases ahead of need, and for responses that grow. */

once(
  'a lease asks for what was spent in the last ten seconds beyond its need, also when the next have begun',
  async () => {
    const asked: [bigint, bigint][] = []
    const lease = new SharedLease({
      left: () => 0n,
      acquire: async (least, most) => {
        asked.push([least, most])
        return { granted: most, elsewhere: 0n }
      },
      reclaim: async () => {},
      giveBack: () => {},
    })
    const spanEnds = performance.now() + 10_000
    lease.onSpent(30n)
    await lease.get(5n)
    lease.round(spanEnds)
    await lease.get(5n)
    lease.onSpent(2n)
    lease.round(spanEnds + 10_001)
    await lease.get(5n)
    expect(asked).toEqual([
      [5n, 35n],
      [5n, 35n],
      [5n, 7n],
    ])
  },
)

/** The leases of a process, with a request on a response that grows. `answer`: of the store. */
function growingLeases(
  answer: () => Promise<never>,
  time: LeaseTime = REAL,
): { leases: Leases; asked: () => number; grow: () => boolean } {
  let asked = 0
  const wallet = new Wallet(0n)
  const store = {
    isAlive: true,
    onReclaim: () => {},
    giveBackAll: async () => {},
    funds: () => {
      asked++
      return answer()
    },
  }
  const sources = {
    store: store as never,
    clock: { now: Date.now, elapsed: standingStill },
    wallet: () => wallet,
    quota: (() => undefined) as never,
    budgets: () => new Budgets([], standingStill, true),
    isKnown: () => true,
  }
  const leases = new Leases(sources, time)
  const request = { id: '1', accountId: 'a', keyId: 'k', kind: 'pay-as-you-go', createdAt: Date.now() }
  const grow = (): boolean => leases.grow(request as ReservationRequest, { amount: 1n, flows: 0n, budgeted: 0n })
  return { leases, asked: () => asked, grow }
}

once('a response for which the store leases nothing does not ask again for a second', async () => {
  const { leases, asked, grow } = growingLeases(() => Promise.reject(new Error('the store is away')))
  expect(grow()).toBe(true)
  while (grow()) await new Promise((resolve) => setImmediate(resolve))
  expect(asked()).toBe(1)
  leases.stop()
})

once('a response does not go on for more than five seconds while more is leased for it', async () => {
  const limits: { ms: number; end: () => void }[] = []
  const within = <T>(_: Promise<T>, ms: number, late: () => T | Promise<T>): Promise<T> =>
    new Promise((resolve) => limits.push({ ms, end: () => resolve(Promise.try(late)) }))
  const { leases, grow } = growingLeases(() => new Promise(() => {}), { ...REAL, within })
  expect(grow()).toBe(true)
  const ofResponse = limits.at(-1)!
  expect(ofResponse.ms).toBe(5_000)
  ofResponse.end()
  await Bun.sleep(0)
  expect(grow()).toBe(false)
  leases.stop()
})

once('nothing is reserved, and none waits, while the store does not say that this process is alive', async () => {
  let confirmations = 0
  const confirm = async (): Promise<boolean> => ++confirmations > 1
  const leases = new Leases({
    store: { isAlive: false, onReclaim: () => {}, confirm } as never,
    clock: { now: Date.now, elapsed: standingStill },
    wallet: () => new Wallet(0n),
    quota: (() => undefined) as never,
    budgets: () => new Budgets([], standingStill, true),
    isKnown: () => true,
  })
  const request = { id: '1', accountId: 'a', kind: 'pay-as-you-go' } as ReservationRequest
  const reserving = whenLeased(() => leases.check(request, { amount: 0n, flows: 0n, budgeted: 0n }))
  expect(await reserving.catch(String)).toContain('PostgreSQL does not answer')
  expect(confirmations).toBe(1)
  leases.stop()
})

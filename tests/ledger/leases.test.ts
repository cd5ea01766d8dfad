import { expect } from 'bun:test'
import { Budgets } from '../../src/accounts/budget.ts'
import { standingStill } from '../../src/accounts/clock.ts'
import { Quota } from '../../src/accounts/quota.ts'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { SharedLease, REAL } from '../../src/ledger/shared-lease.ts'
import { Leases, whenLeased } from '../../src/ledger/leases.ts'
import type { ReservationRequest } from '../../src/ledger/open-generation.ts'
import { Slots } from '../../src/ledger/slots.ts'
import { Wallet } from '../../src/ledger/wallet.ts'
import type { LeaseStore, ReturnedLeases, WantedSlots } from '../../src/store/leases.ts'
import { plans, START } from '../accounts/quota-fixture.ts'
import { once } from '../stores.ts'

/** The leases of one process, over a store that grants all that is wanted. */

const LIMIT = { amount: 1_000n, period: null }
const REQUEST = { id: '1', accountId: 'a', keyId: 'k', kind: 'pay-as-you-go', createdAt: START } as ReservationRequest
const ofMoney = (amount: bigint): Parameters<Leases['check']>[1] => ({ amount, flows: 0n, budgeted: 0n })
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

function processOver(store: Partial<LeaseStore> = {}) {
  const returned: ReturnedLeases[] = []
  const [wallet, budgets] = [new Wallet(0n), new Budgets([], standingStill, true)]
  const quota = new Quota(plans, newSubscription('a', 'free', START), [], standingStill, true)
  let reclaim: (owner: string) => void = () => {}
  const granting: Partial<LeaseStore> = {
    isAlive: true,
    onReclaim: (give) => {
      reclaim = give
    },
    funds: async (_, { most }) => ({ credit: 1n, bonus: most - 1n, elsewhere: 0n }),
    windows: async (_, terms, _now, { most }) =>
      terms.map(({ window, startsAt, endsAt }) => {
        return { window, startedAt: startsAt, endsAt, granted: most, elsewhere: 0n, free: 0n }
      }),
    budget: async ({ since }, { most }) => ({ since, granted: most, elsewhere: 0n }),
    giveBack: async (some) => returned.push(some) > 0,
  }
  const leases = new Leases({
    store: { ...granting, ...store } as LeaseStore,
    clock: { now: () => START, elapsed: standingStill },
    wallet: () => wallet,
    quota: () => quota,
    budgets: () => budgets,
    isKnown: () => true,
  })
  leases.stop()
  return { leases, wallet, quota, budgets, returned, reclaim: (owner: string) => reclaim(owner) }
}

once('a request leases of the windows and of the limit of its key, and others may have what is not held', async () => {
  const { leases, quota, budgets, returned, reclaim } = processOver()
  const request = { ...REQUEST, kind: 'subscription' as const, limit: LIMIT }
  await whenLeased(() => leases.check(request, { amount: 0n, flows: 3n, budgeted: 5n }))
  expect([quota.left(START), budgets.left('k', LIMIT, START)]).toEqual([3n, 5n])
  reclaim('a')
  await turn()
  const windows = quota.terms(START).map(({ window, startsAt, endsAt }) => {
    return { accountId: 'a', window, startedAt: startsAt, endsAt, flows: 3n }
  })
  expect(returned).toEqual([
    { funds: [], windows, budgets: [] },
    { funds: [], windows: [], budgets: [{ keyId: 'k', since: 0, amount: 5n }] },
  ])
  expect([quota.left(START), budgets.left('k', LIMIT, START)]).toEqual([0n, 0n])
})

once('a process keeps the money that the store does not take back', async () => {
  const taken = [false, true]
  const { leases, wallet, reclaim } = processOver({ giveBack: async () => taken.shift()! })
  await whenLeased(() => leases.check(REQUEST, ofMoney(7n)))
  expect(wallet.available).toBe(7n)
  reclaim('a')
  expect(wallet.available).toBe(0n)
  await turn()
  expect(wallet.available).toBe(7n)
  reclaim('a')
  await turn()
  expect([wallet.available, taken]).toEqual([0n, []])
})

once('a request whose lease others use again and again is refused for some seconds', async () => {
  const { leases, wallet } = processOver()
  let tries = 0
  const reserving = whenLeased(() => {
    if (tries++ > 60) return
    wallet.hold(wallet.available)
    leases.check(REQUEST, ofMoney(7n))
  })
  expect(await reserving.catch((error: unknown) => error)).toMatchObject({
    code: 'store_unavailable',
    shouldRetry: true,
    retryAfterSeconds: 5,
  })
})

once('after a lost answer a process gives back all its money once, and leases what it needs anew', async () => {
  const wanted: bigint[] = []
  const all: unknown[] = []
  const { leases, wallet } = processOver({
    funds: async (_, { least }) => {
      if (wanted.push(least) === 1) throw new Error('the answer was lost')
      return { credit: least, bonus: 0n, elsewhere: 0n }
    },
    giveBackAll: async (...what) => void all.push(what),
  })
  wallet.lease({ credit: 4n, bonus: 0n })
  const reserve = (amount: bigint): Promise<void> => whenLeased(() => leases.check(REQUEST, ofMoney(amount)))
  expect(await reserve(9n).catch(String)).toContain('the answer was lost')
  await reserve(9n)
  await reserve(20n)
  expect([wanted, all, wallet.available]).toEqual([[5n, 9n, 11n], [['funds', 'a']], 20n])
})

once('a response for which nothing is left does not ask again for a second', async () => {
  let asked = 0
  const funds = async () => {
    asked++
    return { credit: 0n, bonus: 0n, elsewhere: 0n }
  }
  const { leases } = processOver({ funds })
  expect(leases.grow(REQUEST, ofMoney(1n))).toBe(true)
  while (leases.grow(REQUEST, ofMoney(1n))) await turn()
  expect(asked).toBe(1)
})

once('what moves leases runs one after the other, also after one that failed', async () => {
  const { leases } = processOver()
  const steps: string[] = []
  const run = (name: string) => async (): Promise<void> => {
    steps.push(`${name} begins`)
    await turn()
    steps.push(`${name} ends`)
    if (name === 'first') throw new Error(name)
  }
  const [first, second] = [leases.exclusively(run('first')), leases.exclusively(run('second'))]
  expect(await first.catch(String)).toBe('Error: first')
  await second
  expect(steps).toEqual(['first begins', 'first ends', 'second begins', 'second ends'])
})

once('a lease asks ahead of need where less than half is left of what is spent in ten seconds', async () => {
  let left = 15n
  const asked: [bigint, bigint][] = []
  const kept: bigint[] = []
  let now = 100_000
  const source = {
    left: () => left,
    acquire: async (least: bigint, most: bigint) => {
      asked.push([least, most])
      return { granted: most, elsewhere: 0n }
    },
    reclaim: async () => {},
    giveBack: (amount: bigint) => void kept.push(amount),
  }
  const lease = new SharedLease(source, { ...REAL, now: () => now })
  lease.onSpent(30n)
  lease.onHeld()
  expect(asked).toEqual([])
  left = 14n
  lease.onHeld()
  expect(asked).toEqual([[0n, 30n]])
  await turn()
  // It gives back what it did not use for ten seconds, but for what it spends in so many.
  left = 100n
  lease.round((now += 10_000))
  left = 100n
  for (const ms of [9_999, 1, 9_999, 1]) lease.round((now += ms))
  expect(kept).toEqual([30n, 0n])
})

once(
  'a process leases slots up to a raised limit, and gives all back of a lowered one, those in use as they end',
  async () => {
    const calls: WantedSlots[] = []
    const grant: LeaseStore['slots'] = async (wanted) => {
      calls.push(wanted)
      return { granted: wanted.most, elsewhere: 0 }
    }
    const slots = new Slots({ onReclaim: () => {}, slots: grant } as Partial<LeaseStore> as LeaseStore)
    slots.stop()
    await slots.lease('o', 2, 2)
    expect([1, 2, 3].map(() => slots.take('o', 2))).toEqual([true, true, false])
    await slots.lease('o', 3, 1)
    expect(slots.take('o', 3)).toBe(true)
    expect(slots.take('o', 1)).toBe(false)
    expect(await slots.lease('o', 1, 1)).toBe(false)
    for (const left of [2, 1, 0]) {
      slots.leave('o')
      await turn()
      expect(calls.at(-1)).toMatchObject({ held: left, limit: 1, least: 0 })
    }
    expect([slots.has('o'), calls.length]).toEqual([false, 5])
  },
)

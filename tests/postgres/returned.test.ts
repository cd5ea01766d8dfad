import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { SteadyClock } from '../../src/accounts/clock.ts'
import { Plans } from '../../src/accounts/plans.ts'
import type { Config } from '../../src/config/load.ts'
import { AccountFunds } from '../../src/ledger/account-funds.ts'
import { type Needs, whenLeased } from '../../src/ledger/leases.ts'
import type { ReservationRequest } from '../../src/ledger/open-generation.ts'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { failure, topUp } from '../store/records.ts'
import { until } from '../transport/raw-server.ts'
import { databaseFor } from './databases.ts'
import { type Proxy, startProxy } from './proxy.ts'

/** Leases that go back while PostgreSQL is away. */

setDefaultTimeout(60_000)

const SERVES = { heartbeatMs: 60_000, deadMs: 60_000, version: 'test' }
const FLOWS = { '5_hour': 1, '7_day': 1, monthly: 1 }
const MICRO = 1_000_000n
const LIMIT = { amount: 100n, period: null }

let isUsed = true
let direct: PostgresClient
let proxy: Proxy
let store: PostgresStore
let funds: AccountFunds
beforeAll(async () => {
  const url = await databaseFor('returned', () => isUsed)
  direct = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 30_000 })
  proxy = await startProxy(url)
})
afterAll(async () => {
  proxy.stop()
  await direct.close()
  isUsed = false
})

beforeEach(async () => {
  store = await PostgresStore.open({ url: proxy.url, connections: 6, patienceMs: 100, serves: SERVES })
  const plans = { usdPerFlow: 1, tiers: new Map([['free', { usdPerMonth: 0, discount: 0, flows: FLOWS }]]) }
  funds = new AccountFunds({
    store,
    plans: new Plans({ plans } as unknown as Config),
    overdraft: 0n,
    clock: new SteadyClock(),
  })
  await funds.loadAll()
})
afterEach(async () => {
  proxy.holdAfter('no statement')
  proxy.keepAway(false)
  funds.leases?.stop()
  await store.close()
})

let requests = 0

/** Has so much leased: of the balance and the limit of a key, or of the windows. */
function lease(kind: 'pay-as-you-go' | 'subscription', needs: Partial<Needs>): Promise<void> {
  const asked = { accountId: 'a', keyId: 'k', kind, createdAt: Date.now(), id: `${requests++}` }
  const request = { ...asked, ...(kind === 'pay-as-you-go' ? { limit: LIMIT } : {}) } as ReservationRequest
  return whenLeased(() => funds.leases!.check(request, { amount: 0n, flows: 0n, budgeted: 0n, ...needs }))
}

/** The amounts of the balance, the windows and the limit that this process may hold. */
const left = (): bigint[] => [
  funds.wallet('a').available,
  funds.quota('a').left(Date.now()),
  funds.budgets.left('k', LIMIT, Date.now()),
]

/** The money that the store has as leased by this process. */
async function stored(): Promise<string | undefined> {
  const row = await direct.one<{ balance: string }>(
    `SELECT balance::text AS balance FROM book_balances JOIN book_accounts AS a ON a.id = account
     WHERE shard = $1 AND a.kind = 'credit'`,
    store.leases!.id,
  )
  return row?.balance
}

test('leases that PostgreSQL does not take back while it is away are still spent by this process', async () => {
  await store.ledger.post(topUp('first', 100n))
  await lease('pay-as-you-go', { amount: 60n, budgeted: 70n })
  await lease('subscription', { flows: MICRO / 2n })
  expect(left()).toEqual([60n, MICRO / 2n, 70n])
  proxy.keepAway(true)
  funds.leases!.giveBack(['a'])
  expect(left()).toEqual([0n, 0n, 0n])
  await until(() => left().every((amount) => amount > 0n))
  expect(left()).toEqual([60n, MICRO / 2n, 70n])
  proxy.keepAway(false)
  await lease('pay-as-you-go', { amount: 100n, budgeted: 100n })
  await lease('subscription', { flows: MICRO })
  expect([...left(), await stored()]).toEqual([100n, MICRO, 100n, '100'])
})

test('a lease that PostgreSQL may have taken back when it was away is not spent by this process', async () => {
  await store.ledger.post(topUp('second', 100n))
  const { credit } = await store.leases!.funds('a', { least: 60n, most: 60n })
  const returned = { funds: [{ accountId: 'a', credit, bonus: 0n }], windows: [], budgets: [] }
  proxy.keepAway(true)
  expect(await store.leases!.giveBack(returned)).toBe(false)
  proxy.keepAway(false)
  // The server makes the change, and its acknowledgement does not arrive.
  proxy.holdAfter('COMMIT')
  const returning = failure(store.leases!.giveBack(returned))
  while ((await stored()) !== '0') await Bun.sleep(5)
  proxy.keepAway(true)
  expect(String(await returning)).toContain('PostgreSQL does not answer')
})

import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { SteadyClock } from '../../src/accounts/clock.ts'
import { Plans } from '../../src/accounts/plans.ts'
import type { Config } from '../../src/config/load.ts'
import { AccountFunds } from '../../src/ledger/account-funds.ts'
import { type Needs, whenLeased } from '../../src/ledger/leases.ts'
import type { ReservationRequest } from '../../src/ledger/open-generation.ts'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { Connection } from '../../src/store/postgres/connection.ts'
import { LedgerTables } from '../../src/store/postgres/ledger-tables.ts'
import { Processes } from '../../src/store/postgres/processes.ts'
import { StoreTime } from '../../src/store/postgres/store-time.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { failure, idOf, topUp } from '../store/records.ts'
import { until } from '../transport/raw-server.ts'
import { databaseFor } from './databases.ts'
import { type Proxy, startProxy } from './proxy.ts'

/** Leases that are taken, or go back, while connections to PostgreSQL break. */

setDefaultTimeout(60_000)

const SERVES = { heartbeatMs: 60_000, deadMs: 60_000, version: 'test' }
const LIMITS = { connectMs: 5_000, statementMs: 30_000 }
const FLOWS = { '5_hour': 1, '7_day': 1, monthly: 1 }
const MICRO = 1_000_000n
const LIMIT = { amount: 100n, period: null }

let isUsed = true
let direct: PostgresClient
let proxy: Proxy
let store: PostgresStore
let funds: AccountFunds
/** The account of one test, and the id of its key. */
let account: string
beforeAll(async () => {
  const url = await databaseFor('returned', () => isUsed)
  direct = await PostgresClient.open({ url, ...LIMITS })
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
    isWritable: () => true,
  })
  await funds.loadAll()
  account = `account_${store.leases!.id}`
  await store.ledger.post(topUp(account, 100n, account))
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
  const asked = { accountId: account, keyId: account, kind, createdAt: Date.now(), id: `${requests++}` }
  const request = { ...asked, ...(kind === 'pay-as-you-go' ? { limit: LIMIT } : {}) } as ReservationRequest
  return whenLeased(() => funds.leases!.check(request, { amount: 0n, flows: 0n, budgeted: 0n, ...needs }))
}

/** The amounts of the balance, the windows and the limit that this process may hold. */
const left = (): bigint[] => [
  funds.wallet(account).available,
  funds.quota(account).left(Date.now()),
  funds.budgets.left(account, LIMIT, Date.now()),
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
  await lease('pay-as-you-go', { amount: 60n, budgeted: 70n })
  await lease('subscription', { flows: MICRO / 2n })
  expect(left()).toEqual([60n, MICRO / 2n, 70n])
  proxy.keepAway(true)
  funds.leases!.giveBack([account])
  expect(left()).toEqual([0n, 0n, 0n])
  await until(() => left().every((amount) => amount > 0n))
  expect(left()).toEqual([60n, MICRO / 2n, 70n])
  proxy.keepAway(false)
  await lease('pay-as-you-go', { amount: 100n, budgeted: 100n })
  await lease('subscription', { flows: MICRO })
  expect([...left(), await stored()]).toEqual([100n, MICRO, 100n, '100'])
})

test('a lease that PostgreSQL may have taken back when it was away is not spent by this process', async () => {
  const { credit } = await store.leases!.funds(account, { least: 60n, most: 60n })
  const returned = { funds: [{ accountId: account, credit, bonus: 0n }], windows: [], budgets: [] }
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

/** Has the answer to a lease lost that PostgreSQL has given. */
async function loseLease(name: string, ...leased: Parameters<typeof lease>): Promise<void> {
  proxy.holdAfter(name)
  const leasing = failure(lease(...leased))
  while ((await rowsOfProcess()) === 0) await Bun.sleep(5)
  proxy.cut()
  proxy.holdAfter('no statement')
  expect(await leasing).toMatchObject({ code: 'store_unavailable' })
}

/** The rows by which this process has leased something. */
async function rowsOfProcess(): Promise<number> {
  const tables = ['book_balances', 'quota_windows', 'key_spends']
  const counts = tables.map((table) => `(SELECT count(*) FROM ${table} WHERE shard = $1)`)
  return (await direct.one<{ count: number }>(`SELECT ${counts.join(' + ')} AS count`, store.leases!.id))!.count
}

test.each([
  ['lease_funds', 'pay-as-you-go', { amount: 60n }, { amount: 100n }],
  ['lease_windows', 'subscription', { flows: MICRO / 2n }, { flows: MICRO }],
  ['lease_budget', 'pay-as-you-go', { budgeted: 60n }, { budgeted: 100n }],
] as const)('an amount leased by %s can be leased again after its answer was lost', async (name, kind, some, all) => {
  await loseLease(name, kind, some)
  expect(left()).toEqual([0n, 0n, 0n])
  await lease(kind, all)
  expect(left().reduce((sum, one) => sum + one)).toBe(Object.values(all)[0]!)
})

test('a lease whose answer was lost is usable again once no request holds what was leased before', async () => {
  await loseLease('lease_funds', 'pay-as-you-go', { amount: 60n })
  const wallet = funds.wallet(account)
  // Held by a request that began before the answer was lost.
  wallet.lease(await store.leases!.funds(account, { least: 10n, most: 10n }))
  wallet.hold(10n)
  await lease('pay-as-you-go', { amount: 50n })
  expect(left()[0]).toBe(30n)
  wallet.settle(10n, { bonus: 0n, credit: 0n, writtenOff: 0n })
  await lease('pay-as-you-go', { amount: 100n })
  expect([left()[0], await stored()]).toEqual([100n, '100'])
})

/** Another process that has ended, with 60 nano-USD leased of the account and a generation open. */
async function leaveBehind(): Promise<number> {
  // Those of other tests.
  await direct.run('UPDATE processes SET heir = id WHERE ended_at IS NOT NULL')
  const url = await databaseFor('returned', () => isUsed)
  const connection = new Connection({ url, connections: 6, patienceMs: 100 })
  const ended = await Processes.begin(connection, new StoreTime(), SERVES)
  await ended.funds(account, { least: 60n, most: 60n })
  await new LedgerTables(connection).saveOpen([{ id: idOf(ended.id), accountId: account, state: '{}' }])
  await direct.run('UPDATE processes SET ended_at = clock_timestamp() WHERE id = $1', ended.id)
  await ended.end().catch(() => {})
  await connection.close()
  return ended.id
}

/** Takes over, with a hold of all that was leased there. Gives the ids of the generations. */
const takeOver = (): Promise<string[] | undefined> =>
  funds.inherit(({ generations }) => {
    funds.wallet(account).hold(60n)
    return generations.map(({ id }) => id)
  })

/** Takes over from a process in PostgreSQL, and loses the connections once that is made. */
async function loseTakeover(id: number): Promise<void> {
  proxy.holdAfter('COMMIT')
  const taking = failure(takeOver())
  const heir = (): Promise<unknown> => direct.one('SELECT FROM processes WHERE id = $1 AND heir IS NOT NULL', id)
  while ((await heir()) === undefined) await Bun.sleep(5)
  proxy.cut()
  proxy.holdAfter('no statement')
  expect(await taking).toMatchObject({ code: 'store_unavailable' })
}

/** Takes over while a table is locked, and loses the connections when that is waited for. */
async function failTakeover(table: string): Promise<void> {
  const locking = await PostgresClient.open({ url: await databaseFor('returned', () => isUsed), ...LIMITS })
  await locking.script(`BEGIN; LOCK TABLE ${table}`)
  const taking = failure(takeOver())
  const waiting = (): Promise<unknown> => direct.one('SELECT FROM pg_locks WHERE NOT granted')
  while ((await waiting()) === undefined) await Bun.sleep(5)
  proxy.keepAway(true)
  expect(await taking).toMatchObject({ code: 'store_unavailable' })
  proxy.keepAway(false)
  await locking.close()
}

test('what was taken over without an acknowledgement is found by the next look for processes that ended', async () => {
  const id = await leaveBehind()
  await loseTakeover(id)
  expect(left()[0]).toBe(0n)
  expect([await takeOver(), await takeOver()]).toEqual([[idOf(id)], undefined])
  expect([funds.wallet(account).balance.credit, await stored()]).toEqual([60n, '60'])
})

test.each([
  ['was not made by PostgreSQL', 'open_progress'],
  ['was made while the account could not be read', 'subscriptions'],
])('a takeover that %s is made by a later look', async (_, table) => {
  const id = await leaveBehind()
  await failTakeover(table)
  let taken: string[] | undefined
  // The server ends the transaction when it sees that the connection is gone.
  while ((taken = await takeOver()) === undefined) await Bun.sleep(5)
  expect([taken, await takeOver()]).toEqual([[idOf(id)], undefined])
  expect([funds.wallet(account).balance.credit, await stored()]).toEqual([60n, '60'])
})

test('leases that were taken over do not go back before this process knows of them', async () => {
  const id = await leaveBehind()
  await loseLease('lease_funds', 'pay-as-you-go', { amount: 10n })
  await loseTakeover(id)
  await lease('pay-as-you-go', { amount: 5n })
  await takeOver()
  // No request holds the 5.
  while ((await stored()) === '75') await Bun.sleep(5)
  expect([funds.wallet(account).balance.credit, await stored()]).toEqual([60n, '70'])
})

test('holds that are taken over are there before their leases can go back', async () => {
  await leaveBehind()
  await loseLease('lease_funds', 'pay-as-you-go', { amount: 10n })
  const taking = takeOver()
  await lease('pay-as-you-go', { amount: 5n })
  await taking
  expect([funds.wallet(account).balance.credit, await stored()]).toEqual([65n, '75'])
})

import { expect, setDefaultTimeout, test } from 'bun:test'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { Plans } from '../../src/accounts/plans.ts'
import type { Config } from '../../src/config/load.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { Ledger, type ReservationRequest } from '../../src/ledger/ledger.ts'
import { whenLeased } from '../../src/ledger/leases.ts'
import type { Prices } from '../../src/ledger/prices.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { accountOf } from '../store/account.ts'
import { idOf, topUp } from '../store/records.ts'
import { databaseFor } from './databases.ts'

setDefaultTimeout(60_000)

test('a bill above its hold is paid from what no process has leased before the overdraft is used', async () => {
  let isUsed = true
  const url = await databaseFor('overdraft', () => isUsed)
  const serves = { heartbeatMs: 60_000, deadMs: 60_000, version: 'test' }
  const store = await PostgresStore.open({ url, connections: 6, patienceMs: 1_000, serves })
  await store.accounts.add(accountOf('a'), newSubscription('a', 'free', Date.now()), [topUp('top-up', 100n)])
  const tier = { usdPerMonth: 0, discount: 0, flows: { '5_hour': 1, '7_day': 1, monthly: 1 } }
  const ledger = await Ledger.open({
    store,
    plans: new Plans({ plans: { usdPerFlow: 1, tiers: new Map([['free', tier]]) } } as unknown as Config),
    prices: { cost: () => undefined } as unknown as Prices,
    overdraft: 50n,
    whenExhausted: { payAsYouGo: 'cut', subscription: 'finish' },
  })
  const request = {
    ...{ id: idOf(1), accountId: 'a', keyId: 'k', kind: 'pay-as-you-go', api: 'messages', model: 'm' },
    ...{ createdAt: Date.now(), streamed: false, discount: 0, penalty: 1 },
    price: { version: '1', model: 'm', rates: { web_search: { base: 10n, tiers: [] } } },
    worst: { ...noUsage(), webSearches: 1 },
  } as ReservationRequest
  const open = await whenLeased(() => ledger.reserve(request, () => Promise.resolve(1)))
  open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 1, webSearches: 4 } }])
  await ledger.close(open, 'completed')
  const ofAccount = (await store.ledger.leased()).filter(({ id }) => id === 'credit a')
  expect([open.hold.amount, open.record!.bill, ofAccount]).toEqual([10n, 40n, []])
  await ledger.stop()
  await store.close()
  isUsed = false
})

import { expect, test } from 'bun:test'
import { newSubscription, renewed } from '../../src/accounts/subscription.ts'
import { Rig } from './rig.ts'
import { accountOf } from '../store/account.ts'

const FLOWS = { '5_hour': 1, '7_day': 1, monthly: 1 }
const DAY_MS = 86_400_000

test('a renewal does not overwrite a subscription that another process has just written', async () => {
  const rig = new Rig(0n, {
    usdPerFlow: 0.01,
    tiers: [
      ['free', { usdPerMonth: 0, flows: FLOWS, discount: 0 }],
      ['max', { usdPerMonth: 100, flows: FLOWS, discount: 0 }],
    ],
  })
  try {
    await rig.open()
    const begun = newSubscription('a', 'free', rig.now)
    await rig.other.accounts.add(accountOf('a'), begun)
    await rig.ledger.load()
    rig.now += 40 * DAY_MS
    // The command line changes the plan, and the server renews before it loads that.
    const bought = { ...renewed(begun, rig.now), tier: 'max' }
    await rig.other.ledger.setSubscription(bought)
    expect(rig.ledger.funds.quota('a').subscription.tier).toBe('free')
    await rig.flush()
    expect((await rig.other.ledger.state()).subscriptions).toEqual([bought])
    await rig.ledger.load()
    expect(rig.ledger.funds.quota('a').subscription).toEqual(bought)
    // The next renewal, without interference, is written.
    rig.now += 30 * DAY_MS
    const { subscription } = rig.ledger.funds.quota('a')
    await rig.flush()
    expect((await rig.other.ledger.state()).subscriptions).toEqual([subscription])
    expect(subscription.periodStart).toBe(bought.periodEnd)
  } finally {
    await rig.close()
  }
})

test('an account that the ledger has not loaded yet keeps its stored plan', async () => {
  const rig = new Rig(0n, {
    usdPerFlow: 0.01,
    tiers: [
      ['free', { usdPerMonth: 0, flows: FLOWS, discount: 0 }],
      ['max', { usdPerMonth: 100, flows: FLOWS, discount: 0 }],
    ],
  })
  try {
    await rig.open()
    const bought = newSubscription('a', 'max', rig.now - DAY_MS)
    await rig.other.accounts.add(accountOf('a'), bought)
    rig.ledger.funds.quota('a')
    await rig.flush()
    expect((await rig.other.ledger.state()).subscriptions).toEqual([bought])
  } finally {
    await rig.close()
  }
})

import { expect, test } from 'bun:test'
import { newSubscription } from '../../src/accounts/subscription.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { topUp } from '../../src/ledger/book.ts'
import { accountOf } from '../store/account.ts'
import { Rig } from './rig.ts'

const CENT = 10_000_000n

test('a bill above its hold is paid as far as the overdraft goes, and the rest is written off', async () => {
  const flows = { '5_hour': 1, '7_day': 1, monthly: 1 }
  const rig = new Rig(2n * CENT, { usdPerFlow: 1, tiers: [['free', { usdPerMonth: 0, flows, discount: 0 }]] })
  try {
    await rig.open()
    const credit = topUp({ reference: 'credit', at: 1, accountId: 'a', amount: 10n * CENT, bonus: false })
    await rig.other.accounts.add(accountOf('a'), newSubscription('a', 'free', rig.now), [credit])
    await rig.ledger.load()
    const open = rig.ledger.reserve(
      {
        id: '1'.padStart(32, '0'),
        accountId: 'a',
        keyId: 'k',
        kind: 'pay-as-you-go',
        api: 'chat.completions',
        model: 'm',
        createdAt: rig.now,
        streamed: false,
        discount: 0,
        penalty: 1,
        price: { version: '1', model: 'm', rates: { web_search: { base: CENT, tiers: [] } } },
        worst: { ...noUsage(), outputTokens: 1, webSearches: 1 },
      },
      () => Promise.resolve(1),
    )
    open.meter.record([{ type: 'usage', usage: { inputTokens: 1, outputTokens: 1, webSearches: 13 } }])
    await rig.ledger.close(open, 'completed')
    const { balances } = await rig.other.ledger.state(['a'])
    const [record] = await rig.other.ledger.generations(undefined, 1)
    expect([record!.held, record!.bill, balances.find(({ kind }) => kind === 'credit')!.balance]).toEqual([
      CENT,
      13n * CENT,
      -2n * CENT,
    ])
    expect(rig.ledger.funds.wallet('a').available).toBe(-2n * CENT)
  } finally {
    await rig.close()
  }
}, 60_000)

import { expect, test } from 'bun:test'
import { newSubscription } from '../../src/accounts/subscription.ts'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { topUp } from '../../src/ledger/book.ts'
import { accountOf } from '../store/account.ts'
import { Rig } from './rig.ts'

const CENT = 10_000_000n

const credit = (reference: string): ReturnType<typeof topUp> =>
  topUp({ reference, at: 1, accountId: 'a', amount: 10n * CENT, bonus: false })

const text = (tokens: number): GenerationEvent[] => [
  { type: 'part-start', part: 0, head: { type: 'text' } },
  { type: 'part-delta', part: 0, text: 'ab '.repeat(tokens) },
]

test('the hold of a response that is exhausted does not grow any more, also where credit is added', async () => {
  const flows = { '5_hour': 1, '7_day': 1, monthly: 1 }
  const rig = new Rig(0n, { usdPerFlow: 1, tiers: [['free', { usdPerMonth: 0, flows, discount: 0 }]] })
  try {
    await rig.open()
    await rig.other.accounts.add(accountOf('a'), newSubscription('a', 'free', rig.now), [credit('first')])
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
        streamed: true,
        mayEnd: true,
        discount: 0,
        penalty: 1,
        // 10,000 tokens cost the whole balance.
        price: { version: '1', model: 'm', rates: { completion: { base: 1_000n * CENT, tiers: [] } } },
        worst: { ...noUsage(), outputTokens: 100_000 },
      },
      () => Promise.resolve(1),
    )
    open.meter.record(text(20_000))
    expect([open.meter.exhausted?.tokens, open.hold.amount]).toEqual([10_000, 10n * CENT])
    await rig.other.ledger.post(credit('second'))
    await rig.ledger.load()
    open.meter.record(text(1_000))
    await rig.time.fireTimers()
    expect([open.meter.exhausted?.tokens, open.hold.amount]).toEqual([10_000, 10n * CENT])
  } finally {
    await rig.close()
  }
}, 60_000)

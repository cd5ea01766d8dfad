import { expect, test } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import { admit, MILLI, withRig } from './reserving.ts'

const CENT = 10n * MILLI

test('a bill above its hold is paid as far as the overdraft goes, and the rest is written off', async () => {
  await withRig({ cents: 10, overdraft: 2n * CENT }, async (rig) => {
    const open = admit(rig, {
      price: { version: '1', model: 'm', rates: { web_search: { base: CENT, tiers: [] } } },
      worst: { ...noUsage(), outputTokens: 1, webSearches: 1 },
    })
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
  })
}, 60_000)

import { expect, test } from 'bun:test'
import type { GenerationEvent } from '../../src/generation/event.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { topUp } from '../../src/ledger/book.ts'
import { admit, MILLI, withRig } from './reserving.ts'

const CENT = 10n * MILLI

const text = (tokens: number): GenerationEvent[] => [
  { type: 'part-start', part: 0, head: { type: 'text' } },
  { type: 'part-delta', part: 0, text: 'ab '.repeat(tokens) },
]

test('the hold of a response that is exhausted does not grow any more, also where credit is added', async () => {
  await withRig({ cents: 10 }, async (rig) => {
    const open = admit(rig, {
      streamed: true,
      mayEnd: true,
      // 10,000 tokens cost the whole balance.
      price: { version: '1', model: 'm', rates: { completion: { base: 1_000n * CENT, tiers: [] } } },
      worst: { ...noUsage(), outputTokens: 100_000 },
    })
    open.meter.record(text(20_000))
    expect([open.meter.exhausted?.tokens, open.hold.amount]).toEqual([10_000, 10n * CENT])
    await rig.other.ledger.post(topUp({ reference: 'second', at: 1, accountId: 'a', amount: 10n * CENT, bonus: false }))
    await rig.ledger.load()
    open.meter.record(text(1_000))
    await rig.time.fireTimers()
    expect([open.meter.exhausted?.tokens, open.hold.amount]).toEqual([10_000, 10n * CENT])
  })
}, 60_000)

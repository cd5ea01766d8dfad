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

/** 1,000 tokens cost a cent. */
const STREAM = {
  streamed: true,
  mayEnd: true,
  price: { version: '1', model: 'm', rates: { completion: { base: 1_000n * CENT, tiers: [] } } },
  worst: { ...noUsage(), outputTokens: 100_000 },
}

test('a hold that reaches the output limit ends no response, although more seems to be received', async () => {
  await withRig({ cents: 10 }, async (rig) => {
    const open = admit(rig, { ...STREAM, worst: { ...noUsage(), outputTokens: 5_000 } })
    expect(open.hold.outputTokens).toBe(2_048)
    for (const tokens of [4_000, 2_000, 2_000]) open.meter.record(text(tokens))
    expect([open.meter.exhausted, open.hold.outputTokens, open.hold.amount]).toEqual([undefined, 5_000, 5n * CENT])
    expect(rig.ledger.funds.wallet('a').available).toBe(5n * CENT)
  })
})

test('a hold of a key with a limit grows up to that, and what it holds is left to no other request', async () => {
  await withRig({ cents: 10 }, async (rig) => {
    const limit = { amount: 8n * CENT, period: null }
    const open = admit(rig, { ...STREAM, limit })
    open.meter.record(text(3_000))
    const held = open.hold.amount
    expect(held).toBe((5_048n * CENT) / 1_000n)
    expect(rig.ledger.funds.budgets.left('k', limit, rig.now)).toBe(8n * CENT - held)
    open.meter.record(text(10_000))
    expect(open.meter.exhausted).toMatchObject({ tokens: 8_000, cause: 'limit of the key' })
    expect([rig.ledger.funds.budgets.left('k', limit, rig.now), rig.ledger.funds.wallet('a').available]).toEqual([
      0n,
      2n * CENT,
    ])
  })
})

test.each([
  ['balance', { cents: 8 }, { amount: 9n * CENT, period: null }],
  ['limit of the key', { cents: 9 }, { amount: 8n * CENT, period: null }],
])('a response that is exhausted says that the %s was used up', async (cause, options, limit) => {
  await withRig(options, async (rig) => {
    const open = admit(rig, { ...STREAM, limit })
    open.meter.record(text(20_000))
    expect(open.meter.exhausted).toMatchObject({ tokens: 8_000, cause })
  })
})

test('where answers may exceed the balance, one goes on with the hold that it has, and exceeds it then', async () => {
  await withRig({ cents: 10, policy: 'finish' }, async (rig) => {
    const open = admit(rig, STREAM)
    const wallet = rig.ledger.funds.wallet('a')
    open.meter.record(text(3_000))
    expect([open.hold.overshoots, wallet.available]).toEqual([undefined, (4_952n * CENT) / 1_000n])
    open.meter.record(text(20_000))
    expect([open.hold.overshoots, open.meter.exhausted]).toEqual([true, undefined])
    expect(wallet.available).toBe((4_952n * CENT) / 1_000n)
    open.meter.record(text(20_000))
    expect([open.meter.exhausted, wallet.available]).toEqual([undefined, (4_952n * CENT) / 1_000n])
  })
})

test('a response that exceeds the balance still ends at the limit of its key', async () => {
  await withRig({ cents: 4, policy: 'finish' }, async (rig) => {
    const open = admit(rig, { ...STREAM, limit: { amount: 8n * CENT, period: null } })
    open.meter.record(text(20_000))
    expect([open.hold.overshoots, open.meter.exhausted?.tokens, open.meter.exhausted?.cause]).toEqual([
      true,
      8_000,
      'limit of the key',
    ])
  })
})

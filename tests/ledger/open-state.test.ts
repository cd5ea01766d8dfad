import { expect, test } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import type { ReservationRequest } from '../../src/ledger/ledger.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { readOpen, writeOpen } from '../../src/ledger/open-state.ts'

const ASK: ReservationRequest = {
  id: '0'.repeat(32),
  accountId: 'a',
  keyId: 'k',
  kind: 'pay-as-you-go',
  api: 'messages',
  model: 'm',
  createdAt: 1_000,
  streamed: true,
  price: undefined,
  discount: 0,
  penalty: 1,
  worst: noUsage(),
}

test('what was lost on the way of an answer is not lost with the process that wrote it', () => {
  const meter = new Meter(() => Promise.resolve(1))
  const open = { request: ASK, hold: { amount: 5n }, meter }
  expect(readOpen(writeOpen(open), 2_000).open.meter.losses).toEqual([])
  meter.losses = [{ code: 'unsupported_field', path: 'seed', effect: 'dropped', reason: 'because' }]
  expect(readOpen(writeOpen(open), 2_000).open.meter.losses).toEqual(meter.losses)
  expect(readOpen(writeOpen({ ...open, deferred: true }), 2_000).open.meter.losses).toEqual(meter.losses)
})

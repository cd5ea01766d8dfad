import { expect, test } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import type { ReservationRequest } from '../../src/ledger/ledger.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { restoreOpen, serializeOpen } from '../../src/ledger/open-generation.ts'

const REQUEST: ReservationRequest = {
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

test('the losses of an open generation survive a crash of its process', () => {
  const meter = new Meter(() => Promise.resolve(1))
  const open = { request: REQUEST, hold: { amount: 5n }, meter }
  expect(restoreOpen(serializeOpen(open), 2_000, new Map()).open.meter.losses).toEqual([])
  meter.losses = [{ code: 'unsupported_field', path: 'seed', effect: 'dropped', reason: 'because' }]
  expect(restoreOpen(serializeOpen(open), 2_000, new Map()).open.meter.losses).toEqual(meter.losses)
  expect(restoreOpen(serializeOpen({ ...open, deferred: true }), 2_000, new Map()).open.meter.losses).toEqual(
    meter.losses,
  )
})

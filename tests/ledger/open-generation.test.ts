import { expect, test } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import type { ReservationRequest } from '../../src/ledger/ledger.ts'
import { Meter } from '../../src/ledger/meter.ts'
import {
  type OpenGeneration,
  readProgress,
  restoreOpen,
  serializeOpen,
  serializeProgress,
} from '../../src/ledger/open-generation.ts'

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

test('the classes of an open generation, requested and served, survive a crash of its process', () => {
  const meter = new Meter(() => Promise.resolve(1))
  meter.record([
    { type: 'usage', usage: { inputTokens: 1 }, service: { speed: 'fast' } },
    { type: 'usage', usage: { outputTokens: 1 }, service: { inference_geo: 'us' } },
  ])
  const classes = { factors: { 'speed=fast': 6 }, requested: { speed: 'fast' } }
  const open = { request: { ...REQUEST, classes }, hold: { amount: 5n }, meter }
  for (const deferred of [true, false]) {
    const { request, meter: restored } = restoreOpen(serializeOpen({ ...open, deferred }), 2_000, new Map()).open
    expect([request.classes, restored.service]).toEqual([classes, { speed: 'fast', inference_geo: 'us' }])
  }
})

test('what was received before a crash counts for each choice, text and reasoning alike', () => {
  const begun = (choices: number | undefined): OpenGeneration => {
    const meter = new Meter(() => Promise.resolve(1), 0, choices)
    const open = { request: { ...REQUEST, choices }, hold: { amount: 5n }, meter }
    meter.record([
      { type: 'start', id: 'r', model: 'm' },
      { type: 'part-start', part: 0, head: { type: 'reasoning' } },
      { type: 'part-delta', part: 0, text: 'r'.repeat(9) },
      { type: 'part-end', part: 0 },
      { type: 'part-start', part: 1, head: { type: 'text' } },
      { type: 'part-delta', part: 1, text: 't'.repeat(41) },
    ])
    return open
  }
  const counted = (written: string, progress?: string): number[] => {
    const { usage, estimation } = restoreOpen(written, 2_000, readProgress(progress))
    expect(estimation).toBe('checkpoint')
    return [usage.outputTokens, usage.reasoningTokens]
  }
  expect(counted(serializeOpen(begun(undefined)))).toEqual([11, 3])
  const open = begun(3)
  const written = serializeOpen(open)
  expect(counted(written)).toEqual([33, 9])
  open.meter.record([{ type: 'part-delta', part: 1, text: 't'.repeat(4) }])
  expect(counted(written, `[${serializeProgress(open)}]`)).toEqual([36, 9])
  // The provider's report is about all choices.
  open.meter.record([{ type: 'usage', usage: { outputTokens: 50, reasoningTokens: 1 } }])
  expect(counted(written, `[${serializeProgress(open)}]`)).toEqual([50, 9])
})

import { expect, test } from 'bun:test'
import type { Refusal } from '../../src/store/store.ts'
import { UnwrittenRefusals } from '../../src/store/unwritten-refusals.ts'

const HOUR_MS = 3_600_000
const refusal = (at: number, over: Partial<Refusal> = {}): Refusal => ({
  ...{ id: String(at).padStart(32, '0'), at, accountId: 'a', keyId: 'k', route: 'chat', code: 'rate_limited' },
  ...{ status: 429, param: null, message: '', model: null, client: null, ...over },
})

test('what could not be written is counted with what came since, and its rows come before those', () => {
  const [older, newer] = [new UnwrittenRefusals(), new UnwrittenRefusals()]
  for (const at of [1, 2]) older.add(refusal(at), true)
  older.add(refusal(3, { accountId: null, keyId: null }), false)
  newer.add(refusal(4), true)
  newer.add(refusal(HOUR_MS), true)
  newer.takeBack(older)
  const row = { hour: 0, account: 'a', key: 'k', code: 'rate_limited' }
  expect(newer.hours.sort((a, b) => b.requests - a.requests)).toEqual([
    { ...row, requests: 3 },
    { ...row, hour: 1, requests: 1 },
    { ...row, account: '', key: '', requests: 1 },
  ])
  expect([newer.rows.map(({ at }) => at), newer.isEmpty]).toEqual([[1, 2, 4, HOUR_MS], false])
})

test('refusals beyond the rows that may wait are only counted', () => {
  const [older, newer] = [new UnwrittenRefusals(), new UnwrittenRefusals()]
  for (let at = 0; at < 3_000; at++) (at < 1_500 ? older : newer).add(refusal(at), true)
  newer.takeBack(older)
  expect([newer.rows.length, newer.rows.at(-1)?.at]).toEqual([2_000, 1_999])
  newer.add(refusal(5_000), true)
  expect([newer.rows.length, newer.hours[0]?.requests]).toEqual([2_000, 3_001])
})

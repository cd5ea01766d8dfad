import { expect } from 'bun:test'
import { ratingOf } from '../../src/ledger/record-rating.ts'
import type { Model } from './model.ts'
import { priced, type Rates } from './model-pricing.ts'
import { KEYS, TIERS, USD } from './model-steps.ts'
import type { Rig } from './rig.ts'

/** The list price of the provider. */
export const COST: Rates = { prompt: { base: USD / 2n, tiers: [] }, completion: { base: USD, tiers: [] } }

/** Memory and book equal the model, every sum is right, and every record is there once and paid by its transfers. */
export async function expectLedger(rig: Rig, model: Model): Promise<void> {
  const { other, ledger } = rig
  const [{ balances, spends }, records, transfers, open] = [
    await other.ledger.state(),
    await other.ledger.generations(undefined, 1_000),
    await other.ledger.transfers(undefined, 5_000),
    await other.ledger.openGenerations(),
  ]
  for (const account of ['a', 'b']) {
    const stored = (kind: string): bigint =>
      balances.find((balance) => balance.kind === kind && balance.owner === account)?.balance ?? 0n
    expect(ledger.funds.wallet(account).balance).toEqual({
      credit: model.balance(account, 'credit', 'server'),
      bonus: model.balance(account, 'bonus', 'server'),
    })
    expect({ credit: stored('credit'), bonus: stored('bonus') }).toEqual({
      credit: model.balance(account, 'credit', 'book'),
      bonus: model.balance(account, 'bonus', 'book'),
    })
  }
  expect(balances.reduce((all, { balance }) => all + balance, 0n)).toBe(0n)
  const durable = model.log.filter(({ durable }) => durable)
  expect(records.map(({ id }) => id)).toEqual(durable.map(({ id }) => id))
  expect(open.map(({ id }) => id)).toEqual(
    model.log.filter(({ durable, written }) => !durable && written !== undefined).map(({ id }) => id),
  )
  for (const [at, entry] of durable.entries()) {
    const { begun, usage, estimated, bill, flows, outcome, credit, bonus, writtenOff } = entry.closed!
    const record = records[at]!
    expect(record).toMatchObject({
      usage,
      estimated,
      bill,
      flows,
      ending: outcome,
      held: entry.held,
      accountId: entry.account,
      keyId: entry.key,
      discount: entry.discount,
    })
    expect(record.price?.version).toBe(entry.rates === undefined ? undefined : entry.version)
    const postings = transfers
      .filter(({ reference }) => reference === entry.id)
      .map(({ kind, amount }) => [kind, amount])
    expect(Object.fromEntries(postings)).toEqual(
      Object.fromEntries(
        [
          ['bonus', bonus],
          ['credit', credit],
          ['write-off', writtenOff],
          ['cost', begun ? priced(usage, COST, 0).bill : 0n],
        ].filter(([, amount]) => (amount as bigint) > 0n),
      ),
    )
    const rating = ratingOf(record)
    expect(entry.subscribed ? rating.origin : rating.bill).toBe(bill)
    expect(rating.items.reduce((all, line) => all + line.bill, 0n)).toBe(rating.bill)
    expect(
      rating.items.every((line) => line.bill >= 0n && line.discount >= 0n && line.origin - line.discount === line.bill),
    ).toBe(true)
  }
  for (const { id, limit } of KEYS)
    if (limit !== undefined) {
      const written = spends.find(({ keyId }) => keyId === id)
      const mine = model.log.filter(({ key, durable }) => durable && key === id)
      const since = Math.max(...mine.map((entry) => entry.since))
      expect(written?.spent).toBe(
        mine.length === 0
          ? undefined
          : mine.filter((entry) => entry.since === since).reduce((all, entry) => all + entry.closed!.bill, 0n),
      )
    }
}

/** The subscription detail of each account equals the model. */
export function expectQuotas(rig: Rig, model: Model): void {
  for (const account of ['a', 'b']) {
    const { now, ledger } = rig
    const detail = ledger.funds.quota(account).detail(now, 'healthy', 1)
    const { tier, end } = model.renew(account, now)
    expect(detail.plan).toMatchObject({ tier, expires_at: new Date(end).toISOString() })
    for (const name of ['5_hour', '7_day'] as const) {
      const shown = detail[`quota_${name}`]
      const window = model.window(account, name, now)
      const max = TIERS[tier as keyof typeof TIERS].flows[name]
      expect(shown.resets_at).toBe(window === undefined ? null : new Date(window.end).toISOString())
      expect(shown.max_flows).toBe(max)
      expect(shown.used_flows).toBeCloseTo(Math.min(max, Number(window?.used ?? 0n) / 1e6), 3)
      expect(shown.used_flows + shown.remaining_flows).toBeCloseTo(max, 9)
      expect(shown.usage_percentage).toBeCloseTo(shown.used_flows / max, 3)
      expect(shown.usage_percentage <= 1).toBe(true)
    }
  }
}

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Accounts } from '../../src/accounts/accounts.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { Store } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

let folder: string
let stores: Store[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-accounts-'))
  stores = []
})
afterEach(async () => {
  for (const store of stores) await store.close()
  rmSync(folder, { recursive: true, force: true })
})

async function open(): Promise<{ store: Store; accounts: Accounts }> {
  const store = await storeIn(folder)
  stores.push(store)
  const first = {
    credits: (accountId: string) => [
      topUp({ reference: `starting-credit:${accountId}`, at: 1, accountId, amount: 7n, bonus: false }),
    ],
  }
  return { store, accounts: new Accounts({ store, first, now: () => Date.UTC(2026, 0, 31) }) }
}

const credits = async (store: Store): Promise<(readonly [string, bigint])[]> =>
  (await store.ledger.state()).balances
    .filter(({ kind }) => kind === 'credit')
    .map(({ owner, balance }) => [owner, balance] as const)

describe('the first account', () => {
  test('the first account is created once, when first requested, with its credit and the free plan', async () => {
    const { store, accounts } = await open()
    const first = await accounts.named()
    expect(first).toMatchObject({ name: 'default', status: 'healthy', discount: 0 })
    expect(await accounts.named('default')).toEqual(first)
    expect(await accounts.ensure()).toEqual(first)
    expect(await accounts.named(first.id)).toEqual(first)
    expect(await credits(store)).toEqual([[first.id, 7n]])
    expect((await store.ledger.state()).subscriptions).toEqual([
      {
        accountId: first.id,
        tier: 'free',
        anchor: Date.UTC(2026, 0, 31),
        periodStart: Date.UTC(2026, 0, 31),
        periodEnd: Date.UTC(2026, 1, 28),
        renews: true,
        nextTier: null,
      },
    ])
  })

  test('the first account is created once when two processes request it concurrently', async () => {
    const [one, other] = [await open(), await open()]
    const made = await Promise.all([one, other, one, other, other].map(({ accounts }) => accounts.named()))
    expect(new Set(made.map(({ id }) => id)).size).toBe(1)
    const { balances, subscriptions } = await other.store.ledger.state()
    expect(balances.filter(({ kind }) => kind === 'credit')).toEqual([
      { kind: 'credit', owner: made[0]!.id, balance: 7n },
    ])
    expect(subscriptions.length).toBe(1)
  })
})

describe('other accounts', () => {
  test('an account begins with exactly its initial state', async () => {
    const { store, accounts } = await open()
    const team = await accounts.create('team', {
      tier: 'pro',
      discount: 1250,
      credits: (accountId) => [
        topUp({ reference: 'a', at: 1, accountId, amount: 5n, bonus: true }),
        topUp({ reference: 'b', at: 1, accountId, amount: 3n, bonus: false }),
      ],
    })
    const configured = await accounts.ensure('configured')
    expect((await accounts.list()).map(({ name, discount }) => [name, discount])).toContainEqual(['team', 1250])
    const { balances, subscriptions } = await store.ledger.state()
    expect(
      balances
        .filter(({ owner }) => owner === team.id)
        .map(({ kind, balance }) => [kind, balance])
        .sort(),
    ).toEqual([
      ['bonus', 5n],
      ['credit', 3n],
    ])
    expect(balances.filter(({ owner }) => owner === configured.id)).toEqual([])
    expect(balances.reduce((sum, { balance }) => sum + balance, 0n)).toBe(0n)
    expect(new Map(subscriptions.map(({ accountId, tier }) => [accountId, tier]))).toEqual(
      new Map([
        [team.id, 'pro'],
        [configured.id, 'free'],
      ]),
    )
  })

  test('an account with a taken or invalid name is refused and nothing is written', async () => {
    const { store, accounts } = await open()
    await accounts.ensure('team')
    const before = await store.ledger.state()
    const credits = (accountId: string) => [topUp({ reference: 'x', at: 1, accountId, amount: 5n, bonus: false })]
    expect(await accounts.create('team', { credits }).catch((error: Error) => error.message)).toBe(
      'the account team already exists; sluice accounts show team shows it',
    )
    for (const name of ['', 'a b', '-a', 'a/b', 'x'.repeat(101), 'acct_x'])
      expect(await accounts.create(name, { credits }).catch((error: Error) => error.message)).toMatch(
        /^an account name must/,
      )
    expect(await store.ledger.state()).toEqual(before)
  })

  test('an unknown account is not created, and the error suggests the nearest name', async () => {
    const { accounts } = await open()
    await accounts.ensure('team')
    expect(await accounts.named('elsewhere').catch((error: Error) => error.message)).toBe(
      'there is no account "elsewhere"; sluice accounts list shows all accounts, sluice accounts create creates one',
    )
    expect(await accounts.named('tema').catch((error: Error) => error.message)).toContain(
      'there is no account "tema" (did you mean team?); sluice accounts list',
    )
    expect((await accounts.list()).map(({ name }) => name)).toEqual(['team'])
  })
})

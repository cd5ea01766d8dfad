import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { noUsage } from '../../src/generation/usage.ts'
import type { Closing, Store } from '../../src/store/store.ts'
import {
  allGenerations,
  allTransfers,
  balanceOf,
  closing,
  credit,
  expectBalanced,
  failure,
  idOf,
  record,
  REVENUE,
  topUp,
  withAccounts,
} from './records.ts'
import { accountOf } from './account.ts'

/** Tests of any Store: accounts and the ledger. `open` returns a new, empty one and closes it after the test. */
export function storeContract(name: string, open: () => Store | Promise<Store>): void {
  describe(`${name}: accounts`, () => {
    test('an account is written together with its plan and first money, or not at all', async () => {
      const store = await withAccounts(open())
      const plan = {
        accountId: 'c',
        tier: 'pro',
        anchor: 1,
        periodStart: 1,
        periodEnd: 2,
        renews: true,
        nextTier: null,
      }
      const account = accountOf('c')
      expect(await store.accounts.add({ ...account, name: 'name of a' }, plan, [topUp('first', 5n, 'c')])).toBe(false)
      expect(await failure(store.accounts.add(account, plan, [topUp('first', 0n, 'c')]))).toBeInstanceOf(Error)
      expect([
        (await store.accounts.list()).length,
        (await store.ledger.state()).subscriptions,
        await allTransfers(store),
      ]).toEqual([2, [], []])
      expect(await store.accounts.add(account, plan, [topUp('first', 5n, 'c')])).toBe(true)
      const state = await store.ledger.state()
      expect([state.subscriptions, balanceOf(state, credit('c'))]).toEqual([[plan], 5n])
    })
  })

  describe(`${name}: generations`, () => {
    test('a record is read as it was written, each column with a value of its own', async () => {
      const store = await withAccounts(open())
      const usage = { ...noUsage() }
      for (const [index, bucket] of (Object.keys(usage) as (keyof typeof usage)[]).entries())
        usage[bucket] = 10 ** index + index
      const full = record(1, {
        kind: 'subscription',
        retries: 2,
        attempts: '[{"provider":"x\u0000\u{1F600}"}]',
        translation: '[{"field":"é"}]',
        estimated: true,
        estimation: 'counted',
        disputed: '{"outputTokens":5}',
        client: 'agent/1',
        streamed: false,
        usage,
        discount: 10_000,
        held: 2n ** 63n - 1n,
        price: { version: '2026-11-01', model: 'm', rates: '{"in":1}' },
        bill: 9_007_199_254_740_993n,
        flows: 123n,
        finish: "'; DROP TABLE names; --",
        latency: 0,
        duration: 86_400_000,
      })
      const values = Object.values({ ...full, ...usage })
      expect(new Set(values).size).toBe(values.length)
      const minimal = record(2, { provider: null, model: '' })
      await Promise.all([full, minimal].map((one) => store.ledger.closeGeneration({ ...closing(0, 0n), record: one })))
      expect(await store.ledger.findGeneration('a', full.id)).toEqual(full)
      expect(await store.ledger.findGeneration('a', minimal.id)).toEqual(minimal)
      expect(await allGenerations(store, 1)).toEqual([full, minimal])
    })

    test("another account's id and an invalid one are unknown", async () => {
      const store = await withAccounts(open())
      await Promise.all([
        store.ledger.closeGeneration(closing(0xab, 0n)),
        store.ledger.closeGeneration({ ...closing(2, 0n), record: record(2, { accountId: 'b' }) }),
      ])
      const lookups = [
        ['b', idOf(0xab)],
        ['c', idOf(0xab)],
        ['k', idOf(0xab)],
        ['', idOf(0xab)],
        ['a', idOf(2)],
        ['a', idOf(3)],
        ['a', ''],
        ['a', `${idOf(0xab)}0`],
        ['a', idOf(0xab).toUpperCase()],
        ['a', "x' OR 1=1"],
      ] as const
      expect(await Promise.all(lookups.map(([account, id]) => store.ledger.findGeneration(account, id)))).toEqual(
        lookups.map(() => undefined),
      )
      expect((await store.ledger.findGeneration('a', idOf(0xab)))?.id).toBe(idOf(0xab))
    })

    test('closing with an invalid id is refused', async () => {
      const store = await withAccounts(open())
      expect(
        String(await failure(store.ledger.closeGeneration({ ...closing(1, 5n), record: record(1, { id: 'gen_1' }) }))),
      ).toContain('32 hex digits')
      expect(await allTransfers(store)).toEqual([])
    })

    test('a second closing of a generation, in the same turn or later, changes nothing', async () => {
      const store = await withAccounts(open())
      await store.ledger.saveOpen([{ id: idOf(1), accountId: 'a', state: 'kept' }], true)
      const once = closing(1, 5n, {
        spend: { keyId: 'k', since: 0, spent: 5n },
        windows: [{ accountId: 'a', window: '5_hour', startedAt: 1, endsAt: 2, used: 5n }],
      })
      const again = { ...once, wasOpen: true, record: { ...once.record, model: 'other' } }
      const errors = await Promise.all([
        failure(store.ledger.closeGeneration(once)),
        failure(store.ledger.closeGeneration(again)),
        failure(store.ledger.closeGeneration(closing(2, 7n))),
      ])
      expect(errors.map(String)).toEqual(['undefined', `Error: generation ${idOf(1)} is closed already`, 'undefined'])
      expect(await failure(store.ledger.closeGeneration(again))).not.toBeInstanceOf(GatewayError)
      const state = await store.ledger.state()
      expect([balanceOf(state, REVENUE), state.spends[0]?.spent, state.windows[0]?.used]).toEqual([12n, 5n, 5n])
      expect(await store.ledger.findGeneration('a', idOf(1))).toEqual(once.record)
      expect(await store.ledger.openGenerations()).toEqual([{ id: idOf(1), accountId: 'a', state: 'kept' }])
    })

    test('an invalid closing fails alone, with all of its changes', async () => {
      const store = await withAccounts(open())
      const own = { ...closing(1, 3n).transfers[0]!, debit: credit('new'), kind: 'first' }
      const bad = (number: number, last: Partial<typeof own>): Closing => {
        const { transfers, ...rest } = closing(number, 3n, { spend: { keyId: 'k', since: 0, spent: 3n } })
        return {
          ...rest,
          record: record(number, { model: 'new', price: { version: 'new', model: 'new', rates: 'new' } }),
          transfers: [own, ...transfers, { ...own, kind: 'last', ...last }],
        }
      }
      const good = (number: number): Closing => ({
        ...closing(number, 4n),
        record: record(number, { model: 'new', price: { version: 'new', model: 'new', rates: 'new' } }),
        transfers: [{ ...own, amount: 4n }],
      })
      const errors = await Promise.all(
        [
          good(1),
          bad(2, { kind: 'first' }),
          good(3),
          bad(4, { amount: 0n }),
          bad(5, { credit: credit('new') }),
          bad(6, { amount: 2n ** 63n }),
          good(7),
        ].map((one) => failure(store.ledger.closeGeneration(one))),
      )
      expect(errors.map((error) => error === undefined)).toEqual([true, false, true, false, false, false, true])
      expect(errors.filter((error) => error instanceof GatewayError)).toEqual([])
      expect((await allGenerations(store)).map(({ id, model, price }) => [id, model, price?.rates])).toEqual(
        [1, 3, 7].map((number) => [idOf(number), 'new', 'new']),
      )
      const state = await store.ledger.state()
      expect([balanceOf(state, credit('new')), balanceOf(state, REVENUE), state.spends]).toEqual([-12n, 12n, []])
      await expectBalanced(store)
    })

    test('a record keeps the price version of its admission', async () => {
      const store = await withAccounts(open())
      const prices = [
        { version: '1', model: 'm', rates: 'x' },
        { version: '1', model: 'm', rates: 'y' },
        { version: '2', model: 'm', rates: 'x' },
        { version: '1', model: 'm', rates: 'x' },
      ]
      for (const [index, price] of prices.entries())
        await store.ledger.closeGeneration({ ...closing(index, 0n), record: record(index, { price }) })
      expect((await allGenerations(store)).map(({ price }) => price!)).toEqual(prices)
    })

    test('an open generation is stored, updated, and removed when it is closed', async () => {
      const store = await withAccounts(open())
      await store.ledger.saveOpen(
        [1, 2, 3].map((number) => ({ id: idOf(number), accountId: 'a', state: `{"at":${number}}` })),
        true,
      )
      await store.ledger.saveOpen([{ id: idOf(2), accountId: 'a', state: 'newer' }], false)
      await Promise.all([
        store.ledger.closeGeneration(closing(1, 1n, { wasOpen: true })),
        store.ledger.saveOpen([{ id: idOf(4), accountId: 'b', state: '4' }], true),
      ])
      expect((await store.ledger.openGenerations()).map(({ id, accountId, state }) => [id, accountId, state])).toEqual([
        [idOf(2), 'a', 'newer'],
        [idOf(3), 'a', '{"at":3}'],
        [idOf(4), 'b', '4'],
      ])
    })
  })

  describe(`${name}: windows, spending and plans`, () => {
    test('usage adds to the same window, a later window replaces it, and an earlier one changes nothing', async () => {
      const store = await withAccounts(open())
      const close = (number: number, startedAt: number, used: bigint): Promise<void> =>
        store.ledger.closeGeneration(
          closing(number, 0n, {
            windows: [{ accountId: 'a', window: '5_hour', startedAt, endsAt: startedAt + 5, used }],
          }),
        )
      const now = async (): Promise<unknown> =>
        (await store.ledger.state()).windows.map(({ startedAt, endsAt, used }) => [startedAt, endsAt, used])
      await Promise.all([close(1, 100, 2n ** 60n), close(2, 100, 1n)])
      expect(await now()).toEqual([[100, 105, 2n ** 60n + 1n]])
      await close(3, 200, 7n)
      expect(await now()).toEqual([[200, 205, 7n]])
      await Promise.all([close(4, 100, 9n), close(5, 200, 0n)])
      expect(await now()).toEqual([[200, 205, 7n]])
    })

    test('each account and window name has its own window', async () => {
      const store = await withAccounts(open())
      const windows = (['5_hour', '7_day', 'monthly'] as const).flatMap((window, index) =>
        ['a', 'b'].map((accountId) => ({ accountId, window, startedAt: 1, endsAt: 9, used: BigInt(index + 1) })),
      )
      await store.ledger.closeGeneration(closing(1, 0n, { windows }))
      await store.ledger.closeGeneration(closing(2, 0n, { windows: windows.slice(0, 1) }))
      expect(
        (await store.ledger.state()).windows
          .map(({ accountId, window, used }) => `${accountId} ${window} ${used}`)
          .sort(),
      ).toEqual(['a 5_hour 2', 'a 7_day 2', 'a monthly 3', 'b 5_hour 1', 'b 7_day 2', 'b monthly 3'])
    })

    test('spending adds to the same period, a later one replaces it, and an earlier one changes nothing', async () => {
      const store = await withAccounts(open())
      const spends = [
        { since: 10, spent: 2n ** 61n },
        { since: 10, spent: 1n },
        { since: 20, spent: 3n },
        { since: 10, spent: 50n },
        { since: 20, spent: 4n },
      ]
      const seen: unknown[] = []
      for (const [index, spend] of spends.entries()) {
        await store.ledger.closeGeneration(closing(index, 0n, { spend: { keyId: 'k', ...spend } }))
        seen.push((await store.ledger.state()).spends)
      }
      expect(seen).toEqual(
        [
          [10, 2n ** 61n],
          [10, 2n ** 61n + 1n],
          [20, 3n],
          [20, 3n],
          [20, 7n],
        ].map(([since, spent]) => [{ keyId: 'k', since, spent }]),
      )
    })

    test('a new subscription replaces the previous one, if that is the expected one', async () => {
      const store = await withAccounts(open())
      const plan = {
        accountId: 'a',
        tier: 'pro',
        anchor: 1,
        periodStart: 2,
        periodEnd: 3,
        renews: true,
        nextTier: null,
      }
      const next = { ...plan, tier: 'max', anchor: 4, periodStart: 5, periodEnd: 6, renews: false, nextTier: 'free' }
      await store.ledger.setSubscription(plan)
      expect((await store.ledger.state()).subscriptions).toEqual([plan])
      await store.ledger.setSubscription(next)
      expect((await store.ledger.state()).subscriptions).toEqual([next])
      await store.ledger.setSubscription({ ...plan, tier: 'ultra' }, plan)
      expect((await store.ledger.state()).subscriptions).toEqual([next])
      await store.ledger.setSubscription(plan, next)
      expect((await store.ledger.state()).subscriptions).toEqual([plan])
    })
  })
}

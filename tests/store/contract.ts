import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { noUsage } from '../../src/generation/usage.ts'
import {
  NotCovered,
  type BookAccount,
  type Closing,
  type GenerationRecord,
  type LedgerState,
  type Operation,
  type PostedTransfer,
  type Store,
} from '../../src/store/store.ts'

export const credit = (owner: string): BookAccount => ({ kind: 'credit', owner })
const REVENUE: BookAccount = { kind: 'revenue', owner: '' }
const OUTSIDE: BookAccount = { kind: 'outside', owner: '' }

export const idOf = (number: number): string => `019aa00000007000${number.toString(16).padStart(16, '0')}`

export const record = (number: number, over: Partial<GenerationRecord> = {}): GenerationRecord => ({
  id: idOf(number),
  accountId: 'a',
  keyId: 'k',
  kind: 'pay-as-you-go',
  api: 'messages',
  model: 'maker/model',
  provider: 'somewhere',
  createdAt: 1_700_000_000_000 + number,
  latency: 20,
  duration: 300,
  streamed: true,
  finish: 'stop',
  ending: 'completed',
  retries: 0,
  attempts: null,
  translation: null,
  estimated: false,
  usage: noUsage(),
  price: null,
  discount: 0,
  held: 0n,
  bill: 0n,
  flows: 0n,
  ...over,
})

/** A generation that account `a` paid for. */
export const closing = (number: number, amount: bigint, over: Partial<Closing> = {}): Closing => ({
  record: record(number, { bill: amount }),
  transfers: amount === 0n ? [] : [{ kind: 'credit', debit: credit('a'), credit: REVENUE, amount }],
  windows: [],
  spend: undefined,
  wasOpen: false,
  ...over,
})

export const topUp = (reference: string, amount: bigint, owner = 'a'): Operation => ({
  reference,
  at: 5,
  note: null,
  transfers: [{ kind: 'top-up', debit: OUTSIDE, credit: credit(owner), amount }],
})

const balanceOf = ({ balances }: LedgerState, { kind, owner }: BookAccount): bigint =>
  balances.find((one) => one.kind === kind && one.owner === owner)?.balance ?? 0n

/** Every row of a paged listing, and no page longer than asked. */
async function all<Row>(page: (after: Row | undefined, limit: number) => Promise<Row[]>, limit = 3): Promise<Row[]> {
  const rows: Row[] = []
  for (;;) {
    const more = await page(rows.at(-1), limit)
    expect(more.length).toBeLessThanOrEqual(limit)
    if (more.length === 0) return rows
    rows.push(...more)
  }
}
export const allGenerations = (store: Store, limit?: number): Promise<GenerationRecord[]> =>
  all((after, size) => store.ledger.generations(after?.id, size), limit)
export const allTransfers = (store: Store, limit?: number): Promise<PostedTransfer[]> =>
  all((after, size) => store.ledger.transfers(after, size), limit)

/** Every balance is what its transfers add up to, and all of them are 0 together. */
export async function expectBalanced(store: Store): Promise<void> {
  const sums = new Map<string, bigint>()
  const add = ({ kind, owner }: BookAccount, amount: bigint): void =>
    void sums.set(`${kind} ${owner}`, (sums.get(`${kind} ${owner}`) ?? 0n) + amount)
  for (const transfer of await allTransfers(store, 1000)) {
    add(transfer.debit, -transfer.amount)
    add(transfer.credit, transfer.amount)
  }
  const { balances } = await store.ledger.state()
  expect(balances.reduce((sum, { balance }) => sum + balance, 0n)).toBe(0n)
  expect(balances.filter(({ kind, owner, balance }) => balance !== (sums.get(`${kind} ${owner}`) ?? 0n))).toEqual([])
  expect(balances.length).toBeGreaterThanOrEqual(sums.size)
}

const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** What every store does. `open` gives a new, empty one and closes it after the test. */
export function storeContract(name: string, open: () => Store): void {
  const withAccounts = async (): Promise<Store> => {
    const store = open()
    for (const id of ['a', 'b'])
      await store.accounts.add({ id, name: `name of ${id}`, status: 'healthy', createdAt: 1, discount: 0 })
    return store
  }

  describe(`${name}: accounts and keys`, () => {
    test('a status changes from the one that it was judged by, and from no other', async () => {
      const store = await withAccounts()
      expect(
        await Promise.all([
          store.accounts.setStatus('a', 'suspended'),
          store.accounts.setStatus('a', 'monitored', 'healthy'),
          store.accounts.setStatus('b', 'monitored', 'healthy'),
          store.accounts.setStatus('nobody', 'banned'),
        ]),
      ).toEqual([true, false, true, false])
      expect((await store.accounts.list()).map(({ status }) => status)).toEqual(['suspended', 'monitored'])
    })

    test("status, discount and a key's own limits come back", async () => {
      const store = await withAccounts()
      await Promise.all([
        store.accounts.setStatus('a', 'suspended'),
        store.accounts.setDiscount('a', 1250),
        store.accounts.setStatus('nobody', 'banned'),
      ])
      expect((await store.accounts.list()).map(({ status, discount }) => [status, discount])).toEqual([
        ['suspended', 1250],
        ['healthy', 0],
      ])
      const key = {
        id: 'k',
        accountId: 'a',
        kind: 'pay-as-you-go',
        hash: new Uint8Array(32).fill(7),
        prefix: 'p',
        last4: 'q',
        name: null,
        createdAt: 5,
        expiresAt: null,
        revokedAt: null,
        requestsPerMinute: null,
        models: ['maker/*', 'other/one'],
        limit: 9_007_199_254_740_993n,
        limitPeriod: 'month',
      } as const
      await store.accounts.addKey({ ...key, models: [...key.models] })
      expect(await store.accounts.keys()).toEqual([{ ...key, models: [...key.models] }])
      expect(await failure(store.accounts.setDiscount('a', 10_001))).toBeInstanceOf(Error)
    })

    test('an account begins with its plan and its first money, or not at all', async () => {
      const store = await withAccounts()
      const plan = {
        accountId: 'c',
        tier: 'pro',
        anchor: 1,
        periodStart: 1,
        periodEnd: 2,
        renews: true,
        nextTier: null,
      }
      const account = { id: 'c', name: 'c', status: 'healthy', createdAt: 1, discount: 0 } as const
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
    test('come back as they were given', async () => {
      const store = await withAccounts()
      const usage = { ...noUsage() }
      for (const [index, bucket] of (Object.keys(usage) as (keyof typeof usage)[]).entries())
        usage[bucket] = 10 ** index + index
      const full = record(1, {
        kind: 'subscription',
        retries: 2,
        attempts: '[{"provider":"x\u0000\u{1F600}"}]',
        translation: '[{"field":"é"}]',
        estimated: true,
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
      const bare = record(2, { provider: null, model: '' })
      await Promise.all([full, bare].map((one) => store.ledger.closeGeneration({ ...closing(0, 0n), record: one })))
      expect(await store.ledger.findGeneration('a', full.id)).toEqual(full)
      expect(await store.ledger.findGeneration('a', bare.id)).toEqual(bare)
      expect(await allGenerations(store, 1)).toEqual([full, bare])
    })

    test("another account's id answers as an unknown one, and so does what is no id", async () => {
      const store = await withAccounts()
      await Promise.all([
        store.ledger.closeGeneration(closing(0xab, 0n)),
        store.ledger.closeGeneration({ ...closing(2, 0n), record: record(2, { accountId: 'b' }) }),
      ])
      const asked = [
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
      expect(await Promise.all(asked.map(([account, id]) => store.ledger.findGeneration(account, id)))).toEqual(
        asked.map(() => undefined),
      )
      expect((await store.ledger.findGeneration('a', idOf(0xab)))?.id).toBe(idOf(0xab))
    })

    test('an id that is none is refused', async () => {
      const store = await withAccounts()
      expect(
        String(await failure(store.ledger.closeGeneration({ ...closing(1, 5n), record: record(1, { id: 'gen_1' }) }))),
      ).toContain('32 hex digits')
      expect(await allTransfers(store)).toEqual([])
    })

    test('close once: a second closing, in the same turn or later, changes nothing', async () => {
      const store = await withAccounts()
      await store.ledger.saveOpen([{ id: idOf(1), accountId: 'a', state: 'kept' }])
      const once = closing(1, 5n, {
        spend: { keyId: 'k', since: 0, spent: 5n },
        windows: [{ accountId: 'a', window: '5_hour', startedAt: 1, endsAt: 2, used: 5n }],
      })
      const again = { ...once, wasOpen: true, record: { ...once.record, model: 'other' } }
      const told = await Promise.all([
        failure(store.ledger.closeGeneration(once)),
        failure(store.ledger.closeGeneration(again)),
        failure(store.ledger.closeGeneration(closing(2, 7n))),
      ])
      expect(told.map(String)).toEqual(['undefined', `Error: generation ${idOf(1)} is closed already`, 'undefined'])
      expect(await failure(store.ledger.closeGeneration(again))).not.toBeInstanceOf(GatewayError)
      const state = await store.ledger.state()
      expect([balanceOf(state, REVENUE), state.spends[0]?.spent, state.windows[0]?.used]).toEqual([12n, 5n, 5n])
      expect(await store.ledger.findGeneration('a', idOf(1))).toEqual(once.record)
      expect(await store.ledger.openGenerations()).toEqual([{ id: idOf(1), accountId: 'a', state: 'kept' }])
    })

    test('a bad one fails alone, with everything that it brought', async () => {
      const store = await withAccounts()
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
      const told = await Promise.all(
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
      expect(told.map((error) => error === undefined)).toEqual([true, false, true, false, false, false, true])
      expect(told.filter((error) => error instanceof GatewayError)).toEqual([])
      expect((await allGenerations(store)).map(({ id, model, price }) => [id, model, price?.rates])).toEqual(
        [1, 3, 7].map((number) => [idOf(number), 'new', 'new']),
      )
      const state = await store.ledger.state()
      expect([balanceOf(state, credit('new')), balanceOf(state, REVENUE), state.spends]).toEqual([-12n, 12n, []])
      await expectBalanced(store)
    })

    test('of a known price keep the one they were admitted with', async () => {
      const store = await withAccounts()
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

    test('under way are kept, written again, and gone when closed', async () => {
      const store = await withAccounts()
      await store.ledger.saveOpen(
        [1, 2, 3].map((number) => ({ id: idOf(number), accountId: 'a', state: `{"at":${number}}` })),
      )
      await store.ledger.saveOpen([{ id: idOf(2), accountId: 'a', state: 'newer' }])
      await Promise.all([
        store.ledger.closeGeneration(closing(1, 1n, { wasOpen: true })),
        store.ledger.saveOpen([{ id: idOf(4), accountId: 'b', state: '4' }]),
      ])
      expect((await store.ledger.openGenerations()).map(({ id, accountId, state }) => [id, accountId, state])).toEqual([
        [idOf(2), 'a', 'newer'],
        [idOf(3), 'a', '{"at":3}'],
        [idOf(4), 'b', '4'],
      ])
    })
  })

  describe(`${name}: windows, spends, plans`, () => {
    test('a window is added to, followed by a later one, and not changed by one that is over', async () => {
      const store = await withAccounts()
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

    test('windows are their own for each account and name', async () => {
      const store = await withAccounts()
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

    test('a spend is added to, begun anew, and not changed by what came before', async () => {
      const store = await withAccounts()
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

    test('a plan is replaced by the next', async () => {
      const store = await withAccounts()
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

  describe(`${name}: the book`, () => {
    test('posts an operation once', async () => {
      const store = await withAccounts()
      expect(
        await Promise.all([
          store.ledger.post(topUp('one', 5n)),
          store.ledger.post(topUp('one', 6n)),
          store.ledger.post(topUp(idOf(9), 7n)),
        ]),
      ).toEqual([true, false, true])
      expect(await Promise.all([store.ledger.post(topUp('one', 5n)), store.ledger.post(topUp(idOf(9), 7n))])).toEqual([
        false,
        false,
      ])
      expect(balanceOf(await store.ledger.state(), credit('a'))).toBe(12n)
      await store.ledger.closeGeneration(closing(1, 2n))
      const rows = (await allTransfers(store, 1)).map(
        ({ reference, kind, amount, at, note }) => `${reference} ${kind} ${amount} ${at} ${note}`,
      )
      expect(rows.sort()).toEqual([
        `${idOf(1)} credit 2 ${1_700_000_000_001 + 320} null`,
        `${idOf(9)} top-up 7 5 null`,
        'one top-up 5 5 null',
      ])
      await expectBalanced(store)
    })

    test('takes no more than there is from what must cover it, whoever else takes of it', async () => {
      const store = await withAccounts()
      const withdrawal = (reference: string, amount: bigint): Operation => ({
        reference,
        at: 5,
        note: null,
        covered: true,
        transfers: [{ kind: 'withdrawal', debit: credit('a'), credit: OUTSIDE, amount }],
      })
      expect(await failure(store.ledger.post(withdrawal('early', 1n)))).toEqual(new NotCovered(0n))
      // In one transaction, and in one after the other.
      expect(
        await Promise.all([
          store.ledger.post(topUp('one', 10n)),
          ...['x', 'y', 'z'].map((name) =>
            store.ledger.post(withdrawal(name, 6n)).catch((error: NotCovered) => error.balance),
          ),
        ]),
      ).toEqual([true, true, 4n, 4n])
      expect(await failure(store.ledger.post(withdrawal('w', 5n)))).toEqual(new NotCovered(4n))
      expect(await store.ledger.post(withdrawal('v', 4n))).toBe(true)
      expect([
        await store.ledger.post(withdrawal('x', 6n)),
        balanceOf(await store.ledger.state(), credit('a')),
      ]).toEqual([false, 0n])
      await expectBalanced(store)
    })

    test('is exact up to the last unit of 64 bits, and refuses what is beyond', async () => {
      const store = await withAccounts()
      const most = 9_000_000_000_000_000_000n - 1n
      expect(await store.ledger.post(topUp('most', most))).toBe(true)
      expect(balanceOf(await store.ledger.state(), credit('a'))).toBe(most)
      const told = await Promise.all(
        [
          store.ledger.post(topUp('over', most)),
          store.ledger.post(topUp('one', 1n)),
          store.ledger.post(topUp('beyond', 2n ** 64n + 1n)),
        ].map(failure),
      )
      expect(told.map((error) => error === undefined)).toEqual([false, true, false])
      const state = await store.ledger.state()
      expect([balanceOf(state, credit('a')), balanceOf(state, OUTSIDE)]).toEqual([most + 1n, -most - 1n])
      await expectBalanced(store)
    })

    test('is read with all that was told to be committed, and nothing else, at whatever moment', async () => {
      const store = await withAccounts()
      let told = 0n
      const close = (number: number): Promise<void> =>
        store.ledger.closeGeneration(closing(number, 1n), () => {
          told += 1n
        })
      const closings = Array.from({ length: 40 }, (_, number) => Bun.sleep(number / 4).then(() => close(number + 1)))
      while (told < 40n) {
        const state = await store.ledger.state().then((read) => ({ revenue: balanceOf(read, REVENUE), told }))
        expect(state.revenue).toBe(state.told)
        await new Promise((resolve) => setImmediate(resolve))
      }
      await Promise.all(closings)
      await expect(close(1)).rejects.toThrow('closed already')
      expect(told).toBe(40n)
    })

    test('gives an audit one state', async () => {
      const store = await withAccounts()
      await store.ledger.post(topUp('one', 5n))
      const seen = await store.snapshot(async () => [
        (await allTransfers(store)).length,
        balanceOf(await store.ledger.state(), credit('a')),
      ])
      expect(seen).toEqual([1, 5n])
      expect(await store.ledger.post(topUp('two', 5n))).toBe(true)
    })

    test('whatever is handed over in whatever turns: once each, balanced, and nothing of what was refused', async () => {
      const step = fc.record({
        number: fc.nat(12),
        amount: fc.bigInt(-1n, 2n ** 40n),
        isClosing: fc.boolean(),
        since: fc.nat(3),
      })
      await fc.assert(
        fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { maxLength: 6 }), async (turns) => {
          const store = await withAccounts()
          const posted = new Map<string, bigint>()
          for (const turn of turns) {
            const expected = turn.map(({ number, amount, isClosing }) => {
              const reference = isClosing ? idOf(number) : `op ${number}`
              const isNew = amount > 0n && !posted.has(reference)
              if (isNew) posted.set(reference, isClosing ? -amount : amount)
              return isNew
            })
            const done = await Promise.all(
              turn.map(({ number, amount, isClosing, since }) => {
                const { transfers, ...rest } = closing(number, 1n, { spend: { keyId: 'k', since, spent: 1n } })
                const written = isClosing
                  ? store.ledger
                      .closeGeneration({ ...rest, transfers: transfers.map((transfer) => ({ ...transfer, amount })) })
                      .then(() => true)
                  : store.ledger.post(topUp(`op ${number}`, amount))
                return written.catch(() => false)
              }),
            )
            expect(done).toEqual(expected)
          }
          expect(balanceOf(await store.ledger.state(), credit('a'))).toBe(
            [...posted.values()].reduce((sum, amount) => sum + amount, 0n),
          )
          expect((await allTransfers(store)).map(({ reference }) => reference).sort()).toEqual(
            [...posted.keys()].sort(),
          )
          expect((await allGenerations(store)).length).toBe([...posted.values()].filter((amount) => amount < 0n).length)
          await expectBalanced(store)
        }),
        { numRuns: 30 },
      )
    }, 30_000)
  })
}

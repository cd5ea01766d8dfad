import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { NotCovered, type Operation, type Store } from '../../src/store/store.ts'
import {
  allGenerations,
  allTransfers,
  balanceOf,
  closing,
  credit,
  expectBalanced,
  failure,
  idOf,
  OUTSIDE,
  REVENUE,
  topUp,
  withAccounts,
} from './records.ts'

/** Tests of any Store: the double-entry book. `open` returns a new, empty one and closes it after the test. */
export function bookContract(name: string, open: () => Store | Promise<Store>): void {
  describe(`${name}: the book`, () => {
    test('an operation is posted once', async () => {
      const store = await withAccounts(open())
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

    test('a covered operation never exceeds the balance, also with concurrent ones', async () => {
      const store = await withAccounts(open())
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

    test('amounts are exact up to 64 bits, and larger ones are refused', async () => {
      const store = await withAccounts(open())
      const most = 9_000_000_000_000_000_000n - 1n
      expect(await store.ledger.post(topUp('most', most))).toBe(true)
      expect(balanceOf(await store.ledger.state(), credit('a'))).toBe(most)
      const errors = await Promise.all(
        [
          store.ledger.post(topUp('over', most)),
          store.ledger.post(topUp('one', 1n)),
          store.ledger.post(topUp('beyond', 2n ** 64n + 1n)),
        ].map(failure),
      )
      expect(errors.map((error) => error === undefined)).toEqual([false, true, false])
      const state = await store.ledger.state()
      expect([balanceOf(state, credit('a')), balanceOf(state, OUTSIDE)]).toEqual([most + 1n, -most - 1n])
      await expectBalanced(store)
    })

    test('the state has every committed change and no pending one, at any moment', async () => {
      const store = await withAccounts(open())
      let committed = 0n
      const close = (number: number): Promise<void> =>
        store.ledger.closeGeneration(closing(number, 1n), () => {
          committed += 1n
        })
      const closings = Array.from({ length: 40 }, (_, number) => Bun.sleep(number / 4).then(() => close(number + 1)))
      while (committed < 40n) {
        const state = await store.ledger.state().then((read) => ({ revenue: balanceOf(read, REVENUE), committed }))
        expect(state.revenue).toBe(state.committed)
        await new Promise((resolve) => setImmediate(resolve))
      }
      await Promise.all(closings)
      await expect(close(1)).rejects.toThrow('closed already')
      expect(committed).toBe(40n)
    })

    test('a snapshot shows one state to an audit', async () => {
      const store = await withAccounts(open())
      await store.ledger.post(topUp('one', 5n))
      const seen = await store.snapshot(async () => [
        (await allTransfers(store)).length,
        balanceOf(await store.ledger.state(), credit('a')),
      ])
      expect(seen).toEqual([1, 5n])
      expect(await store.ledger.post(topUp('two', 5n))).toBe(true)
    })

    test('any writes in any turns are applied once, are balanced, and leave nothing of refused ones', async () => {
      const step = fc.record({
        number: fc.nat(12),
        amount: fc.bigInt(-1n, 2n ** 40n),
        isClosing: fc.boolean(),
        since: fc.nat(3),
      })
      await fc.assert(
        fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { maxLength: 6 }), async (turns) => {
          const store = await withAccounts(open())
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
    }, 120_000)
  })
}

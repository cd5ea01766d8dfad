import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { Store, StoredKey } from '../../src/store/store.ts'
import { accountOf, keyOf } from './account.ts'
import { failure } from './records.ts'

/** The part of a store that has accounts, people and settings. */
export type AccountPart = Pick<
  Store,
  'accounts' | 'people' | 'changes' | 'settings' | 'setSettings' | 'watch' | 'together'
>

/** Opens the stores of two processes over one new database, and closes them after the test. */
export type OpenTwo = () => Promise<{ store: AccountPart; other: AccountPart }>

/** Tests of any store: accounts, keys and settings. */
export function accountContract(name: string, openTwo: OpenTwo): void {
  const withAccounts = async (...ids: string[]): Promise<Awaited<ReturnType<OpenTwo>>> => {
    const both = await openTwo()
    for (const id of ids) await both.store.accounts.add(accountOf(id))
    return both
  }

  describe(`${name}: accounts`, () => {
    test('accounts are read as they were written, by id, by name and in pages', async () => {
      const { store, other } = await openTwo()
      const rows = [
        accountOf('b', { createdAt: 2, discount: 10_000 }),
        accountOf('a', { createdAt: 3, status: 'banned' }),
      ]
      for (const row of [...rows, accountOf('B', { createdAt: 4 })]) expect(await store.accounts.add(row)).toBe(true)
      expect(await other.accounts.list()).toEqual([...rows, accountOf('B', { createdAt: 4 })])
      expect(await other.accounts.list(['a', 'unknown', '\0'])).toEqual([rows[1]!])
      expect(await other.accounts.list([])).toEqual([])
      expect([await other.accounts.find('a'), await other.accounts.find('name of b')]).toEqual([rows[1], rows[0]])
      expect(await other.accounts.find('c')).toBeUndefined()
      expect([await other.accounts.page('', 2), await other.accounts.page('a', 2)]).toEqual([['B', 'a'], ['b']])
    })

    test('a name is taken once, by whichever process is first', async () => {
      const { store, other } = await withAccounts('a')
      expect(await store.accounts.add({ ...accountOf('c'), name: 'name of a' })).toBe(false)
      const added = await Promise.all(
        [0, 1, 2, 3, 4, 5].map((at) => (at % 2 ? store : other).accounts.add(accountOf(`n${at}`, { name: 'same' }))),
      )
      expect(added.filter(Boolean).length).toBe(1)
      expect((await store.accounts.list()).map((one) => one.name)).toEqual(['name of a', 'same'])
    })

    test('a status changes only if the account still has the expected one', async () => {
      const { store, other } = await withAccounts('a', 'b')
      expect(
        await Promise.all([
          store.accounts.setStatus('a', 'suspended'),
          store.accounts.setStatus('a', 'monitored', 'healthy'),
          store.accounts.setStatus('b', 'monitored', 'healthy'),
          store.accounts.setStatus('unknown', 'banned'),
        ]),
      ).toEqual([true, false, true, false])
      const raced = await Promise.all(
        [store, other].map(({ accounts }) => accounts.setStatus('b', 'abusive', 'monitored')),
      )
      expect(raced.filter(Boolean).length).toBe(1)
      expect((await other.accounts.list()).map(({ status }) => status)).toEqual(['suspended', 'abusive'])
      await Promise.all([
        store.accounts.setStatus('a', 'banned'),
        store.accounts.setDiscount('a', 1250),
        store.accounts.setMemberRequests('a', 'all'),
        store.accounts.setStatus('unknown', 'banned'),
      ])
      expect((await other.accounts.list()).map(({ id: _, name: __, createdAt: ___, ...rest }) => rest)).toEqual([
        { status: 'banned', discount: 1250, memberRequests: 'all' },
        { status: 'abusive', discount: 0, memberRequests: 'own' },
      ])
      expect(await failure(store.accounts.setDiscount('a', 10_001))).toBeInstanceOf(Error)
    })

    test('a failed write does not fail those in the same commit, and is not store_unavailable', async () => {
      const { store } = await withAccounts('a')
      const written = await Promise.allSettled([
        store.accounts.addKey(keyOf('k1', 'a', 1)),
        store.accounts.addKey(keyOf('k2', 'a', 1)),
        store.accounts.addKey(keyOf('k3', 'a', 3)),
        store.accounts.addKey(keyOf('k4', 'unknown', 4)),
        store.accounts.addKey(keyOf('k5', 'a', 5, { limit: 2n ** 63n })),
      ])
      expect(written.map(({ status }) => status)).toEqual([
        'fulfilled',
        'rejected',
        'fulfilled',
        'rejected',
        'rejected',
      ])
      expect(written.filter((one) => one.status === 'rejected' && one.reason instanceof GatewayError)).toEqual([])
      expect((await store.accounts.keys()).map(({ id }) => id)).toEqual(['k1', 'k3'])
    })
  })

  describe(`${name}: writes together`, () => {
    const change = (target: string) => ({
      ...{ at: 1, actor: 'ann', actorName: 'Ann', address: null, action: 'key.create', target },
      ...{ accountId: 'a', before: null, after: null },
    })

    test('an entry of the change log is written with its write, or not at all, whatever else fails', async () => {
      const { store, other } = await withAccounts('a')
      const add = (id: string, fill: number): Promise<unknown> =>
        store.together(() => Promise.all([store.changes.add(change(id)), store.accounts.addKey(keyOf(id, 'a', fill))]))
      const written = await Promise.allSettled([
        add('k1', 1),
        add('k2', 1),
        store.accounts.addKey(keyOf('k3', 'a', 1)),
        add('k4', 4),
      ])
      expect(written.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled'])
      const logged = (await other.changes.list({ limit: 9 })).map(({ target }) => target)
      expect([logged, (await other.accounts.keys()).map(({ id }) => id)]).toEqual([
        ['k4', 'k1'],
        ['k1', 'k4'],
      ])
    })

    test('writes have their own results, and may be handed over in parts', async () => {
      const { store } = await withAccounts('a', 'b')
      const results = await store.together(() =>
        Promise.all([
          store.accounts.setStatus('a', 'monitored', 'abusive'),
          store.together(() => store.accounts.setStatus('b', 'suspended')),
        ]),
      )
      expect([results, store.together(() => 5)]).toEqual([[false, true], 5])
      expect((await store.accounts.list()).map(({ status }) => status)).toEqual(['healthy', 'suspended'])
    })
  })

  describe(`${name}: keys`, () => {
    const full = keyOf('k2', 'a', 2, {
      kind: 'pay-as-you-go',
      name: "it's \0 \u001b0 ü",
      createdAt: 6,
      expiresAt: 4_000_000_000_000,
      requestsPerMinute: null,
      models: ['acme/*', 'other/\0"one'],
      limit: 9_007_199_254_740_993n,
      limitPeriod: 'month',
      limitSince: 7,
      idempotency: false,
      role: 'admin',
      scope: 'a',
      createdBy: 'user_1',
      source: 'playground',
    })

    test('a key is read as it was written, by account, id, hash and creator', async () => {
      const { store, other } = await withAccounts('a', 'b')
      const first = keyOf('k1', 'b', 1)
      await Promise.all([store.accounts.addKey(full), store.accounts.addKey(first)])
      expect(await other.accounts.keys()).toEqual([first, full])
      expect([await other.accounts.keys(['a']), await other.accounts.keys([])]).toEqual([[full], []])
      expect([await other.accounts.keyWithId('k2'), await other.accounts.keyWithId('k3')]).toEqual([full, undefined])
      expect(await other.accounts.keyWithHash(full.hash)).toEqual(full)
      expect(await other.accounts.keyWithHash(new Uint8Array(32))).toBeUndefined()
      expect([await other.accounts.keysBy('user_1'), await other.accounts.keysBy('k1')]).toEqual([[full], []])
    })

    test('the first keys are those of one process', async () => {
      const { store, other } = await withAccounts('a')
      const added = await Promise.all(
        [0, 1, 2, 3, 4, 5].map((at) =>
          (at % 2 ? store : other).accounts.addFirstKeys(
            [0, 1].map((part) => keyOf(`k${at}.${part}`, 'a', 2 * at + part)),
          ),
        ),
      )
      expect(added.filter(Boolean).length).toBe(1)
      expect((await store.accounts.keys()).map(({ id }) => id)).toEqual(
        [0, 1].map((part) => `k${added.indexOf(true)}.${part}`),
      )
    })

    test('what can be changed of a key is changed, and nothing else', async () => {
      const { store, other } = await withAccounts('a')
      await store.accounts.addKey(keyOf('k2', 'a', 2))
      await store.accounts.changeKey({ ...full, last4: 'none', kind: 'subscription' })
      const { name: text, expiresAt, requestsPerMinute, models, limit, limitPeriod, limitSince, role, scope } = full
      const limits = { requestsPerMinute, models, limit, limitPeriod, limitSince }
      const changed = { name: text, expiresAt, ...limits, role, scope }
      expect(await other.accounts.keyWithId('k2')).toEqual({ ...keyOf('k2', 'a', 2), ...changed })
    })

    test('the end of a key is changed by those who know it, and that of a revoked key by none', async () => {
      const { store } = await withAccounts('a')
      await store.accounts.addKey(keyOf('k', 'a', 1))
      const ends: unknown[] = []
      for (const [at, was] of [
        [30, null],
        [40, null],
        [20, 30],
      ] as const)
        ends.push(await store.accounts.expireKey('k', at, was), (await store.accounts.keyWithId('k'))?.expiresAt)
      expect(ends).toEqual([true, 30, false, 30, true, 20])
      for (const at of [10, 20]) await store.accounts.revokeKey('k', at)
      expect(await store.accounts.expireKey('k', 5, 20)).toBe(false)
      expect(await store.accounts.keyWithId('k')).toMatchObject({ revokedAt: 10, expiresAt: 20 })
    })

    test('keys are listed newest first, of accounts or by their creator, without those that ended', async () => {
      const { store } = await withAccounts('a', 'b')
      const rows: [string, string, Partial<StoredKey>][] = [
        ['k1', 'a', {}],
        ['k2', 'a', { createdBy: 'ann' }],
        ['k3', 'b', { createdBy: 'ann' }],
        ['k4', 'b', { source: 'playground', expiresAt: 50 }],
        ['k5', 'b', { source: 'api', expiresAt: 50 }],
        ['k6', 'b', { revokedAt: 9 }],
      ]
      for (const [at, [id, accountId, over]] of rows.entries())
        await store.accounts.addKey(keyOf(id, accountId, at, { createdAt: 10 + Math.min(at, 4), ...over }))
      const page = async (over: object): Promise<string> => {
        const filter = { accountIds: undefined, own: [], creator: '', withEnded: true, now: 50, limit: 10, ...over }
        return (await store.accounts.keyPage(filter)).map(({ id }) => id).join(' ')
      }
      expect([
        await page({}),
        await page({ withEnded: false }),
        await page({ withEnded: false, now: 49 }),
        await page({ accountIds: ['a'] }),
        await page({ accountIds: [] }),
        await page({ accountIds: ['a'], own: ['b'], creator: 'ann' }),
        await page({ accountIds: [], own: ['a', 'b'], creator: 'k1' }),
        await page({ limit: 2 }),
        await page({ limit: 2, after: { createdAt: 14, id: 'k5' } }),
      ]).toEqual([
        'k6 k5 k4 k3 k2 k1',
        'k5 k3 k2 k1',
        'k5 k4 k3 k2 k1',
        'k2 k1',
        '',
        'k3 k2 k1',
        'k1',
        'k6 k5',
        'k4 k3',
      ])
    })

    test('the last use of a key stays, whichever process wrote it', async () => {
      const { store, other } = await withAccounts('a')
      await store.accounts.useKeys([])
      await Promise.all([
        store.accounts.useKeys([
          { id: 'k1', at: 5 },
          { id: 'k2', at: 7 },
          { id: 'k1', at: 3 },
        ]),
        other.accounts.useKeys([
          { id: 'k2', at: 6 },
          { id: 'k1', at: 9 },
        ]),
      ])
      expect(Object.fromEntries(await other.accounts.keyUses(['k1', 'k2', 'k3']))).toEqual({ k1: 9, k2: 7 })
    })
  })

  describe(`${name}: changes of accounts`, () => {
    test('an account is listed at its last change, and a use of a key is none', async () => {
      const { store, other } = await withAccounts('a', 'b')
      const start = await other.accounts.lastChange()
      expect(start).toBeGreaterThan(0)
      expect(await other.accounts.changes(start, 10)).toEqual({ position: start, accountIds: [] })
      await store.accounts.addKey(keyOf('k', 'b', 1))
      await store.accounts.setDiscount('a', 5)
      await store.accounts.useKeys([{ id: 'k', at: 5 }])
      await store.accounts.revokeKey('k', 5)
      const { position, accountIds } = await other.accounts.changes(start, 10)
      expect([accountIds, position]).toEqual([['a', 'b'], await other.accounts.lastChange()])
      expect((await other.accounts.changes(start, 1)).accountIds).toEqual(['a'])
    })

    test('a reader that follows two processes misses no change', async () => {
      const ids = Array.from({ length: 40 }, (_, at) => `a${at}`)
      const { store, other } = await withAccounts(...ids)
      let isDone = false
      const seen = new Map<string, number>()
      const follow = async (): Promise<void> => {
        for (let position = 0, last = false; ; ) {
          const page = await store.accounts.changes(position, 3)
          position = page.position
          for (const { id, discount } of await store.accounts.list(page.accountIds)) seen.set(id, discount)
          // Reads of an embedded store take no turn of the event loop.
          await Bun.sleep(0)
          if (page.accountIds.length > 0) continue
          if (last) return
          last = isDone
        }
      }
      const following = follow()
      const write = async (by: AccountPart, own: string[]): Promise<void> => {
        for (let discount = 1; discount <= 5; discount++)
          await Promise.all(own.map((id) => by.accounts.setDiscount(id, discount)))
      }
      await Promise.all([write(store, ids.slice(0, 20)), write(other, ids.slice(20))])
      isDone = true
      await following
      expect([...seen].filter(([, discount]) => discount !== 5)).toEqual([])
      expect(seen.size).toBe(ids.length)
    }, 30_000)
  })

  describe(`${name}: settings`, () => {
    test('a setting keeps the first value, of whichever process, until it is set', async () => {
      const { store, other } = await openTwo()
      expect(await store.settings.get('x')).toBeUndefined()
      const [one, two] = await Promise.all([store.settings.setOnce('x', 'one'), other.settings.setOnce('x', 'two')])
      expect([one === two, await store.settings.get('x')]).toEqual([true, one])
      expect(['one', 'two']).toContain(one)
      expect(await store.settings.setOnce('x', 'later')).toBe(one)
      await other.settings.set('x', 'three\0')
      expect(await store.settings.get('x')).toBe('three\0')
      await store.settings.set('x', undefined)
      expect(await other.settings.get('x')).toBeUndefined()
    })

    test('what is set at run time counts its changes, of all processes', async () => {
      const { store, other } = await openTwo()
      const put = (by: AccountPart, kind: string, key: string, value: string): Promise<void> =>
        by.setSettings.put({ kind, name: key, value, at: 5, by: 'ann' })
      await Promise.all([store, other, store].map((by) => put(by, 'key', 'b', 'old')))
      await put(other, 'key', 'b', 'new')
      await put(store, 'key', 'a', 'x')
      await put(store, 'other', 'b', 'y')
      const row = { kind: 'key', at: 5, by: 'ann' }
      expect(await store.setSettings.list('key')).toEqual([
        { ...row, name: 'a', value: 'x', version: 1 },
        { ...row, name: 'b', value: 'new', version: 4 },
      ])
      expect((await store.setSettings.list('other', 'none', 'key')).map((one) => [one.kind, one.name])).toEqual([
        ['other', 'b'],
        ['key', 'a'],
        ['key', 'b'],
      ])
      await other.setSettings.remove('key', 'b')
      await other.setSettings.remove('key', 'unknown')
      expect((await store.setSettings.list('key')).map((one) => one.name)).toEqual(['a'])
    })
  })

  describe(`${name}: changes by other processes`, () => {
    const WRITES: [string, (by: AccountPart) => Promise<unknown>][] = [
      ['a revoked key', (by) => by.accounts.revokeKey('k', 5)],
      ['a suspended account', (by) => by.accounts.setStatus('a', 'suspended')],
      ['a lowered limit', (by) => by.accounts.changeKey(keyOf('k', 'a', 1, { limit: 5n }))],
      ['a changed setting', (by) => by.setSettings.put({ kind: 'x', name: 'y', value: 'z', at: 1, by: 'ann' })],
      ['a removed setting', (by) => by.setSettings.remove('x', 'old')],
    ]

    test('each kind of change calls every listener, again until all succeed', async () => {
      const { store, other } = await withAccounts('a')
      await other.accounts.addKey(keyOf('k', 'a', 1))
      await other.setSettings.put({ kind: 'x', name: 'old', value: 'z', at: 1, by: 'ann' })
      let [fails, first, second] = [false, 0, 0]
      store.watch(async () => {
        first += 1
        if (fails) throw new Error('not now')
      })
      store.watch(async () => void (second += 1))
      for (const [what, write] of WRITES) {
        // A listener that fails is called again by the same loop, whatever has changed.
        fails = what === WRITES[0]![0]
        const [calls, before] = [fails ? 2 : 1, [first, second] as const]
        await write(other)
        const isCalled = (): boolean => first >= before[0] + calls && second >= before[1] + calls
        expect([what, await until(isCalled)]).toEqual([what, true])
        if (!fails) continue
        fails = false
        const after = first
        expect(await until(() => first > after)).toBe(true)
      }
    }, 60_000)
  })
}

/** True when the condition holds, false where it does not for long. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<boolean> {
  const giveUpAt = performance.now() + 30_000
  while (!(await condition())) {
    if (performance.now() > giveUpAt) return false
    await Bun.sleep(20)
  }
  return true
}

import { describe, expect, test } from 'bun:test'
import { ChangeLog } from '../../src/accounts/change-log.ts'
import type { Session, SignInLink, StoredRole, User } from '../../src/store/store.ts'
import type { AccountPart, OpenTwo } from './account-contract.ts'
import { failure } from './records.ts'

const user = (id: string, over: Partial<User> = {}): User => ({
  id,
  name: `name of ${id}`,
  email: null,
  password: null,
  createdAt: 1,
  joinedAt: null,
  ...over,
})

const OWNER: StoredRole = { scope: 'installation', role: 'owner' }

const bytes = (fill: number): Uint8Array => new Uint8Array(32).fill(fill)

const session = (id: string, userId: string, fill: number, over: Partial<Session> = {}): Session => ({
  id,
  userId,
  hash: bytes(fill),
  createdAt: 1,
  seenAt: 10,
  idleMs: 100,
  endsAt: 1_000,
  isStale: false,
  address: null,
  client: null,
  ...over,
})

const link = (fill: number, userId: string | null, expiresAt = 1_000): SignInLink => ({
  hash: bytes(fill),
  userId,
  createdAt: 1,
  expiresAt,
})

/** The number of attempts that succeed, of those that two processes make in turn. */
async function successes(
  both: { store: AccountPart; other: AccountPart },
  attempt: (by: AccountPart, at: number) => Promise<boolean>,
): Promise<number> {
  const attempts = Array.from({ length: 8 }, (_, at) => attempt(at % 2 ? both.store : both.other, at))
  return (await Promise.all(attempts)).filter(Boolean).length
}

/** Tests of any store: people and the change log. */
export function peopleContract(name: string, openTwo: OpenTwo): void {
  describe(`${name}: people`, () => {
    test('users and roles are read as they were written', async () => {
      const { store, other } = await openTwo()
      const [ann, bob] = [
        user('ann', { createdAt: 2, email: 'ann@x', password: 'p$1', joinedAt: 9, name: 'Änn \0' }),
        user('bob'),
      ]
      expect(await store.people.addUser(ann, [OWNER, { scope: 'a', role: 'viewer' }])).toBe(true)
      expect(await store.people.addUser(bob, [])).toBe(true)
      expect([await other.people.users(), await other.people.count()]).toEqual([[bob, ann], 2])
      expect([await other.people.user('ann'), await other.people.user('eve')]).toEqual([ann, undefined])
      expect([await other.people.userWithEmail('ann@x'), await other.people.userWithEmail('x')]).toEqual([
        ann,
        undefined,
      ])
      const roles = [{ scope: 'a', role: 'viewer' }, OWNER]
      expect((await other.people.roles('ann')).toSorted((a, b) => (a.scope < b.scope ? -1 : 1))).toEqual(roles)
      expect((await other.people.allRoles()).map(({ userId }) => userId)).toEqual(['ann', 'ann'])
      expect(await store.people.changeUser({ ...bob, name: 'Bob', email: 'bob@x' })).toBe(true)
      expect(await other.people.user('bob')).toEqual({ ...bob, name: 'Bob', email: 'bob@x' })
      expect(await store.people.changeUser(user('eve'))).toBe(false)
      expect(await failure(store.people.setRoles('eve', [OWNER]))).toBeInstanceOf(Error)
      expect(await store.people.removeUser('bob')).toBe(true)
      expect(await other.people.count()).toBe(1)
    })

    test('one of many first users is made', async () => {
      const both = await openTwo()
      expect(await successes(both, (by, at) => by.people.addUser(user(`u${at}`), [OWNER], true))).toBe(1)
      expect([await both.store.people.count(), (await both.store.people.allRoles()).length]).toEqual([1, 1])
    })

    test('an e-mail address has one user', async () => {
      const both = await openTwo()
      const email = 'ann@x'
      expect(await successes(both, (by, at) => by.people.addUser(user(`u${at}`, { email }), [OWNER]))).toBe(1)
      for (const at of [0, 1, 2, 3, 4, 5, 6, 7]) await both.store.people.addUser(user(`v${at}`), [])
      expect(await successes(both, (by, at) => by.people.changeUser(user(`v${at}`, { email })))).toBe(0)
      const next = 'bob@x'
      expect(await successes(both, (by, at) => by.people.changeUser(user(`v${at}`, { email: next })))).toBe(1)
      expect((await both.store.people.users()).filter((one) => one.email === next).length).toBe(1)
    })

    test('an owner is left, whoever removes them', async () => {
      const both = await openTwo()
      const ids = Array.from({ length: 8 }, (_, at) => `u${at}`)
      for (const id of ids) await both.store.people.addUser(user(id), [OWNER])
      const admin = { ...OWNER, role: 'admin' }
      const changed = await successes(both, (by, at) =>
        at % 4 < 2 ? by.people.removeUser(`u${at}`) : by.people.setRoles(`u${at}`, [admin]),
      )
      const left = (await both.store.people.allRoles()).filter(({ role }) => role === 'owner')
      expect([changed, left.length]).toEqual([7, 1])
    })

    test('a session is found by its text until it ends, and is stale after roles changed', async () => {
      const { store, other } = await openTwo()
      for (const id of ['ann', 'bob']) await store.people.addUser(user(id), [OWNER])
      const [one, two] = [session('s1', 'ann', 1, { address: '::1', client: 'x\0' }), session('s2', 'ann', 2)]
      await Promise.all([one, two, session('s3', 'bob', 3)].map((row) => store.people.addSession(row)))
      const found = (hash: Uint8Array, now: number): Promise<Session | undefined> =>
        other.people.sessionWithHash(hash, now)
      expect([await found(one.hash, 109), await found(one.hash, 110), await found(bytes(9), 5)]).toEqual([
        one,
        undefined,
        undefined,
      ])
      await Promise.all([store.people.seeSession('s1', 950), other.people.seeSession('s1', 900)])
      expect([(await found(one.hash, 999))?.seenAt, await found(one.hash, 1_000)]).toEqual([950, undefined])
      expect((await other.people.sessions('ann', 50)).map(({ id }) => id)).toEqual(['s1', 's2'])
      await other.people.setRoles('ann', [OWNER])
      expect((await store.people.sessions('ann', 50)).map(({ isStale }) => isStale)).toEqual([true, true])
      expect((await store.people.sessions('bob', 50)).map(({ isStale }) => isStale)).toEqual([false])
      expect([
        await store.people.endSessions('ann', { only: 's2' }),
        await store.people.endSessions('bob', { only: 's1' }),
      ]).toEqual([1, 0])
      expect([await store.people.endSessions('ann'), await store.people.endSessions('bob')]).toEqual([1, 1])
    })

    test('the text of a session is replaced once, and the old one is good for a while', async () => {
      const both = await openTwo()
      await both.store.people.addUser(user('ann'), [OWNER])
      const old = session('s', 'ann', 1)
      await both.store.people.addSession(old)
      expect(await both.store.people.replaceText(old, bytes(2), 50)).toBe(false)
      await both.store.people.setRoles('ann', [OWNER])
      expect(await successes(both, (by, at) => by.people.replaceText(old, bytes(10 + at), 50))).toBe(1)
      const found = async (hash: Uint8Array, now: number): Promise<unknown> =>
        (await both.other.people.sessionWithHash(hash, now))?.isStale
      expect([await found(bytes(1), 49), await found(bytes(1), 50)]).toEqual([false, undefined])
    })

    test('a link is used once, with all others of its user', async () => {
      const both = await openTwo()
      for (const id of ['ann', 'bob']) await both.store.people.addUser(user(id), [OWNER])
      const links = [link(1, 'ann'), link(2, 'ann'), link(3, 'bob'), link(4, null), link(5, null)]
      for (const one of links) await both.store.people.addLink(one)
      expect([await both.other.people.link(bytes(4)), await both.other.people.link(bytes(9))]).toEqual([
        links[3],
        undefined,
      ])
      expect(await successes(both, (by, at) => by.people.useLink(bytes(1 + (at % 2))))).toBe(1)
      expect(await both.other.people.useLink(bytes(9))).toBe(false)
      const left = await Promise.all(links.map(({ hash }) => both.other.people.link(hash)))
      expect(left.map((one) => one !== undefined)).toEqual([false, false, true, true, true])
      expect(await successes(both, (by) => by.people.useLink(bytes(4)))).toBe(1)
      expect(await both.store.people.link(bytes(5))).toBeDefined()
    })

    test('a removed user has no roles, sessions and links; what ended is purged', async () => {
      const { store } = await openTwo()
      for (const id of ['ann', 'bob']) await store.people.addUser(user(id), [OWNER])
      await store.people.addSession(session('s1', 'bob', 1))
      await store.people.addLink(link(1, 'bob'))
      await store.people.addSession(session('s2', 'ann', 2, { endsAt: 20 }))
      await store.people.addSession(session('s3', 'ann', 3))
      await store.people.addLink(link(2, 'ann', 20))
      expect(await store.people.removeUser('bob')).toBe(true)
      expect([(await store.people.allRoles()).length, await store.people.link(bytes(1))]).toEqual([1, undefined])
      expect(await store.people.sessionWithHash(bytes(1), 5)).toBeUndefined()
      await store.people.purge(20)
      expect([await store.people.link(bytes(2)), (await store.people.sessions('ann', 5)).length]).toEqual([
        undefined,
        1,
      ])
      expect(await store.people.removeUser('ann')).toBe(false)
    })
  })

  describe(`${name}: the change log`, () => {
    const change = (at: number, over: object = {}) => ({
      at,
      actor: 'user_1',
      actorName: 'Ann \0 \u001b',
      address: null,
      action: 'key.create',
      target: `k${at}`,
      accountId: null,
      before: null,
      after: '{"x":"\\u0000"}',
      ...over,
    })

    test('changes are listed newest first, as they were written', async () => {
      const { store, other } = await openTwo()
      const rows = [
        change(1),
        change(2, { accountId: 'a', address: '::1', before: '{}', after: null }),
        change(3, { accountId: 'b', actor: 'user_2' }),
        change(4, { accountId: 'a', action: 'key.revoke', target: 'k2' }),
      ]
      for (const row of rows) await store.changes.add(row)
      const listed = await other.changes.list({ limit: 10 })
      expect(listed).toMatchObject(rows.toReversed())
      const times = async (filter: object): Promise<number[]> =>
        (await other.changes.list({ limit: 10, ...filter })).map(({ at }) => at)
      expect([
        await times({ limit: 2 }),
        await times({ before: listed[1]!.position }),
        await times({ accountIds: ['a'] }),
        await times({ accountIds: [] }),
        await times({ actor: 'user_2' }),
        await times({ accountIds: ['a', 'b'], action: 'key.create', target: 'k2' }),
      ]).toEqual([[4, 3], [2, 1], [4, 2], [], [3], [2]])
      expect((await other.changes.page(listed[2]!.position, 1)).map(({ at }) => at)).toEqual([3])
    })

    test('each digest follows the one before, whichever processes add', async () => {
      const both = await openTwo()
      const log = new ChangeLog(both.store.changes, () => 7)
      const added = await successes(both, async (by, at) => {
        for (let index = 0; index < 10; index++) await by.changes.add(change(at, { target: `${index}` }))
        return true
      })
      const all = await both.other.changes.page(0, 1_000)
      expect([added, all.length, new Set(all.map(({ digest }) => digest)).size]).toEqual([8, 80, 80])
      expect(await log.firstWrong()).toBeUndefined()
    }, 30_000)
  })
}

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PasswordAttempts } from '../../src/accounts/password-attempts.ts'
import type { Store } from '../../src/store/store.ts'
import { ORIGINS_KEPT, ATTEMPTS_KEPT } from '../../src/store/password-attempts.ts'
import { failure } from '../store/records.ts'
import { newPostgresFolder, sqlIn, storeIn } from '../stores.ts'

setDefaultTimeout(60_000)

const KINDS = {
  SQLite: () => mkdtempSync(join(tmpdir(), 'sluice-attempts-')),
  PostgreSQL: newPostgresFolder,
}

describe.each(Object.entries(KINDS))('%s: password attempts', (_, makeFolder) => {
  let folder: string
  let stores: Store[]
  let attempts: [PasswordAttempts, PasswordAttempts]
  let now = 1_000_000
  beforeAll(async () => {
    folder = makeFolder()
    stores = [await storeIn(folder), await storeIn(folder)]
    attempts = stores.map(({ passwordAttempts: store }) => new PasswordAttempts(store, () => now)) as [
      PasswordAttempts,
      PasswordAttempts,
    ]
  })
  afterAll(async () => {
    for (const store of stores) await store.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const wait = async (name: string, network: string): Promise<number | undefined> =>
    ((await failure(attempts[0].begin(name, network))) as { retryAfterSeconds?: number } | undefined)?.retryAfterSeconds

  /** The number of attempts that are counted, of so many at two processes at once. */
  const counted = async (count: number, name: (index: number) => string, network: (index: number) => string) => {
    const begun = Array.from({ length: count }, (_each, index) =>
      attempts[index % 2 ? 1 : 0].begin(name(index), network(index)),
    )
    return (await Promise.allSettled(begun)).filter(({ status }) => status === 'fulfilled').length
  }

  test('at two processes at once count as at one, by name and by address', async () => {
    expect(
      await counted(
        16,
        () => 'ann',
        (index) => `n${index}`,
      ),
    ).toBe(10)
    expect(
      await counted(
        16,
        (index) => `name${index}`,
        () => 'n',
      ),
    ).toBe(10)
    expect(await wait('ann', 'other')).toBeWithin(600, 901)
    expect(await wait('other', 'n')).toBeWithin(600, 901)
    expect(await wait('other', 'other')).toBeUndefined()
  })

  test('of right passwords do not count, also where several are compared at once', async () => {
    for (let round = 0; round < 6; round++) {
      const begun = await Promise.all([attempts[0].begin('bob', `b${round}`), attempts[1].begin('bob', `b${round}`)])
      for (const withdraw of begun) await withdraw(false)
    }
    expect(await wait('bob', 'b')).toBeUndefined()
  })

  test('from a network that has signed in before are counted separately, at all processes', async () => {
    await (await attempts[0].begin('eve', 'home'))(true)
    expect(
      await counted(
        12,
        () => 'eve',
        (index) => `s${index}`,
      ),
    ).toBe(10)
    expect(
      await counted(
        12,
        () => 'eve',
        () => 'home',
      ),
    ).toBe(10)
  })

  test('end after 15 minutes, and a clock that was set back keeps none for longer than twice that', async () => {
    const age = async (ms: number): Promise<void> =>
      void (await sqlIn(folder, `UPDATE password_tries SET at = at - (${ms})`))
    for (let count = 0; count < 10; count++) await attempts[0].begin('kim', `k${count}`)
    await age(14 * 60_000)
    expect(await wait('kim', 'k')).toBeWithin(1, 61)
    await age(60_000)
    expect(await wait('kim', 'k')).toBeUndefined()
    for (let count = 1; count < 10; count++) await attempts[0].begin('kim', `k${count}`)
    await age(-31 * 60_000)
    expect(await wait('kim', 'k')).toBeUndefined()
  })

  test('and origins of which there are too many lose the oldest', async () => {
    const hash = stores[0]!.isShared ? 'sha256(n::text::bytea)' : 'randomblob(32)'
    const many = (most: number): string =>
      `WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < ${most})`
    const rows = async (table: string): Promise<number> =>
      Number((await sqlIn<{ count: number }>(folder, `SELECT count(*) AS count FROM ${table}`))[0]!.count)
    const withdraw = await attempts[0].begin('old', 'old')
    await sqlIn(
      folder,
      `${many(ATTEMPTS_KEPT + 100)} INSERT INTO password_tries (name, address, at)
       SELECT ${hash}, ${hash}, (SELECT max(at) FROM password_tries) FROM many`,
    )
    await sqlIn(folder, `${many(ORIGINS_KEPT + 100)} INSERT INTO known_places (place) SELECT ${hash} FROM many`)
    await withdraw(true)
    await attempts[1].begin('next', 'next')
    expect(await rows('password_tries')).toBe(ATTEMPTS_KEPT + 1)
    expect(await rows('known_places')).toBe(ORIGINS_KEPT)
  })
})

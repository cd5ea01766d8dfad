import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, openSync, rmSync, statSync, truncateSync, writeSync, closeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadPepper } from '../../src/accounts/pepper.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { topUp } from '../../src/ledger/book.ts'
import { accountOf } from './account.ts'

/** Data folders whose files were removed, emptied or overwritten, and balances that do not fit. */

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step()
})

const open = (folder: string, exclusive = true): SqliteStore => {
  const store = new SqliteStore({ folder, exclusive })
  cleanUp.push(() => store.close())
  return store
}

/** A folder that was used and closed. */
async function used(): Promise<{ folder: string; database: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-damaged-'))
  cleanUp.push(() => rmSync(folder, { recursive: true, force: true }))
  const store = new SqliteStore({ folder, exclusive: true })
  await loadPepper({ folder, store })
  for (let at = 0; at < 200; at++) await store.accounts.add(accountOf(`a${at}`))
  await store.close()
  return { folder, database: join(folder, 'sluice.sqlite') }
}

/** Overwrites the bytes from here on. */
function overwrite(file: string, from: number): void {
  const descriptor = openSync(file, 'r+')
  writeSync(descriptor, Buffer.alloc(statSync(file).size - from, 'x'), 0, undefined, from)
  closeSync(descriptor)
}

describe('a data folder that was used', () => {
  test.each([
    ['missing', (file: string) => rmSync(file)],
    ['empty', (file: string) => truncateSync(file)],
  ])('is refused with what to do if its database is %s, every time', async (_, damage) => {
    const { folder, database } = await used()
    damage(database)
    for (const exclusive of [true, false, true])
      expect(() => open(folder, exclusive)).toThrow(
        `${database} is missing or empty, with all accounts, keys and balances, although ${folder}/pepper is there. ` +
          `Restore it from a backup; to start with an empty one, remove ${folder}/pepper`,
      )
    rmSync(join(folder, 'pepper'))
    expect(await open(folder).accounts.list()).toEqual([])
  })

  test('is refused as corrupt if its database was overwritten', async () => {
    const { folder, database } = await used()
    overwrite(database, 0)
    expect(() => open(folder)).toThrow(
      `the database ${database} is corrupt (file is not a database); restore it from a backup`,
    )
  })

  test('reports corruption where a page is read', async () => {
    const { folder, database } = await used()
    overwrite(database, 4096)
    const read = async (): Promise<unknown> => open(folder).accounts.list()
    await expect(read()).rejects.toThrow(/is corrupt[^]*from a backup/)
  })
})

describe('a server whose lock file was removed', () => {
  test.each([[['lock.sqlite']], [['lock.sqlite', 'server.pid']]])(
    'is still the only one on its folder, until it ends: without %j',
    async (removed) => {
      const { folder } = await used()
      const first = Bun.spawn([process.execPath, join(import.meta.dir, 'holder.ts'), folder], {
        stdin: 'pipe',
        stdout: 'pipe',
      })
      cleanUp.push(() => first.kill('SIGKILL'))
      await first.stdout.getReader().read()
      for (const name of removed) rmSync(join(folder, name))
      for (let tries = 0; tries < 2; tries++)
        expect(() => open(folder)).toThrow(`in use by another Sluice (process ${first.pid})`)
      expect((await open(folder, false).accounts.list()).length).toBe(200)
      first.kill('SIGKILL')
      await first.exited
      open(folder)
    },
    15_000,
  )
})

test('a balance that would not fit is refused with its limit, and nothing is changed', async () => {
  const { folder } = await used()
  const store = open(folder)
  const credit = (reference: number, accountId: string, usd: bigint): Promise<boolean> =>
    store.ledger.post(
      topUp({ reference: `r${reference}`, at: 1, accountId, amount: usd * 1_000_000_000n, bonus: false }),
    )
  for (let at = 0; at < 9; at++) expect(await credit(at, `a${at % 2}`, 1_000_000_000n)).toBe(true)
  await expect(credit(9, 'a2', 1_000_000_000n)).rejects.toThrow(
    'the outside account of the book would exceed 9223372036 USD, the most it can hold; nothing was changed',
  )
  expect(await credit(10, 'a0', 223_372_036n)).toBe(true)
  const { balances } = await store.ledger.state()
  expect(balances.reduce((sum, { balance }) => sum + balance, 0n)).toBe(0n)
  using database = new Database(join(folder, 'sluice.sqlite'))
  expect(database.query('SELECT count(*) AS count FROM transfers').get()).toEqual({ count: 10 })
})

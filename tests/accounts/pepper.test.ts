import { afterEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadPepper } from '../../src/accounts/pepper.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'
import { databaseFor } from '../postgres/databases.ts'

setDefaultTimeout(60_000)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function newFolder(content?: Buffer): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pepper-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  if (content !== undefined) writeFileSync(join(folder, 'pepper'), content)
  return folder
}

const [ONE, TWO] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]

/** The pepper, or what the operator is to do. */
const load = (store: Store, folder: string, SLUICE_PEPPER?: string): Promise<Buffer | string> =>
  loadPepper({ store, folder, env: { SLUICE_PEPPER } }).catch((error: Error) => error.message)

describe('over a data folder', () => {
  function open(folder: string): Store {
    const store = new SqliteStore({ folder, exclusive: false })
    cleanups.push(() => store.close())
    return store
  }

  test('the variable wins over the file, and makes none', async () => {
    const folder = newFolder()
    const store = open(folder)
    expect(await load(store, folder, ONE.toString('hex'))).toEqual(ONE)
    expect(existsSync(join(folder, 'pepper'))).toBe(false)
    writeFileSync(join(folder, 'pepper'), TWO)
    expect(await load(store, folder, ONE.toString('base64'))).toEqual(ONE)
    expect(await load(store, folder)).toMatch(/pepper does not match the keys of this data folder/)
    expect(await load(store, folder, 'short')).toMatch(/SLUICE_PEPPER must be 32 bytes in base64 or hexadecimal/)
  })

  test('one that cannot be read is named', async () => {
    const folder = newFolder()
    const store = open(folder)
    mkdirSync(join(folder, 'pepper'))
    expect(await load(store, folder)).toMatch(/^cannot read .*pepper \(EISDIR.*\); the user of Sluice must be able to/)
  })

  test('without the variable it is in a file, which is made once', async () => {
    const folder = newFolder()
    const [one, two] = [open(folder), open(folder)]
    const [made, same] = await Promise.all([load(one, folder), load(two, folder)])
    expect([made, same]).toEqual([readFileSync(join(folder, 'pepper')), made!])
    expect(await one.settings.get('pepper-check')).not.toContain((made as Buffer).toString('base64'))
  })
})

describe('over PostgreSQL', () => {
  let databases = 0
  async function open(count: number): Promise<Store[]> {
    const url = await databaseFor(`pepper_${process.pid}_${databases++}`, () => true)
    const stores = Array.from({ length: count }, () =>
      PostgresStore.open({ url, connections: 3, patienceMs: 1_000 }).then((store) => {
        cleanups.push(() => store.close())
        return store as unknown as Store
      }),
    )
    return Promise.all(stores)
  }

  test('processes that start at the same time agree on one in the database, and make no file', async () => {
    const stores = await open(4)
    const folders = stores.map(() => newFolder())
    const peppers = await Promise.all(stores.map((store, at) => load(store, folders[at]!)))
    expect(peppers).toEqual(peppers.map(() => peppers[0]!))
    expect(peppers[0]!.length).toBe(32)
    expect(folders.filter((folder) => existsSync(join(folder, 'pepper')))).toEqual([])
    expect(await load(stores[0]!, newFolder(TWO))).toEqual(peppers[0]!)
    expect(await load(stores[0]!, newFolder(), TWO.toString('base64'))).toBe(
      'SLUICE_PEPPER does not match the keys in the database. All processes need the same one: set SLUICE_PEPPER to ' +
        'that of a process that runs, or copy the file pepper from its data folder (or, if neither has one, remove ' +
        'this one)',
    )
  })

  test('a chosen one is not in the database, so that every process needs it', async () => {
    for (const file of [true, false]) {
      const [store, other] = (await open(2)) as [Store, Store]
      const chosen = file ? await load(store, newFolder(ONE)) : await load(store, newFolder(), ONE.toString('base64'))
      expect(chosen).toEqual(ONE)
      expect(await store.settings.get('pepper-check')).not.toContain(ONE.toString('base64'))
      expect(await load(other, newFolder(), ONE.toString('hex'))).toEqual(ONE)
      expect(await load(other, newFolder(ONE))).toEqual(ONE)
      expect(await load(other, newFolder(TWO))).toMatch(/pepper does not match the keys in the database/)
      const folder = newFolder()
      expect(await load(other, folder)).toMatch(/hashed with a pepper that this process does not have: set SLUICE_PEP/)
      expect(existsSync(join(folder, 'pepper'))).toBe(false)
    }
  })

  test('of two that start at once, the one without the pepper of the other is refused', async () => {
    const [store, other] = (await open(2)) as [Store, Store]
    const results = await Promise.all([load(store, newFolder(ONE)), load(other, newFolder())])
    const peppers = results.filter((one) => typeof one !== 'string')
    const next = await Promise.all([load(store, newFolder(ONE)), load(other, newFolder())])
    // Whichever is first decides, and stays in force.
    expect(new Set(peppers.map((one) => (one as Buffer).toString('hex'))).size).toBe(1)
    expect(next.map((one) => typeof one !== 'string')).toEqual([true, typeof results[1] !== 'string'])
  })
})

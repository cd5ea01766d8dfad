import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, spyOn, test } from 'bun:test'
import { createHash } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import { itemText, writtenResponse } from '../../src/store/responses.ts'
import { MIGRATIONS } from '../../src/store/sqlite/migrations.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { accountOf, keyOf } from './account.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

function open(options: { folder?: string; exclusive?: boolean; now?: () => number } = {}): SqliteStore {
  const store = new SqliteStore({
    folder: options.folder ?? newFolder(),
    exclusive: options.exclusive ?? false,
    ...(options.now === undefined ? {} : { now: options.now }),
  })
  cleanups.push(() => store.close().catch(() => {}))
  return store
}

const answer = (id: string, ...output: object[]) => ({
  ...writtenResponse({ id, output })!,
  inputItems: [],
  expiresAt: Date.now() + 60_000,
})

async function withAccounts(options: Parameters<typeof open>[0] = {}): Promise<SqliteStore> {
  const store = open(options)
  for (const id of ['a', 'b']) await store.accounts.add(accountOf(id))
  return store
}

describe('accounts and keys', () => {
  test('a failure of the database is store_unavailable, a violated constraint is not', async () => {
    const folder = newFolder()
    const store = await withAccounts({ folder })
    const broken = await store.accounts.addKey(keyOf('k1', 'unknown', 1)).catch((error: unknown) => error)
    expect(broken).toBeInstanceOf(Error)
    expect(broken).not.toBeInstanceOf(GatewayError)
    const database = new Database(join(folder, 'sluice.sqlite'))
    database.run('DROP TABLE settings')
    database.close()
    for (const failure of [
      await store.settings.get('x').catch((error: unknown) => error),
      await store.settings.setOnce('x', 'y').catch((error: unknown) => error),
    ]) {
      expect(failure).toBeInstanceOf(GatewayError)
      expect((failure as GatewayError).status).toBe(503)
      expect((failure as GatewayError).message).not.toContain('settings')
    }
  })
})

describe('closing', () => {
  test('a store that is closed again leaves open what was opened since', async () => {
    const store = await withAccounts()
    const other = newFolder()
    await store.close()
    // The first of them has the descriptor that the store had.
    const descriptors = Array.from({ length: 20 }, () => openSync('/', 'r'))
    const next = open({ folder: other, exclusive: true })
    await store.close()
    for (const descriptor of descriptors) fstatSync(descriptor)
    descriptors.forEach(closeSync)
    await next.close()
    const last = open({ folder: other, exclusive: true })
    const owner = readFileSync(join(other, 'server.pid'), 'utf8')
    await next.close()
    expect(readFileSync(join(other, 'server.pid'), 'utf8')).toBe(owner)
    await last.close()
  })
})

describe('group commit', () => {
  const write = (store: SqliteStore, name: string): Promise<string> => store.settings.setOnce(name, 'x')

  test('a write after a shared transaction waits for no timer', async () => {
    const store = open()
    using timers = spyOn(globalThis, 'setTimeout')
    await Promise.all(['a', 'b', 'c', 'd'].map((name) => write(store, name)))
    await write(store, 'e')
    // Other tests of the process may leave longer ones.
    expect(timers.mock.calls.filter(([, ms]) => ms === 1)).toEqual([])
  })

  test('a transaction waits for others while many writes arrive', async () => {
    const store = open()
    using timers = spyOn(globalThis, 'setTimeout')
    const startedAt = performance.now()
    while (performance.now() - startedAt < 2_000 && timers.mock.calls.length === 0)
      await Promise.all(Array.from({ length: 300 }, () => write(store, 'a')))
    expect(timers.mock.calls.length).toBeGreaterThan(0)
  })
})

describe('responses', () => {
  test('a response is read as it was written, with any text', async () => {
    const store = await withAccounts()
    const response = {
      id: 'r',
      output: [{ id: 'm', type: 'message', text: 'a\u0000b\u2028 "quoted" \u{1F600}' }],
      __proto__kept: null,
    }
    const inputItems = [{ type: 'message', content: "Robert'); DROP TABLE keys;--" }, 'text']
    await store.responses.save('a', {
      ...writtenResponse(response)!,
      inputItems: inputItems.map(itemText),
      expiresAt: Date.now() + 1000,
    })
    const found = await store.responses.find('a', 'r')
    expect(found?.response).toEqual(response)
    expect(found?.inputItems).toEqual(inputItems)
  })

  test('a long response is written in several transactions, and found after the last', async () => {
    const folder = newFolder()
    const store = await withAccounts({ folder })
    const inputItems = Array.from({ length: 1_700 }, (_, index) => ({ id: `m${index}`, text: 'x'.repeat(index) }))
    const saved = {
      ...writtenResponse({ id: 'r', output: [{ id: 'o', type: 'message' }] })!,
      inputItems: inputItems.map(itemText),
      expiresAt: Date.now() + 100_000,
    }
    const saving = store.responses.save('a', saved)
    const beside = open({ folder })
    let [hasBegun, wasFoundEarly] = [false, false]
    const database = new Database(join(folder, 'sluice.sqlite'), { readonly: true })
    cleanups.push(() => database.close())
    let isSaved = false
    void saving.then(() => (isSaved = true))
    while (!isSaved) {
      const { items } = database.query('SELECT count(*) AS items FROM response_items').get() as { items: number }
      if (items > 0 && items < 1_701) {
        hasBegun = true
        wasFoundEarly ||= (await beside.responses.find('a', 'r')) !== undefined
      }
      await Bun.sleep(0)
    }
    expect([hasBegun, wasFoundEarly]).toEqual([true, false])
    expect((await store.responses.find('a', 'r'))?.inputItems).toEqual(inputItems)
    expect(await store.kept.wrongTotals()).toEqual([])
  })

  test("another account's response is unknown", async () => {
    const store = await withAccounts()
    await store.responses.save('a', answer('r', { id: 'm' }))
    expect(await store.responses.find('b', 'r')).toBeUndefined()
    expect(await store.responses.findItem('b', 'm')).toBeUndefined()
    expect(await store.responses.delete('b', 'r')).toBe(false)
    expect(await store.responses.findItem('a', 'm')).toEqual({ id: 'm' })
  })

  test('two accounts may have the same response id', async () => {
    const store = await withAccounts()
    await store.responses.save('a', answer('r', { id: 'm', of: 'a' }))
    await store.responses.save('b', answer('r', { id: 'm', of: 'b' }))
    expect(await store.responses.findItem('a', 'm')).toEqual({ id: 'm', of: 'a' })
    expect(await store.responses.delete('a', 'r')).toBe(true)
    expect(await store.responses.findItem('b', 'm')).toEqual({ id: 'm', of: 'b' })
    expect(await store.responses.findItem('a', 'm')).toBeUndefined()
  })

  test('of several items with one id the newest is found, input or output, but never a reference', async () => {
    const store = await withAccounts()
    await store.responses.save('a', answer('r1', { id: 'm', turn: 1 }))
    await store.responses.save('a', {
      ...answer('r2', { id: 'n' }),
      inputItems: [{ id: 'm', turn: 2 }, { id: 7 }, null].map(itemText),
    })
    await store.responses.save('a', { ...answer('r3'), inputItems: [itemText({ id: 'm', type: 'item_reference' })] })
    expect(await store.responses.findItem('a', 'm')).toEqual({ id: 'm', turn: 2 })
    await store.responses.delete('a', 'r2')
    expect(await store.responses.findItem('a', 'm')).toEqual({ id: 'm', turn: 1 })
  })

  test('saving an id again replaces the response and its items', async () => {
    const store = await withAccounts()
    await store.responses.save('a', answer('r', { id: 'old' }))
    await store.responses.save('a', answer('r', { id: 'new' }))
    expect(await store.responses.findItem('a', 'old')).toBeUndefined()
    expect((await store.responses.find('a', 'r'))?.response).toEqual({ id: 'r', output: [{ id: 'new' }] })
  })

  test('an expired response is unknown at once, and purged in batches', async () => {
    let now = 1000
    const store = await withAccounts({ now: () => now })
    const many = Array.from({ length: 450 }, (_, index) => ({
      ...answer(`r${index}`, { id: `m${index}` }),
      expiresAt: 2000,
    }))
    await Promise.all([
      ...many.map((one) => store.responses.save('a', one)),
      store.responses.save('a', { ...answer('kept', { id: 'k' }), expiresAt: 9000 }),
    ])
    expect(await store.responses.find('a', 'r0')).toBeDefined()
    now = 2000
    expect(await store.responses.find('a', 'r0')).toBeUndefined()
    expect(await store.responses.findItem('a', 'm0')).toBeUndefined()
    expect(await store.responses.delete('a', 'r0')).toBe(false)
    expect(await store.responses.purge(now)).toBe(450)
    expect(await store.responses.purge(now)).toBe(0)
    expect(await store.responses.findItem('a', 'k')).toEqual({ id: 'k' })
  })
})

describe('the data folder', () => {
  test('the folder and its files are readable by their owner only', async () => {
    const folder = newFolder()
    await withAccounts({ folder, exclusive: true })
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    for (const file of ['sluice.sqlite', 'sluice.sqlite-wal', 'server.pid'])
      expect([file, statSync(join(folder, file)).mode & 0o077]).toEqual([file, 0])
  })

  test('one that was removed meanwhile is no error at the end', async () => {
    const folder = newFolder()
    const store = await withAccounts({ folder, exclusive: true })
    rmSync(folder, { recursive: true })
    expect(await store.close()).toBeUndefined()
  })

  test('written data is there after a restart', async () => {
    const folder = newFolder()
    const store = await withAccounts({ folder })
    await store.responses.save('a', answer('r', { id: 'm' }))
    await store.close()
    expect(await open({ folder }).responses.findItem('a', 'm')).toEqual({ id: 'm' })
  })

  test('the steps of the schema that folders have taken stay as they were', () => {
    const steps = createHash('sha256').update(MIGRATIONS.slice(0, 26).join('\0'))
    expect(steps.digest('hex')).toBe('dec2786bbe22f24ed3245169d88edff5a401d97f71c91308f5d296b60b8fcfda')
  })

  test('a folder of a newer version is refused and unchanged', async () => {
    const folder = newFolder()
    await open({ folder }).close()
    const database = new Database(join(folder, 'sluice.sqlite'))
    database.run('PRAGMA user_version = 99')
    database.close()
    expect(() => open({ folder })).toThrow(/newer version of Sluice/)
  })

  test('an unusable folder is named in the error', () => {
    const folder = newFolder()
    writeFileSync(folder, '')
    expect(() => open({ folder })).toThrow(`cannot use the data folder ${folder}`)
    const other = newFolder()
    mkdirSync(join(other, 'lock.sqlite'), { recursive: true })
    expect(() => open({ folder: other, exclusive: true })).toThrow(`cannot use the data folder ${other}`)
  })

  test('a second server is refused with the process id of the first, until that is closed', async () => {
    const folder = newFolder()
    const first = open({ folder, exclusive: true })
    expect(() => open({ folder, exclusive: true })).toThrow(
      new RegExp(`in use by another Sluice \\(process ${process.pid}\\)`),
    )
    await open({ folder, exclusive: false }).accounts.add(accountOf('a'))
    expect(await first.accounts.list()).toEqual([accountOf('a')])
    await first.close()
    expect(await open({ folder, exclusive: true }).accounts.list()).toEqual([accountOf('a')])
  }, 15_000)

  test('SIGKILL frees the folder and loses nothing that was reported as saved', async () => {
    const folder = newFolder()
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'writer.ts'), folder], {
      stdout: 'pipe',
      stderr: 'inherit',
    })
    let saved = ''
    for await (const chunk of child.stdout) {
      saved += new TextDecoder().decode(chunk)
      if (saved.split('\n').length > 50) child.kill('SIGKILL')
    }
    const ids = saved.split('\n').slice(0, -1)
    expect(ids.length).toBeGreaterThan(49)
    const store = open({ folder, exclusive: true })
    for (const id of ids) expect((await store.responses.find('a', id))?.id).toBe(id)
  }, 15_000)

  test('every listener is called for changes by another process, and again if one failed', async () => {
    const folder = newFolder()
    const store = open({ folder, exclusive: true })
    const calls = { first: 0, second: 0 }
    const notified = new Promise<void>((resolve) => {
      store.watch(async () => {
        calls.first += 1
        if (calls.first === 1) throw new Error('not now')
        resolve()
      })
    })
    store.watch(async () => void (calls.second += 1))
    await store.accounts.add(accountOf('own'))
    const other = open({ folder })
    await other.accounts.add(accountOf('a'))
    await notified
    expect(calls).toEqual({ first: 2, second: 2 })
  }, 15_000)

  test('closing commits pending writes', async () => {
    const folder = newFolder()
    const store = open({ folder })
    const added = store.accounts.add(accountOf('a'))
    await store.close()
    expect(await added).toBe(true)
    expect(await open({ folder }).accounts.list()).toEqual([accountOf('a')])
  })
})

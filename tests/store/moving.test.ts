import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ChangeLog } from '../../src/accounts/change-log.ts'
import { firstIdAt } from '../../src/store/generation-ids.ts'
import { openStore } from '../../src/store/open.ts'
import { type MovedStore, moveStore } from '../../src/store/moving/move.ts'
import { movedTables } from '../../src/store/moving/tables.ts'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'
import { auditFor, closing, makeBook, HOUR, newFolder, useScratch } from '../ledger/audit-book.ts'
import { databaseFor } from '../postgres/databases.ts'
import { allGenerations, allTransfers, failure } from './records.ts'
import { accountOf, keyOf } from './account.ts'

useScratch()
setDefaultTimeout(60_000)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

let databases = 0
const newDatabase = (): Promise<string> => databaseFor(`moving_${process.pid}_${databases++}`, () => true)

async function openAt(url: string): Promise<Store> {
  const store = { postgres: { url, connections: 4, patienceMs: 1_000 } }
  const opened = await openStore({ data: '/nonexistent', store: store as never }, { exclusive: false })
  cleanups.push(() => opened.close())
  return opened
}

/** Texts that a database may not take as they are. */
const TEXT = 'it\'s "\\u0000\0\u001b0" ü \u{1F600}'

/** A generation of an earlier month. */
const EARLIER = firstIdAt(Date.now() - 40 * 24 * HOUR)

/** A folder with rows in every table, whose server has ended. */
async function filledFolder(): Promise<string> {
  const folder = await makeBook(newFolder(), async (data) => new SqliteStore({ folder: data, exclusive: true }))
  const store = new SqliteStore({ folder, exclusive: true })
  await fillAccounts(store)
  await store.ledger.closeGeneration(closing(7, { id: EARLIER, price: null, bill: 0n }))
  await store.close()
  fillOthers(new Database(join(folder, 'sluice.sqlite')))
  writeFileSync(join(folder, 'pepper'), Buffer.alloc(32, 7))
  return folder
}

/** Adds a row to each table that has none, so that no table is forgotten here. */
function fillOthers(database: Database): void {
  const tables = new Set(movedTables(database).map(({ from }) => from))
  for (const table of tables) {
    if (table === 'carried') database.run('UPDATE carried SET before = 5')
    if (database.query(`SELECT 1 FROM ${table}`).get() !== null) continue
    const columns = database.query(`PRAGMA table_info(${table})`).all() as { name: string; type: string }[]
    const values = columns.map(({ name, type }) => VALUES[`${type} ${name}`] ?? VALUES[type]!)
    database.query(`INSERT INTO ${table} VALUES (${columns.map(() => '?').join()})`).run(...(values as string[]))
  }
  database.close()
}

/** Values by the name or the type of a column. */
const VALUES: Record<string, unknown> = {
  ...{
    'TEXT account_id': 'acc_a',
    'TEXT response_id': 'some',
    'TEXT id': 'some',
    'BLOB id': new Uint8Array(16).fill(1),
  },
  'TEXT parts': '[{"name":"x","bytes":1,"cut":0}]',
  'TEXT blob': 'f'.repeat(32),
  ...{ TEXT, INTEGER: 1, BLOB: new Uint8Array(32).fill(9) },
}

/** The rows of every table, with the columns that SQLite has, as texts. */
async function tablesOf(folder: string, url: string): Promise<[source: object, target: object]> {
  const database = new Database(join(folder, 'sluice.sqlite'), { readonly: true, safeIntegers: true })
  const client = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 5_000 })
  const [source, target]: [Record<string, string[]>, Record<string, string[]>] = [{}, {}]
  for (const { into, from, sql = `SELECT * FROM ${from}`, except = 'false' } of movedTables(database)) {
    const rows = database.query(sql).all() as Record<string, unknown>[]
    const columns = Object.keys(rows[0]!)
    source[into] = rows.map((row) => columns.map((name) => shown(row[name])).join('|')).sort()
    const list = columns.map((name) => `to_json("${name}") #>> '{}' AS "${name}"`).join()
    const found = await client.all<Record<string, string>>(`SELECT ${list} FROM ${into} WHERE NOT (${except})`)
    target[into] = found.map((row) => columns.map((name) => shown(row[name])).join('|')).sort()
  }
  await client.close()
  database.close()
  return [source, target]
}

function shown(value: unknown): string {
  if (value instanceof Uint8Array) return value.toHex()
  const text = String(value)
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)) return text.replaceAll('-', '')
  if (text.startsWith('[{')) return JSON.stringify(Object.entries((JSON.parse(text) as object[])[0]!).sort())
  return text
    .replace(/^\\x/, '')
    .replace(/^true$/, '1')
    .replace(/^false$/, '0')
}

async function fillAccounts({ accounts, people, changes, settings, setSettings, ledger }: Store): Promise<void> {
  const models = ['a/*', TEXT]
  await accounts.addKey(keyOf('key_c', 'acc_b', 2, { name: TEXT, models, limit: 2n ** 62n, createdBy: 'ann' }))
  await accounts.useKeys([{ id: 'key_c', at: 5 }])
  await settings.setOnce('pepper-check', 'x')
  await setSettings.put({ kind: 'k', name: TEXT, value: TEXT, at: 1, by: 'ann' })
  const ann = { id: 'ann', name: TEXT, email: 'ann@x', password: null, createdAt: 1, joinedAt: null }
  await people.addUser(ann, [{ scope: 'installation', role: 'owner' }])
  const times = { createdAt: 1, seenAt: 1, idleMs: 1, endsAt: 1, isStale: false }
  const hash = new Uint8Array(32).fill(3)
  await people.addSession({ id: 's', userId: 'ann', hash, ...times, address: null, client: TEXT })
  await people.setRoles('ann', [{ scope: 'installation', role: 'owner' }])
  await people.addLink({ hash, userId: 'ann', createdAt: 1, expiresAt: 2 })
  for (const target of ['one', TEXT, 'three'])
    await changes.add({
      ...{ at: 1, actor: 'ann', actorName: TEXT, address: null, action: 'x', target },
      ...{ accountId: null, before: null, after: TEXT },
    })
  await ledger.setSubscription({
    ...{ accountId: 'acc_a', tier: 'pro', anchor: 1, periodStart: 2, periodEnd: 2 ** 41, renews: true, nextTier: null },
    ...{ resetRequested: true, repeatedUntil: 9 },
  })
}

/** Everything that a store says of itself. */
async function contentOf(store: Store): Promise<object> {
  const { accounts, people, changes, setSettings, settings, ledger } = store
  return {
    accounts: await accounts.list(),
    keys: await accounts.keys(),
    uses: await accounts.keyUses(['key_c']),
    users: await people.users(),
    roles: await people.allRoles(),
    sessions: await people.sessions('ann', 0),
    link: await people.link(new Uint8Array(32).fill(3)),
    changes: await changes.page(0, 100),
    wrongChange: await new ChangeLog(changes, Date.now).firstWrong(),
    set: await setSettings.list('k'),
    check: await settings.get('pepper-check'),
    state: sorted(await ledger.state()),
    generations: await allGenerations(store),
    carried: await ledger.carried(),
    transfers: (await allTransfers(store)).toSorted((a, b) => (a.reference < b.reference ? -1 : 1)),
    audit: await auditFor(store),
    rollUps: await store.reports.wrongRollUps(),
    totals: [await store.kept.wrongTotals(), await store.kept.totals('acc_a')],
  }
}

const sorted = (state: object): object =>
  Object.fromEntries(
    Object.entries(state).map(([name, rows]) => [
      name,
      (rows as object[]).map((row) => Object.entries(row).map(String).sort().join()).sort(),
    ]),
  )

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true })
    .map(String)
    .filter((name) => !/-shm$|-wal$|^lock|^server.pid$/.test(name))
    .sort()
    .map((name) => `${name} ${Bun.hash(readFileSync(join(folder, name)))}`)

const moved = (folder: string, url: string): Promise<MovedStore> =>
  moveStore({ folder, url, withFiles: true, onProgress: () => {} })

describe('a folder that is moved', () => {
  test('is in the database as it was, and stays as it was', async () => {
    const folder = await filledFolder()
    const source = new SqliteStore({ folder, exclusive: false })
    cleanups.push(() => source.close())
    const [files, content] = [filesOf(folder), await contentOf(source)]
    const url = await newDatabase()
    const { rows } = await moved(folder, url)
    expect([filesOf(folder), rows.get('generations'), rows.get('operations')]).toEqual([files, 7, 3])
    const [rowsBefore, rowsAfter] = await tablesOf(folder, url)
    expect(rowsAfter).toEqual(rowsBefore)
    const target = await openAt(url)
    expect(await contentOf(target)).toEqual(content)
    await target.changes.add((await target.changes.list({ limit: 1 }))[0]!)
    expect((await contentOf(target)) as object).toMatchObject({ wrongChange: undefined })
    expect(await target.settings.get('moving')).toBeUndefined()
    const sql = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 5_000 })
    cleanups.push(() => sql.close())
    const partitions = await sql.all<{ name: string }>(
      'SELECT DISTINCT tableoid::regclass::text AS name FROM generations ORDER BY name',
    )
    expect(partitions.map(({ name }) => name)).toEqual([
      expect.stringMatching(/^generations_20\d\d_\d\d$/),
      'generations_other',
    ])
  })

  test('no table of it is forgotten', async () => {
    const folder = await filledFolder()
    const database = new Database(join(folder, 'sluice.sqlite'))
    database.run('CREATE TABLE newer (id INTEGER PRIMARY KEY)')
    database.run('INSERT INTO newer VALUES (1)')
    database.close()
    expect(String(await failure(moved(folder, await newDatabase())))).toContain('cannot move newer.id to PostgreSQL')
  })
})

describe('contents of files', () => {
  test('are copied whole, and again where an attempt before left a part; missing ones are counted', async () => {
    const folder = await filledFolder()
    const store = new SqliteStore({ folder, exclusive: true })
    const contents = [3 * 2 ** 20 + 7, 2 ** 20, 0].map((size) => new Uint8Array(size).map((_, at) => (at * 31) >> 3))
    const names = contents.map((_, at) => String(at).repeat(32))
    for (const [at, blob] of names.entries()) {
      await store.files.add(fileOf(blob, contents[at]!.length), { files: 9, bytes: 2 ** 30 })
      mkdirSync(join(folder, 'files', blob.slice(0, 2)), { recursive: true })
      writeFileSync(join(folder, 'files', blob.slice(0, 2), blob), contents[at]!)
    }
    await store.close()
    const url = await newDatabase()
    const broken = moveStore({
      ...{ folder, url, withFiles: true },
      onProgress: ({ table, done }) => {
        if (table === 'contents of files' && done === 2) throw new Error('broken off')
      },
    })
    expect(String(await failure(broken))).toContain('broken off')
    const sql = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 5_000 })
    cleanups.push(() => sql.close())
    await sql.run('DELETE FROM blob_chunks WHERE name = $1 AND number = 1', names[0]!)
    await sql.run("INSERT INTO blob_chunks (name, number, content) VALUES ('gone', 0, 'x')")
    // filledFolder has rows of a file and of an output without a content.
    expect(await moved(folder, url)).toMatchObject({ files: 3, missing: 1 })
    const target = await openAt(url)
    for (const [at, name] of names.entries())
      expect(Buffer.compare((await target.blobs!.read(name, contents[at]!.length))!, contents[at]!)).toBe(0)
    expect(await sql.one('SELECT count(DISTINCT name) AS names FROM blob_chunks')).toEqual({ names: 2 })
  })

  test('stay in the folder where they shall', async () => {
    const folder = await filledFolder()
    const result = await moveStore({ folder, url: await newDatabase(), withFiles: false, onProgress: () => {} })
    expect(result).toMatchObject({ files: 0, missing: 0 })
  })
})

const fileOf = (blob: string, bytes: number) => ({
  ...{ id: `file_${blob[0]}`, accountId: 'acc_a', blob, filename: TEXT, purpose: null, bytes, mediaType: 'x/y' },
  ...{ sha256: 'x', metadata: null, createdAt: 1, expiresAt: null },
})

describe('a move that was broken off', () => {
  test('goes on where it is run again, with what changed in the folder since', async () => {
    const folder = await filledFolder()
    const url = await newDatabase()
    for (const table of ['generations', 'keys', 'users']) {
      const broken = moveStore({
        folder,
        url,
        withFiles: true,
        onProgress: ({ table: at }) => {
          if (at === table) throw new Error('broken off')
        },
      })
      expect(String(await failure(broken))).toContain('broken off')
      const store = new SqliteStore({ folder, exclusive: true })
      await store.accounts.add(accountOf(table))
      await store.accounts.setDiscount('acc_a', table.length)
      await store.setSettings.remove('k', TEXT)
      await store.close()
    }
    const postgres = { postgres: { url, connections: 4, patienceMs: 1_000 } } as never
    expect(String(await failure(openStore({ data: folder, store: postgres }, { exclusive: true })))).toContain(
      'sluice store migrate',
    )
    await moved(folder, url)
    const source = new SqliteStore({ folder, exclusive: false })
    cleanups.push(() => source.close())
    expect(await contentOf(await openAt(url))).toEqual(await contentOf(source))
  })
})

describe('a move is refused', () => {
  test('while a server runs on the folder or on the database', async () => {
    const folder = await filledFolder()
    const store = new SqliteStore({ folder, exclusive: true })
    expect(String(await failure(moved(folder, await newDatabase())))).toContain('is in use by another Sluice')
    await store.close()
    const url = await newDatabase()
    const sql = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 5_000 })
    cleanups.push(() => sql.close())
    await sql.run("INSERT INTO processes (name, address, version) VALUES ('x', 'x', 'x')")
    expect(String(await failure(moved(folder, url)))).toContain('servers run on the database (1)')
  })

  test('where the database has a store, or the folder has open generations', async () => {
    const folder = await filledFolder()
    const url = await newDatabase()
    await moved(folder, url)
    expect(String(await failure(moved(folder, url)))).toContain('the database is in use already')
    const store = new SqliteStore({ folder, exclusive: true })
    await store.ledger.saveOpen([{ id: 'f'.repeat(32), accountId: 'acc_a', state: '{}' }], true)
    await store.close()
    expect(String(await failure(moved(folder, await newDatabase())))).toContain('did not end as it should (1 gen')
  })

  test('where the sums differ', async () => {
    const folder = await filledFolder()
    const url = await newDatabase()
    const sql = await PostgresClient.open({ url, connectMs: 5_000, statementMs: 5_000 })
    cleanups.push(() => sql.close())
    await sql.script(`CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN NEW.discount = NEW.discount + 1; RETURN NEW; END';
      CREATE TRIGGER more BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION more()`)
    expect(String(await failure(moved(folder, url)))).toContain('the sum of accounts.discount must be 0, but is 2')
  })
})

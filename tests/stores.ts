import { Database } from 'bun:sqlite'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'bun:test'
import type { Config } from '../src/config/load.ts'
import { openStore } from '../src/store/open.ts'
import type { PostgresClient } from '../src/store/postgres/client.ts'
import type { Store } from '../src/store/store.ts'
import { Idle } from './postgres/idle.ts'

/**
 * The store that the tests are about: SQLite, or with `SLUICE_TEST_STORE=postgres` a database of PostgreSQL for each
 * data folder.
 */
export const ON_POSTGRES = process.env.SLUICE_TEST_STORE === 'postgres'

/** Subjects that PostgreSQL has nothing of, and why. Whole files about them are in launcher/stores.mjs. */
const OF_SQLITE = {
  folder: 'one process has the data folder, and hands it over',
  disk: 'the database is on the disk of the data folder, and a reserve of it is kept free',
  files: 'the database and its log are files, which are opened, copied, locked, damaged or cut',
} as const

const nothing = Object.assign(() => {}, {
  skipIf: () => nothing,
  each: () => () => {},
  concurrent: () => {},
}) as never

/** `test` for what is about SQLite alone: over PostgreSQL, there is no such test. */
export const ofSqlite = (_subject: keyof typeof OF_SQLITE): typeof test => (ON_POSTGRES ? nothing : test)

/** The same as `describe`. */
export const groupOfSqlite = (_subject: keyof typeof OF_SQLITE): typeof describe => (ON_POSTGRES ? nothing : describe)

const SQLITE: Config['store'] = {
  quotaBytes: Infinity,
  quotaWithoutCreditBytes: Infinity,
  durability: 'power',
  reserve: { share: 0, bytes: 0 },
}

/**
 * `test` for what opens its stores itself, or in which the store has no part or the same as in other tests: it runs
 * over SQLite alone. Whole files of such tests are in launcher/stores.mjs.
 */
export const once: typeof test = ON_POSTGRES ? nothing : test

/** Opens the store of a data folder; a gateway may run on it unless `exclusive`. */
export async function storeIn(
  folder: string,
  { exclusive = false, ...more }: { exclusive?: boolean; now?: () => number; durability?: 'process' } = {},
): Promise<Store> {
  const url = await databaseOf(folder)
  if (url !== undefined && !exclusive && Object.keys(more).length === 0) return storeAt(url)
  const { durability = 'power', ...options } = more
  const store = url === undefined ? { ...SQLITE, durability } : { ...SQLITE, postgres: postgresConfig(url) }
  return openStore({ data: folder, store: store as Config['store'] }, { exclusive, ...options })
}

const stores = new Idle<Store>(
  (url) => openStore({ data: tmpdir(), store: { ...SQLITE, postgres: postgresConfig(url) } }, { exclusive: false }),
  (store) => Object.getPrototypeOf(store).close.call(store),
)

/** A store whose connections stay open after it is closed, unless it has been asked to watch for changes. */
async function storeAt(url: string): Promise<Store> {
  const store = await stores.take(url)
  store.close = () => stores.giveBack(url, store)
  store.watch = (listener) => {
    Reflect.deleteProperty(store, 'close')
    Object.getPrototypeOf(store).watch.call(store, listener)
  }
  return store
}

/** True where the folder has a database that can be opened. */
export const hasStore = (folder: string): boolean =>
  !unaudited.has(folder) && (ON_POSTGRES || onPostgres.has(folder) || existsSync(join(folder, 'sluice.sqlite')))

const unaudited = new Set<string>()

/** Leaves the store of a folder out of audits: its records have no postings. */
export const withoutAudit = (folder: string): void => void unaudited.add(folder)

/** Opens the store of a gateway beside it, as the command line does. */
export const storeOf = ({ data }: { data: string }): Promise<Store> => storeIn(data)

const postgresConfig = (url: string): NonNullable<Config['store']['postgres']> => ({
  url,
  connections: 10,
  patienceMs: 10_000,
  deadAfterMs: 15_000,
})

/** The text of sluice.yaml with the store that the tests are about, for a process. */
export async function withStoreText(text: string, folder: string): Promise<string> {
  const url = await databaseOf(folder)
  if (url === undefined) return text
  if (!/^store:/m.test(text)) return `${text.replace(/^\{\}\n/, '')}\nstore: ${url}\n`
  return text.replace(/^store:(?: *\{| *\n( +))/m, (_, indent?: string) =>
    indent === undefined ? `store: { url: "${url}", ` : `store:\n${indent}url: ${url}\n${indent}`,
  )
}

/** Words of the command line with `--data FOLDER`, and the file that names the store of the folder. */
export async function withStoreOption(words: readonly string[]): Promise<string[]> {
  const folder = words[words.indexOf('--data') + 1]!
  if (words.includes('--config') || folder.startsWith('--')) return [...words]
  const url = await databaseOf(folder)
  if (url === undefined) return [...words]
  const file = join(folder, 'store.yaml')
  writeFileSync(file, `store: ${url}\n`)
  return [...words, '--config', file]
}

const clients = new Idle(openClient, (client) => client.close())

/** Runs a statement on the database of a folder beside its gateway, and gives the rows. Values are `?`. */
export async function sqlIn<Row = unknown>(
  folder: string,
  sql: string,
  ...values: (string | number)[]
): Promise<Row[]> {
  const url = await databaseOf(folder)
  if (url === undefined) {
    const database = new Database(join(folder, 'sluice.sqlite'))
    try {
      database.run('PRAGMA busy_timeout = 5000')
      return database.query(sql).all(...values) as Row[]
    } finally {
      database.close()
    }
  }
  let index = 0
  const numbered = sql.replace(/\?/g, () => `$${++index}`)
  const client = await clients.take(url)
  try {
    return await client.all<Row>(numbered, ...values)
  } finally {
    if (client.isOpen) await clients.giveBack(url, client)
  }
}

/** Runs a statement after `prepared` ones on the same connection, and gives the number of rows that it changed. */
export async function changesIn(folder: string, sql: string, prepared: string): Promise<number> {
  const url = await databaseOf(folder)
  if (url !== undefined)
    return withClient(url, async (client) => {
      await client.script(prepared)
      return (await client.run(sql)).changes
    })
  const database = new Database(join(folder, 'sluice.sqlite'))
  try {
    database.run(prepared)
    return database.run(sql).changes
  } finally {
    database.close()
  }
}

/** Everything that the database of a folder contains, as text: to look for what must not be there. */
export async function everythingIn(folder: string): Promise<string> {
  const url = await databaseOf(folder)
  if (url === undefined)
    return readdirSync(folder)
      .filter((name) => name.startsWith('sluice.sqlite'))
      .map((name) => readFileSync(join(folder, name), 'latin1'))
      .join('')
  return withClient(url, async (client) => {
    await client.script("SET bytea_output = 'escape'")
    const tables = await client.all<{ name: string }>(
      "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
    )
    let text = ''
    for (const { name } of tables) {
      const rows = await client.all<{ row: string }>(`SELECT t::text AS row FROM "${name}" t`)
      text += rows.map(({ row }) => row).join('\n')
    }
    return text
  })
}

/** Has the next gateway on a folder take over from killed ones, as if they had not reported for long enough. */
export async function declareDead(folder: string): Promise<void> {
  if ((await databaseOf(folder)) === undefined) return
  const rows = await sqlIn<{ id: number; name: string }>(
    folder,
    'SELECT id, name FROM processes WHERE ended_at IS NULL',
  )
  const isRunning = (name: string): boolean => {
    try {
      return process.kill(Number(name.split(':').at(-1)), 0)
    } catch {
      return false
    }
  }
  for (const { id, name } of rows)
    if (!isRunning(name)) await sqlIn(folder, 'UPDATE processes SET ended_at = clock_timestamp() WHERE id = ?', id)
}

async function openClient(url: string): Promise<PostgresClient> {
  const { PostgresClient } = await import('../src/store/postgres/client.ts')
  return PostgresClient.open({ url, connectMs: 5_000, statementMs: 10_000 })
}

async function withClient<T>(url: string, use: (client: PostgresClient) => Promise<T>): Promise<T> {
  const client = await openClient(url)
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

/** Has writes of a table in the database of a folder wait, at all processes. Gives the function that ends that. */
export async function heldWrites(folder: string, table: string): Promise<() => Promise<void>> {
  const client = await openClient((await databaseOf(folder))!)
  await client.script(`SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE ${table} IN SHARE MODE`)
  return () => client.close()
}

/** The number of statements in the database of a folder that wait for locks. */
export async function waitingIn(folder: string): Promise<number> {
  const [row] = await sqlIn<{ count: number }>(
    folder,
    `SELECT count(*) AS count FROM pg_locks JOIN pg_database AS d ON d.oid = database
     WHERE NOT granted AND datname = current_database()`,
  )
  return row!.count
}

const onPostgres = new Set<string>()

/** A new data folder whose store is PostgreSQL, whatever the tests are about. The caller removes it. */
export function newPostgresFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-test-')))
  onPostgres.add(folder)
  return folder
}

/** Copies the store of a folder, which nothing has open, into a new folder. */
export async function copyStore(from: string, folder: string): Promise<void> {
  if ((await databaseOf(folder, from)) !== undefined) return
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  copyFileSync(join(from, 'sluice.sqlite'), join(folder, 'sluice.sqlite'))
}

/**
 * The URL of the folder's database; undefined for SQLite. The same folder has the same one in this process. A new one
 * is a copy of that of the folder `from`, or has the tables alone.
 */
async function databaseOf(folder: string, from?: string): Promise<string | undefined> {
  if (!ON_POSTGRES && !onPostgres.has(folder)) return undefined
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const path = realpathSync(folder)
  const { databaseFor } = await import('./postgres/databases.ts')
  return databaseFor(databaseName(path), () => existsSync(path), from && databaseName(realpathSync(from)))
}

const databaseName = (path: string): string => `d${createHash('sha256').update(path).digest('hex').slice(0, 24)}`

import { PostgresClient } from '../../src/store/postgres/client.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { endIdle } from './idle.ts'
import { startPostgres } from './server.ts'

/** The databases of this process: one server, and copies of one database with the tables. */

const TEMPLATE = 'tables'

type Databases = { run: (sql: string) => Promise<void>; urlOf(name: string): string }

let opened: Promise<Databases> | undefined
const databases = new Map<string, { url: Promise<string>; isUsed: () => boolean }>()

/**
 * The URL of a database, which is made at the first call as a copy of another one; it may be removed once it is not
 * used any more.
 */
export function databaseFor(name: string, isUsed: () => boolean, template?: string): Promise<string> {
  let found = databases.get(name)
  if (found === undefined) databases.set(name, (found = { url: create(name, template), isUsed }))
  return found.url
}

async function create(name: string, template = TEMPLATE): Promise<string> {
  const { run, urlOf } = await (opened ??= open())
  const unused = [...databases].filter(([, { isUsed }]) => !isUsed()).map(([old]) => old)
  for (const old of unused) databases.delete(old)
  await endIdle(urlOf(template))
  await run(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`)
  for (const old of unused)
    void endIdle(urlOf(old))
      .then(() => run(`DROP DATABASE ${old} WITH (FORCE)`))
      .catch(() => {})
  return urlOf(name)
}

async function open(): Promise<Databases> {
  const { url } = await startPostgres(SETTINGS)
  const address = { url, connectMs: 5_000, statementMs: 60_000 }
  const run = oneByOne(await PostgresClient.open(address))
  const urlOf = (name: string): string => url.replace(/postgres$/, name)
  await run(`CREATE DATABASE ${TEMPLATE}`)
  const store = await PostgresStore.open({ url: urlOf(TEMPLATE), connections: 3, patienceMs: 1_000 })
  await store.close()
  return { run, urlOf }
}

/** Runs statements of callers that do not wait for one another, each when the one before has ended. */
function oneByOne(client: PostgresClient): (sql: string) => Promise<void> {
  let last = Promise.resolve()
  return (sql) => {
    const ended = last.then(() => client.script(sql))
    last = ended.catch(() => {})
    return ended
  }
}

/** Nothing of these databases outlives the tests, and none lives long enough to be vacuumed. */
const SETTINGS = [
  ...['fsync=off', 'full_page_writes=off', 'wal_level=minimal', 'max_wal_senders=0', 'shared_buffers=64MB'],
  'autovacuum=off',
]

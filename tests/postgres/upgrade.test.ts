import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PostgresClient } from '../../src/store/postgres/client.ts'
import { MIGRATIONS, versionOf } from '../../src/store/postgres/migrations.ts'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { closing, expectBalanced, idOf, topUp } from '../store/records.ts'
import { type PostgresServer, startPostgres, WITH_START_MS } from './server.ts'
import { accountOf } from '../store/account.ts'

/**
 * Rolling upgrades: processes of two versions over one database. The tables of each version are kept in `tables/`, and
 * made from there as that version made them. The next version is simulated: it adds a column to every table, and its
 * number to `schema_versions`. The process that writes meanwhile is one of this version.
 */

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, WITH_START_MS)
afterAll(() => server.stop())

const SERVES = { heartbeatMs: 200, deadMs: 60_000, version: 'test' }

const clientOf = (url: string): Promise<PostgresClient> =>
  PostgresClient.open({ url, connectMs: 5_000, statementMs: 30_000 })

const fileOf = (version: number): string => join(import.meta.dir, `tables/${version}.sql`)

/** Makes the tables as the version did, from its frozen statements. */
async function makeTables(client: PostgresClient, last: number): Promise<void> {
  await client.script(
    'CREATE TABLE schema_versions (version integer PRIMARY KEY, oldest integer NOT NULL, at timestamptz NOT NULL)',
  )
  for (let version = 1; version <= last; version++) {
    await client.script(readFileSync(fileOf(version), 'utf8'))
    await client.script(`INSERT INTO schema_versions VALUES (${version}, ${MIGRATIONS[version - 1]!.oldest}, now())`)
  }
}

/** The version before this one, or this one while it is the first. */
const BEFORE = Math.max(1, MIGRATIONS.length - 1)

test('the statements of a version are those kept of it: what was released stays, what is new is a step', () => {
  for (const [index, { sql }] of MIGRATIONS.entries()) {
    // For a new version only: a changed statement would miss in databases that have the version.
    if (process.env.UPDATE === '1') writeFileSync(fileOf(index + 1), sql)
    expect(readFileSync(fileOf(index + 1), 'utf8')).toBe(sql)
  }
})

test('a process works with the tables of the next version, and refuses those that do not know it', async () => {
  const url = await server.createDatabase('versions')
  const options = { url, connections: 4, patienceMs: 1_000 }
  await (await PostgresStore.open(options)).close()
  const client = await clientOf(url)
  await client.script('INSERT INTO schema_versions VALUES (1001, 1, now())')
  await (await PostgresStore.open(options)).close()
  await client.script('INSERT INTO schema_versions VALUES (1002, 1001, now())')
  await expect(PostgresStore.open(options)).rejects.toThrow('newer version of Sluice (schema 1002)')
  await client.close()
})

test('a process of the previous version keeps working while the next version adds columns to every table', async () => {
  const url = await server.createDatabase('upgrades')
  const client = await clientOf(url)
  await makeTables(client, BEFORE)
  const store = await PostgresStore.open({ url, connections: 6, patienceMs: 10_000, serves: SERVES })
  await store.accounts.add(accountOf('a'))
  await store.ledger.post(topUp('top-up', 1_000_000n))
  let isUpgraded = false
  let closed = 0
  const load = async (): Promise<void> => {
    while (!isUpgraded || closed % 8 !== 0) {
      const number = ++closed
      await store.ledger.saveOpen([{ id: idOf(number), accountId: 'a', state: '{}' }])
      await store.leases!.funds('a', { least: 3n, most: 10n })
      await store.ledger.closeGeneration(closing(number, 3n, { wasOpen: true }))
      expect((await store.ledger.findGeneration('a', idOf(number)))?.bill).toBe(3n)
      expect((await store.accounts.list(['a'])).length).toBe(1)
    }
  }
  expect((await versionOf(client)).version).toBe(MIGRATIONS.length)
  const loading = load()
  const tables = await client.all<{ name: string }>(
    `SELECT relname AS name FROM pg_class
     WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace ORDER BY relname`,
  )
  expect(tables.length).toBeGreaterThan(20)
  for (const { name } of tables)
    await client.script(`ALTER TABLE ${name} ADD COLUMN of_next_version integer NOT NULL DEFAULT 0`)
  await client.script('INSERT INTO schema_versions VALUES (1001, 1, now(), 0)')
  isUpgraded = true
  await loading
  const late = await PostgresStore.open({ url, connections: 4, patienceMs: 1_000 })
  expect((await late.ledger.generations(undefined, 10_000)).length).toBe(closed)
  await expectBalanced(late)
  await Promise.all([client.close(), late.close(), store.close()])
}, 60_000)

import { afterEach, setDefaultTimeout } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PostgresStore } from '../../src/store/postgres/store.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'
import { databaseFor } from '../postgres/databases.ts'
import { accountContract } from './account-contract.ts'
import { peopleContract } from './people-contract.ts'

setDefaultTimeout(60_000)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function openSqlite(): Promise<{ store: SqliteStore; other: SqliteStore }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-accounts-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  const open = (exclusive: boolean): SqliteStore => {
    const store = new SqliteStore({ folder, exclusive })
    cleanups.push(() => store.close())
    return store
  }
  return { store: open(true), other: open(false) }
}

let databases = 0

async function openPostgres(): Promise<{ store: PostgresStore; other: PostgresStore }> {
  let isUsed = true
  cleanups.push(() => (isUsed = false))
  const url = await databaseFor(`accounts_${databases++}`, () => isUsed)
  const open = async (): Promise<PostgresStore> => {
    const store = await PostgresStore.open({ url, connections: 4, patienceMs: 10_000 })
    cleanups.push(() => store.close())
    return store
  }
  return { store: await open(), other: await open() }
}

accountContract('SQLite', openSqlite)
accountContract('PostgreSQL', openPostgres)
peopleContract('SQLite', openSqlite)
peopleContract('PostgreSQL', openPostgres)

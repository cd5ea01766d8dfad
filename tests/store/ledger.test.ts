import { afterEach } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SqliteStore } from '../../src/store/sqlite.ts'
import { storeContract } from './contract.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

function open(folder = newFolder()): SqliteStore {
  const store = new SqliteStore({ folder, exclusive: false })
  cleanups.push(() => store.close().catch(() => {}))
  return store
}

storeContract('SQLite', open)

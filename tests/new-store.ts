import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ON_POSTGRES, storeIn } from './stores.ts'

const FILE = 'sluice.sqlite'

let template: Promise<Uint8Array> | undefined

/**
 * Copies an empty database with all tables into a new data folder, as `databaseFor` does for PostgreSQL: to make the
 * tables takes ten times as long. Gateways in processes of their own make them, as do tests of stores.
 */
export async function prepareStore(folder: string): Promise<void> {
  if (ON_POSTGRES) return
  template ??= newDatabase()
  writeFileSync(join(folder, FILE), await template, { mode: 0o600 })
}

async function newDatabase(): Promise<Uint8Array> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-template-'))
  try {
    const store = await storeIn(folder, { exclusive: true })
    await store.close()
    return readFileSync(join(folder, FILE))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

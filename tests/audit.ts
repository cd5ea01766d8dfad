import { expect } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { audit } from '../src/ledger/audit.ts'
import { SqliteStore } from '../src/store/sqlite.ts'

/** What a gateway left behind must add up: names the first row that does not. `overdraft`: the gateway's own, in nano-USD. */
export async function expectBookRight(folder: string, overdraft = 0n): Promise<void> {
  if (!existsSync(join(folder, 'sluice.sqlite'))) return
  const store = new SqliteStore({ folder, exclusive: false })
  try {
    expect((await audit(store, overdraft)).first).toBeUndefined()
  } finally {
    await store.close()
  }
}

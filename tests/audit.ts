import { expect } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { audit } from '../src/ledger/audit.ts'
import { SqliteStore } from '../src/store/sqlite/store.ts'

/** What a flow stands for where the configuration does not say, in nano-USD. */
export const USD_PER_FLOW = 32_830_000n

/**
 * What a gateway left behind must add up: names the first row that does not. `overdraft`: the gateway's own, in
 * nano-USD.
 */
export async function expectBookRight(folder: string, overdraft = 0n): Promise<void> {
  if (!existsSync(join(folder, 'sluice.sqlite'))) return
  const store = new SqliteStore({ folder, exclusive: false })
  try {
    expect((await audit(store, { overdraft, usdPerFlow: USD_PER_FLOW })).first).toBeUndefined()
  } finally {
    await store.close()
  }
}

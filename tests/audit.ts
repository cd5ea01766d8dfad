import { expect } from 'bun:test'
import { audit } from '../src/ledger/audit.ts'
import { hasStore, storeIn } from './stores.ts'

/** The default price of a flow, in nano-USD. */
export const USD_PER_FLOW = 32_830_000n

/**
 * Fails with the first row of a gateway's data folder that does not balance, and with wrong totals of what is kept.
 * `overdraft`: the gateway's own, in nano-USD.
 */
export async function expectBookRight(folder: string, overdraft = 0n): Promise<void> {
  if (!hasStore(folder)) return
  const store = await storeIn(folder)
  try {
    expect((await audit(store, { overdraft, usdPerFlow: USD_PER_FLOW })).first).toBeUndefined()
    expect(await store.kept.wrongTotals()).toEqual([])
    expect(await store.reports.wrongRollUps()).toEqual([])
  } finally {
    await store.close()
  }
}

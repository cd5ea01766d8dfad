import type { Config } from '../config/config.ts'
import type { Store } from '../store/store.ts'

/** Removes the records that are kept no longer, whole months (in UTC) at a time. `now`: Unix milliseconds. */
export async function removeOldRecords(
  { ledger }: Pick<Store, 'ledger'>,
  { recordMonths }: Config['retention'],
  now: number,
): Promise<void> {
  if (recordMonths === undefined) return
  const today = new Date(now)
  await ledger.removeRecords(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - recordMonths))
}

import type { AppContext } from '../../context.ts'
import { type OpenView, viewOfState } from '../../ledger/open-generation.ts'
import { rowOfOpen } from '../../pipeline/tail.ts'
import { matches } from '../../store/request-filter.ts'
import type { RequestFilter, RequestRow } from '../../store/store.ts'

/** Rows of other processes that one statement reads, and all that are looked at. */
const PAGE = 250
const LOOKED_AT_MAX = 5_000

const LAST_ID = 'f'.repeat(32)

/** The lines of generations that are open at any process, the newest first, at most `limit`. */
export async function openRows(app: AppContext, filter: RequestFilter, limit: number): Promise<RequestRow[]> {
  const elsewhere = await rowsElsewhere(app, filter, limit)
  const rows = new Map(elsewhere.map((row) => [row.id, row]))
  // One that this process has taken over meanwhile is shown as it is here.
  for (const open of app.ledger.open) {
    if (open.record !== undefined) continue
    const row = rowOfOpen(open)
    if (matches(filter, row)) rows.set(row.id, row)
  }
  return [...rows.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit)
}

async function rowsElsewhere({ store }: AppContext, filter: RequestFilter, limit: number): Promise<RequestRow[]> {
  const rows: RequestRow[] = []
  const accountIds = filter.keyIds?.length ? undefined : filter.accountIds
  let [before, lookedAt] = [LAST_ID, 0]
  while (store.leases !== undefined && rows.length < limit && lookedAt < LOOKED_AT_MAX) {
    const page = await store.leases.openElsewhere(before, PAGE, accountIds)
    for (const { state } of page) {
      const row = rowOfOpen(viewOfState(state))
      if (matches(filter, row)) rows.push(row)
    }
    if (page.length < PAGE) break
    before = page.at(-1)!.id
    lookedAt += page.length
  }
  return rows
}

/** A generation that is open at any process. */
export async function findOpen({ ledger, store }: AppContext, id: string): Promise<OpenView | undefined> {
  for (const open of ledger.open) if (open.request.id === id) return open
  const stored = await store.leases?.openOne(id)
  return stored && viewOfState(stored.state)
}

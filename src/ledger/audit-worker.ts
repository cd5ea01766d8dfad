import { openStore, type StoreConfig } from '../store/open.ts'
import type { WrongRollUp, WrongTotal } from '../store/store.ts'
import { audit, type Audit, type Terms } from './audit.ts'

/** The thread of one audit: it reads every row of the book. */

export type AuditRequest = { config: StoreConfig; terms: Terms }
export type AuditReport =
  | { type: 'progress'; audit: Audit }
  | { type: 'done'; audit: Audit; totals: WrongTotal[]; rollUps: WrongRollUp[] }
  | { type: 'failed'; message: string }

declare const self: { onmessage: (event: MessageEvent<AuditRequest>) => void; postMessage(report: AuditReport): void }

self.onmessage = async ({ data: { config, terms } }) => {
  try {
    const store = await openStore(config, { exclusive: false })
    try {
      const result = await audit(store, terms, (partial) => self.postMessage({ type: 'progress', audit: partial }))
      const [totals, rollUps] = [await store.kept.wrongTotals(), await store.reports.wrongRollUps()]
      self.postMessage({ type: 'done', audit: result, totals, rollUps })
    } finally {
      await store.close()
    }
  } catch (error) {
    self.postMessage({ type: 'failed', message: error instanceof Error ? error.message : String(error) })
  }
}

import { KEPT_KINDS, type KeptKind, type KeptStore, type KeptTotals, type WrongTotal } from '../kept.ts'
import type { Connection } from './connection.ts'

type Row = { accountId: string; kind: KeptKind; things: number; bytes: number }

/** The table of totals, which triggers of the tables that it counts write. */
export class KeptTable implements KeptStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async totals(accountId: string): Promise<KeptTotals> {
    const rows = this.#connection.all<Row>(
      "SELECT account_id AS accountId, kind, things, bytes FROM kept WHERE account_id IN (?, '')",
      accountId,
    )
    const none = KEPT_KINDS.map((kind) => [kind, { things: 0, bytes: 0 }])
    const totals = { ...Object.fromEntries(none), allBytes: 0 } as KeptTotals
    for (const { accountId: owner, kind, things, bytes } of rows) {
      if (owner === '') totals.allBytes += bytes
      else totals[kind] = { things, bytes }
    }
    return totals
  }

  async wrongTotals(): Promise<WrongTotal[]> {
    return KEPT_KINDS.flatMap((kind) =>
      this.#connection
        .all<{ accountId: string; things: number; bytes: number; foundThings: number; foundBytes: number }>(
          `SELECT account_id AS accountId, sum(things) AS things, sum(bytes) AS bytes, sum(found_things) AS foundThings,
             sum(found_bytes) AS foundBytes
           FROM (
             SELECT account_id, 1 AS things, bytes, 0 AS found_things, 0 AS found_bytes FROM ${kind}
             UNION ALL SELECT '', 1, bytes, 0, 0 FROM ${kind}
             UNION ALL SELECT account_id, 0, 0, things, bytes FROM kept WHERE kind = ?
           ) GROUP BY account_id HAVING sum(things) <> sum(found_things) OR sum(bytes) <> sum(found_bytes)`,
          kind,
        )
        .map(({ accountId, things, bytes, foundThings, foundBytes }) => ({
          accountId,
          kind,
          expected: { things, bytes },
          found: { things: foundThings, bytes: foundBytes },
        })),
    )
  }
}

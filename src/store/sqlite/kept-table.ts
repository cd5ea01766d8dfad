import {
  KEPT_KINDS,
  type KeptStore,
  type KeptTotals,
  keptTotalsOf,
  type ReadTotal,
  type ReadWrongTotal,
  type WrongTotal,
  wrongTotalOf,
} from '../kept.ts'
import type { Connection } from './connection.ts'

/** The table of totals, which triggers of the tables that it counts write. */
export class KeptTable implements KeptStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async totals(accountId: string): Promise<KeptTotals> {
    const rows = this.#connection.all<ReadTotal>(
      "SELECT account_id AS accountId, kind, things, bytes FROM kept WHERE account_id IN (?, '')",
      accountId,
    )
    return keptTotalsOf(rows)
  }

  async wrongTotals(): Promise<WrongTotal[]> {
    return KEPT_KINDS.flatMap((kind) =>
      this.#connection
        .all<ReadWrongTotal>(
          `SELECT account_id AS accountId, sum(things) AS things, sum(bytes) AS bytes, sum(found_things) AS foundThings,
             sum(found_bytes) AS foundBytes
           FROM (
             SELECT account_id, 1 AS things, bytes, 0 AS found_things, 0 AS found_bytes FROM ${kind}
             UNION ALL SELECT '', 1, bytes, 0, 0 FROM ${kind}
             UNION ALL SELECT account_id, 0, 0, things, bytes FROM kept WHERE kind = ?
           ) GROUP BY account_id HAVING sum(things) <> sum(found_things) OR sum(bytes) <> sum(found_bytes)`,
          kind,
        )
        .map((row) => wrongTotalOf(kind, row)),
    )
  }
}

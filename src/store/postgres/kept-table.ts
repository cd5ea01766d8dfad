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
    const rows = await this.#connection.all<ReadTotal>(
      `SELECT account_id AS "accountId", kind, sum(things)::bigint AS things, sum(bytes)::bigint AS bytes FROM kept
       WHERE account_id IN ($1, '') GROUP BY account_id, kind`,
      accountId,
    )
    return keptTotalsOf(rows)
  }

  async wrongTotals(): Promise<WrongTotal[]> {
    const wrong: WrongTotal[] = []
    for (const kind of KEPT_KINDS)
      for (const row of await this.#connection.all<ReadWrongTotal>(
        `SELECT account_id AS "accountId", sum(things)::bigint AS things, sum(bytes)::bigint AS bytes,
           sum(found_things)::bigint AS "foundThings", sum(found_bytes)::bigint AS "foundBytes"
         FROM (
           SELECT account_id, 1 AS things, bytes, 0 AS found_things, 0 AS found_bytes FROM ${kind}
           UNION ALL SELECT '', 1, bytes, 0, 0 FROM ${kind}
           UNION ALL SELECT account_id, 0, 0, things, bytes FROM kept WHERE kind = $1
         ) AS counted GROUP BY account_id HAVING sum(things) <> sum(found_things) OR sum(bytes) <> sum(found_bytes)`,
        kind,
      ))
        wrong.push(wrongTotalOf(kind, row))
    return wrong
  }
}

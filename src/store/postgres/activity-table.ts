import type { Activity, ActivityStore } from '../activities.ts'
import type { Connection } from './connection.ts'
import { jsonOf } from './values.ts'

/** Reports of processes, which are removed after an hour. `state`: the rest of an `Activity`, as JSON. */
export const ACTIVITIES = `
  CREATE TABLE activities (
    account_id text COLLATE "C" NOT NULL,
    process bigint NOT NULL,
    at timestamptz NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (account_id, process)
  );
`

/** One statement, whose parts see the rows as they were before it. */
const EXCHANGE = `
  WITH own AS (
    SELECT one ->> 'accountId' AS account_id, (one - 'accountId')::text AS state
    FROM jsonb_array_elements($2::text::jsonb) AS one
  ), removed AS (
    DELETE FROM activities AS a
    WHERE (process = $1 AND NOT EXISTS (SELECT FROM own WHERE own.account_id = a.account_id))
      OR (process <> $1 AND at < clock_timestamp() - interval '1 hour')
  ), written AS (
    INSERT INTO activities (account_id, process, at, state)
      SELECT account_id, $1, clock_timestamp(), state FROM own
      ON CONFLICT (account_id, process) DO UPDATE SET at = excluded.at, state = excluded.state
  )
  SELECT account_id AS "accountId", state, extract(epoch FROM clock_timestamp() - at)::integer / 60 AS ago,
    (SELECT count(*) FROM processes WHERE ended_at IS NULL) AS processes
  FROM (SELECT) AS always LEFT JOIN activities
    ON process <> $1 AND at >= clock_timestamp() - interval '1 hour'`

type Row = { accountId: string | null; state: string; ago: number; processes: number }

export class ActivityTable implements ActivityStore {
  readonly #connection: Connection
  readonly #process: number

  constructor(connection: Connection, process: number) {
    this.#connection = connection
    this.#process = process
  }

  async exchange(own: readonly Activity[]): Promise<{ others: Activity[]; processes: number }> {
    const rows = await this.#connection.all<Row>(EXCHANGE, this.#process, jsonOf(own))
    const later = <T extends [unknown, ...unknown[]]>(list: T[], ago: number, at: number): T[] =>
      list.map((one) => one.with(at, (one[at] as number) + ago) as T)
    return {
      processes: rows[0]?.processes ?? 1,
      others: rows.flatMap(({ accountId, state, ago }) => {
        if (accountId === null) return []
        const { minutes, addresses, isSuspect } = JSON.parse(state) as Activity
        return [{ accountId, isSuspect, minutes: later(minutes, ago, 0), addresses: later(addresses, ago, 1) }]
      }),
    }
  }
}

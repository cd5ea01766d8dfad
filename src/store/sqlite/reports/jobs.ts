import type { Database } from 'bun:sqlite'
import { jobRowsOf, type ReadJob } from '../../job-rows.ts'
import { AFTER_ALL_PREDICTIONS } from '../../predictions.ts'
import { JOB_STATE_BYTES, type JobQuestion, type JobRow } from '../../reports.ts'
import type { NameCache } from './name-cache.ts'
import { LINE_COLUMNS, lineOf, type LineRow } from './request-rows.ts'

/** Jobs of whole accounts; those that are open, of the caller; and those whose record has one of the keys. */
const isAsked = (account: string, id: string): string => `(?2 IS NULL
    OR ${account} IN (SELECT value FROM json_each(?2)) OR ${id} IN (SELECT value FROM json_each(?4))
    OR EXISTS (SELECT 1 FROM generations AS g JOIN names AS n ON n.id = g.key
      WHERE g.id = unhex(${id}) AND n.text IN (SELECT value FROM json_each(?3))))
  AND (?7 IS NULL OR (${id} IN (SELECT value FROM json_each(?4))) = ?7)`

const JOBS = `
  SELECT * FROM (
    SELECT p.id, 'prediction' AS kind, p.account_id AS accountId, p.model, p.status, p.created_at AS createdAt,
      p.started_at AS startedAt, p.completed_at AS completedAt,
      CASE WHEN (p.completed_at IS NULL OR p.status = 'failed') AND octet_length(p.state) <= ${JOB_STATE_BYTES}
        THEN p.state END AS state,
      w.attempts, w.next_at AS nextAt
    FROM predictions AS p LEFT JOIN webhook_deliveries AS w
      ON w.id = (SELECT id FROM webhook_deliveries WHERE prediction_id = p.id LIMIT 1)
    WHERE p.id < ?1 AND ${isAsked('p.account_id', 'p.id')} ORDER BY p.id DESC LIMIT ?6)
  UNION ALL
  SELECT * FROM (
    SELECT substr(r.id, 6) AS id, 'response', r.account_id, NULL,
      CASE WHEN r.upstream IS NULL THEN 'succeeded' ELSE 'processing' END, NULL, NULL, NULL, NULL, NULL, NULL
    FROM responses AS r
    WHERE r.is_background = 1 AND r.id < 'resp_' || ?1 AND r.response <> '' AND r.expires_at > ?5
      AND ${isAsked('r.account_id', 'substr(r.id, 6)')} ORDER BY r.id DESC LIMIT ?6)
  ORDER BY id DESC LIMIT ?6`

/** Predictions and responses in the background, the newest first. */
export function jobRows(
  database: Database,
  names: NameCache,
  { accountIds, keyIds, openIds, isOpen }: JobQuestion,
  now: number,
  before: string | undefined,
  limit: number,
): JobRow[] {
  const jobs = database
    .query(JOBS)
    .all(
      before ?? AFTER_ALL_PREDICTIONS,
      accountIds === undefined ? null : JSON.stringify(accountIds),
      JSON.stringify(keyIds ?? []),
      JSON.stringify(openIds),
      now,
      limit,
      isOpen ?? null,
    ) as ReadJob[]
  const lines = database
    .query(`SELECT ${LINE_COLUMNS} FROM generations AS g WHERE g.id IN (SELECT unhex(value) FROM json_each(?))`)
    .all(JSON.stringify(jobs.map(({ id }) => id))) as LineRow[]
  return jobRowsOf(
    jobs,
    lines.map((line) => lineOf(names, line)),
  )
}

import { jobRowsOf, type ReadJob } from '../../job-rows.ts'
import { AFTER_ALL_PREDICTIONS } from '../../predictions.ts'
import { JOB_STATE_BYTES, type JobQuestion, type JobRow } from '../../reports.ts'
import type { Questions } from '../client.ts'
import { Values } from './conditions.ts'
import { LINE_COLUMNS, lineOf, type LineRow } from './request-rows.ts'

/** Predictions and responses in the background, the newest first. */
export async function jobRows(
  questions: Questions,
  question: JobQuestion,
  now: number,
  before: string | undefined,
  limit: number,
): Promise<JobRow[]> {
  const values = new Values()
  const end = values.add(before ?? AFTER_ALL_PREDICTIONS)
  const rows = values.add(limit)
  const jobs = await questions.ask<ReadJob>(
    `SELECT * FROM (
       (SELECT p.id, 'prediction' AS kind, p.account_id AS "accountId", p.model, p.status, p.created_at AS "createdAt",
          p.started_at AS "startedAt", p.completed_at AS "completedAt",
          CASE WHEN (p.completed_at IS NULL OR p.status = 'failed') AND octet_length(p.state) <= ${JOB_STATE_BYTES}
            THEN p.state END AS state,
          w.attempts, w.next_at AS "nextAt"
        FROM predictions AS p LEFT JOIN LATERAL (
          SELECT attempts, next_at FROM webhook_deliveries WHERE prediction_id = p.id LIMIT 1) AS w ON true
        WHERE p.id < ${end}::text AND ${isAsked(values, question, 'p.account_id', 'p.id')}
        ORDER BY p.id DESC LIMIT ${rows})
       UNION ALL
       (SELECT substr(r.id, 6) AS id, 'response', r.account_id, NULL,
          CASE WHEN r.upstream IS NULL THEN 'succeeded' ELSE 'processing' END, NULL, NULL, NULL, NULL, NULL, NULL
        FROM responses AS r
        WHERE r.is_background AND r.id < 'resp_' || ${end}::text AND r.expires_at > ${values.add(now)}::bigint
          AND ${isAsked(values, question, 'r.account_id', 'substr(r.id, 6)')}
        ORDER BY r.id DESC LIMIT ${rows})) AS jobs
     ORDER BY id COLLATE "C" DESC LIMIT ${rows}`,
    values.list,
  )
  const ids = new Values()
  const lines = await questions.ask<LineRow>(
    `SELECT ${LINE_COLUMNS} FROM generations AS g
     WHERE g.id = ANY (ARRAY(SELECT jsonb_array_elements_text(
       ${ids.add(JSON.stringify(jobs.map(({ id }) => id)))}::text::jsonb)::uuid))`,
    ids.list,
  )
  return jobRowsOf(jobs, lines.map(lineOf))
}

/** Jobs of whole accounts; those that are open, of the caller; and those whose record has one of the keys. */
function isAsked(values: Values, question: JobQuestion, account: string, id: string): string {
  const { accountIds, keyIds, openIds, isOpen } = question
  const conditions = ['true']
  if (accountIds !== undefined)
    conditions.push(`(${values.isIn(account, accountIds)} OR ${values.isIn(id, openIds)} OR EXISTS (
      SELECT FROM generations AS g WHERE g.id = ${id}::uuid AND ${values.isIn('g.key', keyIds ?? [])}))`)
  if (isOpen !== undefined) conditions.push(`${isOpen ? '' : 'NOT '}${values.isIn(id, openIds)}`)
  return conditions.join(' AND ')
}

import {
  type FoundJobs,
  isSeen,
  type JobCandidate,
  jobRowsOf,
  mergedJobs,
  type ReadJob,
  windowOf,
} from '../../job-rows.ts'
import { AFTER_ALL_PREDICTIONS } from '../../predictions.ts'
import { JOB_STATE_BYTES, type JobPage, type JobQuestion, type JobRow } from '../../reports.ts'
import type { Questions } from '../client.ts'
import { idOfUuid } from '../generation-rows.ts'
import { Values } from './conditions.ts'
import { LINE_COLUMNS, lineOf, type LineRow } from './request-rows.ts'

/** A table with jobs: `prefix` is before their ids in it. */
type Source = { kind: JobRow['kind']; table: 'predictions' | 'responses'; prefix: string }
const SOURCES: readonly Source[] = [
  { kind: 'prediction', table: 'predictions', prefix: '' },
  { kind: 'response', table: 'responses', prefix: 'resp_' },
]

/** Predictions and responses in the background, the newest first. */
export async function jobPage(
  questions: Questions,
  question: JobQuestion,
  before: string | undefined,
  limit: number,
): Promise<JobPage> {
  const found: FoundJobs[] = []
  for (const source of SOURCES)
    if (source.kind === (question.kind ?? source.kind))
      found.push(await foundIn(questions, source, question, before ?? AFTER_ALL_PREDICTIONS, limit))
  const { ids, next } = mergedJobs(found, limit)
  const values = new Values()
  const lines = await questions.ask<LineRow>(
    `SELECT ${LINE_COLUMNS} FROM generations AS g WHERE ${isOneOf(values, 'g.id', ids)}`,
    values.list,
  )
  return { rows: jobRowsOf(await jobsWith(questions, ids), lines.map(lineOf)), next }
}

const isOneOf = (values: Values, column: string, ids: readonly string[]): string =>
  `${column} = ANY (ARRAY(SELECT jsonb_array_elements_text(${values.add(JSON.stringify(ids))}::text::jsonb)::uuid))`

async function foundIn(
  questions: Questions,
  { table, prefix }: Source,
  question: JobQuestion,
  before: string,
  limit: number,
): Promise<FoundJobs> {
  const { openIds, isOpen, now } = question
  const { rows, accountIds } = windowOf(question, limit)
  const values = new Values()
  const conditions = [`t.id < ${values.add(prefix + before)}::text`]
  if (table === 'responses') conditions.push(`t.is_background AND t.expires_at > ${values.add(now)}::bigint`)
  if (isOpen !== undefined) {
    const open = openIds.map((id) => prefix + id)
    conditions.push(`${isOpen ? '' : 'NOT '}${values.isIn('t.id', open)}`)
  }
  const newest = (account: string): string =>
    `SELECT t.id, t.account_id AS "accountId" FROM ${table} AS t WHERE ${account}${conditions.join(' AND ')}
     ORDER BY t.id DESC LIMIT ${rows}`
  const sql =
    accountIds === undefined
      ? newest('')
      : `SELECT j.* FROM jsonb_array_elements_text(${values.add(JSON.stringify(accountIds))}::text::jsonb) AS a (id),
           LATERAL (${newest('t.account_id = a.id AND ')}) AS j ORDER BY j.id DESC LIMIT ${rows}`
  const read = (await questions.ask<JobCandidate>(sql, values.list)).map(({ id, accountId }) => ({
    id: id.slice(prefix.length),
    accountId,
  }))
  const others = read.filter((one) => !isSeen(question, one)).map(({ id }) => id)
  const own = new Set(others.length === 0 ? [] : await ofKeys(questions, others, question.keyIds ?? []))
  const ids = read.filter((one) => isSeen(question, one) || own.has(one.id)).map(({ id }) => id)
  return { ids, end: read.length < rows ? undefined : read.at(-1)!.id }
}

/** Those of these generations that have one of the keys. */
async function ofKeys(questions: Questions, ids: readonly string[], keyIds: readonly string[]): Promise<string[]> {
  const values = new Values()
  const rows = await questions.ask<{ id: string }>(
    `SELECT g.id FROM generations AS g WHERE ${isOneOf(values, 'g.id', ids)} AND ${values.isIn('g.key', keyIds)}`,
    values.list,
  )
  return rows.map(({ id }) => idOfUuid(id))
}

function jobsWith(questions: Questions, ids: readonly string[]): Promise<ReadJob[]> {
  const values = new Values()
  const responses = ids.map((id) => `resp_${id}`)
  return questions.ask<ReadJob>(
    `SELECT p.id, 'prediction' AS kind, p.account_id AS "accountId", p.model, p.status, p.created_at AS "createdAt",
       p.started_at AS "startedAt", p.completed_at AS "completedAt",
       CASE WHEN (p.completed_at IS NULL OR p.status = 'failed') AND octet_length(p.state) <= ${JOB_STATE_BYTES}
         THEN p.state END AS state,
       w.attempts, w.next_at AS "nextAt"
     FROM predictions AS p LEFT JOIN LATERAL (
       SELECT attempts, next_at FROM webhook_deliveries WHERE prediction_id = p.id LIMIT 1) AS w ON true
     WHERE ${values.isIn('p.id', ids)}
     UNION ALL
     SELECT substr(r.id, 6), 'response', r.account_id, NULL,
       CASE WHEN r.upstream IS NULL THEN 'succeeded' ELSE 'processing' END, NULL, NULL, NULL, NULL, NULL, NULL
     FROM responses AS r WHERE r.is_background AND ${values.isIn('r.id', responses)}`,
    values.list,
  )
}

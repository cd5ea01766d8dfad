import type { Database, SQLQueryBindings } from 'bun:sqlite'
import {
  isSeen,
  type FoundJobs,
  type JobCandidate,
  jobRowsOf,
  mergedJobs,
  type ReadJob,
  windowOf,
} from '../../job-rows.ts'
import { AFTER_ALL_PREDICTIONS } from '../../predictions.ts'
import { JOB_STATE_BYTES, type JobPage, type JobQuestion, type JobRow } from '../../reports.ts'
import type { NameCache } from './name-cache.ts'
import { LINE_COLUMNS, lineOf, type LineRow } from './request-rows.ts'

/** A table with jobs: `prefix` is before their ids in it, `where` distinguishes them from other rows. */
type Source = { kind: JobRow['kind']; table: string; prefix: string; where: string }
const SOURCES: readonly Source[] = [
  { kind: 'prediction', table: 'predictions', prefix: '', where: '?5 IS NOT NULL' },
  {
    kind: 'response',
    table: 'responses',
    prefix: 'resp_',
    where: "is_background = 1 AND response <> '' AND expires_at > ?5",
  },
]

const ofList = (place: string): string => `(SELECT value FROM json_each(${place}))`

/** ?1: prefix and id before which they are, ?2: rows, ?3: accounts, ?4: open ones, ?5: now. */
function candidatesSql({ table, where }: Source, isInAccounts: boolean, isOpen: boolean | undefined): string {
  const open = isOpen === undefined ? '' : ` AND id ${isOpen ? 'IN' : 'NOT IN'} ${ofList('?4')}`
  const newest = (account: string): string =>
    `FROM ${table} WHERE ${where} AND id < ?1${account}${open} ORDER BY id DESC LIMIT ?2`
  return isInAccounts
    ? `SELECT t.id, t.account_id AS accountId FROM json_each(?3) AS a CROSS JOIN ${table} AS t
       WHERE t.account_id = a.value AND t.id IN (SELECT id ${newest(' AND account_id = a.value')})
       ORDER BY t.id DESC LIMIT ?2`
    : `SELECT id, account_id AS accountId ${newest('')}`
}

const JOBS = `
  SELECT p.id, 'prediction' AS kind, p.account_id AS accountId, p.model, p.status, p.created_at AS createdAt,
    p.started_at AS startedAt, p.completed_at AS completedAt,
    CASE WHEN (p.completed_at IS NULL OR p.status = 'failed') AND octet_length(p.state) <= ${JOB_STATE_BYTES}
      THEN p.state END AS state,
    w.attempts, w.next_at AS nextAt
  FROM predictions AS p LEFT JOIN webhook_deliveries AS w
    ON w.id = (SELECT id FROM webhook_deliveries WHERE prediction_id = p.id LIMIT 1)
  WHERE p.id IN ${ofList('?1')}
  UNION ALL
  SELECT substr(r.id, 6), 'response', r.account_id, NULL,
    CASE WHEN r.upstream IS NULL THEN 'succeeded' ELSE 'processing' END, NULL, NULL, NULL, NULL, NULL, NULL
  FROM responses AS r WHERE r.is_background = 1 AND r.id IN (SELECT 'resp_' || value FROM json_each(?1))`

/** Predictions and responses in the background. */
export class JobList {
  readonly #database: Database
  readonly #names: NameCache

  constructor(database: Database, names: NameCache) {
    this.#database = database
    this.#names = names
  }

  #all<Row>(sql: string, ...values: SQLQueryBindings[]): Row[] {
    return this.#database.query(sql).all(...values) as Row[]
  }

  page(question: JobQuestion, before: string | undefined, limit: number): JobPage {
    const sources = SOURCES.filter(({ kind }) => kind === (question.kind ?? kind))
    const found = sources.map((source) => this.#found(source, question, before ?? AFTER_ALL_PREDICTIONS, limit))
    const { ids, next } = mergedJobs(found, limit)
    const list = JSON.stringify(ids)
    const lines = this.#all<LineRow>(
      `SELECT ${LINE_COLUMNS} FROM generations AS g WHERE g.id IN (SELECT unhex(value) FROM json_each(?))`,
      list,
    )
    const jobs = this.#all<ReadJob>(JOBS, list)
    return {
      rows: jobRowsOf(
        jobs,
        lines.map((line) => lineOf(this.#names, line)),
      ),
      next,
    }
  }

  #found(source: Source, question: JobQuestion, before: string, limit: number): FoundJobs {
    const { openIds, isOpen, now, keyIds } = question
    const { rows, accountIds } = windowOf(question, limit)
    const { prefix } = source
    const read = this.#all<JobCandidate>(
      candidatesSql(source, accountIds !== undefined, isOpen),
      prefix + before,
      rows,
      JSON.stringify(accountIds ?? []),
      JSON.stringify(openIds.map((id) => prefix + id)),
      now,
    ).map(({ id, accountId }) => ({ id: id.slice(prefix.length), accountId }))
    const others = read.filter((one) => !isSeen(question, one)).map(({ id }) => id)
    const own = new Set(others.length === 0 ? [] : this.#ofKeys(others, keyIds ?? []))
    const ids = read.filter((one) => isSeen(question, one) || own.has(one.id)).map(({ id }) => id)
    return { ids, end: read.length < rows ? undefined : read.at(-1)!.id }
  }

  /** Those of these generations that have one of the keys. */
  #ofKeys(ids: readonly string[], keyIds: readonly string[]): string[] {
    return this.#all<{ id: string }>(
      `SELECT lower(hex(id)) AS id FROM generations
       WHERE id IN (SELECT unhex(value) FROM json_each(?1)) AND key IN ${ofList('?2')}`,
      JSON.stringify(ids),
      JSON.stringify(this.#names.ids(keyIds)),
    ).map(({ id }) => id)
  }
}

import { instantOf } from './generation-ids.ts'
import type { JobQuestion, JobRow, RequestRow } from './reports.ts'

/** A job as stores read it. */
export type ReadJob = Omit<JobRow, 'createdAt' | 'webhook' | 'line'> & {
  createdAt: number | null
  attempts: number | null
  nextAt: number | null
}

/** Jobs with the lines of those that are recorded, the newest first. */
export function jobRowsOf(jobs: readonly ReadJob[], recorded: readonly RequestRow[]): JobRow[] {
  const lines = new Map(recorded.map((line) => [line.id, line]))
  return jobs
    .map(({ createdAt, attempts, nextAt, ...job }) => ({
      ...job,
      createdAt: createdAt ?? instantOf(job.id),
      webhook: attempts === null ? null : { attempts, nextAt: nextAt! },
      line: lines.get(job.id) ?? null,
    }))
    .sort((one, other) => (one.id < other.id ? 1 : -1))
}

/** Jobs that are looked at for a page of those of some keys: no index has them by key. */
const LOOKED_AT = 2_000

export type JobCandidate = { id: string; accountId: string }

/** The jobs that are looked at for a page, and in which accounts; undefined for all. */
export function windowOf(question: JobQuestion, limit: number): { rows: number; accountIds?: readonly string[] } {
  const { accountIds, ownAccountIds } = question
  if (accountIds === undefined) return { rows: limit + 1 }
  return {
    rows: ownAccountIds.length > 0 ? Math.max(limit + 1, LOOKED_AT) : limit + 1,
    accountIds: [...new Set([...accountIds, ...ownAccountIds])],
  }
}

/** True for a candidate that the question is about without a look at its record. */
export const isSeen = ({ accountIds, openIds }: JobQuestion, { id, accountId }: JobCandidate): boolean =>
  accountIds === undefined || accountIds.includes(accountId) || openIds.includes(id)

/** Ids of one kind, the newest first. `end`: the id up to which was looked; undefined where there are no others. */
export type FoundJobs = { ids: readonly string[]; end: string | undefined }

/** The ids of a page, the newest first: none is older than what was looked at of each kind. */
export function mergedJobs(found: readonly FoundJobs[], limit: number): { ids: string[]; next: string | null } {
  const end = found
    .flatMap((one) => one.end ?? [])
    .sort()
    .at(-1)
  const ids = found
    .flatMap((one) => one.ids)
    .filter((id) => end === undefined || id >= end)
    .sort()
    .reverse()
  return ids.length > limit ? { ids: ids.slice(0, limit), next: ids[limit - 1]! } : { ids, next: end ?? null }
}

import { instantOf } from './generation-ids.ts'
import type { JobRow, RequestRow } from './reports.ts'

/** A job as stores read it. */
export type ReadJob = Omit<JobRow, 'createdAt' | 'webhook' | 'line'> & {
  createdAt: number | null
  attempts: number | null
  nextAt: number | null
}

/** Jobs with the lines of those that are recorded. */
export function jobRowsOf(jobs: readonly ReadJob[], recorded: readonly RequestRow[]): JobRow[] {
  const lines = new Map(recorded.map((line) => [line.id, line]))
  return jobs.map(({ createdAt, attempts, nextAt, ...job }) => ({
    ...job,
    createdAt: createdAt ?? instantOf(job.id),
    webhook: attempts === null ? null : { attempts, nextAt: nextAt! },
    line: lines.get(job.id) ?? null,
  }))
}

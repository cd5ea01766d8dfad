import { Button, Progress } from '@mantine/core'
import { useAccounts } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Money } from '../../parts/money.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { oneLine, visible } from '../../parts/visible.ts'
import { duration, elapsed } from '../../parts/when.ts'
import { Ago, useNow } from '../../parts/when.tsx'
import type { Job } from './job.ts'

const KINDS = { prediction: 'Prediction', response: 'Response' } as const

const isOpen = ({ status }: Job): boolean => status === 'waiting' || status === 'running'

/** The acts of the buttons of a job: to cancel it, and to show its files. */
type Buttons = { onCancel: (job: Job) => void; onFiles: (job: Job) => void }

export function JobList({ jobs, ...buttons }: { jobs: readonly Job[] } & Buttons) {
  const now = useNow(jobs.some(isOpen))
  const hasAccounts = (useAccounts().data?.data.length ?? 0) > 1
  return (
    <TableScroll label="Jobs">
      <table className="table">
        <thead>
          <tr>
            <th>Model</th>
            <th>Status</th>
            {hasAccounts && <th className="wide">Account</th>}
            <th className="wide">Key</th>
            <th className="wide">Made</th>
            <th className="right wide">Took</th>
            <th className="wide wider">Webhook</th>
            <th className="right wide">Cost, USD</th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <JobRow key={job.id} {...{ job, now, hasAccounts }} {...buttons} />
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}

type RowProps = { job: Job; now: number; hasAccounts: boolean } & Buttons

function JobRow({ job, now, hasAccounts, ...buttons }: RowProps) {
  const { id, public_id, kind, model, account, key, created_at } = job
  const took = tookOf(job, now)
  return (
    <tr>
      <td>
        <To path={`/requests/${id}`} className="link" title={public_id}>
          {visible(model ?? public_id)}
        </To>
        <span className="job-line dim">{KINDS[kind]}</span>
        <span className="narrow small dim">
          <Ago at={created_at} />
          {took !== undefined && `, ${took}`}
        </span>
        {job.cost_usd !== null && (
          <span className="narrow small">
            <Cost job={job} /> USD
          </span>
        )}
      </td>
      <td>
        <Status job={job} {...buttons} />
      </td>
      {hasAccounts && <td className="wide cut">{visible(account?.name ?? account?.id ?? '-')}</td>}
      <td className="wide cut">{visible(key?.name ?? key?.id ?? '-')}</td>
      <td className="wide">
        <Ago at={created_at} />
      </td>
      <td className="right number wide">{took ?? '-'}</td>
      <td className="wide wider">
        <Webhook job={job} />
      </td>
      <td className="right wide">
        <Cost job={job} />
      </td>
    </tr>
  )
}

/** The time from its start to its end or to now; undefined for one that waits. */
function tookOf({ kind, status, created_at, started_at, ended_at }: Job, now: number): string | undefined {
  const start = started_at ?? (kind === 'response' ? created_at : null)
  if (start === null || status === 'waiting') return undefined
  if (ended_at === null) return elapsed(now - Date.parse(start))
  return duration(Math.max(0, Date.parse(ended_at) - Date.parse(start)))
}

const TONES = { waiting: 'dim', running: 'good', succeeded: 'dim', failed: 'failed', canceled: 'refused' } as const

/** A prediction that was canceled may have made some of its files. */
const mayHaveFiles = ({ kind, status }: Job): boolean =>
  kind === 'prediction' && (status === 'succeeded' || status === 'canceled')

function Status({ job, onCancel, onFiles }: { job: Job } & Buttons) {
  const { may } = useSigned()
  const { status, progress, error, public_id, can_cancel } = job
  return (
    <div className="job-status">
      <div>
        <span className={`tone-${TONES[status]}`}>{status}</span>
        {progress !== null && (
          <>
            <span className="dim number">{` ${progress} %`}</span>
            <Progress value={progress} size="sm" aria-label={`Progress of ${public_id}`} />
          </>
        )}
        {error !== null && (
          <span className="job-line job-error dim" title={oneLine(error, 300)}>
            {oneLine(error, 160)}
          </span>
        )}
      </div>
      {can_cancel && (
        <Button size="compact-sm" variant="default" aria-label={`Cancel ${public_id}`} onClick={() => onCancel(job)}>
          Cancel
        </Button>
      )}
      {may.seeBodies && mayHaveFiles(job) && (
        <Button size="compact-sm" variant="default" aria-label={`Files of ${public_id}`} onClick={() => onFiles(job)}>
          Files
        </Button>
      )}
    </div>
  )
}

/** The cost, which is known at its end; of a subscription, in flows. */
function Cost({ job }: { job: Job }) {
  const { cost_usd, flows } = job
  const why = isOpen(job) ? 'It is known when the job has ended.' : flows === null ? undefined : `${flows} flows`
  return <Money usd={cost_usd} {...(why === undefined ? {} : { why })} />
}

function Webhook({ job: { webhook } }: { job: Job }) {
  if (webhook === null) return <span className="dim">-</span>
  const { tries, next_at } = webhook
  return (
    <>
      {tries === 0 ? 'due' : `${tries} failed, next`} <Ago at={next_at} />
    </>
  )
}

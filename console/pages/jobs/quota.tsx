import { useAsk } from '../../api/queries.ts'
import { visible } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'
import type { JobQuota } from './job.ts'

/** The numbers of predictions of each account that run and wait, and those that may. */
export function Quota({ account, againMs }: { account: string | undefined; againMs: number }) {
  const { data } = useAsk<JobQuota>('/jobs/quota', { account }, { refetchInterval: againMs })
  if (data === undefined) return null
  const { running_max, waiting_max, accounts } = data
  const most = `${count(running_max)} predictions of an account run at once, ${count(waiting_max)} more may wait.`
  return (
    <p className="dim small">
      {most}
      {accounts.map(({ account: of, running, waiting }) => (
        <span key={of?.id} className="number">
          {` ${visible(of?.name ?? of?.id ?? '-')}: ${count(running)} of ${count(running_max)} running`}
          {waiting > 0 && `, ${count(waiting)} of ${count(waiting_max)} waiting`}.
        </span>
      ))}
    </p>
  )
}

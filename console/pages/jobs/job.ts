import type { Named } from '../../api/answers.ts'

/** `progress`: percent. `webhook`: a call that is not delivered yet. */
export type Job = {
  id: string
  public_id: string
  kind: 'prediction' | 'response'
  account: Named | null
  key: Named | null
  model: string | null
  provider: string | null
  status: 'waiting' | 'running' | 'succeeded' | 'failed' | 'canceled'
  progress: number | null
  error: string | null
  created_at: string
  started_at: string | null
  ended_at: string | null
  cost_usd: string | null
  flows: number | null
  webhook: { tries: number; next_at: string } | null
  can_cancel: boolean
}

/** A file in the output of a prediction. */
export type JobFile = {
  url: string
  state: 'stored' | 'expired' | 'inline' | 'elsewhere'
  media_type: string | null
  bytes: number | null
  expires_at: string | null
}

export type JobQuota = {
  running_max: number
  waiting_max: number
  accounts: { account: Named | null; running: number; waiting: number }[]
}

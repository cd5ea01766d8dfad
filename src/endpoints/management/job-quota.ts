import type { AppContext } from '../../context.ts'
import { answer } from './answer.ts'
import { scopeOf, seesListPrices } from './filters.ts'
import { namedIn, namesOf, type Named } from './names.ts'
import { openRows } from './open-requests.ts'
import type { ManagementRequest } from './route.ts'

/** Predictions that may run and wait of each account, and the accounts that have any. */
export type JobQuotaAnswer = {
  running_max: number
  waiting_max: number
  accounts: { account: Named | null; running: number; waiting: number }[]
}

/** Open predictions that are counted, of all accounts. */
const COUNTED_MAX = 20_000

/** `GET /v1/management/jobs/quota`. */
export async function getJobQuota(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const scope = await scopeOf(app, inbound, 'usage.read')
  const choices = { api: { only: ['predictions'] } }
  const filter = { ...scope, choices, flags: {}, seesListPrices: seesListPrices(inbound) }
  const numbers = new Map<string, number>()
  for (const { accountId } of await openRows(app, filter, COUNTED_MAX))
    if (accountId !== null) numbers.set(accountId, (numbers.get(accountId) ?? 0) + 1)
  const names = await namesOf(app)
  const { concurrency, waiting } = app.config.predictions
  const body: JobQuotaAnswer = {
    running_max: concurrency,
    waiting_max: waiting,
    // One waits only while as many as may run do.
    accounts: [...numbers].map(([id, open]) => ({
      account: namedIn(names.accounts, id),
      running: Math.min(open, concurrency),
      waiting: Math.max(0, open - concurrency),
    })),
  }
  return answer(body)
}

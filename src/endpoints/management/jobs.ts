import type { Action } from '../../accounts/roles.ts'
import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import { protocols } from '../../protocols/index.ts'
import { instantOf } from '../../store/generation-ids.ts'
import { isInScope } from '../../store/request-filter.ts'
import type { JobQuestion, JobRow, RequestRow } from '../../store/store.ts'
import { answer, cursorAfter, limitOf, nothing, positionOf, time, timeOrNull, unknown, type Page } from './answer.ts'
import { logChange } from './change-log.ts'
import { idIn, reachedBy, scopeWithAccounts, seesListPrices } from './filters.ts'
import { namedIn, namesOf, type Named } from './names.ts'
import { openRows } from './open-requests.ts'
import { flagIn } from './query-names.ts'
import { rowWriter, type RequestAnswer } from './requests.ts'
import type { ManagementContext, ManagementRequest } from './route.ts'

/**
 * Work that goes on after its request. `progress`: percent, as the logs of a prediction say. `webhook`: a call that is
 * not delivered yet. `can_cancel`: it has not ended, and the caller may end it.
 */
export type JobAnswer = {
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

/** Requests that are open of one caller, among which are its jobs. */
const OPEN_MAX = 5_000

/** The jobs for which a caller has an action; `open`: the lines of requests that are open and may be jobs, by id. */
async function jobsIn(
  app: AppContext,
  inbound: ManagementRequest,
  action: Action,
): Promise<{ open: Map<string, RequestRow>; question: JobQuestion }> {
  const { scope, ownAccountIds } = await scopeWithAccounts(app, inbound, action)
  const choices = { api: { only: ['predictions', 'responses'] } }
  const filter = { ...scope, choices, flags: {}, seesListPrices: seesListPrices(inbound) }
  const open = new Map((await openRows(app, filter, OPEN_MAX)).map((row) => [row.id, row]))
  return { open, question: { ...scope, ownAccountIds, openIds: [...open.keys()], now: app.clock.now() } }
}

const KINDS: readonly JobAnswer['kind'][] = ['prediction', 'response']

/**
 * `GET /v1/management/jobs`: the newest first; `open` selects those that have not ended, or those that have, `kind`
 * those of one kind.
 */
export function listJobs(app: ManagementContext, inbound: ManagementRequest): Promise<Response> {
  const name = inbound.query.get('kind')
  const kind = KINDS.find((one) => one === name)
  if (name !== null && kind === undefined)
    throw invalid('kind', `must be ${KINDS.map((one) => `'${one}'`).join(' or ')}`)
  return listOf(app, inbound, kind)
}

/** `GET /v1/management/predictions`: the jobs of this kind. */
export const listPredictionJobs = (app: ManagementContext, inbound: ManagementRequest): Promise<Response> =>
  listOf(app, inbound, 'prediction')

async function listOf(
  app: ManagementContext,
  inbound: ManagementRequest,
  kind: JobAnswer['kind'] | undefined,
): Promise<Response> {
  const limit = limitOf(inbound)
  const isOpen = flagIn(inbound.query, 'open')
  const { open, question } = await jobsIn(app, inbound, 'requests.read')
  const asked = { ...question, isOpen, kind }
  const { rows, next } = await app.store.reports.jobs(asked, positionOf<string>(inbound), limit)
  const page: Page<JobAnswer> = {
    data: await written(app, inbound, rows, open),
    next: next === null ? null : cursorAfter(inbound, next),
    scanned_to: next === null || rows.length === limit ? null : time(instantOf(next)),
  }
  return answer(page)
}

async function written(
  app: ManagementContext,
  inbound: ManagementRequest,
  rows: readonly JobRow[],
  open: ReadonlyMap<string, RequestRow>,
): Promise<JobAnswer[]> {
  const lines = rows.map(({ id, line }) => line ?? open.get(id))
  const write = await rowWriter(
    app,
    inbound,
    lines.filter((line) => line !== undefined),
  )
  const changeable = await reachedBy(app, inbound, 'jobs.change')
  const names = await namesOf(app)
  return rows.map((row, index) => {
    const line = lines[index]
    const { id, kind, accountId, createdAt, startedAt, state, webhook } = row
    const status = statusOf(row)
    const request = line === undefined ? undefined : write(line)
    const { logs, error } = statedBy(state)
    return {
      id,
      public_id: publicId(row),
      kind,
      account: namedIn(names.accounts, accountId),
      key: request?.key ?? null,
      model: row.model ?? request?.model ?? null,
      provider: request?.provider ?? null,
      status,
      progress: status === 'running' ? progressIn(app.predictor.running(id)?.logs ?? logs) : null,
      error: error ?? errorOf(request),
      created_at: time(createdAt),
      started_at: timeOrNull(startedAt),
      ended_at: timeOrNull(endOf(row)),
      cost_usd: request?.cost_usd ?? null,
      flows: request?.flows ?? null,
      webhook: webhook && { tries: webhook.attempts, next_at: time(webhook.nextAt) },
      can_cancel: hasEnded(status) ? false : isInScope(changeable, { accountId, keyId: line?.keyId ?? null }),
    }
  })
}

export const publicId = ({ kind, id }: JobRow): string =>
  (kind === 'prediction' ? 'pred_' : protocols.responses.serve.idPrefix) + id

const STATUSES = { starting: 'waiting', processing: 'running' } as const

/** The end of a response in the background is that of its record, which may be written before the response. */
function statusOf({ kind, status, line }: JobRow): JobAnswer['status'] {
  if (kind === 'response' && line !== null)
    return line.outcome === 'completed' ? 'succeeded' : line.outcome === 'client-left' ? 'canceled' : 'failed'
  return status === 'starting' || status === 'processing' ? STATUSES[status] : status
}

const hasEnded = (status: JobAnswer['status']): boolean => status !== 'waiting' && status !== 'running'

const endOf = ({ completedAt, line }: JobRow): number | null =>
  completedAt ?? (line === null ? null : line.at + (line.totalMs ?? 0))

const errorOf = (request: RequestAnswer | undefined): string | null =>
  request?.error == null ? null : (request.error.message ?? request.error.code)

/** The part of a prediction's state that a list shows. */
const statedBy = (state: string | null): { logs: string; error: string | null } =>
  state === null ? { logs: '', error: null } : (JSON.parse(state) as { logs: string; error: string | null })

/** The last percentage of a progress bar in logs, as Replicate's client reads it: ` 25%|##        | 1/4`. */
const progressIn = (logs: string): number | null => {
  const last = [...logs.matchAll(/^\s*(\d{1,3})%\s*\|/gm)].at(-1)?.[1]
  return last === undefined ? null : Math.min(100, Number(last))
}

/** The job of the address for which the caller has an action. Throws not_found (404) for any other. */
export async function jobFor(app: AppContext, inbound: ManagementRequest, action: Action): Promise<JobRow> {
  const id = idIn(inbound.params[0]!)
  const { question } = await jobsIn(app, inbound, action)
  // The first before the id that follows this one.
  const [row] = id === undefined ? [] : (await app.store.reports.jobs(question, `${id}0`, 1)).rows
  if (row === undefined || row.id !== id) throw unknown('job', 'id')
  return row
}

/** `POST /v1/management/jobs/{id}/cancel`: no effect on a job that has ended. */
export async function cancelJob(app: ManagementContext, inbound: ManagementRequest): Promise<Response> {
  const row = await jobFor(app, inbound, 'jobs.change')
  if (hasEnded(statusOf(row))) return nothing()
  const { id, accountId, kind } = row
  await logChange(app, inbound, { action: 'job.cancel', target: publicId(row), accountId })
  if (kind === 'prediction') await app.predictor.cancel(accountId, id)
  else {
    const stored = await app.background.find(accountId, publicId(row))
    if (stored !== undefined) await app.background.refresh(accountId, stored, true, inbound.request.signal)
  }
  return nothing()
}

import { Plans } from '../../accounts/plans.ts'
import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import { AuditJobs, type AuditJob } from '../../ledger/audit-jobs.ts'
import { TRANSFER_KINDS } from '../../ledger/book.ts'
import type { BookAccount, TransferPosition } from '../../store/store.ts'
import { answer, cursorAfter, limitOf, positionOf, time, timeOrNull, unknown, usd, type Page } from './answer.ts'
import { rangeIn, scopeOf } from './filters.ts'
import { namedIn, namesOf, type Named } from './names.ts'
import type { ManagementRequest } from './route.ts'

/** An account of the book. `account`: whose credit or bonus it is; `owner`: an account's id, a provider's, or null. */
export type BookAccountAnswer = { kind: string; owner: string | null; account: Named | null }
export type BalanceAnswer = BookAccountAnswer & { balance_usd: string }
export type TransferAnswer = {
  reference: string
  kind: string
  at: string
  note: string | null
  debit: BookAccountAnswer
  credit: BookAccountAnswer
  amount_usd: string
}
export type AuditAnswer = {
  id: string
  state: AuditJob['state']
  read: number
  total: number
  wrong: number
  first: { table: string; id: string; expected: string; found: string } | null
  sentence: string
  started_at: string
  ended_at: string | null
}

const OWNED = new Set(['credit', 'bonus'])

const bookAccount = (names: ReadonlyMap<string, string>, { kind, owner }: BookAccount): BookAccountAnswer => ({
  kind,
  owner: owner === '' ? null : owner,
  account: OWNED.has(kind) ? namedIn(names, owner) : null,
})

/** `GET /v1/management/book/balances`. */
export async function listBalances(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const limit = limitOf(inbound)
  const { accountIds } = await scopeOf(app, inbound, 'book.read')
  const names = await namesOf(app)
  const rows = await app.store.reports.balances(accountIds, positionOf<number>(inbound) ?? 0, limit + 1)
  const last = rows.length > limit ? rows[limit - 1] : undefined
  const page: Page<BalanceAnswer> = {
    data: rows.slice(0, limit).map((row) => ({ ...bookAccount(names.accounts, row), balance_usd: usd(row.balance) })),
    next: last === undefined ? null : cursorAfter(inbound, last.id),
    scanned_to: null,
  }
  return answer(page)
}

/** `GET /v1/management/book/transfers`: the newest first; `kind`, `from` and `to` narrow it. */
export async function listTransfers(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const now = app.clock.now()
  const { accountIds } = await scopeOf(app, inbound, 'book.read')
  const kinds = inbound.query.getAll('kind')
  if (!kinds.every((kind) => (TRANSFER_KINDS as readonly string[]).includes(kind)))
    throw invalid('kind', `must be one of ${TRANSFER_KINDS.join(', ')}`)
  const names = await namesOf(app)
  const { rows, next } = await app.store.reports.transfers(
    {
      accountIds,
      kinds: kinds.length === 0 ? undefined : kinds,
      ...rangeIn(inbound, now),
    },
    positionOf<TransferPosition>(inbound),
    limitOf(inbound),
  )
  const last = rows.at(-1)
  const page: Page<TransferAnswer> = {
    data: rows.map(({ from, to, amount, at, ...row }) => ({
      ...row,
      at: time(at),
      debit: bookAccount(names.accounts, from),
      credit: bookAccount(names.accounts, to),
      amount_usd: usd(amount),
    })),
    next: next === null ? null : cursorAfter(inbound, next),
    scanned_to: next === null ? null : timeOrNull(last?.at ?? Number.parseInt(next.id.slice(0, 12), 16)),
  }
  return answer(page)
}

/** The audits of each gateway in this process. */
const audits = new WeakMap<AppContext, AuditJobs>()

/** `POST /v1/management/book/audit`: begins an audit, or answers the one that is under way. */
export async function beginAudit(app: AppContext): Promise<Response> {
  const { config, store, clock } = app
  const jobs = audits.get(app) ?? new AuditJobs()
  audits.set(app, jobs)
  const terms = { overdraft: config.billing.overdraft, usdPerFlow: new Plans(config).usdPerFlow }
  const rows = await store.reports.usage({ bounds: [0, clock.now() + YEAR_MS], groups: [], choices: {} })
  const total = rows.reduce((sum, { requests }) => sum + requests, 0)
  return answer(writeAudit(jobs.begin({ config, terms, total, now: clock.now })), 202)
}

const YEAR_MS = 366 * 86_400_000

/** `GET /v1/management/book/audit/{id}`. */
export function getAudit(app: AppContext, { params }: ManagementRequest): Response {
  const job = audits.get(app)?.find(params[0]!)
  if (job === undefined) throw unknown('audit', 'id')
  return answer(writeAudit(job))
}

const writeAudit = ({ startedAt, endedAt, first, ...job }: AuditJob): AuditAnswer => ({
  ...job,
  first: first ?? null,
  started_at: time(startedAt),
  ended_at: timeOrNull(endedAt),
})

import type { AppContext } from '../../context.ts'
import type { StoredChange } from '../../store/store.ts'
import { accountsOf, answer, cursorAfter, limitOf, positionOf, time, type Page } from './answer.ts'
import type { ManagementRequest } from './route.ts'

/** A line of the change log. `before` and `after` have no secrets. */
export type ChangeAnswer = {
  id: number
  at: string
  actor: { id: string; name: string }
  address: string | null
  action: string
  target: string
  account: { id: string; name: string } | null
  before: unknown
  after: unknown
  /** Over this change and the digest of the one before. */
  digest: string
}

/** `first_wrong`: the id of the first line that was changed, or before which one is missing. */
export type ChangesAuditAnswer = { right: boolean; first_wrong: number | null }

/** `GET /v1/management/changes`: the last ones first; `actor`, `action`, `target` and `account` narrow. */
export async function listChanges(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { accounts } = await accountsOf(app, inbound, 'changes.read')
  const limit = limitOf(inbound)
  const { query } = inbound
  const rows = await app.people.changes.list({
    before: positionOf<number>(inbound),
    limit: limit + 1,
    accountIds: accounts,
    actor: query.get('actor') ?? undefined,
    action: query.get('action') ?? undefined,
    target: query.get('target') ?? undefined,
  })
  const page = rows.slice(0, limit)
  const ids = [...new Set(page.flatMap(({ accountId }) => accountId ?? []))]
  const names = new Map((await app.store.accounts.list(ids)).map(({ id, name }) => [id, name]))
  const last = page.at(-1)
  const body: Page<ChangeAnswer> = {
    data: page.map((change) => shown(change, names)),
    next: rows.length > limit && last !== undefined ? cursorAfter(inbound, last.position) : null,
    scanned_to: null,
  }
  return answer(body)
}

/** `POST /v1/management/changes/audit`: checks the digests of the whole log. */
export async function auditChanges({ people }: AppContext): Promise<Response> {
  const wrong = await people.changes.firstWrong()
  const body: ChangesAuditAnswer = { right: wrong === undefined, first_wrong: wrong ?? null }
  return answer(body)
}

const shown = (change: StoredChange, names: ReadonlyMap<string, string>): ChangeAnswer => ({
  id: change.position,
  at: time(change.at),
  actor: { id: change.actor, name: change.actorName },
  address: change.address,
  action: change.action,
  target: change.target,
  account: change.accountId === null ? null : { id: change.accountId, name: names.get(change.accountId) ?? '' },
  before: change.before === null ? null : (JSON.parse(change.before) as unknown),
  after: change.after === null ? null : (JSON.parse(change.after) as unknown),
  digest: change.digest,
})

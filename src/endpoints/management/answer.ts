import type { Account } from '../../store/store.ts'
import type { Action } from '../../accounts/roles.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { usdText, type Nano } from '../../money.ts'
import type { ManagementRequest } from './route.ts'

/** An instant of the store as the API writes it: ISO 8601, UTC, to the millisecond. */
export const time = (at: number): string => new Date(at).toISOString()
export const timeOrNull = (at: number | null | undefined): string | null => (at == null ? null : time(at))

/** An amount as the API writes it: a decimal string of USD. */
export const usd: (amount: Nano) => string = usdText
export const usdOrNull = (amount: Nano | null | undefined): string | null => (amount == null ? null : usdText(amount))

/** A page of a list. `scanned_to`: how far back a search has looked, where it ended before the page was full. */
export type Page<T> = { data: T[]; next: string | null; scanned_to: string | null }

/** Something that can be changed, with its version as the ETag: of `what`, where its use changes other members. */
export const versioned = (value: object, what = value): Response =>
  Response.json(value, { headers: { etag: etagOf(what), 'cache-control': 'no-store' } })

export const answer = (value: object, status = 200): Response =>
  Response.json(value, { status, headers: { 'cache-control': 'no-store' } })

export const nothing = (): Response => new Response(null, { status: 204 })

/** The version of something: a digest of what its GET shows. */
const etagOf = (value: object): string =>
  `"${new Bun.CryptoHasher('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 24)}"`

/**
 * Refuses a change of something that is not as the caller last saw it. `current`: as given to `versioned` now.
 * Throws precondition_required (428) without `If-Match`, and conflict (409) where it names another version.
 */
export function checkVersion({ request }: ManagementRequest, current: object): void {
  const wanted = request.headers.get('if-match')
  if (wanted === null)
    throw new GatewayError('precondition_required', 'If-Match: is required: the ETag of what you have read.')
  if (wanted !== '*' && !wanted.split(',').some((one) => one.trim().replace(/^W\//, '') === etagOf(current)))
    throw new GatewayError('conflict', 'This was changed since you read it: read it again, then change it.')
}

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 200

/** `limit` of a list: 1 to 200, 50 without it. */
export function limitOf({ query }: ManagementRequest): number {
  const text = query.get('limit') ?? String(DEFAULT_LIMIT)
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > MAX_LIMIT) throw invalid('limit', `must be a whole number from 1 to ${MAX_LIMIT}`)
  return limit
}

/**
 * Where the next page of a list begins, for its `next`: signed, so that no client can make one. It is valid with the
 * same path and filters alone.
 */
export function cursorAfter(inbound: ManagementRequest, position: unknown): string {
  const text = Buffer.from(JSON.stringify(position)).toString('base64url')
  return `${text}.${digestOf(inbound, text)}`
}

/** The position in the request's `cursor`; undefined for the first page. Throws invalid_request (400). */
export function positionOf<T>(inbound: ManagementRequest): T | undefined {
  const cursor = inbound.query.get('cursor')
  if (cursor === null) return undefined
  const [text = '', signature] = cursor.split('.')
  if (signature !== digestOf(inbound, text))
    throw invalid('cursor', 'belongs to other filters or to another server; begin with the first page')
  return JSON.parse(Buffer.from(text, 'base64url').toString()) as T
}

function digestOf({ path, query, caller, cursorKey }: ManagementRequest, text: string): string {
  const filters = [...query].filter(([name]) => name !== 'cursor' && name !== 'limit').sort()
  return new Bun.CryptoHasher('sha256', cursorKey)
    .update(JSON.stringify([path, caller.id, filters, text]))
    .digest('base64url')
    .slice(0, 22)
}

/** The answer for an id that is unknown or not the caller's own: one for both, so that ids cannot be probed. */
export const unknown = (what: string, param?: string): GatewayError =>
  new GatewayError('not_found', `No such ${what}.`, param === undefined ? {} : { param })

/**
 * The accounts that a request is about: those that `account=` names, by id or name, or all in which the caller has the
 * action; undefined for all there are. `own`: those in which only the caller's own keys count.
 */
export async function accountsOf(
  app: AppContext,
  { query, caller }: ManagementRequest,
  action: Action,
): Promise<{ accounts: string[] | undefined; own: string[] }> {
  const reach = caller.reach(action)
  const named = query.getAll('account')
  if (named.length === 0)
    return reach === 'all' ? { accounts: undefined, own: [] } : { accounts: [...reach.accounts], own: [...reach.own] }
  const found = await Promise.all(named.map((one) => app.store.accounts.find(one)))
  const ids = found.map((account) => {
    if (account === undefined || !caller.may(action, account.id, true)) throw unknown('account', 'account')
    return account.id
  })
  const isOwn = (id: string): boolean => !caller.may(action, id)
  return { accounts: ids.filter((id) => !isOwn(id)), own: ids.filter(isOwn) }
}

/** The account with this id or name, in which the caller has the action. Throws not_found or role_required. */
export async function accountFor(
  app: AppContext,
  { caller }: ManagementRequest,
  idOrName: string,
  action: Action,
): Promise<Account> {
  const account = await app.store.accounts.find(idOrName)
  if (account === undefined || !caller.may('accounts.read', account.id)) throw unknown('account', 'account')
  if (!caller.may(action, account.id, true)) caller.refuse(action)
  return account
}

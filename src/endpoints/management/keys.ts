import type { Budgets } from '../../accounts/budget.ts'
import type { NewKey } from '../../accounts/keys.ts'
import { covers, INSTALLATION, rolesOf, type Role, type RoleName } from '../../accounts/roles.ts'
import { modelPatternProblem } from '../../config/model-settings.ts'
import { requestsPerMinute } from '../../config/account-settings.ts'
import { list, name, object, string } from '../../config/shape.ts'
import { KEY_KINDS, LIMIT_PERIODS, type KeyKind, type LimitPeriod } from '../../config/terms.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import type { Account, StoredKey } from '../../store/store.ts'
import {
  accountFor,
  accountsOf,
  answer,
  checkVersion,
  cursorAfter,
  limitOf,
  nothing,
  positionOf,
  time,
  timeOrNull,
  unknown,
  usdOrNull,
  versioned,
  type Page,
} from './answer.ts'
import { bodyOf } from './body.ts'
import { captureOf, captureShape, readSwitch, setSwitch, switchAfter, type CaptureAnswer } from './capture.ts'
import { changeLogged, changeLoggedOnce, logChange } from './change-log.ts'
import { flagIn } from './query-names.ts'
import type { ManagementRequest } from './route.ts'
import { accountShape, graceSeconds, instantShape, line, nullable, usdAmount, valuesOf } from './shapes.ts'

/**
 * A key without its text. `source`: `sluice.yaml` for a key of the file, which only the file changes. `prefix` is empty
 * where the text has none of ours.
 */
export type KeyAnswer = {
  id: string
  kind: KeyKind
  name: string | null
  account: { id: string; name: string }
  prefix: string
  last4: string
  models: string[] | null
  limit_usd: string | null
  limit_period: LimitPeriod | null
  /** In the current period of the limit; null without a limit. */
  spent_usd: string | null
  period_ends_at: string | null
  requests_per_minute: number | null
  created_at: string | null
  expires_at: string | null
  revoked_at: string | null
  last_used_at: string | null
  role: RoleName | null
  scope: string | null
  created_by: string | null
  capture: CaptureAnswer | null
  source: 'api' | 'playground' | 'command line' | 'sluice.yaml'
}

/** `text`: shown here alone. */
export type NewKeyAnswer = KeyAnswer & { text: string }

const models = list(string({ what: 'a pattern of model names', check: modelPatternProblem }), {
  what: 'patterns of model names',
  min: 1,
})

const CHANGEABLE = {
  name: nullable(line('a name', 100)),
  models: nullable(models),
  limit_usd: nullable(usdAmount('Spending limit')),
  limit_period: nullable(name(LIMIT_PERIODS)),
  requests_per_minute: nullable(requestsPerMinute),
  expires_at: nullable(instantShape('Expiry')),
  role: nullable(name(['owner', 'admin', 'member', 'viewer'] as const)),
  scope: nullable(string({ what: '"installation" or an account, by id or name' })),
  capture: captureShape,
}

export const CREATE = object({ ...CHANGEABLE, kind: name(KEY_KINDS), account: accountShape }, { required: ['kind'] })
export const CHANGE = object(CHANGEABLE)
export const ROTATE = object({ grace_seconds: graceSeconds })

type Given = NonNullable<ReturnType<(typeof CHANGE)['read']>>

/** `GET /v1/management/keys`: the last made ones first; those of sluice.yaml before them. */
export async function listKeys(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { accounts, own } = await accountsOf(app, inbound, 'keys.read')
  const limit = limitOf(inbound)
  const after = positionOf<{ createdAt: number; id: string }>(inbound)
  const rows = await app.store.accounts.keyPage({
    accountIds: accounts,
    own,
    creator: inbound.caller.id ?? '',
    withEnded: flagIn(inbound.query, 'revoked') === true,
    now: app.clock.now(),
    after,
    limit: limit + 1,
  })
  const page = rows.slice(0, limit)
  const last = rows.length > limit ? page.at(-1) : undefined
  const configured =
    after === undefined
      ? app.keys.configured().filter(({ accountId }) => accounts === undefined || accounts.includes(accountId))
      : []
  const body: Page<KeyAnswer> = {
    data: [...(await shownConfigured(app, configured)), ...(await shown(app, page))],
    next: last === undefined ? null : cursorAfter(inbound, { createdAt: last.createdAt, id: last.id }),
    scanned_to: null,
  }
  return answer(body)
}

/** `GET /v1/management/keys/{id}`. */
export async function getKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const [id = ''] = inbound.params
  const configured = app.keys.configured().find((key) => key.id === id)
  if (configured !== undefined && inbound.caller.may('keys.read', configured.accountId))
    return versionedKey((await shownConfigured(app, [configured]))[0]!)
  return versionedKey(await shownOne(app, await keyFor(app, inbound)))
}

/** `POST /v1/management/keys`. */
export async function createKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CREATE)
  const account = await accountFor(app, inbound, body.account ?? defaultAccount(inbound), 'keys.change')
  const kind = body.kind!
  const role = await roleOf(app, inbound, kind, body, account.id)
  const given = readOptions(app, body)
  checkPeriod(given)
  const capture = readSwitch(app, body.capture)
  const wanted: NewKey = {
    kind,
    account: account.id,
    ...(given.name == null ? {} : { name: given.name }),
    ...(given.expiresAt == null ? {} : { expiresAt: given.expiresAt }),
    ...(given.models == null ? {} : { models: given.models }),
    ...(given.limit == null ? {} : { limit: given.limit }),
    ...(given.limitPeriod == null ? {} : { limitPeriod: given.limitPeriod }),
    ...(given.requestsPerMinute == null ? {} : { requestsPerMinute: given.requestsPerMinute }),
    ...(role === undefined ? {} : { role }),
    ...(inbound.caller.id === undefined ? {} : { createdBy: inbound.caller.id }),
    source: 'api',
  }
  const { id, text } = await app.keys.create(wanted, (row) => {
    const after = described(row, account, switchAfter(app, row.id, capture))
    return [
      setSwitch(app, inbound, row.id, capture),
      logChange(app, inbound, { action: 'key.create', target: row.id, accountId: account.id, after }),
    ]
  })
  return versionedWithText(await shownOne(app, (await app.store.accounts.keyWithId(id))!), text)
}

/** `PATCH /v1/management/keys/{id}`: null clears a member. */
export async function changeKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CHANGE)
  const key = await keyFor(app, inbound, 'keys.change')
  const before = await shownOne(app, key)
  checkVersion(inbound, changeable(before))
  if (key.revokedAt !== null) throw new GatewayError('conflict', 'This key is revoked: create a new one.')
  const isOtherRole = body.role !== undefined || body.scope !== undefined
  const role = isOtherRole ? await roleOf(app, inbound, key.kind, body, key.accountId) : undefined
  const changed = { ...key, ...readOptions(app, body), ...(isOtherRole ? storedRole(role) : {}) }
  checkPeriod(changed)
  if ((changed.limit === null) !== (key.limit === null) || changed.limitPeriod !== key.limitPeriod)
    changed.limitSince = app.clock.now()
  const capture = readSwitch(app, body.capture)
  await changeLogged(app, inbound, () => [app.keys.change(changed), setSwitch(app, inbound, key.id, capture)], {
    action: 'key.change',
    target: key.id,
    accountId: key.accountId,
    before: changeable(before),
    after: described(changed, before.account, switchAfter(app, key.id, capture)),
  })
  return versionedKey(await shownOne(app, changed))
}

/** `DELETE /v1/management/keys/{id}`: revokes it, for good. */
export async function revokeKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const key = await keyFor(app, inbound, 'keys.change')
  if (key.revokedAt === null)
    await changeLoggedOnce(app, inbound, () => [app.keys.revokeAll([key.id])], {
      action: 'key.revoke',
      target: key.id,
      accountId: key.accountId,
      before: changeable(await shownOne(app, key)),
    })
  return nothing()
}

/** `POST /v1/management/keys/{id}/rotate`: a new text; the old one works for `grace_seconds` more. */
export async function rotateKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { grace_seconds: grace = 0 } = await bodyOf(inbound, ROTATE)
  const key = await keyFor(app, inbound, 'keys.change')
  if (key.revokedAt !== null || (key.expiresAt ?? Infinity) <= app.clock.now())
    throw new GatewayError(
      'conflict',
      `This key is ${key.revokedAt === null ? 'expired' : 'revoked'}: create a new one.`,
    )
  if (key.role !== null) await roleOf(app, inbound, key.kind, key as { role: RoleName; scope: string }, key.accountId)
  const entry = { action: 'key.rotate', target: key.id, accountId: key.accountId }
  const { id, text } = await app.keys.rotate(key.id, grace * 1000, (row) => [
    logChange(app, inbound, { ...entry, after: { id: row.id, grace_seconds: grace } }),
  ])
  return versionedWithText(await shownOne(app, (await app.store.accounts.keyWithId(id))!), text)
}

/** A key without what its use changes. */
const changeable = ({ spent_usd: _, period_ends_at: _end, last_used_at: _use, ...key }: KeyAnswer): LastingKey => key

const versionedKey = (key: KeyAnswer): Response => versioned(key, changeable(key))

const versionedWithText = (made: KeyAnswer, text: string): Response => {
  const answered: NewKeyAnswer = { ...made, text }
  return answer(answered, 201)
}

/** The account of a caller that has one; the first account for others. */
const defaultAccount = ({ caller }: ManagementRequest): string => {
  const reach = caller.reach('keys.change')
  const known = reach === 'all' ? [] : [...reach.accounts, ...reach.own]
  if (reach !== 'all' && known.length !== 1) throw invalid('account', 'is required: the id or name of an account')
  return known[0] ?? 'default'
}

/** The stored key that the path names. Throws not_found (404), role_required (403), set_in_file (409). */
async function keyFor(
  app: AppContext,
  { caller, params: [id = ''] }: ManagementRequest,
  action: 'keys.read' | 'keys.change' = 'keys.read',
): Promise<StoredKey> {
  const key = await app.store.accounts.keyWithId(id)
  if (key === undefined) {
    const configured = app.keys.configured().find((one) => one.id === id)
    if (configured === undefined || !caller.may('keys.read', configured.accountId)) throw unknown('key')
    throw new GatewayError('set_in_file', `This key is set in ${app.config.file ?? 'sluice.yaml'}: change it there.`)
  }
  if (!caller.may('keys.read', key.accountId, caller.owns(key))) throw unknown('key')
  if (!caller.may(action, key.accountId, caller.owns(key))) caller.refuse(action)
  return key
}

/** The role of a management key: at most that of the caller. `scope`: also the name of an account. */
async function roleOf(
  app: AppContext,
  { caller }: ManagementRequest,
  kind: KeyKind,
  { role, scope }: Pick<Given, 'role' | 'scope'>,
  accountId: string,
): Promise<Role | undefined> {
  if (kind !== 'management') {
    if (role != null || scope != null) throw invalid('role', 'belongs to a management key')
    return undefined
  }
  const account = scope === INSTALLATION ? undefined : await app.store.accounts.find(scope ?? accountId)
  const wanted: Role = { scope: account?.id ?? scope ?? accountId, role: role ?? 'viewer' }
  if (!rolesOf(wanted.scope).includes(wanted.role))
    throw invalid('role', `must be one of ${rolesOf(wanted.scope).join(', ')}`)
  if (!covers(caller.roles, wanted))
    throw new GatewayError('role_required', 'A management key can have at most the rights of its creator.', {
      param: 'role',
    })
  if (account === undefined && wanted.scope !== INSTALLATION) throw unknown('account', 'scope')
  return wanted
}

const storedRole = (role: Role | undefined): Pick<StoredKey, 'role' | 'scope'> => ({
  role: role?.role ?? null,
  scope: role?.scope ?? null,
})

type Options = Partial<Pick<StoredKey, 'name' | 'models' | 'limit' | 'limitPeriod' | 'requestsPerMinute' | 'expiresAt'>>

function checkPeriod({ limit, limitPeriod }: Options): void {
  if (limitPeriod != null && limit == null) throw invalid('limit_period', 'requires limit_usd')
}

/** The members that the body has, null where it clears them. */
function readOptions(app: AppContext, body: Given): Options {
  const read: Record<string, unknown> = {
    name: body.name?.trim() ?? body.name,
    models: valuesOf(body.models),
    limit: body.limit_usd,
    limitPeriod: body.limit_usd === null ? null : body.limit_period,
    requestsPerMinute: body.requests_per_minute,
    expiresAt: body.expires_at,
  }
  if (typeof body.expires_at === 'number' && body.expires_at <= app.clock.now())
    throw invalid('expires_at', 'must be in the future; DELETE revokes a key')
  return Object.fromEntries(Object.entries(read).filter(([, value]) => value !== undefined))
}

const shownOne = async (app: AppContext, key: StoredKey): Promise<KeyAnswer> => (await shown(app, [key]))[0]!

async function shown(app: AppContext, keys: readonly StoredKey[]): Promise<KeyAnswer[]> {
  const names = await accountNames(app, keys)
  const uses = await app.keys.lastUses(keys.map(({ id }) => id))
  const budgets = await app.ledger.funds.budgetsOf(keys.filter(({ limit }) => limit !== null).map(({ id }) => id))
  return keys.map((key) => ({
    ...described(key, { id: key.accountId, name: names.get(key.accountId) ?? key.accountId }, captureOf(app, key.id)),
    ...spent(budgets, key, app.clock.now()),
    last_used_at: timeOrNull(uses.get(key.id)),
  }))
}

type LastingKey = Omit<KeyAnswer, 'spent_usd' | 'period_ends_at' | 'last_used_at'>

/** A key without what its use changes, also before it is stored. */
export const described = (
  key: StoredKey,
  { id, name: accountName }: Pick<Account, 'id' | 'name'>,
  capture: CaptureAnswer | null,
): LastingKey => ({
  id: key.id,
  kind: key.kind,
  name: key.name,
  account: { id, name: accountName },
  prefix: key.prefix,
  last4: key.last4,
  models: key.models,
  limit_usd: usdOrNull(key.limit),
  limit_period: key.limitPeriod,
  requests_per_minute: key.requestsPerMinute,
  created_at: time(key.createdAt),
  expires_at: timeOrNull(key.expiresAt),
  revoked_at: timeOrNull(key.revokedAt),
  role: key.kind === 'management' ? ((key.role as RoleName | null) ?? 'viewer') : null,
  scope: key.kind === 'management' ? (key.scope ?? key.accountId) : null,
  created_by: key.createdBy,
  capture,
  source: key.source ?? 'command line',
})

async function shownConfigured(
  app: AppContext,
  keys: ReturnType<AppContext['keys']['configured']>,
): Promise<KeyAnswer[]> {
  const rows = keys.map((key) => ({
    createdAt: 0,
    expiresAt: null,
    revokedAt: null,
    hash: new Uint8Array(),
    createdBy: null,
    source: null,
    idempotency: key.idempotency ?? true,
    requestsPerMinute: key.requestsPerMinute ?? null,
    models: key.models ?? null,
    limit: key.limit ?? null,
    limitPeriod: key.limitPeriod ?? null,
    limitSince: null,
    role: null,
    scope: null,
    ...{ id: key.id, accountId: key.accountId, kind: key.kind, name: key.name, prefix: key.prefix, last4: key.last4 },
  }))
  return (await shown(app, rows)).map((key) => ({ ...key, created_at: null, source: 'sluice.yaml' }))
}

async function accountNames(
  app: AppContext,
  keys: readonly Pick<StoredKey, 'accountId'>[],
): Promise<Map<string, string>> {
  const ids = [...new Set(keys.map(({ accountId }) => accountId))]
  return new Map((await app.store.accounts.list(ids)).map(({ id, name: accountName }) => [id, accountName]))
}

/** A key without a limit has no period in which spending is counted. */
function spent(
  budgets: Pick<Budgets, 'spent' | 'periodEnd'>,
  key: StoredKey,
  now: number,
): Pick<KeyAnswer, 'spent_usd' | 'period_ends_at'> {
  if (key.limit === null) return { spent_usd: null, period_ends_at: null }
  const limit = { amount: key.limit, period: key.limitPeriod }
  return {
    spent_usd: usdOrNull(budgets.spent(key.id, limit, now)),
    period_ends_at: timeOrNull(budgets.periodEnd(key.id, limit, now)),
  }
}

import type { ChangeEntry } from '../../accounts/change-log.ts'
import { passwordProblem } from '../../accounts/passwords.ts'
import { covers, INSTALLATION, ROLE_NAMES, rolesOf, type Role } from '../../accounts/roles.ts'
import { endOf } from '../../accounts/sessions.ts'
import { consoleLink, type LinkKind } from '../../accounts/sign-in.ts'
import { emailProblem, userNameProblem } from '../../accounts/users.ts'
import { list, name, object, string } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { originOf } from '../../http/serve.ts'
import type { StoredKey, User } from '../../store/store.ts'
import { answer, checkVersion, nothing, time, timeOrNull, unknown, versioned, type Page } from './answer.ts'
import { bodyOf } from './body.ts'
import { changeLogged, changeLoggedOnce } from './change-log.ts'
import type { ManagementRequest } from './route.ts'
import { nullable } from './shapes.ts'

/** A person. `roles`: as far as the caller may see their scopes. `joined_at`: the first sign-in. */
export type UserAnswer = {
  id: string
  name: string
  email: string | null
  roles: Role[]
  has_password: boolean
  created_at: string
  joined_at: string | null
  last_seen_at: string | null
}

/** `url` is answered here alone. It works once. */
export type NewLinkAnswer = { url: string; kind: LinkKind; expires_at: string }

export type UserSessionAnswer = {
  id: string
  created_at: string
  last_seen_at: string
  expires_at: string
  address: string | null
  client: string | null
  current: boolean
}

const roles = list(
  object(
    { scope: string({ what: '"installation" or an account, by id or name' }), role: name(ROLE_NAMES) },
    { required: ['scope', 'role'] },
  ),
  { what: 'roles' },
)
const userName = string({ what: 'a name', check: userNameProblem })
const email = nullable(string({ what: 'an e-mail address', check: emailProblem }))

export const CREATE = object({ name: userName, email, roles }, { required: ['name'] })
export const CHANGE = object({ name: userName, email, roles })
export const PASSWORD = object({
  password: nullable(string({ what: 'a password', check: passwordProblem })),
  old_password: string({ what: 'a password' }),
})

/** `GET /v1/management/users`: those with a role in an account that the caller sees. */
export async function listUsers(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const byUser = await app.people.users.roles()
  const visible = (await app.people.users.list()).filter((user) => sees(inbound, user, byUser.get(user.id) ?? []))
  const data = await Promise.all(visible.map((user) => shown(app, inbound, user, byUser.get(user.id) ?? [])))
  const body: Page<UserAnswer> = { data, next: null, scanned_to: null }
  return answer(body)
}

/** `GET /v1/management/users/{id}`. */
export async function getUser(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { user, held } = await userFor(app, inbound)
  return versionedUser(await shown(app, inbound, user, held))
}

/** `POST /v1/management/users`: a person without a session; `.../links` makes the invite. */
export async function createUser(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CREATE)
  const wanted = await readRoles(app, inbound, body.roles ?? [])
  if (wanted.length === 0 && !inbound.caller.may('people.change'))
    throw invalid('roles', 'must have a role in an account of yours')
  const { users } = app.people
  const user = users.create({ name: body.name!, email: body.email ?? undefined })
  const after = await shown(app, inbound, user, wanted)
  const entry = { action: 'user.create', target: user.id, ...accountOf(wanted), after }
  await changeLogged(app, inbound, () => [users.add(user, wanted)], entry)
  return answer(after, 201)
}

/** `PATCH /v1/management/users/{id}`: `roles` replaces those in the scopes that the caller manages. */
export async function changeUser(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const body = await bodyOf(inbound, CHANGE)
  const { user, held } = await userFor(app, inbound)
  const before = await shown(app, inbound, user, held)
  checkVersion(inbound, changeable(before))
  if (body.name !== undefined || body.email !== undefined) requireAllOf(inbound, user, held)
  const wanted = body.roles === undefined ? held : await newRoles(app, inbound, held, body.roles)
  const changed = {
    ...user,
    name: body.name?.trim() ?? user.name,
    email: body.email === undefined ? user.email : (body.email?.toLowerCase() ?? null),
  }
  const after = await shown(app, inbound, changed, wanted)
  const entry = { action: 'user.change', target: user.id, ...accountOf(wanted), before, after }
  const { users } = app.people
  if (body.roles === undefined) await changeLogged(app, inbound, () => [users.change(changed)], entry)
  else
    await changeRights(
      { app, inbound, creator: user.id, held: wanted },
      () => [users.setRoles(user.id, wanted), users.change(changed)],
      entry,
    )
  return versionedUser(after)
}

/** `DELETE /v1/management/users/{id}`: with sessions, links and management keys; other keys stay. */
export async function removeUser(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { user, held } = await userFor(app, inbound)
  requireAllOf(inbound, user, held, false)
  const before = await shown(app, inbound, user, held)
  const entry = { action: 'user.remove', target: user.id, ...accountOf(held), before }
  const remove = async (): Promise<void> => {
    if (!(await app.people.users.remove(user.id))) throw unknown('user')
  }
  await changeRights({ app, inbound, creator: user.id, held: [] }, () => [remove()], entry)
  return nothing()
}

/** `POST /v1/management/users/{id}/links`: an invite, or a link for a user who is locked out. */
export async function createLink(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { user, held } = await userFor(app, inbound)
  requireAllOf(inbound, user, held, false)
  const { link, text, kind } = app.people.signIn.createLink(user)
  const origin = originOf(inbound.request, app.config.listen.publicUrl)
  const entry = { action: 'link.create', target: user.id, after: { kind, user: user.name } }
  await changeLogged(app, inbound, () => [app.people.signIn.addLink(link)], entry)
  const made: NewLinkAnswer = { url: consoleLink(app.config, text, origin), kind, expires_at: time(link.expiresAt) }
  return answer(made, 201)
}

/** `GET /v1/management/users/{id}/sessions`. */
export async function listUserSessions(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { user, held } = await userFor(app, inbound)
  requireAllOf(inbound, user, held)
  const body: Page<UserSessionAnswer> = {
    data: (await app.people.sessions.list(user.id)).map((session) => ({
      id: session.id,
      created_at: time(session.createdAt),
      last_seen_at: time(session.seenAt),
      expires_at: time(endOf(session)),
      address: session.address,
      client: session.client,
      current: session.id === inbound.caller.user?.sessionId,
    })),
    next: null,
    scanned_to: null,
  }
  return answer(body)
}

/** `DELETE /v1/management/users/{id}/sessions[/{sid}]`: signs out one place, or all. */
export async function endUserSessions(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { user, held } = await userFor(app, inbound)
  requireAllOf(inbound, user, held)
  const { sessions } = app.people
  const only = inbound.params[1]
  const open = await sessions.list(user.id)
  if (only !== undefined && !open.some(({ id }) => id === only)) throw unknown('session')
  const entry = { action: 'session.end', target: user.id, after: { ended: only === undefined ? open.length : 1 } }
  const ended = await changeLoggedOnce(app, inbound, () => [sessions.endAny(user.id, { only })], entry)
  if (!ended && only !== undefined) throw unknown('session')
  return nothing()
}

/** `PUT /v1/management/users/{id}/password`: one's own, with the old one where there is one. It ends other sessions. */
export async function setPassword(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { password, old_password: old } = await bodyOf(inbound, PASSWORD)
  const { user } = await userFor(app, inbound)
  if (inbound.caller.user?.id !== user.id)
    throw new GatewayError('permission_denied', 'A password is set by its user alone; create a link for them instead.')
  if (password === undefined) throw invalid('password', 'is required; null removes it')
  if (password !== null && user.email === null) throw invalid('password', 'requires an e-mail address to sign in with')
  const { passwords, users, sessions, signIn } = app.people
  if (user.password !== null) await signIn.checkPassword(user, old ?? '', inbound.clientAddress)
  const hash = password === null ? null : await passwords.hash(password)
  // Hashes take long, and in turn: the password may be another one by now.
  const current = await users.find(user.id)
  if (current?.password !== user.password) throw new GatewayError('conflict', 'The password was changed meanwhile.')
  const but = inbound.caller.user.sessionId
  await changeLogged(
    app,
    inbound,
    () => [users.change({ ...current, password: hash }), sessions.end(user.id, { but })],
    { action: 'user.password', target: user.id },
  )
  return nothing()
}

/** A user and all of its roles. Throws not_found (404) for one that the caller does not see. */
async function userFor(app: AppContext, inbound: ManagementRequest): Promise<{ user: User; held: Role[] }> {
  const user = await app.people.users.find(inbound.params[0] ?? '')
  const held = user === undefined ? [] : await app.people.users.rolesOf(user.id)
  if (user === undefined || !sees(inbound, user, held)) throw unknown('user')
  return { user, held }
}

/** People see themselves, and those with a role where they have one. */
const sees = ({ caller }: ManagementRequest, { id }: User, held: readonly Role[]): boolean =>
  caller.user?.id === id ||
  caller.may('people.read') ||
  held.some(({ scope }) => scope !== INSTALLATION && caller.may('people.read', scope))

const manages = ({ caller }: ManagementRequest, role: Role): boolean =>
  caller.may('people.change', role.scope) && covers(caller.roles, role)

/** Refuses what concerns the whole person, unless the caller manages all of its roles. `isOwnAllowed`: or is it. */
function requireAllOf(inbound: ManagementRequest, { id }: User, held: readonly Role[], isOwnAllowed = true): void {
  const { caller } = inbound
  if (isOwnAllowed && caller.user?.id === id) return
  if (held.length === 0 ? !caller.may('people.change') : !held.every((role) => manages(inbound, role)))
    caller.refuse('people.change')
}

type GivenRoles = NonNullable<ReturnType<(typeof roles)['read']>>

/** Roles that the caller may give. */
async function readRoles(app: AppContext, inbound: ManagementRequest, given: GivenRoles): Promise<Role[]> {
  const wanted: Role[] = []
  for (const [index, { value }] of given.entries()) {
    const { scope = '', role = 'viewer' } = value
    const param = `roles[${index}]`
    const account = scope === INSTALLATION ? undefined : await app.store.accounts.find(scope)
    if (scope !== INSTALLATION && (account === undefined || !inbound.caller.may('accounts.read', account.id)))
      throw unknown('account', `${param}.scope`)
    if (!rolesOf(scope).includes(role)) throw invalid(`${param}.role`, `must be one of ${rolesOf(scope).join(', ')}`)
    if (wanted.some((other) => other.scope === (account?.id ?? scope))) throw invalid(param, 'is a second role there')
    wanted.push({ scope: account?.id ?? scope, role })
  }
  const beyond = wanted.find((role) => !manages(inbound, role))
  if (beyond !== undefined)
    throw new GatewayError('role_required', `You may not give the role ${beyond.role} of ${beyond.scope}.`, {
      param: 'roles',
    })
  return wanted
}

/** Roles in scopes that the caller does not manage stay. */
async function newRoles(
  app: AppContext,
  inbound: ManagementRequest,
  held: readonly Role[],
  given: GivenRoles,
): Promise<Role[]> {
  const kept = held.filter((role) => !manages(inbound, role))
  const same = (a: Role, b: Role): boolean => a.scope === b.scope && a.role === b.role
  const asked = given.filter(({ value }) => !kept.some((role) => same(role, value as Role)))
  const wanted = await readRoles(app, inbound, asked)
  const clash = wanted.find(({ scope }) => kept.some((role) => role.scope === scope))
  if (clash !== undefined)
    throw new GatewayError('role_required', `You may not change the role of ${clash.scope}.`, { param: 'roles' })
  return [...kept, ...wanted]
}

/** `held`: the roles that a user has from now on. `creator`: the user. */
type Rights = { app: AppContext; inbound: ManagementRequest; creator: string; held: readonly Role[] }

/** Changes the roles of a user, and revokes the keys that go beyond them. */
async function changeRights(
  rights: Rights,
  write: () => [Promise<void>, ...Promise<void>[]],
  entry: ChangeEntry,
): Promise<void> {
  const { app, inbound } = rights
  // Another request may revoke one of them meanwhile.
  for (let isMade = false; !isMade; ) {
    const beyond = await keysBeyond(rights, rights.creator)
    const all = (): [Promise<boolean>, ...Promise<void>[]] => {
      const writes = write()
      return [revoke(app, beyond), ...writes]
    }
    isMade = await changeLoggedOnce(app, inbound, all, entry, ...beyond.map(revocation))
  }
  // Those that were made while the former roles still held.
  for (let isMade = false; !isMade; ) {
    const late = await keysBeyond(rights, rights.creator)
    const all = (): [Promise<boolean>] => [revoke(app, late)]
    isMade = late.length === 0 || (await changeLoggedOnce(app, inbound, all, ...late.map(revocation)))
  }
}

const revoke = ({ keys }: AppContext, those: readonly StoredKey[]): Promise<boolean> =>
  keys.revokeAll(those.map(({ id }) => id))

const revocation = ({ id, accountId }: StoredKey): ChangeEntry => ({ action: 'key.revoke', target: id, accountId })

/**
 * The management keys of a user that have more rights than it has now, those that such keys made, and those of the
 * playground. `creator`: the user or one of its keys.
 */
async function keysBeyond(rights: Rights, creator: string): Promise<StoredKey[]> {
  const { app, held } = rights
  const beyond: StoredKey[] = []
  for (const key of await app.store.accounts.keysBy(creator)) {
    if (key.kind === 'management') beyond.push(...(await keysBeyond(rights, key.id)))
    const role = { scope: key.scope ?? key.accountId, role: key.role ?? 'viewer' } as Role
    const isBeyond = key.kind === 'management' ? !covers(held, role) : key.source === 'playground' && held.length === 0
    if (isBeyond && key.revokedAt === null) beyond.push(key)
  }
  return beyond
}

/** The account of a change, where the roles are in one alone. */
function accountOf(held: readonly Role[]): { accountId?: string } {
  const [only, ...others] = held
  return only === undefined || others.length > 0 || only.scope === INSTALLATION ? {} : { accountId: only.scope }
}

const changeable = ({ last_seen_at: _, ...user }: UserAnswer): object => user

const versionedUser = (user: UserAnswer): Response => versioned(user, changeable(user))

async function shown(
  app: AppContext,
  { caller }: ManagementRequest,
  user: User,
  held: readonly Role[],
): Promise<UserAnswer> {
  const [last] = await app.people.sessions.list(user.id)
  const isSelf = caller.user?.id === user.id
  return {
    id: user.id,
    name: user.name,
    email: user.email,
    roles: held.filter(({ scope }) => isSelf || caller.may('people.read', scope)),
    has_password: user.password !== null,
    created_at: time(user.createdAt),
    joined_at: timeOrNull(user.joinedAt),
    last_seen_at: timeOrNull(last?.seenAt),
  }
}

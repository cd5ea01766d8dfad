import { GatewayError } from '../error.ts'
import type { Identity } from './keys.ts'
import { INSTALLATION, leastRole, reachOf, type Action, type Reach, type Role } from './roles.ts'

/** A person as far as every request needs it. */
type SignedIn = {
  id: string
  name: string
  email: string | null
  sessionId: string
  sessionEndsAt: number
}

/** The person or the management key that sends a request, with its roles. */
export class Caller {
  readonly user: SignedIn | undefined
  readonly key: Identity | undefined
  readonly roles: readonly Role[]

  private constructor(roles: readonly Role[], user?: SignedIn, key?: Identity) {
    this.roles = roles
    this.user = user
    this.key = key
  }

  /** A request without a session and without a key. */
  static readonly anonymous = new Caller([])

  static ofUser = (user: SignedIn, roles: readonly Role[]): Caller => new Caller(roles, user)

  static ofKey = (key: Identity): Caller =>
    new Caller([key.role ?? { scope: key.accountId, role: 'viewer' }], undefined, key)

  /** The same caller, who as a member of these accounts sees the requests of all their keys. */
  seeingRequestsOf(accountIds: readonly string[]): Caller {
    const roles = this.roles.map(
      (one): Role => (one.role === 'member' && accountIds.includes(one.scope) ? { ...one, requests: 'all' } : one),
    )
    return new Caller(roles, this.user, this.key)
  }

  /** The id by which its requests and its changes are known: of the user or the key. */
  get id(): string | undefined {
    return this.user?.id ?? this.key?.keyId
  }

  /** True where the caller made this key, or is it. */
  owns(key: { id: string; createdBy: string | null }): boolean {
    return this.id !== undefined && (key.createdBy === this.id || key.id === this.key?.keyId)
  }

  reach(action: Action): Reach {
    return reachOf(this.roles, action)
  }

  /**
   * True where the action is allowed in an account, or on everything where none is named. `isOwn`: on what belongs to
   * the caller's own keys.
   */
  may(action: Action, accountId: string = INSTALLATION, isOwn = false): boolean {
    const reach = this.reach(action)
    return reach === 'all' || reach.accounts.includes(accountId) || (isOwn && reach.own.includes(accountId))
  }

  /** True where the action is allowed somewhere. */
  mayAnywhere(action: Action): boolean {
    const reach = this.reach(action)
    return reach === 'all' || reach.accounts.length + reach.own.length > 0
  }

  /** Throws sign_in_required (401); role_required (403) where an action is allowed nowhere. */
  require(action?: Action): void {
    if (this.id === undefined) throw signInRequired()
    if (action !== undefined && !this.mayAnywhere(action)) this.refuse(action)
  }

  /** Throws role_required (403). */
  refuse(action: Action): never {
    const own = this.roles.map(({ scope, role }) => `${role} of ${scope === INSTALLATION ? 'the installation' : scope}`)
    throw new GatewayError(
      'role_required',
      `This takes the role ${leastRole(action)}, for ${action}. You are ${own.join(', ') || 'without a role'}.`,
    )
  }
}

const signInRequired = (): GatewayError =>
  new GatewayError('sign_in_required', 'There is no session: sign in, or send a management key.', {
    headers: { 'www-authenticate': 'Bearer' },
  })

import type { Config } from '../config/config.ts'
import { GatewayError } from '../error.ts'
import { hostNetworkOf } from '../http/addresses.ts'
import { reachable } from '../store/server-address.ts'
import type { PeopleStore, SignInLink, PasswordAttemptStore, User } from '../store/store.ts'
import type { Passwords } from './passwords.ts'
import { hashOfSecret, newSecret } from './secret-text.ts'
import { PasswordAttempts } from './password-attempts.ts'
import type { Users } from './users.ts'

const MINUTE_MS = 60_000
const LINK_MS = 15 * MINUTE_MS
const INVITE_MS = 72 * 60 * MINUTE_MS

/** `first`: makes the first owner. `invite`: for a user who has never signed in. */
export type LinkKind = 'first' | 'invite' | 'return'

type NewPerson = { name?: string | undefined; password?: string | undefined }

/** A user who may sign in. `writes` hands what changes with it to the store, together with the new session. */
export type Admission = { user: User; writes: () => Promise<unknown>[] }

/** The ways into a session: links that work once, and passwords. */
export class SignIn {
  readonly #store: PeopleStore
  readonly #users: Users
  readonly #passwords: Passwords
  readonly #now: () => number
  readonly #passwordAttempts: PasswordAttempts

  constructor(services: {
    store: PeopleStore
    passwordAttempts: PasswordAttemptStore
    users: Users
    passwords: Passwords
    now: () => number
  }) {
    this.#store = services.store
    this.#users = services.users
    this.#passwords = services.passwords
    this.#now = services.now
    this.#passwordAttempts = new PasswordAttempts(services.passwordAttempts, services.now)
  }

  /** A new link and its text, which is not stored; `addLink` stores the link. Without a user: for the first owner. */
  createLink(user?: User): { link: SignInLink; text: string; kind: LinkKind } {
    const [text, now] = [newSecret(), this.#now()]
    const kind = kindFor(user)
    const expiresAt = now + (kind === 'invite' ? INVITE_MS : LINK_MS)
    return { link: { hash: hashOfSecret(text), userId: user?.id ?? null, createdAt: now, expiresAt }, text, kind }
  }

  addLink(link: SignInLink): Promise<void> {
    return this.#store.addLink(link)
  }

  /** A link for the first owner; undefined where there is a user. */
  async firstLink(): Promise<string | undefined> {
    if (await this.#users.exist()) return undefined
    const { link, text } = this.createLink()
    await this.addLink(link)
    return text
  }

  /** The kind of a link and its user, without using it up. Throws not_found (404). */
  async preview(text: string): Promise<{ kind: LinkKind; user: User | undefined }> {
    const { user } = await this.#find(text)
    return { kind: kindFor(user), user }
  }

  /** Whom a link signs in; the writes use it up. `person`: for a link of the kinds `first` and `invite`. */
  async withLink(text: string, person: NewPerson): Promise<Admission & { kind: LinkKind }> {
    const { link } = await this.#find(text)
    // The slow part comes first: the link is used up by whoever is first after it.
    const password = person.password === undefined ? undefined : await this.#passwords.hash(person.password)
    const { user } = await this.#find(text)
    const kind = kindFor(user)
    const name = person.name?.trim()
    if (user === undefined) {
      const owner = this.#joined(this.#users.create({ name: name ?? 'Owner', password }))
      const writes = (): Promise<unknown>[] => [
        orUsedUp(this.#store.useLink(link.hash)),
        orUsedUp(this.#users.addFirst(owner)),
      ]
      return { user: owner, kind, writes }
    }
    const named = kind === 'invite' && name !== undefined ? { ...user, name } : user
    const joined = this.#joined(password === undefined ? named : { ...named, password })
    const writes = (): Promise<unknown>[] => [
      orUsedUp(this.#store.useLink(link.hash)),
      // A person who was locked out sets a new password because another one may know the old one.
      ...(password === undefined ? [] : [this.#store.endSessions(user.id)]),
      this.#users.change(joined),
    ]
    return { user: joined, kind, writes }
  }

  /** The user with this e-mail address and password. Throws sign_in_required (401), rate_limit_exceeded (422). */
  async withPassword(email: string, password: string, address: string | undefined): Promise<Admission> {
    const name = email.trim().toLowerCase()
    const found = await this.#store.userWithEmail(name)
    const isRight = await this.#isRight(name, found, password, address)
    // The comparison takes long: the password may be another one by now.
    const current = isRight ? await this.#store.userWithEmail(name) : undefined
    if (current === undefined || current.password !== found?.password)
      throw new GatewayError('sign_in_required', 'No user has this e-mail address and this password.')
    const user = this.#joined(current)
    return { user, writes: () => (current.joinedAt === null ? [this.#users.change(user)] : []) }
  }

  /** Throws permission_denied (403) for a wrong password, rate_limit_exceeded (422). */
  async checkPassword(user: User, password: string, address: string | undefined): Promise<void> {
    if (!(await this.#isRight(user.email ?? user.id, user, password, address)))
      throw new GatewayError('permission_denied', 'old_password: is not your password', { param: 'old_password' })
  }

  async #isRight(
    name: string,
    user: User | undefined,
    password: string,
    address: string | undefined,
  ): Promise<boolean> {
    const withdraw = await this.#passwordAttempts.begin(name, hostNetworkOf(address ?? ''))
    const isRight = await this.#passwords.matches(password, user?.password).catch(async (error: unknown) => {
      // A password that was not compared is no wrong one.
      await withdraw(false)
      throw error
    })
    if (isRight) await withdraw(true)
    return isRight
  }

  #joined(user: User): User {
    return { ...user, joinedAt: user.joinedAt ?? this.#now() }
  }

  async #find(text: string): Promise<{ link: SignInLink; user: User | undefined }> {
    const link = await this.#store.link(hashOfSecret(text))
    if (link === undefined || link.expiresAt <= this.#now()) throw usedUp()
    if (link.userId === null) {
      if (await this.#users.exist()) throw usedUp()
      return { link, user: undefined }
    }
    const user = await this.#store.user(link.userId)
    if (user === undefined) throw usedUp()
    return { link, user }
  }
}

/** The address that a browser opens for a link. `serverUrl`: without a `publicUrl`. */
export const consoleLink = (
  { listen: { publicUrl } }: Pick<Config, 'listen'>,
  text: string,
  serverUrl: string,
): string => `${publicUrl ?? reachable(serverUrl)}/console/enter#${text}`

const kindFor = (user: User | undefined): LinkKind =>
  user === undefined ? 'first' : user.joinedAt === null ? 'invite' : 'return'

async function orUsedUp(write: Promise<boolean>): Promise<void> {
  if (!(await write)) throw usedUp()
}

const usedUp = (): GatewayError =>
  new GatewayError(
    'not_found',
    'This link is unknown, used up or expired. "sluice console" on the server prints a new one; an invited person ' +
      'asks for a new invite.',
    { param: 'link' },
  )

import type { Config } from '../config/config.ts'
import { GatewayError } from '../error.ts'
import type { PeopleStore, SignInLink, User } from '../store/store.ts'
import type { Passwords } from './passwords.ts'
import { hashOfSecret, newSecret } from './secret-text.ts'
import { Tries } from './tries.ts'
import type { Users } from './users.ts'

const MINUTE_MS = 60_000
const LINK_MS = 15 * MINUTE_MS
const INVITE_MS = 72 * 60 * MINUTE_MS

/** `first`: makes the first owner. `invite`: for a user who has never signed in. */
export type LinkKind = 'first' | 'invite' | 'return'

export type NewPerson = { name?: string | undefined; password?: string | undefined }

/** The ways into a session: links that work once, and passwords. */
export class SignIn {
  readonly #store: PeopleStore
  readonly #users: Users
  readonly #passwords: Passwords
  readonly #now: () => number
  readonly #tries: Tries

  constructor(services: { store: PeopleStore; users: Users; passwords: Passwords; now: () => number }) {
    this.#store = services.store
    this.#users = services.users
    this.#passwords = services.passwords
    this.#now = services.now
    this.#tries = new Tries(services.now)
  }

  /** The text of a new link. Without a user, it is for the first owner. */
  async newLink(user?: User): Promise<{ text: string; kind: LinkKind; expiresAt: number }> {
    const [text, now] = [newSecret(), this.#now()]
    const kind = kindFor(user)
    const expiresAt = now + (kind === 'invite' ? INVITE_MS : LINK_MS)
    await this.#store.addLink({ hash: hashOfSecret(text), userId: user?.id ?? null, createdAt: now, expiresAt })
    return { text, kind, expiresAt }
  }

  /** A link for the first owner; undefined where there is a user. */
  async firstLink(): Promise<string | undefined> {
    return (await this.#users.exist()) ? undefined : (await this.newLink()).text
  }

  /** The kind of a link and its user, without using it up. Throws not_found (404). */
  async preview(text: string): Promise<{ kind: LinkKind; user: User | undefined }> {
    const { user } = await this.#find(text)
    return { kind: kindFor(user), user }
  }

  /** The user that a link signs in; it is used up then. `person`: for a link of the kinds `first` and `invite`. */
  async withLink(text: string, person: NewPerson): Promise<{ user: User; kind: LinkKind }> {
    const { link } = await this.#find(text)
    // The slow part comes first: the link is used up by whoever is first after it.
    const password = person.password === undefined ? undefined : await this.#passwords.hash(person.password)
    const { user } = await this.#find(text)
    const kind = kindFor(user)
    if (!(await this.#store.useLink(link.hash))) throw usedUp()
    const name = person.name?.trim()
    if (user === undefined) {
      const owner = await this.#users.addFirst({ name: name ?? 'Owner', password })
      if (owner === undefined) throw usedUp()
      return { user: await this.#joined(owner), kind }
    }
    const named = kind === 'invite' && name !== undefined ? { ...user, name } : user
    return { user: await this.#joined(password === undefined ? named : { ...named, password }), kind }
  }

  /** The user with this e-mail address and password. Throws sign_in_required (401), rate_limit_exceeded (422). */
  async withPassword(email: string, password: string, address: string | undefined): Promise<User> {
    const name = email.trim().toLowerCase()
    const user = await this.#store.userWithEmail(name)
    const isRight = await this.#isRight(name, user, password, address)
    // The comparison takes long: the password may be another one by now.
    const current = isRight ? await this.#store.userWithEmail(name) : undefined
    if (current === undefined || current.password !== user?.password)
      throw new GatewayError('sign_in_required', 'No user has this e-mail address and this password.')
    return this.#joined(current)
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
    const takeBack = this.#tries.begin([`name ${name}`, `address ${address ?? ''}`])
    const isRight = await this.#passwords.matches(password, user?.password)
    if (isRight) takeBack()
    return isRight
  }

  async #joined(user: User): Promise<User> {
    const joined = { ...user, joinedAt: user.joinedAt ?? this.#now() }
    await this.#users.change(joined)
    return joined
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
): string => `${publicUrl ?? serverUrl.replace(/\/\/(?:0\.0\.0\.0|\[::\])(?=:)/, '//127.0.0.1')}/console/enter#${text}`

const kindFor = (user: User | undefined): LinkKind =>
  user === undefined ? 'first' : user.joinedAt === null ? 'invite' : 'return'

const usedUp = (): GatewayError =>
  new GatewayError(
    'not_found',
    'This link is unknown, used up or expired. "sluice console" on the server prints a new one; an invited person ' +
      'asks for a new invite.',
    { param: 'link' },
  )

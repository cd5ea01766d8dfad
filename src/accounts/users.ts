import { GatewayError } from '../error.ts'
import type { PeopleStore, User } from '../store/store.ts'
import { newId } from './key-text.ts'
import { INSTALLATION, type Role } from './roles.ts'

const NAME_MAX = 100

/** Returns what is wrong with a person's name, or undefined. */
export const userNameProblem = (text: string): string | undefined =>
  text.trim() === '' || text.length > NAME_MAX || /\p{C}/u.test(text)
    ? `must have 1 to ${NAME_MAX} characters that can be shown`
    : undefined

const EMAIL = /^[^\s@\p{C}]{1,100}@[^\s@\p{C}]{1,150}$/u

/** Returns what is wrong with an e-mail address, or undefined. */
export const emailProblem = (text: string): string | undefined =>
  EMAIL.test(text) ? undefined : 'must be an e-mail address'

/** The owner of an installation. */
export const OWNER: Role = { scope: INSTALLATION, role: 'owner' }

/** `password`: its hash. */
export type NewUser = { name: string; email?: string | undefined; password?: string | undefined }

/** The people of an installation. */
export class Users {
  readonly #store: PeopleStore
  readonly #now: () => number

  constructor(store: PeopleStore, now: () => number) {
    this.#store = store
    this.#now = now
  }

  async exist(): Promise<boolean> {
    return (await this.#store.count()) > 0
  }

  list(): Promise<User[]> {
    return this.#store.users()
  }

  find(id: string): Promise<User | undefined> {
    return this.#store.user(id)
  }

  /** The person with this e-mail address, name or id; an Error for the operator where there is none or several. */
  async named(text: string): Promise<User> {
    const [user, ...others] = (await this.list()).filter(
      ({ id, name, email }) => id === text || email === text.toLowerCase() || name.toLowerCase() === text.toLowerCase(),
    )
    if (user === undefined) throw new Error(`there is no user ${JSON.stringify(text)}`)
    if (others.length > 0) throw new Error(`several users have the name ${JSON.stringify(text)}; give the e-mail`)
    return user
  }

  async rolesOf(id: string): Promise<Role[]> {
    return (await this.#store.roles(id)) as Role[]
  }

  /** The roles of all users, by their id. */
  async roles(): Promise<Map<string, Role[]>> {
    const byUser = new Map<string, Role[]>()
    for (const { userId, scope, role } of await this.#store.allRoles())
      byUser.set(userId, [...(byUser.get(userId) ?? []), { scope, role } as Role])
    return byUser
  }

  /** A new user; `add` stores it. */
  create({ name, email, password }: NewUser): User {
    return {
      id: newId('usr'),
      name: name.trim(),
      email: email?.toLowerCase() ?? null,
      password: password ?? null,
      createdAt: this.#now(),
      joinedAt: null,
    }
  }

  /** Throws conflict (409) where the e-mail address is taken. */
  async add(user: User, roles: readonly Role[]): Promise<void> {
    if (!(await this.#store.addUser(user, roles))) throw taken()
  }

  /** Stores the first owner; false where there is a user already. */
  addFirst(owner: User): Promise<boolean> {
    return this.#store.addUser(owner, [OWNER], true)
  }

  /** Throws conflict (409) where the e-mail address is taken. */
  async change(user: User): Promise<void> {
    if (!(await this.#store.changeUser(user))) throw taken()
  }

  /** Throws conflict (409) where no owner would be left. */
  async setRoles(id: string, roles: readonly Role[]): Promise<void> {
    if (!(await this.#store.setRoles(id, roles))) throw lastOwner()
  }

  /** False where there is no such user. Throws conflict (409) where no owner would be left. */
  async remove(id: string): Promise<boolean> {
    const isRemoved = await this.#store.removeUser(id)
    if (!isRemoved && (await this.find(id)) !== undefined) throw lastOwner()
    return isRemoved
  }
}

const taken = (): GatewayError =>
  new GatewayError('conflict', 'Another user has this e-mail address.', { param: 'email' })

const lastOwner = (): GatewayError =>
  new GatewayError('conflict', 'This is the last owner: make another user an owner first.', { param: 'roles' })

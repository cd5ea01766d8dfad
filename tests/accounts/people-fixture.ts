import type { People } from '../../src/accounts/people.ts'
import type { Role } from '../../src/accounts/roles.ts'
import type { SessionClient } from '../../src/accounts/sessions.ts'
import type { Admission } from '../../src/accounts/sign-in.ts'
import type { NewUser } from '../../src/accounts/users.ts'
import { allOf } from '../../src/store/refused.ts'
import type { Session, Store, User } from '../../src/store/store.ts'

/** A stored user. */
export async function added({ users }: People, { roles, ...person }: NewUser & { roles: Role[] }): Promise<User> {
  const user = users.create(person)
  await users.add(user, roles)
  return user
}

/** The text of a stored link. */
export async function linkFor({ signIn }: People, user?: User): Promise<string> {
  const { link, text } = signIn.createLink(user)
  await signIn.addLink(link)
  return text
}

/** A stored session and its text. */
export async function begin(
  { sessions }: People,
  user: User,
  client: SessionClient,
  times: { idleMs: number; mostMs: number },
): Promise<{ session: Session; text: string }> {
  const made = sessions.create(user, client, times)
  await sessions.begin(made.session)
  return made
}

/** Signs in, without a session. */
export async function entered(store: Pick<Store, 'together'>, admission: Promise<Admission>): Promise<User> {
  const { user, writes } = await admission
  await allOf(store.together(writes))
  return user
}

import type { Store } from '../store/store.ts'
import { isAccepted } from '../store/refused.ts'
import { ChangeLog, COMMAND_LINE } from './change-log.ts'
import { passwordProblem, Passwords } from './passwords.ts'
import { Sessions } from './sessions.ts'
import { SignIn } from './sign-in.ts'
import { emailProblem, Users } from './users.ts'

/** People, how they sign in, and the log of what they change. */
export type People = {
  users: Users
  sessions: Sessions
  signIn: SignIn
  passwords: Passwords
  changes: ChangeLog
}

export function openPeople(
  { people, tries, changes }: Pick<Store, 'people' | 'tries' | 'changes'>,
  now: () => number,
): People {
  const users = new Users(people, now)
  const passwords = new Passwords()
  return {
    users,
    passwords,
    sessions: new Sessions(people, now),
    signIn: new SignIn({ store: people, tries, users, passwords, now }),
    changes: new ChangeLog(changes, now),
  }
}

/**
 * Makes SLUICE_OWNER, an e-mail address, the first owner, with SLUICE_OWNER_PASSWORD; nothing where there is a user.
 * Fails with an Error for the operator where one of them is invalid.
 */
export async function firstOwner(
  { users, passwords, changes }: People,
  store: Store,
  { SLUICE_OWNER: email = '', SLUICE_OWNER_PASSWORD: password = '' }: Record<string, string | undefined>,
): Promise<void> {
  if (email === '' && password === '') return
  if (email === '') throw new Error('SLUICE_OWNER_PASSWORD requires SLUICE_OWNER, the e-mail address of the owner')
  const wrong = emailProblem(email)
  if (wrong !== undefined) throw new Error(`SLUICE_OWNER ${wrong}`)
  const weak = password === '' ? undefined : passwordProblem(password)
  if (weak !== undefined) throw new Error(`SLUICE_OWNER_PASSWORD ${weak}`)
  if (await users.exist()) return
  const hash = password === '' ? undefined : await passwords.hash(password)
  const owner = users.make({ name: email.slice(0, email.indexOf('@')), email, password: hash })
  const entry = { action: 'user.create', target: owner.id, after: { email } }
  // Another process that starts may be first, and this one refused then.
  await isAccepted(store.together(() => [users.addFirst(owner), changes.add(COMMAND_LINE, entry)]))
}

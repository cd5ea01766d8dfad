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
  { people, passwordAttempts, changes }: Pick<Store, 'people' | 'passwordAttempts' | 'changes'>,
  now: () => number,
): People {
  const users = new Users(people, now)
  const passwords = new Passwords()
  return {
    users,
    passwords,
    sessions: new Sessions(people, now),
    signIn: new SignIn({ store: people, passwordAttempts, users, passwords, now }),
    changes: new ChangeLog(changes, now),
  }
}

type Env = Record<string, string | undefined>

/** The owner of SLUICE_OWNER, an e-mail address, and SLUICE_OWNER_PASSWORD. Fails with an Error for the operator. */
export function chosenOwner({
  SLUICE_OWNER: email = '',
  SLUICE_OWNER_PASSWORD: password = '',
}: Env): { email: string; password: string | undefined } | undefined {
  if (email === '' && password === '') return undefined
  if (email === '') throw new Error('SLUICE_OWNER_PASSWORD requires SLUICE_OWNER, the e-mail address of the owner')
  const wrong = emailProblem(email)
  if (wrong !== undefined) throw new Error(`SLUICE_OWNER ${wrong}`)
  const weak = password === '' ? undefined : passwordProblem(password)
  if (weak !== undefined) throw new Error(`SLUICE_OWNER_PASSWORD ${weak}`)
  return { email, password: password === '' ? undefined : password }
}

/** Makes the chosen owner the first one; nothing where there is a user. */
export async function firstOwner({ users, passwords, changes }: People, store: Store, env: Env): Promise<void> {
  const chosen = chosenOwner(env)
  if (chosen === undefined || (await users.exist())) return
  const { email, password } = chosen
  const hash = password === undefined ? undefined : await passwords.hash(password)
  const owner = users.create({ name: email.slice(0, email.indexOf('@')), email, password: hash })
  const entry = { action: 'user.create', target: owner.id, after: { email } }
  // Another process that starts may be first, and this one refused then.
  await isAccepted(store.together(() => [users.addFirst(owner), changes.add(COMMAND_LINE, entry)]))
}

import { openPeople } from '../accounts/people.ts'
import { COMMAND_LINE } from '../accounts/change-log.ts'
import { OWNER } from '../accounts/users.ts'
import { consoleLink } from '../accounts/sign-in.ts'
import { allOf } from '../store/refused.ts'
import type { User } from '../store/store.ts'
import type { Given } from './command.ts'
import { instant, withExistingData } from './data.ts'
import { addressOf } from './server.ts'

/** Prints a link that signs a user in, and opens it where there is a screen. */
export async function openConsole(given: Given): Promise<void> {
  await withExistingData(given, async ({ config, store }) => {
    const { users, signIn, changes } = openPeople(store, store.time)
    const wanted = given.text('user')
    const user = wanted === undefined ? await firstOwner(users) : await users.named(wanted)
    const { link, text } = signIn.createLink(user)
    const entry = user && { action: 'link.create', target: user.id, after: { user: user.name } }
    await allOf(
      store.together(() => [signIn.addLink(link), ...(entry === undefined ? [] : [changes.add(COMMAND_LINE, entry)])]),
    )
    const { expiresAt } = link
    const url = consoleLink(config, text, addressOf(given, config))
    if (given.on('json'))
      return console.log(JSON.stringify({ url, user: user?.name ?? null, until: instant(expiresAt) }))
    console.log(`console  ${url}`)
    console.error(`signs in ${user?.name ?? 'the first owner'} once, until ${instant(expiresAt)}`)
    open(url)
  })
}

/** The owner who was there first; undefined where there is no user yet. */
async function firstOwner(users: ReturnType<typeof openPeople>['users']): Promise<User | undefined> {
  const roles = await users.roles()
  return (await users.list()).find(({ id }) =>
    roles.get(id)?.some(({ scope, role }) => scope === OWNER.scope && role === OWNER.role),
  )
}

/** Where nothing can open it, the printed link is enough. */
function open(url: string): void {
  const { platform, env, stdout } = process
  const hasScreen = platform === 'darwin' || env.DISPLAY !== undefined || env.WAYLAND_DISPLAY !== undefined
  const command = platform === 'darwin' ? 'open' : 'xdg-open'
  if (stdout.isTTY !== true || !hasScreen || Bun.which(command) === null) return
  Bun.spawn([command, url], { stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' }).unref()
}

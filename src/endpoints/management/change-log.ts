import type { Actor, ChangeEntry } from '../../accounts/change-log.ts'
import type { AppContext } from '../../context.ts'
import { isAccepted, resultOf } from '../../store/refused.ts'
import type { ManagementRequest } from './route.ts'

/** Who sends a request, for the change log. */
const actorOf = ({ caller: { user, key }, clientAddress }: ManagementRequest): Actor => ({
  id: user?.id ?? key?.keyId ?? '',
  name: user?.name ?? key?.keyName ?? key?.keyId ?? '',
  address: clientAddress,
})

/** Adds a line to the change log, for a request that changes nothing, or together with what it changes. */
export const logChange = ({ people }: AppContext, inbound: ManagementRequest, entry: ChangeEntry): Promise<void> =>
  people.changes.add(actorOf(inbound), entry)

/**
 * Makes a change and its lines of the change log in one transaction. `write` has handed all of it to the store when it
 * returns; the result is that of its first write.
 */
export const changeLogged = <T>(
  app: AppContext,
  inbound: ManagementRequest,
  write: Write<T>,
  ...entries: ChangeEntry[]
): Promise<T> => resultOf(together(app, inbound, write, entries))

/** The same for a change that another request, at any process, may have made already: false, and no line, then. */
export const changeLoggedOnce = (
  app: AppContext,
  inbound: ManagementRequest,
  write: Write<boolean>,
  ...entries: ChangeEntry[]
): Promise<boolean> => isAccepted(together(app, inbound, write, entries))

type Write<T> = () => readonly [Promise<T>, ...Promise<unknown>[]]

const together = <T>(
  app: AppContext,
  inbound: ManagementRequest,
  write: Write<T>,
  entries: readonly ChangeEntry[],
): [Promise<T>, ...Promise<unknown>[]] =>
  app.store.together(() => {
    const [first, ...others] = write()
    return [first, ...others, ...entries.map((entry) => logChange(app, inbound, entry))]
  })

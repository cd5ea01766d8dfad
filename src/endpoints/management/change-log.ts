import type { Actor, ChangeEntry } from '../../accounts/change-log.ts'
import type { AppContext } from '../../context.ts'
import type { ManagementRequest } from './route.ts'

/** Who sends a request, for the change log. */
const actorOf = ({ caller: { user, key }, clientAddress }: ManagementRequest): Actor => ({
  id: user?.id ?? key?.keyId ?? '',
  name: user?.name ?? key?.keyName ?? key?.keyId ?? '',
  address: clientAddress,
})

/** Adds what a request changed to the change log. */
export const logChange = ({ people }: AppContext, inbound: ManagementRequest, entry: ChangeEntry): Promise<void> =>
  people.changes.add(actorOf(inbound), entry)

import type { Caller } from '../../accounts/caller.ts'
import type { AppContext } from '../../context.ts'

/** Members see the requests of all keys where their account has that. */
export async function withMemberRequests({ store }: AppContext, caller: Caller): Promise<Caller> {
  const ids = caller.roles.filter(({ role }) => role === 'member').map(({ scope }) => scope)
  if (ids.length === 0) return caller
  const shared = (await store.accounts.list(ids)).filter(({ memberRequests }) => memberRequests === 'all')
  return shared.length === 0 ? caller : caller.seeingRequestsOf(shared.map(({ id }) => id))
}

import type { NewKey } from '../../accounts/keys.ts'
import { object } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { accountFor, answer, time } from './answer.ts'
import { bodyOf } from './body.ts'
import { logChange } from './change-log.ts'
import type { ManagementRequest } from './route.ts'
import { accountShape } from './shapes.ts'

const KEEP_MS = 3_600_000

export const CREATE = object({ account: accountShape })

/** A pay-as-you-go key of a user for an hour. `text` is for the memory of the page alone. */
export type PlaygroundKeyAnswer = {
  id: string
  text: string
  account: { id: string; name: string }
  expires_at: string
}

/** `POST /v1/management/playground/keys`. */
export async function createPlaygroundKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { account: wanted } = await bodyOf(inbound, CREATE)
  const { user } = inbound.caller
  if (user === undefined)
    throw new GatewayError('permission_denied', 'The playground takes a session; make a key with POST /keys instead.')
  const account = await accountFor(app, inbound, wanted ?? onlyAccount(inbound), 'playground.use')
  const expiresAt = app.clock.now() + KEEP_MS
  const key: NewKey = {
    kind: 'pay-as-you-go',
    account: account.id,
    name: 'playground',
    expiresAt,
    createdBy: user.id,
    source: 'playground',
  }
  const entry = { action: 'key.create', accountId: account.id, after: { playground: true } }
  const { id, text } = await app.keys.create(key, (row) => [logChange(app, inbound, { ...entry, target: row.id })])
  const made: PlaygroundKeyAnswer = {
    id,
    text,
    account: { id: account.id, name: account.name },
    expires_at: time(expiresAt),
  }
  return answer(made, 201)
}

function onlyAccount({ caller }: ManagementRequest): string {
  const reach = caller.reach('playground.use')
  if (reach === 'all') return 'default'
  const [only, ...others] = [...reach.accounts, ...reach.own]
  if (only === undefined || others.length > 0) throw invalid('account', 'is required: the id or name of an account')
  return only
}

import { newKeyText } from '../../accounts/key-text.ts'
import type { NewKey } from '../../accounts/keys.ts'
import { object } from '../../config/shape.ts'
import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import type { StoredKey } from '../../store/store.ts'
import { accountFor, answer, time } from './answer.ts'
import { bodyOf } from './body.ts'
import { logChange } from './change-log.ts'
import type { ManagementRequest } from './route.ts'
import { accountShape } from './shapes.ts'

/** A page that is loaded within this time gets the same key, which works as long again. */
const REUSED_MS = 1_800_000

export const CREATE = object({ account: accountShape })

/** A pay-as-you-go key of a user for at most an hour. `text` is for the memory of the page alone. */
export type PlaygroundKeyAnswer = {
  id: string
  text: string
  account: { id: string; name: string }
  expires_at: string
}

/**
 * `POST /v1/management/playground/keys`. The text is derived, not stored: a user has one key for each account and time,
 * however often the page is loaded, and one more for each that was revoked.
 */
export async function createPlaygroundKey(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { account: wanted } = await bodyOf(inbound, CREATE)
  const { user } = inbound.caller
  if (user === undefined)
    throw new GatewayError('permission_denied', 'The playground takes a session; create a key with POST /keys instead.')
  const account = await accountFor(app, inbound, wanted ?? onlyAccount(inbound), 'playground.use')
  const period = Math.floor(app.clock.now() / REUSED_MS)
  const expiresAt = (period + 2) * REUSED_MS
  const { text, known } = await derivedKey(app, `${user.id} ${account.id} ${period}`)
  const made = (id: string): PlaygroundKeyAnswer => ({
    id,
    text,
    account: { id: account.id, name: account.name },
    expires_at: time(expiresAt),
  })
  const reuse = async ({ id }: StoredKey): Promise<Response> => {
    // Another process may have made it a moment ago.
    await app.keys.refresh()
    return answer(made(id))
  }
  if (known !== undefined) return reuse(known)
  const key: NewKey = {
    kind: 'pay-as-you-go',
    account: account.id,
    name: 'playground',
    expiresAt,
    createdBy: user.id,
    source: 'playground',
    text,
  }
  const entry = { action: 'key.create', accountId: account.id, after: { playground: true } }
  try {
    const created = await app.keys.create(key, (row) => [logChange(app, inbound, { ...entry, target: row.id })])
    return answer(made(created.id), 201)
  } catch (error) {
    // A request at the same time, at any process, was the first.
    const other = await app.keys.stored(text)
    if (other === undefined || other.revokedAt !== null) throw error
    return reuse(other)
  }
}

/** The first text of a time whose key was not revoked, and the key of it. */
async function derivedKey(app: AppContext, seed: string): Promise<{ text: string; known: StoredKey | undefined }> {
  for (let revoked = 0; ; revoked++) {
    const text = newKeyText('pay-as-you-go', app.keys.derive('playground keys', `${seed} ${revoked}`))
    const known = await app.keys.stored(text)
    if (known === undefined || known.revokedAt === null) return { text, known }
  }
}

function onlyAccount({ caller }: ManagementRequest): string {
  const reach = caller.reach('playground.use')
  if (reach === 'all') return 'default'
  const [only, ...others] = [...reach.accounts, ...reach.own]
  if (only === undefined || others.length > 0) throw invalid('account', 'is required: the id or name of an account')
  return only
}

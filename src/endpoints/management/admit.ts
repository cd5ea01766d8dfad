import { Caller } from '../../accounts/caller.ts'
import { endOf } from '../../accounts/sessions.ts'
import type { AppContext, PublicRequest } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { clientAddress as addressOf } from '../../http/client-address.ts'
import { keylessRequests } from '../../http/descriptor-limit.ts'
import { checkOwnHost, checkOwnOrigin } from '../../http/own-origin.ts'
import { stopping } from '../../pipeline/authorize.ts'
import { isProbe } from '../../pipeline/request-log.ts'
import { withMemberRequests } from './member-requests.ts'
import { checkQuery } from './query-names.ts'
import type { ManagementContext, ManagementRequest, ManagementRoute } from './route.ts'
import { sessionTextOf, setCookie } from './session-cookie.ts'

const KEY_HEADERS = ['authorization', 'x-api-key', 'x-goog-api-key'] as const

/** Answers a request to the management API: who sends it, how often, and with which role. */
export async function answerManaged(
  app: ManagementContext,
  inbound: PublicRequest,
  { name, action, query, handle }: ManagementRoute,
): Promise<Response> {
  if (app.draining) throw stopping()
  const identify = async (): Promise<Caller> => {
    const { caller, cookie } = await callerOf(app, inbound)
    if (cookie !== undefined) inbound.errorHeaders['set-cookie'] = cookie
    return caller
  }
  const require = (caller: Caller): void => {
    if (action !== 'public') caller.require(action === 'signed-in' ? undefined : action)
  }
  const caller = await identify()
  if (caller === Caller.anonymous && !isProbe(inbound)) keylessRequests.enter(inbound.address)
  const clientAddress = addressOf(inbound.request, inbound.address?.(), app.config.listen.proxies)
  await app.limits.checkRateLimit(
    limitedBy(caller, clientAddress),
    name,
    app.config.limits.requestsPerMinute,
    inbound.path,
  )
  require(caller)
  if (query !== undefined) checkQuery(inbound.query, query)
  let endTurn: (() => void) | undefined
  const { method, headers } = inbound.request
  const dependsOnVersion = method !== 'GET' && headers.has('if-match')
  const managed: ManagementRequest = Object.assign(inbound, {
    caller,
    clientAddress,
    cursorKey: app.keys.derive('management cursors', ''),
    async identifyAgain() {
      // Only what changes something has a turn; an export identifies its caller again for each page.
      if (dependsOnVersion && endTurn === undefined) endTurn = await nextTurn(app)
      require((managed.caller = await identify()))
    },
  })
  try {
    // A removal has no body after which it would have its turn.
    if (dependsOnVersion && method === 'DELETE') await managed.identifyAgain?.()
    const response = await handle(app, managed)
    const cookie = inbound.errorHeaders['set-cookie']
    if (cookie !== undefined && !response.headers.has('set-cookie')) response.headers.append('set-cookie', cookie)
    return response
  } finally {
    endTurn?.()
  }
}

let lastTurn = Promise.resolve()

/**
 * The turn of a change that depends on a version, which must still be that when it is written. Resolves when those
 * before are over, with the function that ends it.
 */
async function nextTurn({ store }: AppContext): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const before = lastTurn
  lastTurn = before.then(() => promise)
  await before
  try {
    const endShared = await store.changeTurn?.()
    return () => {
      void endShared?.().catch(() => {})
      resolve()
    }
  } catch (error) {
    resolve()
    throw error
  }
}

/** A key in a header comes before a session. `cookie`: of a session that gets a new text. */
async function callerOf(app: AppContext, inbound: PublicRequest): Promise<{ caller: Caller; cookie?: string }> {
  const { headers } = inbound.request
  if (!KEY_HEADERS.some((name) => headers.has(name))) return callerOfSession(app, inbound)
  const identity = (inbound.identity = app.keys.identify(headers))
  if (identity.kind !== 'management')
    throw new GatewayError(
      'permission_denied',
      `A ${identity.kind} key may not use this route; it takes a management key or a session.`,
    )
  return { caller: await withMemberRequests(app, Caller.ofKey(identity)) }
}

async function callerOfSession(
  app: AppContext,
  { request }: PublicRequest,
): Promise<{ caller: Caller; cookie?: string }> {
  const text = sessionTextOf(app, request)
  if (text === undefined) return { caller: Caller.anonymous }
  checkOwnHost(request, app.config)
  checkOwnOrigin(request)
  const found = await app.people.sessions.find(text)
  if (found === undefined) return { caller: Caller.anonymous }
  const { session, user, renewed } = found
  const roles = await app.people.users.rolesOf(user.id)
  const { id, name, email } = user
  const caller = Caller.ofUser({ id, name, email, sessionId: session.id, sessionEndsAt: endOf(session) }, roles)
  return {
    caller: await withMemberRequests(app, caller),
    ...(renewed === undefined ? {} : { cookie: setCookie(app, request, renewed, session.endsAt) }),
  }
}

/** Requests without a session and without a key share one counter for each address. */
const limitedBy = ({ user, key }: Caller, address: string | undefined): string =>
  user?.sessionId ?? key?.keyId ?? `address ${address ?? ''}`

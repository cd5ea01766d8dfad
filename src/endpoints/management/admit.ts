import { Caller } from '../../accounts/caller.ts'
import type { AppContext, PublicRequest } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { stopping } from '../../pipeline/authorize.ts'
import type { ManagementRoute } from './route.ts'

const KEY_HEADERS = ['authorization', 'x-api-key', 'x-goog-api-key'] as const

/** Answers a request to the management API: who sends it, how often, and with which role. */
export function answerManaged(
  app: AppContext,
  inbound: PublicRequest,
  { name, action, handle }: ManagementRoute,
): Promise<Response> | Response {
  if (app.draining) throw stopping()
  const caller = callerOf(app, inbound)
  app.limits.checkRateLimit(limitedBy(caller, inbound), name, app.config.limits.requestsPerMinute, inbound.path)
  if (action !== 'public') caller.require(action === 'signed-in' ? undefined : action)
  return handle(app, Object.assign(inbound, { caller }))
}

function callerOf(app: AppContext, inbound: PublicRequest): Caller {
  const { headers } = inbound.request
  if (!KEY_HEADERS.some((name) => headers.has(name))) return Caller.anonymous
  const identity = (inbound.identity = app.keys.identify(headers))
  if (identity.kind !== 'management')
    throw new GatewayError(
      'permission_denied',
      `A ${identity.kind} key may not use this endpoint; it takes a management key or a session.`,
    )
  return Caller.ofKey(identity)
}

/** Requests without a session and without a key share one counter for each address. */
const limitedBy = ({ user, key }: Caller, { address }: PublicRequest): string =>
  user?.sessionId ?? key?.keyId ?? `address ${address?.() ?? ''}`

import type { Identity } from '../accounts/keys.ts'
import type { Config } from '../config/load.ts'
import type { KeyKind } from '../config/terms.ts'
import type { AppContext, AuthenticatedRequest, PublicRequest } from '../context.ts'
import { GatewayError } from '../error.ts'

/** Adds the identity to the request itself: handlers and the error response share its headers. */
export function authenticate(app: AppContext, inbound: PublicRequest): AuthenticatedRequest {
  if (app.draining) throw stopping()
  return Object.assign(inbound, { identity: app.keys.identify(inbound.request.headers) })
}

/** Checks the key's kind, the account's status and the endpoint's rate limit. */
export function authorize(
  app: AppContext,
  { identity, path }: AuthenticatedRequest,
  name: string,
  keys: readonly KeyKind[],
): Promise<void> | void {
  const { kind, accountStatus, keyId } = identity
  if (!keys.includes(kind))
    throw new GatewayError(
      'permission_denied',
      `A ${kind} key may not use this endpoint; it takes a ${keys.join(' or ')} key.`,
    )
  // The owner of a suspended account can still read its records, balance and status.
  const isManagement = keys.includes('management')
  if (!isManagement && (accountStatus === 'suspended' || accountStatus === 'banned'))
    throw new GatewayError('account_suspended', `This account is ${accountStatus}.`)
  return app.limits.checkRateLimit(keyId, name, rateLimitOf(app.config, identity), path)
}

/** Subscriptions of abusive accounts pay a penalty instead. */
function rateLimitOf(config: Config, { kind, requestsPerMinute, accountStatus }: Identity): number {
  const limit = requestsPerMinute ?? config.limits.requestsPerMinute
  return accountStatus === 'abusive' && kind === 'pay-as-you-go'
    ? Math.min(limit, config.accountStatus.requestsPerMinute)
    : limit
}

export const stopping = (): GatewayError =>
  new GatewayError('overloaded', 'Sluice is stopping: send the request again in a moment.', {
    retryAfterSeconds: 1,
    shouldRetry: true,
  })

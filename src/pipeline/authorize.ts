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

/** Checks the key's kind, the account's status and the rate limit of the route. */
export function authorize(
  app: AppContext,
  { identity, path }: AuthenticatedRequest,
  name: string,
  keys: readonly KeyKind[],
): Promise<void> | void {
  const { kind, keyId } = identity
  if (!keys.includes(kind))
    throw new GatewayError(
      'permission_denied',
      `A ${kind} key may not use this route; it takes a ${keys.join(' or ')} key.`,
    )
  // The owner of a suspended account can still read its records, balance and status.
  if (!keys.includes('management')) checkStatus(identity)
  return app.limits.checkRateLimit(keyId, name, rateLimitOf(app.config, identity), path)
}

/** A request that has not begun after so long is authorized again: changes of keys and accounts apply in seconds. */
const AUTHORIZED_MS = 1_000

/**
 * Authorizes a request again that was received slowly, or waited in a queue, before it is admitted: its key may have
 * been revoked or changed meanwhile, and its account suspended.
 */
export function authorizeAgain({ keys, clock }: AppContext, inbound: AuthenticatedRequest): void {
  if (clock.now() - inbound.receivedAt < AUTHORIZED_MS) return
  const identity = keys.identify(inbound.request.headers)
  checkStatus(identity)
  if (identity.accountId !== inbound.identity.accountId)
    throw new GatewayError('permission_denied', 'This key was given to another account: send the request again.', {
      shouldRetry: true,
    })
  inbound.identity = identity
}

function checkStatus({ accountStatus }: Identity): void {
  if (accountStatus === 'suspended' || accountStatus === 'banned')
    throw new GatewayError('account_suspended', `This account is ${accountStatus}.`)
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

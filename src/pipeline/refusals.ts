import { clientOf } from '../ledger/admission.ts'
import type { AppContext, PublicRequest } from '../context.ts'
import { asGatewayError, GatewayError, shortened, type ErrorCode } from '../error.ts'
import type { Refusal } from '../store/store.ts'
import { routeOf } from './request-log.ts'

/** Refusals that a well-behaved client avoids: too many of them are a sign of abuse. */
const AVOIDABLE = new Set<ErrorCode>([
  'insufficient_credit',
  'permission_denied',
  'rate_limit_exceeded',
  'quota_exceeded',
])

/** Statuses that a client can do something about. Others are failures of ours, which the log of the server has. */
const KEPT_STATUSES = new Set([400, 401, 402, 403, 404, 422, 429])
const MESSAGE_LENGTH = 300
const PARAM_LENGTH = 200
const MODEL_LENGTH = 200

/** Records a request that was refused: as a sign of abuse, and for those who ask why. */
export function reportRefusal(app: AppContext, inbound: PublicRequest, thrown: unknown): void {
  const { identity, open, path } = inbound
  if (identity !== undefined && thrown instanceof GatewayError && AVOIDABLE.has(thrown.code))
    app.abuseDetection.recordRefusal(identity.accountId)
  // A generation that fails has a record. Pages of the console show their own errors.
  if (open !== undefined || /^\/(?:console|v1\/management)(?:\/|$)/.test(path)) return
  const error = asGatewayError(thrown)
  if (KEPT_STATUSES.has(error.status)) app.refusals.add(refusalOf(inbound, error))
}

function refusalOf(inbound: PublicRequest, { code, status, param, message }: GatewayError): Refusal {
  const { id, receivedAt, identity, model, request } = inbound
  return {
    id,
    at: receivedAt,
    accountId: identity?.accountId ?? null,
    keyId: identity?.keyId ?? null,
    route: routeOf(inbound),
    code,
    status,
    param: param?.slice(0, PARAM_LENGTH) ?? null,
    message: shortened(message, MESSAGE_LENGTH),
    model: model?.slice(0, MODEL_LENGTH) ?? null,
    client: clientOf(request),
  }
}

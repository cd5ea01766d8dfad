import type { EndpointLimits } from '../../config/config.ts'
import type { Strategy } from '../../config/terms.ts'

/** Facts of an endpoint for choosing. One without them has weight 1, priority 0 and no limits. */
export type EndpointFacts = {
  weight: number
  /** Lower ones are preferred. */
  priority: number
  region?: string
  tags: readonly string[]
  /** Absent members are not known. */
  dataPolicy: { retains?: boolean; trains?: boolean }
  zdr?: boolean
  quantization?: string
  limits: EndpointLimits
}

/** The preferences of one request. */
export type RoutingPreferences = {
  strategy?: Strategy
  /** Names of providers or credentials (`acme`, `acme/key-2`), tried first, in this order. */
  order?: readonly string[]
  only?: readonly string[]
  ignore?: readonly string[]
  /** False: only the endpoints of `order`, or the first one, may be tried. */
  allowFallbacks?: boolean
  /** USD per million tokens. */
  maxPrice?: { prompt?: number; completion?: number }
  requireParameters?: boolean
  dataCollection?: 'allow' | 'deny'
  zdr?: boolean
  quantizations?: readonly string[]
  regions?: readonly string[]
  /** Further models, tried after the requested one. */
  models?: readonly string[]
  /** The client's name of its conversation. */
  sessionId?: string
}

/** True where an endpoint has a limit per minute. */
export const hasRateLimits = ({ requestsPerMinute, tokensPerMinute }: EndpointLimits): boolean =>
  requestsPerMinute !== undefined || tokensPerMinute !== undefined

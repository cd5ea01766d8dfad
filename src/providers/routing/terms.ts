import type { Endpoint } from '../catalogue.ts'

/** The orders in which the endpoints of a model are preferred. */
export type Strategy = 'order' | 'weights' | 'price' | 'latency' | 'throughput' | 'least-busy'

/** Limits of one endpoint; a member that is absent is no limit. */
export type EndpointLimits = { requestsPerMinute?: number; tokensPerMinute?: number; concurrency?: number }

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

/** Settings of one model in the file. */
export type ModelRouting = {
  strategy?: Strategy
  /** Further models, tried after this one. */
  fallbacks?: readonly string[]
  /** The model for conversations that are too long for this one. */
  contextFallback?: string
  /** Failures that are otherwise final, after which another endpoint is tried. */
  fallbackOn?: readonly 'refusal'[]
}

/** Settings for all models. */
export type RoutingSettings = {
  strategy: Strategy
  /** The longest wait for a first byte where other endpoints are left; undefined: by what was measured. */
  patienceMs: number | undefined
  /** A second endpoint is asked when the first one is slower than its own p95. */
  hedge: 'off' | 'p95'
  /** The most attempts of one request. */
  attempts: number
  /** Retries of one provider: a share of its requests, and so many per second. */
  retryBudget: { share: number; perSecond: number }
  /** Requests that wait for a concurrency limit, and for how long. */
  queue: { waitMs: number; requests: number }
}

export type RouteCandidate = { endpoint: Endpoint; score: number; reason: string }

/** The endpoints of one request in the order of attempts, and those that are left out. */
export type RouteDecision = {
  candidates: readonly RouteCandidate[]
  dropped: readonly { endpoint: Endpoint; reason: string }[]
  /** Tokens that the endpoint of the conversation probably had in its cache, where another one is preferred. */
  missedCacheTokens: number
}

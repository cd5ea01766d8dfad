import { checkAllowed } from '../accounts/allowed-models.ts'
import type { Clock } from '../accounts/clock.ts'
import { Deadline, deadlines } from '../deadlines.ts'
import type { Config, ModelRoutingConfig } from '../config/config.ts'
import type { AppContext, AuthenticatedRequest } from '../context.ts'
import { GatewayError } from '../error.ts'
import { completionTokens, promptTokens } from '../generation/usage.ts'
import type { OpenGeneration } from '../ledger/open-generation.ts'
import type { Outcome } from '../ledger/outcomes.ts'
import type { Price, Prices } from '../ledger/prices.ts'
import type { Meter } from '../ledger/meter.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { AttemptPlan, Entry } from '../providers/routing/attempts.ts'
import type { Chosen, TokenPrice } from '../providers/routing/choose.ts'
import type { Sending } from '../providers/routing/router.ts'
import { Router } from '../providers/routing/router.ts'
import { hasRateLimits } from '../providers/routing/terms.ts'
import type { Store } from '../store/store.ts'
import { type CallTrace, remoteParent } from '../telemetry/trace.ts'
import { authorizeAgain } from './authorize.ts'
import { conversationOf } from './conversation-identity.ts'
import type { Generation } from './hooks.ts'
import type { SelectedRequest } from './prepare.ts'

/** The row of the settings that has open breakers and cool-downs. */
const SAVED = 'routing'

/** The time after which a change is written: those that follow are written with it. */
const SAVE_AFTER_MS = 5_000

/** A router whose open breakers and cool-downs survive the process. */
export async function openRouter(
  { routing }: Pick<Config, 'routing'>,
  prices: Prices,
  { settings }: Pick<Store, 'settings'>,
  clock: Clock,
): Promise<Router> {
  const save = (): Promise<void> => {
    deadlines.clear(deadline)
    // The next process learns it again.
    return settings.set(SAVED, router.save()).catch(() => {})
  }
  const deadline = new Deadline({ onDeadline: () => void save() })
  const router = new Router({
    settings: routing,
    wall: clock.now,
    priceOf: ({ target }) => tokenPrice(prices.cost(target.provider, target.model)),
    onUnavailable: () => {
      if (!deadline.isSet) deadlines.set(deadline, SAVE_AFTER_MS)
    },
    onStop: save,
  })
  const saved = await settings.get(SAVED)
  if (saved !== undefined) router.restore(saved)
  return router
}

const TOKEN_PRICES = new WeakMap<Price, TokenPrice>()

/** Nano-USD per million tokens -> USD per token. */
function tokenPrice(price: Price | undefined): TokenPrice | undefined {
  if (price === undefined) return undefined
  let known = TOKEN_PRICES.get(price)
  if (known === undefined) {
    const { prompt, input_cache_read: cached, completion } = price.rates
    const usd = (rate: typeof prompt): number => Number(rate?.base ?? 0n) / 1e15
    known = { input: usd(prompt), cachedInput: usd(cached ?? prompt), output: usd(completion) }
    TOKEN_PRICES.set(price, known)
  }
  return known
}

/** Output tokens of a usual answer, to compare prices. */
export const USUAL_OUTPUT_TOKENS = 1_000

/** A generation's attempts, in the order in which the endpoints are tried, and the choice if there was one. */
export type RoutedGeneration = {
  plan: AttemptPlan
  decision: Chosen<Endpoint> | undefined
  conversation: string | undefined
}

export function routeOf(
  { app, open, inbound, inFlight: signal }: Generation,
  { context, endpoints, longer, preferences }: SelectedRequest,
  onSent: (() => void) | undefined,
): RoutedGeneration {
  const { router, config } = app
  const settings = settingsOf(config, endpoints[0]!, context.request.model)
  const { worst } = open.request
  const plan: AttemptPlan = {
    router,
    settings,
    endpoints,
    longer: longer ?? longerAmong(endpoints, config, context.request.model),
    // The worst case assumes half as many bytes per token.
    promptTokens: Math.ceil(promptTokens(worst) / 2),
    timeouts: config.timeouts,
    signal,
    records: open.meter.attempts,
    onSent,
    trace: callTraceOf(app, inbound),
    recorder: inbound.capture,
  }
  if (endpoints.some((endpoint) => app.concurrency.isLimited(endpoint))) {
    const { promptTokens } = plan
    const { accountId } = inbound.identity
    plan.enter = (endpoint, isLast) => {
      const entering = app.concurrency.enterEndpoint({ endpoint, accountId, signal, promptTokens }, isLast)
      return entering instanceof Promise ? entering.then((entry) => authorized(app, inbound, open, entry)) : entering
    }
    plan.enterNow = (endpoint) => app.concurrency.enterEndpointNow({ endpoint, promptTokens })
  }
  if (endpoints.length === 1 && !hasRateLimits(endpoints[0]!.routing.limits))
    return { plan, decision: undefined, conversation: undefined }
  const conversation = conversationOf(inbound.identity.accountId, context, preferences.sessionId)
  const decision = router.route(endpoints, {
    preferences,
    strategy: settings.strategy,
    promptTokens: plan.promptTokens,
    outputTokens: Math.min(worst.outputTokens, USUAL_OUTPUT_TOKENS),
    conversation,
  })
  plan.endpoints = decision.candidates.map(({ endpoint }) => endpoint)
  return { plan, decision, conversation }
}

/** Before another attempt, or after a wait: the key and the account of a request may have changed meanwhile. */
export function authorizeRetry(app: AppContext, inbound: AuthenticatedRequest, { request }: OpenGeneration): void {
  authorizeAgain(app, inbound)
  for (const { model } of request.models ?? [request]) checkAllowed(inbound.identity, model)
}

/** A request that waited for an endpoint. */
function authorized(
  app: AppContext,
  inbound: AuthenticatedRequest,
  open: OpenGeneration,
  entry: Entry | undefined,
): Entry | undefined {
  try {
    authorizeRetry(app, inbound, open)
    return entry
  } catch (error) {
    const leave = entry?.abandon ?? entry?.end
    leave?.()
    throw error
  }
}

/** The endpoints of the model's `contextFallback`, where that is one of its fallbacks, too. */
function longerAmong(
  endpoints: readonly Endpoint[],
  { models }: Pick<Config, 'models'>,
  model: string,
): readonly Endpoint[] | undefined {
  if (endpoints.length === 1) return undefined
  const longer = models.get(endpoints[0]!.listed ?? model)?.contextFallback
  return longer === undefined ? undefined : endpoints.filter(({ fallback }) => fallback === longer)
}

/** The trace of the calls: our own, or the client's as it is. */
function callTraceOf({ tracing, clock }: AppContext, inbound: AuthenticatedRequest): CallTrace | undefined {
  const trace = tracing?.of(inbound)
  if (trace === undefined) return remoteParent(inbound.request.headers)
  trace.attemptsAt = clock.now()
  return trace
}

/** The settings of the model, as far as it has its own. */
export function settingsOf(
  { routing, models }: Pick<Config, 'routing' | 'models'>,
  { listed }: Pick<Endpoint, 'listed'>,
  model: string,
): ModelRoutingConfig {
  const own = models.get(listed ?? model)?.routing
  return own === undefined ? routing : { ...routing, ...own }
}

/** Throws upstream_rate_limited, with the time of the first, where every endpoint is over its limits for some time. */
export function checkLimits({ decision }: RoutedGeneration, now: number): void {
  if (decision?.panicUntil === undefined) return
  const { candidates, dropped, panicUntil } = decision
  const limited = dropped.every(({ unavailable: { reason } }) => reason === 'cooling' || reason === 'limit')
  const [{ reason }] = candidates as [Chosen<Endpoint>['candidates'][number]]
  if (!limited || !/\((?:cooling|limit)\)/.test(reason)) return
  const retryAfterSeconds = Math.max(1, Math.ceil((panicUntil - now) / 1_000))
  throw new GatewayError(
    'upstream_rate_limited',
    `All endpoints of this model are at their limits; the first accepts requests in ${retryAfterSeconds} s.`,
    { retryAfterSeconds },
  )
}

/** The end of a generation: what it says about its endpoint. */
export function endSending(sending: Sending, outcome: Outcome, meter: Meter, streamed: boolean): void {
  const tokens = completionTokens(meter.usage)
  if (tokens > 0) sending.answered(tokens)
  if (outcome === 'failed' || outcome === 'timed-out') return sending.end('fault')
  if (streamed && meter.begunMs !== undefined) {
    const { begunMs } = meter
    sending.measure(sending.ageMs - begunMs, tokens, begunMs)
  }
  sending.end(outcome === 'completed' || meter.begunMs !== undefined ? 'success' : 'none')
}

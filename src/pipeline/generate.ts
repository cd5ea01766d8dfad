import { exclusiveTurn } from '../json/exclusive-turn.ts'
import type { AppContext, AuthenticatedRequest } from '../context.ts'
import { GatewayError } from '../error.ts'
import { whenLeased } from '../ledger/leases.ts'
import { adoptTerms } from '../ledger/model-terms.ts'
import { outcomeOf } from '../ledger/outcomes.ts'
import type { GenerationRequest } from '../generation/request.ts'
import type { RequestContext } from '../protocols/protocol.ts'
import { servedBy, type Upstream } from '../providers/attempt.ts'
import { LoweredRequests } from '../providers/lowered-requests.ts'
import { errorOfAttempt, UpstreamRefusal } from '../providers/upstream-refusal.ts'
import { Attempts } from '../providers/routing/attempts.ts'
import type { Sending } from '../providers/routing/router.ts'
import { authorizeAgain } from './authorize.ts'
import { close, failAttempt, failUnasked } from './close.ts'
import type { Slot } from './concurrency.ts'
import type { Generation, GenerationRoute } from './hooks.ts'
import { parse, reserve, select, type SelectedRequest } from './prepare.ts'
import { stream, whole } from './respond.ts'
import { identityHeaders } from './response-headers.ts'
import { routeText } from './routing/route-text.ts'
import { authorizeRetry, checkLimits, type RoutedGeneration, routeOf } from './routing.ts'

/** Answers a request, and captures its bodies where that is wanted. */
export function generate(app: AppContext, inbound: AuthenticatedRequest, route: GenerationRoute): Promise<Response> {
  if (app.bodies.isOff) return answer(app, inbound, route)
  inbound.capture = app.bodies.begin(inbound)
  const answering = answer(app, inbound, route)
  return inbound.capture === undefined
    ? answering
    : inbound.capture.record(answering, route.protocol, inbound.requestId)
}

/** The path of one generation, top to bottom. */
async function answer(app: AppContext, inbound: AuthenticatedRequest, route: GenerationRoute): Promise<Response> {
  const { generation, selected } = await admit(app, inbound, route)
  const { open, media } = generation
  const { context, preparedRequests, endpoints, promptCount } = selected
  try {
    // Writing long media takes tens of milliseconds.
    if (media !== undefined) await exclusiveTurn()
    const { memory } = app
    // A provider in this process works on what it was sent.
    const leaves = memory.used > 0 && endpoints.every(({ provider }) => provider.inProcess === undefined)
    const onSent = leaves ? () => memory.sent(generation.clientSignal) : undefined
    const { loweredTo } = open.request
    const requests =
      loweredTo === undefined
        ? preparedRequests
        : new LoweredRequests(preparedRequests, { limit: loweredTo, reason: 'balance' })
    const routed = routeOf(generation, selected, onSent)
    if (inbound.request.headers.has('x-sluice-report'))
      generation.chosen = { endpoints, decision: routed.decision, dropped: selected.dropped }
    checkLimits(routed, app.router.now())
    const attempts = new Attempts(routed.plan, requests)
    for (let isRetry = false; ; isRetry = true) {
      if (isRetry) authorizeRetry(app, inbound, open)
      const served = await attempts.tryNext()
      if (served === undefined) continue
      const { upstream, sending } = served
      memory.sent(generation.clientSignal)
      serve(generation, selected, routed, upstream, sending)
      if (!context.request.stream) return await whole(generation, upstream)
      const others = attempts.hasOthers ? { attempts } : undefined
      // An API with contexts of its own writes values of the request into the response.
      if (others === undefined) promptCount.free(route.hooks.translation !== undefined)
      memory.streams(generation.clientSignal)
      const response = await stream(generation, withoutConversation(upstream), others)
      if (response !== undefined) return response
    }
  } catch (error) {
    if (open.meter.attempts.length === 0) failUnasked(generation, errorOfAttempt(error))
    else if (isUpstreamFailure(error)) failAttempt(generation, error)
    // A response that could not be recorded is not sent, so it must not be charged when the record is written later.
    app.ledger.voidCharge(open)
    // The client gets the error of its request; a record that cannot be written now is written by a later sweep.
    await close(generation, outcomeOf(errorOfAttempt(error))).catch(() => {})
    return refuse(generation, error)
  }
}

/** An endpoint starts to respond. */
function serve(
  generation: Generation,
  selected: SelectedRequest,
  { plan, decision, conversation }: RoutedGeneration,
  upstream: Upstream<RequestContext>,
  sending: Sending,
): void {
  const { app, open } = generation
  const { endpoint } = upstream
  open.meter.served = servedBy(endpoint)
  open.meter.losses = upstream.losses
  adoptTerms(open, endpoint.fallback)
  generation.sending = sending
  generation.capture?.servedBy(upstream.incoming)
  generation.replayRecorder = app.reasoningReplay.replayRecorder(selected.hasTools, endpoint.target)
  generation.issuedIds = app.issuedIds.recorder(selected.makesObjects, upstream)
  if (conversation !== undefined) app.router.remember(conversation, endpoint, plan.promptTokens)
  const cached = decision?.cached
  if (cached !== undefined && cached.id !== app.router.stateOf(endpoint).id)
    open.meter.attempts.at(-1)!.missedCacheTokens = cached.tokens
}

/** Reports whether a provider failed after the head of its response. */
const isUpstreamFailure = (error: unknown): error is GatewayError =>
  error instanceof GatewayError && (error.code === 'upstream_error' || error.code === 'upstream_timeout')

/** Leaves out what a streamed response does not need: it would stay in memory for as long as that streams. */
function withoutConversation(upstream: Upstream<RequestContext>): Upstream {
  const { settings: _settings, restoredReasoning: _restored, ...context } = upstream.context
  const {
    system: _system,
    turns: _turns,
    tools: _tools,
    extras: _extras,
    ...request
  } = context.request as GenerationRequest
  return { ...upstream, context: { ...context, request } }
}

type Admitted = { generation: Generation; selected: SelectedRequest }

/** A slot among the generations in flight, if they are limited, before anything of the request is read. */
function admit(app: AppContext, inbound: AuthenticatedRequest, route: GenerationRoute): Promise<Admitted> {
  const slot = app.concurrency.enter(inbound.identity.accountId, inbound.request.signal)
  return slot === undefined ? prepare(app, inbound, route) : prepareCounted(app, inbound, route, slot)
}

async function prepareCounted(
  app: AppContext,
  inbound: AuthenticatedRequest,
  route: GenerationRoute,
  entering: Slot | Promise<Slot>,
): Promise<Admitted> {
  const slot = await entering
  try {
    const admitted = await prepare(app, inbound, route)
    admitted.generation.slot = slot
    return admitted
  } catch (error) {
    slot.end()
    throw error
  }
}

/** parse -> select -> reserve. */
async function prepare(app: AppContext, inbound: AuthenticatedRequest, route: GenerationRoute): Promise<Admitted> {
  const parsed = await parse(app, inbound, route)
  if ('request' in parsed) inbound.model = parsed.request.model
  try {
    const selecting = select(app, inbound, route, parsed)
    const selected = selecting instanceof Promise ? await selecting : selecting
    authorizeAgain(app, inbound)
    const loading = app.ledger.funds.loadAccount(inbound.identity.accountId)
    if (loading !== undefined) await loading
    const { context, endpoints } = selected
    const preparing = route.hooks.beforeReserve?.(context.request.model, endpoints, context.rawRequest)
    if (preparing !== undefined) await preparing
    const reserving = (): Generation => reserve(app, inbound, route, selected)
    return { selected, generation: app.store.leases === undefined ? reserving() : await whenLeased(reserving) }
  } catch (error) {
    parsed.media?.release()
    route.hooks.onRefused?.()
    throw error
  }
}

/**
 * The response to a failure before the first byte: the provider's own where the client speaks its protocol, otherwise
 * the error is thrown, to be written in the route's format.
 */
function refuse({ app, inbound, inFlight, chosen, open }: Generation, error: unknown): Response {
  if (inFlight.reason !== undefined) throw inFlight.reason
  const { attempts } = open.meter
  const refusal = error instanceof UpstreamRefusal ? error : undefined
  const headers: Record<string, string> = {}
  const provider = refusal?.provider ?? attempts.at(-1)?.provider
  if (provider !== undefined) {
    headers['x-sluice-provider'] = provider
    headers['x-sluice-attempts'] = String(refusal?.attempts ?? attempts.length)
  }
  if (chosen !== undefined) headers['x-sluice-route'] = routeText(chosen, attempts, app.router.now())
  Object.assign(inbound.errorHeaders, headers)
  if (refusal === undefined) throw error
  const native = refusal.response?.native
  if (native === undefined) throw refusal.error
  const { retryAfterSeconds } = refusal.error
  if (retryAfterSeconds !== undefined) headers['retry-after'] = String(retryAfterSeconds)
  return new Response(native.body, {
    status: native.status,
    headers: { ...inbound.errorHeaders, ...headers, 'content-type': 'application/json', ...identityHeaders(inbound) },
  })
}

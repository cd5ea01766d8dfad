import { AbuseDetection } from './accounts/abuse-detection.ts'
import { type Clock, SteadyClock } from './accounts/clock.ts'
import { chosenKeys } from './accounts/key-text.ts'
import { Keys } from './accounts/keys.ts'
import { Limits } from './accounts/limits.ts'
import { firstOwner, openPeople } from './accounts/people.ts'
import { Plans } from './accounts/plans.ts'
import { consoleLink } from './accounts/sign-in.ts'
import type { Config } from './config/load.ts'
import type { AppContext, AuthenticatedRequest, PublicRequest } from './context.ts'
import { answerManaged } from './endpoints/management/admit.ts'
import { listenForMetrics } from './endpoints/management/metrics.ts'
import { Predictor } from './endpoints/predictions/predictor.ts'
import { Webhooks } from './endpoints/predictions/webhooks.ts'
import { asGatewayError, GatewayError } from './error.ts'
import { Files } from './files/files.ts'
import type { ProtocolName } from './generation/request.ts'
import { Forwarder } from './http/forward.ts'
import { checkHost, pathAndQuery } from './http/request-url.ts'
import { MemoryBudget } from './http/memory-budget.ts'
import { isStreamed } from './http/stream.ts'
import { listen, type Listening, type ListenOptions } from './http/serve.ts'
import { Ledger } from './ledger/ledger.ts'
import { log } from './log/log.ts'
import { ConversationMemory } from './protocols/conversation-memory.ts'
import { SchemaCache } from './protocols/schema/cache.ts'
import { Prices } from './ledger/prices.ts'
import { ServiceClasses } from './ledger/service-classes.ts'
import { accountsOf } from './ledger/starting-credit.ts'
import { authenticate, authorize, stopping } from './pipeline/authorize.ts'
import { BackgroundResponses } from './pipeline/background.ts'
import { Idempotency, IDEMPOTENCY_KEY } from './pipeline/idempotency.ts'
import { InFlightRequests } from './pipeline/in-flight.ts'
import { KeptQuota } from './pipeline/kept-quota.ts'
import { IssuedIds } from './pipeline/issued-ids.ts'
import { MediaLoader } from './pipeline/media-load.ts'
import { MediaResolver } from './pipeline/media.ts'
import { ProviderKeys } from './pipeline/provider-keys.ts'
import { ReasoningReplay } from './pipeline/reasoning-replay.ts'
import { observeResponse, openObservers } from './pipeline/observe.ts'
import { RefusalLog } from './pipeline/refusal-log.ts'
import { reportRefusal } from './pipeline/refusals.ts'
import { identify, identityHeaders } from './pipeline/response-headers.ts'
import { openRouting } from './pipeline/routing/open.ts'
import { startTelemetry } from './pipeline/telemetry.ts'
import { protocols } from './protocols/index.ts'
import { Catalogue } from './providers/catalogue.ts'
import { LocalModels } from './providers/local.ts'
import { errorFormatOf, match, type GatewayContext, type Route } from './routes.ts'
import { clearSuccessor, successorOf, takeOver } from './store/handover.ts'
import { SqliteStore } from './store/sqlite/store.ts'

/**
 * Request -> response; never rejects. This is the whole gateway without its socket. `address`: gives the client's IP
 * address.
 */
export async function handleRequest(
  app: GatewayContext,
  request: Request,
  address?: PublicRequest['address'],
): Promise<Response> {
  const receivedAt = app.clock.now()
  const id = Bun.randomUUIDv7('hex', receivedAt).replaceAll('-', '')
  const inbound: PublicRequest = {
    request,
    receivedAt,
    ...pathAndQuery(request.url),
    params: [],
    address,
    id,
    requestId: `req_${id}`,
    errorHeaders: {},
  }
  /** Undefined while the path decides it, which is looked up only for an error. */
  let errorFormat: ProtocolName | undefined = 'chat.completions'
  let response: Response | undefined
  try {
    checkHost(request.headers.get('host'))
    errorFormat = undefined
    const { route, params } = match(request.method, inbound.path)
    errorFormat = route.errorFormat
    inbound.params = params
    inbound.route = route.name
    if (route.keys === 'public') return (response = await route.handle(app, inbound))
    if (route.keys === 'by role') return (response = await answerManaged(app, inbound, route))
    const authenticated = authenticate(app, inbound)
    authorize(app, authenticated, route.name, route.keys)
    const key = route.isIdempotent === true ? request.headers.get(IDEMPOTENCY_KEY) : null
    const answering = key === null ? route.handle(app, authenticated) : answerOnce(app, authenticated, route, key)
    return (response = await answering)
  } catch (error) {
    reportRefusal(app, inbound, error)
    return (response = errorResponse(asGatewayError(error), errorFormat ?? errorFormatOf(inbound.path), inbound))
  } finally {
    // A stream needs its memory until its end.
    if (app.memory.used > 0 && !isStreamed(request.signal)) app.memory.release(request.signal)
    if (inbound.open === undefined) identify(response!, inbound)
    observeResponse(app, inbound, response!.status)
  }
}

/** Answers a request with an `Idempotency-Key`. Its errors are a part of the answer. */
function answerOnce(
  app: GatewayContext,
  inbound: AuthenticatedRequest,
  { handle, errorFormat }: Extract<Route, { isIdempotent?: boolean }>,
  key: string,
): Promise<Response> {
  return app.idempotency.answer(inbound, key, async () => {
    try {
      return await handle(app, inbound)
    } catch (error) {
      reportRefusal(app, inbound, error)
      return errorResponse(asGatewayError(error), errorFormat, inbound)
    }
  })
}

/** An error in the format of the route's protocol. The cause of an internal one is logged, and not sent. */
function errorResponse(error: GatewayError, format: ProtocolName, inbound: PublicRequest): Response {
  inbound.errorCode = error.code
  if (error.code === 'internal_error') log.error(`${inbound.requestId}: internal error`, error.cause ?? error)
  const { serve } = protocols[format]
  const headers: Record<string, string> = {
    ...inbound.errorHeaders,
    ...error.headers,
    'content-type': 'application/json',
    ...identityHeaders(inbound),
  }
  if (error.retryAfterSeconds !== undefined) headers['retry-after'] = String(error.retryAfterSeconds)
  if (error.shouldRetry !== undefined) headers['x-should-retry'] = String(error.shouldRetry)
  return new Response(JSON.stringify(serve.writeError(error, inbound.requestId)), {
    status: serve.statusOf?.(error) ?? error.status,
    headers,
  })
}

/** A running server. */
export type Running = {
  url: string
  /** Refuses new requests, gives those in flight `timeouts.drainMs`, then ends them with an error. */
  stop(): Promise<void>
}

/** The function that has each request next. */
type Handler = { handle: ListenOptions['fetch'] }

/**
 * Opens every module and prints what scripts and people wait for. The port is taken before anything is created in the
 * data folder; requests that arrive until the modules are open wait for them. `replaces`: takes over from the server
 * that runs on the folder.
 */
export async function start(config: Config, replaces = false): Promise<Running> {
  log.configure(config.log)
  // First, because a mistake in the configuration must not cost the server that is replaced.
  const catalogue = new Catalogue(config)
  chosenKeys(config.env)
  const clock = new SteadyClock()
  const opened = Promise.withResolvers<void>()
  const handler: Handler = {
    async handle(request, server) {
      await opened.promise
      return request.signal.aborted ? new Response(null, { status: 499 }) : handler.handle(request, server)
    },
  }
  const options: ListenOptions = {
    ...config.listen,
    perAddress: { limit: config.limits.connectionsPerAddress, proxies: config.listen.proxies },
    fetch: (request, server) => handler.handle(request, server),
  }
  const successor = replaces ? takeOver(config.data, options, config.timeouts.drainMs) : undefined
  let { server } = successor ?? {}
  let store: SqliteStore | undefined
  try {
    await successor?.openFolder()
    store = new SqliteStore({ folder: config.data, exclusive: true, ...config.store, now: clock.now })
    clearSuccessor(config.data)
    server ??= listen(options)
    const context = await open(config, catalogue, store, clock)
    const webhooks = new Webhooks(context)
    const app: GatewayContext = Object.assign(context, { predictor: new Predictor(context, webhooks) })
    await app.predictor.start()
    handler.handle = (request, server) => handleRequest(app, request, () => server.requestIP(request)?.address)
    const link = config.console.enabled ? await firstLink(app) : undefined
    opened.resolve()
    successor?.opened()
    return run(app, webhooks, server, handler, link)
  } catch (error) {
    await server?.stop(0)
    await store?.close()
    throw error
  }
}

function run(
  app: GatewayContext,
  webhooks: Webhooks,
  server: Listening,
  handler: Handler,
  link: string | undefined,
): Running {
  announce(app, server.url)
  if (link !== undefined) console.log(`console  ${consoleLink(app.config, link, server.url)}`)
  void app.space.shortage()
  const stopLocal = new AbortController()
  const timers = startTimers(app, stopLocal.signal)
  const metrics = listenForMetrics(app)
  const stopTelemetry = startTelemetry(app)
  // The last process may have left work.
  app.background.roundSoon()
  webhooks.round()
  const stop = async (): Promise<void> => {
    const successor = successorOf(app.config.data)
    const forwarder = successor === undefined ? undefined : new Forwarder(successor)
    if (forwarder === undefined) app.draining = true
    else handler.handle = forwarder.handle
    announceDrain(app)
    await metrics?.stop(0)
    for (const timer of timers) clearInterval(timer)
    stopLocal.abort()
    await drain(app, webhooks)
    await stopTelemetry()
    if (forwarder === undefined) await server.stop(CLOSE_MS)
    await closeModules(app)
    if (forwarder !== undefined) await forwarder.finish(server, app.config.timeouts.totalMs)
    await log.flushed(CLOSE_MS)
  }
  return { url: server.url, stop }
}

/** Opens the modules in dependency order. */
async function open(config: Config, catalogue: Catalogue, store: SqliteStore, clock: Clock): Promise<AppContext> {
  const { now } = clock
  const keys = await Keys.open({
    now,
    store,
    accounts: accountsOf(store, config),
    folder: config.data,
    configured: config.keys,
  })
  // Printed at once, because only hashes are stored: the texts are not shown again.
  for (const { kind, text } of await keys.start(config.env)) console.log(`key ${kind} ${text}`)
  const people = openPeople(store, now)
  await firstOwner(people, config.env)
  await store.reports.begin()
  const prices = new Prices(config)
  const ledger = await Ledger.open({ store, prices, plans: new Plans(config), clock, ...config.billing })
  const refusals = new RefusalLog(store.reports)
  const reasoningReplay = await ReasoningReplay.open(store, config.reasoning.keepMs, now)
  const keptQuota = new KeptQuota({ kept: store.kept, ledger, config, space: store.space })
  const files = await Files.open({
    store: store.files,
    folder: config.data,
    quotaBytes: config.files.quotaBytes,
    outputKeepMs: config.files.outputKeepMs,
    now,
    room: keptQuota,
  })
  const memory = new MemoryBudget(config.limits.memoryBytes)
  const issuedIds = new IssuedIds(store, now)
  const routing = await openRouting({ config, catalogue, prices, ledger, store })
  return {
    config,
    clock,
    store,
    space: store.space,
    keptQuota,
    files,
    keys,
    people,
    providerKeys: await ProviderKeys.open({ store, keys, catalogue }),
    limits: new Limits(),
    abuseDetection: new AbuseDetection(config.accountStatus),
    ...routing,
    serviceClasses: new ServiceClasses(config),
    schemaCache: new SchemaCache(),
    conversations: new ConversationMemory(config.limits.conversationBytes),
    ledger,
    reasoningReplay,
    issuedIds,
    media: new MediaResolver({
      candidates: routing.candidates,
      config,
      loader: new MediaLoader({ config, files }),
      issuedIds,
    }),
    memory,
    background: new BackgroundResponses({ catalogue, config, ledger, store, issuedIds }),
    inFlight: new InFlightRequests(config.timeouts.clientLeftMs),
    idempotency: new Idempotency({ store, clock, config, memory, space: store.space }),
    refusals,
    ...openObservers(config, ledger, refusals),
    draining: false,
  }
}

const DAY_MS = 86_400_000
const LOCAL_EVERY_MS = 60_000
const PURGE_EVERY_MS = 3_600_000
/** Files and outputs may be kept for an hour only, and are large. */
const PURGE_FILES_EVERY_MS = 60_000
const EVALUATE_EVERY_MS = 60_000
const REFUSALS_DAYS = 7
const REFUSALS_MAX = 100_000
const KEY_USES_EVERY_MS = 60_000

/** Periodic work. One round that fails is made up for by the next. `signal`: aborts the search for local models. */
function startTimers(app: GatewayContext, signal: AbortSignal): Timer[] {
  const { clock, store, files, config } = app
  const local = new LocalModels(app.catalogue, config.env)
  const findLocalModels = (): Promise<unknown> => local.refresh(signal)
  const every = (ms: number, run: () => Promise<unknown>): Timer => setInterval(() => void run().catch(() => {}), ms)
  void findLocalModels().catch(() => {})
  return [
    every(LOCAL_EVERY_MS, findLocalModels),
    every(PURGE_EVERY_MS, () => store.responses.purge(clock.now())),
    every(KEY_USES_EVERY_MS, () => app.keys.writeUses()),
    every(PURGE_EVERY_MS, () => store.people.purge(clock.now())),
    ...[app.reasoningReplay, app.issuedIds, app.idempotency].map((kept) => every(PURGE_EVERY_MS, () => kept.purge())),
    every(PURGE_EVERY_MS, () => store.predictions.purge(clock.now() - config.predictions.keepDays * DAY_MS)),
    every(PURGE_EVERY_MS, () => store.reports.purgeRefusals(clock.now() - REFUSALS_DAYS * DAY_MS, REFUSALS_MAX)),
    every(PURGE_FILES_EVERY_MS, () => files.purge().then(() => store.shrink())),
    every(EVALUATE_EVERY_MS, () => evaluateAccounts(app)),
  ]
}

/** Changes the status of accounts whose requests look like abuse. */
async function evaluateAccounts({ abuseDetection, store, keys }: AppContext): Promise<void> {
  for (const { accountId, before, status } of abuseDetection.evaluate(keys.statuses())) {
    // A status that an administrator set meanwhile stays.
    if (await store.accounts.setStatus(accountId, status, before)) log.warn(`account ${accountId} is ${status} now`)
  }
  await keys.refresh()
}

/** Time to count and record the generations that were cut: a busy machine may have to load the tokeniser first. */
const SETTLE_MS = 10_000
/** Time for the last frames to reach their clients after that. */
const CLOSE_MS = 1_000

/** Ends everything in flight, and waits until it is recorded. */
async function drain(app: GatewayContext, webhooks: Webhooks): Promise<void> {
  app.tail.end()
  await app.background.stop()
  const predictorStopped = app.predictor.stop()
  await app.inFlight.drain(app.config.timeouts.drainMs, stopping())
  await predictorStopped
  await webhooks.stop()
  await app.ledger.settled(SETTLE_MS)
}

async function closeModules({ ledger, router, files, store, keys }: AppContext): Promise<void> {
  try {
    await ledger.stop()
  } finally {
    // The state of endpoints and the last uses of keys may be lost.
    await Promise.allSettled([router.stop(), keys.writeUses()])
    await files.stop()
    await store.close()
  }
}

function announce({ catalogue }: AppContext, url: string): void {
  console.log(`listening on ${url}`)
  const providers = catalogue.providers().map((provider) => `${provider.id} (${provider.foundBy})`)
  const body = '{"model":"sandbox/chat","messages":[{"role":"user","content":"Hello"}]}'
  log.info(`listening on ${url}, providers: ${providers.join(', ')}`)
  log.hint(
    'try, with a pay-as-you-go key in SLUICE_KEY:\n' +
      `curl ${url}/v1/chat/completions -H "authorization: Bearer $SLUICE_KEY" ` +
      `-H 'content-type: application/json' -d '${body}'`,
  )
}

/** The link for the first owner as long as there is no user. A full disk does not keep the server from starting. */
async function firstLink({ people }: AppContext): Promise<string | undefined> {
  try {
    return await people.signIn.firstLink()
  } catch (error) {
    log.warn(`sluice console prints a link to the console later: ${(error as Error).message}`)
    return undefined
  }
}

function announceDrain({ inFlight: { size }, config: { timeouts } }: AppContext): void {
  if (size === 0) return
  const requests = size === 1 ? '1 request' : `${size} requests`
  log.info(`stopping: waiting for ${requests}, at most ${timeouts.drainMs / 1000} s; a second signal ends them at once`)
}

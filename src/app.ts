import { AbuseDetection } from './accounts/abuse-detection.ts'
import { type Clock, SteadyClock } from './accounts/clock.ts'
import { chosenKeys } from './accounts/key-text.ts'
import { Keys } from './accounts/keys.ts'
import { limitsOf } from './accounts/shared-limits.ts'
import { chosenOwner, firstOwner, openPeople } from './accounts/people.ts'
import { Plans } from './accounts/plans.ts'
import { consoleLink } from './accounts/sign-in.ts'
import type { Config } from './config/load.ts'
import type { AppContext, AuthenticatedRequest, PublicRequest } from './context.ts'
import { answerManaged } from './endpoints/management/admit.ts'
import { listenForMetrics } from './endpoints/management/metrics.ts'
import { Predictor } from './endpoints/predictions/predictor.ts'
import { Webhooks } from './endpoints/predictions/webhooks.ts'
import { asGatewayError } from './error.ts'
import { Files } from './files/files.ts'
import { openBlobs } from './files/open-blobs.ts'
import { keylessRequests, refuseSurplus } from './http/descriptor-limit.ts'
import { Forwarder } from './http/forward.ts'
import { type Handler, holdRequests } from './http/held-requests.ts'
import { checkHost, pathAndQuery } from './http/request-url.ts'
import { MemoryBudget } from './http/memory-budget.ts'
import { isStreamed } from './http/stream.ts'
import { listen, type Listening, type ListenOptions } from './http/serve.ts'
import { Ledger } from './ledger/ledger.ts'
import { log } from './log/log.ts'
import { ConversationMemory } from './protocols/conversation-memory.ts'
import { SchemaCache } from './protocols/schema/cache.ts'
import { Prices } from './ledger/prices.ts'
import { removeOldRecords } from './ledger/retention.ts'
import { ServiceClasses } from './ledger/service-classes.ts'
import { accountsOf } from './ledger/starting-credit.ts'
import { announce, announceDrain } from './pipeline/announce.ts'
import { authenticate, authorize, stopping } from './pipeline/authorize.ts'
import { errorResponse } from './pipeline/error-response.ts'
import { BackgroundResponses } from './pipeline/background.ts'
import { Bodies } from './pipeline/bodies/bodies.ts'
import { Idempotency, IDEMPOTENCY_KEY } from './pipeline/idempotency.ts'
import { InFlightRequests } from './pipeline/in-flight.ts'
import { KeptQuota } from './pipeline/kept-quota.ts'
import { IssuedIds } from './pipeline/issued-ids.ts'
import { MediaLoader } from './pipeline/media-load.ts'
import { MediaResolver } from './pipeline/media.ts'
import { ReasoningReplay } from './pipeline/reasoning-replay.ts'
import { observeResponse, openObservers } from './pipeline/observe.ts'
import { isProbe } from './pipeline/request-log.ts'
import { RefusalLog } from './pipeline/refusal-log.ts'
import { reportRefusal } from './pipeline/refusals.ts'
import { identify } from './pipeline/response-headers.ts'
import { openRouting } from './pipeline/routing/open.ts'
import { reloadOnSignal } from './pipeline/settings/reload.ts'
import { RunTimeSettings } from './pipeline/settings/run-time-settings.ts'
import { followProcesses } from './pipeline/shared-store.ts'
import { startTelemetry } from './pipeline/telemetry.ts'
import { Catalogue } from './providers/catalogue.ts'
import { LocalModels } from './providers/local.ts'
import { errorFormatOf, match, type GatewayContext, type Route } from './routes.ts'
import { clearSuccessor, Handover, takeOver } from './store/handover.ts'
import { openStore } from './store/open.ts'
import { writeServerUrl } from './store/server-address.ts'
import type { Store } from './store/store.ts'

/**
 * Request -> response; never rejects. This is the whole gateway without its socket. `address`: gives the client's IP
 * address. `inFlight`: the number of requests whose responses have not ended.
 */
export async function handleRequest(
  app: GatewayContext,
  request: Request,
  address?: PublicRequest['address'],
  inFlight = 0,
): Promise<Response> {
  const receivedAt = app.clock.now()
  const id = Bun.randomUUIDv7('buffer', receivedAt).toString('hex')
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
  let route: Route | undefined
  let response: Response | undefined
  try {
    checkHost(request.headers.get('host'))
    const matched = match(request.method, inbound.path)
    route = matched.route
    inbound.params = matched.params
    inbound.route = route.name
    if (route.keys === 'public') {
      if (!isProbe(inbound)) refuseKeyless(inbound, inFlight)
      return (response = await route.handle(app, inbound))
    }
    if (route.keys === 'by role') {
      if (!isProbe(inbound)) refuseSurplus(inFlight, false)
      return (response = await answerManaged(app, inbound, route))
    }
    refuseSurplus(inFlight, true)
    const authenticated = authenticate(app, inbound)
    const waiting = authorize(app, authenticated, route.name, route.keys)
    if (waiting !== undefined) await waiting
    const key = route.isIdempotent === true ? request.headers.get(IDEMPOTENCY_KEY) : null
    const answering = key === null ? route.handle(app, authenticated) : answerOnce(app, authenticated, route, key)
    return (response = await answering)
  } catch (error) {
    reportRefusal(app, inbound, error)
    const format = errorFormatOf(route, inbound.path, request.headers)
    return (response = errorResponse(asGatewayError(error), format, inbound))
  } finally {
    // A stream needs its memory until its end.
    if (app.memory.used > 0 && !isStreamed(request.signal)) app.memory.release(request.signal)
    if (inbound.open === undefined) identify(response!, inbound)
    observeResponse(app, inbound, response!.status)
  }
}

function refuseKeyless({ address }: PublicRequest, inFlight: number): void {
  refuseSurplus(inFlight, false)
  keylessRequests.enter(address)
}

/** Answers a request with an `Idempotency-Key`. Its errors are a part of the answer. */
function answerOnce(
  app: GatewayContext,
  inbound: AuthenticatedRequest,
  route: Extract<Route, { isIdempotent?: boolean }>,
  key: string,
): Promise<Response> {
  return app.idempotency.answer(inbound, key, async () => {
    try {
      return await route.handle(app, inbound)
    } catch (error) {
      reportRefusal(app, inbound, error)
      const format = errorFormatOf(route, inbound.path, inbound.request.headers)
      return errorResponse(asGatewayError(error), format, inbound)
    }
  })
}

/** A running server. */
export type Running = {
  url: string
  /**
   * Refuses new requests, gives those in flight `timeouts.drainMs`, then ends them with an error. Resolves with a
   * server that goes on where another one was to take over, but ended before it served.
   */
  stop(drainMs?: number): Promise<Running | undefined>
  /** Reads the configuration file again, and logs what has changed. */
  reload(): Promise<void>
  /** Resolves when other processes that share the store have taken over from this one: it cannot record any more. */
  fenced: Promise<void>
}

/**
 * Opens every module and prints what scripts and people wait for. The port is taken before anything is created in the
 * data folder; requests that arrive until the modules are open wait for them. `replaces`: takes over from the server
 * that runs on the folder. `held`: a socket that is open already.
 */
export async function start(config: Config, replaces = false, held = holdRequests()): Promise<Running> {
  log.configure(config.log)
  // First, because a mistake in the configuration must not cost the server that is replaced.
  const catalogue = new Catalogue(config)
  chosenKeys(config.env)
  chosenOwner(config.env)
  const { handler } = held
  const options: ListenOptions = {
    ...config.listen,
    shared: config.worker !== undefined,
    perAddress: { limit: config.limits.connectionsPerAddress, proxies: config.listen.proxies },
    fetch: (request, server) => handler.handle(request, server),
  }
  const successor = replaces ? takeOver(config.data, options, config.timeouts.drainMs) : undefined
  let { server } = successor ?? held
  let store: Store | undefined
  try {
    await successor?.openFolder()
    store = await openStore(config, { exclusive: true, now: () => clock.now() })
    const clock = new SteadyClock(store.time)
    server ??= listen(options)
    const context = await open(config, catalogue, store, clock)
    const webhooks = new Webhooks(context)
    const app: GatewayContext = Object.assign(context, { predictor: new Predictor(context, webhooks) })
    await app.predictor.start()
    handler.handle = (request, server) =>
      handleRequest(app, request, () => server.requestIP(request)?.address, server.pendingRequests)
    const link = await firstLink(app)
    held.open()
    clearSuccessor(config.data)
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
  writeServerUrl(app.config.data, server.url)
  if (link !== undefined) console.log(`console  ${consoleLink(app.config, link, server.url)}`)
  void app.space.shortage()
  const stopLocal = new AbortController()
  const { timers: others, fenced } = followProcesses(app, (left) => {
    void app.predictor.adopt(left)
    webhooks.round()
  })
  const timers = [...startTimers(app, stopLocal.signal), ...others]
  const metrics = listenForMetrics(app)
  const stopTelemetry = startTelemetry(app)
  // The last process may have left work.
  app.background.roundSoon()
  webhooks.round()
  const stop = async (drainMs = app.config.timeouts.drainMs): Promise<Running | undefined> => {
    const { config } = app
    const handover = Handover.on(config.data)
    const held = handover && holdRequests(server, handler)
    const forwarder = handover && new Forwarder(handover, handler.handle)
    if (forwarder === undefined) app.draining = true
    else handler.handle = forwarder.handle
    announceDrain(app)
    await metrics?.stop(0)
    for (const timer of timers) clearInterval(timer)
    stopLocal.abort()
    await drain(app, webhooks, drainMs)
    await stopTelemetry()
    if (forwarder === undefined) await server.stop(CLOSE_MS)
    await closeModules(app)
    if (handover !== undefined && !(await handover.succeeded())) {
      log.warn('the server that was to take over ended before it served: this one goes on')
      return start(config, false, held)
    }
    if (forwarder !== undefined) await forwarder.finish(server, config.timeouts.totalMs)
    await log.flushed(CLOSE_MS)
    return undefined
  }
  return { url: server.url, stop, reload: () => reloadOnSignal(app), fenced }
}

/** Opens the modules in dependency order. */
async function open(config: Config, catalogue: Catalogue, store: Store, clock: Clock): Promise<AppContext> {
  const { now } = clock
  // A bucket that cannot be used is reported before the first keys are made.
  const blobs = await openBlobs(config.files.store, { env: config.env, stored: store.blobs, now })
  const keys = await Keys.open({
    now,
    store,
    accounts: accountsOf(store, config, now),
    folder: config.data,
    env: config.env,
    configured: config.keys,
  })
  // Printed at once, because only hashes are stored: the texts are not shown again.
  for (const { kind, text } of await keys.start(config.env)) console.log(`key ${kind} ${text}`)
  const people = openPeople(store, now)
  await firstOwner(people, store, config.env)
  await store.reports.begin()
  const prices = new Prices(config, undefined, now)
  const ledger = await Ledger.open({ store, prices, plans: new Plans(config), clock, ...config.billing })
  const refusals = new RefusalLog(store.reports)
  const reasoningReplay = await ReasoningReplay.open(store, config.reasoning.keepMs, now)
  const keptQuota = new KeptQuota({ kept: store.kept, ledger, config, space: store.space })
  const files = await Files.open({
    store: store.files,
    blobs,
    isShared: store.isShared || typeof config.files.store === 'object',
    folder: config.data,
    quotaBytes: config.files.quotaBytes,
    outputKeepMs: config.files.outputKeepMs,
    now,
    limits: keptQuota,
  })
  const memory = new MemoryBudget(config.limits.memoryBytes)
  const issuedIds = new IssuedIds(store, now)
  const routing = await openRouting({ config, catalogue, prices, ledger, store, clock })
  return RunTimeSettings.addedTo({
    config,
    clock,
    store,
    space: store.space,
    keptQuota,
    files,
    keys,
    people,
    limits: limitsOf(store),
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
    background: new BackgroundResponses({ catalogue, config, ledger, store, issuedIds, clock }),
    inFlight: new InFlightRequests(config.timeouts.clientLeftMs),
    bodies: await Bodies.open({ config, store, keys, clock }),
    idempotency: new Idempotency({ store, clock, config, memory, space: store.space }),
    refusals,
    ...openObservers(config, ledger, refusals, store),
    draining: false,
  })
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
    every(PURGE_EVERY_MS, () => removeOldRecords(store, config.retention, clock.now())),
    every(PURGE_EVERY_MS, () => store.reports.purgeRefusals(clock.now() - REFUSALS_DAYS * DAY_MS, REFUSALS_MAX)),
    every(PURGE_FILES_EVERY_MS, () =>
      Promise.all([app.bodies.purge(), files.purge().then(() => store.shrink()), files.check()]),
    ),
    every(EVALUATE_EVERY_MS, () => evaluateAccounts(app)),
  ]
}

/** Changes the status of accounts whose requests look like abuse. */
async function evaluateAccounts({ abuseDetection, store, keys }: AppContext): Promise<void> {
  await abuseDetection.exchange(store.activities)
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
async function drain(app: GatewayContext, webhooks: Webhooks, drainMs: number): Promise<void> {
  app.tail.end()
  await app.background.stop()
  const predictorStopped = app.predictor.stop()
  await app.inFlight.drain(drainMs, stopping())
  await predictorStopped
  await webhooks.stop()
  await app.ledger.settled(SETTLE_MS)
}

async function closeModules({ ledger, router, files, store, keys, bodies }: AppContext): Promise<void> {
  try {
    await ledger.stop()
  } finally {
    // The state of endpoints, the last uses of keys and the last bodies may be lost.
    await Promise.allSettled([router.stop(), keys.writeUses(), bodies.stop()])
    await files.stop()
    await store.close()
  }
}

/** The link for the first owner as long as there is no user. A full disk does not keep the server from starting. */
async function firstLink({ people, config }: AppContext): Promise<string | undefined> {
  try {
    if (!config.console.enabled || (config.worker ?? 1) > 1) return undefined
    return await people.signIn.firstLink()
  } catch (error) {
    log.warn(`sluice console prints a link to the console later: ${(error as Error).message}`)
    return undefined
  }
}

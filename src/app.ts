import { AbuseDetection } from './accounts/abuse-detection.ts'
import { Keys } from './accounts/keys.ts'
import { Limits } from './accounts/limits.ts'
import { Plans } from './accounts/plans.ts'
import type { Config } from './config/load.ts'
import { Predictor } from './endpoints/predictions/predictor.ts'
import { Webhooks } from './endpoints/predictions/webhooks.ts'
import type { ResolveMedia } from './endpoints/predictions/work.ts'
import { Follower } from './endpoints/responses.ts'
import { asGatewayError, GatewayError, type ErrorCode } from './error.ts'
import type { ProtocolName } from './generation/request.ts'
import { Ledger } from './ledger/ledger.ts'
import { Prices } from './ledger/prices.ts'
import { listen } from './http/serve.ts'
import { resolveMedia } from './pipeline/media.ts'
import { InFlightRequests } from './pipeline/in-flight.ts'
import { accountsOf } from './opening.ts'
import { protocols } from './protocols/index.ts'
import { Catalogue } from './providers/catalogue.ts'
import { LocalModels } from './providers/local.ts'
import { ReasoningReplay } from './pipeline/reasoning-replay.ts'
import { match, shapeOf, type Route } from './routes.ts'
import type { InboundRequest, AppContext } from './context.ts'
import { Files } from './files/files.ts'
import { SqliteStore } from './store/sqlite/store.ts'

/**
 * Request -> response; never throws. This is the whole gateway without its socket. `address`: tells where the client
 * is.
 */
export async function answer(
  app: AppContext,
  request: Request,
  address?: InboundRequest['address'],
): Promise<Response> {
  const id = Bun.randomUUIDv7().replaceAll('-', '')
  const call: InboundRequest = {
    request,
    receivedAt: Date.now(),
    path: '',
    query: NO_QUERY,
    params: [],
    identity: NOBODY,
    address,
    id,
    requestId: `req_${id}`,
    fromPath: undefined,
    jsonArray: false,
    errorHeaders: {},
  }
  let shape: ProtocolName | undefined
  try {
    readPath(call)
    const { route, params } = match(request.method, call.path)
    shape = route.shape
    call.params = params
    if (route.keys !== 'public') authorize(app, call, route)
    return await route.answer(app, call)
  } catch (error) {
    noteRefusal(app, call, error)
    return failure(asGatewayError(error), shape ?? shapeOf(call.path), call)
  }
}

/** Refusals of ours that a client can help: what it may not do, or not so often. */
const HELPED_BY_CLIENT = new Set<ErrorCode>([
  'insufficient_credit',
  'permission_denied',
  'rate_limit_exceeded',
  'quota_exceeded',
])

const noteRefusal = ({ abuseDetection }: AppContext, { identity }: InboundRequest, error: unknown): void => {
  if (identity !== NOBODY && error instanceof GatewayError && HELPED_BY_CLIENT.has(error.code))
    abuseDetection.refused(identity.accountId)
}

/** A host that is no host would move the border between host and path of the URL that the runtime builds from it. */
const HOST = /^[A-Za-z0-9._~-]+(?::\d{1,5})?$|^\[[0-9A-Fa-f:.]+\](?::\d{1,5})?$/

function readPath(call: InboundRequest): void {
  const host = call.request.headers.get('host')
  if (host === null || !HOST.test(host))
    throw new GatewayError('invalid_request', 'The Host header must be a host name, with a port or without.')
  const { url } = call.request
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const mark = url.indexOf('?', start)
  call.path = mark < 0 ? url.slice(start) : url.slice(start, mark)
  if (mark >= 0) call.query = new URLSearchParams(url.slice(mark))
}

const NO_QUERY = new URLSearchParams()
/** Until a key is read. */
const NOBODY: InboundRequest['identity'] = {
  keyId: '',
  accountId: '',
  accountStatus: 'healthy',
  kind: 'pay-as-you-go',
  discount: 0,
  allows: () => true,
}

/** Who asks, and whether they may: key, its kind, the account's status, the endpoint's limit. */
function authorize(app: AppContext, call: InboundRequest, route: Route): void {
  if (app.draining) throw stopping()
  call.identity = app.keys.identify(call.request.headers)
  const { kind, accountStatus, keyId, requestsPerMinute } = call.identity
  if (route.keys !== 'public' && !route.keys.includes(kind)) {
    throw new GatewayError(
      'permission_denied',
      `A ${kind} key may not use this endpoint; it takes a ${route.keys.join(' or ')} key.`,
    )
  }
  if (accountStatus === 'suspended' || accountStatus === 'banned')
    throw new GatewayError('account_suspended', `This account is ${accountStatus}.`)
  app.limits.checkRateLimit(keyId, route.name, requestsPerMinute ?? app.config.limits.requestsPerMinute)
}

const stopping = (): GatewayError =>
  new GatewayError('overloaded', 'Sluice is stopping: send the request again in a moment.', {
    retryAfterSeconds: 1,
    shouldRetry: true,
  })

/**
 * A GatewayError in the words of the route's protocol. What we did not foresee is told to the operator, not to the
 * client.
 */
function failure(error: GatewayError, shape: ProtocolName, call: InboundRequest): Response {
  if (error.code === 'internal_error')
    console.error(`${call.requestId} ${call.request.method} ${call.path}`, error.cause ?? error.message)
  const { serve } = protocols[shape]
  const headers: Record<string, string> = {
    ...call.errorHeaders,
    'content-type': 'application/json',
    'x-request-id': call.requestId,
    'request-id': call.requestId,
  }
  if (error.retryAfterSeconds !== undefined) headers['retry-after'] = String(error.retryAfterSeconds)
  if (error.shouldRetry !== undefined) headers['x-should-retry'] = String(error.shouldRetry)
  return new Response(JSON.stringify(serve.writeError(error, call.requestId)), {
    status: serve.statusOf?.(error) ?? error.status,
    headers,
  })
}

/** A running server. */
export type Running = {
  url: string
  /** Ends it: nothing new begins, what is under way gets `timeouts.drainMs`, then its clients are told. */
  stop(): Promise<void>
}

/** How often a local provider is looked for. */
const LOCAL_EVERY_MS = 60_000
const PURGE_EVERY_MS = 3_600_000
/** Files and outputs may be there for an hour only, and take room. */
const PURGE_FILES_EVERY_MS = 60_000
const JUDGE_EVERY_MS = 60_000
const FOLLOW_EVERY_MS = 5_000
const WEBHOOKS_EVERY_MS = 1_000

/** Builds every room and joins them, listens, and prints what scripts and people wait for. */
export async function start(config: Config): Promise<Running> {
  // First, because a mistake in the configuration must not cost the keys that are shown only once.
  const catalogue = new Catalogue(config)
  const store = new SqliteStore({ folder: config.data, exclusive: true })
  const keys = await Keys.open({
    store,
    accounts: accountsOf(store, config),
    folder: config.data,
    configured: config.keys,
  })
  const first = await keys.start(config.env.SLUICE_KEY)
  // At once, because they are kept nowhere: they must not be lost when the address turns out to be taken.
  for (const { kind, text } of first) console.log(`key ${kind} ${text}`)
  const prices = new Prices(config)
  const ledger = await Ledger.open({ store, prices, plans: new Plans(config), overdraft: config.billing.overdraft })
  const reasoningReplay = await ReasoningReplay.open(store, config.reasoning.keepMs)
  const files = await Files.open({
    store: store.files,
    folder: config.data,
    quotaBytes: config.files.quotaBytes,
    outputKeepMs: config.files.outputKeepMs,
  })
  const rooms = {
    config,
    store,
    files,
    keys,
    limits: new Limits(),
    abuseDetection: new AbuseDetection(config.accountStatus),
    catalogue,
    prices,
    ledger,
    reasoningReplay,
    inFlight: new InFlightRequests(),
    draining: false,
  }
  const webhooks = new Webhooks(rooms)
  // Admitted with their models, predictions are not asked again what their keys allow.
  const media: ResolveMedia = ({ accountId, signal }, name, rawRequest) =>
    resolveMedia(app, { identity: { accountId, allows: () => true }, request: { signal } }, name, rawRequest)
  const app: AppContext = Object.assign(rooms, { predictor: new Predictor(rooms, webhooks, media) })
  await app.predictor.start()
  const server = listen({
    ...config.listen,
    fetch: (request, server) => answer(app, request, () => server.requestIP(request)?.address),
  })
  announce(app, server.url, first)
  const stopping = new AbortController()
  const local = new LocalModels(app.catalogue, config.env)
  const lookAround = (): void => void local.round(stopping.signal).catch(() => {})
  const follower = new Follower(app)
  const timers = [
    setInterval(lookAround, LOCAL_EVERY_MS),
    setInterval(() => void store.responses.purge(Date.now()).catch(() => {}), PURGE_EVERY_MS),
    setInterval(() => void reasoningReplay.purge().catch(() => {}), PURGE_EVERY_MS),
    setInterval(() => void files.purge().catch(() => {}), PURGE_FILES_EVERY_MS),
    setInterval(() => follower.round(), FOLLOW_EVERY_MS),
    setInterval(() => webhooks.round(), WEBHOOKS_EVERY_MS),
    setInterval(
      () => void store.predictions.purge(Date.now() - config.predictions.keepDays * 86_400_000).catch(() => {}),
      PURGE_EVERY_MS,
    ),
    setInterval(() => void judge(app).catch(() => {}), JUDGE_EVERY_MS),
  ]
  lookAround()
  return { url: server.url, stop: () => stop(app, server, timers, { looking: stopping, follower, webhooks }) }
}

/** Accounts whose conduct asks for it change their status. */
async function judge({ abuseDetection, store, keys }: AppContext): Promise<void> {
  for (const { accountId, before, status } of abuseDetection.judge(await store.accounts.list())) {
    // What an administrator set meanwhile stays.
    if (await store.accounts.setStatus(accountId, status, before))
      console.error(`account ${accountId} is ${status} now`)
  }
  await keys.reload()
}

async function stop(
  app: AppContext,
  server: { stop(drainMs: number): Promise<void> },
  timers: Timer[],
  { looking, follower, webhooks }: { looking: AbortController; follower: Follower; webhooks: Webhooks },
): Promise<void> {
  app.draining = true
  for (const timer of timers) clearInterval(timer)
  looking.abort()
  await follower.stop()
  const predicted = app.predictor.stop()
  await app.inFlight.drain(app.config.timeouts.drainMs, stopping())
  await predicted
  await webhooks.stop()
  await app.ledger.settled(SETTLE_MS)
  await server.stop(CLOSE_MS)
  try {
    await app.ledger.stop()
  } finally {
    await app.files.stop()
    await app.store.close()
  }
}

/**
 * What those that were cut get to be counted and recorded: the tokeniser may have to be loaded first, on a machine that
 * is busy.
 */
const SETTLE_MS = 10_000
/** What the last frames get to reach their clients after that. */
const CLOSE_MS = 1_000

function announce(app: AppContext, url: string, first: { kind: string; text: string }[]): void {
  console.log(`listening on ${url}`)
  const providers = app.catalogue.providers().map((provider) => `${provider.id} (${provider.foundBy})`)
  const key = first.find(({ kind }) => kind === 'pay-as-you-go')?.text ?? '$SLUICE_KEY'
  console.error(
    `providers: ${providers.join(', ')}\ntry: curl ${url}/v1/chat/completions -H 'authorization: Bearer ${key}' -H 'content-type: application/json' -d '{"model":"sandbox/chat","messages":[{"role":"user","content":"Hello"}]}'`,
  )
}

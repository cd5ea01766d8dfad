import { protocols } from './protocols/index.ts'
import type { AppContext, AuthenticatedRequest, PublicRequest } from './context.ts'
import { getConsole } from './endpoints/console.ts'
import { countGeminiTokens, countMessagesTokens, countResponsesTokens } from './endpoints/count-tokens.ts'
import { createFile, deleteFile, getFile, getFileContent, listFiles } from './endpoints/files/files.ts'
import { getBalance, getGeneration, getGenerationAtOldPath, getSubscription } from './endpoints/management/records.ts'
import type { ManagementRoute } from './endpoints/management/route.ts'
import { managementRoutes } from './endpoints/management/routes.ts'
import {
  getGoogleModel,
  getModel,
  getPublisherModel,
  listGoogleModels,
  listModels,
  listPublisherModels,
} from './endpoints/models.ts'
import { getOutput } from './endpoints/outputs.ts'
import { getReadiness } from './endpoints/readiness.ts'
import type { PredictionContext } from './endpoints/predictions/predictor.ts'
import { cancelPrediction, createPrediction, getPrediction, listPredictions } from './endpoints/predictions/routes.ts'
import { streamPrediction } from './endpoints/predictions/stream.ts'
import { getWebhookSecret } from './endpoints/predictions/webhooks.ts'
import { compactionHooks } from './endpoints/responses/compaction.ts'
import { expand } from './endpoints/responses/expand.ts'
import { ResponseStore } from './endpoints/responses/response-store.ts'
import {
  cancelResponse,
  deleteResponse,
  getResponse,
  listInputItems,
  refuseUpgrade,
} from './endpoints/responses/routes.ts'
import { GatewayError } from './error.ts'
import type { ProtocolName } from './generation/request.ts'
import type { FromPath } from './protocols/raw-request.ts'
import { nearest } from './nearest.ts'
import { getOpenApi } from './openapi/document.ts'
import { generate } from './pipeline/generate.ts'
import type { GenerationHooks } from './pipeline/hooks.ts'
import { imageHooks } from './pipeline/images.ts'
import type { KeyKind } from './config/terms.ts'

/** The context of every route: that of the pipeline, with what single endpoints add. */
export type GatewayContext = AppContext & PredictionContext

type Handled = Promise<Response> | Response

type Row = {
  /** Routes of one name have one per-minute counter for each key. */
  name: string
  method: string
  /** A literal path, or an expression whose groups become `inbound.params`, percent-decoded. */
  path: string | RegExp
  /** The protocol in whose error format this route refuses a request; `client`: that of the client. */
  errorFormat: ProtocolName | 'client'
}

/** A route that needs no key. */
type PublicRoute = Row & { keys: 'public'; handle(app: GatewayContext, inbound: PublicRequest): Handled }

/** A route that needs a key of one of these kinds. */
type AuthenticatedRoute = Row & {
  keys: readonly KeyKind[]
  /** A request with an `Idempotency-Key` is carried out once. */
  isIdempotent?: boolean
  handle(app: GatewayContext, inbound: AuthenticatedRequest): Handled
}

/** One row of the table: who may request what, and which function handles it. */
export type Route = PublicRoute | AuthenticatedRoute | ManagementRoute

const USERS: readonly KeyKind[] = ['pay-as-you-go', 'subscription']
const ALL: readonly KeyKind[] = [...USERS, 'management']

const withKey =
  (method: string) =>
  (
    name: string,
    path: string | RegExp,
    handle: AuthenticatedRoute['handle'],
    { errorFormat = 'chat.completions', keys = USERS }: { errorFormat?: Row['errorFormat']; keys?: typeof USERS } = {},
  ): AuthenticatedRoute => ({ name, method, path, errorFormat, keys, handle })

/** A route on which something is made, and billed. */
const once = (route: AuthenticatedRoute): AuthenticatedRoute => ({ ...route, isIdempotent: true })

const get = withKey('GET')
const post = withKey('POST')
const remove = withKey('DELETE')

const publicRoute = (
  name: string,
  method: string,
  path: string | RegExp,
  handle: PublicRoute['handle'],
  errorFormat: ProtocolName = 'chat.completions',
): PublicRoute => ({ name, method, path, errorFormat, keys: 'public', handle })

/**
 * Every form in which Google's clients name a model's method: Gemini API, Vertex AI with and without project, and
 * without `models/`.
 */
const googleMethod = (method: string): RegExp =>
  new RegExp(
    '^/v1(?:beta1?|alpha)?/(?:projects/[^/]+/locations/[^/]+/)?(?:publishers/([^/]+)/models/|models/)?' +
      `([^:]+(?::[^:/]+)*):${method}$`,
  )

const METHODS: readonly string[] = ['generateContent', 'streamGenerateContent', 'countTokens']

/** Before a model's name: a GET of one of its methods is a 405, not a model of that name. */
const NO_METHOD = `(?!.*:(?:${METHODS.join('|')})/*$)`

/** Where Google's clients in their Vertex AI mode look for models. */
const publisherModels = (end: string): RegExp =>
  new RegExp(`^/v1(?:beta1?|alpha)?/(?:projects/[^/]+/locations/[^/]+/)?publishers/([^/]+)/models${end}`)

type MakeHooks = (app: GatewayContext, inbound: AuthenticatedRequest) => GenerationHooks

/** Routes that the clients of several protocols request. */
const SHARED = { errorFormat: 'client' } as const

const NO_HOOKS: GenerationHooks = {}

const generation = (
  name: string,
  path: string,
  protocol: ProtocolName,
  makeHooks?: MakeHooks,
  fromPath?: FromPath,
): Route[] => {
  const withoutHooks = { protocol, hooks: NO_HOOKS }
  const handle: AuthenticatedRoute['handle'] = (app, inbound) =>
    generate(
      app,
      inbound,
      makeHooks === undefined ? withoutHooks : { protocol, hooks: makeHooks(app, inbound), fromPath },
    )
  return ['', '/relay'].map((prefix) => once(post(prefix + name, prefix + path, handle, { errorFormat: protocol })))
}

const googleGeneration = (name: string, stream: boolean): Route =>
  once(
    post(
      name,
      googleMethod(name),
      (app, inbound) =>
        generate(app, inbound, {
          protocol: 'generateContent',
          hooks: NO_HOOKS,
          fromPath: { model: googleModel(inbound), stream },
          jsonArray: stream && inbound.query.get('alt') !== 'sse',
        }),
      { errorFormat: 'generateContent' },
    ),
  )

/** The model that Google's path names. */
const googleModel = ({ params: [publisher, model] }: PublicRequest): string =>
  publisher === undefined ? model! : `${publisher}/${model}`

export const routes: readonly Route[] = [
  ...generation('chat.completions', '/v1/chat/completions', 'chat.completions'),
  ...generation('responses', '/v1/responses', 'responses', (app, inbound) => new ResponseStore(app, inbound)),
  ...generation('responses.compact', '/v1/responses/compact', 'responses', compactionHooks, { compaction: true }),
  ...generation('messages', '/v1/messages', 'messages'),
  ...generation('images', '/v1/images/generations', 'images', imageHooks),
  googleGeneration('generateContent', false),
  googleGeneration('streamGenerateContent', true),

  ...['', '/relay'].map((prefix) =>
    post(`${prefix}messages.count_tokens`, `${prefix}/v1/messages/count_tokens`, countMessagesTokens, {
      errorFormat: 'messages',
    }),
  ),
  post(
    'countTokens',
    googleMethod('countTokens'),
    (app, inbound) => countGeminiTokens(app, inbound, googleModel(inbound)),
    { errorFormat: 'generateContent' },
  ),

  post(
    'responses.input_tokens',
    '/v1/responses/input_tokens',
    (app, inbound) =>
      countResponsesTokens(app, inbound, (rawRequest) =>
        expand(rawRequest, app.store.responses, inbound.identity.accountId, app.config.limits),
      ),
    { errorFormat: 'responses' },
  ),
  get('responses.upgrade', '/v1/responses', refuseUpgrade, { errorFormat: 'responses' }),
  get('responses.get', /^\/v1\/responses\/([^/]+)$/, getResponse, { errorFormat: 'responses' }),
  post('responses.cancel', /^\/v1\/responses\/([^/]+)\/cancel$/, cancelResponse, { errorFormat: 'responses' }),
  remove('responses.delete', /^\/v1\/responses\/([^/]+)$/, deleteResponse, { errorFormat: 'responses' }),
  get('responses.input_items', /^\/v1\/responses\/([^/]+)\/input_items$/, listInputItems, {
    errorFormat: 'responses',
  }),

  get('models', '/v1/models', listModels, SHARED),
  get('models.get', /^\/v1\/models\/(.+)$/, getModel, SHARED),
  get('models', /^\/v1(?:beta1?|alpha)\/models$/, listGoogleModels, { errorFormat: 'generateContent' }),
  get('models.get', new RegExp(`^/v1(?:beta1?|alpha)/models/${NO_METHOD}(.+)$`), getGoogleModel, {
    errorFormat: 'generateContent',
  }),
  get('models.published', publisherModels('$'), listPublisherModels, { errorFormat: 'generateContent' }),
  get('models.published.get', publisherModels(`/${NO_METHOD}(.+)$`), getPublisherModel, {
    errorFormat: 'generateContent',
  }),

  once(post('predictions', '/v1/predictions', createPrediction)),
  once(post('models.predictions', /^\/v1\/models\/(.+)\/predictions$/, createPrediction)),
  get('predictions.list', '/v1/predictions', listPredictions),
  get('predictions.get', /^\/v1\/predictions\/([^/]+)$/, getPrediction),
  post('predictions.cancel', /^\/v1\/predictions\/([^/]+)\/cancel$/, cancelPrediction),
  publicRoute('predictions.stream', 'GET', /^\/v1\/streams\/([^/]+)$/, streamPrediction),
  get('webhooks.secret', '/v1/webhooks/default/secret', getWebhookSecret),

  post('files.create', '/v1/files', createFile, SHARED),
  get('files', '/v1/files', listFiles, SHARED),
  get('files.get', /^\/v1\/files\/([^/]+)$/, getFile, SHARED),
  get('files.content', /^\/v1\/files\/([^/]+)\/content$/, getFileContent, SHARED),
  remove('files.delete', /^\/v1\/files\/([^/]+)$/, deleteFile, SHARED),
  publicRoute('outputs.get', 'GET', /^\/v1\/outputs\/([^/]+)$/, getOutput),

  get('management.generation', '/v1/management/generation', getGeneration, { keys: ALL }),
  get('generation', '/v1/generation', getGenerationAtOldPath, { keys: ALL }),
  get('management.balance', '/v1/management/payg/balance', getBalance, { keys: ['management', 'pay-as-you-go'] }),
  get('management.subscription', '/v1/management/subscription/detail', getSubscription, { keys: ['management'] }),
  ...managementRoutes,

  publicRoute('console', 'GET', /^\/console(?:\/(.*))?$/, getConsole),
  // Claude Code opens its connection with this before the first prompt.
  publicRoute('hello', 'HEAD', '/api/hello', () => new Response(null, { status: 200 }), 'messages'),
  publicRoute('openapi', 'GET', '/openapi.json', getOpenApi),
  publicRoute('livez', 'GET', '/livez', () => new Response('ok\n')),
  publicRoute('readyz', 'GET', '/readyz', getReadiness),
]

const literal = new Map<string, Route>()
for (const route of routes) if (typeof route.path === 'string') literal.set(`${route.method} ${route.path}`, route)
const patterns = routes.filter((route): route is Route & { path: RegExp } => route.path instanceof RegExp)

type Match = { route: Route; params: (string | undefined)[] }

/**
 * Method and path -> the row, and the groups of its path. HEAD finds the row of GET: the runtime sends no body then.
 * Throws 404, or 405 where another method would match.
 */
export function match(method: string, path: string): Match {
  const found = find(method, path) ?? (method === 'HEAD' ? find('GET', path) : undefined)
  if (found !== undefined) return found
  if (method === 'POST' && isUnservedMethod(path))
    throw notFound(
      method,
      path,
      'The methods of a model are :generateContent, :streamGenerateContent and :countTokens.',
    )
  const others = routes.filter((route) => isPath(route, path)).map((route) => route.method)
  if (others.length > 0) throw wrongMethod(method, path, [...new Set(others)])
  const meant = meantPath(path)
  const whole = isManagement(path) ? managementAdvice() : GENERATION_ADVICE
  throw notFound(method, path, meant === undefined ? whole : `Did you mean ${meant}?`)
}

const GENERATION_ADVICE =
  'The API is at /v1/chat/completions, /v1/responses, /v1/messages, ' +
  '/v1/publishers/{provider}/models/{model}:generateContent, /v1/images/generations, /v1/predictions, ' +
  '/v1/files and /v1/models.'

const MANAGEMENT = '/v1/management/'

const isManagement = (path: string): boolean => `${path}/`.startsWith(MANAGEMENT)

/** Names the first segments below the base of the management API. */
function managementAdvice(): string {
  const paths = routes.map((route) => ('template' in route ? route.template : String(route.path))).filter(isManagement)
  const names = [...new Set(paths.map((path) => path.split('/')[3]))].sort().join(', ')
  return `The management API is at ${MANAGEMENT} with ${names}; /openapi.json has all of it.`
}

function find(method: string, path: string): Match | undefined {
  const exact = literal.get(`${method} ${path}`)
  if (exact !== undefined) return { route: exact, params: [] }
  for (const route of patterns) {
    const groups = route.method === method ? route.path.exec(path) : null
    if (groups !== null) return { route, params: groups.slice(1).map(decoded) }
  }
  return undefined
}

/** True for a method of Google's API behind a model, such as `:embedContent`, which is no model to GET. */
function isUnservedMethod(path: string): boolean {
  const colon = path.lastIndexOf(':')
  const method = path.slice(colon + 1)
  return path.lastIndexOf('/models/', colon) >= 0 && !METHODS.includes(method) && METHOD.test(method)
}

const METHOD = /^(?:predict|[a-z]+[A-Z])\w*$/

const notFound = (method: string, path: string, advice: string): GatewayError =>
  new GatewayError('not_found', `No route for ${method} ${path.slice(0, 200)}. ${advice}`)

const wrongMethod = (method: string, path: string, others: readonly string[]): GatewayError =>
  new GatewayError('method_not_allowed', `${path.slice(0, 200)} takes ${others.join(' or ')}, not ${method}.`, {
    headers: { allow: others.flatMap((other) => (other === 'GET' ? ['GET', 'HEAD'] : [other])).join(', ') },
  })

/** Paths of more segments are not searched for one that is known. */
const SEGMENTS_MAX = 12

/** The known path that a base URL with a part missing, doubled or added turned into this one. */
function meantPath(path: string): string | undefined {
  const segments = path
    .slice(0, 200)
    .split('/')
    .filter((segment) => segment !== '')
  if (segments.length > SEGMENTS_MAX) return undefined
  // A part that is too much comes first: behind /v1/, the path of a model's method may begin with anything.
  for (const base of ['/', '/v1/', '/v1beta/'])
    for (let skipped = 0; skipped < segments.length; skipped++) {
      const candidate = base + segments.slice(skipped).join('/')
      if (candidate !== path && routes.some((route) => isPath(route, candidate))) return candidate
    }
  return isManagement(path) ? meantManagementPath(path) : undefined
}

/** The known path of the management API that a slip turned into this one. */
function meantManagementPath(path: string): string | undefined {
  const names = [...literal.values()]
    .map((route) => route.path as string)
    .filter((known) => isManagement(known) && known.split('/').length === path.split('/').length)
    .map((known) => known.slice(MANAGEMENT.length))
  const [name] = nearest(path.slice(MANAGEMENT.length), names, 1)
  return name === undefined ? undefined : MANAGEMENT + name
}

const isPath = ({ path }: Route, candidate: string): boolean =>
  typeof path === 'string' ? path === candidate : path.test(candidate)

const decoded = (group: string | undefined): string | undefined => {
  if (group === undefined) return undefined
  try {
    return decodeURIComponent(group)
  } catch {
    throw new GatewayError('not_found', 'The path contains a malformed percent-encoding.')
  }
}

/**
 * The error format of a request: that of its route; on a shared route, and on a path that matches none, that of its
 * client by the headers that SDKs send, then by the path, else OpenAI's.
 */
export function errorFormatOf(route: Route | undefined, path: string, headers: Headers): ProtocolName {
  if (route !== undefined && route.errorFormat !== 'client') return route.errorFormat
  const all = Object.values(protocols)
  const owner =
    all.find(({ serve }) => serve.ownsHeaders?.(headers) === true) ??
    (route === undefined ? all.find(({ serve }) => serve.ownsPath?.(path) === true) : undefined)
  return owner?.name ?? 'chat.completions'
}

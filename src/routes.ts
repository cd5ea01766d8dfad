import type { KeyKind } from './config/terms.ts'
import type { InboundRequest, AppContext } from './context.ts'
import { countGeminiTokens, countMessagesTokens } from './endpoints/count-tokens.ts'
import { getBalance, getGeneration, getGenerationAtOldPath, getSubscription } from './endpoints/management.ts'
import {
  getGoogleModel,
  getModel,
  getPublisherModel,
  listGoogleModels,
  listModels,
  listPublisherModels,
} from './endpoints/models.ts'
import { createFile, deleteFile, getFile, getFileContent, listFiles } from './endpoints/files/files.ts'
import { getOutput } from './endpoints/outputs.ts'
import { cancelPrediction, createPrediction, getPrediction, listPredictions } from './endpoints/predictions/routes.ts'
import { streamPrediction } from './endpoints/predictions/stream.ts'
import { getWebhookSecret } from './endpoints/predictions/webhooks.ts'
import { cancelResponse, deleteResponse, getResponse, listInputItems, refuseUpgrade } from './endpoints/responses.ts'
import { GatewayError } from './error.ts'
import { generate } from './pipeline/generate.ts'
import type { ProtocolName } from './generation/request.ts'
import { resolveMedia } from './pipeline/media.ts'

/** One row of the table: who may ask for what, who answers, and in whose words a failure is told. */
export type Route = {
  /** Name of the endpoint: each has its own per-minute counter. */
  name: string
  method: string
  /** A literal path, or an expression whose groups become `call.params`, percent-decoded. */
  path: string | RegExp
  /** Whose error shape this route speaks. */
  shape: ProtocolName
  /** Kinds of key allowed; `public` asks for none. */
  keys: readonly KeyKind[] | 'public'
  answer(app: AppContext, call: InboundRequest): Promise<Response> | Response
}

const USERS: readonly KeyKind[] = ['pay-as-you-go', 'subscription']
const ALL: readonly KeyKind[] = [...USERS, 'management']

/**
 * Every form in which Google's clients name a model's method: Gemini API, Vertex AI with and without project, and
 * without `models/`.
 */
const googleMethod = (method: string): RegExp =>
  new RegExp(
    `^/v1(?:beta1?|alpha)?/(?:projects/[^/]+/locations/[^/]+/)?(?:publishers/([^/]+)/models/|models/)?([^:]+(?::[^:/]+)*):${method}$`,
  )

/** Before a name: asking for a method with GET is a 405, not a model of that name. */
const NO_METHOD = '(?!.*:(?:generateContent|streamGenerateContent|countTokens)$)'

/** Where Google's clients in their Vertex AI mode look for models. */
const publisherModels = (end: string): RegExp =>
  new RegExp(`^/v1(?:beta1?|alpha)?/(?:projects/[^/]+/locations/[^/]+/)?publishers/([^/]+)/models${end}`)

const generation = (name: string, path: string, shape: ProtocolName): Route[] =>
  ['', '/relay'].map((prefix) => ({
    name: prefix + name,
    method: 'POST',
    path: prefix + path,
    shape,
    keys: USERS,
    answer: (app, call) => generate(app, call, shape),
  }))

const gemini = (name: string, stream: boolean): Route => ({
  name,
  method: 'POST',
  path: googleMethod(name),
  shape: 'generateContent',
  keys: USERS,
  answer: (app, call) => {
    readGooglePath(call, stream)
    return generate(app, call, 'generateContent')
  },
})

function readGooglePath(call: InboundRequest, stream: boolean): void {
  const [publisher, model] = call.params
  call.fromPath = { model: publisher === undefined ? model! : `${publisher}/${model}`, stream }
  call.jsonArray = stream && call.query.get('alt') !== 'sse'
}

export const routes: readonly Route[] = [
  ...generation('chat.completions', '/v1/chat/completions', 'chat.completions'),
  ...generation('responses', '/v1/responses', 'responses'),
  ...generation('messages', '/v1/messages', 'messages'),
  ...generation('images', '/v1/images/generations', 'images'),
  gemini('generateContent', false),
  gemini('streamGenerateContent', true),
  ...['', '/relay'].map(
    (prefix): Route => ({
      name: `${prefix}messages.count_tokens`,
      method: 'POST',
      path: `${prefix}/v1/messages/count_tokens`,
      shape: 'messages',
      keys: USERS,
      answer: (app, call) => countMessagesTokens(app, call, resolveMedia),
    }),
  ),
  {
    name: 'countTokens',
    method: 'POST',
    path: googleMethod('countTokens'),
    shape: 'generateContent',
    keys: USERS,
    answer: (app, call) => {
      readGooglePath(call, false)
      return countGeminiTokens(app, call, resolveMedia)
    },
  },
  {
    name: 'responses.upgrade',
    method: 'GET',
    path: '/v1/responses',
    shape: 'responses',
    keys: USERS,
    answer: refuseUpgrade,
  },
  {
    name: 'responses.get',
    method: 'GET',
    path: /^\/v1\/responses\/([^/]+)$/,
    shape: 'responses',
    keys: USERS,
    answer: getResponse,
  },
  {
    name: 'responses.cancel',
    method: 'POST',
    path: /^\/v1\/responses\/([^/]+)\/cancel$/,
    shape: 'responses',
    keys: USERS,
    answer: cancelResponse,
  },
  {
    name: 'responses.delete',
    method: 'DELETE',
    path: /^\/v1\/responses\/([^/]+)$/,
    shape: 'responses',
    keys: USERS,
    answer: deleteResponse,
  },
  {
    name: 'responses.input_items',
    method: 'GET',
    path: /^\/v1\/responses\/([^/]+)\/input_items$/,
    shape: 'responses',
    keys: USERS,
    answer: listInputItems,
  },
  { name: 'models', method: 'GET', path: '/v1/models', shape: 'chat.completions', keys: USERS, answer: listModels },
  {
    name: 'models.get',
    method: 'GET',
    path: /^\/v1\/models\/(.+)$/,
    shape: 'chat.completions',
    keys: USERS,
    answer: getModel,
  },
  {
    name: 'models',
    method: 'GET',
    path: /^\/v1(?:beta1?|alpha)\/models$/,
    shape: 'generateContent',
    keys: USERS,
    answer: listGoogleModels,
  },
  {
    name: 'models.get',
    method: 'GET',
    path: new RegExp(`^/v1(?:beta1?|alpha)/models/${NO_METHOD}(.+)$`),
    shape: 'generateContent',
    keys: USERS,
    answer: getGoogleModel,
  },
  {
    name: 'models.published',
    method: 'GET',
    path: publisherModels('$'),
    shape: 'generateContent',
    keys: USERS,
    answer: listPublisherModels,
  },
  {
    name: 'models.published.get',
    method: 'GET',
    path: publisherModels(`/${NO_METHOD}(.+)$`),
    shape: 'generateContent',
    keys: USERS,
    answer: getPublisherModel,
  },
  {
    name: 'predictions',
    method: 'POST',
    path: '/v1/predictions',
    shape: 'chat.completions',
    keys: USERS,
    answer: createPrediction,
  },
  {
    name: 'models.predictions',
    method: 'POST',
    path: /^\/v1\/models\/(.+)\/predictions$/,
    shape: 'chat.completions',
    keys: USERS,
    answer: createPrediction,
  },
  {
    name: 'predictions.list',
    method: 'GET',
    path: '/v1/predictions',
    shape: 'chat.completions',
    keys: USERS,
    answer: listPredictions,
  },
  {
    name: 'predictions.get',
    method: 'GET',
    path: /^\/v1\/predictions\/([^/]+)$/,
    shape: 'chat.completions',
    keys: USERS,
    answer: getPrediction,
  },
  {
    name: 'predictions.cancel',
    method: 'POST',
    path: /^\/v1\/predictions\/([^/]+)\/cancel$/,
    shape: 'chat.completions',
    keys: USERS,
    answer: cancelPrediction,
  },
  {
    name: 'predictions.stream',
    method: 'GET',
    path: /^\/v1\/streams\/([^/]+)$/,
    shape: 'chat.completions',
    keys: 'public',
    answer: streamPrediction,
  },
  {
    name: 'webhooks.secret',
    method: 'GET',
    path: '/v1/webhooks/default/secret',
    shape: 'chat.completions',
    keys: USERS,
    answer: getWebhookSecret,
  },
  {
    name: 'files.create',
    method: 'POST',
    path: '/v1/files',
    shape: 'chat.completions',
    keys: USERS,
    answer: createFile,
  },
  { name: 'files', method: 'GET', path: '/v1/files', shape: 'chat.completions', keys: USERS, answer: listFiles },
  {
    name: 'files.get',
    method: 'GET',
    path: /^\/v1\/files\/([^/]+)$/,
    shape: 'chat.completions',
    keys: USERS,
    answer: getFile,
  },
  {
    name: 'files.content',
    method: 'GET',
    path: /^\/v1\/files\/([^/]+)\/content$/,
    shape: 'chat.completions',
    keys: USERS,
    answer: getFileContent,
  },
  {
    name: 'files.delete',
    method: 'DELETE',
    path: /^\/v1\/files\/([^/]+)$/,
    shape: 'chat.completions',
    keys: USERS,
    answer: deleteFile,
  },
  {
    name: 'outputs.get',
    method: 'GET',
    path: /^\/v1\/outputs\/([^/]+)$/,
    shape: 'chat.completions',
    keys: 'public',
    answer: getOutput,
  },
  {
    name: 'management.generation',
    method: 'GET',
    path: '/v1/management/generation',
    shape: 'chat.completions',
    keys: ALL,
    answer: getGeneration,
  },
  {
    name: 'generation',
    method: 'GET',
    path: '/v1/generation',
    shape: 'chat.completions',
    keys: ALL,
    answer: getGenerationAtOldPath,
  },
  {
    name: 'management.balance',
    method: 'GET',
    path: '/v1/management/payg/balance',
    shape: 'chat.completions',
    keys: ['management', 'pay-as-you-go'],
    answer: getBalance,
  },
  {
    name: 'management.subscription',
    method: 'GET',
    path: '/v1/management/subscription/detail',
    shape: 'chat.completions',
    keys: ['management'],
    answer: getSubscription,
  },
  // Claude Code opens its connection with this before the first prompt.
  {
    name: 'hello',
    method: 'HEAD',
    path: '/api/hello',
    shape: 'messages',
    keys: 'public',
    answer: () => new Response(null, { status: 200 }),
  },
  {
    name: 'livez',
    method: 'GET',
    path: '/livez',
    shape: 'chat.completions',
    keys: 'public',
    answer: () => new Response('ok\n'),
  },
  {
    name: 'readyz',
    method: 'GET',
    path: '/readyz',
    shape: 'chat.completions',
    keys: 'public',
    answer: (app) => (app.draining ? new Response('draining\n', { status: 503 }) : new Response('ok\n')),
  },
]

const literal = new Map<string, Route>()
for (const route of routes) if (typeof route.path === 'string') literal.set(`${route.method} ${route.path}`, route)
const patterns = routes.filter((route): route is Route & { path: RegExp } => route.path instanceof RegExp)

/** Method and path -> the row, with what its path says. Throws 404, or 405 where another method would do. */
export function match(method: string, path: string): { route: Route; params: (string | undefined)[] } {
  const exact = literal.get(`${method} ${path}`)
  if (exact !== undefined) return { route: exact, params: [] }
  for (const route of patterns) {
    const groups = route.method === method ? route.path.exec(path) : null
    if (groups !== null) return { route, params: groups.slice(1).map(decoded) }
  }
  const others = routes
    .filter((route) => (typeof route.path === 'string' ? route.path === path : route.path.test(path)))
    .map((route) => route.method)
  if (others.length > 0)
    throw new GatewayError(
      'method_not_allowed',
      `${path.slice(0, 200)} takes ${[...new Set(others)].join(' or ')}, not ${method}.`,
    )
  throw new GatewayError(
    'not_found',
    `There is nothing at ${method} ${path.slice(0, 200)}. The API is at /v1/chat/completions, /v1/responses, /v1/messages, /v1/publishers/{provider}/models/{model}:generateContent, /v1/images/generations, /v1/predictions, /v1/files and /v1/models.`,
  )
}

const decoded = (group: string | undefined): string | undefined => {
  if (group === undefined) return undefined
  try {
    return decodeURIComponent(group)
  } catch {
    throw new GatewayError('not_found', 'The path holds a malformed percent-encoding.')
  }
}

/** In whose words a failure on a path that matched no row is told. */
export const shapeOf = (path: string): ProtocolName =>
  path.includes('/messages') || path.startsWith('/api/')
    ? 'messages'
    : /:\w+$/.test(path) || path.startsWith('/v1beta')
      ? 'generateContent'
      : 'chat.completions'

import { asGatewayError, GatewayError, invalid } from '../../error.ts'
import type { GenerationRequest, ProtocolName } from '../../generation/request.ts'
import { listen, readText } from '../../http/serve.ts'
import { protocols } from '../../protocols/index.ts'
import type { RawRequest } from '../../protocols/protocol.ts'
import { insteadOf, JSON_HEADERS, streamedAnswer, wholeAnswer, type Telling } from './answer.ts'
import { readConversation } from './conversation.ts'
import { eventsOf } from './events.ts'
import { listModels } from './models.ts'
import { digest, planAnswer } from './plan.ts'
import { idOf, predictionAt, readCreate, writePredictionError } from './predictions.ts'
import { routeOf, type Route } from './routes.ts'
import { readDirectives, scriptOf } from './script.ts'
import { promptTokens, usageOf } from './tokens.ts'

const MAX_BODY_BYTES = 64 * 1024 * 1024

/**
 * A provider that is none: answers in every protocol, deterministically, as the prompt's directives ask
 * (docs/sandbox.md).
 * Takes a request as a provider gets it and never rejects but with the signal's reason when the request is aborted.
 */
export async function sandbox(request: Request): Promise<Response> {
  let route: Route | undefined
  try {
    const url = new URL(request.url)
    route = routeOf(request.method, url)
    checkKey(request.headers, url)
    if (route.kind === 'models') return Response.json(listModels(route.model, url, request.headers))
    if (route.kind === 'prediction' && route.id !== undefined)
      return Response.json(foundPrediction(route.id, url.origin + route.base, route.cancel))
    const text = await readText(request, MAX_BODY_BYTES)
    if (route.kind === 'prediction') return await createPrediction(text, route, url.origin + route.base, request.signal)
    const rawRequest = wireOf(text, route, request.headers)
    if (route.kind === 'count') return Response.json(countedTokens(rawRequest, route))
    return await generate(rawRequest, route, url.pathname + url.search, request.signal)
  } catch (error) {
    if (request.signal.aborted) throw error
    return refusal(asGatewayError(error), route)
  }
}

/** The sandbox on a socket of its own, for tests and benchmarks. Throws Bun's own error when the port is taken. */
export function serveSandbox(options: { host: string; port: number }): { url: string; stop(): Promise<void> } {
  const listening = listen({ ...options, fetch: sandbox })
  return { url: listening.url, stop: () => listening.stop(0) }
}

/** Any key will do, and none: but one that says it is wrong is refused, so that this can be tested too. */
function checkKey(headers: Headers, url: URL): void {
  const keys = [
    headers.get('authorization'),
    headers.get('x-api-key'),
    headers.get('x-goog-api-key'),
    url.searchParams.get('key'),
  ]
  if (keys.some((key) => key?.toLowerCase().includes('wrong') === true))
    throw new GatewayError('invalid_api_key', 'The API key is wrong: the sandbox refuses any key that says so.')
}

function wireOf(text: string, route: Route & { kind: 'generate' | 'count' }, headers: Headers): RawRequest {
  return {
    body: jsonOf(text),
    text,
    headers,
    ...(route.model === undefined ? {} : { model: route.model }),
    ...(route.kind === 'generate' && route.stream !== undefined ? { stream: route.stream } : {}),
  }
}

function jsonOf(text: string): Record<string, unknown> {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw invalid('body', 'must be JSON')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid('body', 'must be a JSON object')
  return body as Record<string, unknown>
}

async function generate(
  rawRequest: RawRequest,
  route: Route & { kind: 'generate' },
  path: string,
  signal: AbortSignal,
): Promise<Response> {
  const protocol = protocols[route.protocol]
  const request = protocol.serve.readRequest(rawRequest)
  checkModel(request)
  if (request.protocol === 'images' && rawRequest.body['response_format'] === 'url')
    throw invalid('response_format', "must be 'b64_json': the sandbox keeps no pictures that an address could lead to")
  const conversation = readConversation(request, rawRequest.body)
  const { act, script } = conversation
  const instead = await insteadOf(act, signal)
  if (instead !== undefined) return instead
  const plan = planAnswer(request, conversation, { path, text: rawRequest.text, headers: rawRequest.headers })
  const id = protocol.serve.idPrefix + digest(path + rawRequest.text, 24)
  const usage = script.noUsage === true ? undefined : usageOf(request, plan, act.usage)
  const telling: Telling = {
    protocol,
    act,
    signal,
    context: {
      rawRequest,
      request,
      responseIdentity: { id, model: request.model, createdAt: Math.floor(Date.now() / 1000) },
    },
    events: eventsOf(plan, id, request.model, usage, script.chunk),
    ...(script.paceMs === undefined ? {} : { paceMs: script.paceMs }),
  }
  const response =
    request.stream === (act.otherForm === true)
      ? wholeAnswer(telling)
      : streamedAnswer(telling, route.array === true ? 'array' : 'events')
  response.headers.set('x-request-id', `req_${id}`)
  response.headers.set('request-id', `req_${id}`)
  return response
}

/**
 * Every model name is served, so that an application can keep its own; a name with `missing` in it is one that does not
 * exist.
 */
function checkModel({ model }: GenerationRequest): void {
  if (model.includes('missing'))
    throw new GatewayError('model_not_found', `The model '${model}' does not exist.`, { param: 'model' })
}

/** Directives in the prompt say how the create itself is answered. */
async function createPrediction(
  text: string,
  { model }: Route & { kind: 'prediction' },
  base: string,
  signal: AbortSignal,
): Promise<Response> {
  const asked = readCreate(jsonOf(text), model)
  const { prompt } = asked.input
  const instead =
    typeof prompt === 'string'
      ? await insteadOf(scriptOf(readDirectives(prompt).directives).acts[0]!, signal)
      : undefined
  if (instead !== undefined) return instead
  const now = Date.now()
  return Response.json(predictionAt(idOf(asked, now), base, now), { status: 201 })
}

/** When predictions were cancelled, Unix milliseconds by id: the latest so many, in the order of cancelling. */
const canceled = new Map<string, number>()
const CANCELED_MAX = 10_000

function foundPrediction(id: string, base: string, cancel: boolean): object {
  const now = Date.now()
  const found = predictionAt(id, base, now, canceled.get(id))
  if (!cancel || found['completed_at'] !== null) return found
  if (canceled.size >= CANCELED_MAX) canceled.delete(canceled.keys().next().value!)
  canceled.set(id, now)
  return predictionAt(id, base, now, now)
}

function countedTokens(rawRequest: RawRequest, route: Route & { kind: 'count' }): object {
  if (route.protocol === 'messages') {
    const body = { max_tokens: 1, ...rawRequest.body }
    return {
      input_tokens: promptTokens(
        protocols.messages.serve.readRequest({ ...rawRequest, body, text: JSON.stringify(body) }),
      ),
    }
  }
  const inner = rawRequest.body['generateContentRequest']
  const body = typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>) : rawRequest.body
  return {
    totalTokens: promptTokens(
      protocols.generateContent.serve.readRequest({ ...rawRequest, body, text: JSON.stringify(body) }),
    ),
  }
}

function refusal(error: GatewayError, route: Route | undefined): Response {
  const requestId = `req_${digest(error.message, 24)}`
  const name: ProtocolName =
    route === undefined || route.kind === 'models' || route.kind === 'prediction' ? 'chat.completions' : route.protocol
  const { status, body } =
    route?.kind === 'prediction'
      ? writePredictionError(error)
      : { status: error.status, body: protocols[name].serve.writeError(error, requestId) }
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      ...JSON_HEADERS,
      'x-request-id': requestId,
      'request-id': requestId,
      ...(error.retryAfterSeconds === undefined ? {} : { 'retry-after': String(error.retryAfterSeconds) }),
    },
  })
}

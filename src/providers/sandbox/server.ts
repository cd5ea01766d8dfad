import { asGatewayError, GatewayError, invalid } from '../../error.ts'
import type { GenerationRequest, ProtocolName } from '../../generation/request.ts'
import { listen, readText } from '../../http/serve.ts'
import { refusalOf } from '../../protocols/fields.ts'
import { protocols } from '../../protocols/index.ts'
import type { RawRequest } from '../../protocols/protocol.ts'
import { readConversation } from './conversation.ts'
import { digest } from './digest.ts'
import { eventsOf } from './events.ts'
import { listModels } from './models.ts'
import { planResponse } from './plan.ts'
import { encodeId, predictionAt, readCreate, writePredictionError } from './predictions.ts'
import { readDirectives, scriptOf } from './read-script.ts'
import { JSON_HEADERS, jsonResponse, responseInstead, streamResponse, type UnwrittenResponse } from './response.ts'
import { routeOf, type Route } from './routes.ts'
import { countTokens, promptTokens, usageOf } from './tokens.ts'

type RouteOf<K extends Route['kind']> = Route & { kind: K }

const MAX_BODY_BYTES = 64 * 1024 * 1024

/**
 * A simulated provider: responds in every protocol, deterministically, as the directives in the prompt say
 * (docs/sandbox.md). Errors become responses; it rejects only with the signal's reason when the request is aborted.
 */
export async function sandbox(request: Request): Promise<Response> {
  let route: Route | undefined
  try {
    const url = new URL(request.url)
    route = routeOf(request.method, url)
    checkKey(request.headers, url)
    return await handle(request, route, url)
  } catch (error) {
    if (request.signal.aborted) throw error
    return errorResponse(asGatewayError(error), route)
  }
}

async function handle(request: Request, route: Route, url: URL): Promise<Response> {
  if (route.kind === 'models') return Response.json(listModels(route.model, url, request.headers))
  if (route.kind === 'prediction' && route.id !== undefined)
    return Response.json(existingPrediction(route.id, url.origin + route.base, route.cancel))
  const text = await readText(request, MAX_BODY_BYTES)
  if (route.kind === 'prediction') return createPrediction(text, route, url.origin + route.base, request.signal)
  const rawRequest = readRawRequest(text, route, request.headers)
  if (route.kind === 'count') return Response.json(tokenCount(rawRequest, route))
  if (route.kind === 'compact') return Response.json(compacted(rawRequest))
  return generate(rawRequest, route, url.pathname + url.search, request.signal)
}

/** The sandbox on a socket of its own, for tests and benchmarks. Throws Bun's own error when the port is taken. */
export function serveSandbox(options: { host: string; port: number }): { url: string; stop(): Promise<void> } {
  const listening = listen({ ...options, fetch: sandbox })
  return { url: listening.url, stop: () => listening.stop(0) }
}

/** Any key is accepted, and none, except keys that contain `wrong`, so that the refusal can be tested. */
function checkKey(headers: Headers, url: URL): void {
  const keys = [
    headers.get('authorization'),
    headers.get('x-api-key'),
    headers.get('x-goog-api-key'),
    url.searchParams.get('key'),
  ]
  if (keys.some((key) => key?.toLowerCase().includes('wrong') === true))
    throw new GatewayError('invalid_api_key', "Invalid API key: the sandbox rejects keys that contain 'wrong'.")
}

function readRawRequest(text: string, route: RouteOf<'generate' | 'count' | 'compact'>, headers: Headers): RawRequest {
  return {
    body: parseObject(text),
    text,
    headers,
    ...(route.kind !== 'compact' && route.model !== undefined ? { model: route.model } : {}),
    ...(route.kind === 'generate' && route.stream !== undefined ? { stream: route.stream } : {}),
  }
}

function parseObject(text: string): Record<string, unknown> {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw invalid('body', 'must be JSON')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid('body', 'must be a JSON object')
  return body as Record<string, unknown>
}

/** Throws for a value that Sluice does not know, as a provider that documents no more. */
function readWhole(rawRequest: RawRequest, protocol: ProtocolName): GenerationRequest {
  const request = protocols[protocol].serve.readRequest(rawRequest)
  const refusal = refusalOf(request)
  if (refusal !== undefined) throw refusal
  return request
}

async function generate(
  rawRequest: RawRequest,
  route: RouteOf<'generate'>,
  path: string,
  signal: AbortSignal,
): Promise<Response> {
  const protocol = protocols[route.protocol]
  const request = readWhole(rawRequest, route.protocol)
  checkModel(request)
  if (request.protocol === 'images' && rawRequest.body['response_format'] === 'url')
    throw invalid('response_format', "must be 'b64_json': the sandbox does not store images")
  const conversation = readConversation(request, rawRequest.body)
  const { scripted, script } = conversation
  const instead = await responseInstead(scripted, signal)
  if (instead !== undefined) return instead
  const plan = planResponse(request, conversation, { path, text: rawRequest.text, headers: rawRequest.headers })
  const id = protocol.serve.idPrefix + digest(path + rawRequest.text)
  const usage = script.noUsage === true ? undefined : usageOf(request, plan, scripted.usage)
  const unwritten: UnwrittenResponse = {
    protocol,
    scripted,
    signal,
    context: {
      rawRequest,
      request,
      responseIdentity: { id, model: request.model, createdAt: Math.floor(Date.now() / 1000) },
    },
    events: eventsOf(plan, id, request.model, usage, script.wordsPerDelta),
    ...(script.paceMs === undefined ? {} : { paceMs: script.paceMs }),
  }
  const isStreamed = request.stream !== (scripted.swapFormat === true)
  const response = isStreamed
    ? streamResponse(unwritten, route.array === true ? 'json-array' : 'sse')
    : jsonResponse(unwritten)
  response.headers.set('x-request-id', `req_${id}`)
  response.headers.set('request-id', `req_${id}`)
  return response
}

/** Every model name is accepted, so that an application can keep its own, except names that contain `missing`. */
function checkModel({ model }: GenerationRequest): void {
  if (model.includes('missing'))
    throw new GatewayError('model_not_found', `The model '${model}' does not exist.`, { param: 'model' })
}

/** Directives in the prompt apply to the response of the create itself. */
async function createPrediction(
  text: string,
  { model }: RouteOf<'prediction'>,
  base: string,
  signal: AbortSignal,
): Promise<Response> {
  const create = readCreate(parseObject(text), model)
  const { prompt } = create.input
  if (typeof prompt === 'string') {
    const instead = await responseInstead(scriptOf(readDirectives(prompt).directives).responses[0]!, signal)
    if (instead !== undefined) return instead
  }
  const now = Date.now()
  return Response.json(predictionAt(encodeId(create, now), base, now), { status: 201 })
}

/** Times of cancellation, Unix milliseconds by prediction id, oldest first; the oldest are forgotten at the limit. */
const cancellations = new Map<string, number>()
const MAX_CANCELLATIONS = 10_000

function existingPrediction(id: string, base: string, cancel: boolean): object {
  const now = Date.now()
  const prediction = predictionAt(id, base, now, cancellations.get(id))
  if (!cancel || prediction['completed_at'] !== null) return prediction
  if (cancellations.size >= MAX_CANCELLATIONS) cancellations.delete(cancellations.keys().next().value!)
  cancellations.set(id, now)
  return predictionAt(id, base, now, now)
}

function tokenCount(rawRequest: RawRequest, route: RouteOf<'count'>): object {
  const count = (body: Record<string, unknown>): number =>
    promptTokens(readWhole({ ...rawRequest, body, text: JSON.stringify(body) }, route.protocol))
  if (route.protocol === 'messages') return { input_tokens: count({ max_tokens: 1, ...rawRequest.body }) }
  if (route.protocol === 'responses') return { object: 'response.input_tokens', input_tokens: count(rawRequest.body) }
  const inner = rawRequest.body['generateContentRequest']
  const isWrapped = typeof inner === 'object' && inner !== null
  return { totalTokens: count(isWrapped ? (inner as Record<string, unknown>) : rawRequest.body) }
}

/** The conversation as one item, with the usage of the request. */
function compacted(rawRequest: RawRequest): object {
  const request = readWhole(rawRequest, 'responses')
  checkModel(request)
  const hash = digest(rawRequest.text)
  const [input, output] = [promptTokens(request), countTokens(hash)]
  return {
    id: `resp_${hash}`,
    object: 'response.compaction',
    created_at: Math.floor(Date.now() / 1000),
    output: [{ id: `cmp_${hash}`, type: 'compaction', encrypted_content: hash }],
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    },
  }
}

function errorResponse(error: GatewayError, route: Route | undefined): Response {
  const requestId = `req_${digest(error.message)}`
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

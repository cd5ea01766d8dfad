import { parseWithExact, stringifyAs } from '../json/exact.ts'
import { Watched } from '../json/body-scan.ts'
import { tryParse } from '../json/parse.ts'
import { isTooDeep } from '../json/scan.ts'
import { spliceBytes } from '../json/splice-bytes.ts'
import { stringifyBody } from '../json/stringify-body.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import type { GenerationEvent } from '../generation/event.ts'
import { readAll, send, type IncomingResponse, type TakeMemory, type Timeouts } from '../http/call.ts'
import type { RequestBody } from '../http/encode-request.ts'
import type { CallSignal } from '../http/connection.ts'
import { scrub } from '../log/secrets.ts'
import { textOf } from '../protocols/element-memory.ts'
import { present } from '../protocols/fields.ts'
import { refuseNative } from '../protocols/provider-native.ts'
import { protocols } from '../protocols/index.ts'
import type {
  Protocol,
  Reader,
  RequestContext,
  ResponseContext,
  Target,
  TranslationContext,
  UnreadContext,
} from '../protocols/protocol.ts'
import type { SchemaCache } from '../protocols/schema/cache.ts'
import { cutsPassages } from '../protocols/passages.ts'
import { type Loss, LossReport, Translation } from '../protocols/translation.ts'
import { cutsAtPassages, transformed, transformOf, type Undo } from '../protocols/transforms.ts'
import { checkDepth } from '../protocols/upstream-error.ts'
import type { TraceHeaders } from '../telemetry/trace.ts'
import { allowedLimit } from './allowed-limit.ts'
import type { Endpoint } from './catalogue.ts'
import { retryAfterMs } from './routing/provider-limits.ts'
import { callSandbox } from './sandbox-process.ts'
import { UpstreamRefusal } from './upstream-refusal.ts'

/** A provider's response from its first byte on. */
export type Upstream<Context extends ResponseContext = ResponseContext> = {
  endpoint: Endpoint
  protocol: Protocol
  /** The client uses the provider's protocol, so frames and fields are passed through. */
  sameProtocol: boolean
  /** The context of the response, with the issuer of its signatures and its losses. */
  context: Context
  incoming: IncomingResponse
  /** Losses of the request, and later of the response. */
  losses: readonly Loss[]
  /** The report that has them. */
  report: LossReport
  /** Undo on each response what the request writer changed. */
  transforms: readonly Undo[]
  /** Number of attempts, including this one. */
  attempts: number
}

const ERROR_BODY_BYTES = 1024 * 1024

/** Records the bodies of calls. */
export type CallRecorder = {
  /** `headers`: without credentials. */
  call(url: string, headers: Readonly<Record<string, string>>, body: RequestBody): RecordedCall
}

/** Gives the response with a body that is recorded as it is read. */
export type RecordedCall = { received(incoming: IncomingResponse): IncomingResponse }

type CallOptions = {
  timeouts: Timeouts
  signal: CallSignal
  onSent: () => void
  traceHeaders?: TraceHeaders | undefined
  recorder?: CallRecorder | undefined
}

/**
 * Sends a request to one endpoint. Throws an UpstreamRefusal for its error response, a GatewayError for a request that
 * could not be written, sent or answered.
 */
export async function callEndpoint(
  endpoint: Endpoint,
  requests: RequestWriter,
  callOptions: CallOptions,
  number: number,
): Promise<Upstream<RequestContext>> {
  const { context: requestContext } = requests
  const protocol = protocols[endpoint.protocol]
  const sameProtocol = requestContext.request.protocol === endpoint.protocol
  const taken = requests.take(endpoint)
  const { url, headers, body, losses, transforms, assumedLimit } = taken instanceof Promise ? await taken : taken
  const context = contextAt(endpoint, protocol, requestContext, losses)
  const recorded = callOptions.recorder?.call(url, headers, body)
  const received = await transport(endpoint)({
    url,
    method: 'POST',
    headers: Object.assign(headers, callOptions.traceHeaders, endpoint.provider.headers, endpoint.credentials),
    body,
    timeouts: callOptions.timeouts,
    signal: callOptions.signal,
    onSent: callOptions.onSent,
  })
  const incoming = recorded === undefined ? received : recorded.received(received)
  if (incoming.status >= 200 && incoming.status < 300)
    return {
      endpoint,
      protocol,
      sameProtocol,
      context,
      incoming,
      losses: losses.losses,
      report: losses,
      transforms,
      attempts: number,
    }
  const refusal = await refusalOf(incoming, endpoint, protocol, sameProtocol, number)
  const missing = protocol.call.missingRoute?.(requestContext.request, incoming.status, refusal.error)
  if (missing !== undefined) throw withoutRoute(refusal, missing)
  if (assumedLimit !== undefined && incoming.status === 400)
    refusal.allowedLimit = allowedLimit(refusal.error.message, assumedLimit)
  throw refusal
}

/** The context of the response: of another protocol it has an issuer and losses, of a fallback model its name. */
function contextAt(
  { target: { provider, model }, fallback }: Endpoint,
  protocol: Protocol,
  context: RequestContext,
  losses: LossReport,
): RequestContext {
  const isSameProtocol = context.request.protocol === protocol.name
  if (isSameProtocol && fallback === undefined) return context
  const responseIdentity = { ...context.responseIdentity, ...present('model', fallback) }
  if (isSameProtocol) return { ...context, responseIdentity }
  const { reasoningFormat } = protocol.call
  return {
    ...context,
    losses,
    responseIdentity: {
      ...responseIdentity,
      issuer: { provider, model },
      ...present('reasoningFormat', reasoningFormat),
    },
  }
}

/** A request for one endpoint; the provider's configured headers and its key are added when it is sent. */
export type PreparedRequest = {
  url: string
  headers: Record<string, string>
  body: RequestBody
  losses: LossReport
  transforms: readonly Undo[]
  /** An output limit that was chosen for a provider that requires one: it may be refused as too high. */
  assumedLimit?: number | undefined
}

/** One client request, as each endpoint is sent it. */
export type RequestWriter = {
  readonly context: RequestContext
  /** Throws a GatewayError if the request cannot be represented in the endpoint's protocol. */
  take(endpoint: Endpoint): PreparedRequest | Promise<PreparedRequest>
}

/** A request that is written once for each endpoint, even if it is inspected before it is sent. */
export class PreparedRequests implements RequestWriter {
  readonly context: RequestContext
  readonly #schemaCache: SchemaCache
  readonly #written = new Map<Target, PreparedRequest>()

  constructor(context: RequestContext, schemaCache: SchemaCache) {
    this.context = context
    this.#schemaCache = schemaCache
  }

  /** Throws a GatewayError if the request cannot be represented in the endpoint's protocol. */
  of(endpoint: Endpoint): PreparedRequest {
    const written = this.#written.get(endpoint.target) ?? prepare(endpoint, this.context, this.#schemaCache)
    this.#written.set(endpoint.target, written)
    return written
  }

  /** The same, and frees its memory: for the call itself. */
  take(endpoint: Endpoint): PreparedRequest {
    const prepared = this.of(endpoint)
    this.#written.delete(endpoint.target)
    return prepared
  }
}

/** Throws a GatewayError if the request cannot be represented in the endpoint's protocol. */
export function prepare(endpoint: Endpoint, context: RequestContext, schemaCache: SchemaCache): PreparedRequest {
  const { protocol: name, baseUrl, target } = endpoint
  const { call } = protocols[name]
  const { request, rawRequest } = context
  const isForwarded = request.protocol === name
  const { headers, body, losses, transforms, assumedLimit } =
    context.settings !== undefined
      ? forwardUnread(context, call, target)
      : isForwarded
        ? forward(context, call, target)
        : translate(endpoint, context, schemaCache)
  return {
    url: baseUrl + call.path(target, request),
    headers: {
      'content-type': 'application/json',
      accept: request.stream ? 'text/event-stream' : 'application/json',
      ...call.headers(isForwarded ? rawRequest : undefined),
      ...headers,
    },
    body,
    losses,
    transforms,
    assumedLimit,
  }
}

type PreparedBody = Pick<PreparedRequest, 'body' | 'losses' | 'transforms' | 'assumedLimit'> & {
  headers?: Record<string, string>
}

/** The bytes of the client's own body, of which Sluice knows only the settings. */
function forwardUnread({ settings, rawRequest }: UnreadContext, call: Protocol['call'], target: Target): PreparedBody {
  const { bytes, scan } = rawRequest.scanned!
  const body = spliceBytes(bytes, scan.members, call.memberChanges!(settings, target))
  return { body, losses: new LossReport(), transforms: [] }
}

function forward(context: TranslationContext, call: Protocol['call'], target: Target): PreparedBody {
  const losses = new LossReport()
  return { body: call.forward(context, target, losses), losses, transforms: [] }
}

function translate(
  { protocol, target }: Endpoint,
  { request, rawRequest }: TranslationContext,
  schemaCache: SchemaCache,
): PreparedBody {
  const { serve } = protocols[request.protocol],
    { call } = protocols[protocol]
  const translation = new Translation(request, target, rawRequest, serve.paths, schemaCache)
  refuseNative(translation)
  // The first of the transforms, since the others change the text in which citations count.
  if (cutsPassages(serve, call, translation.request)) translation.undo({ type: 'cut-at-passages' })
  const body = call.writeRequest(translation)
  const { stop = [] } = translation.request.sampling
  if (stop.length > 0) translation.undo({ type: 'stop-sequences', sequences: stop })
  for (const path of Object.keys(request.extras)) translation.lose('native_field', path)
  const hasLongNumbers = ((rawRequest.scanned?.scan.seen ?? Watched.longNumber) & Watched.longNumber) !== 0
  return {
    body: hasLongNumbers ? stringifyAs(rawRequest.text, body) : stringifyBody(body, textOf),
    losses: translation.report,
    transforms: translation.transforms,
    assumedLimit: translation.assumedLimit,
    headers: translation.headers,
  }
}

/** The endpoint that responded, for the record. */
export const servedBy = ({ target, credential }: Endpoint): { provider: string; model: string; credential?: string } =>
  credential === undefined ? target : { provider: target.provider, model: target.model, credential }

/** The reader of a streamed response, with the transforms of its request. */
export const readerOf = ({ protocol, endpoint, transforms }: Upstream): Reader =>
  transformed(protocol.call.reader(endpoint.target.quirks, cutsAtPassages(transforms)), transforms)

/** The refusal of a provider that lacks the route, with Sluice's error in place of the provider's own. */
function withoutRoute({ provider, attempts, response }: UpstreamRefusal, error: GatewayError): UpstreamRefusal {
  const refusal = new UpstreamRefusal(error, provider, attempts, response && { ...response, native: undefined })
  refusal.lacksRoute = true
  return refusal
}

async function refusalOf(
  incoming: IncomingResponse,
  endpoint: Endpoint,
  protocol: Protocol,
  sameProtocol: boolean,
  number: number,
): Promise<UpstreamRefusal> {
  const received = await readAll(incoming.body, ERROR_BODY_BYTES)
  const body = isTooDeep(received) ? '' : received
  const read = withRetryAfter(protocol.call.readError(incoming.status, body), incoming.headers)
  // Sluice's credentials or format are at fault: nothing may look like a fault of the client (docs/decisions/0002).
  const isOfOperator = incoming.status < 500 && read.code === 'upstream_error'
  const error = isOfOperator
    ? read.with({ message: read.message.replace(/^The provider/, endpoint.provider.name) })
    : read
  // Otherwise a client of the provider's protocol receives the provider's own error. 422 is reserved for Sluice's own
  // limits, and from 600 on no server may respond.
  const native =
    sameProtocol && !isOfOperator && incoming.status < 600 && isJsonObject(body)
      ? { status: incoming.status === 422 ? 400 : incoming.status, body: scrub(body) }
      : undefined
  const { status, headers } = incoming
  return new UpstreamRefusal(error, endpoint.provider.id, number, {
    native,
    status,
    retryAfterMs: retryAfterMs(headers, Date.now()),
  })
}

const isJsonObject = (text: string): boolean => {
  const value = tryParse(text)
  return typeof value === 'object' && value !== null
}

/** Limit on a whole response in memory: a few images in base64. */
const RESPONSE_BYTES = 64 * 1024 * 1024

/** The body of a response that is not streamed. Throws upstream_error above 64 MiB. */
export const readResponseText = ({ incoming }: Upstream, takeMemory?: TakeMemory): Promise<string> =>
  readAll(incoming.body, RESPONSE_BYTES, takeMemory, Number(incoming.headers.get('content-length') ?? 0))

/** A provider's response as far as reading its text needs it. */
type ReadableUpstream = Pick<Upstream, 'protocol' | 'sameProtocol' | 'transforms'> & {
  endpoint: { target: Pick<Target, 'quirks'> }
}

/** A whole response as events. Throws a GatewayError for a body that cannot be read. */
export const readEvents = (upstream: Upstream, text: string): GenerationEvent[] =>
  eventsIn(upstream, parseResponse(text, upstream.protocol))

/** The same, but gives the error where an unreadable body, or one that says that it failed, is passed through. */
export function tryReadEvents(upstream: ReadableUpstream, text: string): GenerationEvent[] | GatewayError {
  const body = parseResponse(text, upstream.protocol)
  try {
    return eventsIn(upstream, body)
  } catch (error) {
    if (!upstream.sameProtocol || typeof body !== 'object' || body === null) throw error
    if ('error' in body && upstream.protocol.call.hasFailed?.(body) !== true) throw error
    return asGatewayError(error)
  }
}

function eventsIn(
  { protocol, endpoint, transforms }: Omit<ReadableUpstream, 'sameProtocol'>,
  body: unknown,
): GenerationEvent[] {
  const events = protocol.call.readResponse(body, endpoint.target.quirks)
  return transformOf(transforms)?.(events) ?? events
}

/**
 * The body of a 200; numbers in tool arguments keep the spelling of the response. Throws upstream_error if it is not
 * JSON or nested too deeply.
 */
export function parseResponse(text: string, protocol?: Protocol): unknown {
  checkDepth(text)
  const name = protocol?.call.argumentsIn
  try {
    return name === undefined ? JSON.parse(text) : parseWithExact(text, name)
  } catch {
    throw new GatewayError('upstream_error', 'The provider responded with status 200 and a body that is not JSON.')
  }
}

const RETRY_AFTER_MAX_SECONDS = 86_400

/** The error with the number of seconds after which the provider accepts a retry, if its headers say so. */
export function withRetryAfter(error: GatewayError, headers: IncomingResponse['headers']): GatewayError {
  const delay = retryAfterMs(headers, Date.now())
  const retryAfterSeconds =
    error.retryAfterSeconds ?? (delay && Math.min(Math.ceil(delay / 1_000), RETRY_AFTER_MAX_SECONDS))
  return retryAfterSeconds === undefined ? error : error.with({ retryAfterSeconds })
}

/** The HTTP client, or a call of a provider in this process. */
export const transport = ({ provider }: Pick<Endpoint, 'provider'>): typeof send =>
  provider.inProcess === undefined ? send : callSandbox

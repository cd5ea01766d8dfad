import { parseWithExact, stringifyAs } from '../json/exact.ts'
import { tryParse } from '../json/parse.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import type { GenerationEvent } from '../generation/event.ts'
import { readAll, send, type ByteSource, type IncomingResponse, type Timeouts } from '../http/call.ts'
import type { CallSignal } from '../http/connection.ts'
import { refuseNative } from '../protocols/provider-native.ts'
import { protocols } from '../protocols/index.ts'
import type { Protocol, Reader, TranslationContext, WrittenRequest } from '../protocols/protocol.ts'
import type { SchemaCache } from '../protocols/schema/cache.ts'
import { cutAtPassages, cutsPassages } from '../protocols/passages.ts'
import { endAtStopSequences } from '../protocols/stop-sequences.ts'
import { type Loss, LossReport, Translation } from '../protocols/translation.ts'
import { type TransformFactory, transformed, transformOf } from '../protocols/transforms.ts'
import { scrub } from '../protocols/upstream-error.ts'
import type { Endpoint } from './catalogue.ts'
import { sandbox } from './sandbox/server.ts'

/** A provider that began to answer. */
export type Upstream = {
  endpoint: Endpoint
  protocol: Protocol
  /** Whether the client speaks the provider's protocol: then frames and fields travel whole. */
  sameProtocol: boolean
  /** The exchange as this provider's answer is labelled: with whose signatures it bears. */
  context: TranslationContext
  incoming: IncomingResponse
  /** Of the request, and more as the answer is written. */
  losses: readonly Loss[]
  /** They undo on each response what the request writer changed. */
  transforms: readonly TransformFactory[]
  /** Tries made, this one included. */
  attempts: number
}

/** A provider said no before its first byte. `native`: its own answer, for a client that speaks its protocol. */
export class UpstreamRefusal extends Error {
  readonly error: GatewayError
  readonly native: { status: number; body: string } | undefined
  readonly provider: string
  readonly attempts: number

  constructor(
    error: GatewayError,
    native: { status: number; body: string } | undefined,
    provider: string,
    attempts: number,
  ) {
    super(error.message)
    this.error = error
    this.native = native
    this.provider = provider
    this.attempts = attempts
  }
}

/** One try at one provider. `sent`: the request went out to it; `error`: the code it failed with. */
export type AttemptRecord = { provider: string; sent?: boolean; error?: string; milliseconds: number }

const ERROR_BODY_BYTES = 1024 * 1024

/** Statuses after which another endpoint may do better: the fault is the provider's, not the request's. */
const MAY_GO_BETTER_ELSEWHERE = new Set(['upstream_error', 'upstream_rate_limited', 'upstream_timeout', 'overloaded'])

/**
 * Tries the endpoints in order until one begins to answer. Only a failure before the first byte comes here. Throws the
 * last Refusal. Each try is added to `tries`.
 */
export async function attempt(
  endpoints: readonly Endpoint[],
  preparedRequests: PreparedRequests,
  timeouts: Timeouts,
  signal: CallSignal,
  tries: AttemptRecord[],
): Promise<Upstream> {
  for (let number = 1; ; number++) {
    const endpoint = endpoints[number - 1]!
    const begun = performance.now()
    const tried: AttemptRecord = { provider: endpoint.provider.id, milliseconds: 0 }
    tries.push(tried)
    try {
      const upstream = await tryOne(endpoint, preparedRequests, timeouts, signal, number, () => {
        tried.sent = true
      })
      tried.milliseconds = Math.round(performance.now() - begun)
      return upstream
    } catch (error) {
      tried.milliseconds = Math.round(performance.now() - begun)
      tried.error = error instanceof UpstreamRefusal ? error.error.code : asGatewayError(error).code
      const refusal =
        error instanceof UpstreamRefusal
          ? error
          : error instanceof GatewayError
            ? new UpstreamRefusal(error, undefined, endpoint.provider.id, number)
            : undefined
      if (refusal === undefined) throw error
      // What one provider's protocol has no words for, another's may have.
      const unsaid = !(error instanceof UpstreamRefusal) && tried.sent !== true
      if (number === endpoints.length || signal.aborted || !(unsaid || MAY_GO_BETTER_ELSEWHERE.has(refusal.error.code)))
        throw refusal
    }
  }
}

async function tryOne(
  endpoint: Endpoint,
  preparedRequests: PreparedRequests,
  timeouts: Timeouts,
  signal: CallSignal,
  number: number,
  onSent: () => void,
): Promise<Upstream> {
  const { asked } = preparedRequests
  const protocol = protocols[endpoint.protocol]
  const { provider, model } = endpoint.target
  const sameProtocol = asked.request.protocol === endpoint.protocol
  const { url, headers, body, losses, transforms } = preparedRequests.take(endpoint)
  const context = sameProtocol
    ? asked
    : { ...asked, losses, responseIdentity: { ...asked.responseIdentity, issuer: { provider, model } } }
  const incoming = await transport(endpoint)({
    url,
    method: 'POST',
    headers: { ...headers, ...endpoint.provider.headers, ...endpoint.credentials },
    body,
    timeouts,
    signal,
    onSent,
  })
  if (incoming.status >= 200 && incoming.status < 300)
    return {
      endpoint,
      protocol,
      sameProtocol,
      context,
      incoming,
      losses: losses.losses,
      transforms,
      attempts: number,
    }
  throw await refusalOf(incoming, endpoint, protocol, sameProtocol, number)
}

/** A request as an endpoint is sent it; the provider's own headers and its key come on top. */
type PreparedRequest = {
  url: string
  headers: Record<string, string>
  body: string
  losses: LossReport
  transforms: readonly TransformFactory[]
}

/** One request, written once for each endpoint, also where it is inspected before it is sent. */
export class PreparedRequests {
  readonly asked: TranslationContext
  readonly #schemaCache: SchemaCache
  readonly #written = new Map<Endpoint, PreparedRequest>()

  constructor(asked: TranslationContext, schemaCache: SchemaCache) {
    this.asked = asked
    this.#schemaCache = schemaCache
  }

  /** Throws a GatewayError if the request cannot be represented in the endpoint's protocol. */
  of(endpoint: Endpoint): PreparedRequest {
    const written = this.#written.get(endpoint) ?? prepare(endpoint, this.asked, this.#schemaCache)
    this.#written.set(endpoint, written)
    return written
  }

  /** The same, to be sent: it is kept no longer. */
  take(endpoint: Endpoint): PreparedRequest {
    const prepared = this.of(endpoint)
    this.#written.delete(endpoint)
    return prepared
  }
}

/** Throws a GatewayError if the request cannot be represented in the endpoint's protocol. */
export function prepare(endpoint: Endpoint, asked: TranslationContext, schemaCache: SchemaCache): PreparedRequest {
  const { protocol: name, baseUrl, target } = endpoint
  const { call } = protocols[name]
  const { request, rawRequest } = asked
  const written = request.protocol === name ? undefined : translate(endpoint, asked, schemaCache)
  const losses = written?.losses ?? new LossReport()
  return {
    url: baseUrl + call.path(target, request.stream),
    headers: {
      'content-type': 'application/json',
      accept: request.stream ? 'text/event-stream' : 'application/json',
      ...call.headers(written === undefined ? rawRequest : undefined),
    },
    body: written === undefined ? call.forward(asked, target, losses) : stringifyAs(rawRequest.text, written.body),
    losses,
    transforms: written?.transforms ?? [],
  }
}

function translate(
  { protocol, target }: Endpoint,
  { request, rawRequest }: TranslationContext,
  schemaCache: SchemaCache,
): WrittenRequest {
  const { serve } = protocols[request.protocol],
    { call } = protocols[protocol]
  const translation = new Translation(request, target, rawRequest, serve.paths, schemaCache)
  refuseNative(translation)
  // The first of the transforms, since the others change the text in which citations count.
  if (cutsPassages(serve, call, request)) translation.undo(cutAtPassages)
  const body = call.writeRequest(translation)
  const { stop = [] } = request.sampling
  if (stop.length > 0) translation.undo(endAtStopSequences(stop))
  for (const path of Object.keys(request.extras)) translation.lose('native_field', path)
  return { body, losses: translation.report, transforms: translation.transforms }
}

/** The reader of a streamed response, with the transforms of its request. */
export const readerOf = ({ protocol, endpoint, transforms }: Upstream): Reader =>
  transformed(protocol.call.reader(endpoint.target.quirks, transforms.includes(cutAtPassages)), transforms)

async function refusalOf(
  incoming: IncomingResponse,
  endpoint: Endpoint,
  protocol: Protocol,
  sameProtocol: boolean,
  number: number,
): Promise<UpstreamRefusal> {
  const body = await readAll(incoming.body, ERROR_BODY_BYTES)
  const error = withRetryAfter(protocol.call.readError(incoming.status, body), incoming.headers)
  // Quoted whole to a client of its protocol, a refusal of our key included (docs/decisions/0002); but only a limit of
  // ours is a 422.
  const native =
    sameProtocol && isObject(body)
      ? { status: incoming.status === 422 ? 400 : incoming.status, body: scrub(body) }
      : undefined
  return new UpstreamRefusal(error, native, endpoint.provider.id, number)
}

const isObject = (text: string): boolean => {
  const value = tryParse(text)
  return typeof value === 'object' && value !== null
}

/** Largest whole answer held in memory: a few images in base64. */
const ANSWER_BYTES = 64 * 1024 * 1024

/** The text of an answer that is not streamed. */
export const readWhole = ({ incoming }: Upstream): Promise<string> => readAll(incoming.body, ANSWER_BYTES)

/** A whole response as events. Throws a GatewayError for a body that cannot be read. */
export const readEvents = (upstream: Upstream, text: string): GenerationEvent[] =>
  eventsIn(upstream, parseAnswer(text, upstream.protocol))

/**
 * The same, without events where the body cannot be read and is no error, if the client speaks the provider's protocol:
 * then the body is passed on all the same.
 */
export function readAnswer(upstream: Upstream, text: string): GenerationEvent[] {
  const body = parseAnswer(text, upstream.protocol)
  try {
    return eventsIn(upstream, body)
  } catch (error) {
    if (!upstream.sameProtocol || typeof body !== 'object' || body === null || 'error' in body) throw error
    return []
  }
}

function eventsIn({ protocol, endpoint, transforms }: Upstream, body: unknown): GenerationEvent[] {
  const events = protocol.call.readAnswer(body, endpoint.target.quirks)
  return transformOf(transforms)?.(events) ?? events
}

/**
 * The body of a 200, with the numbers in arguments of calls as `protocol` spelled them. Throws upstream_error for what
 * is no JSON.
 */
export function parseAnswer(text: string, protocol?: Protocol): unknown {
  const name = protocol?.call.argumentsIn
  try {
    return name === undefined ? JSON.parse(text) : parseWithExact(text, name)
  } catch {
    throw new GatewayError('upstream_error', 'The provider answered 200 with something that is not JSON.')
  }
}

const RETRY_AFTER_MAX_SECONDS = 86_400

/** An error that a provider answered with, and when it may be asked again, as far as that is said. */
export function withRetryAfter(error: GatewayError, headers: IncomingResponse['headers']): GatewayError {
  const retryAfterSeconds = error.retryAfterSeconds ?? secondsOf(headers.get('retry-after'))
  return retryAfterSeconds === undefined ? error : error.with({ retryAfterSeconds })
}

/** `Retry-After` in seconds or as a date (RFC 9110, 10.2.3); at most a day. */
const secondsOf = (header: string | null): number | undefined => {
  if (header === null) return undefined
  const seconds = /^\d+(\.\d+)?$/.test(header.trim()) ? Number(header) : (Date.parse(header) - Date.now()) / 1000
  return Number.isFinite(seconds) ? Math.min(Math.max(Math.ceil(seconds), 0), RETRY_AFTER_MAX_SECONDS) : undefined
}

/** The network, or a provider that lives in this process. */
export const transport = ({ provider }: Pick<Endpoint, 'provider'>): typeof send =>
  provider.inProcess === undefined ? send : callInProcess

const callInProcess: typeof send = async ({ url, method, headers, body, signal, onSent }) => {
  onSent?.()
  const abort = new AbortController()
  signal.addEventListener('abort', () => abort.abort(), { once: true })
  const response = await sandbox(
    new Request(url, { method, headers, signal: abort.signal, ...(body === undefined ? {} : { body }) }),
  )
  return { status: response.status, headers: response.headers, body: new StreamSource(response.body) }
}

class StreamSource implements ByteSource {
  readonly #reader:
    | { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; cancel(): Promise<void> }
    | undefined

  constructor(stream: ReadableStream<Uint8Array> | null) {
    this.#reader = stream?.getReader()
  }

  async read(): Promise<Uint8Array | undefined> {
    try {
      return (await this.#reader?.read())?.value
    } catch (error) {
      throw new GatewayError('upstream_error', 'The connection to the provider broke before its answer was complete.', {
        cause: error,
      })
    }
  }

  cancel(): void {
    this.#reader?.cancel().catch(() => {})
  }
}

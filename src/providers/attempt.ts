import { parseWithExact, stringifyAs } from '../json/exact.ts'
import { tryParse } from '../json/parse.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import type { GenerationEvent } from '../generation/event.ts'
import { readAll, send, type ByteSource, type Incoming, type Timeouts } from '../http/call.ts'
import type { CallSignal } from '../http/connection.ts'
import { refuseNative } from '../protocols/provider-native.ts'
import { protocols } from '../protocols/index.ts'
import { placed, Uncarried } from '../protocols/media.ts'
import { refusalAt, refusalOfWord, tell } from '../protocols/places.ts'
import type { TranslationContext, Protocol, ReportedLoss, WrittenRequest } from '../protocols/protocol.ts'
import { bounded, SchemaRefusal } from '../protocols/schema/schema.ts'
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
  incoming: Incoming
  /** Of the request, and more as the answer is written. */
  losses: ReportedLoss[]
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
  const { url, headers, body, losses } = preparedRequests.take(endpoint)
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
    return { endpoint, protocol, sameProtocol, context, incoming, losses, attempts: number }
  throw await refusalOf(incoming, endpoint, protocol, sameProtocol, number)
}

/** A request as an endpoint would hear it; the provider's own headers and its key come on top. */
type PreparedRequest = { url: string; headers: Record<string, string>; body: string; losses: ReportedLoss[] }

/** What one request is to each endpoint: written once, also where it is looked at before it is sent. */
export class PreparedRequests {
  readonly asked: TranslationContext
  readonly #written = new Map<Endpoint, PreparedRequest>()

  constructor(asked: TranslationContext) {
    this.asked = asked
  }

  /** Throws what the endpoint's protocol has no words for. */
  of(endpoint: Endpoint): PreparedRequest {
    const written = this.#written.get(endpoint) ?? prepare(endpoint, this.asked)
    this.#written.set(endpoint, written)
    return written
  }

  /** The same, to be sent: it is kept no longer. */
  take(endpoint: Endpoint): PreparedRequest {
    const draft = this.of(endpoint)
    this.#written.delete(endpoint)
    return draft
  }
}

/** Throws what the endpoint's protocol has no words for. */
export function prepare({ protocol: name, baseUrl, target }: Endpoint, asked: TranslationContext): PreparedRequest {
  const { call } = protocols[name]
  const { request, rawRequest } = asked
  const written = request.protocol === name ? undefined : writeOut(call, asked, target)
  const losses = written?.losses ?? []
  const text = written === undefined ? call.forward(asked, target, losses) : stringifyAs(rawRequest.text, written.body)
  return {
    url: baseUrl + call.path(target, request.stream),
    headers: {
      'content-type': 'application/json',
      accept: request.stream ? 'text/event-stream' : 'application/json',
      ...call.headers(written === undefined ? rawRequest : undefined),
    },
    body: text,
    losses: tell(asked, losses, written === undefined ? [] : Object.keys(request.extras)),
  }
}

function writeOut(call: Protocol['call'], asked: TranslationContext, target: Endpoint['target']): WrittenRequest {
  const { request, rawRequest } = asked
  try {
    refuseNative(request)
    return bounded(() => call.writeRequest(request, target))
  } catch (error) {
    if (error instanceof SchemaRefusal) throw refusalAt(asked, error)
    if (error instanceof Uncarried) throw placed(error, rawRequest.body)
    throw error instanceof GatewayError ? refusalOfWord(asked, error) : error
  }
}

async function refusalOf(
  incoming: Incoming,
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

/**
 * A whole answer as events. What we cannot read is none, for a client of the provider's own protocol, to whom it still
 * travels, unless it says that it is an error.
 */
export function readAnswer({ protocol, endpoint, context, sameProtocol }: Upstream, text: string): GenerationEvent[] {
  const body = parseAnswer(text, protocol)
  try {
    return protocol.call.readAnswer(body, endpoint.target.quirks, context.request)
  } catch (error) {
    if (!sameProtocol || typeof body !== 'object' || body === null || 'error' in body) throw error
    return []
  }
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
export function withRetryAfter(error: GatewayError, headers: Incoming['headers']): GatewayError {
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

import type { InboundRequest, AppContext } from '../context.ts'
import { expand, isPending, ResponseStore, notKept, stopWork } from '../endpoints/responses.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import { eventStream, JsonArray } from './framing.ts'
import { fold, withUsage, type GenerationEvent } from '../generation/event.ts'
import type { GenerationRequest, ProtocolName } from '../generation/request.ts'
import type { ReplayRecorder } from '../generation/replay.ts'
import type { Usage } from '../generation/usage.ts'
import type { Frame } from '../http/frames.ts'
import { streamBody } from '../http/stream.ts'
import { reserve } from '../ledger/admission.ts'
import { completeImages, outlivesClient, toTheEnd } from './images.ts'
import { outcomeOf, type Outcome } from '../ledger/outcomes.ts'
import { estimateInputTokens, worstCase } from '../ledger/estimate.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import { pause, resolveMedia, type ResolvedMedia } from './media.ts'
import type { InFlightRequest } from './in-flight.ts'
import { protocols } from '../protocols/index.ts'
import { lossesText, reportOf } from '../protocols/losses.ts'
import type { TranslationContext, RawRequest } from '../protocols/protocol.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import {
  attempt,
  PreparedRequests,
  parseAnswer,
  readAnswer,
  readWhole,
  UpstreamRefusal,
  type Upstream,
} from '../providers/attempt.ts'
import { fetchImages } from '../providers/image-urls.ts'
import { Lane, Relay, type Framing } from './relay.ts'
import { losslessEndpoints, schemaGrowth, translationOptions } from './strict.ts'
import { readRawRequest } from '../protocols/raw-request.ts'

/** One generation from its request to its last byte. */
type Generation = {
  app: AppContext
  call: InboundRequest
  responseStore: ResponseStore | undefined
  open: OpenGeneration
  inFlight: InFlightRequest
  media: ResolvedMedia | undefined
  replayRecorder: ReplayRecorder | undefined
}

/** The path of one generation, top to bottom. */
export async function generate(app: AppContext, call: InboundRequest, name: ProtocolName): Promise<Response> {
  const rawRequest = await readRawRequest(call.request, app.config.limits.bodyBytes, call.fromPath)
  const responseStore =
    name === 'responses'
      ? new ResponseStore(
          app,
          call.identity.accountId,
          await expand(rawRequest, app.store, call.identity.accountId, app.config.limits.bodyBytes),
        )
      : undefined
  const media = await resolveMedia(app, call, name, rawRequest)
  const { generation, preparedRequests, endpoints } = await begin(
    { app, call, responseStore, media },
    rawRequest,
    name,
  ).catch((error: unknown) => {
    media?.release()
    throw error
  })
  const { open, inFlight } = generation
  const { asked: context } = preparedRequests
  try {
    if (media !== undefined) await pause()
    const upstream = await attempt(endpoints, preparedRequests, app.config.timeouts, inFlight, open.meter.tries)
    open.meter.served = upstream.endpoint.target
    open.meter.losses = upstream.losses
    generation.replayRecorder = app.reasoningReplay.replayRecorder(context.request, upstream.endpoint.target)
    return await (context.request.stream ? stream(generation, upstream) : whole(generation, upstream))
  } catch (error) {
    app.ledger.voidCharge(open)
    // The client hears what went wrong with its request; a record that cannot be written is written later.
    await close(generation, outcomeOf(error instanceof UpstreamRefusal ? error.error : error)).catch(() => {})
    return refused(generation, error)
  }
}

/** Reads a request and admits it: from here on it has a record. */
async function begin(
  rooms: Pick<Generation, 'app' | 'call' | 'responseStore' | 'media'>,
  rawRequest: RawRequest,
  name: ProtocolName,
): Promise<{ generation: Generation; preparedRequests: PreparedRequests; endpoints: readonly Endpoint[] }> {
  const { app, call, responseStore, media } = rooms
  const asked = protocols[name].serve.readRequest(rawRequest)
  const { strict, report } = translationOptions(call.request.headers, app.config)
  const able = media?.endpoints ?? app.catalogue.endpoints(asked.model, name)
  const { request, replayStates, bytes } = await app.reasoningReplay.restore(call.identity.accountId, asked, able)
  const context = { ...labelled(call, rawRequest, request, responseStore), report, restoredReasoning: replayStates }
  const preparedRequests = new PreparedRequests(context)
  const endpoints = strict ? losslessEndpoints(preparedRequests, able) : able
  const capabilities = endpoints.map(({ target }) => target.capabilities)
  protocols[name].serve.checkModel?.(request, capabilities)
  const inBackground =
    responseStore !== undefined &&
    rawRequest.body.background === true &&
    endpoints.some(({ protocol }) => protocol === name)
  // Its provider goes on without its client: only its answer tells how to find or stop it.
  const goesOn = (inBackground && !request.stream) || endpoints.some(({ protocol }) => outlivesClient(name, protocol))
  const growth = schemaGrowth(preparedRequests, endpoints)
  const inFlight = app.inFlight.enter(goesOn ? new AbortController().signal : call.request.signal)
  const open = await reserve(app, call, {
    api: request.protocol,
    model: request.model,
    endpoints,
    streamed: request.stream,
    worst: (modelLimit) =>
      worstCase(request, Buffer.byteLength(rawRequest.text) + bytes + growth, modelLimit, capabilities),
    countInput: () => estimateInputTokens(request),
  }).catch((error: unknown) => {
    inFlight.leave()
    throw error
  })
  // A generation that fails has its record, too.
  call.errorHeaders['x-generation-id'] = context.responseIdentity.id
  const generation: Generation = { ...rooms, open, inFlight, replayRecorder: undefined }
  if (inBackground) context.follow = (theirs, ours) => hearWork(generation, responseStore, theirs, ours)
  return { generation, preparedRequests, endpoints }
}

function labelled(
  call: InboundRequest,
  rawRequest: RawRequest,
  request: GenerationRequest,
  responseStore: ResponseStore | undefined,
): TranslationContext {
  const id = protocols[request.protocol].serve.idPrefix + call.id
  const responseIdentity = { id, model: request.model, createdAt: Math.floor(Date.now() / 1000) }
  // What its provider says of that is not asked: many say nothing.
  return {
    rawRequest,
    request,
    responseIdentity,
    keep: rawRequest.body.store === false ? undefined : responseStore?.keep,
  }
}

/**
 * The one place through which every generation ends: record, settlement and what has to be kept are committed before
 * the last byte leaves.
 */
async function close(generation: Generation, ending: Outcome): Promise<void> {
  const { app, open, responseStore } = generation
  leave(generation)
  const cause = firstCause(generation, ending)
  if (cause !== 'completed' && open.background !== undefined && open.meter.outcome === undefined)
    return goOn(generation, cause)
  await Promise.all([app.ledger.close(open, cause), responseStore?.saved, remember(generation)])
}

/**
 * Keeps what the provider wants back beside its calls, for clients that do not send it back. An answer is none the
 * worse for not being remembered.
 */
const remember = async ({ app, open: { request }, replayRecorder }: Generation): Promise<void> => {
  if (replayRecorder !== undefined) await app.reasoningReplay.keep(request.accountId, replayRecorder).catch(() => {})
}

/** Notes whether a provider works on a response in the background, and what it calls it. */
function hearWork(
  { open }: Generation,
  responseStore: ResponseStore,
  theirs: Record<string, unknown>,
  ours: Record<string, unknown>,
): void {
  const known = open.meter.served !== undefined && typeof theirs.id === 'string' && isPending(theirs)
  open.background = known ? { provider: open.meter.served!.provider, id: theirs.id as string } : undefined
  responseStore.pending = ours
}

/**
 * Leaves a response to its provider, which works on it in the background: it is kept as it is, and its generation stays
 * open until its end is heard of.
 */
async function goOn({ app, open, responseStore }: Generation, cause: Outcome): Promise<void> {
  const work = open.background!
  try {
    responseStore?.keepPending(work)
    await Promise.all([app.ledger.defer(open), responseStore?.saved])
  } catch (error) {
    // Nobody could ask for it, so nobody would pay for it either.
    void stopWork(app, open.request.model, work)
    open.deferred = false
    open.background = undefined
    await app.ledger.close(open, cause).catch(() => {})
    throw error
  }
}

/**
 * A client that leaves and a server that stops break off the call to the provider, which then looks like the provider's
 * failure.
 */
const firstCause = ({ call, inFlight }: Generation, ending: Outcome): Outcome =>
  ending === 'completed'
    ? ending
    : inFlight.reason !== undefined
      ? 'shutdown'
      : call.request.signal.aborted
        ? 'client-left'
        : ending

function leave({ app, open, inFlight, media }: Generation): void {
  media?.release()
  if (inFlight.leave()) app.abuseDetection.end(open.request.accountId)
}

/** What was not recorded must not look finished: its last frames then say so. */
async function closeStream(
  generation: Generation,
  { context }: Upstream,
  ending: Outcome,
  last: Frame[],
): Promise<Frame[]> {
  try {
    await close(generation, ending)
    return last
  } catch (error) {
    if (generation.responseStore !== undefined)
      return [...last.slice(0, -1), ...notKept(last.at(-1), asGatewayError(error))]
    return protocols[context.request.protocol].serve
      .writer(context)
      .write({ type: 'error', error: asGatewayError(error) })
  }
}

/** A whole answer: read, heard, written in the client's protocol. */
async function whole(generation: Generation, upstream: Upstream): Promise<Response> {
  const { protocol, context, sameProtocol } = upstream
  const text = await readText(generation, upstream)
  const pending = sameProtocol && context.follow !== undefined ? await beginning(generation, upstream, text) : undefined
  if (pending !== undefined) return pending
  const read = readAnswer(upstream, text)
  const events =
    context.request.protocol === 'images'
      ? await completeImages(generation.app, generation.call, upstream, generation.inFlight, read)
      : read
  const counted = await heard(generation, events)
  const body = sameProtocol ? protocol.passthrough(context).answer(text, counted) : written(events, counted, context)
  // What is no answer is passed on, but nobody pays for it.
  await close(generation, events.length === 0 ? 'failed' : 'completed')
  return new Response(body, { headers: headersOf(generation.call, upstream, 'application/json') })
}

/** An answer of another protocol in the client's, with what was lost on the way where the client asked for that. */
function written(events: GenerationEvent[], counted: Usage | undefined, context: TranslationContext): string {
  const answer = protocols[context.request.protocol].serve.writeAnswer(fold(withUsage(events, counted)), context)
  return JSON.stringify({ ...answer, ...reportOf(context) })
}

/** The text of a whole answer. Images that stand elsewhere are fetched: where, is between Sluice and its provider. */
async function readText({ app, inFlight }: Generation, upstream: Upstream): Promise<string> {
  const text = await readWhole(upstream)
  return upstream.endpoint.protocol === 'images' ? fetchImages(text, upstream, app.config, inFlight) : text
}

/**
 * Lets the meter hear a whole answer. Gives what it had to count because the provider did not: that has to be told,
 * too.
 */
async function heard(
  { open: { meter }, replayRecorder }: Generation,
  events: GenerationEvent[],
): Promise<Usage | undefined> {
  meter.record(events)
  replayRecorder?.record(events)
  return meter.lacksUsage ? meter.count() : undefined
}

/**
 * The first answer to a request in the background, on which its provider still works; undefined for one that is
 * complete.
 */
async function beginning(generation: Generation, upstream: Upstream, text: string): Promise<Response | undefined> {
  if (!isPending(parseAnswer(text))) return undefined
  const ours = upstream.protocol.passthrough(upstream.context).answer(text)
  const {
    open: { background },
    call,
  } = generation
  if (background === undefined) return undefined
  // A client that left before this answer does not know what to ask for.
  if (call.request.signal.aborted) background.unwanted = true
  await goOn(generation, 'failed')
  leave(generation)
  return new Response(ours, { headers: headersOf(generation.call, upstream, 'application/json') })
}

/** A streamed answer: its head leaves with the provider's first bytes, all else passes through the relay. */
async function stream(generation: Generation, upstream: Upstream): Promise<Response> {
  const { call, app, open, inFlight, replayRecorder } = generation
  const { protocol, context, endpoint, incoming, sameProtocol } = upstream
  if (!isStream(incoming.headers)) return streamOfWhole(generation, upstream)
  const served = protocols[context.request.protocol].serve
  const out = sameProtocol ? { passthrough: protocol.passthrough(context) } : { writer: served.writer(context) }
  const lane = new Lane(protocol.call.reader(endpoint.target.quirks, context.request), out, open.meter, replayRecorder)
  const relay = new Relay(incoming.body, lane, framing(call), (ending, last) =>
    closeStream(generation, upstream, ending, last),
  )
  inFlight.onCut = (error) => relay.cut(error)
  const { keepAliveMs } = app.config
  await relay.begin(keepAliveMs)
  // A provider of the client's own protocol is quoted; a translated failure before the first word is better told by its
  // status.
  if (!sameProtocol && lane.failedAtOnce !== undefined) throw lane.failedAtOnce
  const keepAlive = served.keepAlive === undefined ? undefined : { text: served.keepAlive, afterMs: keepAliveMs }
  const source = outlivesClient(context.request.protocol, endpoint.protocol)
    ? toTheEnd(relay)
    : { pull: () => relay.pull(), cancel: () => relay.leave() }
  const body = streamBody(source, keepAlive, call.request.signal)
  return new Response(body, { headers: streamHeaders(call, upstream) })
}

/** A provider that answers a streaming request in one piece: the client still gets its stream. */
async function streamOfWhole(generation: Generation, upstream: Upstream): Promise<Response> {
  const { context } = upstream
  const events = upstream.protocol.call.readAnswer(
    parseAnswer(await readText(generation, upstream), upstream.protocol),
    upstream.endpoint.target.quirks,
    context.request,
  )
  const writer = protocols[context.request.protocol].serve.writer(context)
  const frames = withUsage(events, await heard(generation, events)).flatMap((event) => writer.write(event))
  const out = framing(generation.call)
  await close(generation, 'completed')
  return new Response(out.write(frames) + out.end(), { headers: streamHeaders(generation.call, upstream) })
}

const isStream = (headers: Headers): boolean => !(headers.get('content-type') ?? '').startsWith('application/json')

const framing = (call: InboundRequest): Framing => (call.jsonArray ? new JsonArray() : eventStream)

const streamHeaders = (call: InboundRequest, upstream: Upstream): Record<string, string> => ({
  ...headersOf(call, upstream, call.jsonArray ? 'application/json' : 'text/event-stream; charset=utf-8'),
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
})

function headersOf(call: InboundRequest, upstream: Upstream, contentType: string): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': contentType,
    'x-generation-id': upstream.context.responseIdentity.id,
    'x-request-id': call.requestId,
    'request-id': call.requestId,
    'x-sluice-provider': upstream.endpoint.provider.id,
    'x-sluice-attempts': String(upstream.attempts),
  }
  if (upstream.losses.length > 0) headers['x-sluice-translation'] = lossesText(upstream.losses)
  return headers
}

/**
 * A failure before the first byte. A provider of the client's own protocol is quoted whole; anything else is thrown for
 * the route to say.
 */
function refused({ call, inFlight }: Generation, error: unknown): Response {
  if (inFlight.reason !== undefined) throw inFlight.reason
  if (!(error instanceof UpstreamRefusal)) throw error
  const headers: Record<string, string> = {
    'x-sluice-provider': error.provider,
    'x-sluice-attempts': String(error.attempts),
  }
  Object.assign(call.errorHeaders, headers)
  if (error.native === undefined) throw error.error
  const { retryAfterSeconds } = error.error
  if (retryAfterSeconds !== undefined) headers['retry-after'] = String(retryAfterSeconds)
  return new Response(error.native.body, {
    status: error.native.status,
    headers: {
      ...call.errorHeaders,
      ...headers,
      'content-type': 'application/json',
      'x-request-id': call.requestId,
      'request-id': call.requestId,
    },
  })
}

import type { Call, Spine } from './spine.ts'
import { expand, isPending, Keeper, notKept, stopWork } from './endpoints/responses.ts'
import { asGatewayError, GatewayError } from './error.ts'
import { eventStream, JsonArray } from './framing.ts'
import { fold, withUsage, type GenerationEvent } from './generation/event.ts'
import type { GenerationRequest, ProtocolName } from './generation/request.ts'
import type { Tracer } from './generation/trace.ts'
import type { Usage } from './generation/usage.ts'
import type { Frame } from './http/frames.ts'
import { streamBody } from './http/stream.ts'
import { admit } from './ledger/admission.ts'
import { completeImages, outlivesClient, toTheEnd } from './images.ts'
import { endingOf, type Ending } from './ledger/endings.ts'
import { estimateInputTokens, worstCase } from './ledger/estimate.ts'
import type { OpenGeneration } from './ledger/ledger.ts'
import { pause, resolveMedia, type HeldMedia } from './media.ts'
import type { Underway } from './open.ts'
import { protocols } from './protocols/index.ts'
import { lossesText, reportOf } from './protocols/losses.ts'
import type { Exchange, Wire } from './protocols/protocol.ts'
import type { Endpoint } from './providers/catalogue.ts'
import { attempt, Drafts, parseAnswer, readAnswer, readWhole, Refusal, type Upstream } from './providers/attempt.ts'
import { fetchImages } from './providers/image-addresses.ts'
import { Lane, Relay, type Framing } from './relay.ts'
import { carriedWhole, growthOf, wishesOf } from './strict.ts'
import { readWire } from './protocols/wire.ts'

/** One generation from its request to its last byte. */
type Generation = {
  spine: Spine
  call: Call
  keeper: Keeper | undefined
  open: OpenGeneration
  underway: Underway
  media: HeldMedia | undefined
  tracer: Tracer | undefined
}

/** The path of one generation, top to bottom. */
export async function generate(spine: Spine, call: Call, name: ProtocolName): Promise<Response> {
  const wire = await readWire(call.request, spine.config.limits.bodyBytes, call.fromPath)
  const keeper =
    name === 'responses'
      ? new Keeper(
          spine,
          call.identity.accountId,
          await expand(wire, spine.store, call.identity.accountId, spine.config.limits.bodyBytes),
        )
      : undefined
  const media = await resolveMedia(spine, call, name, wire)
  const { generation, drafts, endpoints } = await begin({ spine, call, keeper, media }, wire, name).catch(
    (error: unknown) => {
      media?.release()
      throw error
    },
  )
  const { open, underway } = generation
  const { asked: exchange } = drafts
  try {
    if (media !== undefined) await pause()
    const upstream = await attempt(endpoints, drafts, spine.config.timeouts, underway, open.meter.tries)
    open.meter.served = upstream.endpoint.target
    open.meter.losses = upstream.losses
    generation.tracer = spine.reasoning.tracer(exchange.request, upstream.endpoint.target)
    return await (exchange.request.stream ? stream(generation, upstream) : whole(generation, upstream))
  } catch (error) {
    spine.ledger.forgive(open)
    // The client hears what went wrong with its request; a record that cannot be written is written later.
    await close(generation, endingOf(error instanceof Refusal ? error.error : error)).catch(() => {})
    return refused(generation, error)
  }
}

/** Reads a request and admits it: from here on it has a record. */
async function begin(
  rooms: Pick<Generation, 'spine' | 'call' | 'keeper' | 'media'>,
  wire: Wire,
  name: ProtocolName,
): Promise<{ generation: Generation; drafts: Drafts; endpoints: readonly Endpoint[] }> {
  const { spine, call, keeper, media } = rooms
  const asked = protocols[name].serve.readRequest(wire)
  const { strict, report } = wishesOf(call.request.headers, spine.config)
  const able = media?.endpoints ?? spine.catalogue.endpoints(asked.model, name)
  const { request, traces, bytes } = await spine.reasoning.recall(call.identity.accountId, asked, able)
  const exchange = { ...labelled(call, wire, request, keeper), report, recalled: traces }
  const drafts = new Drafts(exchange)
  const endpoints = strict ? carriedWhole(drafts, able) : able
  const abilities = endpoints.map(({ target }) => target.abilities)
  protocols[name].serve.checkModel?.(request, abilities)
  const inBackground =
    keeper !== undefined && wire.body.background === true && endpoints.some(({ protocol }) => protocol === name)
  // Its provider goes on without its client: only its answer tells how to find or stop it.
  const goesOn = (inBackground && !request.stream) || endpoints.some(({ protocol }) => outlivesClient(name, protocol))
  const grown = growthOf(drafts, endpoints)
  const underway = spine.open.enter(goesOn ? new AbortController().signal : call.request.signal)
  const open = await admit(spine, call, {
    api: request.protocol,
    model: request.model,
    endpoints,
    streamed: request.stream,
    worst: (modelLimit) => worstCase(request, Buffer.byteLength(wire.text) + bytes + grown, modelLimit, abilities),
    countInput: () => estimateInputTokens(request),
  }).catch((error: unknown) => {
    underway.leave()
    throw error
  })
  // A generation that fails has its record, too.
  call.errorHeaders['x-generation-id'] = exchange.label.id
  const generation: Generation = { ...rooms, open, underway, tracer: undefined }
  if (inBackground) exchange.follow = (theirs, ours) => hearWork(generation, keeper, theirs, ours)
  return { generation, drafts, endpoints }
}

function labelled(call: Call, wire: Wire, request: GenerationRequest, keeper: Keeper | undefined): Exchange {
  const id = protocols[request.protocol].serve.idPrefix + call.id
  const label = { id, model: request.model, createdAt: Math.floor(Date.now() / 1000) }
  // What its provider says of that is not asked: many say nothing.
  return { wire, request, label, keep: wire.body.store === false ? undefined : keeper?.keep }
}

/**
 * The one place through which every generation ends: record, settlement and what has to be kept are committed before
 * the last byte leaves.
 */
async function close(generation: Generation, ending: Ending): Promise<void> {
  const { spine, open, keeper } = generation
  leave(generation)
  const cause = firstCause(generation, ending)
  if (cause !== 'completed' && open.background !== undefined && open.meter.ending === undefined)
    return goOn(generation, cause)
  await Promise.all([spine.ledger.close(open, cause), keeper?.saved, remember(generation)])
}

/**
 * Keeps what the provider wants back beside its calls, for clients that do not send it back. An answer is none the
 * worse for not being remembered.
 */
const remember = async ({ spine, open: { ask }, tracer }: Generation): Promise<void> => {
  if (tracer !== undefined) await spine.reasoning.keep(ask.accountId, tracer).catch(() => {})
}

/** Notes whether a provider works on a response in the background, and what it calls it. */
function hearWork(
  { open }: Generation,
  keeper: Keeper,
  theirs: Record<string, unknown>,
  ours: Record<string, unknown>,
): void {
  const known = open.meter.served !== undefined && typeof theirs.id === 'string' && isPending(theirs)
  open.background = known ? { provider: open.meter.served!.provider, id: theirs.id as string } : undefined
  keeper.pending = ours
}

/**
 * Leaves a response to its provider, which works on it in the background: it is kept as it is, and its generation stays
 * open until its end is heard of.
 */
async function goOn({ spine, open, keeper }: Generation, cause: Ending): Promise<void> {
  const work = open.background!
  try {
    keeper?.keepPending(work)
    await Promise.all([spine.ledger.defer(open), keeper?.saved])
  } catch (error) {
    // Nobody could ask for it, so nobody would pay for it either.
    void stopWork(spine, open.ask.model, work)
    open.deferred = false
    open.background = undefined
    await spine.ledger.close(open, cause).catch(() => {})
    throw error
  }
}

/**
 * A client that leaves and a server that stops break off the call to the provider, which then looks like the provider's
 * failure.
 */
const firstCause = ({ call, underway }: Generation, ending: Ending): Ending =>
  ending === 'completed'
    ? ending
    : underway.reason !== undefined
      ? 'shutdown'
      : call.request.signal.aborted
        ? 'client-left'
        : ending

function leave({ spine, open, underway, media }: Generation): void {
  media?.release()
  if (underway.leave()) spine.conduct.end(open.ask.accountId)
}

/** What was not recorded must not look finished: its last frames then say so. */
async function closeStream(
  generation: Generation,
  { exchange }: Upstream,
  ending: Ending,
  last: Frame[],
): Promise<Frame[]> {
  try {
    await close(generation, ending)
    return last
  } catch (error) {
    if (generation.keeper !== undefined) return [...last.slice(0, -1), ...notKept(last.at(-1), asGatewayError(error))]
    return protocols[exchange.request.protocol].serve
      .writer(exchange)
      .write({ type: 'error', error: asGatewayError(error) })
  }
}

/** A whole answer: read, heard, written in the client's protocol. */
async function whole(generation: Generation, upstream: Upstream): Promise<Response> {
  const { protocol, exchange, sameProtocol } = upstream
  const text = await readText(generation, upstream)
  const pending =
    sameProtocol && exchange.follow !== undefined ? await beginning(generation, upstream, text) : undefined
  if (pending !== undefined) return pending
  const read = readAnswer(upstream, text)
  const events =
    exchange.request.protocol === 'images'
      ? await completeImages(generation.spine, generation.call, upstream, generation.underway, read)
      : read
  const counted = await heard(generation, events)
  const body = sameProtocol ? protocol.relabeler(exchange).answer(text, counted) : written(events, counted, exchange)
  // What is no answer is passed on, but nobody pays for it.
  await close(generation, events.length === 0 ? 'failed' : 'completed')
  return new Response(body, { headers: headersOf(generation.call, upstream, 'application/json') })
}

/** An answer of another protocol in the client's, with what was lost on the way where the client asked for that. */
function written(events: GenerationEvent[], counted: Usage | undefined, exchange: Exchange): string {
  const answer = protocols[exchange.request.protocol].serve.writeAnswer(fold(withUsage(events, counted)), exchange)
  return JSON.stringify({ ...answer, ...reportOf(exchange) })
}

/** The text of a whole answer. Images that stand elsewhere are fetched: where, is between Sluice and its provider. */
async function readText({ spine, underway }: Generation, upstream: Upstream): Promise<string> {
  const text = await readWhole(upstream)
  return upstream.endpoint.protocol === 'images' ? fetchImages(text, upstream, spine.config, underway) : text
}

/**
 * Lets the meter hear a whole answer. Gives what it had to count because the provider did not: that has to be told,
 * too.
 */
async function heard({ open: { meter }, tracer }: Generation, events: GenerationEvent[]): Promise<Usage | undefined> {
  meter.hear(events)
  tracer?.hear(events)
  return meter.lacksUsage ? meter.count() : undefined
}

/**
 * The first answer to a request in the background, on which its provider still works; undefined for one that is
 * complete.
 */
async function beginning(generation: Generation, upstream: Upstream, text: string): Promise<Response | undefined> {
  if (!isPending(parseAnswer(text))) return undefined
  const ours = upstream.protocol.relabeler(upstream.exchange).answer(text)
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
  const { call, spine, open, underway, tracer } = generation
  const { protocol, exchange, endpoint, incoming, sameProtocol } = upstream
  if (!isStream(incoming.headers)) return streamOfWhole(generation, upstream)
  const served = protocols[exchange.request.protocol].serve
  const out = sameProtocol ? { relabeler: protocol.relabeler(exchange) } : { writer: served.writer(exchange) }
  const lane = new Lane(protocol.call.reader(endpoint.target.quirks, exchange.request), out, open.meter, tracer)
  const relay = new Relay(incoming.body, lane, framing(call), (ending, last) =>
    closeStream(generation, upstream, ending, last),
  )
  underway.onCut = (error) => relay.cut(error)
  const { keepAliveMs } = spine.config
  await relay.begin(keepAliveMs)
  // A provider of the client's own protocol is quoted; a translated failure before the first word is better told by its
  // status.
  if (!sameProtocol && lane.failedAtOnce !== undefined) throw lane.failedAtOnce
  const keepAlive = served.keepAlive === undefined ? undefined : { text: served.keepAlive, afterMs: keepAliveMs }
  const source = outlivesClient(exchange.request.protocol, endpoint.protocol)
    ? toTheEnd(relay)
    : { pull: () => relay.pull(), cancel: () => relay.leave() }
  const body = streamBody(source, keepAlive, call.request.signal)
  return new Response(body, { headers: streamHeaders(call, upstream) })
}

/** A provider that answers a streaming request in one piece: the client still gets its stream. */
async function streamOfWhole(generation: Generation, upstream: Upstream): Promise<Response> {
  const { exchange } = upstream
  const events = upstream.protocol.call.readAnswer(
    parseAnswer(await readText(generation, upstream), upstream.protocol),
    upstream.endpoint.target.quirks,
    exchange.request,
  )
  const writer = protocols[exchange.request.protocol].serve.writer(exchange)
  const frames = withUsage(events, await heard(generation, events)).flatMap((event) => writer.write(event))
  const out = framing(generation.call)
  await close(generation, 'completed')
  return new Response(out.write(frames) + out.end(), { headers: streamHeaders(generation.call, upstream) })
}

const isStream = (headers: Headers): boolean => !(headers.get('content-type') ?? '').startsWith('application/json')

const framing = (call: Call): Framing => (call.jsonArray ? new JsonArray() : eventStream)

const streamHeaders = (call: Call, upstream: Upstream): Record<string, string> => ({
  ...headersOf(call, upstream, call.jsonArray ? 'application/json' : 'text/event-stream; charset=utf-8'),
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
})

function headersOf(call: Call, upstream: Upstream, contentType: string): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': contentType,
    'x-generation-id': upstream.exchange.label.id,
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
function refused({ call, underway }: Generation, error: unknown): Response {
  if (underway.reason !== undefined) throw underway.reason
  if (!(error instanceof Refusal)) throw error
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

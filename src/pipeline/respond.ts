import { GatewayError } from '../error.ts'
import { withUsage, type GenerationEvent } from '../generation/event.ts'
import type { Usage } from '../generation/usage.ts'
import type { TakeMemory } from '../http/call.ts'
import { streamBody } from '../http/stream.ts'
import type { Outcome } from '../ledger/outcomes.ts'
import { protocols } from '../protocols/index.ts'
import type { RequestContext } from '../protocols/protocol.ts'
import { tryReadEvents, readEvents, readerOf, type Upstream } from '../providers/attempt.ts'
import type { Attempts } from '../providers/routing/attempts.ts'
import { close, closeStream, failAttempt, leave } from './close.ts'
import { chunkText, eventStream, JsonArray, type Framing } from './framing.ts'
import { isHeavyAnswer, readHeavyAnswer } from './heavy/answer.ts'
import type { Generation } from './hooks.ts'
import { readText, readToEnd } from './images.ts'
import { MeteredStream } from './metered-stream.ts'
import { PassthroughOutput, TranslatedOutput } from './output.ts'
import { survivesClient } from './prepare.ts'
import { Relay } from './relay.ts'
import { responseHeaders, streamHeaders } from './response-headers.ts'
import { translate } from './translate.ts'

/** A response in one piece: read, metered, written in the client's protocol, sent when it is recorded. */
export async function whole(generation: Generation, upstream: Upstream<RequestContext>): Promise<Response> {
  const { app, inFlight, route } = generation
  const { protocol, context, sameProtocol } = upstream
  const text = await readText(app.config, upstream, inFlight, memoryOf(generation))
  generation.issuedIds?.record(text)
  // Few routes have these hooks; the others await nothing here.
  const onResponse = route.hooks.onResponse?.(generation, upstream, text)
  const pending = onResponse && (await onResponse)
  if (pending !== undefined) {
    generation.sending?.end('success')
    leave(generation)
    return new Response(pending, { headers: responseHeaders(generation, upstream) })
  }
  if (isHeavyAnswer(text, generation)) {
    const { body, unread } = await readHeavyAnswer(generation, upstream, text)
    return finish(generation, upstream, body, unread)
  }
  const read = tryReadEvents(upstream, text)
  const unread = read instanceof GatewayError ? read : undefined
  const own = read instanceof GatewayError ? [] : read
  const onEvents = route.hooks.onEvents?.(generation, upstream, own)
  const events = onEvents === undefined ? own : await onEvents
  const counting = record(generation, events)
  const counted = counting && (await counting)
  const body = sameProtocol ? protocol.passthrough(context).answer(text, counted) : translate(events, counted, context)
  return finish(generation, upstream, body, unread)
}

/** A body that Sluice cannot read is passed on to a client of the provider's protocol, but not charged. */
async function finish(
  generation: Generation,
  upstream: Upstream,
  body: string | Buffer,
  unread: GatewayError | undefined,
): Promise<Response> {
  if (unread !== undefined) failAttempt(generation, unread)
  await close(generation, unread === undefined ? endOf(generation) : 'failed')
  keepUntilTaken(generation, body)
  return new Response(body, { headers: responseHeaders(generation, upstream) })
}

/** The outcome of a response in one piece: the client may have left while it was made. */
const endOf = ({ inFlight }: Generation): Outcome => (inFlight.left ? 'client-left' : 'completed')

/** Meters a whole response. Gives the usage that Sluice counted, where the provider reported none. */
function record(
  { open: { meter }, replayRecorder }: Generation,
  events: GenerationEvent[],
): Promise<Usage | undefined> | undefined {
  meter.record(events)
  replayRecorder?.record(events)
  return meter.lacksUsage ? meter.count() : undefined
}

/** The attempts that are left until the first event of a stream, which may be an error. */
type OtherAttempts = { attempts?: Pick<Attempts, 'again'> | undefined; isTaken?: boolean }

/**
 * A streamed response: its headers leave with the provider's first bytes, everything else passes through the relay.
 * Undefined where its first event was an error and `others` has another attempt.
 */
export async function stream(
  generation: Generation,
  upstream: Upstream,
  others: OtherAttempts = {},
): Promise<Response | undefined> {
  const { clientSignal, app, inFlight, route } = generation
  const { context, endpoint, sameProtocol } = upstream
  if (!isStream(upstream)) return streamOfWhole(generation, upstream)
  const { serve } = protocols[context.request.protocol]
  const metered = meteredStream(generation, upstream)
  const relay = relayOf(generation, upstream, metered, others)
  inFlight.onCut = relay.cut
  const { keepAliveMs, timeouts } = app.config
  await relay.begin(keepAliveMs)
  if (others.isTaken === true) {
    inFlight.onCut = undefined
    return undefined
  }
  // They would keep the request for as long as the response streams.
  others.attempts = undefined
  // The provider's own frames are passed on, even if the first is an error; a translated error gets a status instead.
  if (!sameProtocol && metered.failedAtOnce !== undefined) throw metered.failedAtOnce
  const { execution } = generation.inbound
  const isReadToEnd = execution !== undefined || survivesClient(route.hooks, context.request, [endpoint])
  const source = isReadToEnd ? readToEnd(execution?.record(relay) ?? relay) : relay
  const { capture } = generation
  const recorded = capture === undefined ? source : capture.streamed(source)
  const keepAlive = serve.keepAlive === undefined ? undefined : { text: serve.keepAlive, afterMs: keepAliveMs }
  const memory = { budget: app.memory, owner: generation.open.request.accountId }
  const body = streamBody(recorded, keepAlive, clientSignal, timeouts.clientStalledMs, memory)
  return new Response(body, { headers: streamHeaders(generation, upstream) })
}

function meteredStream({ open, replayRecorder, issuedIds }: Generation, upstream: Upstream): MeteredStream {
  const { protocol, context, sameProtocol } = upstream
  const passthrough = sameProtocol ? protocol.passthrough(context) : undefined
  const output = passthrough
    ? new PassthroughOutput(issuedIds?.watching(passthrough) ?? passthrough, context.report === true)
    : new TranslatedOutput(protocols[context.request.protocol].serve.writer(context))
  return new MeteredStream(readerOf(upstream), output, open.meter, replayRecorder, upstream.report)
}

/** Not a part of `stream`: a closure of an async function keeps its arguments as long as it is kept itself. */
function relayOf(
  generation: Generation,
  { context, incoming }: Upstream,
  metered: MeteredStream,
  others: OtherAttempts,
): Relay {
  const { inbound: _, ...closable } = generation
  const relay = new Relay(
    incoming.body,
    metered,
    framingOf(generation),
    (outcome, last) => {
      if (triesAgain(others, metered)) return NOTHING
      if (metered.error !== undefined) failAttempt(closable, metered.error)
      return closeStream(closable, context, outcome, last)
    },
    generation.inFlight,
  )
  const { meter } = generation.open
  meter.onExhausted = relay.exhaust
  if (meter.exhausted !== undefined) relay.exhaust()
  return relay
}

const NOTHING = Promise.resolve([])

/** True where the first event was an error, and another attempt is made. */
function triesAgain(others: OtherAttempts, { failedAtOnce }: MeteredStream): boolean {
  if (failedAtOnce === undefined || others.attempts?.again(failedAtOnce) !== true) return false
  others.isTaken = true
  return true
}

/** A provider that answers a streaming request in one piece: the client still gets its stream. */
async function streamOfWhole(generation: Generation, upstream: Upstream): Promise<Response> {
  const { app, inFlight } = generation
  const { context } = upstream
  const text = await readText(app.config, upstream, inFlight, memoryOf(generation))
  const events = readEvents(upstream, text)
  const writer = protocols[context.request.protocol].serve.writer(context)
  const counted = await record(generation, events)
  const frames = withUsage(events, counted).flatMap((event) => writer.write(event))
  await close(generation, endOf(generation))
  const body = chunkText(framingOf(generation).write(frames, true))
  keepUntilTaken(generation, body)
  return new Response(body, { headers: streamHeaders(generation, upstream) })
}

/** Not a part of `whole`: a closure of an async function keeps its arguments as long as it is kept itself. */
const memoryOf =
  ({ app, open, clientSignal }: Generation): TakeMemory =>
  (bytes) =>
    app.memory.respond(clientSignal, open.request.accountId, bytes)

const keepUntilTaken = ({ app, open, inbound: { address } }: Generation, body: string | Buffer): void =>
  app.memory.untilTaken(open.request.accountId, body.length, () => address?.() !== undefined)

/** Reports whether a provider streams its response, as it was requested to. */
export const isStream = ({ incoming: { headers } }: Upstream): boolean =>
  !(headers.get('content-type') ?? '').startsWith('application/json')

const framingOf = ({ route }: Generation): Framing => (route.jsonArray === true ? new JsonArray() : eventStream)

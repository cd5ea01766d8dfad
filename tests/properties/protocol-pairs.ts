import { eventsFor, readerFor } from '../translating.ts'
import { LossReport, type Loss } from '../../src/protocols/translation.ts'
import type { GenerationResponse, GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName, GenerationRequest, Tool } from '../../src/generation/request.ts'
import type { Issuer } from '../../src/generation/signature.ts'
import { FrameSplitter, writeFrame, type Frame } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import { parseWithExact } from '../../src/json/exact.ts'
import type { RawRequest, Reader, TranslationContext } from '../../src/protocols/protocol.ts'

/** Both sides of each protocol: the provider's reader reads what the client's writer wrote. */

export const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

export const ISSUER: Issuer = { provider: 'issuer', model: 'issuer-1' }
export const IDENTITY = { id: 'ours-1', model: 'ours/model', createdAt: 1_700_000_000 }

/** The tools of every request, which generated calls use. */
export const TOOLS: Tool[] = [
  { type: 'function', name: 'look_up', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  { type: 'function', name: 'say', parameters: { type: 'object', properties: {} } },
  { type: 'custom', name: 'draw' },
]

const BODIES: Record<ConversationName, object> = {
  'chat.completions': {
    model: IDENTITY.model,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: 'Hi' }],
  },
  responses: { model: IDENTITY.model, input: 'Hi' },
  messages: { model: IDENTITY.model, max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  generateContent: { contents: [{ parts: [{ text: 'Hi' }] }] },
}

export const rawRequestOf = (body: object, stream = true): RawRequest => {
  const text = JSON.stringify(body)
  return {
    body: JSON.parse(text) as Record<string, unknown>,
    text,
    headers: new Headers(),
    model: IDENTITY.model,
    stream,
  }
}

export function contextOf(client: ConversationName, issuer?: Issuer): TranslationContext {
  const rawRequest = rawRequestOf(BODIES[client])
  return {
    rawRequest,
    request: { ...protocols[client].serve.readRequest(rawRequest), tools: TOOLS },
    responseIdentity: { ...IDENTITY, ...(issuer === undefined ? {} : { issuer }) },
    losses: new LossReport(),
  }
}

/** A client's stream of these events. */
export const framesOf = (
  client: ConversationName,
  events: readonly GenerationEvent[],
  context: TranslationContext,
): Frame[] => {
  const writer = protocols[client].serve.writer(context)
  return events.flatMap((event) => writer.write(event))
}

export const bytesOf = (frames: readonly Frame[]): Uint8Array =>
  new TextEncoder().encode(frames.map(writeFrame).join(''))

/**
 * A provider's reader. With a request it reads as for a client of another protocol, so that the transforms of the
 * written request undo what was changed in it; without one it reads what the provider sent.
 */
export const providerReader = (provider: ConversationName, request?: GenerationRequest): Reader =>
  readerFor(provider, {}, request && fromAnotherProtocol(request))

/** No conversation protocol is this one, so a provider of any of them gets a translated request. */
const fromAnotherProtocol = (request: GenerationRequest): GenerationRequest => ({ ...request, protocol: 'images' })

/** The events of a stream that arrives in these pieces. */
export function readStream(
  provider: ConversationName,
  pieces: readonly Uint8Array[],
  request?: GenerationRequest,
): GenerationEvent[] {
  const splitter = new FrameSplitter()
  const reader = providerReader(provider, request)
  const events = pieces.flatMap((piece) => splitter.push(piece).flatMap((frame) => reader.read(frame)))
  return [...events, ...splitter.end().flatMap((frame) => reader.read(frame)), ...reader.end()]
}

/** The events of a whole response. */
export function readWhole(provider: ConversationName, body: object, request?: GenerationRequest): GenerationEvent[] {
  const { call } = protocols[provider]
  const text = JSON.stringify(body)
  return eventsFor(
    provider,
    call.argumentsIn === undefined ? JSON.parse(text) : parseWithExact(text, call.argumentsIn),
    {},
    request && fromAnotherProtocol(request),
  )
}

export type Way = 'streamed' | 'whole'
export const WAYS: Way[] = ['streamed', 'whole']

/** Events written for a client of a protocol and read again by its provider's reader. */
export function roundTrip(
  protocol: ConversationName,
  way: Way,
  response: GenerationResponse,
  events: readonly GenerationEvent[],
): { events: GenerationEvent[]; losses: Loss[] } {
  const context = contextOf(protocol)
  const read =
    way === 'streamed'
      ? readStream(protocol, [bytesOf(framesOf(protocol, events, context))], context.request)
      : readWhole(protocol, protocols[protocol].serve.writeResponse(response, context), context.request)
  return { events: read, losses: context.losses!.losses }
}

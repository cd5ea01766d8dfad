import type { GenerationEvent } from '../src/generation/event.ts'
import type { GenerationRequest, ProtocolName } from '../src/generation/request.ts'
import type { Frame } from '../src/http/frames.ts'
import { refusalOf } from '../src/protocols/fields.ts'
import { protocols } from '../src/protocols/index.ts'
import { cutsPassages } from '../src/protocols/passages.ts'
import type { RawRequest, Reader, Target, TranslationContext } from '../src/protocols/protocol.ts'
import type { Quirks } from '../src/protocols/quirks.ts'
import { bodyText } from '../src/http/encode-request.ts'
import { prepare } from '../src/providers/attempt.ts'
import type { Endpoint } from '../src/providers/catalogue.ts'
import { SchemaCache } from '../src/protocols/schema/cache.ts'
import { type Loss, Translation } from '../src/protocols/translation.ts'
import { cutsAtPassages, transformed, transformOf, type Undo } from '../src/protocols/transforms.ts'

/** Helpers that write requests and read responses as `providers/attempt.ts` does, without an endpoint. */

/** The request of a client whose provider has another protocol. Throws the refusal of what none can represent. */
export function readToTranslate(client: ProtocolName, rawRequest: RawRequest): GenerationRequest {
  const request = protocols[client].serve.readRequest(rawRequest)
  const refusal = refusalOf(request)
  if (refusal !== undefined) throw refusal
  return request
}

export type Written = { body: Record<string, unknown>; losses: Loss[]; transforms: Undo[] }

/** A translation of this request. `body`: what the client sent, for the paths of losses. */
export const translationOf = (
  request: GenerationRequest,
  target: Target,
  body: Record<string, unknown> = {},
): Translation => new Translation(request, target, { body }, protocols[request.protocol].serve.paths, new SchemaCache())

/** The request as this provider is sent it, its losses, and the transforms of its responses. */
export function written(
  provider: ProtocolName,
  request: GenerationRequest,
  target: Target,
  body: Record<string, unknown> = {},
): Written {
  const translation = translationOf(request, target, body)
  if (cutsPassages(protocols[request.protocol].serve, protocols[provider].call, translation.request))
    translation.undo({ type: 'cut-at-passages' })
  const sent = protocols[provider].call.writeRequest(translation)
  const { stop = [] } = translation.request.sampling
  if (stop.length > 0) translation.undo({ type: 'stop-sequences', sequences: stop })
  return { body: sent, losses: translation.report.losses, transforms: translation.transforms }
}

/** The events of a response that came in one piece. */
export function eventsOf(
  provider: ProtocolName,
  body: unknown,
  { quirks = {}, transforms = [] }: { quirks?: Quirks; transforms?: readonly Undo[] } = {},
): GenerationEvent[] {
  const events = protocols[provider].call.readResponse(body, quirks)
  return transformOf(transforms)?.(events) ?? events
}

/** The events of a streamed response. */
export function streamedEventsOf(
  provider: ProtocolName,
  frames: readonly Frame[],
  { quirks = {}, transforms = [] }: { quirks?: Quirks; transforms?: readonly Undo[] } = {},
): GenerationEvent[] {
  const reader = transformed(protocols[provider].call.reader(quirks, cutsAtPassages(transforms)), transforms)
  return [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
}

/** A copy without the provenance of turns, parts, tools and web searches. */
export function withoutPaths<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutPaths) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => name !== 'path')
      .map(([name, inner]) => [name, withoutPaths(inner)]),
  ) as T
}

const PLAIN_TARGET: Target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }

/** A provider's reader with the transforms of this request, where its client speaks another protocol. */
export function readerFor(provider: ProtocolName, quirks: Quirks, request?: GenerationRequest): Reader {
  const transforms = transformsOf(provider, quirks, request)
  return transformed(protocols[provider].call.reader(quirks, cutsAtPassages(transforms)), transforms)
}

/** The events of a whole response to this request. */
export const eventsFor = (
  provider: ProtocolName,
  body: unknown,
  quirks: Quirks,
  request?: GenerationRequest,
): GenerationEvent[] => eventsOf(provider, body, { quirks, transforms: transformsOf(provider, quirks, request) })

const transformsOf = (
  provider: ProtocolName,
  quirks: Quirks,
  request: GenerationRequest | undefined,
): readonly Undo[] =>
  request === undefined || request.protocol === provider
    ? []
    : written(provider, request, { ...PLAIN_TARGET, quirks }).transforms

/** The request as an endpoint is sent it, and its losses. */
export function prepared(endpoint: Endpoint, context: TranslationContext): { body: string; losses: readonly Loss[] } {
  const { body, losses } = prepare(endpoint, context, new SchemaCache())
  return { body: bodyText(body), losses: losses.losses }
}

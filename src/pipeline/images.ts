import type { InboundRequest, AppContext } from '../context.ts'
import { GatewayError } from '../error.ts'
import { fold, type GenerationEvent } from '../generation/event.ts'
import type { ProtocolName } from '../generation/request.ts'
import { originOf } from '../http/serve.ts'
import type { TextSource } from '../http/stream.ts'
import type { InFlightRequest } from './in-flight.ts'
import { mediaTypeOf } from '../protocols/images/shapes.ts'
import type { Upstream } from '../providers/attempt.ts'
import { joinAnswers } from '../providers/join-answers.ts'
import type { Relay } from './relay.ts'

/**
 * An answer to the images API before it is told: with the further answers that the number of images asks for, and with
 * addresses where the client wants some.
 */
export async function completeImages(
  app: AppContext,
  call: InboundRequest,
  upstream: Upstream,
  inFlight: InFlightRequest,
  first: GenerationEvent[],
): Promise<GenerationEvent[]> {
  const { context, sameProtocol } = upstream
  const events = sameProtocol ? first : await joinAnswers(app, upstream, inFlight, first)
  if (context.rawRequest.body.response_format !== 'url') return events
  // What was said instead of an image in a conversation is told to the client.
  if (sameProtocol && events.length === 0)
    throw new GatewayError('upstream_error', 'The provider answered without an image.')
  context.imageUrls = await publish(app, call, events)
  return events
}

/** Keeps the images and gives their addresses. They are durable before anyone hears of them. */
async function publish(
  { files, config }: AppContext,
  { request, identity }: InboundRequest,
  events: readonly GenerationEvent[],
): Promise<string[]> {
  const origin = originOf(request, config.listen.publicUrl)
  const images = fold(events).parts.flatMap((part) =>
    part.type === 'image' && part.source.type === 'data' ? [part.source] : [],
  )
  const types = images.map(({ data }) => mediaTypeOf(data))
  if (types.includes(undefined))
    throw new GatewayError('upstream_error', 'The provider answered with something that is no image.')
  const urls: string[] = []
  // One after the other: the bytes of ten at once are more memory than their order is worth.
  for (const [index, { data }] of images.entries())
    urls.push(
      `${origin}/v1/outputs/${await files.publish(identity.accountId, { mediaType: types[index]!, data: Buffer.from(data, 'base64') })}`,
    )
  return urls
}

/**
 * Whether a request is carried out though its client goes: a provider that was asked for an image makes it all the
 * same, and wants to be paid.
 */
export const outlivesClient = (client: ProtocolName, provider: ProtocolName): boolean =>
  client === 'images' || provider === 'images'

/** A stream that is read to its end, whoever still listens. */
export function toTheEnd(relay: Relay): TextSource {
  let last: Promise<string | undefined> = Promise.resolve('')
  const readOn = async (): Promise<void> => {
    while ((await last) !== undefined) last = relay.pull()
  }
  // What fails has been closed by the relay.
  return { pull: () => (last = relay.pull()), cancel: () => void readOn().catch(() => {}) }
}

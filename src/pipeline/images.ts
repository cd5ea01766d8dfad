import type { AppContext, AuthenticatedRequest } from '../context.ts'
import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import { fold, type GenerationEvent } from '../generation/event.ts'
import type { TakeMemory } from '../http/call.ts'
import type { CallSignal } from '../http/connection.ts'
import { originOf } from '../http/serve.ts'
import type { Chunk, TextSource } from '../http/stream.ts'
import { mediaTypeOf } from '../protocols/images/shapes.ts'
import { readResponseText, type Upstream } from '../providers/attempt.ts'
import { fetchImages } from '../providers/image-urls.ts'
import { joinResponses } from '../providers/join-responses.ts'
import type { GenerationHooks } from './hooks.ts'
import { isImagesApi } from './images-api.ts'

/** Providers finish, and charge, an image whether or not anyone still waits for it. */
export const finishesWithoutClient = isImagesApi

/** The text of a whole response. Images that an images API only links to are fetched: clients never see those URLs. */
export function readText(
  config: Config,
  upstream: Upstream,
  signal: CallSignal,
  takeMemory?: TakeMemory,
): Promise<string> {
  const reading = readResponseText(upstream, takeMemory)
  return isImagesApi(upstream.endpoint) ? reading.then((text) => fetchImages(text, upstream, config, signal)) : reading
}

/** Hooks of the images API, for clients of any provider. */
export const imageHooks = (app: AppContext, { identity: { accountId } }: AuthenticatedRequest): GenerationHooks => ({
  survivesClient: () => true,
  /** The sizes of images are not known yet: what is kept already must be below the quota. */
  async beforeReserve(model, endpoints, { body }) {
    if (body.response_format !== 'url') return
    const price = app.prices.of(model, endpoints)
    const release = await app.keptQuota.hold({ kind: 'outputs', accountId, bytes: 1, price })
    release()
  },
  /** Adds the responses that the number of images needs, and publishes the images where the client wants URLs. */
  async onEvents({ inbound, inFlight }, upstream, first) {
    const { context, sameProtocol } = upstream
    const events = sameProtocol ? first : await joinResponses(app, upstream, inFlight, first)
    if (context.rawRequest.body.response_format !== 'url') return events
    // A conversation model that wrote text instead is reported by the writer.
    if (sameProtocol && events.length === 0) throw new GatewayError('upstream_error', 'The provider returned no image.')
    context.imageUrls = await publish(app, inbound, events)
    return events
  },
})

/** Stores the images and gives their URLs. They are durable before any client knows them. */
async function publish(
  { files, config }: AppContext,
  { request, identity }: AuthenticatedRequest,
  events: readonly GenerationEvent[],
): Promise<string[]> {
  const origin = originOf(request, config.listen.publicUrl)
  const images = fold(events).parts.flatMap((part) =>
    part.type === 'image' && part.source.type === 'data' ? [part.source] : [],
  )
  const types = images.map(({ data }) => mediaTypeOf(data))
  if (types.includes(undefined))
    throw new GatewayError('upstream_error', 'The provider returned data that is not an image.')
  const urls: string[] = []
  // One after the other, so that the bytes of ten images are not in memory at once.
  for (const [index, { data }] of images.entries()) {
    const token = await files.publish(identity.accountId, {
      mediaType: types[index]!,
      data: Buffer.from(data, 'base64'),
    })
    urls.push(`${origin}/v1/outputs/${token}`)
  }
  return urls
}

/** A stream that is read to its end, even if the client leaves. */
export function readToEnd(relay: Pick<TextSource, 'pull'>): TextSource {
  let last: Promise<Chunk | undefined> = Promise.resolve('')
  const readOn = async (): Promise<void> => {
    while ((await last) !== undefined) last = relay.pull()
  }
  // A failure was closed by the relay.
  return { pull: () => (last = relay.pull()), cancel: () => void readOn().catch(() => {}) }
}

import { GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { isObject, tryParse, stringOf } from '../../json/parse.ts'
import { PartSequence } from '../part-sequence.ts'
import type { Reader } from '../protocol.ts'
import { truncatedStream, upstreamStreamError } from '../upstream-error.ts'
import { dataOf, imageOf, type Json, mediaTypeOf, readUsage } from './shapes.ts'

/** An `ImagesResponse` -> events. Throws a GatewayError for an error body, and for one without images. */
export function readResponse(body: unknown): GenerationEvent[] {
  if (isObject(body) && body.error !== undefined && body.error !== null) throw readFailure(body.error)
  const images = (dataOf(body) ?? []).flatMap((image) => imageOf(image) ?? [])
  if (!isObject(body) || images.length === 0)
    throw new GatewayError('upstream_error', 'The provider responded without an image.')
  const events: GenerationEvent[] = [{ type: 'start', id: '', model: '' }]
  const parts = new PartSequence(events)
  for (const image of images) parts.whole({ type: 'image', mediaType: mediaTypeOf(image) ?? 'image/png' }, image)
  const usage = readUsage(body.usage)
  if (usage !== undefined) events.push({ type: 'usage', usage })
  events.push({ type: 'finish', reason: 'stop', raw: 'stop' })
  return events
}

function readFailure(error: unknown): GatewayError {
  if (!isObject(error)) return upstreamStreamError(stringOf(error))
  const { message, type, code, param } = error
  return upstreamStreamError(stringOf(message), {
    ...(typeof type === 'string' ? { type } : {}),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    ...(typeof param === 'string' ? { param } : {}),
  })
}

/**
 * Stream events of the images API -> events: only complete images count. The stream has no terminal frame, so the
 * finish waits for the end of the bytes.
 */
export class ImagesResponseReader implements Reader {
  readonly #events: GenerationEvent[] = []
  readonly #parts = new PartSequence(this.#events)
  readonly #usage: Usage = noUsage()
  #started = false
  #hasImage = false
  #ended = false

  read({ data }: Frame): GenerationEvent[] {
    const body = parse(data)
    if (this.#ended || body === undefined) return []
    if (body.error !== undefined && body.error !== null) return this.#fail(readFailure(body.error))
    if (!this.#started) this.#events.push({ type: 'start', id: '', model: '' })
    this.#started = true
    const image = body.type === 'image_generation.completed' ? imageOf(body) : undefined
    if (image !== undefined) {
      this.#hasImage = true
      this.#parts.whole({ type: 'image', mediaType: mediaTypeOf(image) ?? 'image/png' }, image)
      this.#addUsage(body.usage)
    }
    return this.#events.splice(0)
  }

  get finishing(): boolean {
    return this.#hasImage
  }

  end(): GenerationEvent[] {
    if (this.#ended) return []
    if (!this.#hasImage) return this.#fail(truncatedStream())
    this.#ended = true
    return [{ type: 'finish', reason: 'stop', raw: 'stop' }]
  }

  /** Each image may have a usage of its own. */
  #addUsage(reported: unknown): void {
    const usage = readUsage(reported)
    if (usage === undefined) return
    for (const bucket of ['inputTokens', 'inputImageTokens', 'outputTokens', 'outputImageTokens'] as const)
      this.#usage[bucket] += usage[bucket] ?? 0
    const { inputTokens, inputImageTokens, outputTokens, outputImageTokens } = this.#usage
    this.#events.push({ type: 'usage', usage: { inputTokens, inputImageTokens, outputTokens, outputImageTokens } })
  }

  #fail(error: GatewayError): GenerationEvent[] {
    this.#ended = true
    return [{ type: 'error', error }]
  }
}

function parse(text: string): Json | undefined {
  const value = tryParse(text)
  return isObject(value) ? value : undefined
}

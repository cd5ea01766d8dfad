import type { GatewayError } from '../../error.ts'
import { Fold, type GenerationEvent } from '../../generation/event.ts'
import type { Frame } from '../../http/frames.ts'
import { errorObject } from '../openai-error.ts'
import { reportOf } from '../losses.ts'
import type { Exchange, Writer } from '../protocol.ts'
import { loseBeside, noImage, writeLook } from './serve.ts'
import { writeUsage, type Json } from './shapes.ts'

/** Events -> one `image_generation.completed` for each image, when all is told: the last one holds the usage. */
export class ImageWriter implements Writer {
  readonly #exchange: Exchange
  readonly #fold = new Fold()
  #ended = false

  constructor(exchange: Exchange) {
    this.#exchange = exchange
  }

  write(event: GenerationEvent): Frame[] {
    if (this.#ended) return []
    this.#ended = event.type === 'finish' || event.type === 'error'
    if (event.type === 'error') return [errorFrame(event.error)]
    this.#fold.add(event)
    return event.type === 'finish' ? this.#finish() : []
  }

  #finish(): Frame[] {
    const { answer } = this.#fold
    const {
      label,
      request: { imageOutput },
    } = this.#exchange
    loseBeside(this.#exchange, answer, true)
    const images = answer.parts.flatMap((part) =>
      part.type === 'image' && part.source.type === 'data' ? [part.source] : [],
    )
    if (images.length === 0) return [errorFrame(noImage(answer))]
    const defaults = { size: 'auto', quality: 'auto', background: 'auto' }
    return images.map((image, index) =>
      frameOf({
        type: 'image_generation.completed',
        id: label.id,
        created_at: label.createdAt,
        b64_json: image.data,
        ...defaults,
        ...writeLook(imageOutput, image),
        ...(index === images.length - 1
          ? { ...(answer.metered ? { usage: writeUsage(answer.usage) } : {}), ...reportOf(this.#exchange) }
          : {}),
      }),
    )
  }
}

const frameOf = (data: Json): Frame => ({ event: data.type as string, data: JSON.stringify(data) })

/** What the official SDK throws in the middle of a stream. */
export const errorFrame = (error: GatewayError): Frame => frameOf({ type: 'error', error: errorObject(error) })

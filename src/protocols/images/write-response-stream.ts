import type { GatewayError } from '../../error.ts'
import { Fold, type GenerationEvent } from '../../generation/event.ts'
import type { Frame } from '../../http/frames.ts'
import { errorObject } from '../openai-error.ts'
import { lossReport } from '../losses.ts'
import type { ResponseContext, Writer } from '../protocol.ts'
import { imageProperties, imagesOf, loseContent, missingImage } from './write-response.ts'
import { writeUsage, type Json } from './shapes.ts'

/** Events -> one `image_generation.completed` per image at the end; the last one has the usage. */
export class ImagesResponseWriter implements Writer {
  readonly #context: ResponseContext
  readonly #fold = new Fold()
  #ended = false

  constructor(context: ResponseContext) {
    this.#context = context
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
      responseIdentity,
      request: { imageOutput },
    } = this.#context
    loseContent(this.#context, answer, true)
    const images = imagesOf(answer)
    if (images.length === 0) return [errorFrame(missingImage(answer))]
    const defaults = { size: 'auto', quality: 'auto', background: 'auto' }
    return images.map((image, index) =>
      frameOf({
        type: 'image_generation.completed',
        id: responseIdentity.id,
        created_at: responseIdentity.createdAt,
        b64_json: image.data,
        ...defaults,
        ...imageProperties(imageOutput, image),
        ...(index === images.length - 1
          ? { ...(answer.metered ? { usage: writeUsage(answer.usage) } : {}), ...lossReport(this.#context) }
          : {}),
      }),
    )
  }
}

const frameOf = (data: Json): Frame => ({ event: data.type as string, data: JSON.stringify(data) })

/** The frame that the official SDK throws in the middle of a stream. */
export const errorFrame = (error: GatewayError): Frame => frameOf({ type: 'error', error: errorObject(error) })

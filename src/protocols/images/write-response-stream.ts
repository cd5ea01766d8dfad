import type { GatewayError } from '../../error.ts'
import { Fold, type GenerationEvent } from '../../generation/event.ts'
import type { Frame } from '../../http/frames.ts'
import { errorObject } from '../openai-error.ts'
import { reportOf } from '../losses.ts'
import type { TranslationContext, Writer } from '../protocol.ts'
import { loseBeside, noImage, writeLook } from './read-request.ts'
import { writeUsage, type Json } from './shapes.ts'

/** Events -> one `image_generation.completed` for each image, when all is told: the last one holds the usage. */
export class ImageWriter implements Writer {
  readonly #context: TranslationContext
  readonly #fold = new Fold()
  #ended = false

  constructor(context: TranslationContext) {
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
    loseBeside(this.#context, answer, true)
    const images = answer.parts.flatMap((part) =>
      part.type === 'image' && part.source.type === 'data' ? [part.source] : [],
    )
    if (images.length === 0) return [errorFrame(noImage(answer))]
    const defaults = { size: 'auto', quality: 'auto', background: 'auto' }
    return images.map((image, index) =>
      frameOf({
        type: 'image_generation.completed',
        id: responseIdentity.id,
        created_at: responseIdentity.createdAt,
        b64_json: image.data,
        ...defaults,
        ...writeLook(imageOutput, image),
        ...(index === images.length - 1
          ? { ...(answer.metered ? { usage: writeUsage(answer.usage) } : {}), ...reportOf(this.#context) }
          : {}),
      }),
    )
  }
}

const frameOf = (data: Json): Frame => ({ event: data.type as string, data: JSON.stringify(data) })

/** What the official SDK throws in the middle of a stream. */
export const errorFrame = (error: GatewayError): Frame => frameOf({ type: 'error', error: errorObject(error) })

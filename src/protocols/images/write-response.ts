import { GatewayError } from '../../error.ts'
import type { GenerationResponse } from '../../generation/event.ts'
import type { ImageOutput } from '../../generation/request.ts'
import { present } from '../fields.ts'
import { lose } from '../losses.ts'
import type { ResponseContext } from '../protocol.ts'
import { type Json, sizeOf, writeUsage } from './shapes.ts'

/** A whole response as an `ImagesResponse`. Text beside the images is in `text`. Throws where there is no image. */
export function writeResponse(answer: GenerationResponse, context: ResponseContext): object {
  const { request, responseIdentity, imageUrls } = context
  const images = imagesOf(answer)
  if (images.length === 0) throw missingImage(answer)
  const text = textOf(answer)
  loseContent(context, answer, false)
  return {
    created: responseIdentity.createdAt,
    id: responseIdentity.id,
    model: responseIdentity.model,
    data: images.map(
      ({ data }, index): Json => (imageUrls === undefined ? { b64_json: data } : { url: imageUrls[index] }),
    ),
    ...imageProperties(request.imageOutput, images[0]!),
    ...(text === '' ? {} : { text }),
    ...(answer.metered ? { usage: writeUsage(answer.usage) } : {}),
  }
}

/** Reports content other than images. A stream has no field for text either. */
export function loseContent(context: ResponseContext, { parts }: GenerationResponse, streamed: boolean): void {
  for (const { type } of parts) {
    if (type === 'image' || (!streamed && (type === 'text' || type === 'refusal'))) continue
    lose(context, 'response_content_dropped', type)
  }
}

/** Size and format of the image, and the quality and background that were requested. */
export const imageProperties = (
  requested: ImageOutput | undefined,
  { mediaType, data }: { mediaType: string; data: string },
): Json => ({
  ...present('size', sizeOf(data)),
  output_format: mediaType.replace('image/', ''),
  ...present('quality', requested?.quality),
  ...present('background', requested?.background),
})

export const imagesOf = ({ parts }: GenerationResponse): { mediaType: string; data: string }[] =>
  parts.flatMap((part) => (part.type === 'image' && part.source.type === 'data' ? [part.source] : []))

/** The text beside the images; several joined responses may each have some. */
const textOf = ({ parts }: GenerationResponse): string =>
  parts
    .flatMap((part) => ((part.type === 'text' || part.type === 'refusal') && part.text !== '' ? [part.text] : []))
    .join('\n')

const QUOTED_LENGTH = 1_000

/** Why there is no image: the text of the model, or its finish reason. A 400, since a retry would only cost again. */
export function missingImage(answer: GenerationResponse): GatewayError {
  const { finish } = answer
  const text = textOf(answer).trim()
  if (text !== '')
    return new GatewayError(
      'invalid_request',
      `The model made no image of this prompt. It answered: ${text.slice(0, QUOTED_LENGTH)}`,
      { param: 'prompt' },
    )
  if (finish.reason === 'content-filter' || finish.reason === 'refusal')
    return new GatewayError(
      'invalid_request',
      `The provider refused to make an image of this prompt (${finish.raw}).`,
      { param: 'prompt' },
    )
  return new GatewayError('upstream_error', `The provider responded without an image (${finish.raw}).`)
}

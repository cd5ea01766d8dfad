import { GatewayError, invalid } from '../../error.ts'
import type { Answer } from '../../generation/event.ts'
import type { GenerationRequest, ImageOutput } from '../../generation/request.ts'
import { Fields, present } from '../fields.ts'
import { parseSize } from '../image-config.ts'
import { lose } from '../losses.ts'
import type { Capabilities, TranslationContext, RawRequest } from '../protocol.ts'
import { OUTPUT_FORMATS, sizeOf, writeUsage, type Json } from './shapes.ts'

/** Longest side of an image, pixels: beyond what any provider draws. */
const LONGEST_SIDE = 8_192

const MOST_IMAGES = 10

/** Body of `POST /v1/images/generations` -> our words: a prompt is a turn of its own. */
export function readRequest({ body: rawRequest }: RawRequest): GenerationRequest {
  const body = new Fields(rawRequest)
  const model = body.require('model', body.string('model'), 'the name of a model')
  const prompt = body.require('prompt', body.string('prompt'), 'a text that describes the image')
  if (prompt.trim() === '') throw invalid('prompt', 'must not be empty: describe the image')
  const imageOutput = readOutput(body)
  const form = body.oneOf('response_format', ['url', 'b64_json'])
  const stream = body.boolean('stream') ?? false
  if (stream && form === 'url')
    throw invalid('response_format', "must be 'b64_json' or absent in a stream, which carries the images themselves")
  const user = body.string('user')
  checkOthers(new Fields(rawRequest))
  return {
    model,
    system: [],
    turns: [{ role: 'user', parts: [{ type: 'text', text: prompt }] }],
    tools: [],
    sampling: {},
    outputModalities: ['text', 'image'],
    imageOutput,
    stream,
    protocol: 'images',
    ...present('user', user),
    extras: body.rest(),
  }
}

function readOutput(body: Fields): ImageOutput {
  return {
    count: body.integer('n', { min: 1, max: MOST_IMAGES }) ?? 1,
    ...present('size', readSize(body)),
    ...present('quality', body.string('quality')),
    ...present('background', body.oneOf('background', ['transparent', 'opaque', 'auto'])),
    ...present('format', body.oneOf('output_format', OUTPUT_FORMATS)),
    ...present('compression', body.integer('output_compression', { min: 0, max: 100 })),
  }
}

function readSize(body: Fields): ImageOutput['size'] {
  const size = body.string('size')
  if (size === undefined || size === 'auto') return undefined
  const read = parseSize(size)
  if (read === undefined || Math.max(read.width, read.height) > LONGEST_SIDE) {
    throw invalid(
      'size',
      `must be 'auto' or <width>x<height> in pixels, like 1024x1024, with no side above ${LONGEST_SIDE}: not '${size.slice(0, 64)}'`,
    )
  }
  return read
}

/** Fields that only this protocol knows are checked and left in `extras`. */
function checkOthers(body: Fields): void {
  body.string('style')
  body.string('moderation')
  body.integer('partial_images', { min: 0, max: 3 })
}

/** A model of which it is known that it makes no images is refused before it is asked. */
export function checkModel({ model }: GenerationRequest, capabilities: readonly Capabilities[]): void {
  if (capabilities.some(({ output }) => output === undefined || output.includes('image'))) return
  throw invalid('model', `must be a model that makes images: ${model} makes ${capabilities[0]!.output!.join(' and ')}`)
}

/** A whole answer as an `ImagesResponse`. What the model said beside its images stands in `text`. */
export function writeAnswer(answer: Answer, context: TranslationContext): object {
  const { request, responseIdentity, imageUrls } = context
  const images = imagesOf(answer)
  if (images.length === 0) throw noImage(answer)
  const text = textOf(answer)
  loseBeside(context, answer, false)
  return {
    created: responseIdentity.createdAt,
    id: responseIdentity.id,
    model: responseIdentity.model,
    data: images.map(
      ({ data }, index): Json => (imageUrls === undefined ? { b64_json: data } : { url: imageUrls[index] }),
    ),
    ...writeLook(request.imageOutput, images[0]!),
    ...(text === '' ? {} : { text }),
    ...(answer.metered ? { usage: writeUsage(answer.usage) } : {}),
  }
}

/** What the model gave beside its images. A stream has no place for words either. */
export function loseBeside(context: TranslationContext, { parts }: Answer, streamed: boolean): void {
  for (const { type } of parts) {
    if (type === 'image' || (!streamed && (type === 'text' || type === 'refusal'))) continue
    lose(context, 'response_field_dropped', `${type}`, 'the images API answers with images alone')
  }
}

/** What the image is like: its own size and format, and what else was asked for. */
export const writeLook = (
  asked: ImageOutput | undefined,
  { mediaType, data }: { mediaType: string; data: string },
): Json => ({
  ...present('size', sizeOf(data)),
  output_format: mediaType.replace('image/', ''),
  ...present('quality', asked?.quality),
  ...present('background', asked?.background),
})

const imagesOf = ({ parts }: Answer): { mediaType: string; data: string }[] =>
  parts.flatMap((part) => (part.type === 'image' && part.source.type === 'data' ? [part.source] : []))

/** Several answers may be joined in one, each with words of its own. */
const textOf = ({ parts }: Answer): string =>
  parts
    .flatMap((part) => ((part.type === 'text' || part.type === 'refusal') && part.text !== '' ? [part.text] : []))
    .join('\n')

const QUOTED_LENGTH = 1_000

/**
 * Why there is no image: what the model said instead, or why it stopped. A 400, as asking again would only cost again.
 */
export function noImage(answer: Answer): GatewayError {
  const { finish } = answer
  const text = textOf(answer).trim()
  if (text !== '')
    return new GatewayError(
      'invalid_request',
      `The model made no image of this prompt. It said: ${text.slice(0, QUOTED_LENGTH)}`,
      { param: 'prompt' },
    )
  if (finish.reason === 'content-filter' || finish.reason === 'refusal')
    return new GatewayError(
      'invalid_request',
      `The provider refused to make an image of this prompt (${finish.raw}).`,
      { param: 'prompt' },
    )
  return new GatewayError('upstream_error', `The provider answered without an image (${finish.raw}).`)
}

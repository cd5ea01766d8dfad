import { invalid } from '../../error.ts'
import type { GenerationRequest, ImageOutput } from '../../generation/request.ts'
import { Fields, present } from '../fields.ts'
import { parseSize } from '../image-config.ts'
import type { Capabilities, RawRequest } from '../protocol.ts'
import { OUTPUT_FORMATS } from './shapes.ts'

/** Longest side of an image in pixels, beyond what any provider makes. */
const LONGEST_SIDE = 8_192

const IMAGES_MAX = 10

/** Body of `POST /v1/images/generations` -> a request whose prompt is its only turn. Throws invalid_request. */
export function readRequest({ body: json }: RawRequest): GenerationRequest {
  const body = new Fields(json)
  const model = body.require('model', body.string('model'), 'the name of a model')
  const prompt = body.require('prompt', body.string('prompt'), 'a description of the image')
  if (prompt.trim() === '') throw invalid('prompt', 'must not be empty: describe the image')
  const imageOutput = readOutput(body)
  const format = body.oneOf('response_format', ['url', 'b64_json'])
  const stream = body.boolean('stream') ?? false
  if (stream && format === 'url')
    throw invalid('response_format', "must be 'b64_json' or absent in a stream, which carries the images themselves")
  const user = body.string('user')
  checkExtras(new Fields(json))
  return {
    model,
    system: [],
    turns: [{ role: 'user', path: 'prompt', parts: [{ type: 'text', text: prompt, path: 'prompt' }] }],
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
    count: body.integer('n', { min: 1, max: IMAGES_MAX }) ?? 1,
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
      `must be 'auto' or <width>x<height> in pixels with no side above ${LONGEST_SIDE}, such as 1024x1024, ` +
        `not '${size.slice(0, 64)}'`,
    )
  }
  return read
}

/** Checks the fields that only this protocol has; they stay in `extras`. */
function checkExtras(body: Fields): void {
  body.string('style')
  body.string('moderation')
  body.integer('partial_images', { min: 0, max: 3 })
}

/** Throws invalid_request for a model that is known to make no images. */
export function checkModel({ model }: GenerationRequest, capabilities: readonly Capabilities[]): void {
  if (capabilities.some(({ output }) => output === undefined || output.includes('image'))) return
  throw invalid(
    'model',
    `must be a model that makes images; ${model} outputs ${capabilities[0]!.output!.join(' and ')}`,
  )
}

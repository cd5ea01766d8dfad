import { invalid } from '../../error.ts'
import type { GenerationRequest, ImageOutput } from '../../generation/request.ts'
import { collectExtras, type Extras, Fields, present, refuseElsewhere, tryRead } from '../fields.ts'
import { parseSize } from '../image-config.ts'
import type { Capabilities, RawRequest } from '../protocol.ts'
import { takeRoutingMembers } from '../routing-members.ts'
import { OUTPUT_FORMATS } from './shapes.ts'

/** Longest side of an image in pixels, beyond what any provider makes. */
const LONGEST_SIDE = 8_192

const IMAGES_MAX = 10

/**
 * Body of `POST /v1/images/generations` -> a request whose prompt is its only turn. Throws invalid_request for a field
 * that Sluice needs itself.
 */
export function readRequest({ body: json }: RawRequest): GenerationRequest {
  const extras: Extras = Object.create(null)
  const body = new Fields(json, '', extras)
  const { needed } = body
  const model = needed.require('model', needed.string('model'), 'the name of a model')
  const prompt = tryRead(readPrompt, body, extras) ?? ''
  const imageOutput = readOutput(body)
  const format = needed.oneOf('response_format', ['url', 'b64_json'])
  const stream = needed.boolean('stream') ?? false
  if (stream && format === 'url')
    throw invalid('response_format', "must be 'b64_json' or absent in a stream, which carries the images themselves")
  const user = body.string('user')
  checkExtras(new Fields(json, '', extras))
  takeRoutingMembers(body)
  collectExtras(body, extras)
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
    extras,
  }
}

function readPrompt(body: Fields): string {
  const prompt = body.require('prompt', body.string('prompt'), 'a description of the image')
  if (prompt.trim() === '') throw invalid('prompt', 'must not be empty: describe the image')
  return prompt
}

function readOutput(body: Fields): ImageOutput {
  const count = body.needed.integer('n', { min: 1 }) ?? 1
  body.integer('n', { min: 1, max: IMAGES_MAX })
  return {
    count,
    ...readSize(body),
    ...present('quality', body.string('quality')),
    ...present('background', body.oneOf('background', ['transparent', 'opaque', 'auto'])),
    ...present('format', body.oneOf('output_format', OUTPUT_FORMATS)),
    ...present('compression', body.integer('output_compression', { min: 0, max: 100 })),
  }
}

/** Pixels, or a ratio (`1:1`) or a size class (`2K`) as some providers of this protocol have them. */
function readSize(body: Fields): Pick<ImageOutput, 'size' | 'aspectRatio' | 'imageSize'> {
  const size = body.string('size')
  if (size === undefined || size === 'auto') return {}
  if (/^\d+:\d+$/.test(size)) return { aspectRatio: size }
  if (/^\d+K$/.test(size)) return { imageSize: size }
  const read = parseSize(size)
  if (read === undefined || Math.max(read.width, read.height) > LONGEST_SIDE) {
    const problem =
      `must be 'auto' or <width>x<height> in pixels with no side above ${LONGEST_SIDE}, such as 1024x1024, ` +
      `not '${size.slice(0, 64)}'`
    refuseElsewhere(body.extras!, invalid('size', problem))
  }
  return present('size', read)
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

import type { GenerationRequest, ImageOutput, Tool } from '../generation/request.ts'
import { present } from './fields.ts'
import type { Target } from './protocol.ts'
import type { Translation } from './translation.ts'

/** Options of images that are generated in a conversation: a ratio, and a size class above the default. */
export type ImageConfig = Pick<ImageOutput, 'aspectRatio' | 'imageSize'>

const RATIOS = ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9']

/** Each size class with the smallest side of a square that is nearer to it than to the class below. */
const SIZES: ['4K' | '2K', number][] = [
  ['4K', 2_896],
  ['2K', 1_448],
]

/** `1024x768`; undefined for anything else. */
export function parseSize(text: string): ImageOutput['size'] {
  const [, width, height] = /^([1-9]\d{0,4})x([1-9]\d{0,4})$/.exec(text)?.map(Number) ?? []
  return width === undefined || height === undefined ? undefined : { width, height }
}

/** The tool of the responses API that generates images. */
export const isImageTool = (tool: Tool): boolean => tool.type === 'native' && tool.kind === 'image_generation'

/** The tool for a request whose response is to have images; undefined where it has one already, or wants none. */
export function writeImageTool(
  { imageOutput, outputModalities, tools }: GenerationRequest,
  translation: Translation,
): Record<string, unknown> | undefined {
  if (outputModalities?.includes('image') !== true || tools.some(isImageTool)) return undefined
  const { size, aspectRatio, imageSize, quality, background, format, compression } = imageOutput ?? {}
  const [width = 1, height = 1] = aspectRatio?.split(':').map(Number) ?? []
  const nearest = width === height ? '1024x1024' : width > height ? '1536x1024' : '1024x1536'
  if (aspectRatio !== undefined || imageSize !== undefined)
    translation.lose('value_adjusted', translation.setting('imageOutput'), `the image is made with ${nearest} pixels`)
  const pixels = size === undefined ? (aspectRatio === undefined ? undefined : nearest) : `${size.width}x${size.height}`
  return {
    type: 'image_generation',
    ...present('size', pixels),
    ...present('quality', quality),
    ...present('background', background),
    ...present('output_format', format),
    ...present('output_compression', compression),
  }
}

/** A request whose image tool becomes the output modality `image`, if the model generates images itself. */
export const withImageOutput = (request: GenerationRequest, { capabilities: { output } }: Target): GenerationRequest =>
  output?.includes('image') === true && request.tools.some(isImageTool)
    ? { ...request, tools: request.tools.filter((tool) => !isImageTool(tool)), outputModalities: ['text', 'image'] }
    : request

/**
 * The image options of a conversation, with losses for those that have no equivalent. Throws unsupported_parameter for
 * several images in a stream, since each needs a call of its own.
 */
export function imageConfigOf(
  { imageOutput, outputModalities, stream }: GenerationRequest,
  translation: Translation,
): ImageConfig | undefined {
  if (imageOutput === undefined) return undefined
  const { count = 1, size, aspectRatio: requestedRatio, imageSize: requestedSize, ...others } = imageOutput
  if (requestedRatio !== undefined || requestedSize !== undefined)
    return { ...present('aspectRatio', requestedRatio), ...present('imageSize', requestedSize) }
  if (outputModalities?.includes('image') !== true) return undefined
  if (stream && count > 1)
    throw translation.refusal(
      translation.setting('imageOutput.count'),
      'must be 1 in a stream of this model, which generates one image at a time',
    )
  for (const name of ['quality', 'background', 'format', 'compression'] as const)
    if (others[name] !== undefined) translation.lose('unsupported_field', translation.setting(`imageOutput.${name}`))
  if (size === undefined) return undefined
  const { width, height } = size
  const aspectRatio = RATIOS.reduce((nearest, ratio) =>
    ratioDistance(ratio, width / height) < ratioDistance(nearest, width / height) ? ratio : nearest,
  )
  const imageSize = SIZES.find(([, side]) => Math.sqrt(width * height) >= side)?.[0]
  const exact = width === height && width === { '4K': 4_096, '2K': 2_048, '1K': 1_024 }[imageSize ?? '1K']
  if (!exact)
    translation.lose(
      'value_adjusted',
      translation.setting('imageOutput.size'),
      `the provider accepts aspect ratios: sent as ${aspectRatio} in ${imageSize ?? '1K'}`,
    )
  return { aspectRatio, ...present('imageSize', imageSize) }
}

/** The distance of two ratios, the same for both orientations. */
const ratioDistance = (ratio: string, requested: number): number => {
  const [width = 1, height = 1] = ratio.split(':').map(Number)
  return Math.abs(Math.log(width / height / requested))
}

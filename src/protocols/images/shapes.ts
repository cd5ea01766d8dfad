import { GatewayError } from '../../error.ts'
import { count, isCount, promptTokens, type Usage } from '../../generation/usage.ts'
import { sniff, SNIFFED_BYTES } from '../../http/sniff.ts'
import { isObject, objectOf } from '../../json/parse.ts'

/** Shapes of OpenAI's images API that both directions need. Source: OpenAI's API reference. */

/** Any JSON object of the wire. */
export type Json = Record<string, unknown>

export const OUTPUT_FORMATS = ['png', 'jpeg', 'webp'] as const

/**
 * A wire usage object in our buckets; undefined where it has no counts. Output is image tokens, except what the details
 * count as text.
 */
export function readUsage(usage: unknown): Partial<Usage> | undefined {
  if (!isObject(usage) || (!isCount(usage.input_tokens) && !isCount(usage.output_tokens))) return undefined
  const details = objectOf(usage.output_tokens_details)
  const prompt = count(usage.input_tokens)
  const images = Math.min(count(objectOf(usage.input_tokens_details).image_tokens), prompt)
  const generated = count(usage.output_tokens)
  const text = Math.min(count(details.text_tokens), generated)
  return {
    inputTokens: prompt - images,
    inputImageTokens: images,
    ...(isCount(usage.output_tokens) ? { outputTokens: text, outputImageTokens: generated - text } : {}),
  }
}

/** Our buckets as the API's usage object. Reasoning and text beside the images count as text. */
export function writeUsage(usage: Usage): Json {
  const input = promptTokens(usage)
  const text = usage.outputTokens + usage.reasoningTokens + usage.outputAudioTokens
  return {
    input_tokens: input,
    output_tokens: text + usage.outputImageTokens,
    total_tokens: input + text + usage.outputImageTokens,
    input_tokens_details: { text_tokens: input - usage.inputImageTokens, image_tokens: usage.inputImageTokens },
    output_tokens_details: { text_tokens: text, image_tokens: usage.outputImageTokens },
  }
}

/** Images of one response: some models make a series for each one requested. */
const IMAGES_MAX = 100

/**
 * The images of a response body; undefined where it has none. Throws upstream_error for far more than were requested:
 * they are neither billed nor fetched.
 */
export function dataOf(answer: unknown): unknown[] | undefined {
  if (!isObject(answer) || !Array.isArray(answer.data)) return undefined
  const { length } = answer.data
  if (length > IMAGES_MAX)
    throw new GatewayError(
      'upstream_error',
      `The provider responded with ${length} images; at most ${IMAGES_MAX} are accepted.`,
    )
  return answer.data
}

/** The base64 of one image of a response; undefined where there is none. */
export const imageOf = (image: unknown): string | undefined =>
  isObject(image) && typeof image.b64_json === 'string' && image.b64_json !== '' ? image.b64_json : undefined

/** The media type of a base64 image by its bytes; undefined where it is no image. */
export function mediaTypeOf(data: string): string | undefined {
  const type = sniff(Buffer.from(data.slice(0, SNIFFED_BYTES), 'base64'))
  return type.startsWith('image/') ? type : undefined
}

/** `1024x768` from the header of a PNG; undefined for other formats. */
export function sizeOf(data: string): string | undefined {
  const header = Buffer.from(data.slice(0, 32), 'base64')
  return header.length < 24 || header.toString('latin1', 12, 16) !== 'IHDR'
    ? undefined
    : `${header.readUInt32BE(16)}x${header.readUInt32BE(20)}`
}

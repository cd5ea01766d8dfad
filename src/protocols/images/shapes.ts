import { GatewayError } from '../../error.ts'
import { count, isCount, promptTokens, type Usage } from '../../generation/usage.ts'
import { sniff, SNIFFED_BYTES } from '../../http/sniff.ts'
import { isObject } from '../fields.ts'

/** Words of OpenAI's images API that both sides of it need. Source: OpenAI's API reference. */

/** Any JSON object of the wire. */
export type Json = Record<string, unknown>

export const OUTPUT_FORMATS = ['png', 'jpeg', 'webp'] as const

/**
 * A wire usage object in our buckets; undefined when it says nothing. What is put out is image tokens, but for what the
 * details call text.
 */
export function readUsage(usage: unknown): Partial<Usage> | undefined {
  if (!isObject(usage) || (!isCount(usage.input_tokens) && !isCount(usage.output_tokens))) return undefined
  const details = isObject(usage.output_tokens_details) ? usage.output_tokens_details : {}
  const generated = count(usage.output_tokens)
  const text = Math.min(count(details.text_tokens), generated)
  return {
    inputTokens: count(usage.input_tokens),
    ...(isCount(usage.output_tokens) ? { outputTokens: text, outputImageTokens: generated - text } : {}),
  }
}

/** Our buckets as the API's usage object. What a model thought or said beside its images counts as text. */
export function writeUsage(usage: Usage): Json {
  const input = promptTokens(usage)
  const text = usage.outputTokens + usage.reasoningTokens + usage.outputAudioTokens
  return {
    input_tokens: input,
    output_tokens: text + usage.outputImageTokens,
    total_tokens: input + text + usage.outputImageTokens,
    input_tokens_details: { text_tokens: input, image_tokens: 0 },
    output_tokens_details: { text_tokens: text, image_tokens: usage.outputImageTokens },
  }
}

/** Images of one answer: some models make a series for each that is asked for. */
const MOST_TOLD = 100

/**
 * The images of an answer as they stand in it; undefined where it has none. Throws upstream_error for more than anybody
 * asks for, which nobody is to pay or to fetch.
 */
export function dataOf(answer: unknown): unknown[] | undefined {
  if (!isObject(answer) || !Array.isArray(answer.data)) return undefined
  const { length } = answer.data
  if (length > MOST_TOLD) throw new GatewayError('upstream_error', `The provider answered with ${length} images.`)
  return answer.data
}

/** The base64 of one image of an answer; undefined where there is none. */
export const imageOf = (image: unknown): string | undefined =>
  isObject(image) && typeof image.b64_json === 'string' && image.b64_json !== '' ? image.b64_json : undefined

/** The type of an image in base64, by its bytes; undefined for what is none. */
export function mediaTypeOf(data: string): string | undefined {
  const seen = sniff(Buffer.from(data.slice(0, SNIFFED_BYTES), 'base64'))
  return seen.startsWith('image/') ? seen : undefined
}

/** `1024x768` of a PNG, whose header says it; undefined for anything else. */
export function sizeOf(data: string): string | undefined {
  const header = Buffer.from(data.slice(0, 32), 'base64')
  return header.length < 24 || header.toString('latin1', 12, 16) !== 'IHDR'
    ? undefined
    : `${header.readUInt32BE(16)}x${header.readUInt32BE(20)}`
}

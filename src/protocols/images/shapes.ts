import { count, isCount, promptTokens, type Usage } from '../../generation/usage.ts'
import { isObject } from '../fields.ts'

/** Words of OpenAI's images API that both sides of it need. Source: OpenAI's API reference. */

/** Any JSON object of the wire. */
export type Json = Record<string, unknown>

export const OUTPUT_FORMATS = ['png', 'jpeg', 'webp'] as const

/** A wire usage object in our buckets; undefined when it says nothing. What is put out is image tokens, but for what the details call text. */
export function readUsage(usage: unknown): Partial<Usage> | undefined {
  if (!isObject(usage) || (!isCount(usage.input_tokens) && !isCount(usage.output_tokens))) return undefined
  const details = isObject(usage.output_tokens_details) ? usage.output_tokens_details : {}
  const generated = count(usage.output_tokens)
  const text = Math.min(count(details.text_tokens), generated)
  return { inputTokens: count(usage.input_tokens), ...(isCount(usage.output_tokens) ? { outputTokens: text, outputImageTokens: generated - text } : {}) }
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

const MAGIC: [string, string][] = [['iVBORw0KGgo', 'image/png'], ['/9j/', 'image/jpeg'], ['UklGR', 'image/webp'], ['R0lGOD', 'image/gif']]

/** The type of an image by how its base64 begins; undefined for what is none that the API knows. */
export const mediaTypeOf = (data: string): string | undefined => MAGIC.find(([begin]) => data.startsWith(begin))?.[1]

/** `1024x768` of a PNG, whose header says it; undefined for anything else. */
export function sizeOf(data: string): string | undefined {
  const header = Buffer.from(data.slice(0, 32), 'base64')
  return header.length < 24 || header.toString('latin1', 12, 16) !== 'IHDR' ? undefined : `${header.readUInt32BE(16)}x${header.readUInt32BE(20)}`
}

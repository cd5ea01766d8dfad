import { GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import { splice } from '../../json/edit.ts'
import { tryParse } from '../../json/parse.ts'
import type { GenerationRequest, Part, Sampling } from '../../generation/request.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { isObject, nothingSaid, present } from '../fields.ts'
import { isImageTool } from '../image-config.ts'
import type { Word } from '../places.ts'
import type { TranslationContext, Loss, Reader, Target, WrittenRequest } from '../protocol.ts'
import { cutStream, upstreamStreamError } from '../upstream-error.ts'
import { dataOf, imageOf, mediaTypeOf, readUsage, type Json } from './shapes.ts'

/**
 * The client's own body with the provider's model name. The images themselves are asked for: addresses that the client
 * gets are ours.
 */
export const forward = ({ rawRequest }: TranslationContext, target: Target): string =>
  splice(rawRequest.text, {
    model: JSON.stringify(target.model),
    response_format: target.capabilities.base64Only === true ? undefined : '"b64_json"',
  })

/** A conversation as a prompt: what its last user turn says. */
export function writeRequest(request: GenerationRequest, target: Target): WrittenRequest {
  const losses: Loss[] = []
  const last = request.turns.findLast(({ role }) => role === 'user')
  const prompt = textOf(last?.parts ?? [])
  if (prompt === '') throw nothingSaid(request)
  reportUncarried(request, last?.parts ?? [], losses)
  const { imageOutput: { count, size, quality, background, format, compression } = {} } = request
  return {
    body: {
      model: target.model,
      prompt,
      ...(target.capabilities.base64Only === true ? {} : { response_format: 'b64_json' }),
      ...present('n', count),
      ...present('size', size && `${size.width}x${size.height}`),
      ...present('quality', quality),
      ...present('background', background),
      ...present('output_format', format),
      ...present('output_compression', compression),
      ...present('user', request.user),
      ...(request.stream ? { stream: true } : {}),
    },
    losses,
  }
}

const textOf = (parts: readonly Part[]): string =>
  parts
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('\n')
    .trim()

function reportUncarried(request: GenerationRequest, carried: readonly Part[], losses: Loss[]): void {
  const leftOut = (field: Word, present: boolean, why: string): void => {
    if (present) losses.push({ field, what: 'left out', why })
  }
  const none = 'an images API has no such field'
  leftOut('system', request.system.length > 0, 'an images API takes a prompt and no instructions')
  leftOut('conversation', request.turns.length > 1, 'an images API takes one prompt: the text of the last user turn')
  leftOut(
    'part',
    carried.some(({ type }) => type !== 'text'),
    'an images API makes images of text',
  )
  leftOut(
    'tool',
    request.tools.some((tool) => !isImageTool(tool)) || request.webSearch !== undefined,
    'an images API has no other tools',
  )
  for (const field of Object.keys(request.sampling) as (keyof Sampling)[])
    leftOut(field, request.sampling[field] !== undefined, none)
  leftOut('maxOutputTokens', request.maxOutputTokens !== undefined, none)
  leftOut('reasoning', request.reasoning !== undefined, none)
  leftOut('outputFormat', request.outputFormat !== undefined && request.outputFormat.type !== 'text', none)
  leftOut(
    'imageOutput',
    request.imageOutput?.aspectRatio !== undefined || request.imageOutput?.imageSize !== undefined,
    'an images API takes pixels',
  )
  leftOut('metadata', request.metadata !== undefined, none)
}

/** An `ImagesResponse` -> events. Throws a GatewayError on an error body, and on one without images. */
export function readAnswer(body: unknown): GenerationEvent[] {
  if (isObject(body) && body.error !== undefined && body.error !== null) throw readFailure(body.error)
  const images = (dataOf(body) ?? []).flatMap((image) => imageOf(image) ?? [])
  if (!isObject(body) || images.length === 0)
    throw new GatewayError('upstream_error', 'The provider answered without an image.')
  const usage = readUsage(body.usage)
  return [
    { type: 'start', id: '', model: '' },
    ...images.flatMap(partOf),
    ...(usage === undefined ? [] : [{ type: 'usage' as const, usage }]),
    { type: 'finish', reason: 'stop', raw: 'stop' },
  ]
}

const partOf = (data: string, part: number): GenerationEvent[] => [
  { type: 'part-start', part, head: { type: 'image', mediaType: mediaTypeOf(data) ?? 'image/png' } },
  { type: 'part-delta', part, text: data },
  { type: 'part-end', part },
]

function readFailure(error: unknown): GatewayError {
  if (!isObject(error)) return upstreamStreamError(typeof error === 'string' ? error : '')
  const { message, type, code, param } = error
  return upstreamStreamError(typeof message === 'string' ? message : '', {
    ...(typeof type === 'string' ? { type } : {}),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    ...(typeof param === 'string' ? { param } : {}),
  })
}

/**
 * Events of the images API -> ours: only whole images count. The stream has no terminal frame, so the finish waits for
 * the end of the bytes.
 */
export class ImageReader implements Reader {
  readonly #usage: Usage = noUsage()
  #parts = 0
  #started = false
  #ended = false

  read({ data }: Frame): GenerationEvent[] {
    const body = parse(data)
    if (this.#ended || body === undefined) return []
    if (body.error !== undefined && body.error !== null) return this.#fail(readFailure(body.error))
    const events: GenerationEvent[] = this.#started ? [] : [{ type: 'start', id: '', model: '' }]
    this.#started = true
    const image = body.type === 'image_generation.completed' ? imageOf(body) : undefined
    return image === undefined ? events : [...events, ...partOf(image, this.#parts++), ...this.#recordUsage(body.usage)]
  }

  /** Each image may tell its own. */
  #recordUsage(told: unknown): GenerationEvent[] {
    const usage = readUsage(told)
    if (usage === undefined) return []
    for (const bucket of ['inputTokens', 'outputTokens', 'outputImageTokens'] as const)
      this.#usage[bucket] += usage[bucket] ?? 0
    const { inputTokens, outputTokens, outputImageTokens } = this.#usage
    return [{ type: 'usage', usage: { inputTokens, outputTokens, outputImageTokens } }]
  }

  get finishing(): boolean {
    return this.#parts > 0
  }

  end(): GenerationEvent[] {
    if (this.#ended) return []
    if (this.#parts === 0) return this.#fail(cutStream())
    this.#ended = true
    return [{ type: 'finish', reason: 'stop', raw: 'stop' }]
  }

  #fail(error: GatewayError): GenerationEvent[] {
    this.#ended = true
    return [{ type: 'error', error }]
  }
}

function parse(text: string): Json | undefined {
  const value = tryParse(text)
  return isObject(value) ? value : undefined
}

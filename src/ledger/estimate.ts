import type { GenerationRequest, MediaPart, Part, Tool } from '../generation/request.ts'
import { TOKENS_MAX, noUsage, type Usage } from '../generation/usage.ts'
import { isImageTool } from '../protocols/image-config.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import type { CountAnswer, CountRequest } from './count-tokens-worker.ts'

/** Tokens of media whose size in tokens only the provider knows: about what an image of a megapixel costs. */
const MEDIA_TOKENS = 1_000

/** Tokens a turn costs besides its text. */
const TURN_TOKENS = 4

/** Characters a token is taken to have where they are not counted. */
export const CHARACTERS_PER_TOKEN = 4

/** Who waits for a count, by its number, and how many characters are counted. */
const waiting = new Map<number, { length: number; resolve: (tokens: number) => void }>()
let counts = 0
let counter: Worker | undefined

/**
 * Texts -> their tokens together, counted beside the event loop by a tokeniser that is loaded at the first use, as it
 * is large.
 */
export function countTokens(texts: readonly string[]): Promise<number> {
  if (texts.every((text) => text === '')) return Promise.resolve(0)
  counter ??= startCounter()
  const { promise, resolve } = Promise.withResolvers<number>()
  const id = counts++
  waiting.set(id, { length: texts.reduce((sum, text) => sum + text.length, 0), resolve })
  counter.postMessage({ id, texts } satisfies CountRequest)
  return promise
}

function startCounter(): Worker {
  const worker = new Worker(new URL('./count-tokens-worker.ts', import.meta.url))
  // An idle tokeniser must not keep a program alive.
  worker.unref()
  worker.onmessage = ({ data: { id, tokens } }: MessageEvent<CountAnswer>) => {
    waiting.get(id)?.resolve(tokens)
    waiting.delete(id)
  }
  // A generation must end, and be charged, also when it cannot be counted.
  worker.onerror = ({ message }) => {
    console.error(`The tokeniser failed: ${message}`)
    counter = undefined
    for (const { length, resolve } of waiting.values()) resolve(Math.ceil(length / CHARACTERS_PER_TOKEN))
    waiting.clear()
  }
  return worker
}

/** Input tokens of a request, estimated: for providers that count none themselves. */
export async function estimateInputTokens(request: GenerationRequest): Promise<number> {
  const texts: string[] = request.tools.length === 0 ? [] : [JSON.stringify(request.tools)]
  let media = 0
  const weigh = (part: Part): void => {
    switch (part.type) {
      case 'text':
      case 'reasoning':
      case 'refusal':
        texts.push(part.text)
        break
      case 'tool-call':
        texts.push(part.name, part.arguments)
        break
      case 'tool-result':
        part.content.forEach(weigh)
        break
      case 'native':
        texts.push(JSON.stringify(part.value) ?? '')
        break
      default:
        if (part.source.type === 'text') texts.push(part.source.text)
        else media++
    }
  }
  request.system.forEach(weigh)
  for (const turn of request.turns) turn.parts.forEach(weigh)
  return (await countTokens(texts)) + media * MEDIA_TOKENS + request.turns.length * TURN_TOKENS
}

/**
 * Bytes a token is taken to have at the least: of text, English has about 4.5, Chinese 3, digits and base64 2; of
 * media, what dense ones have.
 */
const FEWEST_BYTES_PER_TOKEN = { text: 2, file: 8, video: 50, audio: 100, image: Infinity }

/** A medium on top of its bytes: four times what one usually takes. */
const MOST_MEDIUM_TOKENS = 4 * MEDIA_TOKENS

/** Output of a model whose limit nobody said. */
const ASSUMED_OUTPUT_TOKENS = 32_768

/** Searches of a request that lets its provider search. */
const ASSUMED_SEARCHES = 10

/**
 * What an image that is made takes at the most, in tokens: those of GPT Image at its best are 1 for every 250 pixels,
 * of others fewer.
 */
const PIXELS_PER_TOKEN = 200
const USUAL_PIXELS = 1_536 * 1_024

/**
 * The most that a request may use, for its hold, in a time that does not grow with its text: `bodyBytes` without its
 * media, what the media may have by
 * their size, and the output limit of the request, else the model's. `abilities`: of those who may be asked. Providers
 * add prompts of their own and count media in their own way,
 * so a bill may still pass it; what is then missing is paid from what the account has, or written off.
 */
export function worstCase(
  request: GenerationRequest,
  bodyBytes: number,
  modelLimit: number | undefined,
  capabilities: readonly Capabilities[] = [],
): Usage {
  const usage = noUsage()
  let mediaBytes = 0
  let lifetime: '5m' | '1h' | undefined
  const weigh = (part: Part | Tool): void => {
    if ('cache' in part && part.cache !== undefined && lifetime !== '1h') lifetime = part.cache.ttl ?? '5m'
    if (part.type === 'tool-result') part.content.forEach(weigh)
    if (!('source' in part)) return
    const encoded = part.source.type === 'data' ? part.source.data.length : 0
    mediaBytes += encoded
    usage[part.type === 'audio' ? 'inputAudioTokens' : 'inputTokens'] +=
      MOST_MEDIUM_TOKENS + Math.ceil((encoded * 0.75) / FEWEST_BYTES_PER_TOKEN[kindOf(part)])
  }
  request.system.forEach(weigh)
  request.tools.forEach(weigh)
  for (const turn of request.turns) turn.parts.forEach(weigh)
  usage.inputTokens += Math.ceil(Math.max(0, bodyBytes - mediaBytes) / FEWEST_BYTES_PER_TOKEN.text)
  const { imageOutput } = request
  usage.images = imageOutput?.count ?? (imageOutput !== undefined || mayDraw(request, capabilities) ? 1 : 0)
  const imageTokens =
    usage.images *
    Math.ceil(
      Math.max(USUAL_PIXELS, (imageOutput?.size?.width ?? 0) * (imageOutput?.size?.height ?? 0)) / PIXELS_PER_TOKEN,
    )
  const limit =
    request.protocol === 'images'
      ? 0
      : (request.maxOutputTokens ?? modelLimit ?? ASSUMED_OUTPUT_TOKENS) * (request.candidates ?? 1)
  // More than that would not be believed of any answer.
  usage.outputTokens = Math.min(TOKENS_MAX, Math.max(limit, imageTokens))
  if (request.webSearch !== undefined || request.tools.some(({ type }) => type === 'native'))
    usage.webSearches = ASSUMED_SEARCHES
  if (lifetime !== undefined) {
    usage[lifetime === '1h' ? 'cacheWrite1hTokens' : 'cacheWrite5mTokens'] = usage.inputTokens
    usage.inputTokens = 0
  }
  return usage
}

/**
 * Models that draw do so unasked, unless they are told to write only; an images API makes nothing else, and others draw
 * with a tool.
 */
const mayDraw = ({ outputModalities, tools }: GenerationRequest, capabilities: readonly Capabilities[]): boolean =>
  tools.some(isImageTool) ||
  capabilities.some(({ api }) => api === 'images') ||
  (outputModalities?.includes('image') ?? capabilities.some(({ output }) => output?.includes('image')))

/** A file that is written in text has a token for every few bytes; in any other, most bytes are layout and pictures. */
const kindOf = ({ type, source }: MediaPart): keyof typeof FEWEST_BYTES_PER_TOKEN =>
  type === 'file' && source.type === 'data' && /^(text\/|application\/(json|xml|yaml|x-))/.test(source.mediaType)
    ? 'text'
    : type

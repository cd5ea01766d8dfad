import type {
  GenerationRequest,
  ImageOutput,
  MediaPart,
  Part,
  RequestSettings,
  Tool,
  Turn,
} from '../generation/request.ts'
import { TOKENS_MAX, noUsage, type Usage } from '../generation/usage.ts'
import { objectOf, stringOf } from '../json/parse.ts'
import { log } from '../log/log.ts'
import { matchingElements } from '../protocols/element-memory.ts'
import { isImageTool, parseSize } from '../protocols/image-config.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import { mostCandidates, type RequestedOutput } from '../protocols/requested-output.ts'
import { threadModule } from '../worker/modules.ts'
import { countedText } from './counted-text.ts'
import type { CountRequest, CountResponse } from './count-tokens-worker.ts'

/** Tokens assumed for a medium, which only its provider can count: about those of an image of one megapixel. */
const MEDIA_TOKENS = 1_000

/** Tokens of a turn besides its text. */
const TURN_TOKENS = 4

/** Characters assumed per token where tokens are not counted. */
export const CHARACTERS_PER_TOKEN = 4

/** Counts under way, by their id. `length`: the characters to count. */
const waiting = new Map<number, { length: number; resolve: (tokens: number) => void }>()
let counts = 0
let counter: Worker | undefined

/**
 * Tokens of all texts together, counted in a worker that is started at the first use, as its tokeniser is large.
 * `length`: of the whole texts, where these are their beginnings.
 */
export function countTokens(texts: readonly string[], length = lengthOf(texts)): Promise<number> {
  if (texts.every((text) => text === '')) return Promise.resolve(0)
  counter ??= startCounter()
  const { promise, resolve } = Promise.withResolvers<number>()
  const id = counts++
  waiting.set(id, { length, resolve })
  counter.postMessage({ id, texts: countedText(texts), length } satisfies CountRequest)
  return promise
}

const lengthOf = (texts: readonly string[]): number => texts.reduce((sum, text) => sum + text.length, 0)

function startCounter(): Worker {
  const worker = new Worker(threadModule('ledger/count-tokens-worker.ts'))
  // An idle worker must not keep the process alive.
  worker.unref()
  worker.onmessage = ({ data: { id, tokens } }: MessageEvent<CountResponse>) => {
    waiting.get(id)?.resolve(tokens)
    waiting.delete(id)
  }
  // A generation must be closed and charged even where it cannot be counted.
  worker.onerror = ({ message }) => {
    log.error(`The tokeniser failed: ${message}`)
    counter = undefined
    for (const { length, resolve } of waiting.values()) resolve(Math.ceil(length / CHARACTERS_PER_TOKEN))
    waiting.clear()
  }
  return worker
}

/** Input tokens of a request, estimated, for providers that do not count them. */
export async function estimateInputTokens(request: GenerationRequest): Promise<number> {
  const texts: string[] = request.tools.length === 0 ? [] : [JSON.stringify(request.tools)]
  let media = 0
  const collect = (part: Part): void => {
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
        part.content.forEach(collect)
        break
      case 'native':
        texts.push(JSON.stringify(part.value) ?? '')
        break
      default:
        if (part.source.type === 'text') texts.push(part.source.text)
        else media++
    }
  }
  request.system.forEach(collect)
  for (const turn of request.turns) turn.parts.forEach(collect)
  return (await countTokens(texts)) + media * MEDIA_TOKENS + request.turns.length * TURN_TOKENS
}

/** Input tokens of a request by the length of its body, without counting them. */
export function roughInputTokens(request: GenerationRequest, bodyBytes: number): number {
  const { media } = promptTotals(request)
  return Math.ceil(Math.max(0, bodyBytes - media.bytes) / CHARACTERS_PER_TOKEN) + media.number * MEDIA_TOKENS
}

/** The fewest bytes per token: English text has about 4.5, Chinese 3, digits and base64 2; media as in dense files. */
const FEWEST_BYTES_PER_TOKEN = { text: 2, file: 8, video: 50, audio: 100, image: Infinity }

/** Added for each medium besides its bytes: four times what one usually takes. */
const MOST_MEDIUM_TOKENS = 4 * MEDIA_TOKENS

/** Output limit assumed for a model that has none in the catalogue. */
export const ASSUMED_OUTPUT_TOKENS = 32_768

/** Searches of a request that lets its provider search. */
const ASSUMED_SEARCHES = 10

/** Calls for which a tool that draws is held. */
export const IMAGE_TOOL_CALLS = 4

/** Tokens of a generated image: GPT Image at its best quality takes one for every 250 pixels, others fewer. */
const PIXELS_PER_TOKEN = 200
const USUAL_PIXELS = 1_536 * 1_024

/**
 * The most that a request may use, for its hold, computed without reading its text. `bodyBytes` counts the body
 * including inline media; `modelLimit` is the model's output limit; `capabilities` are those of all endpoints it may go
 * to; `forwarded`: the output that members ask for which are passed on as they are. A bill may still exceed it, because
 * providers add prompts of their own and count media in their own way: the rest is paid from the account's balance or
 * written off.
 */
export const worstCase = (
  request: GenerationRequest,
  bodyBytes: number,
  modelLimit: number | undefined,
  capabilities: readonly Capabilities[] = [],
  forwarded?: RequestedOutput,
): Usage => worstUsage(request, promptTotals(request), bodyBytes, modelLimit, capabilities, forwarded)

/** The same for a request whose conversation was not read, since it has nothing but text. */
export const worstTextCase = (
  settings: RequestSettings,
  cacheLifetime: PromptTotals['cacheLifetime'],
  bodyBytes: number,
  modelLimit: number | undefined,
  capabilities: readonly Capabilities[],
  forwarded?: RequestedOutput,
): Usage => worstUsage(settings, textTotals(cacheLifetime), bodyBytes, modelLimit, capabilities, forwarded)

function worstUsage(
  request: RequestSettings,
  totals: PromptTotals,
  bodyBytes: number,
  modelLimit: number | undefined,
  capabilities: readonly Capabilities[],
  forwarded: RequestedOutput | undefined,
): Usage {
  const { media, cacheLifetime, hasNativeTool } = totals
  const inputTokens = media.input + textTokens(bodyBytes - media.bytes)
  const made = imageCount(request, capabilities, totals)
  const images = made === 0 ? 0 : Math.max(made, forwarded?.count ?? 1)
  const outputTokens = Math.max(
    outputLimit(request, modelLimit, forwarded),
    images * imageTokens(request.imageOutput?.size),
  )
  return {
    ...noUsage(),
    inputTokens: cacheLifetime === undefined ? inputTokens : 0,
    cacheWrite5mTokens: cacheLifetime === '5m' ? inputTokens : 0,
    cacheWrite1hTokens: cacheLifetime === '1h' ? inputTokens : 0,
    inputAudioTokens: media.audio,
    inputImageTokens: media.image,
    // No response is believed to have more.
    outputTokens: Math.min(TOKENS_MAX, outputTokens),
    webSearches: hasNativeTool || request.webSearch !== undefined || searches(forwarded) ? ASSUMED_SEARCHES : 0,
    images,
    ...imageToolTokens(request, totals),
  }
}

/** The most that a tool's image model is held for: so many calls, each with a text, an image and an image drawn. */
function imageToolTokens(request: RequestSettings, { imageTool }: PromptTotals): Partial<Usage> {
  if (imageTool === undefined && request.outputModalities?.includes('image') !== true) return {}
  const tokens = imageTokens(imageTool === undefined ? request.imageOutput?.size : parseSize(imageTool.size))
  return {
    imageToolInputTokens: IMAGE_TOOL_CALLS * MEDIA_TOKENS,
    imageToolInputImageTokens: IMAGE_TOOL_CALLS * imageTokens(undefined),
    imageToolOutputImageTokens: IMAGE_TOOL_CALLS * tokens,
  }
}

/** A member has the provider search, in a protocol without options for that. */
const searches = (forwarded: RequestedOutput | undefined): boolean =>
  forwarded?.classes.some(({ member }) => member === 'search') === true

type PromptPart = Part | Tool

/** The parts of a prompt that are not counted as text. */
type PromptTotals = {
  /** Number and tokens of media; `bytes`: their base64 characters, which are part of the body. */
  media: { number: number; bytes: number; input: number; audio: number; image: number }
  /** The longest lifetime of a cache breakpoint; undefined without one. */
  cacheLifetime: '5m' | '1h' | undefined
  /** A tool that the provider runs. */
  hasNativeTool: boolean
  /** The tool by which the provider has another model draw. */
  imageTool: { size: string } | undefined
}

/** Totals of a prompt that is text alone. */
const textTotals = (cacheLifetime: PromptTotals['cacheLifetime']): PromptTotals => ({
  media: { number: 0, bytes: 0, input: 0, audio: 0, image: 0 },
  cacheLifetime,
  hasNativeTool: false,
  imageTool: undefined,
})

/** One pass over all parts of the prompt, those inside tool results included: agents send hundreds. */
function promptTotals({ system, tools, turns }: GenerationRequest): PromptTotals {
  const totals = textTotals(undefined)
  totals.hasNativeTool = tools.some(({ type }) => type === 'native')
  const imageTool = tools.find(isImageTool)
  if (imageTool?.type === 'native') totals.imageTool = { size: stringOf(objectOf(imageTool.value).size) }
  const add = (part: PromptPart): void => {
    if ('cache' in part && part.cache !== undefined && totals.cacheLifetime !== '1h')
      totals.cacheLifetime = part.cache.ttl ?? '5m'
    if ('source' in part) addMedia(part, totals.media)
    else if (part.type === 'tool-result') part.content.forEach(add)
  }
  system.forEach(add)
  tools.forEach(add)
  for (const turn of matchingElements(turns, hasCounted)) turn.parts.forEach(add)
  return totals
}

const hasCounted = ({ parts }: Turn): boolean => parts.some(isCounted)

/** True for a part that adds to the totals. */
const isCounted = (part: Part): boolean =>
  ('cache' in part && part.cache !== undefined) ||
  'source' in part ||
  (part.type === 'tool-result' && part.content.some(isCounted))

function addMedia(part: MediaPart, media: PromptTotals['media']): void {
  const encoded = part.source.type === 'data' ? part.source.data.length : 0
  media.number++
  media.bytes += encoded
  media[part.type === 'audio' || part.type === 'image' ? part.type : 'input'] +=
    MOST_MEDIUM_TOKENS + Math.ceil((encoded * 0.75) / FEWEST_BYTES_PER_TOKEN[densityOf(part)])
}

/** A text file has a token for every few bytes; in other files most bytes are layout and images. */
const densityOf = ({ type, source }: MediaPart): keyof typeof FEWEST_BYTES_PER_TOKEN =>
  type === 'file' && source.type === 'data' && /^(text\/|application\/(json|xml|yaml|x-))/.test(source.mediaType)
    ? 'text'
    : type

const textTokens = (bytes: number): number => Math.ceil(Math.max(0, bytes) / FEWEST_BYTES_PER_TOKEN.text)

const imageCount = (
  request: RequestSettings,
  capabilities: readonly Capabilities[],
  { imageTool }: PromptTotals,
): number =>
  request.imageOutput?.count ??
  (request.imageOutput !== undefined || imageTool !== undefined || mayDraw(request, capabilities) ? 1 : 0)

/**
 * Models with image output may draw unless only text is requested; an images API makes nothing else, and other models
 * draw with a tool.
 */
const mayDraw = ({ outputModalities }: RequestSettings, capabilities: readonly Capabilities[]): boolean =>
  capabilities.some(({ api }) => api === 'images') ||
  (outputModalities?.includes('image') ?? capabilities.some(({ output }) => output?.includes('image')))

/** Output tokens of one generated image. */
function imageTokens(size: ImageOutput['size']): number {
  const { width = 0, height = 0 } = size ?? {}
  return Math.ceil(Math.max(USUAL_PIXELS, width * height) / PIXELS_PER_TOKEN)
}

/** Output tokens of all candidates, without images. */
function outputLimit(
  { protocol, maxOutputTokens, candidates = 1 }: RequestSettings,
  modelLimit: number | undefined,
  forwarded: RequestedOutput | undefined,
): number {
  if (protocol === 'images') return 0
  const unlimited = modelLimit ?? ASSUMED_OUTPUT_TOKENS
  const limit = maxOutputTokens ?? unlimited
  if (forwarded === undefined) return limit * candidates
  // The model's own limit bounds what is only taken for one of the request.
  const asked = forwarded.unlimited ? Math.max(unlimited, forwarded.tokens) : forwarded.tokens
  const most = Math.max(limit, Math.min(asked, modelLimit ?? asked))
  return most * mostCandidates({ candidates }, forwarded) + textTokens(forwarded.predicted)
}

import { invalid } from '../../error.ts'
import type { PartHead } from '../../generation/event.ts'
import type { GenerationRequest, ImageOutput, MediaPart, Tool } from '../../generation/request.ts'
import { textOfParts, type Conversation } from './conversation.ts'
import { digest } from './digest.ts'
import {
  DEFAULT_SIZE,
  imageTokens,
  isValidSize,
  MAX_IMAGE_TOKENS,
  MAX_IMAGES,
  SIDE_LIMITS,
  solidPng,
  type ImageSize,
} from './image.ts'
import { sample } from './sample.ts'
import type { Step } from './script.ts'
import { countTokens } from './tokens.ts'

/** One part of the planned response. `tokens`: its token count, if that does not follow from its text. */
export type PlannedPart = { head: PartHead; text: string; signature?: string; tokens?: number }

/** The HTTP request as received, for `[[echo]]` and ids. */
export type ReceivedRequest = { path: string; text: string; headers: Headers }

/** `earlier`: the parts planned so far. */
type PlanContext = {
  request: GenerationRequest
  conversation: Conversation
  received: ReceivedRequest
  earlier: readonly PlannedPart[]
}

type StepOf<K extends Step['kind']> = Step & { kind: K }

const FILLER_WORDS = (
  'the sandbox turns a handful of plain words round and round like water through a gate ' +
  'so that every answer has its length'
).split(' ')

/** The longest filler so far. Those of all responses are parts of it, and so take no memory of their own. */
let longestFiller = ''

function filler(words: number): string {
  const rest = words % FILLER_WORDS.length
  const rounds = (words - rest) / FILLER_WORDS.length
  const size = (some: readonly string[]): number => some.reduce((sum, word) => sum + word.length + 1, 0)
  const length = Math.max(0, rounds * size(FILLER_WORDS) + size(FILLER_WORDS.slice(0, rest)) - 1)
  if (longestFiller.length < length)
    longestFiller = Array.from({ length: words }, (_, i) => FILLER_WORDS[i % FILLER_WORDS.length]).join(' ')
  return longestFiller.slice(0, length)
}

/** Characters of a response besides its images: it is free, and written word by word. */
const MAX_CHARACTERS = 1024 * 1024

/**
 * The part of a step; undefined if the protocol or the request allows none. Throws a 400 for an impossible image and
 * for too long a response.
 */
export function planPart(step: Step, context: PlanContext): PlannedPart | undefined {
  const part = partOf(step, context)
  if (part === undefined || part.head.type === 'image') return part
  const characters = context.earlier.reduce((sum, { head, text }) => sum + (head.type === 'image' ? 0 : text.length), 0)
  if (characters + part.text.length > MAX_CHARACTERS)
    throw invalid(`[[${step.kind}]]`, `the sandbox responds with at most ${MAX_CHARACTERS} characters`)
  return part
}

function partOf(step: Step, context: PlanContext): PlannedPart | undefined {
  switch (step.kind) {
    case 'reply':
      return textPart(step.text)
    case 'length':
      return textPart(filler(step.words))
    case 'refuse':
      return { head: { type: 'refusal' }, text: step.text }
    case 'json':
      return textPart(structuredText(context.request))
    case 'echo':
      return textPart(echoText(step.subject, context))
    case 'cite':
      return citationPart(step, context)
    case 'image':
      return context.request.protocol === 'messages' ? undefined : imagePart(step, context)
    case 'think':
      return reasoningPart(step, context)
    case 'call':
      return callPart(step, context)
  }
}

const textPart = (text: string): PlannedPart => ({ head: { type: 'text' }, text })

/** A citation annotates text, so there must be some before it. */
function citationPart({ url, title }: StepOf<'cite'>, { earlier }: PlanContext): PlannedPart | undefined {
  if (!earlier.some((part) => part.head.type === 'text')) return undefined
  return { head: { type: 'citation', citation: { url, ...(title === undefined ? {} : { title }) } }, text: '' }
}

function imagePart(step: StepOf<'image'>, { request, conversation, earlier }: PlanContext): PlannedPart {
  const { imageOutput } = request
  const requestedSize = step.size ?? imageOutput?.size
  if (requestedSize !== undefined && !isValidSize(requestedSize))
    throw invalid('size', `must be ${SIDE_LIMITS}; the sandbox supports no other size`)
  if ((imageOutput?.format ?? 'png') !== 'png')
    throw invalid('output_format', "must be 'png'; the sandbox supports no other format")
  const size = requestedSize ?? sizeOfRatio(imageOutput)
  const tokens = imageTokens(size)
  const images = earlier.filter((part) => part.head.type === 'image')
  const totalTokens = images.reduce((sum, part) => sum + part.tokens!, tokens)
  if (images.length >= MAX_IMAGES || totalTokens > MAX_IMAGE_TOKENS)
    throw invalid(
      'size',
      `the sandbox makes at most ${MAX_IMAGES} images per response, ` +
        `with at most ${MAX_IMAGE_TOKENS} tokens (one per 32 x 32 pixels) in total`,
    )
  const png = solidPng({
    ...size,
    prompt: step.prompt ?? conversation.userText,
    index: images.length,
    transparent: imageOutput?.background === 'transparent',
  })
  return { head: { type: 'image', mediaType: 'image/png' }, text: png.toString('base64'), tokens }
}

/** Pixels of an aspect ratio: about as many as a square of that image size has, each side a multiple of 32. */
function sizeOfRatio({ aspectRatio = '', imageSize = '' }: ImageOutput = {}): ImageSize {
  if (aspectRatio + imageSize === '') return DEFAULT_SIZE
  const [, across = 1, down = 1] = /^([1-9]\d?):([1-9]\d?)$/.exec(aspectRatio)?.map(Number) ?? []
  const side = { '4K': 4096, '2K': 2048 }[imageSize] ?? 1024
  const sideOf = (ratio: number): number => Math.max(32, Math.floor((side * Math.sqrt(ratio)) / 32) * 32)
  return { width: sideOf(across / down), height: sideOf(down / across) }
}

function reasoningPart(step: StepOf<'think'>, { request, conversation }: PlanContext): PlannedPart | undefined {
  const isRedacted = step.signing === 'redacted'
  const isHidden = request.reasoning?.visible === false || isRedacted
  // Google's hidden reasoning leaves no part behind, only the signature on what follows.
  if (isHidden && request.protocol === 'generateContent') return undefined
  const text = step.text ?? `The user said ${countTokens(conversation.userText)} tokens. A short answer will do.`
  return {
    head: {
      type: 'reasoning',
      ...(request.protocol === 'responses' ? { form: 'summary' as const } : {}),
      ...(isRedacted ? { redacted: true } : {}),
    },
    text: isHidden ? '' : text,
  }
}

function callPart(step: StepOf<'call'>, { request, received, earlier }: PlanContext): PlannedPart | undefined {
  if (request.parallelTools === false && earlier.some((part) => part.head.type === 'tool-call')) return undefined
  const tool = request.tools.find((one) => one.type !== 'native' && one.name === step.name)
  const form = tool?.type === 'custom' ? 'custom' : 'function'
  const prefix = request.protocol === 'messages' ? 'toolu_' : 'call_'
  const id = prefix + digest(`${received.text}\n${earlier.length}`)
  return { head: { type: 'tool-call', id, name: step.name, form }, text: step.input ?? sampleInput(tool) }
}

function sampleInput(tool: Tool | undefined): string {
  if (tool?.type === 'custom') return `example input for ${tool.name}`
  return tool?.type === 'function' && tool.parameters !== undefined ? JSON.stringify(sample(tool.parameters)) : '{}'
}

function structuredText({ outputFormat }: GenerationRequest): string {
  if (outputFormat?.type === 'schema') return JSON.stringify(sample(outputFormat.schema))
  return outputFormat?.type === 'enum'
    ? String(sample(outputFormat.schema))
    : '{"message":"This is Sluice\'s sandbox."}'
}

const SECRET_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'x-api-key',
  'x-goog-api-key',
  'api-key',
  'cookie',
])

function echoText(subject: StepOf<'echo'>['subject'], { request, received }: PlanContext): string {
  if (subject === 'body') return received.text
  if (subject === 'headers')
    return JSON.stringify(Object.fromEntries([...received.headers].filter(([name]) => !SECRET_HEADERS.has(name))))
  const { system, turns, tools, ...rest } = request
  return JSON.stringify({
    path: received.path,
    ...rest,
    ...(system.length === 0 ? {} : { system: textOfParts(system) }),
    turns: turns.map((turn) => ({ role: turn.role, parts: turn.parts.map((part) => part.type) })),
    tools: tools.map((tool) => (tool.type === 'native' ? tool.kind : tool.name)),
  })
}

/** `image/png 1234 bytes`, or the URL or id of media that was sent by reference. */
export function describeMedia({ type, source }: MediaPart): string {
  switch (source.type) {
    case 'data':
      return `${source.mediaType} ${Buffer.byteLength(source.data, 'base64')} bytes`
    case 'text':
      return `${source.mediaType} ${Buffer.byteLength(source.text)} bytes`
    case 'url':
      return `${type} at ${source.url}`
    case 'file':
      return `${type} file ${source.id}`
  }
}

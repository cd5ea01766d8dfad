import { createHash } from 'node:crypto'
import type { FinishReason, PartHead } from '../../generation/event.ts'
import type {
  GenerationRequest,
  ImageOutput,
  MediaPart,
  Reasoning,
  Tool,
  ToolResultPart,
} from '../../generation/request.ts'
import { invalid } from '../../error.ts'
import { textOf, callSubject, type Conversation } from './conversation.ts'
import {
  drawPicture,
  isDrawable,
  MOST_PICTURES,
  MOST_TOKENS,
  pictureTokens,
  SIDE_LIMITS,
  USUAL_SIZE,
  type Size,
} from './picture.ts'
import { sample } from './sample.ts'
import type { Step } from './script.ts'
import { sign } from './seals.ts'
import { countTokens, cutTokens } from './tokens.ts'

/** One part of the answer to come. `tokens`: what it counts, where that does not follow from its text. */
export type PlannedPart = { head: PartHead; text: string; signature?: string; tokens?: number }

export type Plan = { parts: PlannedPart[]; finish: { reason: FinishReason; stopSequence?: string } }

/** Where the request came from and what it carried, for `[[echo]]`. */
export type Received = { path: string; text: string; headers: Headers }

/** What the answer will be: the parts in order, cut by stop sequences and the token limit as a model's would be. */
export function planAnswer(request: GenerationRequest, conversation: Conversation, received: Received): Plan {
  const { act } = conversation
  if (act.empty === true) return { parts: [], finish: { reason: act.finish ?? 'stop' } }
  const steps = [...act.steps]
  if (!steps.some((step) => step.kind === 'think') && thinksUnasked(request))
    steps.unshift({ kind: 'think', sealed: 'signed' })
  if (!steps.some((step) => step.kind !== 'think')) steps.push(...defaultSteps(request, conversation))
  const parts: PlannedPart[] = []
  for (const step of steps) {
    const part = partOf(step, request, conversation, received, parts)
    if (part !== undefined) parts.push(part)
  }
  return ended(signed(parts, steps, request), request, conversation)
}

/** A request that asks for reasoning gets some, where its protocol shows it without being asked twice. */
function thinksUnasked({ reasoning, protocol }: GenerationRequest): boolean {
  if (reasoning === undefined || reasoning.effort === 'none' || reasoning.budgetTokens === 0) return false
  return protocol === 'responses' || reasoning.visible !== false
}

const isVisible = (reasoning: Reasoning | undefined): boolean => reasoning?.visible !== false

function defaultSteps(request: GenerationRequest, { results, said, media, begun }: Conversation): Step[] {
  const images = wantedImages(request)
  if (request.protocol === 'images') return images
  const forced = results.length === 0 ? forcedTool(request) : undefined
  if (forced !== undefined) return [{ kind: 'call', name: forced }]
  if (request.outputFormat !== undefined && request.outputFormat.type !== 'text') return [{ kind: 'json' }]
  if (results.length > 0) {
    const names = namesOf(request)
    return [{ kind: 'reply', text: results.map((result) => resultText(result, names)).join(' ') }]
  }
  const sent = media.length === 0 ? '' : ` You sent ${media.map(mediaText).join(', ')}.`
  const quote =
    said === '' ? 'You said nothing.' : `You said: "${said.length > 500 ? `${said.slice(0, 500)}...` : said}".`
  return [
    {
      kind: 'reply',
      text: `${quote}${sent}${begun ? '' : " This is Sluice's sandbox, a simulator: no model was asked."}`,
    },
    ...images,
  ]
}

const wantedImages = ({ outputModalities, imageOutput }: GenerationRequest): Step[] =>
  outputModalities?.includes('image') === true
    ? Array.from({ length: imageOutput?.count ?? 1 }, (): Step => ({ kind: 'image' }))
    : []

/** The tool that the request leaves no choice about: the named one, or the first that is offered. */
function forcedTool({ toolChoice, tools }: GenerationRequest): string | undefined {
  if (toolChoice?.type === 'tool') return toolChoice.name
  if (toolChoice?.type === 'allowed') return toolChoice.required ? toolChoice.names[0] : undefined
  return toolChoice?.type === 'required' ? tools.find((tool) => tool.type !== 'native')?.name : undefined
}

/** What each call called, by its id; the first where an id is there twice. */
function namesOf({ turns }: GenerationRequest): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const { parts } of turns)
    for (const part of parts) if (part.type === 'tool-call' && !names.has(part.id)) names.set(part.id, part.name)
  return names
}

function resultText(result: ToolResultPart, names: ReadonlyMap<string, string>): string {
  const name = result.name ?? names.get(result.callId) ?? result.callId
  const content = result.content
    .map((part) => (part.type === 'text' ? part.text : part.type === 'native' ? part.kind : mediaText(part)))
    .join(' ')
  return `${name} ${result.isError === true ? 'failed' : 'returned'}: ${content === '' ? 'nothing' : content}.`
}

/** `image/png 1234 bytes`, or where it is to be found. */
function mediaText({ type, source }: MediaPart): string {
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

const WORDS =
  'the sandbox turns a handful of plain words round and round like water through a gate so that every answer has its length'.split(
    ' ',
  )

function partOf(
  step: Step,
  request: GenerationRequest,
  conversation: Conversation,
  received: Received,
  before: readonly PlannedPart[],
): PlannedPart | undefined {
  switch (step.kind) {
    case 'reply':
      return { head: { type: 'text' }, text: step.text }
    case 'length':
      return {
        head: { type: 'text' },
        text: Array.from({ length: step.words }, (_, i) => WORDS[i % WORDS.length]).join(' '),
      }
    case 'refuse':
      return { head: { type: 'refusal' }, text: step.text }
    case 'json':
      return { head: { type: 'text' }, text: jsonText(request) }
    case 'echo':
      return { head: { type: 'text' }, text: echo(step.what, request, received) }
    case 'cite':
      return before.some((part) => part.head.type === 'text')
        ? {
            head: {
              type: 'citation',
              citation: { url: step.url, ...(step.title === undefined ? {} : { title: step.title }) },
            },
            text: '',
          }
        : undefined
    case 'image':
      return request.protocol === 'messages'
        ? undefined
        : image(
            step,
            request,
            conversation,
            before.filter((part) => part.head.type === 'image'),
          )
    case 'think':
      return thought(step, request, conversation)
    case 'call':
      return request.parallelTools === false && before.some((part) => part.head.type === 'tool-call')
        ? undefined
        : call(step, request, received, before.length)
  }
}

/** Throws the 400s of what it cannot draw. */
function image(
  step: Step & { kind: 'image' },
  { imageOutput }: GenerationRequest,
  { said }: Conversation,
  drawn: readonly PlannedPart[],
): PlannedPart {
  const asked = step.size ?? imageOutput?.size
  if (asked !== undefined && !isDrawable(asked))
    throw invalid('size', `must be of ${SIDE_LIMITS}: the sandbox draws nothing else`)
  const size = asked ?? sizeOfRatio(imageOutput)
  const tokens = pictureTokens(size)
  if ((imageOutput?.format ?? 'png') !== 'png')
    throw invalid('output_format', "must be 'png': the sandbox draws nothing else")
  if (drawn.length >= MOST_PICTURES || drawn.reduce((sum, part) => sum + part.tokens!, tokens) > MOST_TOKENS) {
    throw invalid(
      'size',
      `the sandbox draws at most ${MOST_PICTURES} pictures for one answer, with ${MOST_TOKENS} tokens of 32 x 32 pixels in all`,
    )
  }
  const picture = drawPicture({
    ...size,
    prompt: step.prompt ?? said,
    index: drawn.length,
    transparent: imageOutput?.background === 'transparent',
  })
  return { head: { type: 'image', mediaType: 'image/png' }, text: picture.toString('base64'), tokens }
}

/** A ratio and a size as pixels: about so many as a square of that size has, in whole patches. */
function sizeOfRatio({ aspectRatio = '', imageSize = '' }: ImageOutput = {}): Size {
  if (aspectRatio + imageSize === '') return USUAL_SIZE
  const [, across = 1, down = 1] = /^([1-9]\d?):([1-9]\d?)$/.exec(aspectRatio)?.map(Number) ?? []
  const side = { '4K': 4096, '2K': 2048 }[imageSize] ?? 1024
  const patches = (ratio: number): number => Math.max(32, Math.floor((side * Math.sqrt(ratio)) / 32) * 32)
  return { width: patches(across / down), height: patches(down / across) }
}

function thought(
  step: Step & { kind: 'think' },
  request: GenerationRequest,
  { said }: Conversation,
): PlannedPart | undefined {
  const hidden = !isVisible(request.reasoning) || step.sealed === 'redacted'
  // Google's hidden thoughts leave no part behind, only the signature on what follows.
  if (hidden && request.protocol === 'generateContent') return undefined
  const shown = step.text ?? `The user said ${countTokens(said)} tokens. A short answer will do.`
  return {
    head: {
      type: 'reasoning',
      ...(request.protocol === 'responses' ? { form: 'summary' as const } : {}),
      ...(step.sealed === 'redacted' ? { redacted: true } : {}),
    },
    text: hidden ? '' : shown,
  }
}

function call(
  step: Step & { kind: 'call' },
  request: GenerationRequest,
  received: Received,
  index: number,
): PlannedPart {
  const tool = request.tools.find((one) => one.type !== 'native' && one.name === step.name)
  const form = tool?.type === 'custom' ? 'custom' : 'function'
  const prefix = request.protocol === 'messages' ? 'toolu_' : 'call_'
  return {
    head: { type: 'tool-call', id: prefix + digest(`${received.text}\n${index}`, 24), name: step.name, form },
    text: step.input ?? inputFor(tool),
  }
}

function inputFor(tool: Tool | undefined): string {
  if (tool?.type === 'custom') return `example input for ${tool.name}`
  return tool?.type === 'function' && tool.parameters !== undefined ? JSON.stringify(sample(tool.parameters)) : '{}'
}

function jsonText({ outputFormat }: GenerationRequest): string {
  if (outputFormat?.type === 'schema') return JSON.stringify(sample(outputFormat.schema))
  return outputFormat?.type === 'enum'
    ? String(sample(outputFormat.schema))
    : '{"message":"This is Sluice\'s sandbox."}'
}

function echo(
  what: 'summary' | 'body' | 'headers',
  request: GenerationRequest,
  { path, text, headers }: Received,
): string {
  if (what === 'body') return text
  if (what === 'headers')
    return JSON.stringify(Object.fromEntries([...headers].filter(([name]) => !SECRET_HEADERS.has(name))))
  const { system, turns, tools, ...rest } = request
  return JSON.stringify({
    path,
    ...rest,
    ...(system.length === 0 ? {} : { system: textOf(system) }),
    turns: turns.map((turn) => ({ role: turn.role, parts: turn.parts.map((part) => part.type) })),
    tools: tools.map((tool) => (tool.type === 'native' ? tool.kind : tool.name)),
  })
}

const SECRET_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'x-api-key',
  'x-goog-api-key',
  'api-key',
  'cookie',
])

/**
 * Puts the signatures where each protocol has them: on the reasoning, or, as Google does, on the first call (always),
 * else on the text after thoughts.
 */
function signed(parts: PlannedPart[], steps: readonly Step[], { protocol }: GenerationRequest): PlannedPart[] {
  if (protocol !== 'generateContent') {
    const thoughts = steps.filter((step) => step.kind === 'think')
    let seen = 0
    return parts.map((part) =>
      part.head.type !== 'reasoning' || thoughts[seen++]?.sealed === 'unsigned'
        ? part
        : { ...part, signature: sign('reasoning', part.text, protocol) },
    )
  }
  const thoughts = steps.filter((step) => step.kind === 'think')
  if (thoughts.some((step) => step.sealed === 'unsigned')) return parts
  const firstCall = parts.findIndex((part) => part.head.type === 'tool-call')
  const at =
    firstCall >= 0 ? firstCall : thoughts.length > 0 ? parts.findLastIndex((part) => part.head.type === 'text') : -1
  return parts.map((part, index) =>
    index !== at
      ? part
      : {
          ...part,
          signature:
            part.head.type === 'tool-call'
              ? sign('call', callSubject(part.head.name, part.text), protocol)
              : sign('text', part.text, protocol),
        },
  )
}

/**
 * Cuts at a stop sequence and at the token limit, which leaves out a picture that goes beyond it, and says how it
 * ended.
 */
function ended(parts: PlannedPart[], request: GenerationRequest, { act }: Conversation): Plan {
  const kept: PlannedPart[] = []
  let left = request.maxOutputTokens ?? Infinity
  let reason: FinishReason | undefined
  let stopSequence: string | undefined
  for (const part of parts) {
    const stop = part.head.type === 'text' ? firstStop(part.text, request.sampling.stop) : undefined
    if (part.tokens !== undefined && part.tokens > left) {
      reason = 'length'
      break
    }
    const whole = stop === undefined ? part.text : part.text.slice(0, stop.at)
    const text = part.tokens === undefined ? cutTokens(whole, left) : whole
    left -= part.tokens ?? countTokens(text)
    kept.push({
      ...part,
      text,
      ...(part.signature !== undefined && text !== part.text && part.head.type === 'reasoning'
        ? { signature: sign('reasoning', text, request.protocol) }
        : {}),
    })
    if (text !== whole) reason = 'length'
    else if (stop !== undefined) {
      reason = 'stop-sequence'
      stopSequence = stop.sequence
    }
    if (reason !== undefined) break
  }
  if (act.stopSequence !== undefined) {
    reason = 'stop-sequence'
    stopSequence = act.stopSequence === true ? (request.sampling.stop?.[0] ?? 'STOP') : act.stopSequence
  }
  return {
    parts: kept,
    finish: {
      reason: act.finish ?? reason ?? naturalEnd(kept),
      ...(stopSequence === undefined ? {} : { stopSequence }),
    },
  }
}

const naturalEnd = (parts: readonly PlannedPart[]): FinishReason =>
  parts.some((part) => part.head.type === 'tool-call')
    ? 'tool-calls'
    : parts.some((part) => part.head.type === 'refusal')
      ? 'refusal'
      : 'stop'

function firstStop(text: string, stops: readonly string[] | undefined): { at: number; sequence: string } | undefined {
  let first: { at: number; sequence: string } | undefined
  for (const sequence of stops ?? []) {
    const at = sequence === '' ? -1 : text.indexOf(sequence)
    if (at >= 0 && (first === undefined || at < first.at)) first = { at, sequence }
  }
  return first
}

/** The first characters of a digest, base 36: ids that the same request always gets. */
export const digest = (text: string, length: number): string =>
  BigInt(`0x${createHash('sha256').update(text).digest('hex')}`)
    .toString(36)
    .padStart(50, '0')
    .slice(-length)

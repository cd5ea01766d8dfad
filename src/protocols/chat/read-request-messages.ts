import { invalid } from '../../error.ts'
import type { MediaPart, Part, TextPart, ToolCallPart, ToolResultPart, Turn } from '../../generation/request.ts'
import { unwrapSignature } from '../../generation/signature.ts'
import { collectExtras, type Extras, type Fields, refuseUnreadable, tryRead } from '../fields.ts'
import { isObject } from '../../json/parse.ts'
import { TextOffsets } from '../offsets.ts'
import { ConversationReading } from '../pieces.ts'
import { nativePart, readContent, readImage } from './read-request-parts.ts'
import { inGenerationOrder, readReasoning, type Signable } from './read-request-reasoning.ts'
import { imageId, readAnnotation } from './shapes.ts'

const USER_PARTS = ['text', 'image_url', 'input_audio', 'video_url', 'file']
const ROLES = ['developer', 'system', 'user', 'assistant', 'tool'] as const

/**
 * The client's `messages`. Leading system and developer messages are `system`, later ones are turns. Consecutive tool
 * messages are one turn.
 */
export function readMessages(
  body: Fields,
  messages: readonly unknown[],
  extras: Extras,
): { system: Part[]; turns: Turn[] } {
  const reading = new ConversationReading(extras)
  const { system, turns, calls } = reading
  const read = (index: number): void => {
    const { extras } = reading
    const message = body.inner(body.value, body.path, extras).element('messages', messages, index)
    if (message === undefined) return
    if (turns.length === 0 && isInstructions(messages[index])) {
      message.take('role')
      for (const part of tryRead(readInstructions, message, extras) ?? [nativePart(message, 'message')])
        system.push(part)
      collectExtras(message, extras)
      return
    }
    const turn = readMessage(message, calls, extras)
    const last = turn.role === 'tool' ? reading.last('tool') : undefined
    if (last === undefined) turns.push(turn)
    else for (const part of turn.parts) last.parts.push(part)
  }
  reading.read(messages, {
    owner: readMessages,
    isBoundary,
    read,
  })
  return reading
}

const isBoundary = (messages: readonly unknown[], at: number): boolean => {
  const message = messages[at]
  return !isObject(message) || message.role !== 'tool'
}

const isInstructions = (message: unknown): boolean =>
  isObject(message) && (message.role === 'system' || message.role === 'developer')

/** One message as a separate turn. Adds its tool calls to `calls`. */
function readMessage(message: Fields, calls: ConversationReading['calls'], extras: Extras): Turn {
  try {
    return readOwnMessage(message, calls, extras)
  } catch (error) {
    refuseUnreadable(error, extras)
    return { role: 'user', parts: [nativePart(message, 'message')], path: message.path }
  }
}

function readOwnMessage(message: Fields, calls: ConversationReading['calls'], extras: Extras): Turn {
  const { path } = message
  if (message.value.role === 'function')
    throw invalid(
      message.at('role'),
      "must not be 'function': send results of calls with role 'tool' and a tool_call_id",
    )
  const role = message.require('role', message.oneOf('role', ROLES), `one of ${ROLES.join(', ')}`)
  const turn: Turn =
    role === 'tool' ? { role, parts: [readToolResult(message, calls, extras)], path } : readTurn(message, role, extras)
  collectExtras(message, extras)
  for (const part of turn.parts) if (part.type === 'tool-call') calls.set(part.id, part)
  return turn
}

function readInstructions(message: Fields, extras: Extras): Part[] {
  // Only checked: a name is kept for turns, and is an extra of leading instructions.
  message.inner(message.value, message.path).string('name')
  return message.require('content', readContent(message, ['text'], extras), 'a string or an array of text parts')
}

function readTurn(message: Fields, role: Exclude<Turn['role'], 'tool'>, extras: Extras): Turn {
  const parts =
    role === 'assistant'
      ? readAssistant(message, readToolCalls(message), extras)
      : role === 'user'
        ? message.require('content', readContent(message, USER_PARTS, extras), 'a string or an array of parts')
        : readInstructions(message, extras)
  const name = message.string('name')
  return { role, parts, ...(name === undefined ? {} : { name }), path: message.path }
}

function readAssistant(message: Fields, toolCalls: ToolCallPart[], extras: Extras): Part[] {
  const content = readAssistantContent(message, extras)
  const images = (content ?? []).filter((part): part is MediaPart => part.type === 'image')
  const reasoning = readReasoning(
    message,
    new Map<string, Signable>([
      ...images.map((part, n) => [imageId(n), part] as const),
      ...toolCalls.map((call) => [call.id, call] as const),
    ]),
  )
  if (content === undefined && toolCalls.length === 0 && reasoning.length === 0)
    throw invalid(message.at('content'), 'is required where there are no tool_calls')
  return inGenerationOrder(reasoning, content ?? [], toolCalls)
}

/** Text, refusal, images and audio; undefined where the message has none of them. */
function readAssistantContent(message: Fields, extras: Extras): Part[] | undefined {
  const content = readContent(message, ['text', 'refusal'], extras)
  const hasRefusal = content?.some((part) => part.type === 'refusal') === true
  if (content !== undefined && hasRefusal && content.length > 1)
    throw invalid(message.at('content'), 'must be text parts or exactly one refusal part')
  const refusal = hasRefusal ? undefined : message.string('refusal')
  const images = (message.objects('images') ?? []).map((image) => {
    image.take('type')
    image.take('index')
    return readImage(image)
  })
  const audio = message.object('audio')
  if (audio !== undefined) audio.require('id', audio.string('id'), 'the id of an earlier audio response')
  const parts = (content ?? []).filter((part) => part.type !== 'text' || part.text !== '')
  readAnnotations(message, parts, extras)
  if (refusal !== undefined && refusal !== '')
    parts.push({ type: 'refusal', text: refusal, path: message.at('refusal') })
  for (const image of images) parts.push(image)
  if (audio !== undefined)
    parts.push({
      type: 'native',
      protocol: 'chat.completions',
      kind: 'audio',
      value: audio.whole(),
      path: audio.path,
      optional: true,
    })
  return content === undefined && parts.length === 0 && (refusal === undefined || refusal === '') ? undefined : parts
}

function readAnnotations(message: Fields, parts: Part[], extras: Extras): void {
  const text = parts.find((part): part is TextPart => part.type === 'text')
  const annotations = message.array('annotations') ?? []
  if (annotations.length === 0) return
  const offsets = new TextOffsets(text?.text ?? '', 'code points')
  for (const [index, annotation] of annotations.entries()) {
    const citation = text === undefined ? undefined : readAnnotation(annotation, offsets, 0)
    if (citation === undefined) extras[`${message.at('annotations')}[${index}]`] = annotation
    else (text!.citations ??= []).push(citation)
  }
}

function readToolCalls(message: Fields): ToolCallPart[] {
  const calls = (message.objects('tool_calls') ?? []).map(readToolCall)
  const legacy = message.object('function_call')
  if (legacy === undefined) return calls
  const name = legacy.require('name', legacy.string('name'), 'the name of the function')
  const args = legacy.require('arguments', legacy.string('arguments'), 'the arguments as a JSON string')
  return [
    ...calls,
    {
      type: 'tool-call',
      id: `call_${message.path.replace(/\D+/g, '')}`,
      name,
      arguments: args,
      form: 'function',
      path: legacy.path,
    },
  ]
}

function readToolCall(call: Fields): ToolCallPart {
  const type = call.oneOf('type', ['function', 'custom']) ?? 'function'
  const id = call.require('id', call.string('id'), 'the id that the tool message refers to')
  const inner = call.require(type, call.object(type), `the ${type} that was called`)
  const name = inner.require('name', inner.string('name'), 'the name of the tool')
  const field = type === 'function' ? 'arguments' : 'input'
  const args = inner.require(
    field,
    inner.string(field),
    type === 'function' ? 'the arguments as a JSON string' : 'the input as a string',
  )
  call.take('index')
  const signature = readThoughtSignature(call)
  return {
    type: 'tool-call',
    id,
    name,
    arguments: args,
    form: type,
    ...(signature === undefined ? {} : { signature }),
    path: call.path,
  }
}

/** Google's compatible endpoint keeps a call's signature in `extra_content`. */
function readThoughtSignature(call: Fields): ToolCallPart['signature'] {
  const { extra_content: extra } = call.value
  const signature = isObject(extra) && isObject(extra.google) ? extra.google.thought_signature : undefined
  if (typeof signature !== 'string') return undefined
  call.take('extra_content')
  return unwrapSignature(signature)
}

function readToolResult(message: Fields, calls: ConversationReading['calls'], extras: Extras): ToolResultPart {
  const content = message.require(
    'content',
    readContent(message, USER_PARTS, extras),
    'a string or an array of parts',
  ) as ToolResultPart['content']
  const callId = message.require(
    'tool_call_id',
    message.string('tool_call_id'),
    'the id of the tool call of this result',
  )
  const call = calls.get(callId)
  if (call === undefined)
    throw invalid(message.at('tool_call_id'), 'must be the id of a tool call in an earlier assistant message')
  const name = message.string('name')
  return { type: 'tool-result', callId, name: name ?? call.name, content, form: call.form, path: message.path }
}

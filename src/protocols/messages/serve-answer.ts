import type { GatewayError } from '../../error.ts'
import type { Answer } from '../../generation/event.ts'
import { parseExact } from '../../generation/json-text.ts'
import type { Part } from '../../generation/request.ts'
import { seal, type Maker, type Signature } from '../../generation/signature.ts'
import type { Exchange } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { writeCitation } from './citations.ts'
import { type Block, type Json, markOfPart, writeStopReason, writeUsage } from './shapes.ts'

/** The message object of a non-streaming answer. */
export const writeAnswer = (answer: Answer, { label }: Exchange): object => ({
  id: label.id,
  type: 'message',
  role: 'assistant',
  model: label.model,
  content: answer.parts.flatMap((part, i) => blocksOf(part, label.maker, i === answer.parts.length - 1)),
  stop_reason: writeStopReason(answer.finish, answer.parts.some((part) => part.type === 'refusal')),
  stop_sequence: answer.finish.stopSequence ?? null,
  usage: writeUsage(answer.usage),
})

/**
 * The blocks of one part. Images and audio have no block in this protocol's answers: a text says that they were there. The signature
 * of a text that ends the answer has no block either: agents take the last block for the result, and no provider insists on that signature.
 */
function blocksOf(part: Part, maker: Maker | undefined, last: boolean): Block[] {
  switch (part.type) {
    case 'text': {
      const citations = (part.citations ?? []).map(writeCitation).filter((citation) => citation !== undefined)
      const block = { type: 'text', text: part.text, ...(citations.length === 0 ? {} : { citations }) }
      return [...(part.text === '' ? [] : [block]), ...(last ? [] : behind(part.signature, maker, part.text === ''))]
    }
    case 'refusal': return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'reasoning': return reasoningBlock(part.text, part.redacted ?? false, part.signature?.data, maker)
    case 'tool-call':
      return [{ type: 'tool_use', id: part.id, name: part.name, input: part.form === 'custom' ? { input: part.arguments } : readInput(part.arguments) ?? {} }, ...behind(part.signature, maker)]
    case 'foreign': return part.protocol === 'messages' && isObject(part.value) ? [part.value as Block] : []
    case 'image':
    case 'audio': return [{ type: 'text', text: uncarried(part.type, part.source.mediaType) }]
    default: return []
  }
}

/** What stands in the place of a medium: only the answer itself can tell, as the header of a stream has left long before. */
export const uncarried = (kind: 'image' | 'audio', mediaType = 'of an unknown type'): string => `[${kind}: ${mediaType}, which an answer of the messages API cannot carry]`

/** Hidden reasoning is a block of its own; reasoning of which nothing is known gives none. */
export function reasoningBlock(text: string, redacted: boolean, signature: string | undefined, maker: Maker | undefined): Block[] {
  if (text === '' && (signature ?? '') === '') return []
  const sealed = signature === undefined ? '' : seal(signature, maker)
  return redacted && text === '' ? [{ type: 'redacted_thinking', data: sealed }] : [{ type: 'thinking', thinking: text, signature: sealed }]
}

const behind = (signature: Signature | undefined, maker: Maker | undefined, empty = false): Block[] =>
  signature === undefined ? [] : [signatureBlock(markOfPart(signature.data, empty), maker)]

/** The block that carries the marked signature of the part before it. */
export const signatureBlock = (marked: string, maker: Maker | undefined): Block => ({ type: 'redacted_thinking', data: seal(marked, maker) })

/** Arguments for the place of an object, numbers as they were spelled; undefined when the text is cut or no object. */
export function readInput(text: string): Json | undefined {
  if (text.trim() === '') return {}
  try {
    const input = parseExact(text)
    return isObject(input) ? input : undefined
  } catch {
    return undefined
  }
}

/** Anthropic's error object. `requestId` is absent in mid-stream. */
export const writeError = (error: GatewayError, requestId?: string): object => ({
  type: 'error',
  error: {
    type: error.messagesType,
    message: error.message,
    ...(error.details === undefined ? {} : { details: error.details }),
    ...(error.metadata === undefined ? {} : { metadata: error.metadata }),
  },
  ...(requestId === undefined ? {} : { request_id: requestId }),
})

/** Anthropic's clients know overload as 529. */
export const statusOf = (error: GatewayError): number => error.status === 503 ? 529 : error.status

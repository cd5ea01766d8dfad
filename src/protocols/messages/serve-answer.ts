import type { GatewayError } from '../../error.ts'
import type { Answer } from '../../generation/event.ts'
import { isRawJson, parseExact } from '../../generation/json-text.ts'
import type { Citation, Part, TextPart } from '../../generation/request.ts'
import { seal, type Maker, type Signature } from '../../generation/signature.ts'
import { lose, loseForeign, loseOfDetails, loseOfFinish } from '../losses.ts'
import type { Exchange } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { piecesOf, writeCitation } from './citations.ts'
import { type Block, type Json, markOfPart, writeStopReason, writeUsage } from './shapes.ts'

/** The message object of a non-streaming answer. */
export function writeAnswer(answer: Answer, exchange: Exchange): object {
  const { label } = exchange
  const { parts, finish } = answer
  const content = parts.flatMap((part, i) => blocksOf(part, exchange, i === parts.length - 1))
  loseOfEnding(exchange, finish)
  return {
    id: label.id,
    type: 'message',
    role: 'assistant',
    model: label.model,
    content,
    stop_reason: writeStopReason(
      finish,
      parts.some((part) => part.type === 'refusal'),
    ),
    stop_sequence: finish.stopSequence ?? null,
    usage: writeUsage(answer.usage),
  }
}

export function loseOfEnding(exchange: Exchange, finish: Answer['finish']): void {
  loseOfFinish(exchange, finish, ['content-filter', 'other'])
  loseOfDetails(exchange, finish.details)
}

export const loseLogprobs = (exchange: Exchange): void =>
  lose(exchange, 'answer.logprobs', 'left out', 'the messages API has no log probabilities')

export const loseLastSignature = (exchange: Exchange): void =>
  lose(exchange, 'answer.signature', 'left out', 'a text that ends the answer has no place for its signature')

/** The wire's citation, and what it says less than the provider did. `whole`: it stands at more text than it cites. */
export function citationOf(citation: Citation, exchange: Exchange, hasText: boolean, whole: boolean): Json | undefined {
  const written = hasText ? writeCitation(citation) : undefined
  if (written === undefined)
    lose(
      exchange,
      'answer.citations',
      'left out',
      hasText
        ? 'it names neither an address nor a place in a document of the request'
        : 'there is no text to which it belongs',
    )
  else if (written !== citation.native && whole)
    lose(exchange, 'answer.citations', 'approximated', 'as search results that a whole block of text rests on')
  return written
}

/** A text in blocks, cut at the passages that are cited. */
function textBlocks({ text, citations = [] }: TextPart, exchange: Exchange): Block[] {
  if (text === '') for (const citation of citations) citationOf(citation, exchange, false, true)
  return piecesOf(text, citations)
    .filter((piece) => piece.text !== '')
    .map((piece) => {
      const written = piece.citations
        .map((citation) => citationOf(citation, exchange, true, piece.whole))
        .filter((citation) => citation !== undefined)
      return { type: 'text', text: piece.text, ...(written.length === 0 ? {} : { citations: written }) }
    })
}

/**
 * The blocks of one part. Images and audio have no block in this protocol's answers: a text says that they were there.
 * The signature
 * of a text that ends the answer has no block either: agents take the last block for the result, and no provider
 * insists on that signature.
 */
function blocksOf(part: Part, exchange: Exchange, last: boolean): Block[] {
  const { maker } = exchange.label
  switch (part.type) {
    case 'text': {
      if (part.logprobs !== undefined) loseLogprobs(exchange)
      if (last && part.signature !== undefined) loseLastSignature(exchange)
      return [...textBlocks(part, exchange), ...(last ? [] : behind(part.signature, maker, part.text === ''))]
    }
    case 'refusal':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'reasoning':
      return reasoningBlock(part.text, part.redacted ?? false, part.signature?.data, maker)
    case 'tool-call': {
      const input = part.form === 'custom' ? { input: part.arguments } : readInput(part.arguments)
      if (input === undefined)
        lose(exchange, 'answer.tool_calls.arguments', 'left out', 'they are not a whole JSON object')
      return [{ type: 'tool_use', id: part.id, name: part.name, input: input ?? {} }, ...behind(part.signature, maker)]
    }
    case 'foreign':
      if (part.protocol === 'messages' && isObject(part.value)) return [part.value as Block]
      loseForeign(exchange, part.kind)
      return []
    case 'image':
    case 'audio':
      return [{ type: 'text', text: uncarried(exchange, part.type, part.source.mediaType) }]
    default:
      return []
  }
}

/** What stands in the place of a medium, for whoever reads the answer. */
export function uncarried(exchange: Exchange, kind: 'image' | 'audio', mediaType = 'of an unknown type'): string {
  lose(exchange, `answer.${kind}`, 'left out', 'an answer of the messages API cannot carry it')
  return `[${kind}: ${mediaType}, which an answer of the messages API cannot carry]`
}

/** Hidden reasoning is a block of its own; reasoning of which nothing is known gives none. */
export function reasoningBlock(
  text: string,
  redacted: boolean,
  signature: string | undefined,
  maker: Maker | undefined,
): Block[] {
  if (text === '' && (signature ?? '') === '') return []
  const sealed = signature === undefined ? '' : seal(signature, maker)
  return redacted && text === ''
    ? [{ type: 'redacted_thinking', data: sealed }]
    : [{ type: 'thinking', thinking: text, signature: sealed }]
}

const behind = (signature: Signature | undefined, maker: Maker | undefined, empty = false): Block[] =>
  signature === undefined ? [] : [signatureBlock(markOfPart(signature.data, empty), maker)]

/** The block that carries the marked signature of the part before it. */
export const signatureBlock = (marked: string, maker: Maker | undefined): Block => ({
  type: 'redacted_thinking',
  data: seal(marked, maker),
})

/** Arguments for the place of an object, numbers as they were spelled; undefined when the text is cut or no object. */
export function readInput(text: string): Json | undefined {
  if (text.trim() === '') return {}
  try {
    const input = parseExact(text)
    return isObject(input) && !isRawJson(input) ? input : undefined
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
export const statusOf = (error: GatewayError): number => (error.status === 503 ? 529 : error.status)

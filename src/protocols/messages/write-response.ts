import type { GatewayError } from '../../error.ts'
import type { Answer } from '../../generation/event.ts'
import { isRawJson, parseExact } from '../../json/exact.ts'
import type { Citation, Part, TextPart } from '../../generation/request.ts'
import { wrapSignature, type Issuer, type Signature } from '../../generation/signature.ts'
import { lose, loseNative, loseOfDetails, loseOfFinish } from '../losses.ts'
import type { TranslationContext } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { piecesOf, writeCitation } from './citations.ts'
import { type Block, type Json, markOfPart, writeStopReason, writeUsage } from './shapes.ts'

/** The message object of a non-streaming answer. */
export function writeAnswer(answer: Answer, context: TranslationContext): object {
  const { responseIdentity } = context
  const { parts, finish } = answer
  const content = parts.flatMap((part, i) => blocksOf(part, context, i === parts.length - 1))
  loseOfEnding(context, finish)
  return {
    id: responseIdentity.id,
    type: 'message',
    role: 'assistant',
    model: responseIdentity.model,
    content,
    stop_reason: writeStopReason(
      finish,
      parts.some((part) => part.type === 'refusal'),
    ),
    stop_sequence: finish.stopSequence ?? null,
    usage: writeUsage(answer.usage),
  }
}

export function loseOfEnding(context: TranslationContext, finish: Answer['finish']): void {
  loseOfFinish(context, finish, ['content-filter', 'other'])
  loseOfDetails(context, finish.details)
}

export const loseLogprobs = (context: TranslationContext): void =>
  lose(context, 'response_field_dropped', 'logprobs', 'the messages API has no log probabilities')

export const loseLastSignature = (context: TranslationContext): void =>
  lose(context, 'response_field_dropped', 'signature', 'a text that ends the answer has no place for its signature')

/** The wire's citation, and what it says less than the provider did. `whole`: it stands at more text than it cites. */
export function citationOf(
  citation: Citation,
  context: TranslationContext,
  hasText: boolean,
  whole: boolean,
): Json | undefined {
  const written = hasText ? writeCitation(citation) : undefined
  if (written === undefined)
    lose(
      context,
      'response_field_dropped',
      'citations',
      hasText
        ? 'it names neither an address nor a place in a document of the request'
        : 'there is no text to which it belongs',
    )
  else if (written !== citation.native && whole)
    lose(context, 'response_field_adjusted', 'citations', 'as search results that a whole block of text rests on')
  return written
}

/** A text in blocks, cut at the passages that are cited. */
function textBlocks({ text, citations = [] }: TextPart, context: TranslationContext): Block[] {
  if (text === '') for (const citation of citations) citationOf(citation, context, false, true)
  return piecesOf(text, citations)
    .filter((piece) => piece.text !== '')
    .map((piece) => {
      const written = piece.citations
        .map((citation) => citationOf(citation, context, true, piece.whole))
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
function blocksOf(part: Part, context: TranslationContext, last: boolean): Block[] {
  const { issuer } = context.responseIdentity
  switch (part.type) {
    case 'text': {
      if (part.logprobs !== undefined) loseLogprobs(context)
      if (last && part.signature !== undefined) loseLastSignature(context)
      return [...textBlocks(part, context), ...(last ? [] : behind(part.signature, issuer, part.text === ''))]
    }
    case 'refusal':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'reasoning':
      return reasoningBlock(part.text, part.redacted ?? false, part.signature?.data, issuer)
    case 'tool-call': {
      const input = part.form === 'custom' ? { input: part.arguments } : readInput(part.arguments)
      if (input === undefined)
        lose(context, 'response_field_dropped', 'tool_calls.arguments', 'they are not a whole JSON object')
      return [{ type: 'tool_use', id: part.id, name: part.name, input: input ?? {} }, ...behind(part.signature, issuer)]
    }
    case 'native':
      if (part.protocol === 'messages' && isObject(part.value)) return [part.value as Block]
      loseNative(context, part.kind)
      return []
    case 'image':
    case 'audio':
      return [{ type: 'text', text: uncarried(context, part.type, part.source.mediaType) }]
    default:
      return []
  }
}

/** What stands in the place of a medium, for whoever reads the answer. */
export function uncarried(
  context: TranslationContext,
  kind: 'image' | 'audio',
  mediaType = 'of an unknown type',
): string {
  lose(context, 'response_field_dropped', `${kind}`, 'an answer of the messages API cannot carry it')
  return `[${kind}: ${mediaType}, which an answer of the messages API cannot carry]`
}

/** Hidden reasoning is a block of its own; reasoning of which nothing is known gives none. */
export function reasoningBlock(
  text: string,
  redacted: boolean,
  signature: string | undefined,
  issuer: Issuer | undefined,
): Block[] {
  if (text === '' && (signature ?? '') === '') return []
  const sealed = signature === undefined ? '' : wrapSignature(signature, issuer)
  return redacted && text === ''
    ? [{ type: 'redacted_thinking', data: sealed }]
    : [{ type: 'thinking', thinking: text, signature: sealed }]
}

const behind = (signature: Signature | undefined, issuer: Issuer | undefined, empty = false): Block[] =>
  signature === undefined ? [] : [signatureBlock(markOfPart(signature.data, empty), issuer)]

/** The block that carries the marked signature of the part before it. */
export const signatureBlock = (marked: string, issuer: Issuer | undefined): Block => ({
  type: 'redacted_thinking',
  data: wrapSignature(marked, issuer),
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

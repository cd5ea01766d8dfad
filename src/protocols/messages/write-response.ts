import type { GenerationResponse, PartHead } from '../../generation/event.ts'
import type { Citation, Part, TextPart, ToolCallPart } from '../../generation/request.ts'
import { anthropicTier } from '../../generation/service-class.ts'
import { hiddenText, type Issuer, type Signature, wrapSignature } from '../../generation/signature.ts'
import { isObject } from '../../json/parse.ts'
import {
  adjustSteps,
  lose,
  loseCutCall,
  loseNativeContent,
  loseStopDetails,
  loseFinishReason,
  tierOf,
} from '../losses.ts'
import type { ResponseContext } from '../protocol.ts'
import { passagesOf, writeCitation } from './citations.ts'
import { writeStep } from './hosted-tools.ts'
import {
  type Block,
  type Json,
  readInput,
  type SignedPart,
  tagPartSignature,
  writeStopReason,
  writeUsage,
} from './shapes.ts'

type NativeHead = Extract<PartHead, { type: 'native' }>

/** The message object of a non-streaming response. */
export function writeResponse({ parts, finish, usage, service }: GenerationResponse, context: ResponseContext): object {
  const { id, model } = context.responseIdentity
  const signatures = new Set<Block>()
  const whole = finish.reason === 'length' ? parts.filter((part) => !isCut(part, context)) : parts
  const blocks = whole.flatMap((part) => blocksOf(part, context, signatures))
  const content = withoutLastSignature(joinBlank(blocks, context, signatures), context, signatures)
  loseFinish(context, finish)
  const refused = parts.some(({ type }) => type === 'refusal')
  return {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content,
    stop_reason: writeStopReason(finish, refused),
    stop_sequence: finish.stopSequence ?? null,
    usage: writeUsage(usage, tierOf(context, service?.service_tier, anthropicTier)),
  }
}

/** Text without anything but white space: the API refuses such a block when a client sends it back. */
export const isBlank = (text: unknown): boolean => typeof text === 'string' && text.trim() === ''

/**
 * Puts white space alone in front of the text that follows it; before anything else it is lost. `signatures`: blocks of
 * a text before them.
 */
function joinBlank(blocks: readonly Block[], context: ResponseContext, signatures: ReadonlySet<Block>): Block[] {
  let blank = ''
  const joined = blocks.flatMap((block) => {
    if (block.type === 'text' && isBlank(block.text)) {
      blank += block.text
      return []
    }
    const before = blank
    if (before === '' || signatures.has(block)) return [block]
    blank = ''
    if (block.type === 'text') return [{ ...block, text: before + String(block.text) }]
    loseBlank(context)
    return [block]
  })
  if (blank !== '') loseBlank(context)
  return joined
}

export const loseBlank = (context: ResponseContext): void =>
  lose(context, 'response_content_dropped', 'text', 'white space alone, which the API refuses as a text')

function withoutLastSignature(
  blocks: readonly Block[],
  context: ResponseContext,
  signatures: ReadonlySet<Block>,
): Block[] {
  const end = blocks.findLastIndex((block) => !signatures.has(block)) + 1
  if (end < blocks.length) loseLastSignature(context)
  return blocks.slice(0, end)
}

export function loseFinish(context: ResponseContext, finish: GenerationResponse['finish']): void {
  loseFinishReason(context, finish, ['content-filter', 'other'])
  loseStopDetails(context, finish.details)
}

export const loseLogprobs = (context: ResponseContext): void => lose(context, 'response_field_dropped', 'logprobs')

/**
 * The signature of a text that ends the response: agents take the last block for the result, so that no block follows
 * it, and no provider requires that signature.
 */
export const loseLastSignature = (context: ResponseContext): void =>
  lose(context, 'response_field_dropped', 'signature', 'no block may follow the text that ends the response')

export const loseCitationWithoutText = (context: ResponseContext): void =>
  lose(context, 'response_citation_dropped', 'citations', 'the response has no text for it')

/** The citation object, with its losses. `isWider`: its text is longer than what it cites. */
export function citationOf(citation: Citation, isWider: boolean, context: ResponseContext): Json | undefined {
  const written = writeCitation(citation)
  if (written === undefined)
    lose(
      context,
      'response_citation_dropped',
      'citations',
      'it has neither a URL nor a position in a document of the request',
    )
  else if (written !== citation.native && isWider)
    lose(context, 'response_citation_adjusted', 'citations', 'sent as a citation of a whole block of text')
  return written
}

/** The blocks of one part. A text takes the place of an image or audio, for which this protocol has no block. */
function blocksOf(part: Part, context: ResponseContext, signatures: Set<Block>): Block[] {
  const { issuer } = context.responseIdentity
  switch (part.type) {
    case 'text':
      if (part.logprobs !== undefined) loseLogprobs(context)
      return [...textBlocks(part, context), ...signatureBlocksOfText(part, issuer, signatures)]
    case 'refusal':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'reasoning':
      return hidesReasoning(context)
        ? reasoningBlocks('', part.redacted ?? false, part.signature?.data, issuer, part.text)
        : reasoningBlocks(part.text, part.redacted ?? false, part.signature?.data, issuer)
    case 'tool-call':
      return [callBlock(part, context), ...signatureBlocks(part.signature, issuer, { call: part.id })]
    case 'native':
      return nativeBlocks(part, context)
    case 'image':
    case 'audio':
      return [{ type: 'text', text: mediaText(context, part.type, part.source.mediaType) }]
    default:
      return []
  }
}

/** A text in blocks, cut at the cited passages. */
function textBlocks({ text, citations = [] }: TextPart, context: ResponseContext): Block[] {
  if (text === '' && citations.length > 0) loseCitationWithoutText(context)
  const blocks = passagesOf(text, citations).map((passage): Block => {
    if (isBlank(passage.text) && passage.citations.length > 0) loseCitationWithoutText(context)
    const written = passage.citations
      .map((citation) => citationOf(citation, passage.isWider, context))
      .filter((citation) => citation !== undefined)
    return { type: 'text', text: passage.text, ...(written.length === 0 ? {} : { citations: written }) }
  })
  const last = blocks.at(-1)
  const before = blocks.at(-2)
  if (before === undefined || !isBlank(last?.text)) return blocks
  // As in a stream, whose block is still open.
  return [...blocks.slice(0, -2), { ...before, text: `${before.text}${last!.text}` }]
}

function signatureBlocksOfText(part: TextPart, issuer: Issuer | undefined, signatures: Set<Block>): Block[] {
  const blocks = signatureBlocks(part.signature, issuer, isBlank(part.text) ? 'empty-text' : 'text')
  for (const block of blocks) signatures.add(block)
  return blocks
}

/**
 * True for a call that the output limit cut, which is left out: its arguments would be an empty object, and clients
 * that do not look at `stop_reason` run each call that they get.
 */
function isCut(part: Part, context: ResponseContext): boolean {
  if (part.type !== 'tool-call' || part.form === 'custom' || readInput(part.arguments) !== undefined) return false
  loseCutCall(context)
  return true
}

function callBlock(part: ToolCallPart, context: ResponseContext): Block {
  const input = part.form === 'custom' ? { input: part.arguments } : readInput(part.arguments)
  if (input === undefined)
    lose(context, 'response_field_dropped', 'tool_calls.arguments', 'the arguments are not a complete JSON object')
  return { type: 'tool_use', id: part.id, name: part.name, input: input ?? {} }
}

/** The text in place of a medium, for the reader of the response. */
export function mediaText(context: ResponseContext, type: 'image' | 'audio', mediaType = 'of an unknown type'): string {
  lose(context, 'response_content_dropped', type)
  return `[${type}: ${mediaType}, which an answer of the messages API cannot carry]`
}

/** The client asked for reasoning without its text (`display: omitted`). */
export const hidesReasoning = ({ request }: ResponseContext): boolean => request.reasoning?.visible === false

/**
 * Reasoning without text is a redacted block; without text and signature it has none. `hidden`: its omitted text.
 * Unsigned reasoning of another protocol has an envelope without a signature: clients drop reasoning whose signature is
 * empty, or send it back as text.
 */
export function reasoningBlocks(
  text: string,
  redacted: boolean,
  signature: string | undefined,
  issuer: Issuer | undefined,
  hidden = '',
): Block[] {
  const isCarried = text !== '' || (hidden !== '' && issuer !== undefined)
  if (!isCarried && (signature ?? '') === '') return []
  const wrapped = wrapSignature(signature ?? '', issuer, hiddenText(hidden))
  return redacted && text + hidden === ''
    ? [{ type: 'redacted_thinking', data: wrapped }]
    : [{ type: 'thinking', thinking: text, signature: wrapped }]
}

/** The blocks of native content; none where it is lost. */
export function nativeBlocks({ protocol, kind, value, steps }: NativeHead, context: ResponseContext): Block[] {
  if (protocol === 'messages' && isObject(value)) return [value as Block]
  if (steps === undefined) {
    loseNativeContent(context, kind)
    return []
  }
  adjustSteps(context, kind)
  return steps.map(writeStep)
}

const signatureBlocks = (signature: Signature | undefined, issuer: Issuer | undefined, of: SignedPart): Block[] =>
  signature === undefined ? [] : [signatureBlock(tagPartSignature(signature.data, of), issuer)]

/** The block with the tagged signature of a part. */
export const signatureBlock = (tagged: string, issuer: Issuer | undefined): Block => ({
  type: 'redacted_thinking',
  data: wrapSignature(tagged, issuer),
})

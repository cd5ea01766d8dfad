import type { Part, ReasoningPart, TextPart, ToolCallPart, Turn } from '../../generation/request.ts'
import { isReplayableAt, type Signature } from '../../generation/signature.ts'
import type { Quirks } from '../quirks.ts'
import type { ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import { acceptedId } from './call-ids.ts'
import { callSignature, writeEntries } from './reasoning-details.ts'
import type { Json } from './shapes.ts'
import type { ContentWriter } from './write-request-parts.ts'

/** The fields of an assistant message; undefined where nothing of the turn can be sent. */
export class AssistantWriter {
  readonly #translation: Translation
  readonly #content: ContentWriter
  readonly #names: ToolNames
  /** The reasoning field of messages that have no reasoning. */
  readonly #withoutReasoning: Json

  constructor(translation: Translation, content: ContentWriter, names: ToolNames) {
    const { target, request } = translation
    this.#translation = translation
    this.#content = content
    this.#names = names
    const field = requiredReasoningField(target.quirks, request.tools)
    this.#withoutReasoning = field === undefined ? {} : { [field]: '' }
  }

  write({ parts }: Turn): Json | undefined {
    const refusalAsText = this.#translation.target.quirks.refuses?.includes('messages[].refusal') === true
    const texts = parts.flatMap((part, index): TextPart[] =>
      part.type === 'text'
        ? [isAfterNative(parts, index) ? { ...part, text: `\n\n${part.text}` } : part]
        : part.type === 'refusal' && refusalAsText
          ? [{ type: 'text', text: part.text, path: part.path }]
          : [],
    )
    const text = this.#content.texts(texts, '')
    const refusal = refusalAsText ? '' : parts.map((part) => (part.type === 'refusal' ? part.text : '')).join('')
    const calls = parts.filter((part) => part.type === 'tool-call')
    this.#loseUnsendable(parts)
    if (text.length === 0 && refusal === '' && calls.length === 0) {
      for (const part of parts)
        if (part.type === 'reasoning')
          this.#translation.lose('reasoning_dropped', this.#translation.at(part), 'no content follows it')
      return undefined
    }
    return {
      role: 'assistant',
      content: text.length > 0 ? text : calls.length === 0 ? '' : null,
      ...(refusal === '' ? {} : { refusal }),
      ...this.#reasoning(parts),
      ...(calls.length > 0 ? { tool_calls: calls.map((call) => this.#call(call)) } : {}),
    }
  }

  #loseUnsendable(parts: Part[]): void {
    let hasCalled = false
    for (const part of parts)
      switch (part.type) {
        case 'native':
        case 'image':
        case 'audio':
        case 'video':
        case 'file':
          this.#content.loseContent(part)
          break
        case 'tool-call':
          hasCalled = true
          break
        case 'text':
          if ((part.signature?.data ?? '') !== '') this.#loseSignature(part)
          if (hasCalled && part.text !== '') this.#loseOrder(part, 'a message has its text before its tool calls')
          break
        default:
          break
      }
  }

  #loseOrder(part: Part, reason: string): void {
    this.#translation.lose('turn_reordered', this.#translation.at(part), reason)
  }

  #call(call: ToolCallPart): Json {
    const { quirks } = this.#translation.target
    const id = acceptedId(call.id, quirks)
    const name = this.#names.sent(call.name)
    // Also where the tool is no longer sent: which tools may be called now changes no earlier turn.
    if (call.form === 'custom' && quirks.customTools === true)
      return { id, type: 'custom', custom: { name, input: call.arguments } }
    const text =
      call.form === 'custom'
        ? JSON.stringify({ input: call.arguments })
        : call.arguments.trim() === ''
          ? '{}'
          : call.arguments
    return { id, type: 'function', function: { name, arguments: text }, ...this.#callSignature(call) }
  }

  #callSignature(call: ToolCallPart): Json {
    if (call.signature === undefined) return {}
    if (this.#isOfTarget(call.signature)) return { extra_content: callSignature(call.signature.data) }
    if (call.signature.data !== '') this.#loseSignature(call)
    return {}
  }

  #loseSignature(part: TextPart | ToolCallPart): void {
    this.#translation.lose('signature_dropped', this.#translation.at(part, 'signature'))
  }

  #isOfTarget(signature: Signature): boolean {
    return isReplayableAt(signature, this.#translation.target, false)
  }

  /** Earlier reasoning in the field that this provider reads. Reasoning signed by another model is not sent. */
  #reasoning(parts: Part[]): Json {
    const { reasoningField: field = 'reasoning_content' } = this.#translation.target.quirks
    const sent: ReasoningPart[] = []
    let hasContent = false
    for (const part of parts) {
      if (part.type === 'tool-call') hasContent = true
      if (part.type === 'text' || part.type === 'refusal') hasContent ||= part.text !== ''
      if (part.type !== 'reasoning') continue
      const { signature, text } = part
      if (field !== 'none' && (signature === undefined ? text !== '' : this.#isOfTarget(signature))) {
        sent.push(part)
        if (hasContent && text !== '')
          this.#loseOrder(part, 'a message has its reasoning before its text and its tool calls')
      } else
        this.#translation.lose(
          'reasoning_dropped',
          this.#translation.at(part),
          field === 'none' ? 'the provider does not accept earlier reasoning' : undefined,
        )
    }
    // A signature has a field only in `reasoning_details`.
    if (sent.length > 0 && (field === 'reasoning_details' || sent.some(({ signature }) => signature !== undefined)))
      return { reasoning_details: writeEntries(sent) }
    const text = sent.map((part) => part.text).join('')
    return text === '' ? this.#withoutReasoning : { [field]: text }
  }
}

/** A text that goes on after steps of the provider, which cannot be sent, is a paragraph of its own. */
const isAfterNative = (parts: readonly Part[], index: number): boolean =>
  parts[index - 1]?.type === 'native' && parts.slice(0, index).some((part) => part.type === 'text' && part.text !== '')

/**
 * The field that each assistant message of a tool loop has to have, even empty (DeepSeek refuses the request without
 * it); undefined for providers that do not require it.
 */
export function requiredReasoningField(
  { requiresReasoning, reasoningField: field = 'reasoning_content' }: Quirks,
  tools: unknown,
): string | undefined {
  const isText = field === 'reasoning_content' || field === 'reasoning'
  return requiresReasoning === true && isText && Array.isArray(tools) && tools.length > 0 ? field : undefined
}

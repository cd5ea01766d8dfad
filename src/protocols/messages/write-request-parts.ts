import type {
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../generation/request.ts'
import { isReplayableAt } from '../../generation/signature.ts'
import { isTextual, decodedText, labelled, registeredType, unsupportedMedia } from '../media.ts'
import type { ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import { type Block, readInput } from './shapes.ts'

/** A block of a message, the part it was written from, and the id of its tool call, as a call or as a result. */
export type Item = { block: Block; part: Part; callId?: string; resultOf?: string }

/** Parts -> blocks. */
export class PartWriter {
  readonly #names: ToolNames
  readonly #translation: Translation

  constructor(names: ToolNames, translation: Translation) {
    this.#names = names
    this.#translation = translation
  }

  items(parts: readonly Part[], role: 'user' | 'assistant'): Item[] {
    const items: Item[] = []
    for (const part of parts) {
      const block = this.#block(part, role)
      if (block === undefined) continueText(items.at(-1), part)
      else if (part.type === 'tool-call') items.push({ block, part, callId: part.id })
      else items.push(part.type === 'tool-result' ? { block, part, resultOf: part.callId } : { block, part })
    }
    return items
  }

  #block(part: Part, role: 'user' | 'assistant'): Block | undefined {
    const translation = this.#translation
    switch (part.type) {
      case 'text':
        return this.#text(part)
      case 'refusal':
        translation.lose('content_as_text', translation.at(part))
        return this.#text({ type: 'text', text: part.text })
      case 'reasoning':
        return this.#reasoning(part)
      case 'tool-call':
        return this.#call(part)
      case 'tool-result':
        return this.#result(part)
      case 'native':
        if (part.protocol === 'messages') return part.value as Block
        translation.lose('content_native', translation.at(part))
        return undefined
      default:
        if (role === 'user') return this.#media(part)
        translation.lose('content_dropped', translation.at(part), 'the provider accepts media only from the user')
        return undefined
    }
  }

  /** Anthropic refuses texts that are empty or whitespace. */
  #text(part: TextPart): Block | undefined {
    if (part.citations !== undefined)
      this.#translation.lose('citations_dropped', this.#translation.at(part, 'citations'))
    this.#loseSignature(part)
    return part.text.trim() === '' ? undefined : { type: 'text', text: part.text, ...cacheControl(part) }
  }

  /** Anthropic checks every signature: only the model that issued it accepts the reasoning. */
  #reasoning(part: ReasoningPart): Block | undefined {
    const { text, redacted, signature } = part
    if (signature !== undefined && isReplayableAt(signature, this.#translation.target, false))
      return thinkingBlock({ text, redacted: redacted === true, signature: signature.data })
    this.#translation.lose('reasoning_dropped', this.#translation.at(part))
    return undefined
  }

  #call(part: ToolCallPart): Block {
    this.#loseSignature(part)
    const input = part.form === 'custom' ? { input: part.arguments } : readInput(part.arguments)
    if (input === undefined) this.#translation.lose('arguments_dropped', this.#translation.at(part, 'arguments'))
    const name = this.#names.sent(part.name)
    return { type: 'tool_use', id: part.id, name, input: input ?? {}, ...cacheControl(part) }
  }

  #loseSignature(part: TextPart | ToolCallPart): void {
    if (part.signature !== undefined)
      this.#translation.lose('signature_dropped', this.#translation.at(part, 'signature'))
  }

  #result(part: ToolResultPart): Block {
    // A breakpoint inside a result covers no more than one on the result, where every compatible server looks for it.
    const cache =
      part.cache ?? part.content.flatMap((inner) => (inner.type === 'native' ? [] : (inner.cache ?? []))).at(-1)
    const content = part.content
      .flatMap(labelled)
      .flatMap((inner) => this.#block(inner.type === 'native' ? inner : { ...inner, cache: undefined }, 'user') ?? [])
    return {
      type: 'tool_result',
      tool_use_id: part.callId,
      ...(content.length === 0 ? {} : { content }),
      ...(part.isError === true ? { is_error: true } : {}),
      ...cacheControl({ cache }),
    }
  }

  #media(part: MediaPart): Block {
    const translation = this.#translation
    if (part.detail !== undefined && part.detail !== 'auto')
      translation.lose('unsupported_field', translation.at(part, 'detail'))
    if (part.type === 'file') return { ...this.#file(part), ...cacheControl(part) }
    if (part.type !== 'image') throw unsupportedMedia(part, translation)
    if (part.filename !== undefined) translation.lose('unsupported_field', translation.at(part, 'filename'))
    return { type: 'image', source: this.#imageSource(part), ...cacheControl(part) }
  }

  #file(part: MediaPart): Block {
    const { source, filename } = part
    const document = (inner: object): Block => ({
      type: 'document',
      source: inner,
      ...(filename === undefined ? {} : { title: filename }),
    })
    switch (source.type) {
      case 'url':
        return document({ type: 'url', url: source.url })
      case 'text':
        return document({ type: 'text', media_type: 'text/plain', data: source.text })
      case 'file':
        throw unsupportedMedia(part, this.#translation, 'a file that is stored elsewhere')
    }
    const mediaType = plainType(source.mediaType)
    if (mediaType === 'application/pdf') return document({ type: 'base64', media_type: mediaType, data: source.data })
    if (mediaType.startsWith('image/')) return { type: 'image', source: this.#imageSource(part) }
    if (!isTextual(mediaType)) throw unsupportedMedia(part, this.#translation, `a file of the type ${mediaType}`)
    return document({ type: 'text', media_type: 'text/plain', data: decodedText(source) })
  }

  #imageSource(part: MediaPart): object {
    const { source } = part
    if (source.type === 'url') return { type: 'url', url: source.url }
    if (source.type !== 'data') throw unsupportedMedia(part, this.#translation, 'an image that is stored elsewhere')
    const mediaType = registeredType(plainType(source.mediaType))
    if (!IMAGES.has(mediaType)) throw unsupportedMedia(part, this.#translation, `an image of the type ${mediaType}`)
    return { type: 'base64', media_type: mediaType, data: source.data }
  }
}

const IMAGES = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

/** A media type without parameters. */
const plainType = (mediaType: string): string => mediaType.split(';')[0]!.trim().toLowerCase()

/** Signed reasoning as the block it was read from. */
export const thinkingBlock = (reasoning: { text: string; redacted?: boolean; signature: string }): Block =>
  reasoning.redacted === true && reasoning.text === ''
    ? { type: 'redacted_thinking', data: reasoning.signature }
    : { type: 'thinking', thinking: reasoning.text, signature: reasoning.signature }

/** Whitespace that may not be a text of its own, such as the break between two paragraphs, ends the text before it. */
function continueText(before: Item | undefined, part: Part): void {
  if (part.type === 'text' && before?.part.type === 'text')
    Object.assign(before.block, { text: `${before.block.text as string}${part.text}` }, cacheControl(part))
}

const cacheControl = ({ cache }: { cache?: { ttl?: '5m' | '1h' } | undefined }): { cache_control?: object } =>
  cache === undefined ? {} : { cache_control: { type: 'ephemeral', ...cache } }

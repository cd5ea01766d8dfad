import { invalid } from '../../error.ts'
import { parseExact } from '../../json/exact.ts'
import type {
  Citation,
  NativePart,
  MediaPart,
  MediaSource,
  Part,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../generation/request.ts'
import { unwrapSignature } from '../../generation/signature.ts'
import { collectExtras, type Extras } from '../extras.ts'
import { Fields, isObject, kindOf } from '../fields.ts'
import { checkBase64 } from '../media.ts'
import { readCitation } from './citations.ts'
import { readCache } from './read-request-tools.ts'
import { unmarkOfPart } from './shapes.ts'

/** `system` and `messages`: what leads goes to `system`, tool results stand in turns of their own. */
export function readConversation(fields: Fields, text: string, extras: Extras): { system: Part[]; turns: Turn[] } {
  const conversation = new Conversation(text, extras)
  const system = conversation.contents(fields, 'system', false)
  const messages = fields.require(
    'messages',
    fields.objects('messages', { min: 1, of: 'messages' }),
    'the conversation, an array of messages',
  )
  for (const message of messages) conversation.message(message, system)
  return { system, turns: conversation.turns }
}

type Role = 'user' | 'assistant' | 'system'

class Conversation {
  readonly turns: Turn[] = []
  readonly #names = new Map<string, string>()
  readonly #extras: Extras
  readonly #text: string
  #exact: unknown

  constructor(text: string, extras: Extras) {
    this.#text = text
    this.#extras = extras
  }

  message(message: Fields, system: Part[]): void {
    const role = message.require(
      'role',
      message.oneOf<Role>('role', ['user', 'assistant', 'system']),
      "one of 'user', 'assistant', 'system'",
    )
    const parts = this.contents(message, 'content', true, role)
    collectExtras(message, this.#extras)
    if (role === 'system' && this.turns.length === 0) {
      for (const part of parts) system.push(part)
    } else if (role === 'user') this.#userTurns(parts)
    else this.turns.push({ role, parts })
  }

  /**
   * Tool results that follow each other are one turn, also across messages; what stands between them keeps its place.
   */
  #userTurns(parts: Part[]): void {
    if (parts.length === 0) this.turns.push({ role: 'user', parts: [] })
    let fresh = true
    for (const part of parts) {
      const role = part.type === 'tool-result' ? 'tool' : 'user'
      const last = this.turns.at(-1)
      if (last?.role === role && (!fresh || role === 'tool')) last.parts.push(part)
      else this.turns.push({ role, parts: [part] })
      fresh = false
    }
  }

  /** A member that is a string or an array of blocks. */
  contents(holder: Fields, name: string, required: boolean, role: Role = 'system'): Part[] {
    const value = holder.take(name)
    if (typeof value === 'string') return value === '' && !required ? [] : [{ type: 'text', text: value }]
    if (value === undefined && !required) return []
    if (!Array.isArray(value))
      throw invalid(holder.at(name), `must be a string or an array of content blocks, not ${kindOf(value)}`)
    const parts: Part[] = []
    for (const [index, element] of value.entries()) {
      const part = this.#block(new Fields(element, `${holder.at(name)}[${index}]`), role, parts)
      if (part !== undefined) parts.push(part)
    }
    return parts
  }

  #block(block: Fields, role: Role, before: Part[]): Part | undefined {
    const type = block.require('type', block.string('type'), 'the kind of the content block')
    switch (type) {
      case 'text':
        return this.#textBlock(block)
      case 'image':
        return this.#media(block, 'image') ?? nativePart(type, block)
      case 'document':
        return this.#media(block, 'file') ?? nativePart(type, block)
      case 'search_result':
        return this.#searchResult(block, role) ?? nativePart(type, block)
      case 'tool_result':
        if (role !== 'user') throw invalid(block.path, 'tool_result blocks belong in messages with the role user')
        return this.#toolResult(block)
      case 'tool_use':
        if (role !== 'assistant')
          throw invalid(block.path, 'tool_use blocks belong in messages with the role assistant')
        return this.#toolUse(block)
      case 'thinking':
        return this.#thinking(block)
      case 'redacted_thinking':
        return this.#redacted(block, before)
      default:
        return nativePart(type, block)
    }
  }

  #textBlock(block: Fields): TextPart {
    const text = block.require('text', block.string('text'), 'the text of the block')
    const citations = (block.array('citations') ?? []).filter(isObject).map((native): Citation => readCitation(native))
    const part: TextPart = { type: 'text', text, ...readCache(block), ...(citations.length === 0 ? {} : { citations }) }
    collectExtras(block, this.#extras)
    return part
  }

  #thinking(block: Fields): Part {
    const text = block.string('thinking') ?? ''
    const signature = block.string('signature')
    collectExtras(block, this.#extras)
    return {
      type: 'reasoning',
      text,
      ...(signature === undefined || signature === '' ? {} : { signature: unwrapSignature(signature) }),
    }
  }

  /** Either reasoning whose text is hidden, or a signature that we put behind the part it belongs to. */
  #redacted(block: Fields, before: Part[]): Part | undefined {
    const signature = unwrapSignature(block.require('data', block.string('data'), 'the hidden reasoning'))
    const marked = unmarkOfPart(signature.data)
    if (marked === undefined) {
      collectExtras(block, this.#extras)
      return { type: 'reasoning', text: '', redacted: true, signature }
    }
    const own = { ...signature, data: marked.data }
    if (marked.empty) return { type: 'text', text: '', signature: own }
    const owner = before.at(-1)
    if (owner?.type === 'tool-call' || owner?.type === 'text') owner.signature = own
    return undefined
  }

  #toolUse(block: Fields): ToolCallPart {
    const id = block.require('id', block.string('id'), 'the id of the call')
    const name = block.require('name', block.string('name'), 'the name of the tool')
    const input = block.take('input') ?? {}
    const cache = readCache(block)
    // `direct` is what every ordinary call carries: it says nothing.
    const caller = block.take('caller')
    if (caller !== undefined && !(isObject(caller) && caller.type === 'direct'))
      this.#extras[block.at('caller')] = caller
    collectExtras(block, this.#extras)
    this.#names.set(id, name)
    return { type: 'tool-call', id, name, arguments: this.#argumentsText(input, block), form: 'function', ...cache }
  }

  #toolResult(block: Fields): ToolResultPart {
    const callId = block.require('tool_use_id', block.string('tool_use_id'), 'the id of the call that it answers')
    const isError = block.boolean('is_error')
    const content = this.contents(block, 'content', false).map((part, index) =>
      this.#resultPart(part, `${block.at('content')}[${index}]`),
    )
    const cache = readCache(block)
    const name = this.#names.get(callId)
    collectExtras(block, this.#extras)
    return {
      type: 'tool-result',
      callId,
      ...(name === undefined ? {} : { name }),
      content,
      ...(isError === undefined ? {} : { isError }),
      form: 'function',
      ...cache,
    }
  }

  #resultPart(part: Part, path: string): TextPart | MediaPart | NativePart {
    if (part.type === 'text' || part.type === 'image' || part.type === 'file' || part.type === 'native') return part
    throw invalid(path, 'must be a block that a tool result can hold: text, image, document')
  }

  #media(block: Fields, type: 'image' | 'file'): MediaPart | undefined {
    const source = block.require('source', block.object('source'), 'where the content comes from')
    const read = readSource(source, type)
    if (read === undefined) return undefined
    const filename = type === 'file' ? block.string('title') : undefined
    const part: MediaPart = { type, source: read, ...(filename === undefined ? {} : { filename }), ...readCache(block) }
    collectExtras(block, this.#extras)
    return part
  }

  /**
   * What the client itself found, for the model to cite: a document of its text; what a tool found is text of its
   * result.
   */
  #searchResult(block: Fields, role: Role): MediaPart | TextPart | undefined {
    const title = block.string('title'),
      source = block.string('source')
    const found = readContentSource(block)
    if (found?.type !== 'text') return undefined
    const text = source === undefined ? found.text : `${source}\n${found.text}`,
      cache = readCache(block)
    collectExtras(block, this.#extras)
    if (role !== 'user') return { type: 'text', text: title === undefined ? text : `${title}\n${text}`, ...cache }
    return { type: 'file', source: { ...found, text }, ...(title === undefined ? {} : { filename: title }), ...cache }
  }

  /**
   * Arguments as JSON text. Numbers are taken from the body's own text: a double says neither all of them nor how they
   * were spelled.
   */
  #argumentsText(input: unknown, block: Fields): string {
    try {
      const text = JSON.stringify(input)
      return /[:,[]-?\d/.test(text) ? JSON.stringify(this.#exactly(block.at('input')) ?? input) : text
    } catch {
      throw invalid(block.at('input'), 'must not be nested so deeply')
    }
  }

  #exactly(path: string): unknown {
    this.#exact ??= parseExact(this.#text)
    let value: unknown = this.#exact
    for (const step of path.split(/[.[\]]+/).filter((part) => part !== ''))
      value = isObject(value) || Array.isArray(value) ? (value as Record<string, unknown>)[step] : undefined
    return value
  }
}

/** Searches that the provider ran, and what they found: the answer that rests on them is there. */
const SEARCHES = /^(web_search|web_fetch|tool_search)/

const nativePart = (kind: string, block: Fields): NativePart => {
  const { name } = block.value
  const optional =
    kind === 'tool_reference' || SEARCHES.test(kind === 'server_tool_use' && typeof name === 'string' ? name : kind)
  return {
    type: 'native',
    protocol: 'messages',
    kind,
    value: block.value,
    path: block.path,
    ...(optional ? { optional } : {}),
  }
}

/** A source of media; undefined for a kind that only Anthropic knows. */
function readSource(source: Fields, type: 'image' | 'file'): MediaSource | undefined {
  const kind = source.require('type', source.string('type'), "one of 'base64', 'url', 'file'")
  const mediaType = source.string('media_type')
  switch (kind) {
    case 'base64':
      return {
        type: 'data',
        mediaType: source.require('media_type', mediaType, 'the media type of the data'),
        data: checkBase64(source.require('data', source.string('data'), 'the content as base64'), source.at('data')),
      }
    case 'url':
      return { type: 'url', url: source.require('url', source.string('url'), 'the address of the content') }
    case 'file':
      return { type: 'file', id: source.require('file_id', source.string('file_id'), 'the id of the file') }
    case 'text':
      if (type !== 'file') return undefined
      return {
        type: 'text',
        text: source.require('data', source.string('data'), 'the text'),
        mediaType: mediaType ?? 'text/plain',
      }
    case 'content':
      return type === 'file' ? readContentSource(source) : undefined
    default:
      return undefined
  }
}

/** A document given as content blocks; one with anything but text in it stays whole for its own protocol. */
function readContentSource(source: Fields): MediaSource | undefined {
  const content = source.take('content')
  if (typeof content === 'string') return { type: 'text', text: content, mediaType: 'text/plain' }
  if (!Array.isArray(content))
    throw invalid(source.at('content'), `must be a string or an array of content blocks, not ${kindOf(content)}`)
  const texts = content.map((block: unknown) =>
    isObject(block) && block.type === 'text' && typeof block.text === 'string' ? block.text : undefined,
  )
  return texts.includes(undefined) ? undefined : { type: 'text', text: texts.join('\n'), mediaType: 'text/plain' }
}

import { invalid } from '../../error.ts'
import { parseExact } from '../../json/exact.ts'
import type {
  Citation,
  NativePart,
  MediaPart,
  Part,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../generation/request.ts'
import { readHiddenText, type Signature, unwrapSignature } from '../../generation/signature.ts'
import { collectExtras, type Extras, Fields, present, refuseElsewhere, refuseUnreadable, tryRead } from '../fields.ts'
import { isObject } from '../../json/parse.ts'
import { ConversationReading } from '../pieces.ts'
import type { RawRequest } from '../protocol.ts'
import { readCitation } from './citations.ts'
import { pageIn, stepsOf } from './hosted-tools.ts'
import { contentProblem, readContentSource, readSource } from './read-request-sources.ts'
import { readCache } from './read-request-tools.ts'
import { untagPartSignature } from './shapes.ts'

/** `system` and `messages`. Leading instructions are part of `system`; tool results are turns of their own. */
export function readConversation(
  fields: Fields,
  rawRequest: Pick<RawRequest, 'text'>,
  extras: Extras,
): { system: Part[]; turns: Turn[] } {
  const reader = new ConversationReader(rawRequest, extras)
  for (const part of reader.contents(fields, 'system', false)) reader.reading.system.push(part)
  reader.messages(fields, tryRead(messagesOf, fields, extras) ?? [])
  return reader.reading
}

const messagesOf = (fields: Fields): unknown[] =>
  fields.require(
    'messages',
    fields.array('messages', { min: 1, of: 'messages' }),
    'the conversation, an array of messages',
  )

type Role = 'user' | 'assistant' | 'system'

class ConversationReader {
  readonly reading: ConversationReading
  readonly #rawRequest: Pick<RawRequest, 'text'>
  /** The body with its numbers as they are spelled, parsed when it is first needed. */
  #exact: unknown
  /** Signatures of calls by their ids, from the message that is being read. */
  readonly #callSignatures = new Map<string, Signature>()

  constructor(rawRequest: Pick<RawRequest, 'text'>, extras: Extras) {
    this.#rawRequest = rawRequest
    this.reading = new ConversationReading(extras)
  }

  messages(fields: Fields, messages: readonly unknown[]): void {
    this.reading.read(messages, {
      owner: ConversationReader,
      isBoundary,
      read: (index) => {
        const inPiece = fields.inner(fields.value, fields.path, this.reading.extras)
        const message = inPiece.element('messages', messages, index)
        if (message !== undefined) for (const turn of this.#tryRead(message)) this.#add(turn)
      },
    })
  }

  #add(turn: Turn): void {
    const { turns, system } = this.reading
    if (turn.role === 'system' && turns.length === 0) for (const part of turn.parts) system.push(part)
    else {
      // Tool results in a row are one turn, also across messages.
      const last = turn.role === 'tool' ? this.reading.last('tool') : undefined
      if (last === undefined) turns.push(turn)
      else for (const part of turn.parts) last.parts.push(part)
    }
  }

  #tryRead(message: Fields): Turn[] {
    try {
      return this.#read(message)
    } catch (error) {
      refuseUnreadable(error, this.reading.extras)
      return [{ role: 'user', parts: [nativePart('message', message)], path: message.path }]
    }
  }

  /** The turns of one message, not yet joined with those before. */
  #read(message: Fields): Turn[] {
    const role = message.require(
      'role',
      message.oneOf<Role>('role', ['user', 'assistant', 'system']),
      "one of 'user', 'assistant', 'system'",
    )
    this.#callSignatures.clear()
    const parts = this.contents(message, 'content', true, role)
    this.#sign(parts)
    collectExtras(message, this.reading.extras)
    return role === 'user' ? userTurns(parts, message.path) : [{ role, parts, path: message.path }]
  }

  /** Calls get their signatures after the whole message was read: clients change the order of its blocks. */
  #sign(parts: readonly Part[]): void {
    if (this.#callSignatures.size === 0) return
    for (const part of parts) {
      const signature = part.type === 'tool-call' ? this.#callSignatures.get(part.id) : undefined
      if (part.type === 'tool-call' && signature !== undefined) part.signature = signature
    }
  }

  /** A member that is a string or an array of blocks. */
  contents(parent: Fields, name: string, required: boolean, role: Role = 'system'): Part[] {
    const value = parent.take(name)
    const path = parent.at(name)
    if (typeof value === 'string') return value === '' && !required ? [] : [{ type: 'text', text: value, path }]
    if (value === undefined && !required) return []
    if (!Array.isArray(value)) {
      refuseElsewhere(this.reading.extras, invalid(path, contentProblem(value)))
      return []
    }
    const parts: Part[] = []
    for (const [index, element] of value.entries()) {
      for (const part of this.#tryBlock(element, `${path}[${index}]`, role, parts)) parts.push(part)
    }
    return parts
  }

  #tryBlock(element: unknown, path: string, role: Role, before: Part[]): Part[] {
    try {
      const block = new Fields(element, path, this.reading.extras)
      const unpacked = this.#unpackedDocument(block, role)
      const part = unpacked === undefined ? this.#block(block, role, before) : undefined
      collectExtras(block, this.reading.extras)
      return unpacked ?? (part === undefined ? [] : [part])
    } catch (error) {
      refuseUnreadable(error, this.reading.extras)
      return [{ type: 'native', protocol: 'messages', kind: 'unknown', value: element, path }]
    }
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
    return {
      type: 'text',
      path: block.path,
      text,
      ...readCache(block),
      ...(citations.length === 0 ? {} : { citations }),
    }
  }

  #thinking(block: Fields): Part {
    const text = block.string('thinking') ?? ''
    const signature = block.string('signature')
    const { note, ...own } = unwrapSignature(signature ?? '')
    const shown = text === '' && note !== undefined ? readHiddenText(note) : text
    return { type: 'reasoning', path: block.path, text: shown, ...(own.data === '' ? {} : { signature: own }) }
  }

  /** Either reasoning whose text is hidden, or the signature of another part (`tagPartSignature`). */
  #redacted(block: Fields, before: Part[]): Part | undefined {
    const { path } = block
    const signature = unwrapSignature(block.require('data', block.string('data'), 'the hidden reasoning'))
    const tagged = untagPartSignature(signature.data)
    if (tagged === undefined) return { type: 'reasoning', path, text: '', redacted: true, signature }
    const own = { ...signature, data: tagged.data }
    if (tagged.of === 'empty-text') return { type: 'text', path, text: '', signature: own }
    const owner = before.at(-1)
    if (typeof tagged.of === 'object') this.#callSignatures.set(tagged.of.call, own)
    else if (owner?.type === 'text') owner.signature = own
    return undefined
  }

  #toolUse(block: Fields): ToolCallPart {
    const id = block.require('id', block.string('id'), 'the id of the call')
    const name = block.require('name', block.string('name'), 'the name of the tool')
    const input = block.take('input') ?? {}
    const cache = readCache(block)
    // Every ordinary call has the caller `direct`.
    const caller = block.take('caller')
    if (caller !== undefined && !(isObject(caller) && caller.type === 'direct'))
      this.reading.extras[block.at('caller')] = caller
    this.reading.calls.set(id, { name, form: 'function' })
    return {
      type: 'tool-call',
      path: block.path,
      id,
      name,
      arguments: this.#argumentsText(input, block),
      form: 'function',
      ...cache,
    }
  }

  #toolResult(block: Fields): ToolResultPart {
    const callId = block.require('tool_use_id', block.string('tool_use_id'), 'the id of the tool call')
    const isError = block.boolean('is_error')
    const content = this.contents(block, 'content', false).map((part, index) =>
      this.#resultPart(part, `${block.at('content')}[${index}]`),
    )
    const cache = readCache(block)
    const name = this.reading.calls.get(callId)?.name
    return {
      type: 'tool-result',
      path: block.path,
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
    throw invalid(path, 'must be a block that a tool result can have: text, image, document')
  }

  #media(block: Fields, type: 'image' | 'file'): MediaPart | undefined {
    const source = block.require('source', block.object('source'), 'where the content comes from')
    const read = readSource(source, type, this.reading.extras)
    if (read === undefined) return undefined
    const filename = type === 'file' ? block.string('title') : undefined
    return {
      type,
      path: block.path,
      source: read,
      ...(filename === undefined ? {} : { filename }),
      ...readCache(block),
    }
  }

  /** A document of blocks that are not all text, as these blocks behind its title: no other protocol has such files. */
  #unpackedDocument(block: Fields, role: Role): Part[] | undefined {
    const { type, source, title } = block.value
    if (type !== 'document' || !isObject(source) || source.type !== 'content' || !Array.isArray(source.content))
      return undefined
    if (source.content.every((inner) => isObject(inner) && inner.type === 'text')) return undefined
    const inner = block.inner(source, block.at('source'))
    const parts = this.contents(inner, 'content', true, role)
    if (typeof title === 'string') parts.unshift({ type: 'text', text: `${title}:`, path: block.at('title') })
    Object.assign(parts.at(-1) ?? {}, readCache(block))
    for (const name of ['type', 'source', 'title']) block.take(name)
    inner.take('type')
    collectExtras(inner, this.reading.extras)
    return parts
  }

  /** A search result of the client, for the model to cite: a text document; in the result of a tool, a text. */
  #searchResult(block: Fields, role: Role): MediaPart | TextPart | undefined {
    const { path } = block
    const title = block.string('title')
    const url = block.string('source')
    const content = readContentSource(block, this.reading.extras)
    if (content?.type !== 'text') return undefined
    const text = url === undefined ? content.text : `${url}\n${content.text}`
    const cache = readCache(block)
    if (role !== 'user') return { type: 'text', path, text: title === undefined ? text : `${title}\n${text}`, ...cache }
    const filename = title === undefined ? {} : { filename: title }
    return { type: 'file', path, source: { ...content, text }, ...filename, ...cache }
  }

  /** Arguments as JSON text, with the numbers as they are spelled in the body: a double rounds big ones. */
  #argumentsText(input: unknown, block: Fields): string {
    try {
      const text = JSON.stringify(input)
      return /[:,[]-?\d/.test(text) ? JSON.stringify(this.#exactValueAt(block.at('input')) ?? input) : text
    } catch {
      throw invalid(block.at('input'), 'must not be nested so deeply')
    }
  }

  #exactValueAt(path: string): unknown {
    this.#exact ??= parseExact(this.#rawRequest.text)
    let value: unknown = this.#exact
    for (const step of path.split(/[.[\]]+/).filter((part) => part !== ''))
      value = isObject(value) || Array.isArray(value) ? (value as Record<string, unknown>)[step] : undefined
    return value
  }
}

/** Only a message of the user may begin with results, which continue those before. */
const isBoundary = (messages: readonly unknown[], at: number): boolean => {
  const message = messages[at]
  return isObject(message) && message.role === 'assistant'
}

/** Results of tools are turns of their own; other parts between them keep their order. */
function userTurns(parts: Part[], path: string): Turn[] {
  const turns: Turn[] = parts.length === 0 ? [{ role: 'user', parts: [], path }] : []
  for (const part of parts) {
    const role = part.type === 'tool-result' ? 'tool' : 'user'
    const last = turns.at(-1)
    if (last?.role === role) last.parts.push(part)
    else turns.push({ role, parts: [part], path })
  }
  return turns
}

/** Searches that the provider ran, and their results: the response that is based on them is in the conversation. */
const SEARCHES = /^(web_search|web_fetch|tool_search)/

/** Tools that are offered from here on. Elsewhere all declared tools are offered from the beginning. */
const OFFERS: ReadonlySet<string> = new Set(['tool_reference', 'tool_addition'])

const nativePart = (kind: string, block: Fields): NativePart => {
  const { name } = block.value
  const optional =
    OFFERS.has(kind) || SEARCHES.test(kind === 'server_tool_use' && typeof name === 'string' ? name : kind)
  return {
    type: 'native',
    protocol: 'messages',
    kind,
    value: block.whole(),
    path: block.path,
    ...(optional ? { optional } : {}),
    ...present('steps', stepsOf(kind, block.value)),
    ...present('readable', pageIn(kind, block.value)),
  }
}

import { GatewayError, invalid } from '../../error.ts'
import type { Part, ReasoningPart } from '../../generation/request.ts'
import { readHiddenText, unwrapSignature, type Signature } from '../../generation/signature.ts'
import { collectExtras, type Extras, Fields, present, refuseElsewhere, refuseUnreadable } from '../fields.ts'
import { isObject, objectsOf, stringOf } from '../../json/parse.ts'
import { ConversationReading } from '../pieces.ts'
import type { RawRequest } from '../protocol.ts'
import { stepsOf } from './hosted-tools.ts'
import { inputPath, type NamespaceNames } from './namespaces.ts'
import { asResultContent, readContent } from './read-request-content.ts'
import { isOfReasoning, readTaggedSignature, SUBJECTS } from './tagged-signature.ts'

const ROLES = ['user', 'assistant', 'system', 'developer'] as const
const STATUSES = ['in_progress', 'completed', 'incomplete'] as const

/** Searches of the provider, without their results, and tools that were found, which are read with the others. */
const OPTIONAL: ReadonlySet<string> = new Set([
  'web_search_call',
  'tool_search_call',
  'tool_search_output',
  'mcp_list_tools',
])

/** Items that respond to a call of the model: they have the position of a user's turn. */
const RESULTS = /_(output|response)$/

/**
 * `input` items -> turns. Neighbouring items of the assistant (reasoning, text, calls) are one turn, neighbouring tool
 * results are another; system and developer messages that lead the conversation are its system text.
 */
export class InputReader {
  readonly reading: ConversationReading
  readonly #names: NamespaceNames

  constructor(names: NamespaceNames, extras: Extras) {
    this.reading = new ConversationReading(extras)
    this.#names = names
  }

  /** `instructions`: a string, or items in front of the input. */
  readInstructions(body: Fields): void {
    const value = body.take('instructions')
    if (typeof value === 'string')
      this.reading.system.push({ type: 'text', text: value, path: body.at('instructions') })
    else if (Array.isArray(value)) for (const item of body.objects('instructions') ?? []) this.#tryItem(item)
    else if (value !== undefined)
      refuseElsewhere(this.reading.extras, invalid(body.at('instructions'), 'must be a string or an array of items'))
  }

  /** `input`: a string or an array of items, which are stored; absent is an empty conversation. */
  readInput(body: Fields, rawRequest: RawRequest): void {
    const value = body.take('input')
    if (value === undefined) return
    const path = body.at('input')
    if (typeof value === 'string')
      this.reading.turns.push({ role: 'user', parts: [{ type: 'text', text: value, path }], path })
    else if (Array.isArray(value))
      this.reading.read(value, {
        owner: InputReader,
        basis: this.#names,
        isBoundary,
        read: (index) => this.#tryItem(new Fields(value[index], inputPath(index, rawRequest), this.reading.extras)),
      })
    else refuseElsewhere(this.reading.extras, invalid(path, 'must be a string or an array of items'))
  }

  #tryItem(item: Fields): void {
    try {
      this.#item(item)
      collectExtras(item, this.reading.extras)
    } catch (error) {
      refuseUnreadable(error, this.reading.extras)
      this.#native(item, 'unknown')
    }
  }

  #item(item: Fields): void {
    const type = item.string('type') ?? (item.has('role') ? 'message' : item.has('id') ? 'item_reference' : undefined)
    switch (item.require('type', type, 'the kind of item')) {
      case 'message':
        return this.#message(item)
      case 'agent_message':
        return this.#agentMessage(item)
      case 'reasoning':
        return this.#reasoning(item)
      case 'function_call':
        return this.#call(item, 'function', 'arguments')
      case 'custom_tool_call':
        return this.#call(item, 'custom', 'input')
      case 'function_call_output':
        return this.#result(item, 'function')
      case 'custom_tool_call_output':
        return this.#result(item, 'custom')
      case 'tool_search_call':
        return this.#search(item)
      case 'tool_search_output':
        return this.#found(item)
      case 'image_generation_call':
        return this.#image(item)
      case 'item_reference':
        throw this.#unresolved(item)
      // Its tools are read with the others.
      case 'additional_tools':
        for (const name of ['id', 'role', 'tools']) item.take(name)
        return
      default:
        return this.#native(item, type!)
    }
  }

  #unresolved(item: Fields): GatewayError {
    const id = item.require('id', item.string('id'), 'the id of an earlier item')
    return new GatewayError('not_found', `${item.at('id')}: no item '${id}' is stored`, { param: item.at('id') })
  }

  /** Adds to the last turn if it has this role, else begins a turn. */
  #append(role: 'assistant' | 'tool' | 'user', item: Fields, parts: Part[]): void {
    const last = this.reading.last(role)
    if (last === undefined) this.reading.turns.push({ role, parts, path: item.path })
    else for (const part of parts) last.parts.push(part)
  }

  #message(item: Fields): void {
    const role = item.require('role', item.oneOf('role', ROLES), 'user, assistant, system or developer')
    item.string('id')
    item.oneOf('status', STATUSES)
    const parts = readContent(item, 'content', this.reading.extras)
    if (role === 'assistant') this.#append('assistant', item, parts)
    else if (role !== 'user' && this.reading.turns.length === 0) {
      for (const part of parts) this.reading.system.push(part)
    } else this.reading.turns.push({ role, parts, path: item.path })
  }

  /** A message from one agent of the client to another (Codex): its text names both. */
  #agentMessage(item: Fields): void {
    for (const name of ['id', 'author', 'recipient']) item.take(name)
    this.reading.turns.push({ role: 'user', parts: readContent(item, 'content', this.reading.extras), path: item.path })
  }

  #reasoning(item: Fields): void {
    const id = item.string('id'),
      encrypted = item.string('encrypted_content')
    item.take('status')
    const summary = textOfParts(item, 'summary'),
      raw = textOfParts(item, 'content')
    const { note, ...signature } = unwrapSignature(encrypted ?? '')
    const tagged = readTaggedSignature(signature.data)
    if (tagged !== undefined) signature.data = tagged.data
    if (tagged !== undefined && !isOfReasoning(tagged)) return this.#sign(item, tagged.subject, signature)
    const hidden = note === undefined || summary + raw !== '' ? '' : readHiddenText(note)
    // The id of an item that came from another protocol is ours, and means nothing to its issuer.
    const isOwnId = id !== undefined && signature.issuer === undefined
    const base = { type: 'reasoning' as const, ...(isOwnId ? { id } : {}), path: item.path }
    const parts: ReasoningPart[] = []
    if (summary + hidden !== '')
      parts.push({ ...base, text: summary + hidden, ...(tagged === undefined ? { form: 'summary' as const } : {}) })
    if (raw !== '') parts.push({ ...base, text: raw, form: 'raw' })
    if (parts.length === 0 && encrypted !== undefined)
      parts.push({ ...base, text: '', ...(tagged?.subject === SUBJECTS.redactedReasoning ? { redacted: true } : {}) })
    // Unsigned reasoning whose text is hidden has an envelope without a signature.
    if (encrypted !== undefined && (signature.data !== '' || hidden === '')) parts.at(-1)!.signature = signature
    if (parts.length > 0) this.#append('assistant', item, parts)
  }

  /** Gives a signature that was sent in an item of its own back to its part. */
  #sign(item: Fields, subject: string, signature: Signature): void {
    if (subject === SUBJECTS.emptyText)
      return this.#append('assistant', item, [{ type: 'text', text: '', signature, path: item.path }])
    const last = this.reading.turns.findLastIndex((turn) => turn.role === 'assistant')
    if (last < 0) return
    const part = this.reading
      .changeable(last)
      .parts.findLast((part) => part.type === subject || (part.type === 'tool-call' && part.id === subject))
    if (part?.type === 'text' || part?.type === 'tool-call' || part?.type === 'image') part.signature = signature
  }

  #call(item: Fields, form: 'function' | 'custom', content: 'arguments' | 'input'): void {
    item.string('id')
    item.oneOf('status', STATUSES)
    const id = item.require('call_id', item.string('call_id'), 'the id that the output refers to')
    const ownName = item.require('name', item.string('name'), 'the name of the called tool'),
      namespace = item.string('namespace')
    const name = namespace === undefined ? ownName : this.#names.flatten(namespace, ownName)
    const text = item.require(content, item.string(content), form === 'function' ? 'a JSON string' : 'a string')
    this.reading.calls.set(id, { name, form })
    this.#append('assistant', item, [{ type: 'tool-call', id, name, arguments: text, form, path: item.path }])
  }

  #result(item: Fields, form: 'function' | 'custom'): void {
    item.string('id')
    item.oneOf('status', STATUSES)
    const callId = item.require('call_id', item.string('call_id'), 'the id of the call')
    const content = asResultContent(readContent(item, 'output', this.reading.extras))
    const call = this.reading.calls.get(callId)
    this.#append('tool', item, [
      {
        type: 'tool-result',
        callId,
        ...(call === undefined ? {} : { name: call.name }),
        content,
        form: call?.form ?? form,
        path: item.path,
      },
    ])
  }

  /** A search of tools by the client is a call of a function; by the provider, it is the provider's own. */
  #search(item: Fields): void {
    const { call_id: id, execution } = item.value
    const name = this.#names.search
    if (name === undefined || execution !== 'client' || typeof id !== 'string')
      return this.#native(item, 'tool_search_call')
    for (const member of SEARCH_MEMBERS) item.take(member)
    const text = JSON.stringify(item.take('arguments') ?? {})
    this.reading.calls.set(id, { name, form: 'function' })
    this.#append('assistant', item, [
      { type: 'tool-call', id, name, arguments: text, form: 'function', path: item.path },
    ])
  }

  /** The tools that it found are read with the others; the model gets their names. */
  #found(item: Fields): void {
    const { call_id: callId, tools } = item.value
    const call = typeof callId === 'string' ? this.reading.calls.get(callId) : undefined
    if (call === undefined) return this.#native(item, 'tool_search_output')
    for (const member of SEARCH_MEMBERS) item.take(member)
    item.take('tools')
    const text = { type: 'text' as const, text: listOf(tools, this.#names), path: item.at('tools') }
    this.#append('tool', item, [
      {
        type: 'tool-result',
        callId: callId as string,
        name: call.name,
        content: [text],
        form: call.form,
        path: item.path,
      },
    ])
  }

  #image(item: Fields): void {
    const data = item.string('result'),
      format = item.string('output_format') ?? 'png'
    for (const name of ['id', 'status']) item.take(name)
    if (data === undefined) return this.#native(item, 'image_generation_call')
    const source = { type: 'data' as const, mediaType: `image/${format}`, data }
    this.#append('assistant', item, [{ type: 'image', source, path: item.path }])
  }

  #native(item: Fields, kind: string): void {
    this.#append(RESULTS.test(kind) ? 'user' : 'assistant', item, [
      {
        type: 'native',
        protocol: 'responses',
        kind,
        value: item.whole(),
        path: item.path,
        ...(OPTIONAL.has(kind) ? { optional: true } : {}),
        ...present('steps', stepsOf(kind, item.value)),
      },
    ])
  }
}

const SEARCH_MEMBERS = ['id', 'call_id', 'status', 'execution', 'created_by']

/** Names and descriptions of tools that were found. */
function listOf(tools: unknown, names: NamespaceNames): string {
  const lines = objectsOf(tools).flatMap((tool) => {
    const inner = tool.type === 'namespace' ? objectsOf(tool.tools) : [tool]
    return inner.map(({ name, description }) => {
      const flat = tool.type === 'namespace' ? names.flatten(stringOf(tool.name), stringOf(name)) : stringOf(name)
      return `- ${flat}${stringOf(description) === '' ? '' : `: ${stringOf(description)}`}`
    })
  })
  return lines.length === 0 ? 'No tools were found.' : `Tools that can be called now:\n${lines.join('\n')}`
}

const typeOf = (item: unknown): unknown => (isObject(item) ? (item.type ?? 'message') : undefined)

/** Reports whether a message of the user begins here, or the response to results or to such a message. */
const isBoundary = (items: readonly unknown[], at: number): boolean =>
  isOfUser(items[at]) || (!isResult(items[at]) && (isOfUser(items[at - 1]) || isResult(items[at - 1])))

const isResult = (item: unknown): boolean => RESULTS.test(stringOf(typeOf(item)))

const isOfUser = (item: unknown): boolean => isObject(item) && typeOf(item) === 'message' && item.role === 'user'

/** The texts of the parts in a member, as paragraphs. */
const textOfParts = (item: Fields, name: string): string =>
  (item.objects(name) ?? [])
    .map((part) => {
      part.take('type')
      return part.require('text', part.string('text'), 'a string')
    })
    .filter((text) => text !== '')
    .join('\n\n')

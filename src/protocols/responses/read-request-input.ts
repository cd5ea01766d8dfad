import { GatewayError, invalid } from '../../error.ts'
import type { Part, ReasoningPart, Turn } from '../../generation/request.ts'
import { unwrapSignature, type Signature } from '../../generation/signature.ts'
import { collectExtras, type Extras } from '../extras.ts'
import { Fields } from '../fields.ts'
import type { FlatNames } from './namespaces.ts'
import { asResult, readContent } from './read-request-content.ts'
import { checkItem } from './read-request-items.ts'
import { EMPTY, PLAIN, readMark, REDACTED } from './shapes.ts'

const ROLES = ['user', 'assistant', 'system', 'developer'] as const
const STATUSES = ['in_progress', 'completed', 'incomplete'] as const

/**
 * Searches that the provider ran, without their findings, and tools that were found, which are read with the others.
 */
const OPTIONAL: ReadonlySet<string> = new Set(['web_search_call', 'tool_search_call', 'tool_search_output'])

/** Items that answer something the model asked of its surroundings: they stand where a user would. */
const ANSWERS = /_(output|response)$/

/**
 * `input` items -> turns. Neighbouring items of the assistant (reasoning, text, calls) are one turn, neighbouring tool
 * results are
 * another; system and developer messages that lead the conversation are its system text.
 */
export class InputReader {
  readonly system: Part[] = []
  readonly turns: Turn[] = []
  readonly #names: FlatNames
  readonly #extras: Extras
  readonly #calls = new Map<string, { name: string; form: 'function' | 'custom' }>()

  constructor(names: FlatNames, extras: Extras) {
    this.#names = names
    this.#extras = extras
  }

  /** A string or an array of items; absent is an empty conversation. */
  read(body: Fields, name: string): void {
    const value = body.take(name)
    if (value === undefined) return
    if (typeof value === 'string') {
      this.turns.push({ role: 'user', parts: [{ type: 'text', text: value }] })
      return
    }
    if (!Array.isArray(value)) throw invalid(body.at(name), 'must be a string or an array of items')
    for (const [index, item] of value.entries()) this.#item(new Fields(item, `${body.at(name)}[${index}]`))
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
      case 'image_generation_call':
        return this.#image(item)
      case 'item_reference':
        throw this.#unresolved(item)
      // Its tools are read with the others.
      case 'additional_tools':
        return
      default:
        return this.#native(item, type!)
    }
  }

  #unresolved(item: Fields): GatewayError {
    const id = item.require('id', item.string('id'), 'the id of an earlier item')
    return new GatewayError('not_found', `${item.at('id')}: no item '${id}' is stored`, { param: item.at('id') })
  }

  /** Adds to the last turn if the role is still speaking, else begins a turn. */
  #say(role: 'assistant' | 'tool' | 'user', parts: Part[]): void {
    const last = this.turns.at(-1)
    if (last?.role === role) for (const part of parts) last.parts.push(part)
    else this.turns.push({ role, parts })
  }

  #message(item: Fields): void {
    const role = item.require('role', item.oneOf('role', ROLES), 'user, assistant, system or developer')
    item.string('id')
    item.oneOf('status', STATUSES)
    const parts = readContent(item, 'content', this.#extras)
    collectExtras(item, this.#extras)
    if (role === 'assistant') this.#say('assistant', parts)
    else if (role !== 'user' && this.turns.length === 0) {
      for (const part of parts) this.system.push(part)
    } else this.turns.push({ role, parts })
  }

  /** What one agent of the client tells another (Codex): its text says who speaks to whom, and why. */
  #agentMessage(item: Fields): void {
    this.turns.push({ role: 'user', parts: readContent(item, 'content', this.#extras) })
  }

  #reasoning(item: Fields): void {
    const id = item.string('id'),
      sealed = item.string('encrypted_content')
    const read = (name: string): string =>
      (item.objects(name) ?? [])
        .map((part) => part.require('text', part.string('text'), 'a string'))
        .filter((text) => text !== '')
        .join('\n\n')
    const summary = read('summary'),
      raw = read('content')
    const signature = sealed === undefined ? undefined : unwrapSignature(sealed)
    const mark = signature === undefined ? undefined : readMark(signature.data)
    if (mark !== undefined && mark.of !== REDACTED && mark.of !== PLAIN)
      return this.#sign(mark.of, { ...signature!, data: mark.data })
    // The id of an item that came from another protocol is ours, and means nothing to its maker.
    const base = { type: 'reasoning' as const, ...(id === undefined || signature?.issuer !== undefined ? {} : { id }) }
    const parts: ReasoningPart[] = []
    if (summary !== '')
      parts.push({ ...base, text: summary, ...(mark === undefined ? { form: 'summary' as const } : {}) })
    if (raw !== '') parts.push({ ...base, text: raw, form: 'raw' })
    if (parts.length === 0 && signature !== undefined)
      parts.push({ ...base, text: '', ...(mark?.of === REDACTED ? { redacted: true } : {}) })
    if (signature !== undefined)
      parts.at(-1)!.signature = mark === undefined ? signature : { ...signature, data: mark.data }
    if (parts.length > 0) this.#say('assistant', parts)
  }

  /** A proof that travelled in an item of its own goes back to its part. */
  #sign(of: string, signature: Signature): void {
    if (of === EMPTY) return this.#say('assistant', [{ type: 'text', text: '', signature }])
    const last = this.turns.findLast((turn) => turn.role === 'assistant')
    const part = last?.parts.findLast((part) => part.type === of || (part.type === 'tool-call' && part.id === of))
    if (part?.type === 'text' || part?.type === 'tool-call' || part?.type === 'image') part.signature = signature
  }

  #call(item: Fields, form: 'function' | 'custom', content: 'arguments' | 'input'): void {
    item.string('id')
    item.oneOf('status', STATUSES)
    const id = item.require('call_id', item.string('call_id'), 'the id that the output refers to')
    const bare = item.require('name', item.string('name'), 'the name of the called tool'),
      namespace = item.string('namespace')
    const name = namespace === undefined ? bare : this.#names.flat(namespace, bare)
    const text = item.require(content, item.string(content), form === 'function' ? 'a JSON string' : 'a string')
    collectExtras(item, this.#extras)
    this.#calls.set(id, { name, form })
    this.#say('assistant', [{ type: 'tool-call', id, name, arguments: text, form }])
  }

  #result(item: Fields, form: 'function' | 'custom'): void {
    item.string('id')
    item.oneOf('status', STATUSES)
    const callId = item.require('call_id', item.string('call_id'), 'the id of the call')
    const content = asResult(readContent(item, 'output', this.#extras))
    collectExtras(item, this.#extras)
    const call = this.#calls.get(callId)
    this.#say('tool', [
      {
        type: 'tool-result',
        callId,
        ...(call === undefined ? {} : { name: call.name }),
        content,
        form: call?.form ?? form,
      },
    ])
  }

  #image(item: Fields): void {
    const data = item.string('result'),
      format = item.string('output_format') ?? 'png'
    item.string('id')
    if (data === undefined) return this.#native(item, 'image_generation_call')
    this.#say('assistant', [{ type: 'image', source: { type: 'data', mediaType: `image/${format}`, data } }])
  }

  #native(item: Fields, kind: string): void {
    checkItem(item, kind)
    this.#say(ANSWERS.test(kind) ? 'user' : 'assistant', [
      {
        type: 'native',
        protocol: 'responses',
        kind,
        value: item.value,
        path: item.path,
        ...(OPTIONAL.has(kind) ? { optional: true } : {}),
      },
    ])
  }
}

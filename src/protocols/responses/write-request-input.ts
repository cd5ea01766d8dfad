import { createHash } from 'node:crypto'
import type { Located, Part, ReasoningPart, ToolCallPart, ToolResultPart, Turn } from '../../generation/request.ts'
import { isReplayableAt, type Signature } from '../../generation/signature.ts'
import { breakpointOf, isEmptyResult } from '../cache-breakpoints.ts'
import { labelled } from '../media.ts'
import type { Target } from '../protocol.ts'
import type { ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import type { Json } from './shapes.ts'
import { writeMedia } from './write-request-media.ts'

const CALL_ID_MAX = 64

/** First text of the result of a failed tool call. */
const FAILED = { type: 'text', text: 'Error:' } as const

/** `call_id` has at most 64 characters; a longer one is hashed, the same in a call and its result. */
export const callId = (id: string): string =>
  id !== '' && id.length <= CALL_ID_MAX ? id : `call_${createHash('sha256').update(id).digest('hex').slice(0, 40)}`

/** Turns -> `input` items. Items have no ids: a provider that did not store them would not find them. */
export class InputWriter {
  readonly items: Json[] = []
  readonly #translation: Translation
  readonly #target: Target
  readonly #names: ToolNames
  /** Calls that wait for their results. */
  readonly #calls = new Map<string, ToolCallPart>()

  constructor(translation: Translation, names: ToolNames) {
    this.#translation = translation
    this.#target = translation.target
    this.#names = names
  }

  /** Leading system text that is more than one plain string. */
  system(parts: Part[]): void {
    this.#message('system', parts)
  }

  /** Turns come with results right behind their calls. */
  turn(turn: Turn): void {
    if (turn.name !== undefined) this.#translation.lose('unsupported_field', this.#translation.at(turn, 'name'))
    if (turn.role === 'assistant') return this.#assistant(turn.parts)
    if (turn.role === 'tool') for (const part of turn.parts) this.#result(part)
    this.end()
    if (turn.role !== 'tool') this.#message(turn.role, turn.parts)
  }

  /** The provider refuses a call without an output. */
  end(): void {
    for (const call of this.#calls.values()) {
      this.#translation.lose('result_added', this.#translation.at(call))
      this.#output(call, `${FAILED.text} No result of this call was recorded.`)
    }
  }

  /**
   * One message for neighbouring content; items of their own are between messages. Models that refuse instructions get
   * them as tagged text of the user.
   */
  #message(role: string, parts: Part[]): void {
    const unsupported = (role === 'system' || role === 'developer') && this.#target.capabilities.system === false
    let content: Json[] = []
    const flush = (): void => {
      if (content.length > 0)
        this.items.push(
          unsupported
            ? { type: 'message', role: 'user', content: withSystemTags(content) }
            : { type: 'message', role, content },
        )
      content = []
    }
    for (const part of parts) {
      if (unsupported) this.#translation.lose('instructions_moved', this.#translation.at(part))
      if (part.type === 'native') {
        flush()
        this.#native(part)
      } else if (part.type === 'tool-result') {
        flush()
        this.#result(part)
      } else {
        const written = this.#inputPart(part)
        if (written !== undefined) content.push(written)
      }
    }
    flush()
  }

  #inputPart(part: Part): Json | undefined {
    const written = this.#content(part)
    return written !== undefined && 'cache' in part
      ? { ...written, ...breakpointOf(part, breakpoints(this.#target)) }
      : written
  }

  #content(part: Part): Json | undefined {
    switch (part.type) {
      case 'text':
      case 'refusal':
        return { type: 'input_text', text: part.text }
      case 'image':
      case 'file':
      case 'audio':
      case 'video':
        return writeMedia(part, this.#translation)
      default:
        this.#translation.lose('content_dropped', this.#translation.at(part))
        return undefined
    }
  }

  #assistant(parts: Part[]): void {
    const response = new ResponseItems(this.items)
    for (const part of parts) {
      if (part.type === 'text' || part.type === 'refusal') {
        if (part.type === 'text' && (part.signature?.data ?? '') !== '') this.#loseSignature(part)
        response.addText(part)
        continue
      }
      response.endMessage()
      if (part.type === 'reasoning') this.#reasoning(part, response)
      else if (part.type === 'tool-call') response.addItem(this.#call(part))
      else if (part.type === 'native') this.#native(part, (item) => response.addItem(item))
      else this.#asUser(part)
    }
    response.endMessage()
    for (const part of response.unfollowed)
      this.#translation.lose('reasoning_dropped', this.#translation.at(part), 'no content follows it')
  }

  #reasoning(part: ReasoningPart, response: ResponseItems): void {
    const { signature } = part
    if (signature !== undefined && isReplayableAt(signature, this.#target, false))
      response.addReasoning(part, reasoningItem({ ...part, signature }))
    else this.#translation.lose('reasoning_dropped', this.#translation.at(part))
  }

  #call(part: ToolCallPart): Json {
    this.#calls.set(part.id, part)
    if (part.signature !== undefined) this.#loseSignature(part)
    const call_id = callId(part.id),
      name = this.#names.sent(part.name)
    return part.form === 'custom'
      ? { type: 'custom_tool_call', call_id, name, input: part.arguments }
      : { type: 'function_call', call_id, name, arguments: part.arguments.trim() === '' ? '{}' : part.arguments }
  }

  #loseSignature(part: Located): void {
    this.#translation.lose('signature_dropped', this.#translation.at(part, 'signature'))
  }

  #output(call: ToolCallPart, output: string | Json[]): void {
    this.#calls.delete(call.id)
    this.items.push({
      type: call.form === 'custom' ? 'custom_tool_call_output' : 'function_call_output',
      call_id: callId(call.id),
      output,
    })
  }

  /** An image that the model made: the provider accepts images from users only. */
  #asUser(part: Part): void {
    if (part.type !== 'tool-result')
      this.#translation.lose(
        'media_moved',
        this.#translation.at(part),
        'the provider accepts media from users only: sent as a user message',
      )
    this.#message('user', [part])
  }

  #result(part: Part): void {
    if (part.type !== 'tool-result') return this.#message('user', [part])
    const call = this.#calls.get(part.callId)
    if (part.isError === true)
      this.#translation.lose(
        'content_as_text',
        this.#translation.at(part, 'isError'),
        `the provider has no error flag: the result begins with '${FAILED.text}'`,
      )
    if (call !== undefined) return this.#output(call, this.#outputOf(part))
    this.#translation.lose(
      'content_as_text',
      this.#translation.at(part),
      'it does not follow its call: sent as text of the user',
    )
    const named = part.name === undefined ? '' : ` (${part.name})`
    const head = { type: 'text' as const, text: `Result of the tool call ${part.callId}${named}:` }
    this.#message('user', [head, ...(part.isError === true ? [FAILED] : []), ...part.content.flatMap(labelled)])
  }

  /**
   * One string; parts where each may have a cache breakpoint, whether it has one or not, so that moving a breakpoint
   * changes nothing else of the prefix.
   */
  #outputOf(result: ToolResultPart): string | Json[] {
    if (isEmptyResult(result)) return ''
    const { isError, cache } = result
    const given = result.content.flatMap(labelled)
    const whole = isError === true ? [FAILED, ...given] : given
    const texts = whole.flatMap((part) => (part.type === 'text' ? [part.text] : []))
    if (given.length <= 1 && texts.length === whole.length && breakpoints(this.#target) === undefined)
      return texts.join(' ')
    const content =
      cache === undefined
        ? whole
        : whole.map((part, index) => (index === whole.length - 1 && part.type !== 'native' ? { ...part, cache } : part))
    return content.flatMap((part): Json[] => {
      if (part.type !== 'native') return [this.#inputPart(part)].filter((written) => written !== undefined)
      if (part.protocol === 'responses') return [part.value as Json]
      this.#translation.lose('content_native', this.#translation.at(part))
      return []
    })
  }

  #native(part: Part & { type: 'native' }, push: (item: Json) => void = (item) => void this.items.push(item)): void {
    if (part.protocol === 'responses') push(part.value as Json)
    else this.#translation.lose('content_native', this.#translation.at(part))
  }
}

/** The items of an earlier response, of which neighbouring texts are one message. */
class ResponseItems {
  readonly #items: Json[]
  #content: Json[] = []
  /** Reasoning waits for the item that it led to: the provider refuses it without that one. */
  #reasoning: { part: ReasoningPart; item: Json }[] = []

  /** `items`: the list to which they are added. */
  constructor(items: Json[]) {
    this.#items = items
  }

  addText({ type, text }: Part & { type: 'text' | 'refusal' }): void {
    if (text !== '')
      this.#content.push(type === 'text' ? { type: 'output_text', text } : { type: 'refusal', refusal: text })
  }

  addReasoning(part: ReasoningPart, item: Json): void {
    this.#reasoning.push({ part, item })
  }

  addItem(item: Json): void {
    for (const one of this.#reasoning) this.#items.push(one.item)
    this.#reasoning = []
    this.#items.push(item)
  }

  /** Adds the message of the texts before this point, if there are any. */
  endMessage(): void {
    const content = this.#content
    const [only] = content
    if (only === undefined) return
    this.#content = []
    // As a plain string an earlier response needs no id and no status.
    const isPlain = content.length === 1 && only.type === 'output_text'
    this.addItem({ type: 'message', role: 'assistant', content: isPlain ? only.text : content })
  }

  /** The reasoning that no item followed. */
  get unfollowed(): ReasoningPart[] {
    return this.#reasoning.map(({ part }) => part)
  }
}

const withSystemTags = (content: Json[]): Json[] => [
  { type: 'input_text', text: '<system>\n' },
  ...content,
  { type: 'input_text', text: '\n</system>' },
]

/** The field of cache breakpoints, where this protocol has one at the provider. */
export const breakpoints = ({ capabilities: { cacheBreakpoints } }: Target): 'prompt_cache_breakpoint' | undefined =>
  cacheBreakpoints === 'cache_control' ? undefined : cacheBreakpoints

/** Signed reasoning as an input item, without an id: a provider that did not store it would not find it. */
export function reasoningItem({
  form,
  text,
  signature,
}: Pick<ReasoningPart, 'form' | 'text'> & { signature: Signature }): Json {
  const raw = form === 'raw'
  return {
    type: 'reasoning',
    summary: text === '' || raw ? [] : [{ type: 'summary_text', text }],
    ...(raw && text !== '' ? { content: [{ type: 'reasoning_text', text }] } : {}),
    encrypted_content: signature.data,
  }
}

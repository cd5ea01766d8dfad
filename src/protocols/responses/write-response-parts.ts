import type { PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { hiddenText } from '../../generation/signature.ts'
import { readObject } from '../../json/exact.ts'
import { lose } from '../losses.ts'
import type { ResponseContext } from '../protocol.ts'
import type { NamespaceNames } from './namespaces.ts'
import { newId, type Json } from './shapes.ts'
import { SUBJECTS, tagSignature } from './tagged-signature.ts'
import { type ContentPart, type OpenItem, positionOf, type ResponseOutput } from './write-response-output.ts'

/** Writes the open part of a response: its deltas as they come, and its end. */
export interface PartWriter {
  append(text: string, logprobs: TokenLogprob[] | undefined): void
  close(signature: string | undefined): void
}

/** A part that has no deltas to write. */
export const NO_PART: PartWriter = { append: () => {}, close: () => {} }

/** A text or refusal. It starts with its first delta: an empty text before a tool call is no message. */
export class ContentWriter implements PartWriter {
  readonly #output: ResponseOutput
  readonly #type: ContentPart['type']
  #content: ContentPart | undefined

  constructor(output: ResponseOutput, type: ContentPart['type']) {
    this.#output = output
    this.#type = type
  }

  append(text: string, logprobs: TokenLogprob[] | undefined): void {
    this.#content ??= this.#output.openContent(this.#type)
    this.#output.appendContent(this.#content, text, logprobs)
  }

  close(signature: string | undefined): void {
    if (this.#type === 'refusal') return
    if (this.#content !== undefined) this.#content.signature = signature
    else if (signature !== undefined) this.#output.addSignature(SUBJECTS.emptyText, signature)
  }
}

/**
 * Reasoning: one item for each part, its text the summary or, of raw reasoning, the content. A client that requests no
 * summary gets the text inside the envelope of the signature, since the issuer may require it in the next request.
 */
export class ReasoningWriter implements PartWriter {
  readonly #output: ResponseOutput
  readonly #head: PartHead & { type: 'reasoning' }
  /** The provider speaks another protocol, and gets its reasoning back as it was. */
  readonly #tagsSignature: boolean
  readonly #hidesText: boolean
  readonly #isRaw: boolean
  readonly #open: OpenItem
  #text = ''

  constructor(output: ResponseOutput, head: PartHead & { type: 'reasoning' }, context: ResponseContext) {
    this.#output = output
    this.#head = head
    this.#tagsSignature = context.responseIdentity.issuer !== undefined
    this.#hidesText = context.request.reasoning?.visible === false
    this.#isRaw = head.form === 'raw' && !this.#hidesText
    output.endOpenItems('completed')
    const content = this.#isRaw ? { content: [] } : {}
    this.#open = output.addItem({ id: newId('rs'), type: 'reasoning', summary: [], ...content })
  }

  #emit(step: 'part.added' | 'text.delta' | 'text.done' | 'part.done', fields: Json): void {
    const [name, index] = this.#isRaw
      ? [step.startsWith('part') ? 'content' : 'reasoning', 'content_index']
      : ['reasoning_summary', 'summary_index']
    this.#output.emit(`response.${name}_${step}`, { ...positionOf(this.#open), [index]: 0, ...fields })
  }

  #part(): Json {
    return { type: this.#isRaw ? 'reasoning_text' : 'summary_text', text: this.#text }
  }

  append(text: string): void {
    if (this.#text === '' && !this.#hidesText) this.#emit('part.added', { part: this.#part() })
    this.#text += text
    if (!this.#hidesText) this.#emit('text.delta', { delta: text })
  }

  close(signature: string | undefined): void {
    if (this.#hidesText) return this.#closeHidden(signature)
    const part = this.#part()
    if (this.#text !== '') {
      this.#emit('text.done', { text: this.#text })
      this.#emit('part.done', { part })
    }
    const text = this.#text === '' ? {} : this.#isRaw ? { content: [part] } : { summary: [part] }
    const encrypted =
      signature === undefined ? {} : { encrypted_content: this.#output.wrapped(this.#tagged(signature)) }
    this.#output.endItem(this.#open, { ...text, ...encrypted })
  }

  #closeHidden(signature: string | undefined): void {
    const isEmpty = signature === undefined && (this.#text === '' || !this.#tagsSignature)
    const wrapped = isEmpty ? undefined : this.#output.wrapped(this.#tagged(signature ?? ''), hiddenText(this.#text))
    this.#output.endItem(this.#open, wrapped === undefined ? {} : { encrypted_content: wrapped })
  }

  /** Redacted reasoning looks like reasoning without a text here, and any reasoning like a summary. */
  #tagged(signature: string): string {
    const { redacted, form } = this.#head
    const subject =
      redacted === true
        ? SUBJECTS.redactedReasoning
        : form !== 'summary' && !this.#isRaw && this.#text !== ''
          ? SUBJECTS.reasoningWithoutForm
          : undefined
    return this.#tagsSignature && subject !== undefined ? tagSignature(subject, signature) : signature
  }
}

/** A call of a function or of a custom tool. */
export class CallWriter implements PartWriter {
  readonly #output: ResponseOutput
  readonly #open: OpenItem
  readonly #isCustom: boolean
  #text = ''

  constructor(output: ResponseOutput, head: PartHead & { type: 'tool-call' }, names: NamespaceNames) {
    this.#output = output
    this.#isCustom = head.form === 'custom'
    output.endOpenItems('completed')
    this.#open = output.addItem({
      id: newId(this.#isCustom ? 'ctc' : 'fc'),
      type: this.#isCustom ? 'custom_tool_call' : 'function_call',
      status: 'in_progress',
      call_id: head.id,
      name: head.name,
      ...names.resolve(head.name),
      ...this.#input(),
    })
  }

  #input(): Json {
    return this.#isCustom ? { input: this.#text } : { arguments: this.#text }
  }

  append(text: string): void {
    this.#text += text
    const type = this.#isCustom ? 'custom_tool_call_input' : 'function_call_arguments'
    this.#output.emit(`response.${type}.delta`, { ...positionOf(this.#open), delta: text })
  }

  close(signature: string | undefined): void {
    // The arguments of a tool without parameters are still a JSON object.
    if (!this.#isCustom && this.#text === '') this.append('{}')
    const { item, index } = this.#open
    const type = this.#isCustom ? 'custom_tool_call_input' : 'function_call_arguments'
    const name = this.#isCustom ? {} : { name: item.name }
    this.#output.emit(`response.${type}.done`, { ...positionOf(this.#open), ...name, ...this.#input() })
    this.#output.keepCallOpen({ item: { ...item, ...this.#input() }, index }, signature)
  }
}

/** A search of tools, which the client runs: its arguments are an object, and have no events. */
export class SearchWriter implements PartWriter {
  readonly #output: ResponseOutput
  readonly #open: OpenItem
  readonly #context: ResponseContext
  #text = ''

  constructor(output: ResponseOutput, head: PartHead & { type: 'tool-call' }, context: ResponseContext) {
    this.#output = output
    this.#context = context
    output.endOpenItems('completed')
    this.#open = output.addItem({
      id: newId('tsc'),
      type: 'tool_search_call',
      status: 'in_progress',
      call_id: head.id,
      execution: 'client',
      arguments: {},
    })
  }

  append(text: string): void {
    this.#text += text
  }

  close(signature: string | undefined): void {
    const { item, index } = this.#open
    const args = this.#text.trim() === '' ? {} : readObject(this.#text)
    if (args === undefined)
      lose(
        this.#context,
        'response_field_dropped',
        'tool_calls.arguments',
        'the arguments are not a complete JSON object',
      )
    this.#output.keepCallOpen({ item: { ...item, arguments: args ?? {} }, index }, signature)
  }
}

/** An image that was generated, sent whole when it is complete. */
export class ImageWriter implements PartWriter {
  readonly #output: ResponseOutput
  readonly #open: OpenItem
  readonly #mediaType: string
  #data = ''

  constructor(output: ResponseOutput, mediaType: string) {
    this.#output = output
    this.#mediaType = mediaType
    output.endOpenItems('completed')
    this.#open = output.addItem({
      id: newId('ig'),
      type: 'image_generation_call',
      status: 'in_progress',
      result: null,
    })
    for (const step of ['in_progress', 'generating']) this.#emit(step)
  }

  #emit(step: string): void {
    this.#output.emit(`response.image_generation_call.${step}`, positionOf(this.#open))
  }

  append(data: string): void {
    this.#data += data
  }

  close(signature: string | undefined): void {
    this.#emit('completed')
    const output_format = this.#mediaType.replace('image/', '')
    this.#output.endItem(this.#open, { status: 'completed', result: this.#data, output_format })
    if (signature !== undefined) this.#output.addSignature('image', signature)
  }
}

/** An item of a provider of this protocol. */
export function writeNativeItem(output: ResponseOutput, kind: string, value: Json): void {
  output.endOpenItems('completed')
  const id = typeof value.id === 'string' && value.id !== '' ? value.id : newId('item')
  const item: Json = { ...value, type: kind, id }
  const begun = item.status === undefined ? item : { ...item, ...EMPTY.get(kind), status: 'in_progress' }
  const open = output.addItem(begun)
  for (const [name, content] of eventsOf(kind, item))
    output.emit(`response.${name}`, { ...positionOf(open), ...content })
  output.endItem(open, item)
}

/** Members of calls that are empty when they begin: some clients read the input of a call from its events alone. */
const EMPTY: ReadonlyMap<string, Json> = new Map([
  ['code_interpreter_call', { code: '', outputs: null }],
  ['mcp_call', { arguments: '', output: null, error: null }],
])

type ItemEvent = [name: string, content?: Json]

/** The streaming events of a call by the provider, in OpenAI's order. */
function eventsOf(kind: string, { status, code, arguments: args }: Json): ItemEvent[] {
  // Code that failed has no event for its end.
  const completed: ItemEvent[] = status === 'completed' ? [[`${kind}.completed`]] : []
  switch (kind) {
    case 'web_search_call':
      return [[`${kind}.in_progress`], [`${kind}.searching`], [`${kind}.completed`]]
    case 'code_interpreter_call':
      return [
        [`${kind}.in_progress`],
        ...inputEvents(`${kind}_code`, 'code', code),
        [`${kind}.interpreting`],
        ...completed,
      ]
    case 'mcp_call':
      return [
        [`${kind}.in_progress`],
        ...inputEvents(`${kind}_arguments`, 'arguments', args),
        [`${kind}.${status === 'failed' ? 'failed' : 'completed'}`],
      ]
    default:
      return []
  }
}

/** The input of a call as one piece, and its end. */
function inputEvents(event: string, member: string, input: unknown): ItemEvent[] {
  if (typeof input !== 'string') return []
  const done: ItemEvent = [`${event}.done`, { [member]: input }]
  return input === '' ? [done] : [[`${event}.delta`, { delta: input }], done]
}

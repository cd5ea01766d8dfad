import type { GatewayError } from '../../error.ts'
import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import { wrapSignature } from '../../generation/signature.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { lose, loseNative, loseLifetimes, loseOfCitation, loseOfFinish, loseOfStop, reportOf } from '../losses.ts'
import type { TranslationContext, Writer } from '../protocol.ts'
import { Offsets } from '../offsets.ts'
import { flatNames, type FlatNames } from './namespaces.ts'
import { responseObject } from './response-object.ts'
import {
  EMPTY,
  failureCode,
  failureMessage,
  INCOMPLETE,
  markSignature,
  newId,
  objectOf,
  PLAIN,
  REDACTED,
  stringOf,
  writeAnnotation,
  writeLogprobs,
  writeUsage,
  type Json,
} from './shapes.ts'

/** An item that is being written, and its place in the output. */
type Item = { rawRequest: Json; index: number }

/** The content part that is being written into the open message. */
type Content = {
  type: 'output_text' | 'refusal'
  index: number
  text: string
  offsets?: Offsets
  annotations: Json[]
  logprobs: Json[]
  signature?: string
}

type ReasoningHead = PartHead & { type: 'reasoning' }

/** Where deltas of the open part go. */
type Live =
  | { kind: 'text' | 'refusal'; content?: Content }
  | { kind: 'reasoning'; item: Item; head: ReasoningHead; raw: boolean; text: string }
  | { kind: 'call'; item: Item; text: string; custom: boolean }
  | { kind: 'image'; item: Item; text: string; mediaType: string }
  | { kind: 'nothing' }

/**
 * Our events -> the streaming events of the responses protocol, in the official order and with no types beyond the
 * official ones, on which SDKs throw.
 * A message or a call stays open after its part has ended until the next one starts, since only then is it known that
 * no citation follows and that it was not cut.
 */
export class ResponseWriter implements Writer {
  /** The response as the last lifecycle event told it. */
  readonly response: Json
  readonly #context: TranslationContext
  readonly #names: FlatNames
  readonly #output: Json[] = []
  #refused = false
  readonly #usage: Usage = noUsage()
  #frames: Frame[] = []
  #sequence = 0
  #begun = false
  #ended = false
  #metered = false
  #nextIndex = 0
  #message: Item | undefined
  #content: Content | undefined
  #call: { item: Item; signature?: string } | undefined
  #live: Live = { kind: 'nothing' }

  constructor(context: TranslationContext) {
    this.#context = context
    this.#names = flatNames(context.rawRequest.body)
    this.response = responseObject(context)
  }

  write(event: GenerationEvent): Frame[] {
    if (this.#ended) return []
    this.#frames = []
    if (event.type !== 'usage') this.#begin()
    switch (event.type) {
      case 'start':
        break
      case 'part-start':
        this.#open(event.head)
        break
      case 'part-delta':
        this.#append(event.text, event.logprobs)
        break
      case 'part-end':
        this.#close(event.signature)
        break
      case 'usage':
        Object.assign(this.#usage, event.usage)
        this.#metered = true
        break
      case 'finish':
        this.#finish(event)
        break
      case 'error':
        this.#fail(event.error)
        break
    }
    return this.#frames
  }

  #emit(type: string, fields: Json): void {
    this.#frames.push({ event: type, data: JSON.stringify({ type, sequence_number: this.#sequence++, ...fields }) })
  }

  #begin(): void {
    if (this.#begun) return
    this.#begun = true
    // The echo of the request can be long (an agent's tools), so the two first frames share its text.
    const response = JSON.stringify(this.response)
    for (const type of ['response.created', 'response.in_progress'])
      this.#frames.push({
        event: type,
        data: `{"type":"${type}","sequence_number":${this.#sequence++},"response":${response}}`,
      })
  }

  #open(head: PartHead): void {
    switch (head.type) {
      // Opened with its first delta: an empty text before a tool call is no message.
      case 'text':
        this.#live = { kind: 'text' }
        return
      case 'refusal':
        this.#live = { kind: 'refusal' }
        this.#refused = true
        return
      case 'citation':
        this.#cite(head.citation)
        return
      case 'reasoning':
        this.#openReasoning(head)
        return
      case 'tool-call':
        this.#openCall(head)
        return
      case 'image':
        this.#openImage(head.mediaType)
        return
      // The protocol has neither an output item for audio nor a way to ask for it.
      case 'audio':
        lose(this.#context, 'response_field_dropped', 'audio', 'the responses API has no audio in its answers')
        this.#live = { kind: 'nothing' }
        return
      case 'native':
        this.#live = { kind: 'nothing' }
        if (head.protocol === 'responses') this.#writeNative(head.kind, objectOf(head.value))
        else loseNative(this.#context, head.kind)
    }
  }

  #append(text: string, logprobs: TokenLogprob[] | undefined): void {
    if (text === '' && logprobs === undefined) return
    const live = this.#live
    switch (live.kind) {
      case 'text':
      case 'refusal':
        return this.#growContent(live, text, logprobs)
      case 'reasoning':
        return this.#growReasoning(live, text)
      case 'call':
        live.text += text
        return this.#emit(
          live.custom ? 'response.custom_tool_call_input.delta' : 'response.function_call_arguments.delta',
          { ...place(live.item), delta: text },
        )
      case 'image':
        live.text += text
        return
      case 'nothing':
    }
  }

  #close(signature: string | undefined): void {
    const live = this.#live
    this.#live = { kind: 'nothing' }
    switch (live.kind) {
      case 'text':
        if (live.content !== undefined) live.content.signature = signature
        else if (signature !== undefined) this.#writeMark(EMPTY, signature)
        return
      case 'reasoning':
        return this.#closeReasoning(live, signature)
      case 'call':
        return this.#closeCall(live, signature)
      case 'image':
        return this.#closeImage(live, signature)
      case 'refusal':
      case 'nothing':
    }
  }

  #addItem(rawRequest: Json): Item {
    const item = { rawRequest, index: this.#nextIndex++ }
    this.#emit('response.output_item.added', { output_index: item.index, item: rawRequest })
    return item
  }

  #endItem(item: Item): void {
    this.#output.push(item.rawRequest)
    this.#emit('response.output_item.done', { output_index: item.index, item: item.rawRequest })
  }

  // Messages: text, refusals and citations that stand together are one item.

  #growContent(live: Live & { kind: 'text' | 'refusal' }, delta: string, logprobs: TokenLogprob[] | undefined): void {
    const content = (live.content ??= this.#openContent(live.kind === 'text' ? 'output_text' : 'refusal'))
    content.text += delta
    const at = { ...place(this.#message!), content_index: content.index, delta }
    if (content.type === 'refusal') return this.#emit('response.refusal.delta', at)
    const written = writeLogprobs(logprobs)
    for (const logprob of written) content.logprobs.push(logprob)
    this.#emit('response.output_text.delta', { ...at, logprobs: written })
  }

  #openContent(type: Content['type']): Content {
    this.#settleCall('completed')
    this.#settleContent()
    this.#message ??= this.#addItem({
      id: newId('msg'),
      type: 'message',
      status: 'in_progress',
      role: 'assistant',
      content: [],
    })
    const content: Content = {
      type,
      index: (this.#message.rawRequest.content as Json[]).length,
      text: '',
      annotations: [],
      logprobs: [],
    }
    this.#content = content
    this.#emit('response.content_part.added', {
      ...place(this.#message),
      content_index: content.index,
      part: writeContent(content),
    })
    return content
  }

  #cite(citation: Citation): void {
    this.#live = { kind: 'nothing' }
    const content = this.#content
    if (content?.type !== 'output_text')
      return lose(this.#context, 'response_field_dropped', 'citations', 'there is no text to which it belongs')
    const annotation = writeAnnotation(citation, (content.offsets ??= new Offsets(content.text, 'code points')))
    if (annotation !== citation.native && annotation.type === 'file_citation')
      lose(this.#context, 'response_field_adjusted', 'citations', 'as a file without its id, since it names no address')
    else if (annotation !== citation.native) loseOfCitation(this.#context, citation)
    this.#emit('response.output_text.annotation.added', {
      ...place(this.#message!),
      content_index: content.index,
      annotation_index: content.annotations.length,
      annotation,
    })
    content.annotations.push(annotation)
  }

  #settleContent(): void {
    const content = this.#content,
      message = this.#message
    if (content === undefined || message === undefined) return
    this.#content = undefined
    const at = { ...place(message), content_index: content.index }
    const part = writeContent(content)
    if (content.type === 'refusal') this.#emit('response.refusal.done', { ...at, refusal: content.text })
    else this.#emit('response.output_text.done', { ...at, text: content.text, logprobs: content.logprobs })
    this.#emit('response.content_part.done', { ...at, part })
    const parts = message.rawRequest.content as Json[]
    parts.push(part)
    if (content.signature !== undefined) this.#settleMessage('completed', content.signature)
  }

  #settleMessage(status: 'completed' | 'incomplete', signature?: string): void {
    this.#settleContent()
    const message = this.#message
    if (message === undefined) return
    this.#message = undefined
    this.#endItem({ ...message, rawRequest: { ...message.rawRequest, status } })
    if (signature !== undefined) this.#writeMark('text', signature)
  }

  /** Ends whatever stays open between parts. */
  #settle(status: 'completed' | 'incomplete'): void {
    this.#settleMessage(status)
    this.#settleCall(status)
  }

  // Reasoning: one item a part.

  #openReasoning(head: ReasoningHead): void {
    this.#settle('completed')
    const raw = head.form === 'raw'
    const item = this.#addItem({ id: newId('rs'), type: 'reasoning', summary: [], ...(raw ? { content: [] } : {}) })
    this.#live = { kind: 'reasoning', item, head, raw, text: '' }
  }

  #growReasoning(live: Live & { kind: 'reasoning' }, delta: string): void {
    const at = { ...place(live.item), ...(live.raw ? { content_index: 0 } : { summary_index: 0 }) }
    if (live.text === '')
      this.#emit(live.raw ? 'response.content_part.added' : 'response.reasoning_summary_part.added', {
        ...at,
        part: { type: live.raw ? 'reasoning_text' : 'summary_text', text: '' },
      })
    live.text += delta
    this.#emit(live.raw ? 'response.reasoning_text.delta' : 'response.reasoning_summary_text.delta', { ...at, delta })
  }

  #closeReasoning({ item, head, raw, text }: Live & { kind: 'reasoning' }, signature: string | undefined): void {
    const part = { type: raw ? 'reasoning_text' : 'summary_text', text }
    if (text !== '') {
      const at = { ...place(item), ...(raw ? { content_index: 0 } : { summary_index: 0 }) }
      this.#emit(raw ? 'response.reasoning_text.done' : 'response.reasoning_summary_text.done', { ...at, text })
      this.#emit(raw ? 'response.content_part.done' : 'response.reasoning_summary_part.done', { ...at, part })
    }
    const parts = text === '' ? {} : raw ? { content: [part] } : { summary: [part] }
    // Hidden thoughts and thoughts without a text look alike here, and summaries like plain thoughts, but not to their
    // maker.
    const mark = head.redacted === true ? REDACTED : head.form === undefined && text !== '' ? PLAIN : undefined
    const proof =
      mark !== undefined && signature !== undefined && this.#context.responseIdentity.issuer !== undefined
        ? markSignature(mark, signature)
        : signature
    this.#endItem({
      ...item,
      rawRequest: {
        ...item.rawRequest,
        ...parts,
        ...(proof === undefined ? {} : { encrypted_content: this.#wrapSignature(proof) }),
      },
    })
  }

  #wrapSignature(signature: string): string {
    return wrapSignature(signature, this.#context.responseIdentity.issuer)
  }

  #writeMark(of: string, signature: string): void {
    this.#settle('completed')
    const item = this.#addItem({ id: newId('rs'), type: 'reasoning', summary: [] })
    this.#endItem({
      ...item,
      rawRequest: { ...item.rawRequest, encrypted_content: this.#wrapSignature(markSignature(of, signature)) },
    })
  }

  // Calls.

  #openCall(head: PartHead & { type: 'tool-call' }): void {
    this.#settle('completed')
    const custom = head.form === 'custom'
    const rawRequest = {
      id: newId(custom ? 'ctc' : 'fc'),
      type: custom ? 'custom_tool_call' : 'function_call',
      status: 'in_progress',
      call_id: head.id,
      name: head.name,
      ...this.#names.spaced(head.name),
      ...(custom ? { input: '' } : { arguments: '' }),
    }
    this.#live = { kind: 'call', item: this.#addItem(rawRequest), text: '', custom }
  }

  #closeCall(live: Live & { kind: 'call' }, signature: string | undefined): void {
    // A tool without parameters: its arguments are still a JSON object.
    if (!live.custom && live.text === '') {
      this.#live = live
      this.#append('{}', undefined)
      this.#live = { kind: 'nothing' }
    }
    const { item, custom, text } = live
    if (custom) this.#emit('response.custom_tool_call_input.done', { ...place(item), input: text })
    else
      this.#emit('response.function_call_arguments.done', {
        ...place(item),
        name: item.rawRequest.name,
        arguments: text,
      })
    const rawRequest = { ...item.rawRequest, ...(custom ? { input: text } : { arguments: text }) }
    this.#call = { item: { ...item, rawRequest }, ...(signature === undefined ? {} : { signature }) }
  }

  #settleCall(status: 'completed' | 'incomplete'): void {
    if (this.#call === undefined) return
    const { item, signature } = this.#call
    this.#call = undefined
    this.#endItem({ ...item, rawRequest: { ...item.rawRequest, status } })
    if (signature !== undefined) this.#writeMark(stringOf(item.rawRequest.call_id), signature)
  }

  // Images and what only this protocol knows.

  #openImage(mediaType: string): void {
    this.#settle('completed')
    const item = this.#addItem({ id: newId('ig'), type: 'image_generation_call', status: 'in_progress', result: null })
    for (const step of ['in_progress', 'generating']) this.#emit(`response.image_generation_call.${step}`, place(item))
    this.#live = { kind: 'image', item, text: '', mediaType }
  }

  #closeImage({ item, text, mediaType }: Live & { kind: 'image' }, signature: string | undefined): void {
    this.#emit('response.image_generation_call.completed', place(item))
    this.#endItem({
      ...item,
      rawRequest: {
        ...item.rawRequest,
        status: 'completed',
        result: text,
        output_format: mediaType.replace('image/', ''),
      },
    })
    if (signature !== undefined) this.#writeMark('image', signature)
  }

  #writeNative(kind: string, value: Json): void {
    this.#settle('completed')
    const rawRequest: Json = {
      ...value,
      type: kind,
      id: typeof value.id === 'string' && value.id !== '' ? value.id : newId('item'),
    }
    const status = rawRequest.status === undefined ? {} : { status: 'in_progress' }
    const item = this.#addItem({ ...rawRequest, ...status })
    if (kind === 'web_search_call')
      for (const step of ['in_progress', 'searching', 'completed'])
        this.#emit(`response.web_search_call.${step}`, place(item))
    this.#endItem({ ...item, rawRequest })
  }

  // Endings.

  #finish(finish: GenerationEvent & { type: 'finish' }): void {
    const { reason } = finish
    // A refusal in words is a whole answer; without them only the ending tells of it.
    const incomplete = reason === 'refusal' && this.#refused ? undefined : INCOMPLETE[reason]
    loseOfFinish(this.#context, finish, this.#refused ? ['pause', 'other'] : ['pause', 'other', 'refusal'])
    loseOfStop(this.#context, finish)
    loseLifetimes(this.#context, this.#usage)
    this.#settle(incomplete === undefined ? 'completed' : 'incomplete')
    if (incomplete === undefined)
      this.response.completed_at = Math.max(this.#context.responseIdentity.createdAt, Math.floor(Date.now() / 1000))
    else this.response.incomplete_details = { reason: incomplete }
    this.#end(incomplete === undefined ? 'completed' : 'incomplete')
    this.#context.keep?.(this.response)
  }

  /** What was still open is not ended: a client that runs a call as soon as it is done must not run half of one. */
  #fail(error: GatewayError): void {
    const code = failureCode(error),
      message = failureMessage(error)
    this.#emit('error', { code, message, param: error.param ?? null })
    this.response.error = { code, message }
    this.#end('failed')
  }

  #end(status: 'completed' | 'incomplete' | 'failed'): void {
    this.#ended = true
    this.response.status = status
    this.response.output = this.#output
    this.response.usage = this.#metered ? writeUsage(this.#usage) : null
    this.#emit(`response.${status}`, { response: { ...this.response, ...reportOf(this.#context) } })
  }
}

const place = (item: Item): Json => ({ item_id: item.rawRequest.id, output_index: item.index })

const writeContent = (content: Content): Json =>
  content.type === 'refusal'
    ? { type: 'refusal', refusal: content.text }
    : { type: 'output_text', text: content.text, annotations: content.annotations, logprobs: content.logprobs }

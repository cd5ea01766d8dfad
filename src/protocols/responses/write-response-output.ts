import { stringOf } from '../../json/parse.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import { wrapSignature } from '../../generation/signature.ts'
import type { Frame } from '../../http/frames.ts'
import { lose, loseCitationDetails } from '../losses.ts'
import { TextOffsets } from '../offsets.ts'
import type { ResponseContext } from '../protocol.ts'
import { newId, writeAnnotation, writeLogprobs, type Json } from './shapes.ts'
import { tagSignature } from './tagged-signature.ts'

/** An item that was added and has not ended, and its index in the output. */
export type OpenItem = { item: Json; index: number }

/** A content part of the open message. */
export type ContentPart = {
  type: 'output_text' | 'refusal'
  index: number
  text: string
  offsets?: TextOffsets
  annotations: Json[]
  logprobs: Json[]
  signature?: string | undefined
}

type ItemStatus = 'completed' | 'incomplete'

/**
 * The numbered frames and the output items of one response. A message or a call stays open after its part has ended
 * until the next item starts, since only then is it known that no citation follows and that it was not cut.
 */
export class ResponseOutput {
  /** Items that have ended. */
  readonly items: Json[] = []
  /** Length of all text, in UTF-16 units. */
  textLength = 0
  readonly #context: ResponseContext
  #frames: Frame[] = []
  #sequenceNumber = 0
  #nextIndex = 0
  #message: OpenItem | undefined
  #content: ContentPart | undefined
  /** A call whose arguments are complete, or cut by the end of the response. */
  #call: { open: OpenItem; signature: string | undefined } | undefined

  constructor(context: ResponseContext) {
    this.#context = context
  }

  takeFrames(): Frame[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }

  emit(type: string, fields: Json): void {
    const sequence_number = this.#sequenceNumber++
    this.#frames.push({ event: type, data: JSON.stringify({ type, sequence_number, ...fields }) })
  }

  /** The same with a response that is JSON text already. */
  emitResponse(type: string, response: string): void {
    const sequence = this.#sequenceNumber++
    this.#frames.push({
      event: type,
      data: `{"type":"${type}","sequence_number":${sequence},"response":${response}}`,
    })
  }

  /** Starts an item. Messages and calls that were kept open are ended first by `endOpenItems`. */
  addItem(item: Json): OpenItem {
    const open = { item, index: this.#nextIndex++ }
    this.emit('response.output_item.added', { output_index: open.index, item })
    return open
  }

  /** Ends an item. `changes`: members in which it differs from the item that was added. */
  endItem(open: OpenItem, changes: Json): void {
    const item = { ...open.item, ...changes }
    this.items.push(item)
    this.emit('response.output_item.done', { output_index: open.index, item })
  }

  /** Ends the message or the call that was kept open. */
  endOpenItems(status: ItemStatus): void {
    this.#endMessage(status)
    this.#endCall(status)
  }

  /** A text or refusal in the open message, or in a new one. */
  openContent(type: ContentPart['type']): ContentPart {
    this.#endCall('completed')
    this.#endContent()
    this.#message ??= this.addItem({
      id: newId('msg'),
      type: 'message',
      status: 'in_progress',
      role: 'assistant',
      content: [],
    })
    const index = (this.#message.item.content as Json[]).length
    const content: ContentPart = { type, index, text: '', annotations: [], logprobs: [] }
    this.#content = content
    this.emit('response.content_part.added', { ...this.#positionOf(content), part: writeContent(content) })
    return content
  }

  appendContent(content: ContentPart, delta: string, logprobs: TokenLogprob[] | undefined): void {
    content.text += delta
    this.textLength += delta.length
    const fields = { ...this.#positionOf(content), delta }
    if (content.type === 'refusal') return this.emit('response.refusal.delta', fields)
    const written = writeLogprobs(logprobs)
    for (const logprob of written) content.logprobs.push(logprob)
    this.emit('response.output_text.delta', { ...fields, logprobs: written })
  }

  /** Cites in the last text, as long as no other item or content part has started. */
  cite(citation: Citation): void {
    const content = this.#content
    if (content?.type !== 'output_text')
      return lose(this.#context, 'response_citation_dropped', 'citations', 'there is no text to which it belongs')
    const annotation = writeAnnotation(citation, (content.offsets ??= new TextOffsets(content.text, 'code points')))
    const isOwn = annotation === citation.native
    if (!isOwn && annotation.type === 'file_citation')
      lose(this.#context, 'response_citation_adjusted', 'citations', 'sent as a file without an id: it has no URL')
    else if (!isOwn) loseCitationDetails(this.#context, citation)
    this.emit('response.output_text.annotation.added', {
      ...this.#positionOf(content),
      annotation_index: content.annotations.length,
      annotation,
    })
    content.annotations.push(annotation)
  }

  #positionOf(content: ContentPart): Json {
    return { ...positionOf(this.#message!), content_index: content.index }
  }

  #endContent(): void {
    const content = this.#content
    if (content === undefined) return
    this.#content = undefined
    const position = this.#positionOf(content)
    const part = writeContent(content)
    if (content.type === 'refusal') this.emit('response.refusal.done', { ...position, refusal: content.text })
    else this.emit('response.output_text.done', { ...position, text: content.text, logprobs: content.logprobs })
    this.emit('response.content_part.done', { ...position, part })
    const parts = this.#message!.item.content as Json[]
    parts.push(part)
    if (content.signature !== undefined) this.#endMessage('completed', content.signature)
  }

  #endMessage(status: ItemStatus, signature?: string): void {
    this.#endContent()
    const message = this.#message
    if (message === undefined) return
    this.#message = undefined
    this.endItem(message, { status })
    if (signature !== undefined) this.addSignature('text', signature)
  }

  /** Keeps a call open until the next item starts. */
  keepCallOpen(open: OpenItem, signature: string | undefined): void {
    this.#call = { open, signature }
  }

  #endCall(status: ItemStatus): void {
    if (this.#call === undefined) return
    const { open, signature } = this.#call
    this.#call = undefined
    this.endItem(open, { status })
    if (signature !== undefined) this.addSignature(stringOf(open.item.call_id), signature)
  }

  /** A reasoning item with the signature of the item before it. `subject`: see `tagSignature`. */
  addSignature(subject: string, signature: string): void {
    this.endOpenItems('completed')
    const open = this.addItem({ id: newId('rs'), type: 'reasoning', summary: [] })
    this.endItem(open, { encrypted_content: this.wrapped(tagSignature(subject, signature)) })
  }

  wrapped(signature: string, note?: string): string {
    return wrapSignature(signature, this.#context.responseIdentity.issuer, note)
  }
}

export const positionOf = ({ item, index }: OpenItem): Json => ({ item_id: item.id, output_index: index })

const writeContent = (content: ContentPart): Json =>
  content.type === 'refusal'
    ? { type: 'refusal', refusal: content.text }
    : { type: 'output_text', text: content.text, annotations: content.annotations, logprobs: content.logprobs }

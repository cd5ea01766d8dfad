import type { PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { isObject, stringOf, arrayOf, objectsOf } from '../../json/parse.ts'
import { present } from '../fields.ts'
import { TextOffsets } from '../offsets.ts'
import type { OpenPart, PartSequence } from '../part-sequence.ts'
import { stepsOf } from './hosted-tools.ts'
import { readAnnotation, readLogprobs, type Json } from './shapes.ts'

/**
 * One output item of a provider while it is streamed. Deltas, `.done` frames and the finished item repeat the same text
 * up to three times, and each dialect leaves some of them out: of every frame only what is new is read.
 */
export interface OutputItem {
  readonly type: string
  /** Adds what the finished item has beyond what was streamed, and closes its parts. */
  finish(item: Json): void
  /** Closes its parts with what was received. */
  close(): void
}

/** A part whose text is repeated by later frames. */
class RepeatedText {
  readonly part: OpenPart
  text = ''

  constructor(part: OpenPart) {
    this.part = part
  }

  append(delta: string, logprobs?: TokenLogprob[]): void {
    this.text += delta
    this.part.append(delta, logprobs)
  }

  /** Appends what the whole text has beyond the received one. A whole that contradicts what went out is ignored. */
  complete(whole: string, logprobs?: TokenLogprob[]): void {
    this.append(whole.startsWith(this.text) ? whole.slice(this.text.length) : '', logprobs)
  }
}

/** A content part of a message: text with annotations, or a refusal. */
class ContentPart {
  readonly #text: RepeatedText
  readonly #inlineCitations: boolean
  readonly #offsets = new TextOffsets('', 'code points')
  /** Text that `#offsets` has not been given: it is measured once, however many annotations there are. */
  #unmeasured = ''
  #hasLogprobs = false
  /** Annotations that are cited when the part closes, since they count in the whole text. */
  #waiting: Json[] = []
  /** Annotations received in all, and in frames of their own. */
  #received = 0
  #announced = 0

  constructor(part: OpenPart, inlineCitations: boolean) {
    this.#text = new RepeatedText(part)
    this.#inlineCitations = inlineCitations
  }

  append(delta: string, logprobs: TokenLogprob[] | undefined): void {
    if (this.#text.part.closed) return
    if (logprobs !== undefined) this.#hasLogprobs = true
    this.#unmeasured += delta
    this.#text.append(delta, logprobs)
  }

  complete(whole: string, logprobs: TokenLogprob[] | undefined, annotations: readonly Json[]): void {
    if (this.#text.part.closed) return
    const known = this.#text.text.length
    this.#text.complete(whole, this.#hasLogprobs ? undefined : logprobs)
    this.#unmeasured += this.#text.text.slice(known)
    if (logprobs !== undefined) this.#hasLogprobs = true
    for (const annotation of annotations.slice(this.#received)) this.#annotate(annotation)
  }

  /** An annotation in a frame of its own, which may follow the finished part with all of them. */
  announce(annotation: Json): void {
    if (this.#text.part.closed) return
    if (++this.#announced > this.#received) this.#annotate(annotation)
  }

  #annotate(annotation: Json): void {
    this.#received++
    const citation = this.#inlineCitations ? readAnnotation(annotation, this.#measured()) : undefined
    if (citation?.end === undefined) this.#waiting.push(annotation)
    else this.#text.part.cite(citation)
  }

  #measured(): TextOffsets {
    this.#offsets.append(this.#unmeasured)
    this.#unmeasured = ''
    return this.#offsets
  }

  close(): void {
    if (this.#text.part.closed) return
    for (const annotation of this.#waiting) this.#text.part.cite(readAnnotation(annotation, this.#measured()))
    this.#text.part.close()
  }
}

/** A message: one part for each of its content parts. */
export class MessageItem implements OutputItem {
  readonly type = 'message'
  readonly #sequence: PartSequence
  readonly #contents = new Map<number, ContentPart | 'native'>()
  #latest: ContentPart | undefined
  /** True if the model refused in this item. */
  refused = false

  constructor(sequence: PartSequence) {
    this.#sequence = sequence
  }

  #content(index: number, type: 'text' | 'refusal'): ContentPart | undefined {
    const known = this.#contents.get(index)
    if (known !== undefined) return known === 'native' ? undefined : known
    if (type === 'refusal') this.refused = true
    // The parts of a message come one after the other.
    this.#latest?.close()
    const content = new ContentPart(this.#sequence.open({ type }), this.#sequence.inlineCitations)
    this.#latest = content
    this.#contents.set(index, content)
    return content
  }

  append(index: number, type: 'text' | 'refusal', delta: string, logprobs: unknown): void {
    this.#content(index, type)?.append(delta, readLogprobs(logprobs))
  }

  cite(index: number, annotation: Json): void {
    this.#content(index, 'text')?.announce(annotation)
  }

  /** A finished content part, or what a `.done` frame has of one. */
  complete(index: number, part: Json): void {
    const type =
      part.type === 'refusal' || (typeof part.refusal === 'string' && part.refusal !== '') ? 'refusal' : 'text'
    const text = stringOf(type === 'refusal' ? part.refusal : part.text)
    this.#content(index, type)?.complete(text, readLogprobs(part.logprobs), objectsOf(part.annotations))
  }

  finish(item: Json): void {
    // One server counts content parts across items in its deltas, so the finished parts are matched by their order.
    const known = [...this.#contents.keys()].sort((a, b) => a - b)
    for (const [position, part] of arrayOf(item.content).entries()) {
      if (!isObject(part)) continue
      const index = known[position] ?? (known.at(-1) ?? -1) + 1 + position
      if (part.type === 'output_text' || part.type === 'refusal' || typeof part.text === 'string')
        this.complete(index, part)
      else if (!this.#contents.has(index)) this.#native(index, part)
    }
    this.close()
    if (typeof item.phase === 'string') this.#sequence.whole(nativeHead('phase', item.phase))
  }

  #native(index: number, part: Json): void {
    this.#sequence.whole(nativeHead(stringOf(part.type), part))
    this.#contents.set(index, 'native')
  }

  close(): void {
    for (const content of this.#contents.values()) if (content !== 'native') content.close()
  }
}

type ReasoningForm = 'summary' | 'raw'

/** A reasoning item: one part; two in the rare case that a provider shows both a summary and the raw reasoning. */
export class ReasoningItem implements OutputItem {
  readonly type = 'reasoning'
  readonly #sequence: PartSequence
  readonly #id: string | undefined
  /** Opened before its form is known. */
  readonly #first: OpenPart
  readonly #texts = new Map<ReasoningForm, RepeatedText>()
  /** Index of the paragraph that was streamed last. */
  readonly #paragraph = new Map<ReasoningForm, number>()

  constructor(sequence: PartSequence, item: Json) {
    this.#sequence = sequence
    this.#id = typeof item.id === 'string' ? item.id : undefined
    this.#first = sequence.open()
  }

  #text(form: ReasoningForm): RepeatedText {
    const known = this.#texts.get(form)
    if (known !== undefined) return known
    const part = this.#texts.size === 0 ? this.#first : this.#sequence.open()
    part.head = this.#head({ form })
    const text = new RepeatedText(part)
    this.#texts.set(form, text)
    return text
  }

  #head(more: { form: ReasoningForm } | { redacted: true }): PartHead {
    return { type: 'reasoning', ...more, ...(this.#id === undefined ? {} : { id: this.#id }) }
  }

  /** Parts of a summary are paragraphs. */
  append(form: ReasoningForm, index: number, delta: string): void {
    if (delta === '') return
    const text = this.#text(form)
    if (text.part.closed) return
    const isNewParagraph = (this.#paragraph.get(form) ?? index) !== index
    this.#paragraph.set(form, index)
    text.append(isNewParagraph ? `\n\n${delta}` : delta)
  }

  /** A `.done` frame of one paragraph: new only if none of it was streamed. */
  complete(form: ReasoningForm, index: number, text: string): void {
    if (this.#paragraph.get(form) !== index) this.append(form, index, text)
  }

  finish(item: Json): void {
    for (const [form, member] of [
      ['summary', 'summary'],
      ['raw', 'content'],
    ] as const) {
      const whole = objectsOf(item[member])
        .map((part) => stringOf(part.text))
        .filter((text) => text !== '')
        .join('\n\n')
      if (whole !== '') this.#text(form).complete(whole)
    }
    const signature = stringOf(item.encrypted_content)
    if (this.#texts.size === 0 && signature !== '' && !this.#first.closed)
      this.#first.head = this.#head({ redacted: true })
    const last = [...this.#texts.values()].at(-1)?.part ?? this.#first
    if (!last.closed && signature !== '') last.signature = signature
    this.close()
  }

  close(): void {
    this.#first.close()
    for (const { part } of this.#texts.values()) part.close()
  }
}

/** A call of a function or of a custom tool. */
export class CallItem implements OutputItem {
  readonly type: string
  readonly #form: 'function' | 'custom'
  readonly #text: RepeatedText

  constructor(sequence: PartSequence, item: Json) {
    this.type = stringOf(item.type)
    this.#form = this.type === 'custom_tool_call' ? 'custom' : 'function'
    this.#text = new RepeatedText(sequence.open())
    this.#identify(item)
  }

  /** The part starts once id and name are known. */
  #identify(item: Json): void {
    const id = stringOf(item.call_id) === '' ? stringOf(item.id) : stringOf(item.call_id)
    const name = stringOf(item.name)
    if (this.#text.part.head === undefined && id !== '' && name !== '')
      this.#text.part.head = { type: 'tool-call', id, name, form: this.#form }
  }

  append(delta: string): void {
    if (!this.#text.part.closed) this.#text.append(delta)
  }

  complete(whole: unknown): void {
    // A model without arguments to give may send `null`.
    this.#text.complete(typeof whole === 'string' ? whole : isObject(whole) ? JSON.stringify(whole) : '')
  }

  finish(item: Json): void {
    if (this.#text.part.closed) return
    this.#identify({
      name: 'unnamed',
      ...item,
      ...(stringOf(item.call_id) + stringOf(item.id) === '' ? { call_id: 'call_unnamed' } : {}),
    })
    this.complete(this.#form === 'custom' ? item.input : item.arguments)
    this.close()
  }

  close(): void {
    this.#text.part.close()
  }
}

/** An image that the provider made, or an item that only this protocol has: read when it is finished. */
class BufferedItem implements OutputItem {
  readonly type: string
  readonly #sequence: PartSequence
  readonly #part: OpenPart

  constructor(sequence: PartSequence, item: Json) {
    this.type = stringOf(item.type)
    this.#sequence = sequence
    this.#part = sequence.open()
  }

  finish(item: Json): void {
    if (this.#part.closed) return
    if (this.type !== 'image_generation_call' || typeof item.result !== 'string') {
      this.#part.head = { ...nativeHead(this.type, item), ...present('steps', stepsOf(this.type, item)) }
      return this.close()
    }
    const format = stringOf(item.output_format)
    this.#part.head = { type: 'image', mediaType: `image/${format === '' ? 'png' : format}` }
    this.#part.append(item.result)
    this.close()
    const prompt = stringOf(item.revised_prompt ?? item.prompt)
    if (prompt !== '') this.#sequence.whole(nativeHead('revised_prompt', prompt))
  }

  close(): void {
    this.#part.close()
  }
}

const nativeHead = (kind: string, value: unknown): PartHead & { type: 'native' } => ({
  type: 'native',
  protocol: 'responses',
  kind,
  value,
})

export function newItem(sequence: PartSequence, item: Json): OutputItem {
  switch (item.type) {
    case 'message':
      return new MessageItem(sequence)
    case 'reasoning':
      return new ReasoningItem(sequence, item)
    case 'function_call':
    case 'custom_tool_call':
      return new CallItem(sequence, item)
    default:
      return new BufferedItem(sequence, item)
  }
}

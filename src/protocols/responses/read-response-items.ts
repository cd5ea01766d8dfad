import { isObject } from '../fields.ts'
import { PartLine, Slot } from './read-response-parts.ts'
import { arrayOf, objectsOf, readLogprobs, textOf, type Json } from './shapes.ts'

/**
 * One output item of a provider while it is streamed. Deltas, `.done` frames and the finished item say the same thing
 * up to three
 * times, and each dialect leaves some of them out: every telling adds only what was not heard before.
 */
export interface OutputItem {
  readonly type: string
  /** The finished item: adds what is missing and closes its parts. */
  done(rawRequest: Json): void
}

/** Adds what `whole` says beyond what was heard. A telling that contradicts what already went out is not believed. */
const complete = (slot: Slot, whole: string): void => {
  if (whole.length > slot.text.length && whole.startsWith(slot.text)) slot.append(whole.slice(slot.text.length))
}

/** What is said of an item that only this protocol has a place for. */
function tellOwn(line: PartLine, kind: string, value: string): void {
  line.join(new Slot({ type: 'native', protocol: 'responses', kind, value })).closed = true
}

/** A message: one part for each of its content parts. */
export class MessageItem implements OutputItem {
  readonly type = 'message'
  readonly #line: PartLine
  readonly #contents = new Map<number, { slot: Slot; scored: boolean }>()
  #latest: Slot | undefined
  /** Whether the model refused in it. */
  refused = false

  constructor(line: PartLine) {
    this.#line = line
  }

  #content(index: number, type: 'text' | 'refusal'): { slot: Slot; scored: boolean } {
    const known = this.#contents.get(index)
    if (known !== undefined) return known
    if (type === 'refusal') this.refused = true
    // The parts of a message come one after the other.
    if (this.#latest !== undefined) this.#latest.closed = true
    const content = { slot: (this.#latest = this.#line.join(new Slot({ type }))), scored: false }
    this.#contents.set(index, content)
    return content
  }

  append(index: number, type: 'text' | 'refusal', delta: string, logprobs: unknown): void {
    const content = this.#content(index, type)
    if (content.slot.closed) return
    content.slot.settled = content.slot.text.length
    content.slot.append(delta)
    const read = readLogprobs(logprobs)
    if (read === undefined) return
    content.scored = true
    for (const logprob of read) content.slot.logprobs.push(logprob)
  }

  cite(index: number, annotation: Json): void {
    const { slot } = this.#content(index, 'text')
    if (!slot.closed) slot.announce(annotation)
  }

  /** A finished content part, or what a `.done` frame says of one. */
  complete(index: number, part: Json): void {
    const type =
      part.type === 'refusal' || (typeof part.refusal === 'string' && part.refusal !== '') ? 'refusal' : 'text'
    const { slot, scored } = this.#content(index, type)
    if (slot.closed) return
    complete(slot, textOf(type === 'refusal' ? part.refusal : part.text))
    if (!scored) for (const logprob of readLogprobs(part.logprobs) ?? []) slot.logprobs.push(logprob)
    slot.annotate(objectsOf(part.annotations).slice(slot.annotated))
  }

  done(rawRequest: Json): void {
    // One server counts content parts across items in its deltas, so the finished parts are matched by their order.
    const known = [...this.#contents.keys()].sort((a, b) => a - b)
    for (const [place, part] of arrayOf(rawRequest.content).entries()) {
      if (!isObject(part)) continue
      const index = known[place] ?? (known.at(-1) ?? -1) + 1 + place
      if (part.type === 'output_text' || part.type === 'refusal' || typeof part.text === 'string')
        this.complete(index, part)
      else if (!this.#contents.has(index)) this.#native(index, part)
    }
    for (const { slot } of this.#contents.values()) slot.closed = true
    if (typeof rawRequest.phase === 'string') tellOwn(this.#line, 'phase', rawRequest.phase)
  }

  #native(index: number, part: Json): void {
    const slot = this.#line.join(
      new Slot({ type: 'native', protocol: 'responses', kind: textOf(part.type), value: part }),
    )
    this.#contents.set(index, { slot, scored: false })
  }
}

/**
 * A reasoning item: one part; two in the rare case that a provider shows both a summary and the thoughts themselves.
 */
export class ReasoningItem implements OutputItem {
  readonly type = 'reasoning'
  readonly #line: PartLine
  readonly #id: string | undefined
  readonly #first: Slot
  readonly #slots = new Map<'summary' | 'raw', Slot>()
  #at = new Map<'summary' | 'raw', number>()

  constructor(line: PartLine, rawRequest: Json) {
    this.#line = line
    this.#id = typeof rawRequest.id === 'string' ? rawRequest.id : undefined
    this.#first = line.join(new Slot())
  }

  #slot(form: 'summary' | 'raw'): Slot {
    const known = this.#slots.get(form)
    if (known !== undefined) return known
    const slot = this.#slots.size === 0 ? this.#first : this.#line.join(new Slot())
    slot.head = { type: 'reasoning', form, ...this.#named() }
    this.#slots.set(form, slot)
    return slot
  }

  #named(): { id?: string } {
    return this.#id === undefined ? {} : { id: this.#id }
  }

  /** Parts of a summary are paragraphs. */
  append(form: 'summary' | 'raw', index: number, delta: string): void {
    if (delta === '') return
    const slot = this.#slot(form)
    if (slot.closed) return
    if (slot.text !== '' && (this.#at.get(form) ?? index) !== index) slot.append('\n\n')
    this.#at.set(form, index)
    slot.append(delta)
  }

  /** What a `.done` frame says of one paragraph: news only if nothing was heard of it. */
  complete(form: 'summary' | 'raw', index: number, text: string): void {
    if (!this.#slots.has(form) || this.#at.get(form) !== index) this.append(form, index, text)
  }

  done(rawRequest: Json): void {
    for (const [form, name] of [
      ['summary', 'summary'],
      ['raw', 'content'],
    ] as const) {
      const whole = objectsOf(rawRequest[name])
        .map((part) => textOf(part.text))
        .filter((text) => text !== '')
        .join('\n\n')
      if (whole !== '') complete(this.#slot(form), whole)
    }
    const signature =
      typeof rawRequest.encrypted_content === 'string' && rawRequest.encrypted_content !== ''
        ? rawRequest.encrypted_content
        : undefined
    if (this.#slots.size === 0 && signature !== undefined)
      this.#first.head = { type: 'reasoning', redacted: true, ...this.#named() }
    const last = [...this.#slots.values()].at(-1) ?? this.#first
    if (!last.closed) last.signature = signature
    for (const slot of [this.#first, ...this.#slots.values()]) slot.closed = true
  }
}

/** A call of a function or of a custom tool. */
export class CallItem implements OutputItem {
  readonly type: string
  readonly #form: 'function' | 'custom'
  readonly #slot: Slot

  constructor(line: PartLine, rawRequest: Json) {
    this.type = textOf(rawRequest.type)
    this.#form = this.type === 'custom_tool_call' ? 'custom' : 'function'
    this.#slot = line.join(new Slot())
    this.#name(rawRequest)
  }

  #name(rawRequest: Json): void {
    const id = textOf(rawRequest.call_id) === '' ? textOf(rawRequest.id) : textOf(rawRequest.call_id)
    if (this.#slot.head === undefined && id !== '' && textOf(rawRequest.name) !== '')
      this.#slot.head = { type: 'tool-call', id, name: textOf(rawRequest.name), form: this.#form }
  }

  append(delta: string): void {
    if (!this.#slot.closed) this.#slot.append(delta)
  }

  complete(whole: unknown): void {
    // A model that has no arguments to give may say `null`.
    complete(this.#slot, typeof whole === 'string' ? whole : isObject(whole) ? JSON.stringify(whole) : '')
  }

  done(rawRequest: Json): void {
    if (this.#slot.closed) return
    this.#name({
      name: 'unnamed',
      ...rawRequest,
      ...(textOf(rawRequest.call_id) + textOf(rawRequest.id) === '' ? { call_id: 'call_unnamed' } : {}),
    })
    this.complete(this.#form === 'custom' ? rawRequest.input : rawRequest.arguments)
    this.#slot.closed = true
  }
}

/** An image that the provider made, and whatever only this protocol knows: told when it is finished. */
class WholeItem implements OutputItem {
  readonly type: string
  readonly #line: PartLine
  readonly #slot: Slot

  constructor(line: PartLine, rawRequest: Json) {
    this.type = textOf(rawRequest.type)
    this.#line = line
    this.#slot = line.join(new Slot())
  }

  done(rawRequest: Json): void {
    if (this.#slot.closed) return
    this.#slot.closed = true
    if (this.type === 'image_generation_call' && typeof rawRequest.result === 'string') {
      this.#slot.head = {
        type: 'image',
        mediaType: `image/${textOf(rawRequest.output_format) === '' ? 'png' : textOf(rawRequest.output_format)}`,
      }
      this.#slot.append(rawRequest.result)
      const prompt = rawRequest.revised_prompt ?? rawRequest.prompt
      if (typeof prompt === 'string' && prompt !== '') tellOwn(this.#line, 'revised_prompt', prompt)
    } else this.#slot.head = { type: 'native', protocol: 'responses', kind: this.type, value: rawRequest }
  }
}

export function newItem(line: PartLine, rawRequest: Json): OutputItem {
  switch (rawRequest.type) {
    case 'message':
      return new MessageItem(line)
    case 'reasoning':
      return new ReasoningItem(line, rawRequest)
    case 'function_call':
    case 'custom_tool_call':
      return new CallItem(line, rawRequest)
    default:
      return new WholeItem(line, rawRequest)
  }
}

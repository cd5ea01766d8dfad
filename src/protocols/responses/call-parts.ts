import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { Offsets } from '../offsets.ts'
import { readAnnotation, type Json } from './shapes.ts'

/** A part in the making. Without a head it keeps its place until somebody knows what it is. */
export class Slot {
  head: PartHead | undefined
  /** All text heard so far. */
  text = ''
  sent = 0
  logprobs: TokenLogprob[] = []
  signature: string | undefined
  /** Read when the text that they count in is whole. */
  annotations: Json[] = []
  closed = false
  number: number | undefined

  constructor(head?: PartHead) {
    this.head = head
  }
}

/** Parts in the order in which they began. The first one goes out as it grows; what grows behind it waits, because parts never overlap. */
export class PartLine {
  #line: Slot[] = []
  #next = 0

  join(slot: Slot): Slot {
    this.#line.push(slot)
    return slot
  }

  /** Everything that can go out by now. */
  advance(): GenerationEvent[] {
    const events: GenerationEvent[] = []
    for (let slot = this.#line[0]; slot !== undefined; slot = this.#line[0]) {
      if (slot.head !== undefined) this.#tell(slot, slot.head, events)
      if (!slot.closed) break
      this.#line.shift()
    }
    return events
  }

  closeAll(): void {
    for (const slot of this.#line) slot.closed = true
  }

  #tell(slot: Slot, head: PartHead, events: GenerationEvent[]): void {
    if (slot.number === undefined) {
      slot.number = this.#next++
      events.push({ type: 'part-start', part: slot.number, head })
    }
    const part = slot.number
    if (slot.text.length > slot.sent || slot.logprobs.length > 0) {
      events.push({ type: 'part-delta', part, text: slot.text.slice(slot.sent), ...(slot.logprobs.length > 0 ? { logprobs: slot.logprobs } : {}) })
      slot.sent = slot.text.length
      slot.logprobs = []
    }
    if (!slot.closed) return
    events.push({ type: 'part-end', part, ...(slot.signature === undefined ? {} : { signature: slot.signature }) })
    if (slot.annotations.length === 0) return
    const offsets = new Offsets(slot.text, 'code points')
    for (const annotation of slot.annotations) {
      events.push({ type: 'part-start', part: this.#next, head: { type: 'citation', citation: readAnnotation(annotation, offsets) } }, { type: 'part-end', part: this.#next })
      this.#next++
    }
  }
}

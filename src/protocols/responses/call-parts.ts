import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
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
  /** Read when the text that they count in is whole, or told by now. */
  annotations: Json[] = []
  annotated = 0
  /** Of passages that had been told without them. */
  late: Citation[] = []
  /** How far the text is known to be cited or not, and where the part that is being told begins in it. */
  settled = 0
  base = 0
  closed = false
  number: number | undefined

  constructor(head?: PartHead) {
    this.head = head
  }

  annotate(annotations: readonly Json[]): void {
    this.annotations.push(...annotations)
    this.annotated += annotations.length
  }
}

/** Parts in the order in which they began. The first one goes out as it grows; what grows behind it waits, because parts never overlap. */
export class PartLine {
  readonly #passages: boolean
  #line: Slot[] = []
  #next = 0

  /** `passages`: each passage that is cited right behind it is a part of its own. So the last piece of a text waits for the next event. */
  constructor(passages = false) {
    this.#passages = passages
  }

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
    const late = this.#passages && head.type === 'text'
    const told = late && !slot.closed ? slot.settled : slot.text.length
    if (late) this.#tellPassages(told, slot, head, events)
    // Behind a passage that ended the text nothing is left to tell.
    if (slot.number !== undefined || slot.base === 0 || told > slot.sent) this.#tellUpTo(told, slot, head, events)
    if (!slot.closed) return
    if (slot.number !== undefined) this.#end(slot, events)
    const offsets = slot.annotations.length === 0 ? undefined : new Offsets(slot.text, 'code points')
    for (const citation of [...slot.late, ...slot.annotations.map((annotation) => readAnnotation(annotation, offsets!))]) this.#cite(citation, slot.base, events)
  }

  /** Passages in what waits to be told, up to `limit`, whose citations are here. Sources of one passage follow each other. */
  #tellPassages(limit: number, slot: Slot, head: PartHead, events: GenerationEvent[]): void {
    if (slot.annotations.length === 0) return
    const offsets = new Offsets(slot.text, 'code points')
    let passage = -1
    slot.annotations = slot.annotations.filter((annotation) => {
      const citation = readAnnotation(annotation, offsets)
      const { start = 0, end = 0 } = citation
      // Of a passage that is not whole yet, or may be cited again.
      if (end > limit || (!slot.closed && Number(annotation.end_index) > offsets.length)) return true
      if (start === passage && end === slot.base) this.#cite(citation, start, events)
      else if (start < slot.sent || end === 0) slot.late.push(citation)
      else {
        if (start > slot.sent) this.#tellUpTo(start, slot, head, events)
        if (slot.number !== undefined) this.#end(slot, events)
        this.#tellUpTo(end, slot, head, events)
        this.#end(slot, events)
        this.#cite(citation, start, events)
        passage = start
        slot.base = end
      }
      return false
    })
  }

  #tellUpTo(end: number, slot: Slot, head: PartHead, events: GenerationEvent[]): void {
    if (slot.number === undefined) {
      slot.number = this.#next++
      events.push({ type: 'part-start', part: slot.number, head })
    }
    if (end <= slot.sent && slot.logprobs.length === 0) return
    events.push({ type: 'part-delta', part: slot.number, text: slot.text.slice(slot.sent, end), ...(slot.logprobs.length > 0 ? { logprobs: slot.logprobs } : {}) })
    slot.sent = end
    slot.logprobs = []
  }

  #end(slot: Slot, events: GenerationEvent[]): void {
    events.push({ type: 'part-end', part: slot.number!, ...(slot.signature === undefined ? {} : { signature: slot.signature }) })
    slot.number = undefined
  }

  /** `base`: where the part that it belongs to begins in the text that it counts in. */
  #cite({ start, end, ...source }: Citation, base: number, events: GenerationEvent[]): void {
    const citation = start === undefined || end === undefined || start < base ? source : { ...source, start: start - base, end: end - base }
    events.push({ type: 'part-start', part: this.#next, head: { type: 'citation', citation } }, { type: 'part-end', part: this.#next })
    this.#next++
  }
}

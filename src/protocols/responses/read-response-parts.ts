import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import { Offsets } from '../offsets.ts'
import { readAnnotation, type Json } from './shapes.ts'

/** A part in the making. Without a head it keeps its place until somebody knows what it is. */
export class Slot {
  head: PartHead | undefined
  /**
   * All text heard so far, and what of it was not told or not measured yet: the middle of a text that grows is dear to
   * come by.
   */
  text = ''
  untold = ''
  #unmeasured = ''
  readonly #offsets = new Offsets('', 'code points')
  logprobs: TokenLogprob[] = []
  signature: string | undefined
  /** Read when the text that they count in is whole, or told by now. */
  annotations: Json[] = []
  /** How many there were of them in all, and in frames of their own. */
  annotated = 0
  announced = 0
  /** Of passages that are not told with them. */
  late: Json[] = []
  /** How far the text is known to be cited or not, and where the part that is being told begins in it. */
  settled = 0
  base = 0
  closed = false
  number: number | undefined

  constructor(head?: PartHead) {
    this.head = head
  }

  append(more: string): void {
    this.text += more
    this.untold += more
    this.#unmeasured += more
  }

  get sent(): number {
    return this.text.length - this.untold.length
  }

  /** Of all text heard so far. */
  get offsets(): Offsets {
    this.#offsets.append(this.#unmeasured)
    this.#unmeasured = ''
    return this.#offsets
  }

  annotate(annotations: readonly Json[]): void {
    for (const annotation of annotations) this.annotations.push(annotation)
    this.annotated += annotations.length
  }

  /** One in a frame of its own, which may follow the part that holds them all. */
  announce(annotation: Json): void {
    if (++this.announced > this.annotated) this.annotate([annotation])
  }
}

/**
 * Parts in the order in which they began. The first one goes out as it grows; what grows behind it waits, because parts
 * never overlap.
 */
export class PartLine {
  readonly #passages: boolean
  #line: Slot[] = []
  #next = 0

  /**
   * `passages`: each passage that is cited right behind it is a part of its own. So the last piece of a text waits for
   * the next event.
   */
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
    const cuts = this.#passages && head.type === 'text'
    const told = cuts && !slot.closed ? slot.settled : slot.text.length
    if (cuts && (slot.closed || told > slot.sent)) this.#tellPassages(told, slot, head, events)
    // Behind a passage that ended the text nothing is left to tell.
    if (slot.number !== undefined || slot.base === 0 || told > slot.sent) this.#tellUpTo(told, slot, head, events)
    if (!slot.closed) return
    if (slot.number !== undefined) this.#end(slot, events)
    for (const annotation of [...slot.late, ...slot.annotations])
      this.#cite(readAnnotation(annotation, slot.offsets), slot.base, events)
  }

  /**
   * Passages in what waits to be told, up to `limit`, whose citations are here. Sources of one passage follow each
   * other.
   */
  #tellPassages(limit: number, slot: Slot, head: PartHead, events: GenerationEvent[]): void {
    let passage = -1
    for (const annotation of slot.annotations.splice(0)) {
      const citation = readAnnotation(annotation, slot.offsets)
      const { start = 0, end = 0 } = citation
      if (start === passage && end === slot.base) this.#cite(citation, start, events)
      else if (start < slot.sent || end === 0 || end > limit) slot.late.push(annotation)
      else {
        if (start > slot.sent) this.#tellUpTo(start, slot, head, events)
        if (slot.number !== undefined) this.#end(slot, events)
        this.#tellUpTo(end, slot, head, events)
        this.#end(slot, events)
        this.#cite(citation, start, events)
        passage = start
        slot.base = end
      }
    }
  }

  #tellUpTo(end: number, slot: Slot, head: PartHead, events: GenerationEvent[]): void {
    if (slot.number === undefined) {
      slot.number = this.#next++
      events.push({ type: 'part-start', part: slot.number, head })
    }
    if (end <= slot.sent && slot.logprobs.length === 0) return
    const length = end - slot.sent
    events.push({
      type: 'part-delta',
      part: slot.number,
      text: slot.untold.slice(0, length),
      ...(slot.logprobs.length > 0 ? { logprobs: slot.logprobs } : {}),
    })
    slot.untold = slot.untold.slice(length)
    slot.logprobs = []
  }

  #end(slot: Slot, events: GenerationEvent[]): void {
    events.push({
      type: 'part-end',
      part: slot.number!,
      ...(slot.signature === undefined ? {} : { signature: slot.signature }),
    })
    slot.number = undefined
  }

  /** `base`: where the part that it belongs to begins in the text that it counts in. */
  #cite({ start, end, ...source }: Citation, base: number, events: GenerationEvent[]): void {
    const citation =
      start === undefined || end === undefined || start < base
        ? source
        : { ...source, start: start - base, end: end - base }
    events.push(
      { type: 'part-start', part: this.#next, head: { type: 'citation', citation } },
      { type: 'part-end', part: this.#next },
    )
    this.#next++
  }
}

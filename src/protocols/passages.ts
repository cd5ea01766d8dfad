import type { GenerationEvent } from '../generation/event.ts'
import type { Citation, GenerationRequest, TokenLogprob } from '../generation/request.ts'
import { type OpenPart, PartSequence } from './part-sequence.ts'
import type { Protocol } from './protocol.ts'
import type { Transform } from './transforms.ts'

/**
 * Reports whether the streamed text of the response is cut at the passages that it cites: the client's protocol cites
 * whole blocks of text, and the provider names each source right after its passage. Stop sequences are searched for in
 * one uncut text.
 */
export const cutsPassages = (
  client: Protocol['serve'],
  provider: Protocol['call'],
  { webSearch, stream, sampling }: GenerationRequest,
): boolean =>
  client.cutsAtPassages === true &&
  provider.inlineCitations === true &&
  webSearch !== undefined &&
  stream &&
  (sampling.stop ?? []).length === 0

/**
 * Makes each cited passage of a text a part of its own, with its citations behind it. The reader sends citations inside
 * the text part that they cite. The last piece of a text is held back until the next one comes, since its citation may
 * follow; a citation of text that has gone out follows the text without being cut.
 */
export function cutAtPassages(): Transform {
  const cutter = new PassageCutter()
  return (events) => cutter.pass(events)
}

class PassageCutter {
  readonly #out: GenerationEvent[] = []
  readonly #parts = new PartSequence(this.#out)
  /** The open part, and its number in the events that come in. */
  #text: HeldText | undefined
  #other: OpenPart | undefined
  #number = 0

  pass(events: readonly GenerationEvent[]): GenerationEvent[] {
    for (const event of events) this.#pass(event)
    this.#text?.release()
    return this.#out.splice(0)
  }

  #pass(event: GenerationEvent): void {
    switch (event.type) {
      case 'part-start':
        return this.#begin(event)
      case 'part-delta':
        if (this.#text !== undefined) this.#text.append(event.text, event.logprobs)
        else this.#other?.append(event.text, event.logprobs)
        return
      case 'part-end':
        if (event.part !== this.#number) return
        this.#text?.close(event.signature)
        this.#other?.close(event.signature)
        this.#text = this.#other = undefined
        return
      case 'error':
        this.#text?.releaseAll()
        this.#out.push(event)
        return
      default:
        this.#out.push(event)
    }
  }

  #begin({ part, head }: GenerationEvent & { type: 'part-start' }): void {
    if (head.type === 'citation' && this.#text !== undefined) return this.#text.cite(head.citation)
    this.#number = part
    if (head.type === 'text') this.#text = new HeldText(this.#parts)
    else this.#other = this.#parts.open(head)
  }
}

/** The end of a text that has not gone out. Offsets count in the whole text, as the provider's citations do. */
class HeldText {
  readonly #parts: PartSequence
  #part: OpenPart | undefined
  /** Where the open part, or the next one, begins. */
  #partStart = 0
  #held = ''
  #heldStart = 0
  /** Length of the last piece. */
  #last = 0
  #logprobs: TokenLogprob[] | undefined
  /** Citations of held text, and those that follow the text. */
  #citations: Citation[] = []
  #late: Citation[] = []

  constructor(parts: PartSequence) {
    this.#parts = parts
  }

  append(text: string, logprobs: TokenLogprob[] | undefined): void {
    if (text !== '') this.#last = text.length
    this.#held += text
    if (logprobs !== undefined) this.#logprobs = [...(this.#logprobs ?? []), ...logprobs]
  }

  cite(citation: Citation): void {
    this.#citations.push(citation)
  }

  /** Releases the text before the last piece. */
  release(): void {
    const end = this.#heldStart + this.#held.length - this.#last
    if (end > this.#heldStart) this.#releaseUpTo(end)
  }

  releaseAll(): void {
    this.#releaseUpTo(this.#heldStart + this.#held.length)
  }

  close(signature: string | undefined): void {
    this.releaseAll()
    const endedByPassage = this.#part === undefined && this.#partStart > 0
    if (!endedByPassage || signature !== undefined) this.#part ??= this.#parts.open({ type: 'text' })
    this.#part?.close(signature)
    for (const citation of [...this.#late, ...this.#citations]) this.#citeFrom(this.#partStart, citation)
  }

  #releaseUpTo(limit: number): void {
    let passageStart: number | undefined
    for (const citation of this.#citations.splice(0)) {
      const { start = -1, end = 0 } = citation
      // Several sources of one passage.
      if (start === passageStart && end === this.#partStart) this.#citeFrom(start, citation)
      else if (start < this.#heldStart) this.#late.push(citation)
      else if (end > limit) this.#citations.push(citation)
      else {
        this.#writeUpTo(start)
        this.#endPart()
        this.#writeUpTo(end)
        this.#endPart()
        this.#citeFrom(start, citation)
        passageStart = start
      }
    }
    this.#writeUpTo(limit)
  }

  #writeUpTo(end: number): void {
    const length = end - this.#heldStart
    if (length <= 0 && this.#logprobs === undefined) return
    this.#part ??= this.#parts.open({ type: 'text' })
    this.#part.append(this.#held.slice(0, length), this.#logprobs)
    this.#logprobs = undefined
    this.#held = this.#held.slice(length)
    this.#heldStart = end
  }

  #endPart(): void {
    this.#part?.close()
    this.#part = undefined
    this.#partStart = this.#heldStart
  }

  /** A part of the citation alone; its range is counted from `partStart`, where the cited part begins. */
  #citeFrom(partStart: number, { start, end, ...source }: Citation): void {
    const range =
      start === undefined || end === undefined || start < partStart
        ? {}
        : { start: start - partStart, end: end - partStart }
    this.#parts.whole({ type: 'citation', citation: { ...source, ...range } })
  }
}

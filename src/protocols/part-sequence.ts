import type { GenerationEvent, PartHead } from '../generation/event.ts'
import type { Citation, TokenLogprob } from '../generation/request.ts'

type Delta = { text: string; logprobs: TokenLogprob[] | undefined }

/**
 * A part that is being received. Its events go out at once while it is the first open part of its sequence, else they
 * wait until all parts before it are closed.
 */
export class OpenPart {
  /** Set when the part ends. */
  signature: string | undefined
  closed = false
  /** Its number once it has started. */
  number: number | undefined
  #head: PartHead | undefined
  /** The arguments have more than white space. */
  #hasBegun = false
  #waiting: Delta[] = []
  #citations: Citation[] = []
  readonly #sequence: PartSequence

  /** Without a head the part keeps its position until its kind is known. */
  constructor(sequence: PartSequence, head: PartHead | undefined) {
    this.#sequence = sequence
    this.#head = head
  }

  get head(): PartHead | undefined {
    return this.#head
  }

  set head(head: PartHead | undefined) {
    this.#head = head
    this.#sequence.advance()
  }

  append(text: string, logprobs?: TokenLogprob[]): void {
    if (text === '' && logprobs === undefined) return
    if (this.number === undefined) this.#waiting.push({ text, logprobs })
    else if (!this.closed) this.write(this.number, text, logprobs)
  }

  /** White space before arguments is left out: arguments of nothing else are as empty as those without it. */
  write(number: number, text: string, logprobs: TokenLogprob[] | undefined): void {
    if (this.#hasBegun || this.#head?.type !== 'tool-call' || this.#head.form !== 'function')
      return this.#sequence.write(number, text, logprobs)
    const begun = text.trimStart()
    this.#hasBegun = begun !== ''
    if (this.#hasBegun) this.#sequence.write(number, begun, logprobs)
  }

  /** A citation of this text. */
  cite(citation: Citation): void {
    this.#citations.push(citation)
    if (this.number !== undefined) this.#sequence.advance()
  }

  close(signature?: string): void {
    if (signature !== undefined) this.signature = signature
    if (this.closed) return
    this.closed = true
    this.#sequence.advance()
  }

  /** The deltas that have not gone out. */
  take(): Delta[] {
    const waiting = this.#waiting
    this.#waiting = []
    return waiting
  }

  /** The citations that have not gone out. */
  takeCitations(): Citation[] {
    const citations = this.#citations
    if (citations.length > 0) this.#citations = []
    return citations
  }
}

/**
 * Numbers the parts of one response and puts them one after the other: providers may interleave parts, the event
 * grammar does not. Events are pushed onto `out`, parts in the order in which they were opened.
 */
export class PartSequence {
  readonly #out: GenerationEvent[]
  /** Citations go out inside the text that they cite, as soon as they come: `cutAtPassages` needs them there. */
  readonly inlineCitations: boolean
  #open: OpenPart[] = []
  /** The position in `#open` of the part whose events go out now: removing each from the front would be quadratic. */
  #at = 0
  #next = 0

  constructor(out: GenerationEvent[], inlineCitations = false) {
    this.#out = out
    this.inlineCitations = inlineCitations
  }

  open(head?: PartHead): OpenPart {
    const part = new OpenPart(this, head)
    this.#open.push(part)
    this.advance()
    return part
  }

  /** A part that came in one piece. */
  whole(head: PartHead, text = '', signature?: string): void {
    const part = this.open(head)
    part.append(text)
    part.close(signature)
  }

  /** No part was opened. */
  get isEmpty(): boolean {
    return this.#next === 0 && this.#open.length === 0
  }

  /** The last opened part that is not closed. */
  get last(): OpenPart | undefined {
    const part = this.#open.at(-1)
    return part?.closed === false ? part : undefined
  }

  /** The part whose events go out now. */
  get first(): OpenPart | undefined {
    return this.#open[this.#at]
  }

  closeAll(): void {
    for (const part of this.#open.slice(this.#at)) part.close()
  }

  /** Pushes a delta of the first part. */
  write(part: number, text: string, logprobs: TokenLogprob[] | undefined): void {
    this.#out.push(
      logprobs === undefined ? { type: 'part-delta', part, text } : { type: 'part-delta', part, text, logprobs },
    )
  }

  /** Pushes all events that can go out. A closed part whose kind was never known is left out. */
  advance(): void {
    for (let part = this.first; part !== undefined; part = this.first) {
      if (part.head !== undefined) this.#write(part, part.head)
      if (!part.closed) return
      this.#at++
    }
    this.#open = []
    this.#at = 0
  }

  #write(part: OpenPart, head: PartHead): void {
    if (part.number === undefined) {
      part.number = this.#next++
      this.#out.push({ type: 'part-start', part: part.number, head })
    }
    for (const { text, logprobs } of part.take()) part.write(part.number, text, logprobs)
    if (this.inlineCitations) this.#writeCitations(part)
    if (!part.closed) return
    const { number, signature } = part
    this.#out.push({ type: 'part-end', part: number, ...(signature === undefined ? {} : { signature }) })
    this.#writeCitations(part)
  }

  #writeCitations(part: OpenPart): void {
    for (const citation of part.takeCitations()) {
      const number = this.#next++
      this.#out.push(
        { type: 'part-start', part: number, head: { type: 'citation', citation } },
        { type: 'part-end', part: number },
      )
    }
  }
}

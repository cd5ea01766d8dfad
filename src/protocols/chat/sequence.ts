import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'

/** A part that is being received. `key`: what the wire tells it apart by. */
export type Draft = {
  key: string
  head: PartHead
  /** What came while another part was open. */
  waiting: { text: string; logprobs?: TokenLogprob[] }[]
  /** Kept for tool calls only: whether their JSON is complete decides when they may close. */
  json?: Pick<JsonEnd, 'add' | 'complete'>
  /** Turns the whole text of the part into what goes out; the part is held back for it. */
  rewrite?: (text: string) => string
  signature?: string
}

/**
 * Chat streams may mix text, reasoning and several tool calls; our parts never overlap. One part is open; another one
 * waits in
 * memory while the open one is a call whose JSON is not complete, and otherwise closes it.
 */
export class Sequence {
  readonly #out: GenerationEvent[]
  #open: Draft | undefined
  readonly #queue: Draft[] = []
  #parts = 0

  /** Events are pushed onto `out`. */
  constructor(out: GenerationEvent[]) {
    this.#out = out
  }

  /** The part that grows under this key, if nothing began after it. */
  find(key: string): Draft | undefined {
    const last = this.#queue.at(-1) ?? this.#open
    return last?.key === key ? last : undefined
  }

  begin(draft: Draft): void {
    if (this.#open !== undefined && this.#isBusy(this.#open)) {
      this.#queue.push(draft)
      return
    }
    this.#close()
    this.#start(draft)
  }

  append(draft: Draft, text: string, logprobs?: TokenLogprob[]): void {
    draft.json?.add(text)
    const piece = logprobs === undefined ? { text } : { text, logprobs }
    if (this.#open !== draft || draft.rewrite !== undefined) draft.waiting.push(piece)
    else this.#emit(piece)
    if (this.#open !== undefined && this.#queue.length > 0) this.#advance()
  }

  /** The open part at its end, and everything that waited. */
  closeAll(): void {
    this.#close()
    for (const draft of this.#queue.splice(0)) {
      this.#start(draft)
      this.#close()
    }
  }

  /** A part without deltas, or with one. */
  whole(head: PartHead, text = ''): void {
    const draft: Draft = { key: '', head, waiting: text === '' ? [] : [{ text }] }
    this.begin(draft)
    if (this.#open === draft) this.#close()
  }

  #isBusy(draft: Draft): boolean {
    return this.#queue.length > 0 || (draft.json !== undefined && !draft.json.complete)
  }

  #advance(): void {
    while (this.#queue.length > 0 && (this.#open === undefined || this.#open.json?.complete !== false)) {
      this.#close()
      this.#start(this.#queue.shift()!)
    }
  }

  #start(draft: Draft): void {
    this.#open = draft
    this.#out.push({ type: 'part-start', part: this.#parts++, head: draft.head })
    if (draft.rewrite === undefined) for (const piece of draft.waiting.splice(0)) this.#emit(piece)
  }

  #emit(piece: Draft['waiting'][number]): void {
    this.#out.push({ type: 'part-delta', part: this.#parts - 1, ...piece })
  }

  #close(): void {
    const draft = this.#open
    if (draft === undefined) return
    this.#open = undefined
    if (draft.rewrite !== undefined) {
      const text = draft.rewrite(draft.waiting.map((piece) => piece.text).join(''))
      if (text !== '') this.#emit({ text })
    }
    this.#out.push({
      type: 'part-end',
      part: this.#parts - 1,
      ...(draft.signature === undefined ? {} : { signature: draft.signature }),
    })
  }
}

/** Sees where a JSON object or array that comes in pieces ends. Nothing but white space counts as not begun. */
export class JsonEnd {
  complete = false
  #depth = 0
  #inString = false
  #escaped = false

  add(text: string): void {
    for (let i = 0; i < text.length && !this.complete; i++) this.#see(text[i]!)
  }

  #see(c: string): void {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false
      else if (c === '\\') this.#escaped = true
      else if (c === '"') this.#inString = false
      return
    }
    if (c === '"') this.#inString = true
    else if (c === '{' || c === '[') this.#depth++
    else if (c === '}' || c === ']') this.complete = --this.#depth <= 0
  }
}

import type { PartHead } from '../../generation/event.ts'
import type { Citation } from '../../generation/request.ts'
import { isObject } from '../fields.ts'
import { readCitation } from './citations.ts'
import { readInput } from './write-response.ts'
import type { Json } from './shapes.ts'

/** What a block gives: parts in our grammar, one after the other. */
export type Piece =
  | { type: 'head'; head: PartHead }
  | { type: 'text'; text: string }
  | { type: 'end'; signature?: string }

/** One content block as it grows. What it has to say waits in it until it is taken. */
export class BlockReader {
  /** No more deltas will come. */
  stopped = false
  /** Everything was taken. */
  done = false
  readonly isCall: boolean
  readonly #block: Json & { type: string }
  #begun = false
  #pending = ''
  /** Argument text as it came; empty when there were no deltas. */
  #json = ''
  #length = 0
  #signature: string | undefined
  readonly #citations: Citation[] = []
  readonly #index: number

  constructor(block: Json & { type: string }, index: number) {
    this.#block = block
    this.#index = index
    this.isCall = block.type === 'tool_use'
    if (block.type === 'text') this.#append(block.text)
    if (block.type === 'thinking') this.#append(block.thinking)
    for (const citation of Array.isArray(block.citations) ? block.citations : []) this.#cite(citation)
    const signature = block.type === 'redacted_thinking' ? block.data : block.signature
    if (typeof signature === 'string' && signature !== '') this.#signature = signature
  }

  delta(delta: Json): void {
    switch (delta.type) {
      case 'text_delta':
        return this.#append(delta.text)
      case 'thinking_delta':
        return this.#append(delta.thinking)
      case 'signature_delta':
        if (typeof delta.signature === 'string') this.#signature = delta.signature
        return
      case 'citations_delta':
        return this.#cite(delta.citation)
      case 'input_json_delta':
        if (typeof delta.partial_json !== 'string') return
        this.#json += delta.partial_json
        if (this.isCall) this.#append(delta.partial_json)
        return
      default:
        return this.#merge(delta)
    }
  }

  /** What is new since the last time. */
  take(): Piece[] {
    if (this.done) return []
    const pieces: Piece[] = []
    const head = this.#begun ? undefined : this.#head()
    if (!this.#begun && head !== undefined) {
      this.#begun = true
      pieces.push({ type: 'head', head })
    }
    if (this.#pending !== '' && this.#begun && !this.#unwraps) {
      pieces.push({ type: 'text', text: this.#pending })
      this.#pending = ''
    }
    if (!this.stopped) return pieces
    this.done = true
    return [...pieces, ...this.#end()]
  }

  /** Undefined while the block is one that is told only when it is whole. */
  #head(): PartHead | undefined {
    switch (this.#block.type) {
      case 'text':
        return { type: 'text' }
      case 'thinking':
        return { type: 'reasoning' }
      case 'redacted_thinking':
        return { type: 'reasoning', redacted: true }
      case 'tool_use':
        return { type: 'tool-call', id: this.#id(), ...this.#tool() }
      default:
        return undefined
    }
  }

  #end(): Piece[] {
    switch (this.#block.type) {
      case 'text':
        return [
          { type: 'end' },
          ...this.#citations.flatMap((citation): Piece[] => [
            { type: 'head', head: { type: 'citation', citation: { ...citation, start: 0, end: this.#length } } },
            { type: 'end' },
          ]),
        ]
      case 'thinking':
      case 'redacted_thinking':
        return [{ type: 'end', ...(this.#signature === undefined ? {} : { signature: this.#signature }) }]
      case 'tool_use':
        return [...this.#arguments(), { type: 'end' }]
      default:
        return [
          {
            type: 'head',
            head: { type: 'native', protocol: 'messages', kind: this.#block.type, value: this.#whole() },
          },
          { type: 'end' },
        ]
    }
  }

  /** A call without argument deltas has its input in the block itself, or none. */
  #arguments(): Piece[] {
    if (this.#unwraps) return [{ type: 'text', text: this.#unwrapped() }]
    return this.#json === ''
      ? [{ type: 'text', text: JSON.stringify(isObject(this.#block.input) ? this.#block.input : {}) }]
      : []
  }

  /** A free-text tool was offered as a function with the one field `input`. */
  #unwrapped(): string {
    const input = this.#json === '' ? this.#block.input : readInput(this.#json)
    if (isObject(input) && typeof input.input === 'string') return input.input
    return this.#json === '' ? JSON.stringify(input ?? {}) : this.#json
  }

  get #unwraps(): boolean {
    return this.isCall && this.#tool().form === 'custom'
  }

  #tool(): { name: string; form: 'function' | 'custom' } {
    const name = typeof this.#block.name === 'string' ? this.#block.name : ''
    return { name, form: 'function' }
  }

  /** Ids are never empty, since results find their calls by them. */
  #id(): string {
    return typeof this.#block.id === 'string' && this.#block.id !== '' ? this.#block.id : `toolu_${this.#index}`
  }

  #whole(): Json {
    return this.#json === '' ? this.#block : { ...this.#block, input: readInput(this.#json) ?? {} }
  }

  #append(text: unknown): void {
    if (typeof text !== 'string') return
    this.#pending += text
    this.#length += text.length
  }

  #cite(citation: unknown): void {
    if (isObject(citation)) this.#citations.push(readCitation(citation))
  }

  /** Deltas of kinds that only Anthropic knows complete the block they belong to. */
  #merge(delta: Json): void {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'type' || name === '__proto__') continue
      const before = this.#block[name]
      this.#block[name] = typeof before === 'string' && typeof value === 'string' ? before + value : value
    }
  }
}

import type { PartHead } from '../../generation/event.ts'
import { isObject, objectOf, stringOf } from '../../json/parse.ts'
import type { OpenPart, PartSequence } from '../part-sequence.ts'
import { present } from '../fields.ts'
import { readCitation } from './citations.ts'
import { stepsOf } from './hosted-tools.ts'
import { type Block, type Json, readInput } from './shapes.ts'

/** One content block that is being received, and its part. */
export class BlockReader {
  /** No more deltas are expected. */
  stopped = false
  readonly #block: Block
  readonly #sequence: PartSequence
  readonly #part: OpenPart
  /** The input of a tool call as it was streamed; empty without deltas. */
  #input = ''
  /** The length of the text. */
  #length = 0
  readonly #citations: Json[] = []

  /** `index`: for the id of a tool call without one. */
  constructor(block: Block, index: number, sequence: PartSequence) {
    this.#block = block
    this.#sequence = sequence
    this.#part = sequence.open(headOf(block, index))
    if (block.type === 'text') this.#append(block.text)
    if (block.type === 'thinking') this.#append(block.thinking)
    for (const citation of Array.isArray(block.citations) ? block.citations : []) this.#cite(citation)
    this.#sign(block.type === 'redacted_thinking' ? block.data : block.signature)
  }

  get isCall(): boolean {
    return this.#block.type === 'tool_use'
  }

  /** The end of its part has gone out. A stopped block may still wait for the blocks before it. */
  get done(): boolean {
    return this.stopped && this.#part.number !== undefined
  }

  /** False for a delta of an unknown type in a block that is read. */
  delta(delta: Json): boolean {
    switch (delta.type) {
      case 'text_delta':
        this.#append(delta.text)
        return true
      case 'thinking_delta':
        this.#append(delta.thinking)
        return true
      case 'signature_delta':
        this.#sign(delta.signature)
        return true
      case 'citations_delta':
        this.#cite(delta.citation)
        return true
      case 'input_json_delta':
        if (typeof delta.partial_json !== 'string') return true
        this.#input += delta.partial_json
        if (this.isCall && !this.stopped) this.#append(delta.partial_json)
        return true
      default:
        this.#merge(delta)
        return this.#part.head === undefined || this.#part.head.type === 'native'
    }
  }

  stop(): void {
    if (this.stopped) return
    this.stopped = true
    const { type, input } = this.#block
    // A call without deltas has its input in the block, or none.
    if (this.isCall && this.#input === '') this.#append(JSON.stringify(objectOf(input)))
    if (this.#part.head === undefined) {
      const value = this.#nativeValue()
      const steps = stepsOf(type, value)
      this.#part.head = { type: 'native', protocol: 'messages', kind: type, value, ...present('steps', steps) }
    }
    this.#part.close()
    if (type !== 'text') return
    for (const citation of this.#citations)
      this.#sequence.whole({ type: 'citation', citation: readCitation(citation, this.#length) })
  }

  #nativeValue(): Json {
    return this.#input === '' ? this.#block : { ...this.#block, input: readInput(this.#input) ?? {} }
  }

  /** A native block has no text. */
  #append(text: unknown): void {
    if (typeof text !== 'string' || this.#part.head === undefined) return
    this.#part.append(text)
    this.#length += text.length
  }

  #sign(signature: unknown): void {
    if (this.#part.head?.type === 'reasoning' && typeof signature === 'string' && signature !== '')
      this.#part.signature = signature
  }

  #cite(citation: unknown): void {
    if (isObject(citation)) this.#citations.push(citation)
  }

  /** Deltas of types that only Anthropic has complete their block. */
  #merge(delta: Json): void {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'type' || name === '__proto__') continue
      const before = this.#block[name]
      this.#block[name] = typeof before === 'string' && typeof value === 'string' ? before + value : value
    }
  }
}

/** Undefined for a native block, which is read once it is complete. */
function headOf({ type, id, name }: Block, index: number): PartHead | undefined {
  switch (type) {
    case 'text':
      return { type: 'text' }
    case 'thinking':
      return { type: 'reasoning' }
    case 'redacted_thinking':
      return { type: 'reasoning', redacted: true }
    case 'tool_use':
      return {
        type: 'tool-call',
        // Results find their calls by the id, so that it is never empty.
        id: typeof id === 'string' && id !== '' ? id : `toolu_${index}`,
        name: stringOf(name),
        form: 'function',
      }
    default:
      return undefined
  }
}

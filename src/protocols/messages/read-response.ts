import type { GatewayError } from '../../error.ts'
import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import { parseExact } from '../../json/exact.ts'
import type { Frame } from '../../http/frames.ts'
import type { Reader } from '../protocol.ts'
import { cutStream } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { BlockReader } from './read-response-blocks.ts'
import { errorOf } from './read-error.ts'
import { type Json, readStopReason, WireUsage } from './shapes.ts'

export const reader = (): MessagesReader => new MessagesReader()

/**
 * An answer's frames -> events. Blocks may overlap, stay open or come whole: our parts never overlap, so what cannot go
 * out yet waits.
 */
class MessagesReader implements Reader {
  readonly #usage = new WireUsage()
  #started = false
  #ended = false
  #part = 0
  #called = false
  /** Started and not yet closed blocks in the order they came; only the first one speaks. */
  #blocks: BlockReader[] = []
  /** The latest block of each index, closed ones too. */
  #byIndex = new Map<number, BlockReader>()
  #latest = -1
  #stop: { raw: string; sequence?: string; details?: Json } | undefined

  read(frame: Frame): GenerationEvent[] {
    if (this.#ended) return []
    let data: unknown
    try {
      data = JSON.parse(frame.data)
    } catch {
      return []
    }
    return isObject(data) ? this.event(data, frame) : []
  }

  end(): GenerationEvent[] {
    return this.#ended ? [] : this.#fail(cutStream())
  }

  /** Whether the answer said why it ended, but not all of its usage. */
  get finishing(): boolean {
    return this.#stop !== undefined && !this.#usage.complete
  }

  /** One event object. `frame`: the text it came in, for numbers that a double cannot hold. */
  event(data: Json, frame: Frame): GenerationEvent[] {
    switch (data.type ?? frame.event) {
      case 'message_start':
        return this.#messageStart(isObject(data.message) ? data.message : {})
      case 'content_block_start':
        return [...this.#begin(), ...this.blockStart(data.index, exactBlock(data.content_block, frame))]
      case 'content_block_delta':
        return isObject(data.delta) ? [...this.#begin(), ...this.#blockDelta(data.index, data.delta)] : []
      case 'content_block_stop':
        return this.blockStop(data.index)
      case 'message_delta':
        return this.#messageDelta(data)
      case 'message_stop':
        return this.finish()
      case 'error':
        return this.#fail(errorOf(data))
      default:
        return isObject(data.error) || typeof data.error === 'string' ? this.#fail(errorOf(data)) : []
    }
  }

  /** A whole message object as if it had been streamed. */
  *whole(message: Json): Generator<GenerationEvent> {
    yield* this.#messageStart(message, true)
    yield* this.finish()
  }

  blockStart(index: unknown, block: unknown): GenerationEvent[] {
    if (!isObject(block) || typeof block.type !== 'string') return []
    const number = typeof index === 'number' ? index : this.#latest + 1
    this.#latest = number
    const opened = new BlockReader(block as Json & { type: string }, number)
    this.#byIndex.set(number, opened)
    this.#blocks.push(opened)
    // A server that ends no blocks ends them by starting the next; only a call's arguments may go on behind it.
    const before = this.#blocks.at(-2)
    if (before !== undefined && !before.isCall) before.stopped = true
    return this.#speak()
  }

  blockStop(index: unknown): GenerationEvent[] {
    const block = this.#find(index)
    if (block === undefined) return []
    block.stopped = true
    return this.#speak()
  }

  finish(): GenerationEvent[] {
    const events = [...this.#begin(), ...this.#flush()]
    const raw = this.#stop?.raw ?? ''
    // A server that names no reason but ends properly has simply stopped.
    const said = this.#stop === undefined ? 'stop' : readStopReason(raw)
    const reason = this.#called && (said === 'stop' || said === 'other') ? 'tool-calls' : said
    this.#ended = true
    const { sequence, details } = this.#stop ?? {}
    return [
      ...events,
      {
        type: 'finish',
        reason,
        raw,
        ...(sequence === undefined ? {} : { stopSequence: sequence }),
        ...(details === undefined ? {} : { details }),
      },
    ]
  }

  #messageStart(message: Json, whole = typeof message.stop_reason === 'string'): GenerationEvent[] {
    // The output of an answer that has only begun is not its output: `message_delta` says that.
    const usage = whole || !isObject(message.usage) ? message.usage : { ...message.usage, output_tokens: undefined }
    const events = [...(this.#started ? this.#flush() : this.#begin(message)), ...this.#record(usage)]
    // A call made by the provider's own code execution comes whole in this frame, and its stop reason with it (seen
    // 2025-12).
    for (const [index, block] of (Array.isArray(message.content) ? message.content : []).entries())
      for (const event of [...this.blockStart(index, block), ...this.blockStop(index)]) events.push(event)
    this.#heed(message)
    return events
  }

  /** The start event, once; a server that leaves `message_start` out has no names to give. */
  #begin(message: Json = {}): GenerationEvent[] {
    if (this.#started) return []
    this.#started = true
    return [
      {
        type: 'start',
        id: typeof message.id === 'string' ? message.id : '',
        model: typeof message.model === 'string' ? message.model : '',
      },
    ]
  }

  #record(usage: unknown): GenerationEvent[] {
    if (!isObject(usage)) return []
    this.#usage.add(usage)
    return this.#usage.heard ? [{ type: 'usage', usage: this.#usage.read() }] : []
  }

  #blockDelta(index: unknown, delta: Json): GenerationEvent[] {
    const block = this.#find(index)
    if (block !== undefined && !(block.stopped && block.done)) {
      block.delta(delta)
      return this.#speak()
    }
    // Text for a block that is closed, or was never begun, goes on in a part of its own.
    const type = delta.type === 'text_delta' ? 'text' : delta.type === 'thinking_delta' ? 'thinking' : undefined
    if (type === undefined) return []
    const events = this.blockStart(typeof index === 'number' ? index : 0, { type })
    this.#blocks.at(-1)?.delta(delta)
    return [...events, ...this.#speak()]
  }

  #messageDelta(data: Json): GenerationEvent[] {
    const events = this.#begin()
    const delta = isObject(data.delta) ? data.delta : {}
    if (this.#heed(delta)) for (const event of this.#flush()) events.push(event)
    return [...events, ...this.#record(data.usage)]
  }

  /** Notes the stop reason, if there is one. */
  #heed({ stop_reason: raw, stop_sequence: sequence, stop_details: details }: Json): boolean {
    if (typeof raw !== 'string') return false
    this.#stop = {
      raw,
      ...(typeof sequence === 'string' ? { sequence } : {}),
      ...(isObject(details) ? { details } : {}),
    }
    return true
  }

  #find(index: unknown): BlockReader | undefined {
    return typeof index === 'number' ? this.#byIndex.get(index) : this.#blocks[0]
  }

  /** Lets the first block say what it has; once it is done the next one speaks. */
  #speak(): GenerationEvent[] {
    const events: GenerationEvent[] = []
    for (let block = this.#blocks[0]; block !== undefined; block = this.#blocks[0]) {
      for (const piece of block.take()) {
        if (piece.type === 'head') events.push(this.#open(piece.head))
        else if (piece.type === 'text') events.push({ type: 'part-delta', part: this.#part - 1, text: piece.text })
        else
          events.push({
            type: 'part-end',
            part: this.#part - 1,
            ...(piece.signature === undefined ? {} : { signature: piece.signature }),
          })
      }
      if (!block.done) return events
      this.#blocks.shift()
    }
    return events
  }

  #open(head: PartHead): GenerationEvent {
    if (head.type === 'tool-call') this.#called = true
    return { type: 'part-start', part: this.#part++, head }
  }

  #flush(): GenerationEvent[] {
    for (const block of this.#blocks) block.stopped = true
    return this.#speak()
  }

  /** What is open stays open: a call that was cut must not look like a whole one. */
  #fail(error: GatewayError): GenerationEvent[] {
    this.#ended = true
    return [{ type: 'error', error }]
  }
}

/** The block with its numbers as they were spelled, where it brings a call's whole input. */
function exactBlock(block: unknown, frame: Frame): unknown {
  if (!isObject(block) || !isObject(block.input) || Object.keys(block.input).length === 0) return block
  const exact = parseExact(frame.data)
  return isObject(exact) ? exact.content_block : block
}

import { GatewayError } from '../../error.ts'
import type { GenerationEvent } from '../../generation/event.ts'
import { readServiceClass } from '../../generation/service-class.ts'
import { present } from '../fields.ts'
import type { Frame } from '../../http/frames.ts'
import { parseExact } from '../../json/exact.ts'
import { isObject, objectOf, stringOf } from '../../json/parse.ts'
import { PartSequence } from '../part-sequence.ts'
import type { Reader } from '../protocol.ts'
import { UnreadMembers } from '../unread-members.ts'
import { truncatedStream } from '../upstream-error.ts'
import { errorOf } from './read-error.ts'
import { BlockReader } from './read-response-blocks.ts'
import { BLOCKS, DELTAS, MESSAGE, MESSAGE_DELTA } from './read-response-members.ts'
import { type Block, type Json, readStopReason, ReportedUsage } from './shapes.ts'

export const reader = (): Reader => new MessagesResponseReader()

/** A message object -> events. Throws a GatewayError for an error object with status 200, and for any other body. */
export function readResponse(body: unknown): GenerationEvent[] {
  if (isObject(body) && Array.isArray(body.content)) return new MessagesResponseReader().whole(body)
  if (isObject(body) && (body.type === 'error' || body.error !== undefined)) throw errorOf(body)
  throw new GatewayError('upstream_error', 'The provider responded with something that is not a message.')
}

/** Frames -> events. Blocks may overlap, stay open or come in one piece. */
class MessagesResponseReader implements Reader {
  /** The events of the current frame. */
  readonly #events: GenerationEvent[] = []
  readonly #sequence = new PartSequence(this.#events)
  readonly #usage = new ReportedUsage()
  readonly #unread = new UnreadMembers()
  #started = false
  #ended = false
  #hasCalls = false
  /** Blocks that are not stopped, in their order. */
  readonly #open = new Set<BlockReader>()
  #last: BlockReader | undefined
  /** The last block of each index, also stopped ones. */
  readonly #byIndex = new Map<number, BlockReader>()
  #lastIndex = -1
  #stop: { raw: string; sequence?: string; details?: Json } | undefined

  read(frame: Frame): GenerationEvent[] {
    if (this.#ended) return []
    let data: unknown
    try {
      data = JSON.parse(frame.data)
    } catch {
      return []
    }
    if (isObject(data)) this.#readEvent(data, frame)
    return this.#events.splice(0)
  }

  end(): GenerationEvent[] {
    if (!this.#ended) this.#fail(truncatedStream())
    return this.#events.splice(0)
  }

  /** True once the stop reason has come, but not all of the usage. */
  get finishing(): boolean {
    return this.#stop !== undefined && !this.#usage.complete
  }

  /** A message object as if it had been streamed. */
  whole(message: Json): GenerationEvent[] {
    this.#startMessage(message, true)
    this.#finish()
    return this.#events.splice(0)
  }

  /** `frame`: the text of the event, for numbers that a double cannot represent. */
  #readEvent(data: Json, frame: Frame): void {
    switch (data.type ?? frame.event) {
      case 'message_start':
        return this.#startMessage(objectOf(data.message))
      case 'content_block_start':
        this.#start()
        return this.#startBlock(data.index, exactBlock(data.content_block, frame))
      case 'content_block_delta':
        if (!isObject(data.delta)) return
        this.#start()
        return this.#deltaOfBlock(data.index, data.delta)
      case 'content_block_stop':
        return this.#stopBlock(this.#find(data.index))
      case 'message_delta':
        return this.#deltaOfMessage(data)
      case 'message_stop':
        return this.#finish()
      case 'error':
        return this.#fail(errorOf(data))
      default:
        if (isObject(data.error) || typeof data.error === 'string') this.#fail(errorOf(data))
        else this.#addUnknown(data.type ?? frame.event)
    }
  }

  /** An event, or a delta of a block that is read, of a type that is not known. */
  #addUnknown(type: unknown): void {
    if (typeof type === 'string' && type !== 'ping') this.#unread.add({ [type]: true }, NONE)
  }

  #startMessage(message: Json, isWhole = typeof message.stop_reason === 'string'): void {
    if (this.#started) this.#stopAll()
    else this.#start(message)
    this.#unread.add(message, MESSAGE)
    // The output of a response that has only begun is not its total: that comes with `message_delta`.
    this.#addUsage(isWhole || !isObject(message.usage) ? message.usage : { ...message.usage, output_tokens: undefined })
    // A call by the provider's own code execution comes complete in this frame, with its stop reason (seen 2025-12).
    for (const [index, block] of (Array.isArray(message.content) ? message.content : []).entries()) {
      this.#startBlock(index, block)
      this.#stopBlock(this.#byIndex.get(index))
    }
    this.#readStop(message)
  }

  /** Emits the start event, once; a server that omits `message_start` gives no id and model. */
  #start({ id, model }: Json = {}): void {
    if (this.#started) return
    this.#started = true
    this.#events.push({
      type: 'start',
      id: stringOf(id),
      model: stringOf(model),
    })
  }

  #addUsage(usage: unknown): void {
    if (!isObject(usage)) return
    this.#usage.add(usage)
    this.#events.push({ type: 'usage', usage: this.#usage.read(), ...present('service', readServiceClass(usage)) })
  }

  #startBlock(index: unknown, block: unknown): void {
    if (!isObject(block) || typeof block.type !== 'string') return
    // A server that stops no blocks stops them by starting the next; only the arguments of a call may go on after that.
    if (this.#last?.isCall === false) this.#stopBlock(this.#last)
    this.#lastIndex = typeof index === 'number' ? index : this.#lastIndex + 1
    const started = new BlockReader(block as Block, this.#lastIndex, this.#sequence)
    this.#byIndex.set(this.#lastIndex, started)
    this.#open.add(started)
    this.#last = started
    if (started.isCall) this.#hasCalls = true
    this.#addUnread(block as Block)
  }

  #addUnread(block: Block): void {
    const { caller, ...others } = block
    const known = BLOCKS.get(block.type)
    // A call that no program of the provider makes.
    const isDirect = isObject(caller) && caller.type === 'direct'
    if (known !== undefined) this.#unread.add(isDirect ? others : block, known)
  }

  #deltaOfBlock(index: unknown, delta: Json): void {
    const block = this.#find(index)
    if (hasMore(delta)) this.#addUnreadOfDelta(delta)
    if (block !== undefined && !block.done) {
      if (!block.delta(delta)) this.#addUnknown(delta.type)
      return
    }
    // Text for a block that has ended, or was never started, goes on in a part of its own.
    const type = delta.type === 'text_delta' ? 'text' : delta.type === 'thinking_delta' ? 'thinking' : undefined
    if (type === undefined) return this.#addLate(delta)
    this.#startBlock(typeof index === 'number' ? index : 0, { type })
    this.#last?.delta(delta)
  }

  /** A delta that has no block, and says something. */
  #addLate({ type, ...others }: Json): void {
    if (typeof type === 'string') this.#unread.add({ [type]: others }, NONE)
  }

  #addUnreadOfDelta(delta: Json): void {
    const known = DELTAS.get(delta.type)
    if (known !== undefined) this.#unread.add(delta, known)
  }

  #stopBlock(block: BlockReader | undefined): void {
    if (block === undefined || block.stopped) return
    block.stop()
    this.#open.delete(block)
  }

  #deltaOfMessage(data: Json): void {
    this.#start()
    this.#unread.add(data, MESSAGE_DELTA)
    if (isObject(data.delta)) {
      this.#unread.add(data.delta, MESSAGE)
      if (this.#readStop(data.delta)) this.#stopAll()
    }
    this.#addUsage(data.usage)
  }

  /** False without a stop reason. */
  #readStop({ stop_reason: raw, stop_sequence: sequence, stop_details: details }: Json): boolean {
    if (typeof raw !== 'string') return false
    this.#stop = {
      raw,
      ...(typeof sequence === 'string' ? { sequence } : {}),
      ...(isObject(details) ? { details } : {}),
    }
    return true
  }

  #find(index: unknown): BlockReader | undefined {
    return typeof index === 'number' ? this.#byIndex.get(index) : this.#open.values().next().value
  }

  #stopAll(): void {
    for (const block of this.#open) block.stop()
    this.#open.clear()
  }

  #finish(): void {
    this.#start()
    this.#stopAll()
    this.#unread.writeTo(this.#sequence, 'messages')
    this.#ended = true
    const { raw = '', sequence, details } = this.#stop ?? {}
    // A server that ends properly without a stop reason has simply stopped.
    const stop = this.#stop === undefined ? 'end_turn' : raw
    this.#events.push({
      type: 'finish',
      reason: readStopReason(stop, this.#hasCalls),
      raw,
      ...(sequence === undefined ? {} : { stopSequence: sequence }),
      ...(details === undefined ? {} : { details }),
    })
  }

  /** Open blocks stay open: a call that was cut off must not look complete. */
  #fail(error: GatewayError): void {
    this.#ended = true
    this.#events.push({ type: 'error', error })
  }
}

const NONE: ReadonlySet<string> = new Set()

/** Every delta that is known has a type and one more member. */
function hasMore(delta: Json): boolean {
  let members = 0
  for (const _ in delta) members++
  return members > 2
}

/** The block with its numbers as they are spelled, if it has the whole input of a call. */
function exactBlock(block: unknown, frame: Frame): unknown {
  if (!isObject(block) || !isObject(block.input) || Object.keys(block.input).length === 0) return block
  const exact = parseExact(frame.data)
  return isObject(exact) ? exact.content_block : block
}

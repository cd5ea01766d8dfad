import { GatewayError } from '../../error.ts'
import type { FinishReason, GenerationEvent } from '../../generation/event.ts'
import { readServiceClass } from '../../generation/service-class.ts'
import { present } from '../fields.ts'
import { isObject, tryParse, stringOf, objectOf, objectsOf } from '../../json/parse.ts'
import type { Frame } from '../../http/frames.ts'
import type { Reader } from '../protocol.ts'
import { PartSequence } from '../part-sequence.ts'
import { UnreadMembers } from '../unread-members.ts'
import { truncatedStream, upstreamStreamError } from '../upstream-error.ts'
import { CallItem, MessageItem, newItem, ReasoningItem, type OutputItem } from './read-response-items.ts'
import { addUnreadOfItem, RESPONSE } from './read-response-members.ts'
import { readImageModel, readIncomplete, readUsage, type Json } from './shapes.ts'

/**
 * A provider's streaming events -> generation events. Items are identified by their `output_index`, because some
 * servers give an item a new id in every frame.
 */
export class ResponsesResponseReader implements Reader {
  readonly #events: GenerationEvent[] = []
  readonly #sequence: PartSequence
  readonly #items = new Map<number, OutputItem>()
  #lastIndex = -1
  readonly #indexById = new Map<string, number>()
  readonly #done = new Set<number>()
  readonly #unread = new UnreadMembers()
  #started = false
  #ended = false
  #searches = 0
  /** The error of an `error` event, which waits for the details of `response.failed` or for the end. */
  #error: GatewayError | undefined

  constructor(inlineCitations = false) {
    this.#sequence = new PartSequence(this.#events, inlineCitations)
  }

  read(frame: Frame): GenerationEvent[] {
    if (this.#ended || frame.data === '' || frame.data === '[DONE]') return []
    const event = tryParse(frame.data)
    return isObject(event) ? this.take(event, frame.event) : []
  }

  /** One event, parsed. */
  take(event: Json, name?: string): GenerationEvent[] {
    if (this.#ended) return []
    const type = typeof event.type === 'string' ? event.type : name
    this.#receive(type ?? (failureIn(event) === undefined ? '' : 'error'), event)
    return this.#events.splice(0)
  }

  end(): GenerationEvent[] {
    if (this.#ended) return []
    this.#fail(this.#error ?? truncatedStream())
    return this.#events.splice(0)
  }

  get finishing(): boolean {
    return this.#error !== undefined
  }

  get failure(): GatewayError | undefined {
    return this.#error
  }

  #receive(type: string, event: Json): void {
    if (isObject(event.response)) this.#start(event.response)
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        return this.#finish(type, objectOf(event.response))
      case 'error':
        this.#error ??= readFailure(failureIn(event) ?? event)
        return
      case 'response.output_item.added':
        if (isObject(event.item)) void this.#item(event, event.item)
        return
      case 'response.output_item.done':
        if (isObject(event.item)) this.#itemDone(this.#indexOf(event, event.item), event.item)
        return
      default:
        return this.#append(type, event)
    }
  }

  #start(response: Json): void {
    if (this.#started) return
    this.#started = true
    this.#events.push({ type: 'start', id: stringOf(response.id), model: stringOf(response.model) })
  }

  /** The output index of an event: its own, else that of the item it names, else that of the last item. */
  #indexOf(event: Json, item?: Json): number {
    if (typeof event.output_index === 'number') return event.output_index
    const id = stringOf(event.item_id) === '' ? stringOf(item?.id) : stringOf(event.item_id)
    const last = this.#lastIndex
    return this.#indexById.get(id) ?? (item === undefined ? Math.max(0, last) : last + 1)
  }

  #item(event: Json, given: Json): OutputItem {
    this.#start({})
    const index = this.#indexOf(event, given)
    const known = this.#items.get(index)
    if (known !== undefined) return known
    const item = newItem(this.#sequence, given)
    this.#items.set(index, item)
    this.#lastIndex = Math.max(this.#lastIndex, index)
    if (stringOf(given.id) !== '') this.#indexById.set(stringOf(given.id), index)
    return item
  }

  #itemDone(index: number, finished: Json): void {
    if (this.#done.has(index)) return
    const item = this.#item({ output_index: index }, finished)
    if (item.type !== finished.type) return
    this.#done.add(index)
    item.finish(finished)
    addUnreadOfItem(this.#unread, finished)
    const action = objectOf(finished.action).type
    if (finished.type === 'web_search_call' && (action === undefined || action === 'search')) this.#searches++
  }

  #append(type: string, event: Json): void {
    const content = typeof event.content_index === 'number' ? event.content_index : 0
    const summary = typeof event.summary_index === 'number' ? event.summary_index : 0
    const delta = stringOf(event.delta),
      part = objectOf(event.part)
    const message = (): MessageItem | undefined => this.#as(MessageItem, event, { type: 'message', id: event.item_id })
    const reasoning = (): ReasoningItem | undefined =>
      this.#as(ReasoningItem, event, { type: 'reasoning', id: event.item_id })
    switch (type) {
      case 'response.output_text.delta':
        return message()?.append(content, 'text', delta, event.logprobs)
      case 'response.output_text.done':
        return message()?.complete(content, { text: event.text, logprobs: event.logprobs })
      case 'response.refusal.delta':
        return message()?.append(content, 'refusal', delta, undefined)
      case 'response.refusal.done':
        return message()?.complete(content, { type: 'refusal', refusal: event.refusal })
      case 'response.output_text.annotation.added':
        if (isObject(event.annotation)) message()?.cite(content, event.annotation)
        return
      case 'response.content_part.done':
        if (part.type === 'output_text' || part.type === 'refusal') message()?.complete(content, part)
        return
      case 'response.reasoning_summary_text.delta':
        return reasoning()?.append('summary', summary, delta)
      case 'response.reasoning_summary_text.done':
        return reasoning()?.complete('summary', summary, stringOf(event.text))
      // The vendor-neutral document calls raw reasoning `response.reasoning`.
      case 'response.reasoning.delta':
      case 'response.reasoning_text.delta':
        return reasoning()?.append('raw', content, delta)
      case 'response.reasoning.done':
      case 'response.reasoning_text.done':
        return reasoning()?.complete('raw', content, stringOf(event.text))
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        return this.#as(CallItem, event)?.append(delta)
      case 'response.function_call_arguments.done':
        return this.#as(CallItem, event)?.complete(event.arguments)
      case 'response.custom_tool_call_input.done':
        return this.#as(CallItem, event)?.complete(event.input)
    }
  }

  /** The item of an event if it is of that kind. `unannounced`: the item to begin if no frame added it. */
  #as<T extends OutputItem>(
    kind: abstract new (...given: never[]) => T,
    event: Json,
    unannounced?: Json,
  ): T | undefined {
    const index = this.#indexOf(event)
    const item =
      this.#items.get(index) ??
      (unannounced === undefined ? undefined : this.#item({ output_index: index }, unannounced))
    return item instanceof kind && !this.#done.has(index) ? item : undefined
  }

  #finish(type: string, response: Json): void {
    this.#start(response)
    if (type === 'response.failed' || type === 'response.cancelled') {
      this.#reportUsage(response)
      return this.#fail(
        isObject(response.error)
          ? readFailure(response.error)
          : (this.#error ??
              readFailure({
                message:
                  type === 'response.failed'
                    ? 'The provider failed without a reason.'
                    : 'The provider cancelled the response.',
              })),
      )
    }
    this.#finishItems(objectsOf(response.output))
    for (const item of this.#items.values()) item.close()
    this.#unread.add(response, RESPONSE)
    this.#unread.writeTo(this.#sequence, 'responses')
    this.#reportUsage(response)
    this.#ended = true
    this.#events.push({ type: 'finish', ...this.#reason(type, response) })
  }

  /**
   * The final output lists all items in order. One that was streamed is the item with its index and type, else with its
   * id, else the next one of its type; any other was not streamed, and is read behind those that were.
   */
  #finishItems(output: readonly Json[]): void {
    const streamed = new Set(this.#items.keys())
    const known = output.map((item, at) => {
      const index =
        streamed.has(at) && this.#items.get(at)?.type === item.type ? at : this.#indexById.get(stringOf(item.id))
      return index !== undefined && streamed.delete(index) ? index : undefined
    })
    const unmatched = Map.groupBy([...streamed].reverse(), (index) => this.#items.get(index)!.type)
    for (const [at, item] of output.entries())
      this.#itemDone(known[at] ?? unmatched.get(stringOf(item.type))?.pop() ?? this.#lastIndex + 1, item)
  }

  #reason(type: string, response: Json): { reason: FinishReason; raw: string } {
    if (type === 'response.incomplete' || response.status === 'incomplete') {
      const raw = stringOf(objectOf(response.incomplete_details).reason)
      return { reason: readIncomplete(raw), raw: raw === '' ? 'incomplete' : raw }
    }
    const status = stringOf(response.status) === '' ? 'completed' : stringOf(response.status)
    if (status === 'queued' || status === 'in_progress') return { reason: 'other', raw: status }
    const items = [...this.#items.values()]
    if (items.some((item) => item instanceof CallItem)) return { reason: 'tool-calls', raw: status }
    return {
      reason: items.some((item) => item instanceof MessageItem && item.refused) ? 'refusal' : 'stop',
      raw: status,
    }
  }

  #reportUsage(response: Json): void {
    const usage = readUsage(response, this.#searches)
    if (usage !== undefined)
      this.#events.push({
        type: 'usage',
        usage,
        ...present('service', readServiceClass(response)),
        ...(usage.imageToolOutputImageTokens === undefined ? {} : present('imageModel', readImageModel(response))),
      })
  }

  /** Open parts stay open, as the grammar allows before an error. */
  #fail(error: GatewayError): void {
    this.#ended = true
    this.#events.push({ type: 'error', error })
  }
}

/** Reports whether a whole response says that it failed. */
export const hasFailed = (body: unknown): boolean =>
  isObject(body) && (body.status === 'failed' || body.status === 'cancelled')

/** The `error` member; some servers write it as a string. */
const failureIn = ({ error }: Json): Json | undefined =>
  isObject(error) ? error : typeof error === 'string' && error !== '' ? { message: error } : undefined

/** The error object of an `error` event (flat or nested) or of a failed response. */
function readFailure(failure: Json): GatewayError {
  return upstreamStreamError(stringOf(failure.message), {
    ...(typeof failure.type === 'string' && failure.type !== 'error' ? { type: failure.type } : {}),
    ...(typeof failure.code === 'string' || typeof failure.code === 'number' ? { code: failure.code } : {}),
    ...(typeof failure.param === 'string' ? { param: failure.param } : {}),
  })
}

/** A whole response -> the same events as its stream. */
export function readResponse(body: unknown): GenerationEvent[] {
  if (!isObject(body)) throw new GatewayError('upstream_error', 'The provider did not send a response object.')
  const failed = hasFailed(body)
  const failure = failureIn(body)
  if (failure !== undefined && (failed || !Array.isArray(body.output))) throw readFailure(failure)
  if (failed) throw readFailure({ message: `The provider's response is ${stringOf(body.status)}.` })
  if (!Array.isArray(body.output))
    throw new GatewayError('upstream_error', 'The provider sent a response without output.')
  return new ResponsesResponseReader().take({
    type: body.status === 'incomplete' ? 'response.incomplete' : 'response.completed',
    response: body,
  })
}

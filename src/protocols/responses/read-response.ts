import { GatewayError } from '../../error.ts'
import type { FinishReason, GenerationEvent } from '../../generation/event.ts'
import type { Frame } from '../../http/frames.ts'
import type { Reader } from '../protocol.ts'
import { cutStream, upstreamStreamError } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { CallItem, MessageItem, newItem, ReasoningItem, type OutputItem } from './read-response-items.ts'
import { PartLine } from './read-response-parts.ts'
import { objectOf, objectsOf, readIncomplete, readUsage, textOf, type Json } from './shapes.ts'

/**
 * A provider's streaming events -> ours. Items are known by their `output_index`, because some servers give an item a
 * new id in every frame.
 */
class ResponseReader implements Reader {
  readonly #line: PartLine
  readonly #items = new Map<number, OutputItem>()
  #lastIndex = -1
  readonly #indexById = new Map<string, number>()
  readonly #done = new Set<number>()
  #events: GenerationEvent[] = []
  #started = false
  #ended = false
  #searches = 0
  /** An `error` event: `response.failed` often follows and says more, so it waits for that or the end. */
  #error: GatewayError | undefined

  constructor(passages = false) {
    this.#line = new PartLine(passages)
  }

  read(frame: Frame): GenerationEvent[] {
    if (this.#ended || frame.data === '' || frame.data === '[DONE]') return []
    let rawRequest: unknown
    try {
      rawRequest = JSON.parse(frame.data)
    } catch {
      return []
    }
    return isObject(rawRequest) ? this.take(rawRequest, frame.event) : []
  }

  /** One event, parsed. */
  take(event: Json, name?: string): GenerationEvent[] {
    if (this.#ended) return []
    this.#events = []
    this.#record(
      typeof event.type === 'string' ? event.type : (name ?? (failureIn(event) === undefined ? '' : 'error')),
      event,
    )
    if (!this.#ended && this.#started) this.#advance()
    return this.#events
  }

  end(): GenerationEvent[] {
    if (this.#ended) return []
    this.#events = []
    this.#fail(this.#error ?? cutStream())
    return this.#events
  }

  get finishing(): boolean {
    return this.#error !== undefined
  }

  #record(type: string, event: Json): void {
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
    this.#events.push({ type: 'start', id: textOf(response.id), model: textOf(response.model) })
  }

  /** Where an event belongs: its index, else the item it names, else the last item. */
  #indexOf(event: Json, item?: Json): number {
    if (typeof event.output_index === 'number') return event.output_index
    const id = textOf(event.item_id) === '' ? textOf(item?.id) : textOf(event.item_id)
    const last = this.#lastIndex
    return this.#indexById.get(id) ?? (item === undefined ? Math.max(0, last) : last + 1)
  }

  #item(event: Json, rawRequest: Json): OutputItem {
    this.#start({})
    const index = this.#indexOf(event, rawRequest)
    const known = this.#items.get(index)
    if (known !== undefined) return known
    const item = newItem(this.#line, rawRequest)
    this.#items.set(index, item)
    this.#lastIndex = Math.max(this.#lastIndex, index)
    if (textOf(rawRequest.id) !== '') this.#indexById.set(textOf(rawRequest.id), index)
    return item
  }

  #itemDone(index: number, rawRequest: Json): void {
    if (this.#done.has(index)) return
    const item = this.#item({ output_index: index }, rawRequest)
    if (item.type !== rawRequest.type) return
    this.#done.add(index)
    item.done(rawRequest)
    const action = objectOf(rawRequest.action).type
    if (rawRequest.type === 'web_search_call' && (action === undefined || action === 'search')) this.#searches++
  }

  #append(type: string, event: Json): void {
    const content = typeof event.content_index === 'number' ? event.content_index : 0
    const summary = typeof event.summary_index === 'number' ? event.summary_index : 0
    const delta = textOf(event.delta),
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
        return reasoning()?.complete('summary', summary, textOf(event.text))
      // The vendor-neutral document calls raw reasoning `response.reasoning`.
      case 'response.reasoning.delta':
      case 'response.reasoning_text.delta':
        return reasoning()?.append('raw', content, delta)
      case 'response.reasoning.done':
      case 'response.reasoning_text.done':
        return reasoning()?.complete('raw', content, textOf(event.text))
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        return this.#as(CallItem, event)?.append(delta)
      case 'response.function_call_arguments.done':
        return this.#as(CallItem, event)?.complete(event.arguments)
      case 'response.custom_tool_call_input.done':
        return this.#as(CallItem, event)?.complete(event.input)
    }
  }

  /**
   * The item of an event if it is of that kind. One that was never announced begins here, where enough is known to
   * begin it.
   */
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
      this.#tellUsage(response)
      return this.#fail(
        isObject(response.error)
          ? readFailure(response.error)
          : (this.#error ??
              readFailure({
                message:
                  type === 'response.failed'
                    ? 'The provider failed without saying why.'
                    : 'The provider cancelled the response.',
              })),
      )
    }
    const streamed = new Set(this.#items.keys())
    for (const [index, item] of objectsOf(response.output).entries())
      this.#itemDone(this.#finalIndex(index, item, streamed), item)
    this.#line.closeAll()
    this.#advance()
    this.#tellUsage(response)
    this.#ended = true
    this.#events.push({ type: 'finish', ...this.#reason(type, response) })
  }

  /** The final output lists items in order; one that was streamed is the same item under its index or its id. */
  #finalIndex(index: number, rawRequest: Json, streamed: ReadonlySet<number>): number {
    if (streamed.has(index) && this.#items.get(index)?.type === rawRequest.type) return index
    const known = this.#indexById.get(textOf(rawRequest.id))
    return known !== undefined && streamed.has(known) ? known : index
  }

  #reason(type: string, response: Json): { reason: FinishReason; raw: string } {
    if (type === 'response.incomplete') {
      const raw = textOf(objectOf(response.incomplete_details).reason)
      return { reason: readIncomplete(raw), raw: raw === '' ? 'incomplete' : raw }
    }
    const status = textOf(response.status) === '' ? 'completed' : textOf(response.status)
    if (status === 'queued' || status === 'in_progress') return { reason: 'other', raw: status }
    const items = [...this.#items.values()]
    if (items.some((item) => item instanceof CallItem)) return { reason: 'tool-calls', raw: status }
    return {
      reason: items.some((item) => item instanceof MessageItem && item.refused) ? 'refusal' : 'stop',
      raw: status,
    }
  }

  #tellUsage(response: Json): void {
    const usage = readUsage(response, this.#searches)
    if (usage !== undefined) this.#events.push({ type: 'usage', usage })
  }

  /** One by one, since an answer in one piece may have more of them than a call takes arguments. */
  #advance(): void {
    for (const event of this.#line.advance()) this.#events.push(event)
  }

  #fail(error: GatewayError): void {
    this.#ended = true
    if (this.#started) {
      // What is whole is told, what is not stays open, as the grammar allows before an error.
      this.#advance()
    }
    this.#events.push({ type: 'error', error })
  }
}

/** What `error` says, which some servers write as a bare text. */
const failureIn = ({ error }: Json): Json | undefined =>
  isObject(error) ? error : typeof error === 'string' && error !== '' ? { message: error } : undefined

/** The error object of an `error` event (flat or nested) or of a failed response. */
function readFailure(rawRequest: Json): GatewayError {
  return upstreamStreamError(textOf(rawRequest.message), {
    ...(typeof rawRequest.type === 'string' && rawRequest.type !== 'error' ? { type: rawRequest.type } : {}),
    ...(typeof rawRequest.code === 'string' || typeof rawRequest.code === 'number' ? { code: rawRequest.code } : {}),
    ...(typeof rawRequest.param === 'string' ? { param: rawRequest.param } : {}),
  })
}

export const reader = (): Reader => new ResponseReader()

/** A whole response -> the same events as its stream. */
export function readAnswer(body: unknown): GenerationEvent[] {
  if (!isObject(body))
    throw new GatewayError('upstream_error', 'The provider answered with something that is no response.')
  const failed = body.status === 'failed' || body.status === 'cancelled'
  const failure = failureIn(body)
  if (failure !== undefined && (failed || !Array.isArray(body.output))) throw readFailure(failure)
  if (failed) throw readFailure({ message: `The provider's response is ${body.status}.` })
  if (!Array.isArray(body.output))
    throw new GatewayError('upstream_error', 'The provider answered with a response that has no output.')
  return new ResponseReader().take({
    type: body.status === 'incomplete' ? 'response.incomplete' : 'response.completed',
    response: body,
  })
}

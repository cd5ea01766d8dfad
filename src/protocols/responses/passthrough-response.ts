import type { GatewayError } from '../../error.ts'
import { members, parsed, splice } from '../../json/text.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import type { TranslationContext, Passthrough } from '../protocol.ts'
import { scrub } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { responseObject } from './response-object.ts'
import { arrayOf, failureCode, failureMessage, stringOf, writeUsage, type Json } from './shapes.ts'

const LIFECYCLE = /^response\.(created|queued|in_progress|completed|incomplete|failed|cancelled)$/
const KEPT = /^(completed|incomplete)$/

/**
 * The provider's own frames with our id and model on the response inside them. Works on the text: nothing but the
 * exchanged values
 * changes. Items keep one id for their whole life, since some servers give them a new one in every frame and SDKs
 * refuse that.
 */
export class ResponsePassthrough implements Passthrough {
  readonly #context: TranslationContext
  readonly #itemIds = new Map<number, string>()
  /** Finished items by index, as texts. */
  readonly #done = new Map<number, string>()
  #response: string | undefined
  #lastId: string | undefined
  #last: Frame | undefined
  #erred = false
  #ended = false

  constructor(context: TranslationContext) {
    this.#context = context
  }

  frame(frame: Frame): Frame | undefined {
    if (frame.data === '[DONE]') return undefined
    this.#last = frame
    // Most frames are deltas of the item spoken of last: nothing in them is ours to change.
    if (
      this.#lastId !== undefined &&
      frame.event !== undefined &&
      isDelta(frame.event) &&
      frame.data.includes(this.#lastId)
    )
      return frame
    const at = places(frame.data)
    const type = at.get('type') === undefined ? (frame.event ?? '') : stringOf(valueAt(frame.data, at.get('type')))
    if (type === 'error') {
      this.#erred = true
      return { ...frame, data: withoutSecrets(frame.data) }
    }
    if (LIFECYCLE.test(type) && at.has('response')) return this.#lifecycle(frame, at.get('response')!)
    return this.#itemFrame(frame, type, at)
  }

  #lifecycle(frame: Frame, span: Span): Frame {
    const response = withoutSecrets(this.#sameIds(this.#labelled(frame.data.slice(...span))))
    this.#response = response
    this.#follow(frame.data.slice(...span), response)
    const status = valueAt(response, places(response).get('status'))
    if (status === 'failed' || status === 'cancelled') this.#ended = true
    if (typeof status === 'string' && KEPT.test(status)) this.#keep(response)
    return { ...frame, data: frame.data.slice(0, span[0]) + response + frame.data.slice(span[1]) }
  }

  #follow(theirs: string, ours: string): void {
    const { follow } = this.#context
    if (follow === undefined) return
    const [said, told] = [valueAt(theirs, [0, theirs.length]), valueAt(ours, [0, ours.length])]
    if (isObject(said) && isObject(told)) follow(said, told)
  }

  #labelled(response: string): string {
    const {
      responseIdentity,
      rawRequest: { body },
    } = this.#context
    const changes: Record<string, string | undefined> = {
      id: JSON.stringify(responseIdentity.id),
      model: JSON.stringify(responseIdentity.model),
    }
    const present = places(response)
    if (present.has('store')) changes.store = JSON.stringify(body.store ?? true)
    if (present.has('previous_response_id') || typeof body.previous_response_id === 'string')
      changes.previous_response_id = JSON.stringify(body.previous_response_id ?? null)
    return splice(response, changes)
  }

  /** The final output under the ids by which its items were streamed. */
  #sameIds(response: string): string {
    if (this.#itemIds.size === 0) return response
    const output = places(response).get('output')
    if (output === undefined) return response
    let text = response.slice(...output)
    for (const [index, item] of arrayOf(parsed(text)).entries()) {
      const known = this.#itemIds.get(index)
      if (isObject(item) && typeof item.id === 'string' && known !== undefined && known !== item.id)
        text = text.replace(JSON.stringify(item.id), () => JSON.stringify(known))
    }
    return response.slice(0, output[0]) + text + response.slice(output[1])
  }

  #itemFrame(frame: Frame, type: string, at: Places): Frame {
    const index = valueAt(frame.data, at.get('output_index'))
    if (typeof index !== 'number') return frame
    const item = at.get('item'),
      named = at.get('item_id')
    let data = frame.data
    if (item !== undefined) {
      const text = data.slice(...item)
      const own = this.#idOf(index, valueAt(text, places(text).get('id')))
      const same = own === undefined ? text : splice(text, { id: JSON.stringify(own) })
      if (type === 'response.output_item.done') this.#done.set(index, same)
      if (same !== text) data = data.slice(0, item[0]) + same + data.slice(item[1])
    } else if (named !== undefined) {
      const own = this.#idOf(index, valueAt(data, named))
      if (own !== undefined) data = data.slice(0, named[0]) + JSON.stringify(own) + data.slice(named[1])
    }
    return data === frame.data ? frame : { ...frame, data }
  }

  /** The id by which an item was first known, where this one differs from it. */
  #idOf(index: number, id: unknown): string | undefined {
    if (typeof id !== 'string' || id === '') return undefined
    const known = this.#itemIds.get(index) ?? id
    this.#itemIds.set(index, known)
    this.#lastId = JSON.stringify(known)
    return known === id ? undefined : known
  }

  /** What is kept has its output, also where the provider left that out of its last frame. */
  #keep(text: string): void {
    if (this.#ended) return
    this.#ended = true
    if (this.#context.keep === undefined) return
    const response = parsed(text)
    if (!isObject(response)) return
    this.#context.keep(arrayOf(response.output).length > 0 ? response : { ...response, output: this.#finished() })
  }

  #finished(): unknown[] {
    return [...this.#done]
      .sort(([a], [b]) => a - b)
      .map(([, text]) => parsed(text))
      .filter(isObject)
  }

  fail(error: GatewayError): Frame[] {
    if (this.#ended) return []
    this.#ended = true
    const frames: Frame[] = []
    let sequence = this.#nextSequence()
    const emit = (type: string, fields: Json): void =>
      void frames.push({ event: type, data: JSON.stringify({ type, sequence_number: sequence++, ...fields }) })
    const seen = parsed(this.#response ?? '')
    const response: Json = isObject(seen) ? seen : responseObject(this.#context)
    if (this.#response === undefined)
      for (const type of ['response.created', 'response.in_progress']) emit(type, { response })
    const code = failureCode(error),
      message = failureMessage(error)
    if (!this.#erred) emit('error', { code, message, param: error.param ?? null })
    emit('response.failed', {
      response: { ...response, status: 'failed', error: { code, message }, output: this.#finished() },
    })
    return frames
  }

  #nextSequence(): number {
    if (this.#last === undefined) return 0
    const last = valueAt(this.#last.data, places(this.#last.data).get('sequence_number'))
    return typeof last === 'number' ? last + 1 : 0
  }

  /** The response in the terminal event says the usage. */
  counted(frame: Frame, usage: Usage): Frame {
    const at = places(frame.data).get('response')
    return at === undefined
      ? frame
      : {
          ...frame,
          data: frame.data.slice(0, at[0]) + withUsage(frame.data.slice(...at), usage) + frame.data.slice(at[1]),
        }
  }

  answer(text: string, counted?: Usage): string {
    const labelled = this.#labelled(text)
    this.#follow(text, labelled)
    const status = valueAt(labelled, places(labelled).get('status'))
    // What its provider still works on has no usage yet.
    if (status !== undefined && !(typeof status === 'string' && KEPT.test(status))) return labelled
    const metered = counted === undefined ? labelled : withUsage(labelled, counted)
    this.#keep(metered)
    return metered
  }
}

const withUsage = (response: string, usage: Usage): string =>
  splice(response, { usage: JSON.stringify(writeUsage(usage)) })

const isDelta = (event: string): boolean => event.endsWith('.delta')

type Span = [start: number, end: number]
type Places = Map<string, Span>

/** Where the members of an object stand; nothing for a text that is none. */
const places = (text: string): Places => new Map(members(text).map(({ key, start, end }) => [key, [start, end]]))

/** A failure in the provider's words, flat or in `error`; credentials in its message are Sluice's own. */
function withoutSecrets(text: string): string {
  const at = places(text)
  const message = valueAt(text, at.get('message')),
    error = valueAt(text, at.get('error'))
  const changes: Record<string, string> = {}
  if (typeof message === 'string') changes.message = JSON.stringify(scrub(message))
  if (isObject(error) && typeof error.message === 'string')
    changes.error = JSON.stringify({ ...error, message: scrub(error.message) })
  return Object.keys(changes).length === 0 ? text : splice(text, changes)
}

/** A member's value, undefined for what is absent or no JSON. */
function valueAt(text: string, span: Span | undefined): unknown {
  return span === undefined ? undefined : parsed(text.slice(...span))
}

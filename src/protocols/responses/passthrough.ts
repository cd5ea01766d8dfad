import type { GatewayError } from '../../error.ts'
import { issuedBy } from '../../generation/replay.ts'
import type { Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { insertAt, replaceAt, splice } from '../../json/edit.ts'
import { isObject, tryParse, stringOf, arrayOf } from '../../json/parse.ts'
import { members } from '../../json/scan.ts'
import { scrub } from '../../log/secrets.ts'
import type { EarlyEnd, Passthrough, Target, ResponseContext, ForwardContext } from '../protocol.ts'
import { removeRoutingMembers } from '../routing-members.ts'
import type { LossReport } from '../translation.ts'
import { checkDepth } from '../upstream-error.ts'
import { OpenItems } from './open-items.ts'
import { responseObject } from './response-object.ts'
import { failureCode, failureMessage, writeUsage, type Json } from './shapes.ts'
import { missingItems, withoutUnusable } from './forwarded-reasoning.ts'
import { mayReason } from './write-request.ts'

/**
 * The client's own body for a provider that speaks this protocol. Sluice stores responses itself, so that they are the
 * same on every provider and no tenant reads another's under the shared credential: earlier turns are in `input`
 * already, the provider stores nothing (unless it has to, to work in the background), and its reasoning comes back
 * encrypted so that a later turn can replay it.
 */
export function forward(
  { rawRequest, restoredReasoning, request }: ForwardContext,
  target: Target,
  report: LossReport,
): string {
  const { body } = rawRequest
  const added = Array.isArray(body.input) ? missingItems(body.input, issuedBy(restoredReasoning, target)) : []
  const text =
    added.length === 0
      ? rawRequest.text
      : replaceAt(rawRequest.text, [
          {
            path: ['input'],
            value: (input) =>
              insertAt(
                input,
                added.map(({ before, item }) => ({ before, value: JSON.stringify(item) })),
              ),
          },
        ])
  const changes: Record<string, string | undefined> = { model: JSON.stringify(target.model) }
  removeRoutingMembers(changes, body, target.quirks)
  if (Object.hasOwn(body, 'previous_response_id')) changes.previous_response_id = undefined
  // A compaction is never stored, and its reasoning is in no item of its own.
  if (request?.compaction !== true) Object.assign(changes, stateless(body, target))
  const input = withoutUnusable(rawRequest, added, target, report)
  if (input !== undefined) changes.input = JSON.stringify(input)
  return splice(text, changes)
}

/** Has the provider store nothing, and encrypt the reasoning that it would have stored. */
function stateless(body: Json, target: Target): Record<string, string> {
  const include = withEncryptedReasoning(body, target)
  return {
    ...(body.background === true ? {} : { store: 'false' }),
    ...(include === undefined ? {} : { include: JSON.stringify(include) }),
  }
}

const ENCRYPTED_REASONING = 'reasoning.encrypted_content'

/** `include` with encrypted reasoning added; undefined where it stays as it is. */
function withEncryptedReasoning(body: Json, { capabilities }: Target): unknown[] | undefined {
  // Anything but an array is the provider's to refuse.
  if (!Array.isArray(body.include ?? [])) return undefined
  const include = arrayOf(body.include)
  const reasoning = isObject(body.reasoning) ? body.reasoning : undefined
  if (
    body.store === false ||
    include.includes(ENCRYPTED_REASONING) ||
    !mayReason(reasoning !== undefined, reasoning?.effort, capabilities)
  )
    return undefined
  return [...include, ENCRYPTED_REASONING]
}

/**
 * The provider's own frames with our id and model in the response inside them. The text is edited, so nothing but
 * these values changes. Items keep their first id, since some servers give them a new one in every frame and SDKs
 * refuse that.
 */
export class ResponsesPassthrough implements Passthrough {
  readonly #context: ResponseContext
  /** First id of each item, by its index in the output. */
  readonly #itemIds = new Map<number, string>()
  /** Texts of finished items, by their index. */
  readonly #finishedItems = new Map<number, string>()
  readonly #openItems = new OpenItems()
  /** The response as the client has it from the last lifecycle event. */
  #response: string | undefined
  /** Id of the item of the frame before, as JSON. */
  #lastId: string | undefined
  #lastFrame: Frame | undefined
  #hasError = false
  #ended = false

  constructor(context: ResponseContext) {
    this.#context = context
  }

  frame(frame: Frame): Frame | undefined {
    if (frame.data === '[DONE]') return undefined
    this.#lastFrame = frame
    // Most frames are deltas of the same item as the frame before: nothing in them has to change.
    const { event = '' } = frame
    if (this.#lastId !== undefined && event.endsWith('.delta') && frame.data.includes(this.#lastId)) return frame
    const spans = spansOf(frame.data)
    const type = spans.has('type') ? stringOf(valueAt(frame.data, spans.get('type'))) : event
    if (type === 'error') {
      this.#hasError = true
      return { ...frame, data: withoutSecrets(frame.data) }
    }
    const response = LIFECYCLE.test(type) ? spans.get('response') : undefined
    return response === undefined ? this.#itemFrame(frame, type, spans) : this.#lifecycleFrame(frame, response)
  }

  #lifecycleFrame(frame: Frame, span: Span): Frame {
    const theirs = frame.data.slice(...span)
    checkDepth(theirs)
    const ours = withoutSecrets(this.#withFirstIds(this.#withOurIdentity(theirs)))
    this.#response = ours
    this.#follow(theirs, ours)
    const status = valueAt(ours, spansOf(ours).get('status'))
    if (status === 'failed' || status === 'cancelled') this.#ended = true
    if (isFinal(status)) this.#keep(ours)
    return { ...frame, data: replaced(frame.data, span, ours) }
  }

  #follow(theirs: string, ours: string): void {
    const { follow } = this.#context
    if (follow === undefined) return
    const [before, after] = [tryParse(theirs), tryParse(ours)]
    if (isObject(before) && isObject(after)) follow(before, after)
  }

  #withOurIdentity(response: string): string {
    const {
      request: { compaction },
      responseIdentity: { id, model },
      rawRequest: { body },
    } = this.#context
    if (compaction === true) return splice(response, { id: JSON.stringify(id) })
    const changes: Record<string, string | undefined> = { id: JSON.stringify(id), model: JSON.stringify(model) }
    const spans = spansOf(response)
    if (spans.has('store')) changes.store = JSON.stringify(body.store ?? true)
    if (spans.has('previous_response_id') || typeof body.previous_response_id === 'string')
      changes.previous_response_id = JSON.stringify(body.previous_response_id ?? null)
    return splice(response, changes)
  }

  /** The final output with the ids under which its items were streamed. */
  #withFirstIds(response: string): string {
    if (this.#itemIds.size === 0) return response
    const span = spansOf(response).get('output')
    if (span === undefined) return response
    let output = response.slice(...span)
    for (const [index, item] of arrayOf(tryParse(output)).entries()) {
      const known = this.#itemIds.get(index)
      if (isObject(item) && typeof item.id === 'string' && known !== undefined && known !== item.id)
        output = output.replace(JSON.stringify(item.id), () => JSON.stringify(known))
    }
    return replaced(response, span, output)
  }

  #itemFrame(frame: Frame, type: string, spans: Spans): Frame {
    const { data } = frame
    const index = valueAt(data, spans.get('output_index'))
    if (typeof index !== 'number') return frame
    const item = spans.get('item'),
      itemId = spans.get('item_id')
    if (item !== undefined) {
      const text = data.slice(...item)
      const firstId = this.#otherFirstId(index, valueAt(text, spansOf(text).get('id')))
      const renamed = firstId === undefined ? text : splice(text, { id: JSON.stringify(firstId) })
      if (type === 'response.output_item.done') {
        checkDepth(renamed)
        this.#finishedItems.set(index, renamed)
      }
      this.#openItems.record(type, index, renamed)
      return renamed === text ? frame : { ...frame, data: replaced(data, item, renamed) }
    }
    const part = spans.get('part')
    if (part !== undefined) this.#openItems.record(type, index, data.slice(...part))
    const firstId = itemId === undefined ? undefined : this.#otherFirstId(index, valueAt(data, itemId))
    return firstId === undefined ? frame : { ...frame, data: replaced(data, itemId!, JSON.stringify(firstId)) }
  }

  /** The first id of an item, if this one differs from it. */
  #otherFirstId(index: number, id: unknown): string | undefined {
    if (typeof id !== 'string' || id === '') return undefined
    const first = this.#itemIds.get(index) ?? id
    this.#itemIds.set(index, first)
    this.#lastId = JSON.stringify(first)
    return first === id ? undefined : first
  }

  /** A stored response has its output, also where the provider omits it in its last frame. */
  #keep(text: string): void {
    if (this.#ended) return
    this.#ended = true
    if (this.#context.keep === undefined) return
    const response = tryParse(text)
    if (!isObject(response)) return
    this.#context.keep(arrayOf(response.output).length > 0 ? response : { ...response, output: this.#finished() })
  }

  #finished(): unknown[] {
    return [...this.#finishedItems]
      .sort(([a], [b]) => a - b)
      .map(([, text]) => tryParse(text))
      .filter(isObject)
  }

  fail(error: GatewayError): Frame[] {
    if (this.#ended) return []
    this.#ended = true
    const { response, emit, frames } = this.#continued()
    const code = failureCode(error),
      message = failureMessage(error)
    if (!this.#hasError) emit('error', { code, message, param: error.param ?? null })
    emit('response.failed', {
      response: { ...response, status: 'failed', error: { code, message }, output: this.#finished() },
    })
    return frames
  }

  append(text: string): void {
    this.#openItems.append(text)
  }

  endEarly({ usage, report }: EarlyEnd): Frame[] {
    if (this.#ended) return []
    const { response, emit, frames } = this.#continued()
    for (const [index, item] of this.#openItems.end(emit)) this.#finishedItems.set(index, JSON.stringify(item))
    const ended = {
      ...response,
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: this.#finished(),
      usage: writeUsage(usage),
    }
    emit('response.incomplete', { response: { ...ended, ...report } })
    this.#keep(JSON.stringify(ended))
    return frames
  }

  /** The response as the client has it, and the frames that go on after those that were passed on. */
  #continued(): { response: Json; emit: (type: string, fields: Json) => void; frames: Frame[] } {
    const frames: Frame[] = []
    let sequence = this.#nextSequenceNumber()
    const emit = (type: string, fields: Json): void =>
      void frames.push({ event: type, data: JSON.stringify({ type, sequence_number: sequence++, ...fields }) })
    const last = tryParse(this.#response ?? '')
    const response: Json = isObject(last) ? last : responseObject(this.#context)
    if (this.#response === undefined)
      for (const type of ['response.created', 'response.in_progress']) emit(type, { response })
    return { response, emit, frames }
  }

  #nextSequenceNumber(): number {
    const data = this.#lastFrame?.data ?? ''
    const last = valueAt(data, spansOf(data).get('sequence_number'))
    return typeof last === 'number' ? last + 1 : 0
  }

  /** The usage is in the response of the terminal event. */
  counted(frame: Frame, usage: Usage): Frame {
    const span = spansOf(frame.data).get('response')
    if (span === undefined) return frame
    return { ...frame, data: replaced(frame.data, span, withUsage(frame.data.slice(...span), usage)) }
  }

  answer(text: string, counted?: Usage): string {
    const ours = this.#withOurIdentity(text)
    this.#follow(text, ours)
    const status = valueAt(ours, spansOf(ours).get('status'))
    // A response on which the provider still works has no usage yet.
    if (status !== undefined && !isFinal(status)) return withoutSecrets(ours)
    const metered = counted === undefined ? ours : withUsage(ours, counted)
    this.#keep(metered)
    return metered
  }
}

const LIFECYCLE = /^response\.(created|queued|in_progress|completed|incomplete|failed|cancelled)$/

const isFinal = (status: unknown): boolean => status === 'completed' || status === 'incomplete'

const withUsage = (response: string, usage: Usage): string =>
  splice(response, { usage: JSON.stringify(writeUsage(usage)) })

type Span = [start: number, end: number]
type Spans = Map<string, Span>

/** Where the values of an object's members are in its JSON text; empty for a text that is no object. */
const spansOf = (text: string): Spans => new Map(members(text).map(({ key, start, end }) => [key, [start, end]]))

const replaced = (text: string, [start, end]: Span, value: string): string =>
  text.slice(0, start) + value + text.slice(end)

/** An error of the provider, flat or in `error`, without credentials: those in its message are Sluice's own. */
function withoutSecrets(text: string): string {
  const spans = spansOf(text)
  const message = valueAt(text, spans.get('message')),
    error = valueAt(text, spans.get('error'))
  const changes: Record<string, string> = {}
  if (typeof message === 'string') changes.message = JSON.stringify(scrub(message))
  if (isObject(error) && typeof error.message === 'string')
    changes.error = JSON.stringify({ ...error, message: scrub(error.message) })
  return Object.keys(changes).length === 0 ? text : splice(text, changes)
}

/** The value of a member; undefined where it is absent or no JSON. */
const valueAt = (text: string, span: Span | undefined): unknown =>
  span === undefined ? undefined : tryParse(text.slice(...span))

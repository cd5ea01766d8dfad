import type { GatewayError } from '../error.ts'
import type { Citation, HostedStep, Part, TokenLogprob, ProtocolName, TextPart } from './request.ts'
import type { ServiceClass } from './service-class.ts'
import { noUsage, type Usage } from './usage.ts'

/**
 * A response as a sequence of events. Grammar: `start (part-start part-delta* part-end | usage)* (finish | error)`;
 * `usage` may also occur inside a part. Parts never overlap and are numbered from 0 without gaps, so that no writer has
 * to guess where a part ends.
 */
export type GenerationEvent =
  | { type: 'start'; id: string; model: string }
  | { type: 'part-start'; part: number; head: PartHead }
  /** `text`: appended to the part (text, JSON arguments, base64 of media). */
  | { type: 'part-delta'; part: number; text: string; logprobs?: TokenLogprob[] }
  /** `signature`: the provider's own value, without an envelope. */
  | { type: 'part-end'; part: number; signature?: string }
  /** Running totals, never increments: a bucket replaces its earlier value, an absent one keeps it. */
  /** `service`: the class in which the provider served the response; `imageModel`: the one of its image tool. */
  /** `interim`: more output may follow, which is not counted. */
  | {
      type: 'usage'
      usage: Partial<Usage>
      service?: ServiceClass | undefined
      imageModel?: string | undefined
      interim?: true
    }
  /**
   * `raw`: the provider's own finish reason. `stopSequence`: the one that ended the response. `details`: the provider's
   * own object about the reason (Anthropic's `stop_details`). `filters`: its ratings of prompt and response.
   */
  | ({ type: 'finish' } & Finish)
  | { type: 'error'; error: GatewayError }

/** The reasons for which responses end, in the terms of no protocol. */
export const FINISH_REASONS = [
  'stop',
  'stop-sequence',
  'length',
  'tool-calls',
  'content-filter',
  'refusal',
  // The provider paused a long turn; the client may send it back to continue (Anthropic's `pause_turn`).
  'pause',
  // A reason that only this provider has; it is in `raw`.
  'other',
] as const
export type FinishReason = (typeof FINISH_REASONS)[number]

/** A provider's reason as the calls decide: a tool turn is one that calls a tool of the client (`called`). */
export function withToolCalls(reason: FinishReason, called: boolean): FinishReason {
  if (called && (reason === 'stop' || reason === 'other')) return 'tool-calls'
  return reason === 'tool-calls' && !called ? 'stop' : reason
}

export type Finish = {
  reason: FinishReason
  raw: string
  stopSequence?: string
  details?: unknown
  filters?: ContentFilter[]
}

/** A provider's rating of the prompt or of the response, by category. `raw`: as the provider wrote it. */
export type ContentFilter = {
  source: 'prompt' | 'completion'
  blocked: boolean
  results: Record<string, { filtered: boolean; severity: string }>
  raw: unknown
}

export type PartHead =
  | { type: 'text' }
  | { type: 'reasoning'; form?: 'raw' | 'summary'; redacted?: boolean; id?: string }
  | { type: 'refusal' }
  | { type: 'tool-call'; id: string; name: string; form: 'function' | 'custom' }
  /** Deltas are base64. */
  | { type: 'image' | 'audio'; mediaType: string }
  /** Belongs to the last text part before it; has no deltas. */
  | { type: 'citation'; citation: Citation }
  /** An element that only the provider's own protocol knows; has no deltas. */
  | { type: 'native'; protocol: ProtocolName; kind: string; value: unknown; steps?: HostedStep[] }

/** The events of a response with this usage right before the finish. */
export const withUsage = (events: readonly GenerationEvent[], usage: Usage | undefined): GenerationEvent[] =>
  events.flatMap((event) =>
    event.type === 'finish' && usage !== undefined ? [{ type: 'usage', usage }, event] : [event],
  )

/** A whole response: the sum of its events. */
export type GenerationResponse = {
  /** The provider's id and model name. */
  id: string
  model: string
  parts: Part[]
  usage: Usage
  /** The provider reported usage. */
  metered: boolean
  /** The class of service that the provider reported. */
  service?: ServiceClass
  finish: Finish
}

/**
 * Adds events up to a whole response. Throws the error of an error event. Without a finish event `finished` stays false
 * and the response is incomplete.
 */
export class Fold {
  readonly answer: GenerationResponse = {
    id: '',
    model: '',
    parts: [],
    usage: noUsage(),
    metered: false,
    finish: { reason: 'other', raw: '' },
  }
  finished = false
  #open: { head: PartHead; text: string; logprobs: TokenLogprob[] } | undefined
  /** The text that citations belong to. */
  #lastText: TextPart | undefined

  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'start':
        this.answer.id = event.id
        this.answer.model = event.model
        return
      case 'part-start':
        this.#open = { head: event.head, text: '', logprobs: [] }
        return
      case 'part-delta':
        return this.#append(event.text, event.logprobs)
      case 'part-end':
        return this.#close(event.signature)
      case 'usage':
        Object.assign(this.answer.usage, event.usage)
        if (event.service !== undefined) this.answer.service = { ...this.answer.service, ...event.service }
        this.answer.metered = true
        return
      case 'finish': {
        const { type: _, ...finish } = event
        this.finished = true
        this.answer.finish = finish
        return
      }
      case 'error':
        throw event.error
    }
  }

  #append(text: string, logprobs: TokenLogprob[] | undefined): void {
    if (this.#open === undefined) throw new Error('part-delta outside a part')
    this.#open.text += text
    for (const logprob of logprobs ?? []) this.#open.logprobs.push(logprob)
  }

  #close(signature: string | undefined): void {
    if (this.#open === undefined) throw new Error('part-end outside a part')
    const { head, text, logprobs } = this.#open
    this.#open = undefined
    const signed = signature === undefined ? {} : { signature: { data: signature } }
    switch (head.type) {
      case 'text':
        this.#lastText = { type: 'text', text, ...signed, ...(logprobs.length > 0 ? { logprobs } : {}) }
        this.answer.parts.push(this.#lastText)
        return
      case 'reasoning':
        this.answer.parts.push({ ...head, text, ...signed })
        return
      case 'refusal':
        this.answer.parts.push({ type: 'refusal', text })
        return
      case 'tool-call':
        this.answer.parts.push({ ...head, arguments: text, ...signed })
        return
      case 'image':
      case 'audio':
        this.answer.parts.push({
          type: head.type,
          source: { type: 'data', mediaType: head.mediaType, data: text },
          ...signed,
        })
        return
      case 'citation':
        return this.#addCitation(head.citation)
      case 'native':
        this.answer.parts.push(head)
        return
    }
  }

  #addCitation(citation: Citation): void {
    if (this.#lastText !== undefined) (this.#lastText.citations ??= []).push(citation)
  }
}

export const fold = (events: Iterable<GenerationEvent>): GenerationResponse => {
  const total = new Fold()
  for (const event of events) total.add(event)
  return total.answer
}

/**
 * The inverse of `fold`: a whole response as events, so that metering, translation and errors have one form. Signatures
 * become the provider's own values again.
 */
export function* unfold(answer: GenerationResponse): Generator<GenerationEvent> {
  yield { type: 'start', id: answer.id, model: answer.model }
  let number = 0
  const wholePart = function* (
    head: PartHead,
    text: string,
    signature?: string,
    logprobs?: TokenLogprob[],
  ): Generator<GenerationEvent> {
    const part = number++
    yield { type: 'part-start', part, head }
    if (text !== '' || logprobs !== undefined)
      yield { type: 'part-delta', part, text, ...(logprobs === undefined ? {} : { logprobs }) }
    yield { type: 'part-end', part, ...(signature === undefined ? {} : { signature }) }
  }
  for (const part of answer.parts) {
    switch (part.type) {
      case 'text':
        yield* wholePart({ type: 'text' }, part.text, part.signature?.data, part.logprobs)
        for (const citation of part.citations ?? []) yield* wholePart({ type: 'citation', citation }, '')
        break
      case 'reasoning': {
        const { text, signature, ...head } = part
        yield* wholePart(head, text, signature?.data)
        break
      }
      case 'refusal':
        yield* wholePart({ type: 'refusal' }, part.text)
        break
      case 'tool-call':
        yield* wholePart(
          { type: 'tool-call', id: part.id, name: part.name, form: part.form },
          part.arguments,
          part.signature?.data,
        )
        break
      case 'image':
      case 'audio':
        if (part.source.type === 'data')
          yield* wholePart(
            { type: part.type, mediaType: part.source.mediaType },
            part.source.data,
            part.signature?.data,
          )
        break
      case 'native':
        yield* wholePart(part, '')
        break
      default:
        break
    }
  }
  if (answer.metered) yield { type: 'usage', usage: answer.usage, service: answer.service }
  yield { type: 'finish', ...answer.finish }
}

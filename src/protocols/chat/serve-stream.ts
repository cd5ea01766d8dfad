import type { GatewayError } from '../../error.ts'
import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { errorObject } from '../openai-error.ts'
import { loseForeign, loseLifetimes, loseOfStop, reportOf } from '../losses.ts'
import type { Exchange, Label, Writer } from '../protocol.ts'
import {
  audioHead,
  detailOfPart,
  detailOfSignature,
  detailOfText,
  loseCitation,
  loseOfAudio,
  writeCall,
  writeImage,
} from './serve.ts'
import { Offsets } from '../offsets.ts'
import {
  imageId,
  TEXT_ID,
  writeAnnotation,
  writeFinishReason,
  writeLogprobs,
  writeUsage,
  type Json,
  type Place,
} from './shapes.ts'

/**
 * Events -> `chat.completion.chunk` frames. Only a generated image waits for its end, because its URL stands in one
 * piece.
 */
export class ChunkWriter implements Writer {
  readonly #exchange: Exchange
  readonly #label: Label
  readonly #includeUsage: boolean
  readonly #hidesReasoning: boolean
  readonly #usage: Usage = noUsage()
  #metered = false
  #open: PartHead = { type: 'text' }
  /** Whether the open part has grown. */
  #grown = false
  #image = ''
  #images = 0
  #calls = 0
  #details = 0
  /**
   * The content, in which citations count, and where the last text part of it begins. It is measured when something
   * cites it.
   */
  #length = 0
  #base = 0
  #unmeasured = ''
  readonly #content = new Offsets('', 'code points')
  #refused = false
  #ended = false

  constructor(exchange: Exchange) {
    const { label, request } = exchange
    this.#exchange = exchange
    this.#label = label
    this.#includeUsage = request.includeUsage === true
    this.#hidesReasoning = request.reasoning?.visible === false
  }

  write(event: GenerationEvent): Frame[] {
    if (this.#ended) return []
    switch (event.type) {
      case 'start':
        return [this.#delta({ role: 'assistant', content: '' })]
      case 'part-start':
        return this.#begin(event.head)
      case 'part-delta':
        return this.#grow(event.text, event.logprobs)
      case 'part-end':
        return this.#close(event.signature)
      case 'usage':
        this.#metered = true
        Object.assign(this.#usage, event.usage)
        return []
      case 'finish':
        return this.#finish(event)
      case 'error':
        return this.#fail(event.error)
    }
  }

  #begin(head: PartHead): Frame[] {
    this.#open = head
    this.#grown = false
    switch (head.type) {
      case 'text':
        this.#base = this.#length
        return []
      case 'refusal':
        this.#refused = true
        return []
      case 'tool-call':
        return [this.#callDelta({ ...this.#firstOfCall(head) })]
      case 'image':
        this.#image = ''
        return []
      case 'audio':
        loseOfAudio(this.#exchange, head.mediaType)
        return [this.#delta({ audio: audioHead(this.#label) })]
      case 'citation':
        return this.#annotate(head)
      case 'foreign':
        loseForeign(this.#exchange, head.kind)
        return []
      default:
        return []
    }
  }

  /** Id and name stand in the first delta only: the official SDK takes a repeated one for another call. */
  #firstOfCall(head: PartHead & { type: 'tool-call' }): Json {
    const call = writeCall(head.id, head.name, head.form, '')
    return head.form === 'custom' ? call : { ...call, function: { name: head.name, arguments: '' } }
  }

  #annotate(head: PartHead & { type: 'citation' }): Frame[] {
    loseCitation(this.#exchange, head.citation)
    this.#content.grow(this.#unmeasured)
    this.#unmeasured = ''
    const annotation = writeAnnotation(head.citation, this.#content, this.#base)
    return annotation === undefined ? [] : [this.#delta({ annotations: [annotation] })]
  }

  #grow(text: string, logprobs: TokenLogprob[] | undefined): Frame[] {
    const head = this.#open
    this.#grown ||= text !== ''
    switch (head.type) {
      case 'text':
        this.#length += text.length
        this.#unmeasured += text
        return [
          this.#chunk({
            choices: [
              {
                index: 0,
                delta: { content: text },
                ...(logprobs === undefined ? {} : { logprobs: writeLogprobs(logprobs) }),
                finish_reason: null,
              },
            ],
          }),
        ]
      case 'reasoning':
        return this.#hidesReasoning
          ? []
          : [this.#delta({ reasoning: text, reasoning_details: [detailOfText(head.form, text, this.#details)] })]
      case 'refusal':
        return [this.#delta({ refusal: text })]
      case 'tool-call':
        return [
          this.#callDelta(head.form === 'custom' ? { custom: { input: text } } : { function: { arguments: text } }),
        ]
      case 'image':
        this.#image += text
        return []
      case 'audio':
        return [this.#delta({ audio: { data: text } })]
      default:
        return []
    }
  }

  #close(signature: string | undefined): Frame[] {
    const head = this.#open
    switch (head.type) {
      case 'text':
        return this.#sign(TEXT_ID, signature, { text: this.#base, calls: this.#calls, end: this.#length })
      case 'tool-call':
        return this.#closeCall(head, signature)
      case 'reasoning':
        return this.#closeReasoning(head, signature)
      case 'image':
        return [
          this.#delta({ images: [{ index: this.#images, ...writeImage(head.mediaType, this.#image) }] }),
          ...this.#sign(imageId(this.#images++), signature),
        ]
      default:
        return []
    }
  }

  #closeCall(head: PartHead & { type: 'tool-call' }, signature: string | undefined): Frame[] {
    const frames = this.#grown || head.form === 'custom' ? [] : [this.#callDelta({ function: { arguments: '{}' } })]
    this.#calls++
    return [...frames, ...this.#sign(head.id, signature)]
  }

  #sign(id: string, signature: string | undefined, place?: Place): Frame[] {
    return signature === undefined
      ? []
      : [this.#delta({ reasoning_details: [detailOfPart(id, signature, this.#label.maker, this.#details++, place)] })]
  }

  #closeReasoning(head: PartHead & { type: 'reasoning' }, signature: string | undefined): Frame[] {
    if (signature === undefined) {
      if (this.#grown) this.#details++
      return []
    }
    // Encrypted data is an entry of its own: clients join entries of one index into one.
    if (this.#grown && (head.redacted === true || head.form === 'summary')) this.#details++
    const place = { text: this.#length, calls: this.#calls }
    return [
      this.#delta({
        reasoning_details: [detailOfSignature(head, signature, this.#label.maker, this.#details++, place)],
      }),
    ]
  }

  #finish(event: GenerationEvent & { type: 'finish' }): Frame[] {
    this.#ended = true
    const choice = {
      index: 0,
      delta: {},
      finish_reason: writeFinishReason(event.reason, this.#refused),
      native_finish_reason: event.raw,
    }
    loseOfStop(this.#exchange, event)
    loseLifetimes(this.#exchange, this.#usage)
    const report = reportOf(this.#exchange)
    const last =
      this.#includeUsage && this.#metered
        ? [this.#chunk({ choices: [choice] }), usageFrame(this.#label, this.#usage, report)]
        : [this.#chunk({ choices: [choice], ...report })]
    return [...last, { data: '[DONE]' }]
  }

  /** No `[DONE]` follows: an answer that broke must not look whole. */
  #fail(error: GatewayError): Frame[] {
    this.#ended = true
    return errorFrames(this.#label, error)
  }

  #callDelta(call: Json): Frame {
    return this.#delta({ tool_calls: [{ index: this.#calls, ...call }] })
  }

  #delta(delta: Json): Frame {
    return this.#chunk({ choices: [{ index: 0, delta, finish_reason: null }] })
  }

  #chunk(fields: Json): Frame {
    return {
      data: JSON.stringify({ ...chunkHead(this.#label), ...(this.#includeUsage ? { usage: null } : {}), ...fields }),
    }
  }
}

/** The chunk before the last one, for clients that ask for it. */
export const usageFrame = (label: Label, usage: Usage, more: object = {}): Frame => ({
  data: JSON.stringify({ ...chunkHead(label), choices: [], usage: writeUsage(usage), ...more }),
})

const chunkHead = (label: Label): Json => ({
  id: label.id,
  object: 'chat.completion.chunk',
  created: label.createdAt,
  model: label.model,
})

/**
 * A failure in a stream already begun, twice: the chunk is for clients that read choices or a top-level `error`; the AI
 * SDK (seen in 7.0) takes
 * anything with choices for an ordinary chunk and hears only an error that stands alone.
 */
export const errorFrames = (label: Label, error: GatewayError): Frame[] => [
  {
    data: JSON.stringify({
      ...chunkHead(label),
      choices: [{ index: 0, delta: {}, finish_reason: 'error' }],
      error: errorObject(error),
    }),
  },
  { data: JSON.stringify({ error: errorObject(error) }) },
]

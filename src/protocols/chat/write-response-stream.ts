import type { GatewayError } from '../../error.ts'
import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { openaiTier } from '../../generation/service-class.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { present } from '../fields.ts'
import { errorObject } from '../openai-error.ts'
import { loseNativeContent, loseLifetimes, loseStopSequence, lossReport, tierOf } from '../losses.ts'
import type { ResponseContext, ResponseIdentity, Writer } from '../protocol.ts'
import { FieldOrder } from './field-order.ts'
import {
  audioHead,
  detailOfPart,
  detailOfSignature,
  detailOfText,
  loseCitation,
  loseOfAudio,
  writeCall,
  writeImage,
} from './write-response.ts'
import { TextOffsets } from '../offsets.ts'
import {
  imageId,
  TEXT_ID,
  writeAnnotation,
  writeFinishReason,
  writeLogprobs,
  writeUsage,
  type Json,
  type PartPosition,
} from './shapes.ts'

/**
 * Events as `chat.completion.chunk` frames. A generated image waits for its end: its URL is in one piece. Annotations
 * wait for that of the response: OpenAI's SDK for JavaScript keeps those of the last delta, the one for Python fails at
 * a second one.
 */
export class ChatResponseWriter implements Writer {
  readonly #context: ResponseContext
  readonly #responseIdentity: ResponseIdentity
  readonly #includeUsage: boolean
  readonly #hidesReasoning: boolean
  readonly #order: FieldOrder
  readonly #usage: Usage = noUsage()
  #metered = false
  /** The service tier that the provider reported. */
  #tier: string | undefined
  #open: PartHead = { type: 'text' }
  /** The open part has text. */
  #hasText = false
  #image = ''
  #images = 0
  #calls = 0
  #details = 0
  /** Length of the content, and where its last text part begins. Offsets are measured only when something is cited. */
  #length = 0
  #textStart = 0
  readonly #content = new TextOffsets('', 'code points')
  readonly #annotations: Json[] = []
  #refused = false
  #ended = false

  constructor(context: ResponseContext) {
    const { responseIdentity, request } = context
    this.#context = context
    this.#order = new FieldOrder(context)
    this.#responseIdentity = responseIdentity
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
        return this.#append(event.text, event.logprobs)
      case 'part-end':
        return this.#close(event.signature)
      case 'usage':
        this.#metered = true
        Object.assign(this.#usage, event.usage)
        this.#tier = event.service?.service_tier ?? this.#tier
        return []
      case 'finish':
        return this.#finish(event)
      case 'error':
        return this.#fail(event.error)
    }
  }

  #begin(head: PartHead): Frame[] {
    this.#open = head
    this.#hasText = false
    switch (head.type) {
      case 'text':
        this.#textStart = this.#length
        return []
      case 'refusal':
        this.#refused = true
        return []
      case 'tool-call':
        this.#order.add(head.type)
        return [this.#callDelta({ ...this.#firstOfCall(head) })]
      case 'image':
        this.#image = ''
        return []
      case 'audio':
        loseOfAudio(this.#context, head.mediaType)
        return [this.#delta({ audio: audioHead(this.#responseIdentity) })]
      case 'citation':
        this.#annotate(head)
        return []
      case 'native':
        loseNativeContent(this.#context, head.kind)
        return []
      default:
        return []
    }
  }

  /** Id and name are in the first delta only: the official SDK takes a repeated id for another call. */
  #firstOfCall(head: PartHead & { type: 'tool-call' }): Json {
    const call = writeCall(head.id, head.name, head.form, '')
    return head.form === 'custom' ? call : { ...call, function: { name: head.name, arguments: '' } }
  }

  #annotate(head: PartHead & { type: 'citation' }): void {
    loseCitation(this.#context, head.citation)
    const annotation = writeAnnotation(head.citation, this.#content, this.#textStart)
    if (annotation !== undefined) this.#annotations.push(annotation)
  }

  #annotated(): Frame[] {
    return this.#annotations.length === 0 ? [] : [this.#delta({ annotations: this.#annotations })]
  }

  #append(text: string, logprobs: TokenLogprob[] | undefined): Frame[] {
    const head = this.#open
    const isFirst = !this.#hasText
    this.#hasText ||= text !== ''
    if (isFirst && this.#hasText && !(head.type === 'reasoning' && this.#hidesReasoning)) this.#order.add(head.type)
    switch (head.type) {
      case 'text':
        this.#length += text.length
        this.#content.append(text)
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
          : [
              this.#delta({
                reasoning: text,
                reasoning_details: [this.#detailOf(head, text, isFirst)],
              }),
            ]
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

  /** Clients join the entries of one part and keep the id of the first. */
  #detailOf(head: PartHead & { type: 'reasoning' }, text: string, isFirst: boolean): Json {
    const detail = detailOfText(head.form, text, this.#responseIdentity, this.#details)
    return isFirst && head.id !== undefined ? { ...detail, id: head.id } : detail
  }

  #close(signature: string | undefined): Frame[] {
    const head = this.#open
    switch (head.type) {
      case 'text':
        return this.#sign(TEXT_ID, signature, { text: this.#textStart, calls: this.#calls, end: this.#length })
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
    const frames = this.#hasText || head.form === 'custom' ? [] : [this.#callDelta({ function: { arguments: '{}' } })]
    this.#calls++
    return [...frames, ...this.#sign(head.id, signature)]
  }

  #sign(id: string, signature: string | undefined, position?: PartPosition): Frame[] {
    return signature === undefined
      ? []
      : [
          this.#delta({
            reasoning_details: [detailOfPart(id, signature, this.#responseIdentity, this.#details++, position)],
          }),
        ]
  }

  #closeReasoning(head: PartHead & { type: 'reasoning' }, signature: string | undefined): Frame[] {
    if (signature === undefined) {
      if (this.#hasText) this.#details++
      return []
    }
    // Encrypted data is an entry of its own: clients join entries with the same index.
    if (this.#hasText && (head.redacted === true || head.form === 'summary')) this.#details++
    const position = { text: this.#length, calls: this.#calls }
    return [
      this.#delta({
        reasoning_details: [detailOfSignature(head, signature, this.#responseIdentity, this.#details++, position)],
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
    loseStopSequence(this.#context, event)
    loseLifetimes(this.#context, this.#usage)
    const tier = tierOf(this.#context, this.#tier, openaiTier)
    const report = { ...present('service_tier', tier), ...lossReport(this.#context) }
    const last =
      this.#includeUsage && this.#metered
        ? [this.#chunk({ choices: [choice] }), usageFrame(this.#responseIdentity, this.#usage, report)]
        : [this.#chunk({ choices: [choice], ...report })]
    return [...this.#annotated(), ...last, { data: '[DONE]' }]
  }

  /** No `[DONE]` follows: a response that failed must not look complete. */
  #fail(error: GatewayError): Frame[] {
    this.#ended = true
    return [...this.#annotated(), ...errorFrames(this.#responseIdentity, error)]
  }

  #callDelta(call: Json): Frame {
    return this.#delta({ tool_calls: [{ index: this.#calls, ...call }] })
  }

  #delta(delta: Json): Frame {
    return this.#chunk({ choices: [{ index: 0, delta, finish_reason: null }] })
  }

  #chunk(fields: Json): Frame {
    return {
      data: JSON.stringify({
        ...chunkHead(this.#responseIdentity),
        ...(this.#includeUsage ? { usage: null } : {}),
        ...fields,
      }),
    }
  }
}

/** The usage chunk before the end, for clients that requested it. */
export const usageFrame = (responseIdentity: ResponseIdentity, usage: Usage, more: object = {}): Frame => ({
  data: JSON.stringify({ ...chunkHead(responseIdentity), choices: [], usage: writeUsage(usage), ...more }),
})

/** The last chunk of candidates that reached the output limit. `delta`: of each. */
export const limitFrame = (
  responseIdentity: ResponseIdentity,
  candidates: readonly number[],
  delta: object,
  more: object,
): Frame => ({
  data: JSON.stringify({
    ...chunkHead(responseIdentity),
    choices: candidates.map((index) => ({ index, delta, finish_reason: 'length' })),
    ...more,
  }),
})

const chunkHead = (responseIdentity: ResponseIdentity): Json => ({
  id: responseIdentity.id,
  object: 'chat.completion.chunk',
  created: responseIdentity.createdAt,
  model: responseIdentity.model,
})

/**
 * An error after the stream began, twice: as a chunk for clients that read choices or a top-level `error`, and alone
 * for the AI SDK (7.0), which takes anything with choices for an ordinary chunk.
 */
export const errorFrames = (responseIdentity: ResponseIdentity, error: GatewayError): Frame[] => [
  {
    data: JSON.stringify({
      ...chunkHead(responseIdentity),
      choices: [{ index: 0, delta: {}, finish_reason: 'error' }],
      error: errorObject(error),
    }),
  },
  { data: JSON.stringify({ error: errorObject(error) }) },
]

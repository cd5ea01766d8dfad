import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import { type Issuer, wrapSignature } from '../../generation/signature.ts'
import { anthropicTier } from '../../generation/service-class.ts'
import { noUsage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { lossReport, tierOf } from '../losses.ts'
import type { ResponseIdentity, ResponseContext, Writer } from '../protocol.ts'
import { type Block, type Json, tagPartSignature, writeStopReason, writeUsage } from './shapes.ts'
import {
  citationOf,
  hidesReasoning,
  isBlank,
  loseBlank,
  loseCitationWithoutText,
  loseFinish,
  loseLastSignature,
  loseLogprobs,
  mediaText,
  nativeBlocks,
  reasoningBlocks,
  signatureBlock,
} from './write-response.ts'
import { writeError } from './write-error.ts'

/** Each frame has its event line: Anthropic's SDKs skip data without one. */
export const frameOf = (data: Block): Frame => ({ event: data.type, data: JSON.stringify(data) })

export const writer = (context: ResponseContext): Writer => new MessagesResponseWriter(context)

/**
 * Events -> `message_start (content_block_start content_block_delta* content_block_stop)* message_delta message_stop`.
 */
class MessagesResponseWriter implements Writer {
  readonly #context: ResponseContext
  readonly #responseIdentity: ResponseIdentity
  readonly #issuer: Issuer | undefined
  readonly #usage = noUsage()
  /** The service tier that the provider reported. */
  #tier: string | undefined
  #head: PartHead | undefined
  /** Index of the next block; the open one has the index before. */
  #next = 0
  #open = false
  /** A text block stays open after its part, since the citations come after it. */
  #awaitsCitations = false
  /** Signatures of the last call or texts, which follow their blocks. */
  #taggedSignatures: string[] = []
  /** The text of the open reasoning, which the client wants omitted. */
  #hidden = ''
  /** The last part has a block of text. */
  #isWritten = false
  /** White space that waits for the text behind it. */
  #blank = ''
  /** The length of the last part's text. */
  #length = 0
  #refused = false
  #ended = false

  constructor(context: ResponseContext) {
    this.#context = context
    this.#responseIdentity = context.responseIdentity
    this.#issuer = context.responseIdentity.issuer
  }

  write(event: GenerationEvent): Frame[] {
    if (this.#ended) return []
    switch (event.type) {
      case 'start':
        return [this.#start()]
      case 'part-start':
        return this.#partStart(event.head)
      case 'part-delta':
        if (event.logprobs !== undefined) loseLogprobs(this.#context)
        return event.text === '' ? [] : this.#partDelta(event.text)
      case 'part-end':
        return this.#partEnd(event.signature)
      case 'usage':
        Object.assign(this.#usage, event.usage)
        this.#tier = event.service?.service_tier ?? this.#tier
        return []
      case 'finish':
        return this.#finish(event)
      case 'error':
        this.#ended = true
        return [frameOf(writeError(event.error))]
    }
  }

  /**
   * Prompt tokens are estimated until they are known: `message_delta` corrects them, but some clients read them here
   * alone. Output is 0, since some clients add up both.
   */
  #start(): Frame {
    const { id, model } = this.#responseIdentity
    return frameOf({
      type: 'message_start',
      message: {
        id,
        type: 'message',
        role: 'assistant',
        model,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { ...writeUsage(this.#usage), input_tokens: this.#context.promptEstimate ?? 0, output_tokens: 0 },
      },
    })
  }

  #partStart(head: PartHead): Frame[] {
    this.#head = head
    if (head.type === 'citation') return this.#cite(head)
    const native = head.type === 'native' ? nativeBlocks(head, this.#context) : []
    // Lost content does not end the text before it.
    if (head.type === 'native' && native.length === 0) return []
    this.#length = 0
    this.#isWritten = false
    if (head.type === 'refusal') this.#refused = true
    // The first of their text ends the block before it.
    if (['text', 'refusal', 'image', 'audio'].includes(head.type)) return []
    const frames = this.#closeBlock()
    switch (head.type) {
      case 'tool-call':
        return [
          ...frames,
          ...this.#openBlock({ type: 'tool_use', id: head.id, name: head.name, input: {} }),
          ...(head.form === 'custom' ? [this.#delta({ type: 'input_json_delta', partial_json: '{"input":"' })] : []),
        ]
      case 'native':
        return [...frames, ...native.flatMap((block) => this.#wholeBlock(block))]
      default:
        return frames
    }
  }

  /** Text and reasoning begin with their first piece: an empty block would be refused when the client sends it back. */
  #partDelta(text: string): Frame[] {
    this.#length += text.length
    switch (this.#head?.type) {
      case 'text':
      case 'refusal':
        return this.#appendText(text)
      case 'reasoning':
        if (hidesReasoning(this.#context)) {
          this.#hidden += text
          return []
        }
        return [
          ...(this.#open ? [] : this.#openBlock({ type: 'thinking', thinking: '', signature: '' })),
          this.#delta({ type: 'thinking_delta', thinking: text }),
        ]
      case 'tool-call':
        return [
          this.#delta({
            type: 'input_json_delta',
            partial_json: this.#head.form === 'custom' ? JSON.stringify(text).slice(1, -1) : text,
          }),
        ]
      default:
        return []
    }
  }

  #appendText(text: string): Frame[] {
    if (this.#isWritten) return [this.#delta({ type: 'text_delta', text })]
    const all = this.#blank + text
    if (isBlank(text)) {
      this.#blank = all
      return []
    }
    this.#isWritten = true
    this.#blank = ''
    return [
      ...this.#closeBlock(),
      ...this.#openBlock({ type: 'text', text: '' }),
      this.#delta({ type: 'text_delta', text: all }),
    ]
  }

  #partEnd(signature: string | undefined): Frame[] {
    const head = this.#head
    this.#head = undefined
    switch (head?.type) {
      case 'text':
        this.#endText(signature)
        return []
      case 'reasoning':
        return this.#endReasoning(head.redacted ?? false, signature)
      case 'tool-call':
        if (signature !== undefined) this.#taggedSignatures.push(tagPartSignature(signature, { call: head.id }))
        return [
          ...(head.form === 'custom' ? [this.#delta({ type: 'input_json_delta', partial_json: '"}' })] : []),
          ...this.#closeBlock(),
        ]
      case 'refusal':
        return this.#isWritten ? this.#closeBlock() : []
      case 'image':
      case 'audio':
        return [...this.#appendText(mediaText(this.#context, head.type, head.mediaType)), ...this.#closeBlock()]
      default:
        return []
    }
  }

  /** The block before a text that is not written stays open for its citations. */
  #endText(signature: string | undefined): void {
    this.#awaitsCitations = this.#open && (this.#isWritten || signature === undefined)
    if (signature !== undefined)
      this.#taggedSignatures.push(tagPartSignature(signature, this.#isWritten ? 'text' : 'empty-text'))
  }

  #endReasoning(redacted: boolean, signature: string | undefined): Frame[] {
    if (this.#open) {
      const wrapped = wrapSignature(signature ?? '', this.#issuer)
      return [
        ...(wrapped === '' ? [] : [this.#delta({ type: 'signature_delta', signature: wrapped })]),
        ...this.#closeBlock(),
      ]
    }
    const hidden = this.#hidden
    this.#hidden = ''
    return reasoningBlocks('', redacted, signature, this.#issuer, hidden).flatMap((block) =>
      block.type === 'thinking'
        ? [
            ...this.#openBlock({ type: 'thinking', thinking: '', signature: '' }),
            this.#delta({ type: 'signature_delta', signature: block.signature }),
            ...this.#closeBlock(),
          ]
        : this.#wholeBlock(block),
    )
  }

  /** An empty text left no block that could have a citation. */
  #cite({ citation }: PartHead & { type: 'citation' }): Frame[] {
    if (!this.#awaitsCitations) {
      loseCitationWithoutText(this.#context)
      return []
    }
    const isWider = !this.#isWritten || citation.start !== 0 || citation.end !== this.#length
    const written = citationOf(citation, isWider, this.#context)
    return written === undefined ? [] : [this.#delta({ type: 'citations_delta', citation: written })]
  }

  #finish(event: GenerationEvent & { type: 'finish' }): Frame[] {
    if (this.#taggedSignatures.length > 0) loseLastSignature(this.#context)
    this.#taggedSignatures = []
    const frames = this.#closeBlock()
    if (this.#blank !== '') loseBlank(this.#context)
    this.#ended = true
    loseFinish(this.#context, event)
    const delta = { stop_reason: writeStopReason(event, this.#refused), stop_sequence: event.stopSequence ?? null }
    const usage = writeUsage(this.#usage, tierOf(this.#context, this.#tier, anthropicTier))
    return [
      ...frames,
      frameOf({ type: 'message_delta', delta, usage, ...lossReport(this.#context) }),
      frameOf({ type: 'message_stop' }),
    ]
  }

  /** Ends the open block; the signatures of its part and of those without a block follow. */
  #closeBlock(): Frame[] {
    const frames = this.#open ? [frameOf({ type: 'content_block_stop', index: this.#next - 1 })] : []
    this.#open = false
    this.#awaitsCitations = false
    if (this.#taggedSignatures.length === 0) return frames
    const signatures = this.#taggedSignatures.map((tagged) => signatureBlock(tagged, this.#issuer))
    this.#taggedSignatures = []
    return [...frames, ...signatures.flatMap((block) => this.#wholeBlock(block))]
  }

  #wholeBlock(block: Block): Frame[] {
    return [...this.#openBlock(block), ...this.#closeBlock()]
  }

  #openBlock(block: Block): Frame[] {
    this.#open = true
    if (this.#blank !== '') loseBlank(this.#context)
    this.#blank = ''
    return [frameOf({ type: 'content_block_start', index: this.#next++, content_block: block })]
  }

  #delta(delta: Json): Frame {
    return frameOf({ type: 'content_block_delta', index: this.#next - 1, delta })
  }
}

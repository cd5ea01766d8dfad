import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { wrapSignature } from '../../generation/signature.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import type { TranslationContext, Writer } from '../protocol.ts'
import { loseNative, reportOf } from '../losses.ts'
import {
  argumentsOf,
  errorFrames,
  nativeCall,
  loseBytes,
  loseOfEnd,
  loseRefusal,
  writeEnd,
  writeLabel,
} from './read-request.ts'
import { HIDDEN, writeGrounding, writeLogprobs, writeUsage, type Placed, type WirePart } from './shapes.ts'

/**
 * Events -> chunks of `streamGenerateContent`: text as it comes, a call or an image whole when its part ends (Google
 * has no pieces
 * of them), sources and usage with the finish in the last chunk. Every chunk is a whole `GenerateContentResponse`.
 */
export class ChunkWriter implements Writer {
  readonly #context: TranslationContext
  readonly #responseIdentity: Record<string, unknown>
  readonly #usage: Usage = noUsage()
  readonly #placed: Placed[] = []
  #metered = false
  #called = false
  #head: PartHead | undefined
  #held = ''
  /**
   * The last piece of reasoning waits for the signature: clients (seen in the AI SDK) pass over one that comes without
   * text.
   */
  #thought = ''
  /** All visible text so far, which Google's offsets count in, and where the last text part of it begins. */
  #text = ''
  #partBase = 0

  constructor(context: TranslationContext) {
    this.#context = context
    this.#responseIdentity = writeLabel(context.responseIdentity)
  }

  write(event: GenerationEvent): Frame[] {
    switch (event.type) {
      case 'start':
        return []
      case 'part-start':
        return this.#onPartStart(event.head)
      case 'part-delta':
        return this.#onDelta(event.text, event.logprobs)
      case 'part-end':
        return this.#onPartEnd(event.signature)
      case 'usage':
        Object.assign(this.#usage, event.usage)
        this.#metered = true
        return []
      case 'finish':
        return this.#onFinish(event)
      case 'error':
        return [...this.#think(), ...errorFrames(event.error)]
    }
  }

  #onPartStart(head: PartHead): Frame[] {
    this.#head = head
    this.#held = ''
    if (head.type === 'text') this.#partBase = this.#text.length
    if (head.type === 'citation') this.#placed.push({ citation: head.citation, text: '', base: this.#partBase })
    if (head.type === 'refusal') loseRefusal(this.#context)
    if (head.type !== 'native') return []
    if (head.protocol === 'generateContent') return this.#chunk(head.value as WirePart)
    loseNative(this.#context, head.kind)
    return []
  }

  #onDelta(text: string, logprobs: TokenLogprob[] | undefined): Frame[] {
    switch (this.#head?.type) {
      case 'text':
      case 'refusal':
        this.#text += text
        if (logprobs !== undefined) loseBytes(this.#context, logprobs)
        return text === '' && logprobs === undefined
          ? []
          : this.#chunk({ text }, logprobs === undefined ? {} : { logprobsResult: writeLogprobs(logprobs) })
      case 'reasoning': {
        if (text === '' || this.#context.request.reasoning?.visible === false) return []
        const frames = this.#think()
        this.#thought = text
        return frames
      }
      default:
        this.#held += text
        return []
    }
  }

  #onPartEnd(signature: string | undefined): Frame[] {
    const head = this.#head
    this.#head = undefined
    const signed =
      signature === undefined
        ? undefined
        : {
            thoughtSignature: wrapSignature(
              signature,
              this.#context.responseIdentity.issuer,
              head?.type === 'reasoning' && head.redacted === true ? HIDDEN : '',
            ),
          }
    switch (head?.type) {
      case 'tool-call': {
        const mark = signed ?? (this.#called ? undefined : nativeCall(this.#context.responseIdentity))
        this.#called = true
        return this.#chunk({
          functionCall: { id: head.id, name: head.name, args: argumentsOf(this.#context, this.#held, head.form) },
          ...mark,
        })
      }
      case 'image':
      case 'audio':
        return this.#chunk({ inlineData: { mimeType: head.mediaType, data: this.#held }, ...signed })
      case 'text':
        return signed === undefined ? [] : this.#chunk({ text: '', ...signed })
      case 'reasoning':
        return this.#think(signed)
      default:
        return []
    }
  }

  /** The piece of reasoning that waited, or, where only its signature can be said, none. */
  #think(signed?: { thoughtSignature: string }): Frame[] {
    const text = this.#thought
    this.#thought = ''
    return text === '' && signed === undefined ? [] : this.#chunk({ text, thought: true, ...signed })
  }

  #onFinish(finish: Extract<GenerationEvent, { type: 'finish' }>): Frame[] {
    for (const placed of this.#placed) placed.text = this.#text
    loseOfEnd(this.#context, finish, this.#usage, this.#placed)
    return this.#chunk(
      { text: '' },
      {
        ...writeEnd(finish),
        ...writeGrounding(this.#placed),
      },
      { ...(this.#metered ? { usageMetadata: writeUsage(this.#usage) } : {}), ...reportOf(this.#context) },
    )
  }

  #chunk(part: WirePart, candidate: Record<string, unknown> = {}, response: Record<string, unknown> = {}): Frame[] {
    return [
      {
        data: JSON.stringify({
          candidates: [{ content: { parts: [part], role: 'model' }, index: 0, ...candidate }],
          ...response,
          ...this.#responseIdentity,
        }),
      },
    ]
  }
}

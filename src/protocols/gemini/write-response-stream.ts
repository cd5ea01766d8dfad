import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { googleTier } from '../../generation/service-class.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import { ObjectText } from '../../json/object-text.ts'
import { loseCutCall, lossReport, tierOf } from '../losses.ts'
import type { ResponseContext, Writer } from '../protocol.ts'
import { writeLogprobs, writeUsage, type GeminiPart } from './shapes.ts'
import { errorFrames } from './write-error.ts'
import {
  isMetadata,
  loseBytes,
  loseOfEnd,
  loseRefusal,
  writeCall,
  writeFinish,
  writeIdentity,
  writeNative,
  writeSignature,
  type Signed,
} from './write-response.ts'
import { writeGrounding, type CitedText } from './write-response-citations.ts'

/** From this length on, arguments are checked while they come. */
const LONG_ARGUMENTS = 32_768

/**
 * Events as chunks of `streamGenerateContent`: text as it comes, a call or a medium when its part ends, since Google
 * does not stream them in pieces, sources and usage in the last chunk. Each chunk is a whole `GenerateContentResponse`.
 */
export class GeminiResponseWriter implements Writer {
  readonly #context: ResponseContext
  readonly #identity: Record<string, unknown>
  readonly #usage: Usage = noUsage()
  readonly #cited: CitedText[] = []
  readonly #metadata: Record<string, unknown> = {}
  #metered = false
  /** The service tier that the provider reported. */
  #tier: string | undefined
  #hasCall = false
  /** The name of a call that was left out. */
  #malformed: string | undefined
  #head: PartHead | undefined
  /** The arguments of the open call, or the data of the open medium. */
  #buffered = ''
  /** The arguments before them, where they are long. */
  #arguments: ObjectText | undefined
  /**
   * The last piece of reasoning, which waits for the signature: the AI SDK, for one, ignores a signature that comes
   * without text.
   */
  #heldReasoning = ''
  /** All visible text, in which Google counts offsets, and where its last text part begins. */
  #text = ''
  #textStart = 0

  constructor(context: ResponseContext) {
    this.#context = context
    this.#identity = writeIdentity(context.responseIdentity)
  }

  write(event: GenerationEvent): Frame[] {
    switch (event.type) {
      case 'start':
        return []
      case 'part-start':
        return this.#begin(event.head)
      case 'part-delta':
        return this.#append(event.text, event.logprobs)
      case 'part-end':
        return this.#close(event.signature)
      case 'usage':
        Object.assign(this.#usage, event.usage)
        this.#metered = true
        this.#tier = event.service?.service_tier ?? this.#tier
        return []
      case 'finish':
        return this.#finish(event)
      case 'error':
        return [...this.#releaseReasoning(), ...errorFrames(event.error)]
    }
  }

  #begin(head: PartHead): Frame[] {
    this.#head = head
    this.#buffered = ''
    switch (head.type) {
      case 'text':
        this.#textStart = this.#text.length
        return []
      case 'citation':
        this.#cited.push({ citation: head.citation, text: '', base: this.#textStart })
        return []
      case 'refusal':
        loseRefusal(this.#context)
        return []
      case 'native':
        if (!isMetadata(head)) return writeNative(head, this.#context).flatMap((part) => this.#chunk(part))
        this.#metadata[head.kind] = head.value
        return []
      default:
        return []
    }
  }

  #append(text: string, logprobs: TokenLogprob[] | undefined): Frame[] {
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
        const frames = this.#releaseReasoning()
        this.#heldReasoning = text
        return frames
      }
      default:
        this.#buffered += text
        if (this.#buffered.length > LONG_ARGUMENTS) this.#checkArguments()
        return []
    }
  }

  #close(signature: string | undefined): Frame[] {
    const head = this.#head
    this.#head = undefined
    const signed = writeSignature(signature, head, this.#context.responseIdentity)
    switch (head?.type) {
      case 'tool-call':
        return this.#endCall(head, signed)
      case 'image':
      case 'audio':
        return this.#chunk({ inlineData: { mimeType: head.mediaType, data: this.#buffered }, ...signed })
      case 'text':
        return signed === undefined ? [] : this.#chunk({ text: '', ...signed })
      case 'reasoning':
        return this.#releaseReasoning(signed)
      default:
        return []
    }
  }

  /** Checks long arguments as they come: parsing them at their end takes too long for one turn of the event loop. */
  #checkArguments(): void {
    if (this.#head?.type !== 'tool-call' || this.#head.form !== 'function') return
    this.#arguments ??= new ObjectText()
    this.#arguments.add(this.#buffered)
    this.#buffered = ''
  }

  #endCall(head: PartHead & { type: 'tool-call' }, signed: Signed | undefined): Frame[] {
    const long = this.#arguments
    this.#arguments = undefined
    const text = long === undefined ? this.#buffered : '{}'
    long?.add(this.#buffered)
    const isCut = long !== undefined && long.complete === undefined
    if (isCut) loseCutCall(this.#context)
    const call = isCut ? undefined : writeCall(head, text, signed, !this.#hasCall, this.#context)
    if (call === undefined) {
      this.#malformed ??= head.name
      return []
    }
    this.#hasCall = true
    const chunk = this.#chunk(call)
    const { complete } = long ?? {}
    if (complete === undefined) return chunk
    // Long arguments are written as they are spelled. In a text of the chunk the name would have a backslash before it.
    for (const frame of chunk) frame.data = frame.data.replace('"args":{}', () => `"args":${complete}`)
    return chunk
  }

  /** The held piece of reasoning with the signature; nothing where there is neither. */
  #releaseReasoning(signed?: Signed): Frame[] {
    const text = this.#heldReasoning
    this.#heldReasoning = ''
    return text === '' && signed === undefined ? [] : this.#chunk({ text, thought: true, ...signed })
  }

  #finish(finish: GenerationEvent & { type: 'finish' }): Frame[] {
    for (const cited of this.#cited) cited.text = this.#text
    loseOfEnd(this.#context, finish, this.#usage, this.#cited)
    const tier = tierOf(this.#context, this.#tier, googleTier)
    return this.#chunk(
      { text: '' },
      { ...writeFinish(finish, this.#malformed), ...writeGrounding(this.#cited, this.#metadata) },
      { ...(this.#metered ? { usageMetadata: writeUsage(this.#usage, tier) } : {}), ...lossReport(this.#context) },
    )
  }

  #chunk(part: GeminiPart, candidate: Record<string, unknown> = {}, response: Record<string, unknown> = {}): Frame[] {
    const content = { parts: [part], role: 'model' }
    const candidates = [{ content, index: 0, ...candidate }]
    return [{ data: JSON.stringify({ candidates, ...response, ...this.#identity }) }]
  }
}

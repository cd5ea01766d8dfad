import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { Citation, TokenLogprob } from '../../generation/request.ts'
import { isObject } from '../../json/parse.ts'
import { mediaKind } from '../media.ts'
import { TextOffsets } from '../offsets.ts'
import { PartSequence, type OpenPart } from '../part-sequence.ts'
import { NO_MEMBERS, UnreadMembers } from '../unread-members.ts'
import { ToolCalls } from './read-response-calls.ts'
import { addUnreadOfAnnotation, addUnreadOfCall, DETAIL, MESSAGE } from './read-response-members.ts'
import { withEntry } from './reasoning-details.ts'
import { joinedBase64, nonEmpty, parseDataUrl, readAnnotation, readLogprobs, type Json } from './shapes.ts'

/**
 * Deltas of a stream, or a whole message, as parts. A new part closes the one before it, unless that is a tool call
 * whose arguments are not complete: then the parts after it wait. Lives as long as one response.
 */
export class MessageReader {
  /** The message has a refusal, with which OpenAI's finish reason is `stop`. */
  refused = false
  /** Members of the whole response that are lost across protocols. */
  readonly unread = new UnreadMembers()
  readonly #sequence: PartSequence
  readonly #calls: ToolCalls
  /** Tells the last opened part from others of its kind: deltas with the same key are appended to it. */
  #key = ''
  /** Annotations of the last text part that are not events yet. */
  #annotations: unknown[] = []
  /** The sources of the response, which come as a whole list each time. */
  #sources: Citation[] = []
  readonly #cited = new Set<string | undefined>()
  /** Content that only chat completions can represent. */
  readonly #native: [kind: string, value: unknown][] = []
  /** Length of all content, and where its last text part begins. Offsets are measured only when something is cited. */
  #length = 0
  #textStart = 0
  readonly #content = new TextOffsets('', 'code points')
  #hasText = false
  readonly #audio: string[] = []
  #hasTranscript = false
  /** The last entry of reasoning was a summary, which the next encrypted one signs. */
  #hasSummary = false

  constructor(out: GenerationEvent[]) {
    this.#sequence = new PartSequence(out)
    this.#calls = new ToolCalls(this.#sequence, (head) => this.#open('', head))
  }

  /** The message has a call of a client's tool. */
  get called(): boolean {
    return this.#calls.any
  }

  /** Nothing was read, except sources. */
  get isEmpty(): boolean {
    return this.#sequence.isEmpty && this.#native.length + this.#audio.length === 0
  }

  /** `whole`: a message in one piece, in which the position of a call is its index. */
  add(message: Json, logprobs: unknown, whole: boolean): void {
    this.unread.add(message, MESSAGE)
    this.#onReasoning(message)
    this.#onContent(message.content, readLogprobs(logprobs))
    if (Array.isArray(message.annotations)) for (const one of message.annotations) this.#annotations.push(one)
    if (isObject(logprobs)) this.#onOtherLogprobs(logprobs, message.content)
    const refusal = nonEmpty(message.refusal)
    if (refusal !== undefined) {
      this.refused = true
      this.#append('refusal', { type: 'refusal' }, refusal)
    }
    if (Array.isArray(message.images)) for (const image of message.images) this.#onImage(image)
    if (isObject(message.audio)) this.#onAudio(message.audio)
    if (Array.isArray(message.tool_calls))
      for (const [position, call] of message.tool_calls.entries())
        if (isObject(call)) this.#onCall(call, whole ? position : undefined)
    this.#onFunctionCall(message.function_call)
  }

  /** The same for a message that has only a text. */
  addText(text: string): void {
    this.#onText(text, undefined)
  }

  /**
   * Perplexity and xAI send their sources beside the choices, the whole list in each chunk. Perplexity's
   * `search_results` have more than its `citations`, which it calls outdated.
   */
  addSources(chunk: Json): void {
    if (chunk.citations === undefined && chunk.search_results === undefined) return
    const results = new Map(
      (Array.isArray(chunk.search_results) ? chunk.search_results : [])
        .filter(isObject)
        .map((result) => [result.url, result]),
    )
    const urls: unknown[] = Array.isArray(chunk.citations) ? chunk.citations : [...results.keys()]
    if (urls.length === 0) return
    this.#sources = urls
      .filter((url) => typeof url === 'string')
      .map((url) => {
        const title = nonEmpty(results.get(url)?.title)
        const citedText = nonEmpty(results.get(url)?.snippet)
        return { url, ...(title === undefined ? {} : { title }), ...(citedText === undefined ? {} : { citedText }) }
      })
  }

  close(): void {
    this.#calls.openNameless()
    this.#sequence.closeAll()
    this.#writeCitations()
    if (this.#hasText) {
      for (const citation of this.#sources)
        if (!this.#cited.has(citation.url)) this.#sequence.whole({ type: 'citation', citation })
    } else if (this.#annotations.length + this.#sources.length > 0)
      this.#native.push(['annotations', this.#annotations])
    if (this.#audio.length > 0)
      this.#sequence.whole({ type: 'audio', mediaType: 'audio/wav' }, joinedBase64(this.#audio))
    for (const [kind, value] of this.#native)
      this.#sequence.whole({ type: 'native', protocol: 'chat.completions', kind, value })
    this.unread.writeTo(this.#sequence, 'chat.completions')
  }

  /** Citations go out before the next part begins, since they belong to the last text part before them. */
  #writeCitations(): void {
    if (!this.#hasText || this.#annotations.length === 0) return
    const annotations = this.#annotations
    this.#annotations = []
    for (const annotation of annotations) {
      const citation = readAnnotation(annotation, this.#content, this.#textStart)
      if (citation === undefined) {
        this.#native.push(['annotations', annotation])
        continue
      }
      addUnreadOfAnnotation(this.unread, annotation)
      this.#cited.add(citation.url)
      this.#whole({ type: 'citation', citation })
    }
  }

  /** The last part, if it has this key and is still open. */
  #find(key: string): OpenPart | undefined {
    return this.#key === key ? this.#sequence.last : undefined
  }

  #append(key: string, head: PartHead, text: string, logprobs?: TokenLogprob[]): OpenPart {
    const part = this.#find(key) ?? this.#open(key, head)
    part.append(text, logprobs)
    return part
  }

  #open(key: string, head: PartHead): OpenPart {
    if (head.type !== 'text') this.#writeCitations()
    this.#closeLast()
    this.#key = key
    return this.#sequence.open(head)
  }

  #whole(head: PartHead, text = '', signature?: string): void {
    this.#closeLast()
    this.#sequence.whole(head, text, signature)
  }

  #closeLast(): void {
    const { last } = this.#sequence
    if (last !== undefined && !this.#calls.isIncomplete(last)) last.close()
  }

  #onContent(content: unknown, logprobs: TokenLogprob[] | undefined): void {
    if (typeof content === 'string') return this.#onText(content, logprobs)
    if (!Array.isArray(content)) return
    for (const piece of content) {
      if (!isObject(piece)) continue
      if (piece.type === 'thinking') this.#onThinking(piece)
      else if (piece.type === 'image_url') this.#onImage(piece)
      else if (nonEmpty(piece.text) !== undefined) this.#onText(piece.text as string, logprobs)
      // Mistral's references to results of tools, for example.
      else if (typeof piece.text !== 'string' && typeof piece.type === 'string') this.#native.push([piece.type, piece])
    }
  }

  /** Log probabilities of a refusal, of calls, and of reasoning, for which DeepSeek has a field of its own. */
  #onOtherLogprobs({ content: tokens, refusal, reasoning_content: reasoning }: Json, content: unknown): void {
    const isOfText = typeof content === 'string' || Array.isArray(content)
    this.unread.add({ logprobs: [refusal, reasoning, isOfText ? undefined : tokens] }, NO_MEMBERS)
  }

  #onText(text: string, logprobs: TokenLogprob[] | undefined): void {
    if (text === '' && logprobs === undefined) return
    if (this.#find('text') === undefined) {
      this.#writeCitations()
      this.#textStart = this.#length
    }
    this.#hasText = true
    this.#length += text.length
    this.#content.append(text)
    this.#append('text', { type: 'text' }, text, logprobs)
  }

  /** Mistral's piece of content for reasoning. */
  #onThinking(piece: Json): void {
    const texts = Array.isArray(piece.thinking)
      ? piece.thinking.map((one) => (isObject(one) ? (nonEmpty(one.text) ?? '') : ''))
      : [nonEmpty(piece.thinking) ?? '']
    const part = this.#append('reasoning', { type: 'reasoning' }, texts.join(''))
    if (nonEmpty(piece.signature) !== undefined) part.signature = piece.signature as string
  }

  /** `reasoning_details` have the most; the same text in another member is not read again, Copilot's being the last. */
  #onReasoning(message: Json): void {
    const plain = nonEmpty(message.reasoning) ?? nonEmpty(message.reasoning_content) ?? nonEmpty(message.reasoning_text)
    if (!Array.isArray(message.reasoning_details)) {
      if (plain !== undefined) this.#append('reasoning', { type: 'reasoning' }, plain)
      return
    }
    const details = message.reasoning_details.filter(isObject)
    const inDetails = details.some(
      (detail) => nonEmpty(detail.text) !== undefined || nonEmpty(detail.summary) !== undefined,
    )
    if (plain !== undefined && !inDetails) this.#append('reasoning', { type: 'reasoning' }, plain)
    for (const detail of details) this.#onDetail(detail)
  }

  #onDetail(detail: Json): void {
    this.unread.add(detail, DETAIL, 'reasoning_details.')
    const id = nonEmpty(detail.id)
    const named = id === undefined ? {} : { id }
    if (detail.type === 'reasoning.encrypted') {
      if (nonEmpty(detail.data) === undefined) return
      this.#writeCitations()
      const signature = withEntry(detail.data as string, detail, this.#hasSummary ? 'summary' : 'encrypted')
      this.#hasSummary = false
      this.#whole({ type: 'reasoning', redacted: true, ...named }, '', signature)
      return
    }
    const isSummary = detail.type === 'reasoning.summary'
    const text = nonEmpty(isSummary ? detail.summary : detail.text) ?? ''
    const signature = nonEmpty(detail.signature)
    if (text === '' && signature === undefined) return
    this.#hasSummary = isSummary
    const open = this.#find('reasoning')
    const key =
      open !== undefined && detail.index === undefined
        ? 'reasoning'
        : `reasoning ${nameOrNumber(detail.type)} ${nameOrNumber(detail.index)}`
    const head: PartHead = { type: 'reasoning', ...(isSummary ? { form: 'summary' as const } : {}), ...named }
    // A signature that follows text in plain `reasoning` belongs to that part while it is open.
    const part = text === '' && open !== undefined ? open : this.#append(key, head, text)
    if (signature !== undefined) part.signature = withEntry(signature, detail)
  }

  #onImage(image: unknown): void {
    const url = isObject(image) ? (isObject(image.image_url) ? image.image_url.url : image.image_url) : undefined
    if (typeof url !== 'string') return
    this.#writeCitations()
    const data = parseDataUrl(url)
    if (data !== undefined && mediaKind(data.mediaType) === 'image')
      this.#whole({ type: 'image', mediaType: data.mediaType }, data.data)
    else this.#whole({ type: 'native', protocol: 'chat.completions', kind: 'image_url', value: image })
  }

  /** The transcript is text of the response. The audio waits for the end, since the two come interleaved. */
  #onAudio(audio: Json): void {
    if (nonEmpty(audio.data) !== undefined) this.#audio.push(audio.data as string)
    const transcript = nonEmpty(audio.transcript)
    if (transcript === undefined || (this.#hasText && !this.#hasTranscript)) return
    this.#hasTranscript = true
    this.#onText(transcript, undefined)
  }

  #onCall(call: Json, position: number | undefined): void {
    addUnreadOfCall(this.unread, call)
    this.#calls.add(call, position)
  }

  /** The deprecated field of a single call. */
  #onFunctionCall(call: unknown): void {
    if (!isObject(call) || (nonEmpty(call.name) === undefined && nonEmpty(call.arguments) === undefined)) return
    this.#calls.add({ index: -1, function: call })
  }
}

/** Objects are left out: one from a server may have a member that makes it impossible to write as text. */
const nameOrNumber = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? `${value}` : ''

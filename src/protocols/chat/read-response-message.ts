import { tryParse } from '../../json/parse.ts'
import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { Citation, GenerationRequest, TokenLogprob } from '../../generation/request.ts'
import type { Quirks } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { ToolNames } from './write-request-names.ts'
import { withEntry } from './reasoning-details.ts'
import { JsonEnd, Sequence, type Draft } from './sequence.ts'
import { mediaKind } from '../media.ts'
import { Offsets } from '../offsets.ts'
import { joinedBase64, readAnnotation, readDataUrl, readLogprobs, words, type Json } from './shapes.ts'

/** Free text does not say where it ends. */
const OPEN_ENDED = { complete: false, add: (): void => {} }

type Call = {
  index: number | undefined
  id: string | undefined
  name: string | undefined
  custom: boolean
  draft?: Draft
  early: string
  signature?: string
}

/** What the model says, piece by piece or whole: deltas and messages -> parts. Lives as long as one answer. */
export class MessageReader {
  /** Whether the answer holds a client tool call. */
  called = false
  /** Whether it holds refusing words, under which OpenAI says `stop`. */
  refused = false
  readonly #sequence: Sequence
  readonly #names: ToolNames
  readonly #calls: Call[] = []
  /** Of the last text part, not told yet; and sources of which only the whole list is told. */
  #annotations: unknown[] = []
  #listed: Citation[] = []
  readonly #cited = new Set<string | undefined>()
  /** What only chat completions has a place for. */
  readonly #unread: [kind: string, value: unknown][] = []
  /**
   * The whole content, in which citations count, and where the last text part of it began. It is measured when
   * something is cited.
   */
  #length = 0
  #textStart = 0
  #unmeasured = ''
  readonly #content = new Offsets('', 'code points')
  #hasText = false
  readonly #audio: string[] = []
  #transcribed = false
  /** Made for the first call without an id. */
  #salt: string | undefined

  constructor(out: GenerationEvent[], quirks: Quirks, request: GenerationRequest | undefined) {
    this.#sequence = new Sequence(out)
    this.#names = new ToolNames(request?.tools ?? [], quirks)
  }

  /** `whole`: a message in one piece, whose calls are told apart by their place. */
  add(said: Json, logprobs: unknown, whole: boolean): void {
    this.#onReasoning(said)
    this.#onContent(said.content, readLogprobs(logprobs))
    if (Array.isArray(said.annotations)) for (const annotation of said.annotations) this.#annotations.push(annotation)
    // Log probabilities of what it thought (DeepSeek).
    if (isObject(logprobs) && Array.isArray(logprobs.reasoning_content))
      this.#unread.push(['logprobs', logprobs.reasoning_content])
    const refusal = words(said.refusal)
    if (refusal !== undefined) {
      this.refused = true
      this.#append('refusal', { type: 'refusal' }, refusal)
    }
    if (Array.isArray(said.images)) for (const image of said.images) this.#onImage(image)
    if (isObject(said.audio)) this.#onAudio(said.audio)
    if (Array.isArray(said.tool_calls))
      for (const [place, call] of said.tool_calls.entries())
        if (isObject(call)) this.#onToolCall(call, whole ? place : undefined)
    this.#onFunctionCall(said.function_call)
  }

  /**
   * Perplexity and xAI name their sources beside the choices, the whole list each time. Perplexity calls its
   * `citations` outdated: what it found says more.
   */
  sources(chunk: Json): void {
    const results = new Map(
      (Array.isArray(chunk.search_results) ? chunk.search_results : [])
        .filter(isObject)
        .map((result) => [result.url, result]),
    )
    const urls: unknown[] = Array.isArray(chunk.citations) ? chunk.citations : [...results.keys()]
    if (urls.length > 0)
      this.#listed = urls
        .filter((url) => typeof url === 'string')
        .map((url) => {
          const title = words(results.get(url)?.title),
            citedText = words(results.get(url)?.snippet)
          return { url, ...(title === undefined ? {} : { title }), ...(citedText === undefined ? {} : { citedText }) }
        })
  }

  close(): void {
    for (const call of this.#calls)
      if (call.draft === undefined && (call.name !== undefined || call.early !== '')) this.#beginCall(call)
    this.#sequence.closeAll()
    this.#cite()
    if (this.#hasText)
      for (const citation of this.#listed)
        if (!this.#cited.has(citation.url)) this.#sequence.whole({ type: 'citation', citation })
    if (!this.#hasText && this.#annotations.length + this.#listed.length > 0)
      this.#unread.push(['annotations', this.#annotations])
    if (this.#audio.length > 0)
      this.#sequence.whole({ type: 'audio', mediaType: 'audio/wav' }, joinedBase64(this.#audio))
    for (const [kind, value] of this.#unread)
      this.#sequence.whole({ type: 'native', protocol: 'chat.completions', kind, value })
  }

  /** What is cited in the text before the next part begins: behind that it would be too late. */
  #cite(): void {
    if (!this.#hasText || this.#annotations.length === 0) return
    this.#content.append(this.#unmeasured)
    this.#unmeasured = ''
    const annotations = this.#annotations
    this.#annotations = []
    for (const annotation of annotations) {
      const citation = readAnnotation(annotation, this.#content, this.#textStart)
      if (citation === undefined) {
        this.#unread.push(['annotations', annotation])
        continue
      }
      this.#cited.add(citation.url)
      this.#sequence.whole({ type: 'citation', citation })
    }
  }

  #append(key: string, head: PartHead, text: string, logprobs?: TokenLogprob[]): Draft {
    const draft = this.#sequence.find(key) ?? this.#begin({ key, head, waiting: [] })
    this.#sequence.append(draft, text, logprobs)
    return draft
  }

  #begin(draft: Draft): Draft {
    if (draft.head.type !== 'text') this.#cite()
    this.#sequence.begin(draft)
    return draft
  }

  #onContent(content: unknown, logprobs: TokenLogprob[] | undefined): void {
    if (typeof content === 'string') return this.#onText(content, logprobs)
    if (!Array.isArray(content)) return
    for (const piece of content) {
      if (!isObject(piece)) continue
      if (piece.type === 'thinking') this.#onThinking(piece)
      else if (piece.type === 'image_url') this.#onImage(piece)
      else if (words(piece.text) !== undefined) this.#onText(piece.text as string, logprobs)
      // References of Mistral's to what tools found, and what else has no words.
      else if (typeof piece.text !== 'string' && typeof piece.type === 'string') this.#unread.push([piece.type, piece])
    }
  }

  #onText(text: string, logprobs: TokenLogprob[] | undefined): void {
    if (text === '' && logprobs === undefined) return
    if (this.#sequence.find('text') === undefined) {
      this.#cite()
      this.#textStart = this.#length
    }
    this.#hasText = true
    this.#length += text.length
    this.#unmeasured += text
    this.#append('text', { type: 'text' }, text, logprobs)
  }

  /** Mistral's content chunk. */
  #onThinking(piece: Json): void {
    const texts = Array.isArray(piece.thinking)
      ? piece.thinking.map((one) => (isObject(one) ? (words(one.text) ?? '') : ''))
      : [words(piece.thinking) ?? '']
    const draft = this.#append('reasoning', { type: 'reasoning' }, texts.join(''))
    if (words(piece.signature) !== undefined) draft.signature = piece.signature as string
  }

  /** The details say the most; the same text beside them, in `reasoning` or `reasoning_content`, is not read again. */
  #onReasoning(said: Json): void {
    const details = Array.isArray(said.reasoning_details) ? said.reasoning_details.filter(isObject) : []
    const plain = words(said.reasoning) ?? words(said.reasoning_content)
    const told = details.some((detail) => words(detail.text) !== undefined || words(detail.summary) !== undefined)
    if (plain !== undefined && !told) this.#append('reasoning', { type: 'reasoning' }, plain)
    for (const detail of details) this.#onDetail(detail)
  }

  #onDetail(detail: Json): void {
    const id = words(detail.id)
    if (detail.type === 'reasoning.encrypted') {
      if (words(detail.data) === undefined) return
      const draft = this.#begin({
        key: '',
        head: { type: 'reasoning', redacted: true, ...(id === undefined ? {} : { id }) },
        waiting: [],
      })
      draft.signature = withEntry(detail.data as string, detail)
      return
    }
    const summary = detail.type === 'reasoning.summary'
    const text = words(summary ? detail.summary : detail.text) ?? ''
    const signature = words(detail.signature)
    if (text === '' && signature === undefined) return
    const open = this.#sequence.find('reasoning')
    const key =
      open !== undefined && detail.index === undefined
        ? 'reasoning'
        : `reasoning ${String(detail.type)} ${String(detail.index ?? '')}`
    // A signature may come after text that was told in plain `reasoning`: it belongs to that part while it is open.
    const draft =
      text === '' && open !== undefined
        ? open
        : this.#append(
            key,
            {
              type: 'reasoning',
              ...(summary ? { form: 'summary' as const } : {}),
              ...(id === undefined ? {} : { id }),
            },
            text,
          )
    if (signature !== undefined) draft.signature = withEntry(signature, detail)
  }

  #onImage(image: unknown): void {
    const url = isObject(image) ? (isObject(image.image_url) ? image.image_url.url : image.image_url) : undefined
    if (typeof url !== 'string') return
    this.#cite()
    const data = readDataUrl(url)
    if (data !== undefined && mediaKind(data.mediaType) === 'image')
      this.#sequence.whole({ type: 'image', mediaType: data.mediaType }, data.data)
    else this.#sequence.whole({ type: 'native', protocol: 'chat.completions', kind: 'image_url', value: image })
  }

  /** The transcript is the answer's text; the sound waits for the end because the two come mixed. */
  #onAudio(audio: Json): void {
    if (words(audio.data) !== undefined) this.#audio.push(audio.data as string)
    const transcript = words(audio.transcript)
    if (transcript === undefined || (this.#hasText && !this.#transcribed)) return
    this.#transcribed = true
    this.#onText(transcript, undefined)
  }

  #onFunctionCall(call: unknown): void {
    if (!isObject(call) || (words(call.name) === undefined && words(call.arguments) === undefined)) return
    this.#onToolCall({ index: -1, function: call }, undefined)
  }

  #onToolCall(delta: Json, place: number | undefined): void {
    const inner =
      isObject(delta.function) &&
      (words(delta.function.name) !== undefined ||
        words(delta.function.arguments) !== undefined ||
        delta.type !== 'custom')
        ? delta.function
        : isObject(delta.custom)
          ? delta.custom
          : {}
    const call = this.#callOf(delta, words(inner.name), place)
    call.custom ||= inner === delta.custom
    call.name ??= words(inner.name)
    const args = inner.arguments ?? inner.input
    const text = typeof args === 'string' ? args : isObject(args) ? JSON.stringify(args) : ''
    this.#onSignature(call, delta)
    if (call.draft === undefined && call.name !== undefined) this.#beginCall(call)
    if (text === '') return
    if (call.draft === undefined) call.early += text
    else this.#sequence.append(call.draft, text)
  }

  /**
   * Which call a delta belongs to: by index; a second id with a name under one index is another call (some servers
   * number all calls 0);
   * without an index by id; without either it is the last one's.
   */
  #callOf(delta: Json, name: string | undefined, place: number | undefined): Call {
    const index = typeof delta.index === 'number' ? delta.index : place
    const id = words(delta.id)
    const known =
      index !== undefined
        ? this.#calls.findLast((call) => call.index === index)
        : id !== undefined
          ? this.#calls.find((call) => call.id === id)
          : name === undefined
            ? this.#calls.at(-1)
            : undefined
    const another =
      known !== undefined && id !== undefined && name !== undefined && known.id !== undefined && known.id !== id
    if (known !== undefined && !another) {
      known.id ??= id
      return known
    }
    const call: Call = { index, id, name, custom: false, early: '' }
    this.#calls.push(call)
    return call
  }

  #beginCall(call: Call): void {
    this.called = true
    call.id ??= `call_${(this.#salt ??= crypto.randomUUID().replaceAll('-', '').slice(0, 20))}${this.#calls.indexOf(call)}`
    const tool = this.#names.read(call.name ?? '')
    const unwrap = tool.wrapped && !call.custom
    const head: PartHead = {
      type: 'tool-call',
      id: call.id,
      name: tool.name,
      form: call.custom || unwrap ? 'custom' : 'function',
    }
    const draft: Draft = {
      key: `call ${this.#calls.indexOf(call)}`,
      head,
      waiting: [],
      json: call.custom ? OPEN_ENDED : new JsonEnd(),
      ...(unwrap ? { rewrite: unwrapInput } : {}),
    }
    if (call.signature !== undefined) draft.signature = call.signature
    call.draft = this.#begin(draft)
    if (call.early !== '') this.#sequence.append(draft, call.early)
  }

  /** Google's compatible endpoint signs calls in `extra_content`. */
  #onSignature(call: Call, delta: Json): void {
    const extra =
      isObject(delta.extra_content) && isObject(delta.extra_content.google)
        ? words(delta.extra_content.google.thought_signature)
        : undefined
    if (extra === undefined) return
    call.signature = extra
    if (call.draft !== undefined) call.draft.signature = extra
  }
}

/** The free text out of `{"input": "..."}`; a cut or odd object stays as it is. */
function unwrapInput(text: string): string {
  const value = tryParse(text)
  return isObject(value) && typeof value.input === 'string' ? value.input : text
}

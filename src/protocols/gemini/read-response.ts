import { GatewayError } from '../../error.ts'
import type { ContentFilter, GenerationEvent } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import { classValue, type ServiceClass } from '../../generation/service-class.ts'
import type { Frame } from '../../http/frames.ts'
import { parseWithExact } from '../../json/exact.ts'
import { isObject, stringOf } from '../../json/parse.ts'
import { present } from '../fields.ts'
import { mediaKind } from '../media.ts'
import { type OpenPart, PartSequence } from '../part-sequence.ts'
import type { Reader } from '../protocol.ts'
import { NO_MEMBERS, UnreadMembers } from '../unread-members.ts'
import { truncatedStream } from '../upstream-error.ts'
import { stepsOf } from './hosted-tools.ts'
import { readStreamError } from './read-error.ts'
import { StreamedArguments } from './read-response-arguments.ts'
import { CitationReader } from './read-response-citations.ts'
import { CALL, CANDIDATE, PART, RESPONSE } from './read-response-members.ts'
import {
  finishReasonName,
  NATIVE_PARTS,
  readFinishReason,
  readLogprobs,
  readRatings,
  readUsage,
  type GeminiPart,
} from './shapes.ts'

/**
 * A whole response as events. An array has the chunks of a stream, as Google sends them without `alt=sse`. Throws a
 * GatewayError for an error body and for anything else.
 */
export function readResponse(body: unknown): GenerationEvent[] {
  const reader = new GeminiResponseReader()
  for (const chunk of Array.isArray(body) ? body : [body]) reader.chunk(chunk)
  // A whole body is complete even without a finish reason, or without content.
  if (!reader.finishing && isChunk(body)) reader.chunk({ candidates: [{ finishReason: 'STOP' }] })
  const events = reader.end()
  const failure = events.find((event) => event.type === 'error')
  if (failure === undefined) return events
  if (Array.isArray(body) || (isObject(body) && 'error' in body)) throw failure.error
  throw new GatewayError('upstream_error', 'The response of the provider is not a generateContent response.')
}

const CHUNK_MEMBERS = ['candidates', 'promptFeedback', 'usageMetadata', 'responseId', 'modelVersion']

/** An object without any of these members, or with candidates that are no list, is not from Google. */
function isChunk(value: unknown): value is Record<string, unknown> {
  return (
    isObject(value) && Array.isArray(value.candidates ?? []) && CHUNK_MEMBERS.some((name) => Object.hasOwn(value, name))
  )
}

/** A tool call that may be incomplete. `streamed`: its arguments, where they come in pieces. */
type Call = {
  id: string
  name: string
  streamed: StreamedArguments | undefined
  text: string
  signature: string | undefined
}

/**
 * Chunks of `streamGenerateContent` as events. The stream has no terminal frame, and several chunks before the last may
 * have a `finishReason`, so the finish waits for the end of the bytes; everything else goes out as it comes.
 */
export class GeminiResponseReader implements Reader {
  readonly #out: GenerationEvent[] = []
  readonly #parts = new PartSequence(this.#out)
  readonly #citations = new CitationReader()
  readonly #unread = new UnreadMembers()
  #started = false
  #ended = false
  #id = ''
  #call: Call | undefined
  #calls = 0
  /** The signature of a part without a text, which waits for the citations of the text before it. */
  #emptySigned: string | undefined
  /** Number of steps of Google's own tools: each call is followed by its result. */
  #steps = 0
  #hasCandidate = false
  #finishReason: string | undefined
  /** The reason for which the prompt was blocked. */
  #blockReason: string | undefined
  /** Ratings of the prompt and of the response. */
  readonly #filters = new Map<ContentFilter['source'], ContentFilter>()
  /** Details of an unusual end. */
  #finishMessage: string | undefined
  readonly #usage: Record<string, unknown> = {}
  #reportedUsage = ''
  /** Output came after the usage. */
  #isUsageStale = true
  /** All visible text, and where its last part begins: offsets of citations count in it. */
  #text = ''
  #lastTextStart: number | undefined
  /** Where in that text each part that the provider sent begins. */
  readonly #partStarts: number[] = []

  read(frame: Frame): GenerationEvent[] {
    const chunk = parseChunk(frame.data)
    for (const one of Array.isArray(chunk) ? chunk : [chunk]) this.chunk(one)
    return this.#out.splice(0)
  }

  end(): GenerationEvent[] {
    if (!this.#ended) this.#finish()
    return this.#out.splice(0)
  }

  /** The response has reported how it ended, or that it was blocked. */
  get finishing(): boolean {
    return this.#finishReason !== undefined || this.#blockReason !== undefined
  }

  /** One parsed chunk, or a whole body. */
  chunk(chunk: unknown): void {
    if (this.#ended || !isObject(chunk)) return
    const error = typeof chunk.error === 'string' ? { message: chunk.error } : chunk.error
    if (isObject(error)) return this.#fail(readStreamError(error))
    if (!isChunk(chunk)) return
    this.#start(chunk)
    this.#unread.add(chunk, RESPONSE)
    const candidates = Array.isArray(chunk.candidates) ? chunk.candidates.filter(isObject) : []
    // Further candidates are billed, but no other protocol can represent them.
    const candidate = candidates.find(({ index }, position) => (index ?? position) === 0)
    if (candidate !== undefined) this.#readCandidate(candidate)
    if (isObject(chunk.promptFeedback)) this.#readFeedback(chunk.promptFeedback)
    if (isObject(chunk.usageMetadata)) this.#readUsage(chunk.usageMetadata)
    else if (candidate?.content !== undefined) this.#isUsageStale = true
  }

  #start({ responseId, modelVersion }: Record<string, unknown>): void {
    if (this.#started) return
    this.#started = true
    this.#id = stringOf(responseId)
    this.#out.push({ type: 'start', id: this.#id, model: stringOf(modelVersion) })
  }

  /** Feedback without a reason means a block only where there is no candidate. */
  #readFeedback({ blockReason, blockReasonMessage, safetyRatings }: Record<string, unknown>): void {
    this.#rate('prompt', safetyRatings)
    if (typeof blockReason !== 'string' && this.#hasCandidate) return
    this.#blockReason = typeof blockReason === 'string' || typeof blockReason === 'number' ? `${blockReason}` : ''
    if (typeof blockReasonMessage === 'string') this.#finishMessage = blockReasonMessage
  }

  /** Counts are running totals: the last value of each counts, also where later chunks omit it. */
  #readUsage(usage: Record<string, unknown>): void {
    Object.assign(this.#usage, usage)
    this.#isUsageStale = Object.keys(usage).length === 0
    this.#reportUsage()
  }

  #reportUsage(): void {
    const isComplete = this.finishing && !this.#isUsageStale
    const isSilent = this.#text === '' && this.#calls === 0
    const read = readUsage(this.#usage, this.#citations.searches, { isComplete, isSilent })
    const service = serviceIn(this.#usage)
    const text = JSON.stringify([read, isComplete, service])
    if (read === undefined || text === this.#reportedUsage) return
    this.#reportedUsage = text
    this.#out.push({
      type: 'usage',
      usage: read,
      ...present('service', service),
      ...(isComplete ? {} : { interim: true }),
    })
  }

  #readCandidate(candidate: Record<string, unknown>): void {
    const { content, finishMessage } = candidate
    this.#unread.add(candidate, CANDIDATE)
    this.#hasCandidate = true
    if (this.#blockReason === '') this.#blockReason = undefined
    let logprobs = readLogprobs(candidate.logprobsResult)
    for (const part of isObject(content) && Array.isArray(content.parts) ? content.parts : []) {
      this.#partStarts.push(this.#text.length)
      if (!isObject(part)) continue
      this.#readPart(part, logprobs)
      if (typeof part.text === 'string' && part.thought !== true) logprobs = undefined
    }
    // No other protocol has those of calls and reasoning.
    if (logprobs !== undefined) this.#unread.add({ logprobs }, NO_MEMBERS)
    this.#citations.record(candidate)
    this.#rate('completion', candidate.safetyRatings)
    this.#finishReason = finishReasonName(candidate.finishReason) ?? this.#finishReason
    if (typeof finishMessage === 'string' && this.#finishReason !== 'STOP') this.#finishMessage = finishMessage
  }

  #rate(source: ContentFilter['source'], ratings: unknown): void {
    const filter = readRatings(source, ratings)
    if (filter !== undefined) this.#filters.set(source, filter)
  }

  #readPart(part: GeminiPart, logprobs: TokenLogprob[] | undefined): void {
    const { functionCall, inlineData, text, thoughtSignature } = part
    const signature = typeof thoughtSignature === 'string' && thoughtSignature !== '' ? thoughtSignature : undefined
    const isReasoning = part.thought === true
    this.#unread.add(part, PART)
    if (isObject(functionCall)) return this.#readCall(functionCall, signature)
    if (typeof text === 'string') return this.#readText(text, isReasoning, signature, logprobs)
    if (isObject(inlineData)) return this.#readMedia(inlineData, signature)
    const kind = NATIVE_PARTS.find((name) => part[name] !== undefined)
    if (kind !== undefined) this.#native(kind, part)
    else if (signature !== undefined) this.#readText('', isReasoning, signature, undefined)
  }

  #readText(
    text: string,
    isReasoning: boolean,
    signature: string | undefined,
    logprobs: TokenLogprob[] | undefined,
  ): void {
    if (text === '' && signature === undefined && logprobs === undefined) return
    if (text === '' && !isReasoning && logprobs === undefined) {
      this.#closePart()
      this.#emptySigned = signature
      return
    }
    const part = isReasoning ? this.#openReasoning(text === '') : this.#openText()
    if (!isReasoning) this.#text += text
    part.append(text, logprobs)
    if (signature !== undefined) part.close(signature)
  }

  #openReasoning(redacted: boolean): OpenPart {
    const { last } = this.#parts
    if (last?.head?.type === 'reasoning') return last
    this.#closePart()
    return this.#parts.open({ type: 'reasoning', ...(redacted ? { redacted } : { form: 'summary' }) })
  }

  #openText(): OpenPart {
    const { last } = this.#parts
    if (last?.head?.type === 'text') return last
    this.#closePart()
    this.#lastTextStart = this.#text.length
    return this.#parts.open({ type: 'text' })
  }

  /** A piece without a name continues the call before it. */
  #readCall(piece: Record<string, unknown>, signature: string | undefined): void {
    const { id, name, args, partialArgs, willContinue } = piece
    this.#unread.add(piece, CALL, 'functionCall.')
    const begins = typeof name === 'string' && name !== ''
    if (begins) {
      this.#closePart()
      this.#call = {
        id: typeof id === 'string' && id !== '' ? id : this.#newCallId(),
        name,
        streamed: willContinue === true || partialArgs !== undefined ? new StreamedArguments(args) : undefined,
        text: isObject(args) ? JSON.stringify(args) : '{}',
        signature,
      }
    }
    const call = this.#call
    if (call === undefined) {
      this.#unread.add({ functionCall: piece, thoughtSignature: signature }, NO_MEMBERS)
      return
    }
    call.signature ??= signature
    if (!begins || !isObject(args)) this.#unread.add({ args }, NO_MEMBERS, 'functionCall.')
    if (call.streamed?.add(partialArgs) === false) this.#unread.add({ partialArgs }, NO_MEMBERS, 'functionCall.')
    if (willContinue !== true) this.#endCall()
  }

  #endCall(isCut = false): void {
    const call = this.#call
    if (call === undefined) return
    this.#call = undefined
    this.#calls++
    const text = call.streamed === undefined ? call.text : JSON.stringify(call.streamed)
    this.#parts.whole(
      { type: 'tool-call', id: call.id, name: call.name, form: 'function' },
      // A call that was cut must not look complete.
      isCut ? text.slice(0, -1) : text,
      call.signature,
    )
  }

  /** Unique among all responses: a client sends the calls of many responses back in one conversation. */
  #newCallId(): string {
    const response = this.#id.replace(/[^A-Za-z0-9_-]/g, '').slice(0, 40)
    return `call_${response === '' ? crypto.randomUUID().replaceAll('-', '') : response}_${this.#calls}`
  }

  #readMedia(blob: Record<string, unknown>, signature: string | undefined): void {
    const { mimeType, data } = blob
    if (typeof mimeType !== 'string' || typeof data !== 'string') return
    const type = mediaKind(mimeType)
    if (type !== 'image' && type !== 'audio') return this.#native('inlineData', { inlineData: blob })
    const { last } = this.#parts
    // Audio comes in pieces of one recording; base64 can be joined as long as no piece is padded.
    const continued = type === 'audio' && last?.head?.type === 'audio' && last.head.mediaType === mimeType
    if (!continued) this.#closePart()
    const part = continued ? last : this.#parts.open({ type, mediaType: mimeType })
    part.append(data)
    if (type === 'image' || data.endsWith('=') || data.length % 4 !== 0 || signature !== undefined)
      part.close(signature)
  }

  #native(kind: string, value: unknown): void {
    this.#closePart()
    const steps = stepsOf(kind, value, `${this.#steps >> 1}`)
    if (steps !== undefined) this.#steps++
    this.#parts.whole({ type: 'native', protocol: 'generateContent', kind, value, ...present('steps', steps) })
  }

  #closePart(): void {
    this.#parts.closeAll()
    this.#endCall()
    this.#writeEmptySigned()
  }

  /** Google wants a signature back on the part that had it, not on the text before it. */
  #writeEmptySigned(): void {
    if (this.#emptySigned !== undefined) this.#parts.whole({ type: 'text' }, '', this.#emptySigned)
    this.#emptySigned = undefined
  }

  #finish(): void {
    if (!this.finishing) return this.#fail(truncatedStream())
    this.#parts.closeAll()
    this.#endCall(this.#finishReason !== 'STOP')
    const textStart = this.#lastTextStart
    if (textStart !== undefined)
      for (const citation of this.#citations.read(this.#text, textStart, this.#partStarts))
        this.#parts.whole({ type: 'citation', citation })
    this.#writeEmptySigned()
    for (const [kind, value] of this.#citations.metadata(textStart !== undefined)) this.#native(kind, value)
    this.#unread.writeTo(this.#parts, 'generateContent')
    this.#reportUsage()
    this.#ended = true
    const raw = this.#finishReason
    this.#out.push({
      type: 'finish',
      ...(raw === undefined
        ? { reason: 'content-filter', raw: this.#blockReason! }
        : { reason: readFinishReason(raw, this.#calls > 0), raw }),
      ...(this.#finishMessage === undefined ? {} : { details: this.#finishMessage }),
      ...(this.#filters.size === 0 ? {} : { filters: [...this.#filters.values()] }),
    })
  }

  #fail(error: GatewayError): void {
    this.#ended = true
    this.#out.push({ type: 'error', error })
  }
}

const serviceIn = ({ serviceTier: tier }: Record<string, unknown>): ServiceClass | undefined =>
  typeof tier === 'string' ? { service_tier: classValue(tier) } : undefined

function parseChunk(text: string): unknown {
  try {
    return parseWithExact(text, 'args')
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

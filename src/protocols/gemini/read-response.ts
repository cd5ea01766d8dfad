import { GatewayError } from '../../error.ts'
import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import type { TokenLogprob } from '../../generation/request.ts'
import type { Frame } from '../../http/frames.ts'
import type { Reader } from '../protocol.ts'
import { cutStream } from '../upstream-error.ts'
import { isObject } from '../fields.ts'
import { parseWithExact } from '../../json/exact.ts'
import { readStreamError } from './passthrough.ts'
import { CitationReader } from './citations.ts'
import { PartialArguments } from './partial-arguments.ts'
import { mediaKind } from '../media.ts'
import { finishWord, readFinishReason, readUsage } from './shapes.ts'

/** Members by which a chunk is known; an object without any of them is somebody else's. */
const KNOWN = ['candidates', 'promptFeedback', 'usageMetadata', 'responseId', 'modelVersion']
const FOREIGN = ['executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse', 'audioTranscription']

type Call = {
  id: string
  name: string
  form: 'function' | 'custom'
  args: PartialArguments | undefined
  text: string
  signature: string | undefined
}

/**
 * Chunks of `streamGenerateContent` -> events. The stream has no terminal frame and may say `finishReason` in several
 * chunks
 * before the last, so the finish waits for the end of the bytes; everything else goes out as it comes.
 */
export class ChunkReader implements Reader {
  readonly #citations = new CitationReader()
  #events: GenerationEvent[] = []
  #started = false
  #ended = false
  #part = -1
  #open: PartHead | undefined
  #call: Call | undefined
  #calls = 0
  #id = ''
  #raw: string | undefined
  #blocked: string | undefined
  /** What more it says of an ending that is not the usual one. */
  #message: string | undefined
  #candidate = false
  #usage: Record<string, unknown> = {}
  #usageSaid = ''
  /** Whether usage came with the end, or after it. */
  #usageEnded = false
  /** All visible text, and where the last part of it begins: what citations count in. */
  #text = ''
  #textBase = 0
  /** Where in that text each part of the wire begins. */
  readonly #wireParts: number[] = []
  #hasText = false

  read(frame: Frame): GenerationEvent[] {
    const chunk = parse(frame.data)
    for (const one of Array.isArray(chunk) ? chunk : [chunk]) this.readChunk(one)
    return this.take()
  }

  end(): GenerationEvent[] {
    if (!this.#ended) this.#finish()
    return this.take()
  }

  /** Whether the answer said how it ended, or that it was blocked. */
  get finishing(): boolean {
    return this.#raw !== undefined || this.#blocked !== undefined
  }

  take(): GenerationEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }

  readChunk(chunk: unknown): void {
    if (this.#ended || !isObject(chunk)) return
    const failure = typeof chunk['error'] === 'string' ? { message: chunk['error'] } : chunk['error']
    if (isObject(failure)) return this.#fail(readStreamError(failure))
    if (!KNOWN.some((name) => Object.hasOwn(chunk, name))) return
    this.#start(chunk)
    const candidates = Array.isArray(chunk['candidates']) ? chunk['candidates'].filter(isObject) : []
    // Further candidates are billed, and nobody but a Google client can show them.
    const candidate = candidates.find((one, position) => (one['index'] ?? position) === 0)
    if (candidate !== undefined) this.#readCandidate(candidate)
    const feedback = chunk['promptFeedback']
    // Feedback without a reason is a block only where no candidate has come.
    if (isObject(feedback) && (typeof feedback['blockReason'] === 'string' || !this.#candidate)) {
      this.#blocked = String(feedback['blockReason'] ?? '')
      if (typeof feedback['blockReasonMessage'] === 'string') this.#message = feedback['blockReasonMessage']
    }
    this.#readUsage(chunk['usageMetadata'])
  }

  #start(chunk: Record<string, unknown>): void {
    if (this.#started) return
    this.#started = true
    this.#id = typeof chunk['responseId'] === 'string' ? chunk['responseId'] : ''
    this.#events.push({
      type: 'start',
      id: this.#id,
      model: typeof chunk['modelVersion'] === 'string' ? chunk['modelVersion'] : '',
    })
  }

  #readUsage(usage: unknown): void {
    if (!isObject(usage)) return
    // Running totals: the last word on a count holds, and a chunk that leaves it out takes nothing back.
    Object.assign(this.#usage, usage)
    this.#usageEnded ||= this.finishing && Object.keys(usage).length > 0
    const read = readUsage(this.#usage, this.#citations.searches, this.#usageEnded)
    const said = JSON.stringify(read)
    if (read === undefined || said === this.#usageSaid) return
    this.#usageSaid = said
    this.#events.push({ type: 'usage', usage: read })
  }

  #readCandidate(candidate: Record<string, unknown>): void {
    this.#candidate = true
    if (this.#blocked === '') this.#blocked = undefined
    const content = candidate['content']
    const parts = isObject(content) && Array.isArray(content['parts']) ? content['parts'] : []
    let logprobs = readLogprobs(candidate['logprobsResult'])
    for (const part of parts) {
      this.#wireParts.push(this.#text.length)
      if (!isObject(part)) continue
      this.#readPart(part, logprobs)
      if (typeof part['text'] === 'string' && part['thought'] !== true) logprobs = undefined
    }
    this.#citations.record(candidate)
    this.#raw = finishWord(candidate['finishReason']) ?? this.#raw
    if (typeof candidate['finishMessage'] === 'string' && this.#raw !== 'STOP')
      this.#message = candidate['finishMessage']
  }

  #readPart(part: Record<string, unknown>, logprobs: TokenLogprob[] | undefined): void {
    const signature =
      typeof part['thoughtSignature'] === 'string' && part['thoughtSignature'] !== ''
        ? part['thoughtSignature']
        : undefined
    const { functionCall, inlineData } = part
    if (isObject(functionCall)) return this.#readCall(functionCall, signature)
    if (typeof part['text'] === 'string')
      return this.#readText(part['text'], part['thought'] === true, signature, logprobs)
    if (isObject(inlineData)) return this.#readMedia(inlineData, signature)
    const kind = FOREIGN.find((name) => part[name] !== undefined)
    if (kind !== undefined) this.#whole({ type: 'native', protocol: 'generateContent', kind, value: part }, '')
    else if (signature !== undefined) this.#readText('', part['thought'] === true, signature, undefined)
  }

  #readText(text: string, thought: boolean, signature: string | undefined, logprobs: TokenLogprob[] | undefined): void {
    const type = thought ? 'reasoning' : 'text'
    if (text === '' && signature === undefined && logprobs === undefined) return
    if (this.#open?.type !== type)
      this.#begin(
        thought ? { type: 'reasoning', ...(text === '' ? { redacted: true } : { form: 'summary' }) } : { type: 'text' },
      )
    if (!thought) this.#text += text
    if (text !== '' || logprobs !== undefined)
      this.#events.push({ type: 'part-delta', part: this.#part, text, ...(logprobs === undefined ? {} : { logprobs }) })
    if (signature !== undefined) this.#close(signature)
  }

  #readCall(call: Record<string, unknown>, signature: string | undefined): void {
    const named = typeof call['name'] === 'string' && call['name'] !== ''
    if (named) {
      this.#endCall()
      this.#close()
      const args = call['args']
      this.#call = {
        id: typeof call['id'] === 'string' && call['id'] !== '' ? call['id'] : this.#nextCallId(),
        name: call['name'] as string,
        form: 'function',
        args:
          call['willContinue'] === true || call['partialArgs'] !== undefined ? new PartialArguments(args) : undefined,
        text: isObject(args) ? JSON.stringify(args) : '{}',
        signature,
      }
    }
    if (this.#call === undefined) return
    this.#call.signature ??= signature
    this.#call.args?.add(call['partialArgs'])
    if (call['willContinue'] !== true) this.#endCall()
  }

  #endCall(cut = false): void {
    const call = this.#call
    if (call === undefined) return
    this.#call = undefined
    this.#calls++
    const told = call.args === undefined ? call.text : JSON.stringify(call.args)
    // A call that was cut must not look like a whole one.
    const text = cut ? told.slice(0, -1) : told
    this.#whole({ type: 'tool-call', id: call.id, name: call.name, form: call.form }, text, call.signature)
  }

  /** Unique beyond this answer: a client sends calls of many answers back in one conversation. */
  #nextCallId(): string {
    const answer = this.#id.replace(/[^A-Za-z0-9_-]/g, '').slice(0, 40)
    return `call_${answer === '' ? crypto.randomUUID().replaceAll('-', '') : answer}_${this.#calls}`
  }

  #readMedia(blob: Record<string, unknown>, signature: string | undefined): void {
    const { mimeType, data } = blob
    if (typeof mimeType !== 'string' || typeof data !== 'string') return
    const type = mediaKind(mimeType)
    if (type !== 'image' && type !== 'audio')
      return this.#whole(
        { type: 'native', protocol: 'generateContent', kind: 'inlineData', value: { inlineData: blob } },
        '',
      )
    // Audio comes in pieces of one recording; base64 can be joined as long as no piece is padded.
    if (this.#open?.type !== 'audio' || type !== 'audio' || this.#open.mediaType !== mimeType)
      this.#begin({ type, mediaType: mimeType })
    this.#events.push({ type: 'part-delta', part: this.#part, text: data })
    if (type === 'image' || data.endsWith('=') || data.length % 4 !== 0 || signature !== undefined)
      this.#close(signature)
  }

  #begin(head: PartHead): void {
    this.#endCall()
    this.#close()
    this.#part++
    this.#open = head
    if (head.type === 'text') {
      this.#textBase = this.#text.length
      this.#hasText = true
    }
    this.#events.push({ type: 'part-start', part: this.#part, head })
  }

  #close(signature?: string): void {
    if (this.#open === undefined) return
    this.#open = undefined
    this.#events.push({ type: 'part-end', part: this.#part, ...(signature === undefined ? {} : { signature }) })
  }

  #whole(head: PartHead, text: string, signature?: string): void {
    this.#begin(head)
    if (text !== '') this.#events.push({ type: 'part-delta', part: this.#part, text })
    this.#close(signature)
  }

  #finish(): void {
    if (!this.finishing) return this.#fail(cutStream())
    this.#endCall(this.#raw !== 'STOP')
    this.#close()
    if (this.#hasText)
      for (const citation of this.#citations.read(this.#text, this.#textBase, this.#wireParts))
        this.#whole({ type: 'citation', citation }, '')
    for (const [kind, value] of this.#citations.more(this.#hasText))
      this.#whole({ type: 'native', protocol: 'generateContent', kind, value }, '')
    this.#readUsage({})
    this.#ended = true
    const ending =
      this.#raw === undefined
        ? { reason: 'content-filter' as const, raw: this.#blocked! }
        : { reason: readFinishReason(this.#raw, this.#calls > 0), raw: this.#raw }
    this.#events.push({ type: 'finish', ...ending, ...(this.#message === undefined ? {} : { details: this.#message }) })
  }

  #fail(error: GatewayError): void {
    this.#ended = true
    this.#events.push({ type: 'error', error })
  }
}

/** A whole answer -> events. An array is a stream's chunks in one body, as Google sends them without `alt=sse`. */
export function readResponse(body: unknown): GenerationEvent[] {
  const chunks = Array.isArray(body) ? body : [body]
  const reader = new ChunkReader()
  for (const chunk of chunks) reader.readChunk(chunk)
  // A whole body came whole: an answer that does not say why it ended still ended, though it be empty.
  if (!reader.finishing && isAnswer(body)) reader.readChunk({ candidates: [{ finishReason: 'STOP' }] })
  const events = [...reader.take(), ...reader.end()]
  const failed = events.find((event) => event.type === 'error')
  if (failed === undefined) return events
  if (Array.isArray(body) || (isObject(body) && 'error' in body)) throw failed.error
  throw new GatewayError('upstream_error', "The provider's answer holds no content and does not say why.")
}

const isAnswer = (body: unknown): boolean => isObject(body) && KNOWN.some((name) => Object.hasOwn(body, name))

function parse(text: string): unknown {
  try {
    return parseWithExact(text, 'args')
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function readLogprobs(result: unknown): TokenLogprob[] | undefined {
  if (!isObject(result) || !Array.isArray(result['chosenCandidates'])) return undefined
  const tops = Array.isArray(result['topCandidates']) ? result['topCandidates'] : []
  return result['chosenCandidates'].filter(isObject).map((chosen, index) => {
    const top: unknown = tops[index]
    const candidates =
      isObject(top) && Array.isArray(top['candidates']) ? top['candidates'].filter(isObject).map(readToken) : undefined
    return { ...readToken(chosen), ...(candidates === undefined ? {} : { top: candidates }) }
  })
}

const readToken = (rawRequest: Record<string, unknown>): { token: string; logprob: number } => ({
  token: typeof rawRequest['token'] === 'string' ? rawRequest['token'] : '',
  logprob: typeof rawRequest['logProbability'] === 'number' ? rawRequest['logProbability'] : 0,
})

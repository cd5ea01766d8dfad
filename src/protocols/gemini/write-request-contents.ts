import type { MediaPart, Part, ReasoningPart, ToolCallPart, ToolResultPart, Turn } from '../../generation/request.ts'
import { isReplayableAt, type Signature } from '../../generation/signature.ts'
import { readObject } from '../../json/exact.ts'
import { registeredType, unsupportedMedia } from '../media.ts'
import { rememberWritten, writeTurns } from '../pieces.ts'
import type { Quirks } from '../quirks.ts'
import type { ToolNames } from '../tool-names.ts'
import { orderToolResults } from '../tool-results.ts'
import { BEGUN_BY_ASSISTANT, type Translation } from '../translation.ts'
import { PLACEHOLDER_SIGNATURE, type GeminiContent, type GeminiPart } from './shapes.ts'

const RESOLUTIONS: ReadonlySet<string> = new Set(['low', 'medium', 'high', 'ultra_high'])

/** Writes `contents` and the system instruction of one request. */
export class ContentWriter {
  readonly #translation: Translation
  readonly #names: ToolNames
  #contents: GeminiContent[] = []
  /**
   * Calls of the last assistant turn: Google requires all their results right after them, in the order of the calls.
   */
  #openCalls: ToolCallPart[] = []

  constructor(translation: Translation, names: ToolNames) {
    this.#translation = translation
    this.#names = names
  }

  write(): { system: GeminiPart[]; contents: GeminiContent[] } {
    const { system } = this.#translation.request
    const instructions = this.#writeSystem(system)
    const lead = this.#contents
    this.#contents = []
    writeTurns(this.#translation, this.#contents, (turns) => {
      for (const turn of orderToolResults(turns, this.#translation)) this.#writeTurn(turn)
    })
    if (lead.length === 0) lead.push(...this.#beforeFirstCall())
    const contents = rememberWritten(this.#translation, withLead(lead, this.#contents), lead.length)
    if (contents.length > 0) return { system: instructions, contents }
    if (instructions.length === 0) return { system: [], contents: [{ role: 'user', parts: [{ text: '' }] }] }
    this.#translation.lose(
      'instructions_moved',
      this.#translation.setting('system'),
      'the provider requires a message: the instructions are sent as one',
    )
    return { system: [], contents: [{ role: 'user', parts: instructions }] }
  }

  /** A user's text for a conversation that begins with a call, which Google accepts only after a user's turn. */
  #beforeFirstCall(): GeminiContent[] {
    const [first] = this.#contents
    if (first?.role !== 'model' || !first.parts.some(({ functionCall }) => functionCall !== undefined)) return []
    const { turns } = this.#translation.request
    const turn = turns.find(({ parts }) => parts.some(({ type }) => type === 'tool-call'))!
    this.#translation.lose('turn_added', this.#translation.at(turn), 'the provider requires a user before a tool call')
    return [{ role: 'user', parts: [{ text: BEGUN_BY_ASSISTANT }] }]
  }

  /** The parts of the system instruction. A model that refuses one gets them as tagged text of the user. */
  #writeSystem(system: Part[]): GeminiPart[] {
    const isAccepted = this.#translation.target.capabilities.system !== false
    const parts = system.flatMap((part): GeminiPart[] => {
      if (part.type !== 'text' && part.type !== 'refusal') {
        this.#translation.lose('content_dropped', this.#translation.at(part), 'instructions can contain only text')
        return []
      }
      if (part.text === '') return []
      if (!isAccepted) this.#translation.lose('instructions_moved', this.#translation.at(part))
      return [{ text: part.text }]
    })
    if (isAccepted || parts.length === 0) return parts
    this.#append('user', withTags('system', parts))
    return []
  }

  #writeTurn(turn: Turn): void {
    const { role, parts } = turn
    if (turn.name !== undefined) this.#translation.lose('unsupported_field', this.#translation.at(turn, 'name'))
    if (role === 'assistant') return this.#writeAssistant(parts)
    this.#writeResults(parts.filter((part) => part.type === 'tool-result'))
    if (role === 'tool') return
    const written = parts.flatMap((part) => this.#writePart(part))
    if (role === 'user') return this.#append('user', written)
    if (written.length === 0) return
    this.#translation.lose('instructions_moved', this.#translation.at(turn))
    this.#append('user', withTags(role, written))
  }

  #writeAssistant(parts: readonly Part[]): void {
    const calls = parts.filter((part) => part.type === 'tool-call')
    const isSigned = parts.some((part) => 'signature' in part && this.#isOwn(part.signature))
    const unsigned = this.#unsignedCall(calls)
    const written = parts.flatMap((part): GeminiPart[] => {
      if (part.type === 'tool-call') return [this.#writeCall(part, part === unsigned)]
      // Reasoning of this model has no signature of its own: the part after it has.
      if (part.type === 'reasoning' && part.signature === undefined && isSigned)
        return [{ text: part.text, thought: true }]
      return this.#writePart(part)
    })
    this.#append('model', written)
    for (const call of calls) this.#openCalls.push(call)
  }

  /**
   * The first call of a turn of which no call has a signature of this model. Models that reason by levels refuse it
   * without a signature, and accept a placeholder for a call of another model.
   */
  #unsignedCall(calls: readonly ToolCallPart[]): ToolCallPart | undefined {
    const needsSignature = this.#translation.target.capabilities.reasoning === 'level'
    return needsSignature && !calls.some(({ signature }) => this.#isOwn(signature)) ? calls[0] : undefined
  }

  #writeCall(call: ToolCallPart, isUnsigned: boolean): GeminiPart {
    const signed = this.#writeSignature(call)
    if (isUnsigned) this.#translation.lose('signature_replaced', this.#translation.at(call, 'signature'))
    const args = writeArguments(call)
    if (args === undefined) this.#translation.lose('arguments_dropped', this.#translation.at(call, 'arguments'))
    return {
      functionCall: { id: call.id, name: this.#names.sent(call.name), args: args ?? {} },
      ...(isUnsigned ? { thoughtSignature: PLACEHOLDER_SIGNATURE } : signed),
    }
  }

  /** Writes the results of the open calls. Results without a call follow as text, since Google refuses them. */
  #writeResults(results: readonly ToolResultPart[]): void {
    const unmatched = Map.groupBy(results, ({ callId }) => callId)
    const calls = this.#openCalls.splice(0)
    const following: GeminiPart[] = []
    const parts = calls.map((call) => {
      const result = unmatched.get(call.id)?.shift()
      if (result === undefined) return this.#writeMissingResult(call)
      const media: GeminiPart[] = []
      const part = this.#writeResult(result, call, media)
      const name = this.#names.sent(result.name ?? call.name)
      if (media.length > 0 && calls.length > 1)
        following.push({ text: `Content returned by the tool call ${call.id} (${name}):` })
      following.push(...media)
      return part
    })
    this.#append('user', [...parts, ...following])
    for (const result of [...unmatched.values()].flat()) this.#writeUnmatchedResult(result)
  }

  #writeMissingResult(call: ToolCallPart): GeminiPart {
    this.#translation.lose('result_added', this.#translation.at(call))
    const response = { error: 'No result was given for this call.' }
    return { functionResponse: { id: call.id, name: this.#names.sent(call.name), response } }
  }

  /** `following`: receives media that are not accepted inside the response. */
  #writeResult(result: ToolResultPart, call: ToolCallPart, following: GeminiPart[]): GeminiPart {
    const { capabilities, quirks } = this.#translation.target
    const acceptsMedia = capabilities.reasoning === 'level'
    const texts: string[] = []
    const media: GeminiPart[] = []
    for (const part of result.content) {
      if (part.type === 'text') {
        texts.push(part.text)
        continue
      }
      if (acceptsMedia && part.type !== 'native' && isHeldInResults(part, quirks)) {
        this.#loseResolution(part)
        media.push(this.#writeMediaData(part))
        continue
      }
      const written = this.#writePart(part)
      if (written.length > 0) this.#translation.lose('media_moved', this.#translation.at(part))
      following.push(...written)
    }
    return {
      functionResponse: {
        id: call.id,
        name: this.#names.sent(result.name ?? call.name),
        response: writeResponseObject(texts, result.isError === true),
        ...(media.length > 0 ? { parts: media } : {}),
      },
    }
  }

  #writeUnmatchedResult(result: ToolResultPart): void {
    const { name, callId, content } = result
    this.#translation.lose(
      'content_as_text',
      this.#translation.at(result),
      'it does not follow its call: sent as text of the user',
    )
    const parts = content.flatMap((part) => this.#writePart(part))
    this.#append('user', [{ text: `Result of ${name ?? callId}:` }, ...parts])
  }

  #writePart(part: Part): GeminiPart[] {
    switch (part.type) {
      case 'text': {
        const signed = this.#writeSignature(part)
        return part.text === '' && signed === undefined ? [] : [{ text: part.text, ...signed }]
      }
      case 'refusal':
        this.#translation.lose('content_as_text', this.#translation.at(part))
        return part.text === '' ? [] : [{ text: part.text }]
      case 'reasoning':
        return this.#writeReasoning(part)
      case 'image':
      case 'audio':
      case 'video':
      case 'file':
        return [this.#writeMedia(part)]
      case 'native':
        if (part.protocol === 'generateContent') return [part.value as GeminiPart]
        this.#translation.lose('content_native', this.#translation.at(part))
        return []
      // Calls and results are written by their turns.
      case 'tool-call':
      case 'tool-result':
        return []
    }
  }

  #writeReasoning(part: ReasoningPart): GeminiPart[] {
    if (part.signature !== undefined && this.#isOwn(part.signature))
      return [{ text: part.text, thought: true, thoughtSignature: part.signature.data }]
    this.#translation.lose('reasoning_dropped', this.#translation.at(part))
    return []
  }

  #writeMedia(part: MediaPart): GeminiPart {
    return { ...this.#writeMediaData(part), ...this.#writeResolution(part), ...this.#writeSignature(part) }
  }

  #writeMediaData(part: MediaPart): GeminiPart {
    const { source } = part
    if (part.filename !== undefined) this.#translation.lose('unsupported_field', this.#translation.at(part, 'filename'))
    switch (source.type) {
      case 'data':
        return { inlineData: { mimeType: registeredType(source.mediaType), data: source.data } }
      case 'text':
        return { inlineData: { mimeType: 'text/plain', data: Buffer.from(source.text).toString('base64') } }
      case 'url': {
        const mimeType = source.mediaType ?? mediaTypeOfUrl(source.url)
        return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri: source.url } }
      }
      case 'file':
        throw unsupportedMedia(part, this.#translation, 'a file that is stored elsewhere')
    }
  }

  #writeResolution(part: MediaPart): GeminiPart {
    const { detail } = part
    if (detail === undefined || detail === 'auto') return {}
    const path = this.#translation.at(part, 'detail')
    if (RESOLUTIONS.has(detail) && this.#translation.target.capabilities.reasoning === 'level') {
      this.#translation.lose('detail_adjusted', path)
      return { mediaResolution: { level: `MEDIA_RESOLUTION_${detail.toUpperCase()}` } }
    }
    this.#translation.lose('unsupported_by_model', path)
    return {}
  }

  /** Media inside a function response have no resolution of their own: Google refuses the member there. */
  #loseResolution(part: MediaPart): void {
    if (part.detail === undefined || part.detail === 'auto') return
    const reason = 'media inside the result of a tool have no resolution of their own'
    this.#translation.lose('unsupported_field', this.#translation.at(part, 'detail'), reason)
  }

  #isOwn(signature: Signature | undefined): boolean {
    return signature !== undefined && isReplayableAt(signature, this.#translation.target, false)
  }

  /** The signature of this model. An empty one of another model is no loss: it only marks a call as that model's. */
  #writeSignature(part: Part & { signature?: Signature }): { thoughtSignature: string } | undefined {
    const { signature } = part
    if (signature === undefined) return undefined
    if (this.#isOwn(signature)) return { thoughtSignature: signature.data }
    if (signature.data !== '') this.#translation.lose('signature_dropped', this.#translation.at(part, 'signature'))
    return undefined
  }

  #append(role: GeminiContent['role'], parts: readonly GeminiPart[]): void {
    if (parts.length === 0) return
    const last = this.#contents.at(-1)
    if (last?.role === role) for (const part of parts) last.parts.push(part)
    else this.#contents.push({ role, parts: [...parts] })
  }
}

/** The contents with instructions before them, which become a part of the user's first content. */
function withLead([lead]: readonly GeminiContent[], contents: GeminiContent[]): GeminiContent[] {
  const [first] = contents
  if (lead === undefined) return contents
  return first?.role === lead.role
    ? contents.with(0, { role: lead.role, parts: [...lead.parts, ...first.parts] })
    : [lead, ...contents]
}

const withTags = (role: string, parts: readonly GeminiPart[]): GeminiPart[] => [
  { text: `<${role}>\n` },
  ...parts,
  { text: `\n</${role}>` },
]

/**
 * Reports whether the response of a function may contain a medium. Audio and video are refused: "is not supported in
 * `function_response.parts`".
 */
const isHeldInResults = ({ type, source }: MediaPart, { resultUrls }: Quirks): boolean =>
  (type === 'image' || type === 'file') && (source.type !== 'url' || resultUrls === true)

/** Arguments as an object with order and numbers kept; undefined for text that is cut or not an object. */
function writeArguments({ arguments: text, form }: ToolCallPart): Record<string, unknown> | undefined {
  if (form === 'custom') return { input: text }
  return text.trim() === '' ? {} : readObject(text)
}

/** The response of a function, which must be an object: the result itself if it is one, else in Google's envelopes. */
function writeResponseObject(texts: readonly string[], isError: boolean): Record<string, unknown> {
  const text = texts.join('\n')
  if (isError) return { error: text }
  return (texts.length === 1 ? readObject(text) : undefined) ?? { output: text }
}

const TYPE_BY_EXTENSION: ReadonlyMap<string, string> = new Map(
  Object.entries({
    png: 'image/png',
    jpg: 'image/jpeg',
    jpeg: 'image/jpeg',
    webp: 'image/webp',
    gif: 'image/gif',
    heic: 'image/heic',
    pdf: 'application/pdf',
    txt: 'text/plain',
    mp3: 'audio/mp3',
    wav: 'audio/wav',
    mp4: 'video/mp4',
    mov: 'video/mov',
    webm: 'video/webm',
    mpeg: 'video/mpeg',
  }),
)

/** The media type by the extension of a URL; undefined leaves it to Google. */
const mediaTypeOfUrl = (url: string): string | undefined =>
  TYPE_BY_EXTENSION.get(/\.([a-z0-9]+)(?:[?#]|$)/i.exec(url)?.[1]?.toLowerCase() ?? '')

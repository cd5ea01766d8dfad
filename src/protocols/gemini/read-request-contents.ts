import { invalid } from '../../error.ts'
import { parseExact } from '../../json/exact.ts'
import type {
  MediaPart,
  MediaSource,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../generation/request.ts'
import { unwrapSignature, type Signature } from '../../generation/signature.ts'
import type { RawRequest } from '../protocol.ts'
import { collectExtras } from '../extras.ts'
import { isObject } from '../fields.ts'
import { checkBase64, mediaKind } from '../media.ts'
import { either, GoogleFields } from './fields.ts'
import { readResolution } from './read-request-config.ts'
import { HIDDEN, INLINE_TYPES } from './shapes.ts'

/** Content only Google understands; each name is a member of `Part`. */
const FOREIGN = ['executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse', 'audioTranscription'] as const

/** Searches that the provider ran beside functions. */
const OPTIONAL: ReadonlySet<string> = new Set(['toolCall', 'toolResponse'])

/** `contents` and `systemInstruction` -> turns. Lives as long as one request. */
export class ContentReader {
  readonly turns: Turn[] = []
  readonly #extras: Record<string, unknown>
  /** The contents with every number as it was spelled, for arguments and results. */
  readonly #exact: unknown
  /** Calls without an answer yet, oldest first. `given`: the id is the client's own. */
  readonly #open: { id: string; name: string; given: boolean }[] = []

  constructor(rawRequest: RawRequest, extras: Record<string, unknown>) {
    this.#extras = extras
    this.#exact = either(exactly(rawRequest), 'contents')
  }

  read(contents: GoogleFields[]): Turn[] {
    for (const [index, content] of contents.entries()) this.#readContent(content, index)
    return this.turns
  }

  /** `systemInstruction`: a Content of any role, or bare text as some clients send it. */
  readSystem(body: GoogleFields): Part[] {
    const value = body.take('systemInstruction')
    if (value === undefined) return []
    if (typeof value === 'string') return [{ type: 'text', text: value }]
    const content = new GoogleFields(value, body.at('systemInstruction'))
    content.string('role')
    const parts = (content.objects('parts') ?? []).flatMap((part) => this.#readPart(part, 'system', undefined))
    collectExtras(content, this.#extras)
    return parts.map((part) => {
      if (part.type === 'tool-result' || part.type === 'tool-call')
        throw invalid(content.at('parts'), 'must not hold function calls or responses')
      return part
    })
  }

  #readContent(content: GoogleFields, index: number): void {
    const role = content.oneOf('role', ['user', 'model'])
    content.require('parts', content.array('parts', { min: 1, of: 'parts' }), 'an array of at least one part')
    const turns: Turn[] = []
    const results: ToolResultPart[] = []
    for (const [number, part] of content.objects('parts')!.entries()) {
      const exact = elementOf(either(elementOf(this.#exact, index), 'parts'), number)
      for (const read of this.#readPart(part, role ?? 'user', { turn: index, number, exact })) {
        if (read.type === 'tool-result') results.push(read)
        else {
          // A call or a thought is the model's, whatever its content says.
          const speaker =
            role === 'model' || read.type === 'tool-call' || read.type === 'reasoning' ? 'assistant' : 'user'
          if (turns.at(-1)?.role !== speaker) turns.push({ role: speaker, parts: [] })
          merge(turns.at(-1)!.parts, read)
        }
      }
    }
    collectExtras(content, this.#extras)
    if (results.length > 0) this.#addResults(results)
    // Google's SDK keeps every chunk of a stream as a content of its own.
    const before = this.turns.at(-1)
    if (before?.role === 'assistant' && turns[0]?.role === 'assistant')
      for (const part of turns.shift()!.parts) if (!joined(before.parts.at(-1), part)) merge(before.parts, part)
    for (const turn of turns) this.turns.push(turn)
  }

  #addResults(results: ToolResultPart[]): void {
    const last = this.turns.at(-1)
    if (last?.role === 'tool') for (const result of results) last.parts.push(result)
    else this.turns.push({ role: 'tool', parts: results })
  }

  #readPart(part: GoogleFields, role: 'user' | 'model' | 'system', place: Place | undefined): Part[] {
    const thought = part.boolean('thought') === true
    const signatureText = part.string('thoughtSignature')
    const unwrapped = signatureText === undefined ? undefined : unwrapSignature(signatureText)
    const signature = unwrapped?.data === '' ? undefined : unwrapped
    const detail = readResolution(part.take('mediaResolution'), part.at('mediaResolution'))
    this.#checkVideo(part)
    const text = part.string('text')
    const inline = part.object('inlineData')
    const file = part.object('fileData')
    const call = part.object('functionCall')
    const response = part.object('functionResponse')
    const read: Part[] = []
    if (text !== undefined) read.push(thought ? { type: 'reasoning', text } : { type: 'text', text })
    if (inline !== undefined) read.push(this.#readInline(inline, role, detail))
    if (file !== undefined) read.push(this.#readFile(file, detail))
    if (call !== undefined) read.push(this.#readCall(call, place))
    if (response !== undefined) read.push(this.#readResponse(response, place))
    for (const kind of FOREIGN)
      if (part.object(kind) !== undefined)
        read.push({
          type: 'native',
          protocol: 'generateContent',
          kind,
          value: part.value,
          path: part.at(kind),
          ...(OPTIONAL.has(kind) ? { optional: true } : {}),
        })
    // A signature may come with nothing but itself.
    if (read.length === 0 && signature !== undefined)
      read.push(thought ? { type: 'reasoning', text: '' } : { type: 'text', text: '' })
    if (read.length === 0)
      throw invalid(part.path, 'must have one of text, inlineData, fileData, functionCall, functionResponse')
    collectExtras(part, this.#extras)
    const signed =
      signature === undefined
        ? undefined
        : read.find(
            (one) => 'type' in one && one.type !== 'tool-result' && one.type !== 'native' && one.type !== 'refusal',
          )
    if (signed !== undefined) Object.assign(signed, { signature })
    return read
  }

  #checkVideo(part: GoogleFields): void {
    const video = part.object('videoMetadata')
    if (video === undefined) return
    for (const name of ['startOffset', 'endOffset']) {
      const value = video.take(name)
      if (value === undefined || (typeof value === 'string' && /^\d+(\.\d+)?s$/.test(value))) continue
      video.number(name, { min: 0 })
    }
    video.number('fps', { min: 0 })
    this.#extras[part.at('videoMetadata')] = video.value
  }

  #readInline(blob: GoogleFields, role: 'user' | 'model' | 'system', detail: string | undefined): MediaPart {
    const mediaType = blob.require('mimeType', blob.string('mimeType'), 'the media type of the data')
    // A model's own media (audio with its sample rate, for one) comes back in the history as it went out.
    if (role !== 'model' && !INLINE_TYPES.has(mediaType.toLowerCase()))
      throw invalid(
        blob.at('mimeType'),
        `must be one of ${[...INLINE_TYPES].join(', ')}, not '${mediaType.slice(0, 64)}'`,
      )
    const data = checkBase64(blob.require('data', blob.string('data'), 'the bytes in base64'), blob.at('data'))
    const filename = blob.string('displayName')
    collectExtras(blob, this.#extras)
    return media(
      mediaType,
      { type: 'data', mediaType, data: data.replaceAll('-', '+').replaceAll('_', '/') },
      detail,
      filename,
    )
  }

  #readFile(file: GoogleFields, detail: string | undefined): MediaPart {
    const url = file.require('fileUri', file.string('fileUri'), 'where the file is')
    const mediaType = file.string('mimeType')
    const filename = file.string('displayName')
    collectExtras(file, this.#extras)
    const typed = mediaType === undefined ? {} : { mediaType }
    return media(
      mediaType ?? '',
      url.startsWith('file-') ? { type: 'file', id: url, ...typed } : { type: 'url', url, ...typed },
      detail,
      filename,
    )
  }

  #readCall(call: GoogleFields, place: Place | undefined): ToolCallPart {
    const name = call.require('name', call.string('name'), 'the name of the called function')
    const id = call.string('id')
    const args = call.object('args')
    collectExtras(call, this.#extras)
    const known = id ?? idAt(place)
    this.#open.push({ id: known, name, given: id !== undefined })
    return {
      type: 'tool-call',
      id: known,
      name,
      arguments: args === undefined ? '{}' : exactText(place, 'functionCall', 'args', args.value),
      form: 'function',
    }
  }

  #readResponse(response: GoogleFields, place: Place | undefined): ToolResultPart {
    const given = response.string('id')
    const named = response.string('name')
    const call = this.#answered(given, named)
    const name = named ?? call?.name
    if (name === undefined) throw invalid(response.at('name'), 'is required: the name of the function that was called')
    const value = response.object('response')
    const content = value === undefined ? [] : readResult(value.value, place)
    const media = response.objects('parts')?.map((part) => this.#readResultPart(part)) ?? []
    const isError = value !== undefined && only(value.value, 'error')
    collectExtras(response, this.#extras)
    return {
      type: 'tool-result',
      callId: call?.id ?? given ?? `${idAt(place)}_result`,
      name,
      content: [...content, ...media],
      form: 'function',
      ...(isError ? { isError } : {}),
    }
  }

  #readResultPart(part: GoogleFields): MediaPart {
    const inline = part.object('inlineData')
    const file = part.object('fileData')
    const detail = readResolution(part.take('mediaResolution'), part.at('mediaResolution'))
    collectExtras(part, this.#extras)
    if (inline !== undefined) return this.#readInline(inline, 'user', detail)
    if (file !== undefined) return this.#readFile(file, detail)
    throw invalid(part.path, 'must have inlineData or fileData')
  }

  /**
   * The call that a result answers: by id, else the oldest open one of that name. Where the id is new, only calls that
   * came without one.
   */
  #answered(id: string | undefined, name: string | undefined): { id: string; name: string } | undefined {
    const byId = id === undefined ? -1 : this.#open.findIndex((call) => call.id === id)
    const index =
      byId >= 0 ? byId : this.#open.findIndex((call) => (id === undefined || !call.given) && call.name === name)
    return index < 0 ? undefined : this.#open.splice(index, 1)[0]
  }
}

type Place = { turn: number; number: number; exact: unknown }

/**
 * The same call gets the same id in every later request, since it stands in the same place: prefixes stay as they were.
 */
const idAt = (place: Place | undefined): string => `call_${place?.turn ?? 0}_${place?.number ?? 0}`

const media = (
  mediaType: string,
  source: MediaSource,
  detail: string | undefined,
  filename: string | undefined,
): MediaPart => ({
  type: mediaKind(mediaType),
  source,
  ...(detail === undefined ? {} : { detail }),
  ...(filename === undefined ? {} : { filename }),
})

/** Whether a piece of text went to the text before it. */
function joined(last: Part | undefined, read: Part): boolean {
  if (last?.type !== 'text' || read.type !== 'text' || last.signature !== undefined || read.signature !== undefined)
    return false
  last.text += read.text
  return true
}

/** Streamed answers come back in pieces: a piece that only carries the signature belongs to the text before it. */
function merge(parts: Part[], read: Part): void {
  const last = parts.at(-1)
  if (read.type === 'reasoning' && read.text !== '' && last?.type === 'reasoning' && last.signature === undefined) {
    last.text += read.text
    if (read.signature !== undefined) last.signature = read.signature
    return
  }
  if (!isWritten(read) || read.text !== '' || read.signature === undefined) {
    parts.push(read)
    return
  }
  if (last !== undefined && isWritten(last) && last.type === read.type && last.signature === undefined)
    last.signature = read.signature
  else parts.push(read.type === 'reasoning' && isHidden(read.signature) ? { ...read, redacted: true } : read)
}

/**
 * Google's own thoughts without a text are hidden ones; what its protocol cannot tell apart of others' stands in their
 * seal.
 */
const isHidden = ({ issuer, note }: Signature): boolean => issuer === undefined || note === HIDDEN

const isWritten = (part: Part): part is TextPart | ReasoningPart => part.type === 'text' || part.type === 'reasoning'

/** `{output}` and `{error}` are Google's envelopes for plain results; any other object is the result itself. */
function readResult(response: Record<string, unknown>, place: Place | undefined): TextPart[] {
  const wrapped = ['output', 'error'].find((name) => only(response, name))
  if (wrapped !== undefined && typeof response[wrapped] === 'string') return [{ type: 'text', text: response[wrapped] }]
  const text = exactText(place, 'functionResponse', 'response', response, wrapped)
  return [{ type: 'text', text }]
}

const only = (value: Record<string, unknown>, name: string): boolean =>
  Object.hasOwn(value, name) && Object.keys(value).length === 1

/** JSON text of a member with its numbers as they were spelled, where the exact tree has it. */
function exactText(
  place: Place | undefined,
  part: string,
  member: string,
  value: Record<string, unknown>,
  inside?: string,
): string {
  const exact = either(either(place?.exact, part), member)
  const found = isObject(exact) ? exact : value
  return JSON.stringify(inside === undefined ? found : found[inside])
}

function exactly(rawRequest: RawRequest): unknown {
  try {
    return parseExact(rawRequest.text)
  } catch (error) {
    if (error instanceof SyntaxError) return rawRequest.body
    throw error
  }
}

const elementOf = (value: unknown, index: number): unknown => (Array.isArray(value) ? value[index] : undefined)

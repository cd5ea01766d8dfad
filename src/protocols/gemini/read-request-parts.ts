import { invalid } from '../../error.ts'
import type {
  MediaPart,
  MediaSource,
  NativePart,
  Part,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../generation/request.ts'
import { unwrapSignature } from '../../generation/signature.ts'
import { collectExtras, type Extras, present, refuseUnreadable } from '../fields.ts'
import { parseExact } from '../../json/exact.ts'
import { isObject } from '../../json/parse.ts'
import { checkBase64, checkMediaType, mediaKind } from '../media.ts'
import type { RawRequest } from '../protocol.ts'
import { either, type GoogleFields } from './fields.ts'
import { stepsOf } from './hosted-tools.ts'
import { readResolution } from './read-request-config.ts'
import { NATIVE_PARTS } from './shapes.ts'

/** Records of searches that the provider ran beside functions: a conversation is complete without them. */
const OPTIONAL: ReadonlySet<string> = new Set(['toolCall', 'toolResponse'])

/** The position of a part in `contents`. */
type PartPosition = { content: number; number: number }

/** A call without a response. `hasOwnId`: the id is the client's. */
export type OpenCall = { id: string; name: string; hasOwnId: boolean }

/** Reads the parts of one request, and matches function responses with calls. */
export class PartReader {
  readonly #rawRequest: RawRequest
  readonly #reading: { readonly extras: Extras }
  /** Oldest first. */
  #openCalls: OpenCall[] = []
  /** The contents with numbers as they were spelled, for arguments and results; parsed when they are first needed. */
  #exact: unknown

  constructor(rawRequest: RawRequest, reading: { readonly extras: Extras }) {
    this.#rawRequest = rawRequest
    this.#reading = reading
  }

  /** The calls that wait for their responses. */
  get openCalls(): OpenCall[] {
    return [...this.#openCalls]
  }

  /** Continues with these calls. */
  open(calls: readonly OpenCall[]): void {
    this.#openCalls = [...calls]
  }

  /** `position`: absent in the system instruction. */
  read(part: GoogleFields, position: PartPosition | undefined): Part[] {
    try {
      return this.#read(part, position)
    } catch (error) {
      refuseUnreadable(error, this.#reading.extras)
      return [nativePart(part, 'part')]
    }
  }

  #read(part: GoogleFields, position: PartPosition | undefined): Part[] {
    const isReasoning = part.boolean('thought') === true
    const signatureText = part.string('thoughtSignature')
    const detail = readResolution(part)
    this.#readVideoMetadata(part)
    const read = [...this.#readContent(part, isReasoning, detail, position), ...readNative(part)]
    const unwrapped = signatureText === undefined ? undefined : unwrapSignature(signatureText)
    const signature = unwrapped?.data === '' ? undefined : unwrapped
    // A part may consist of only a signature.
    if (read.length === 0 && signature !== undefined)
      read.push({ type: isReasoning ? 'reasoning' : 'text', text: '', path: part.path })
    if (read.length === 0)
      throw invalid(part.path, 'must have one of text, inlineData, fileData, functionCall, functionResponse')
    collectExtras(part, this.#reading.extras)
    const signed = signature === undefined ? undefined : read.find(canBeSigned)
    if (signed !== undefined) Object.assign(signed, { signature })
    return read
  }

  #readContent(
    part: GoogleFields,
    isReasoning: boolean,
    detail: string | undefined,
    position: PartPosition | undefined,
  ): Part[] {
    const text = part.string('text')
    const inline = part.object('inlineData')
    const file = part.object('fileData')
    const call = part.object('functionCall')
    const response = part.object('functionResponse')
    const { path } = part
    const read: Part[] = []
    if (text !== undefined) read.push({ type: isReasoning ? 'reasoning' : 'text', text, path })
    if (inline !== undefined) read.push({ ...this.#readInline(inline, detail), path })
    if (file !== undefined) read.push({ ...this.#readFile(file, detail), path })
    if (call !== undefined) read.push({ ...this.#readCall(call, position), path })
    if (response !== undefined) read.push({ ...this.#readResponse(response, position), path })
    return read
  }

  #readVideoMetadata(part: GoogleFields): void {
    const video = part.object('videoMetadata')
    if (video === undefined) return
    for (const name of ['startOffset', 'endOffset']) {
      const value = video.take(name)
      if (value === undefined || (typeof value === 'string' && /^\d+(\.\d+)?s$/.test(value))) continue
      video.number(name, { min: 0 })
    }
    video.number('fps', { min: 0 })
    this.#reading.extras[part.at('videoMetadata')] = video.value
  }

  #readInline(blob: GoogleFields, detail: string | undefined): MediaPart {
    const named = blob.require('mimeType', blob.string('mimeType'), 'the media type of the data')
    const mediaType = checkMediaType(named, blob.at('mimeType'))
    const data = checkBase64(blob.require('data', blob.string('data'), 'the data in base64'), blob.at('data'))
    const filename = blob.string('displayName')
    const standard = data.replaceAll('-', '+').replaceAll('_', '/')
    return mediaPart(mediaType, { type: 'data', mediaType, data: standard }, detail, filename)
  }

  #readFile(file: GoogleFields, detail: string | undefined): MediaPart {
    const url = file.require('fileUri', file.string('fileUri'), 'the URI of the file')
    const mediaType = file.string('mimeType')
    const filename = file.string('displayName')
    const typed = mediaType === undefined ? {} : { mediaType }
    return mediaPart(
      mediaType ?? '',
      url.startsWith('file-') ? { type: 'file', id: url, ...typed } : { type: 'url', url, ...typed },
      detail,
      filename,
    )
  }

  #readCall(call: GoogleFields, position: PartPosition | undefined): ToolCallPart {
    const name = call.require('name', call.string('name'), 'the name of the called function')
    const ownId = call.string('id')
    const args = call.record('args')
    const id = ownId ?? idAt(position)
    this.#openCalls.push({ id, name, hasOwnId: ownId !== undefined })
    return {
      type: 'tool-call',
      id,
      name,
      arguments: args === undefined ? '{}' : this.#exactText(position, 'functionCall', 'args', args),
      form: 'function',
    }
  }

  #readResponse(response: GoogleFields, position: PartPosition | undefined): ToolResultPart {
    const ownId = response.string('id')
    const ownName = response.string('name')
    const call = this.#takeCall(ownId, ownName)
    const name = ownName ?? call?.name
    if (name === undefined) throw invalid(response.at('name'), 'is required: the name of the function that was called')
    const value = response.record('response')
    const content = value === undefined ? [] : [this.#readResult(value, response.at('response'), position)]
    const media = withLabels(response.objects('parts')?.map((part) => this.#readResponsePart(part)) ?? [], value)
    const isError = value !== undefined && isOnlyMember(value, 'error')
    return {
      type: 'tool-result',
      callId: call?.id ?? ownId ?? `${idAt(position)}_result`,
      name,
      content: [...content, ...media],
      form: 'function',
      ...(isError ? { isError } : {}),
    }
  }

  #readResponsePart(part: GoogleFields): MediaPart {
    const { path } = part
    const inline = part.object('inlineData')
    const file = part.object('fileData')
    const detail = readResolution(part)
    if (inline !== undefined) return { ...this.#readInline(inline, detail), path }
    if (file !== undefined) return { ...this.#readFile(file, detail), path }
    throw invalid(path, 'must have inlineData or fileData')
  }

  /**
   * Takes the open call with this id, else the oldest one with this name. An unknown id can only answer a call that
   * came without an id.
   */
  #takeCall(id: string | undefined, name: string | undefined): { id: string; name: string } | undefined {
    const byId = id === undefined ? -1 : this.#openCalls.findIndex((call) => call.id === id)
    const index =
      byId >= 0 ? byId : this.#openCalls.findIndex((call) => (id === undefined || !call.hasOwnId) && call.name === name)
    return index < 0 ? undefined : this.#openCalls.splice(index, 1)[0]
  }

  /** `{output}` and `{error}` are Google's envelopes of plain results; any other object is the result itself. */
  #readResult(value: Record<string, unknown>, path: string, position: PartPosition | undefined): TextPart {
    const envelope = ['output', 'error'].find((name) => isOnlyMember(value, name))
    const inner = envelope === undefined ? undefined : value[envelope]
    return {
      type: 'text',
      text:
        typeof inner === 'string' ? inner : this.#exactText(position, 'functionResponse', 'response', value, envelope),
      path: envelope === undefined ? path : `${path}.${envelope}`,
    }
  }

  /** The JSON text of a member of a part with numbers as they were spelled. `inside`: of this member of it. */
  #exactText(
    position: PartPosition | undefined,
    name: 'functionCall' | 'functionResponse',
    member: 'args' | 'response',
    value: Record<string, unknown>,
    inside?: string,
  ): string {
    const text = JSON.stringify(inside === undefined ? value : value[inside])
    // A double spells other numbers than whole ones, and some whole ones, in another way.
    if (position === undefined || !NUMBER.test(text)) return text
    this.#exact ??= exactContents(this.#rawRequest)
    const part = elementAt(either(elementAt(this.#exact, position.content), 'parts'), position.number)
    const exact = either(either(part, name), member)
    return isObject(exact) ? JSON.stringify(inside === undefined ? exact : exact[inside]) : text
  }
}

/** A number in a JSON text; one beyond the range of a double is written as null. */
const NUMBER = /(?:^|[:,[])(?:-?\d|null)/

const readNative = (part: GoogleFields): NativePart[] =>
  NATIVE_PARTS.flatMap((kind): NativePart[] =>
    part.record(kind) === undefined
      ? []
      : [
          {
            type: 'native',
            protocol: 'generateContent',
            kind,
            value: part.value,
            path: part.at(kind),
            ...(OPTIONAL.has(kind) ? { optional: true } : {}),
            ...present('steps', stepsOf(kind, part.value)),
          },
        ],
  )

/** A part or a content that only this protocol knows. */
export const nativePart = (fields: GoogleFields, kind: string): NativePart => ({
  type: 'native',
  protocol: 'generateContent',
  kind,
  value: fields.whole(),
  path: fields.path,
})

/**
 * Media of a result to which its value refers by their names, as `{"$ref": "a.png"}`, with the name as a label. Files
 * have a name in every protocol.
 */
function withLabels(media: MediaPart[], value: Record<string, unknown> | undefined): MediaPart[] {
  const canBeLabelled = ({ type, filename }: MediaPart): boolean => type !== 'file' && filename !== undefined
  if (value === undefined || !media.some(canBeLabelled)) return media
  const text = JSON.stringify(value)
  return media.map((part) => {
    if (!canBeLabelled(part) || !text.includes(`"$ref":${JSON.stringify(part.filename)}`)) return part
    const { filename, ...rest } = part
    return { ...rest, label: filename! }
  })
}

const canBeSigned = ({ type }: Part): boolean => type !== 'tool-result' && type !== 'native' && type !== 'refusal'

/** An id that depends on the position only, so that it is the same in all later requests and prefixes stay equal. */
const idAt = (position: PartPosition | undefined): string => `call_${position?.content ?? 0}_${position?.number ?? 0}`

const mediaPart = (
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

const isOnlyMember = (value: Record<string, unknown>, name: string): boolean =>
  Object.hasOwn(value, name) && Object.keys(value).length === 1

function exactContents({ text, body }: RawRequest): unknown {
  try {
    return either(parseExact(text), 'contents')
  } catch (error) {
    if (error instanceof SyntaxError) return either(body, 'contents')
    throw error
  }
}

const elementAt = (value: unknown, index: number): unknown => (Array.isArray(value) ? value[index] : undefined)

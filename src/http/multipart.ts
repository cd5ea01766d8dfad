import { isUtf8 } from 'node:buffer'
import { GatewayError, invalid } from '../error.ts'

/**
 * What stands above the content of a part. `filename`: as it was sent, which may be any text without control
 * characters.
 */
export type PartHead = { name: string; filename: string | undefined; mediaType: string | undefined }

/** A part begins, goes on, ends. */
export type MultipartEvent = { part: PartHead } | { bytes: Uint8Array } | { end: true }

const MOST_PARTS = 64
const MOST_HEAD_BYTES = 16 * 1024
const MOST_HEADERS = 16
/** Of what stands before the first boundary and after the last one, which nobody reads. */
const MOST_IGNORED_BYTES = 8 * 1024
/** Of the white space that may follow a boundary in its line. */
const MOST_PADDING_BYTES = 64

/** A body has so many bytes more than its file at most, with all its other parts and boundaries. */
export const MULTIPART_OVERHEAD_BYTES = 1024 * 1024

/**
 * The boundary that a Content-Type names (RFC 2046, 5.1.1). GatewayError unsupported_media_type, or invalid_request
 * where it names none that can be one.
 */
export function boundaryOf(contentType: string | null): string {
  if (contentType === null || !/^multipart\/form-data[ \t]*(?:;|$)/i.test(contentType))
    throw new GatewayError('unsupported_media_type', 'Content-Type must be multipart/form-data.')
  const named = [...contentType.matchAll(/;[ \t]*boundary=(?:"([^"]*)"|([^\s;"]*))/gi)].map(
    ([, quoted, plain]) => quoted ?? plain ?? '',
  )
  const [boundary] = named
  if (boundary === undefined || named.length > 1 || !/^[\w'()+,\-./:=? ]{0,69}[\w'()+,\-./:=?]$/.test(boundary))
    throw malformed('its Content-Type must name one boundary of 1 to 70 characters')
  return boundary
}

/**
 * Reads a multipart/form-data body (RFC 7578) as it comes, holding no more of it than a part's head or the beginning of
 * a boundary.
 * What could be read in two ways is refused. Every method throws GatewayError invalid_request.
 */
export class MultipartReader {
  /** With the line break before it, which belongs to it. */
  readonly #delimiter: Buffer
  #state: 'preamble' | 'boundary' | 'head' | 'content' | 'epilogue' = 'preamble'
  /** As if a line had ended before the first one. */
  #rest: Buffer = Buffer.from('\r\n')
  #parts = 0
  #ignored = 0

  constructor(boundary: string) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  }

  /** What the next piece of the body says. The bytes are views of it; nothing of it is kept. */
  *read(piece: Uint8Array): Generator<MultipartEvent> {
    yield* this.#readOn(piece)
    this.#rest = Buffer.from(this.#rest)
  }

  *#readOn(piece: Uint8Array): Generator<MultipartEvent> {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    for (;;) {
      const before = this.#state
      if (before === 'content') yield* this.#readContent()
      else if (before === 'head') yield* this.#readHead()
      else if (before === 'boundary') this.#readBoundary()
      else if (before === 'preamble') this.#skipPreamble()
      else return this.#skipEpilogue()
      if (this.#state === before) return
    }
  }

  /** The body has ended. */
  end(): void {
    if (this.#state !== 'epilogue') throw malformed('it must end with its closing boundary')
  }

  #skipPreamble(): void {
    const at = this.#rest.indexOf(this.#delimiter)
    this.#ignore(this.#take(at < 0 ? this.#safe() : at).length)
    if (at >= 0) this.#pass()
  }

  /** Another parser might go on to a later end: what stands between would be lost without a word. */
  #skipEpilogue(): void {
    if (this.#rest.includes(this.#delimiter)) throw malformed('nothing after its closing boundary may look like one')
    this.#ignore(this.#take(this.#safe()).length)
  }

  *#readContent(): Generator<MultipartEvent> {
    const at = this.#rest.indexOf(this.#delimiter)
    const bytes = this.#take(at < 0 ? this.#safe() : at)
    if (bytes.length > 0) yield { bytes }
    if (at < 0) return
    this.#pass()
    yield { end: true }
  }

  #pass(): void {
    this.#take(this.#delimiter.length)
    this.#state = 'boundary'
  }

  /** The rest of a boundary's line: nothing, or that it is the last. */
  #readBoundary(): void {
    if (this.#rest.length >= 2 && this.#rest.toString('latin1', 0, 2) === '--') {
      this.#take(2)
      this.#state = 'epilogue'
      return
    }
    const end = this.#rest.indexOf('\r\n')
    const padding = this.#rest.toString('latin1', 0, end < 0 ? undefined : end)
    const isPadding = end < 0 ? /^[ \t]*\r?$|^-$/ : /^[ \t]*$/
    if (padding.length > MOST_PADDING_BYTES || !isPadding.test(padding))
      throw malformed('a line that begins with its boundary must have nothing else, and end with CR and LF')
    if (end < 0) return
    if ((this.#parts += 1) > MOST_PARTS) throw malformed(`it must have at most ${MOST_PARTS} parts`)
    this.#take(end)
    this.#state = 'head'
  }

  *#readHead(): Generator<MultipartEvent> {
    // The line break of the boundary's line still stands before it, so that a head without a line is found, too.
    const end = this.#rest.indexOf('\r\n\r\n')
    if ((end < 0 ? this.#rest.length : end) > MOST_HEAD_BYTES)
      throw malformed(`the headers of a part must be at most ${MOST_HEAD_BYTES} bytes`)
    if (end < 0) return
    const head = this.#take(end)
    this.#take(4)
    this.#state = 'content'
    yield { part: readPartHead(head.subarray(2)) }
  }

  #take(length: number): Buffer {
    const taken = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    return taken
  }

  /** How many bytes cannot be the beginning of a boundary: it has one carriage return, its first byte. */
  #safe(): number {
    const at = this.#rest.lastIndexOf(0x0d)
    const isBegun = at >= 0 && this.#delimiter.subarray(0, this.#rest.length - at).equals(this.#rest.subarray(at))
    return isBegun ? at : this.#rest.length
  }

  #ignore(bytes: number): void {
    if ((this.#ignored += bytes) > MOST_IGNORED_BYTES)
      throw malformed(`it must have at most ${MOST_IGNORED_BYTES} bytes outside its parts`)
  }
}

function readPartHead(head: Buffer): PartHead {
  if (!isUtf8(head)) throw malformed('the headers of a part must be UTF-8')
  const headers = new Map<string, string>()
  const lines = head.length === 0 ? [] : head.toString('utf8').split('\r\n')
  if (lines.length > MOST_HEADERS) throw malformed(`a part must have at most ${MOST_HEADERS} headers`)
  for (const line of lines) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)$/.exec(line) ?? []
    if (name === undefined || value === undefined || headers.has(name.toLowerCase()))
      throw malformed('a part has a header that is malformed or there twice')
    headers.set(name.toLowerCase(), value.trim())
  }
  if (!/^(?:binary|[78]bit)?$/i.test(headers.get('content-transfer-encoding') ?? ''))
    throw malformed('its parts must not be encoded: Content-Transfer-Encoding must be absent')
  const mediaType = headers.get('content-type')
  if (mediaType?.toLowerCase().startsWith('multipart/') === true)
    throw malformed('its parts must not be multipart themselves')
  return { ...readDisposition(headers.get('content-disposition') ?? ''), mediaType }
}

/** One parameter; in quotes, a backslash only escapes a quote or itself, because some clients send paths of Windows. */
const PARAMETER = /[ \t]*;[ \t]*([\w!#$&+.^`|~-]+\*?)=(?:"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"|([^\s";]+))/y

function readDisposition(value: string): { name: string; filename: string | undefined } {
  const kind = /^form-data/i.exec(value)?.[0]
  if (kind === undefined) throw malformed('every part must have a Content-Disposition: form-data')
  const parameters = new Map<string, string>()
  PARAMETER.lastIndex = kind.length
  for (let at = kind.length; at < value.length; at = PARAMETER.lastIndex) {
    const [, name, quoted, plain] = PARAMETER.exec(value) ?? []
    if (name === undefined || parameters.has(name.toLowerCase()))
      throw malformed('a part has a Content-Disposition that is malformed or says something twice')
    // What browsers and `fetch` make of a quote.
    parameters.set(name.toLowerCase(), quoted?.replace(/\\(["\\])/g, '$1').replaceAll('%22', '"') ?? plain!)
  }
  const name = parameters.get('name')
  if (name === undefined || name === '') throw malformed('every part must have a name')
  const extended = parameters.get('filename*')
  return { name, filename: extended === undefined ? parameters.get('filename') : readExtended(extended) }
}

/** RFC 5987: `UTF-8'language'percent-encoded`. */
function readExtended(value: string): string {
  const [, encoded] = /^utf-8'[\w-]*'([^\s'"]*)$/i.exec(value) ?? []
  try {
    if (encoded !== undefined) return decodeURIComponent(encoded)
  } catch {
    // Told below.
  }
  throw malformed("a part has a filename* that is not UTF-8'' and percent-encoded text")
}

const malformed = (message: string): GatewayError =>
  invalid('body', `cannot be read as multipart/form-data: ${message}`)

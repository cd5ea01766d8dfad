import { isUtf8 } from 'node:buffer'
import { GatewayError, invalid } from '../error.ts'

/** The headers of a part. `filename`: as sent, which may be any text without control characters. */
export type PartHead = { name: string; filename: string | undefined; mediaType: string | undefined }

/** The start of a part, some of its content, or its end. */
export type MultipartEvent = { part: PartHead } | { bytes: Uint8Array } | { end: true }

const MAX_PARTS = 64
const MAX_HEAD_BYTES = 16 * 1024
const MAX_HEADERS = 16
/** Ignored content before the first boundary and after the last one. */
const MAX_IGNORED_BYTES = 8 * 1024
/** White space after a boundary, in its line. */
const MAX_PADDING_BYTES = 64

/** Allowance for boundaries and other parts, on top of the size limit of the file. */
export const MULTIPART_OVERHEAD_BYTES = 1024 * 1024

/**
 * The boundary of a Content-Type (RFC 2046, 5.1.1). Throws GatewayError unsupported_media_type for another type, and
 * invalid_request for a missing or invalid boundary.
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
 * Incremental parser of a multipart/form-data body (RFC 7578). Keeps at most a part's head or the start of a boundary
 * in memory. Refuses bodies that two parsers could read differently. Every method throws GatewayError invalid_request.
 */
export class MultipartReader {
  /** The boundary with the line break before it, which RFC 2046 counts as part of it. */
  readonly #delimiter: Buffer
  #state: 'preamble' | 'boundary' | 'head' | 'content' | 'epilogue' = 'preamble'
  /** Unparsed bytes. Starts with a line break, so that a boundary in the first line is found. */
  #rest: Buffer = Buffer.from('\r\n')
  #parts = 0
  #ignored = 0

  constructor(boundary: string) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  }

  /** The events of the next chunk of the body. Their bytes are views of it; the chunk itself is not kept. */
  *read(chunk: Uint8Array): Generator<MultipartEvent> {
    yield* this.#parse(chunk)
    this.#rest = Buffer.from(this.#rest)
  }

  *#parse(chunk: Uint8Array): Generator<MultipartEvent> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
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

  /** Throws if the body is incomplete. */
  end(): void {
    if (this.#state !== 'epilogue') throw malformed('it must end with its closing boundary')
  }

  #skipPreamble(): void {
    const at = this.#rest.indexOf(this.#delimiter)
    this.#countIgnored(this.#consume(at < 0 ? this.#boundaryFreeLength() : at).length)
    if (at >= 0) this.#consumeDelimiter()
  }

  /** Another parser might take a later boundary for the end and read the content in between, so there must be none. */
  #skipEpilogue(): void {
    if (this.#rest.includes(this.#delimiter)) throw malformed('it must have no boundary after its closing boundary')
    this.#countIgnored(this.#consume(this.#boundaryFreeLength()).length)
  }

  *#readContent(): Generator<MultipartEvent> {
    const at = this.#rest.indexOf(this.#delimiter)
    const bytes = this.#consume(at < 0 ? this.#boundaryFreeLength() : at)
    if (bytes.length > 0) yield { bytes }
    if (at < 0) return
    this.#consumeDelimiter()
    yield { end: true }
  }

  #consumeDelimiter(): void {
    this.#consume(this.#delimiter.length)
    this.#state = 'boundary'
  }

  /** The rest of a boundary's line: `--` after the last boundary, otherwise only white space. */
  #readBoundary(): void {
    if (this.#rest.length >= 2 && this.#rest.toString('latin1', 0, 2) === '--') {
      this.#consume(2)
      this.#state = 'epilogue'
      return
    }
    const end = this.#rest.indexOf('\r\n')
    const padding = this.#rest.toString('latin1', 0, end < 0 ? undefined : end)
    const isPadding = end < 0 ? /^[ \t]*\r?$|^-$/ : /^[ \t]*$/
    if (padding.length > MAX_PADDING_BYTES || !isPadding.test(padding))
      throw malformed('a boundary line must contain nothing else and end with CR and LF')
    if (end < 0) return
    this.#parts += 1
    if (this.#parts > MAX_PARTS) throw malformed(`it must have at most ${MAX_PARTS} parts`)
    this.#consume(end)
    this.#state = 'head'
  }

  *#readHead(): Generator<MultipartEvent> {
    // The head begins with the line break of the boundary's line, so that a head without headers is found too.
    const end = this.#rest.indexOf('\r\n\r\n')
    if ((end < 0 ? this.#rest.length : end) > MAX_HEAD_BYTES)
      throw malformed(`the headers of a part must be at most ${MAX_HEAD_BYTES} bytes`)
    if (end < 0) return
    const head = this.#consume(end)
    this.#consume(4)
    this.#state = 'content'
    yield { part: readPartHead(head.subarray(2)) }
  }

  #consume(length: number): Buffer {
    const taken = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    return taken
  }

  /** Number of bytes before a possible start of a boundary, whose only carriage return is its first byte. */
  #boundaryFreeLength(): number {
    const at = this.#rest.lastIndexOf(0x0d)
    const isStart = at >= 0 && this.#delimiter.subarray(0, this.#rest.length - at).equals(this.#rest.subarray(at))
    return isStart ? at : this.#rest.length
  }

  #countIgnored(bytes: number): void {
    this.#ignored += bytes
    if (this.#ignored > MAX_IGNORED_BYTES)
      throw malformed(`it must have at most ${MAX_IGNORED_BYTES} bytes outside its parts`)
  }
}

function readPartHead(head: Buffer): PartHead {
  if (!isUtf8(head)) throw malformed('the headers of a part must be UTF-8')
  const headers = new Map<string, string>()
  const lines = head.length === 0 ? [] : head.toString('utf8').split('\r\n')
  if (lines.length > MAX_HEADERS) throw malformed(`a part must have at most ${MAX_HEADERS} headers`)
  for (const line of lines) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)$/.exec(line) ?? []
    if (name === undefined || value === undefined || headers.has(name.toLowerCase()))
      throw malformed('a part has a header that is malformed or repeated')
    headers.set(name.toLowerCase(), value.trim())
  }
  if (!/^(?:binary|[78]bit)?$/i.test(headers.get('content-transfer-encoding') ?? ''))
    throw malformed('its parts must not be encoded: remove Content-Transfer-Encoding')
  const mediaType = headers.get('content-type')
  if (mediaType?.toLowerCase().startsWith('multipart/') === true) throw malformed('its parts must not be multipart')
  return { ...readDisposition(headers.get('content-disposition') ?? ''), mediaType }
}

/** One parameter. A backslash only escapes a quote or itself, because some clients send Windows paths. */
const PARAMETER = /[ \t]*;[ \t]*([\w!#$&+.^`|~-]+\*?)=(?:"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"|([^\s";]+))/y

function readDisposition(value: string): { name: string; filename: string | undefined } {
  const kind = /^form-data/i.exec(value)?.[0]
  if (kind === undefined) throw malformed('every part must have a Content-Disposition: form-data')
  const parameters = new Map<string, string>()
  PARAMETER.lastIndex = kind.length
  for (let at = kind.length; at < value.length; at = PARAMETER.lastIndex) {
    const [, name, quoted, plain] = PARAMETER.exec(value) ?? []
    if (name === undefined || parameters.has(name.toLowerCase()))
      throw malformed('a part has a malformed Content-Disposition or one with a repeated parameter')
    // Browsers and `fetch` encode a quote as %22.
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
    // Reported below.
  }
  throw malformed("a filename* must be UTF-8'' followed by percent-encoded text")
}

const malformed = (message: string): GatewayError =>
  invalid('body', `cannot be read as multipart/form-data: ${message}`)

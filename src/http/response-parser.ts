import { GatewayError } from '../error.ts'
import { HeaderLines, type HeaderReader } from './header-lines.ts'

/** Longest head (status line and headers) with the informational ones before it, and longest trailers, in bytes. */
const MAX_HEAD_BYTES = 64 * 1024
/** Longest chunk-size line, extensions included. */
const MAX_SIZE_LINE_BYTES = 1024

/** Digits of a chunk's size: a double has such a number exactly. */
const MAX_SIZE_DIGITS = 12

const STATUS_LINE = /^HTTP\/1\.[0-9] [1-9][0-9]{2}(?: [^\0\r\n]*)?\r\n/

const LF = 10
const CR = 13

type ResponseHead = { status: number; headers: HeaderReader; keepAlive: boolean }

type State = 'head' | 'length' | 'until-close' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailers' | 'complete'

/**
 * Incremental parser of one HTTP/1.1 response (RFC 9112). Strict where leniency lets two parties disagree on where a
 * response ends: sizes are plain digits, lines end with CRLF. Throws GatewayError upstream_error for anything else.
 */
export class ResponseParser {
  /** Set once the head is complete; informational responses (1xx) are skipped. */
  head: ResponseHead | undefined
  /** Bytes followed the end of the response: the connection must not be reused. */
  surplus = false
  #state: State = 'head'
  #remaining = 0
  #line = ''
  #trailerBytes = 0
  #informationalBytes = 0
  #pendingHead: Buffer | undefined

  get complete(): boolean {
    return this.#state === 'complete'
  }

  /**
   * The body bytes in this input, or undefined for none. The input is overwritten: chunks are joined in place.
   */
  push(input: Buffer): Buffer | undefined {
    let rest: Buffer | undefined = input
    while (this.#state === 'head') {
      rest = this.#readHead(rest)
      if (rest === undefined) return undefined
    }
    if (rest.length === 0) return undefined
    switch (this.#state) {
      case 'until-close':
        return rest
      case 'length':
        return this.#readLength(rest)
      case 'complete':
        this.surplus = true
        return undefined
      default:
        return this.#readChunks(rest)
    }
  }

  /**
   * The connection has closed, or was broken. Throws if the response is incomplete: one without a length ends where its
   * connection is closed, and nowhere else.
   */
  end(isBroken: boolean): void {
    if (this.#state === 'until-close' && !isBroken) this.#state = 'complete'
    if (this.#state !== 'complete')
      throw protocolError('The connection to the provider closed before its response was complete.')
  }

  #readHead(bytes: Buffer): Buffer | undefined {
    const all = this.#pendingHead === undefined ? bytes : Buffer.concat([this.#pendingHead, bytes])
    const end = all.indexOf('\r\n\r\n')
    if ((end === -1 ? all.length : end) + this.#informationalBytes > MAX_HEAD_BYTES)
      throw protocolError("The head of the provider's response is larger than 64 KiB.")
    if (end === -1) {
      this.#pendingHead = all
      return undefined
    }
    this.#pendingHead = undefined
    this.#parseHead(all.toString('latin1', 0, end + 2))
    this.#informationalBytes += end + 4
    return all.subarray(end + 4)
  }

  /** `text`: the head, each line with its CRLF. */
  #parseHead(text: string): void {
    const at = text.indexOf('\r\n')
    if (!STATUS_LINE.test(text)) throw protocolError('The provider did not respond with HTTP/1.1.')
    const status = Number(text.slice(9, 12))
    if (status === 101) throw protocolError('The provider switched protocols, which was not requested.')
    if (status < 200) return
    const headers = HeaderLines.of(text.slice(at + 2))
    if (headers === undefined) throw protocolError('The provider sent a malformed header.')
    const coding = headers.get('transfer-encoding')?.toLowerCase()
    if (coding !== undefined && coding !== 'chunked')
      throw protocolError('The provider used a transfer encoding other than chunked.')
    const length = headers.get('content-length') ?? undefined
    // Repeated headers are joined with commas, so they fail this test too.
    if (length !== undefined && !/^\d{1,15}$/.test(length))
      throw protocolError('The provider sent an invalid content-length.')
    this.#selectFraming(status, length, coding)
    const closing = headers.get('connection')?.toLowerCase().includes('close') ?? text[7] === '0'
    // A response with both framings may be an attempt at smuggling: chunked wins, and the connection is not reused.
    const keepAlive = !closing && this.#state !== 'until-close' && (coding === undefined || length === undefined)
    this.head = { status, headers, keepAlive }
  }

  #selectFraming(status: number, length: string | undefined, coding: string | undefined): void {
    this.#remaining = Number(length ?? 0)
    if (status === 204 || status === 304) this.#state = 'complete'
    else if (coding !== undefined) this.#state = 'chunk-size'
    else if (length === undefined) this.#state = 'until-close'
    else this.#state = this.#remaining === 0 ? 'complete' : 'length'
  }

  #readLength(bytes: Buffer): Buffer {
    if (bytes.length < this.#remaining) {
      this.#remaining -= bytes.length
      return bytes
    }
    this.#state = 'complete'
    this.surplus = bytes.length > this.#remaining
    return this.surplus ? bytes.subarray(0, this.#remaining) : bytes
  }

  #readChunks(bytes: Buffer): Buffer | undefined {
    let from = 0
    let start = -1
    let filled = 0
    while (from < bytes.length && this.#state !== 'complete') {
      if (this.#state !== 'chunk-data') {
        from = this.#readFraming(bytes, from)
        continue
      }
      const to = Math.min(bytes.length, from + this.#remaining)
      if (start === -1) {
        start = from
        filled = from
      }
      if (filled !== from) bytes.copyWithin(filled, from, to)
      filled += to - from
      this.#remaining -= to - from
      from = to
      if (this.#remaining === 0) this.#state = 'chunk-end'
    }
    this.surplus = from < bytes.length
    return start === -1 ? undefined : bytes.subarray(start, filled)
  }

  /** Reads one line of chunk framing, or the available part of it; returns the position after it. */
  #readFraming(bytes: Buffer, from: number): number {
    const next = this.#line === '' ? this.#skipPlainFraming(bytes, from) : -1
    if (next !== -1) return next
    const limit = this.#state === 'trailers' ? MAX_HEAD_BYTES : MAX_SIZE_LINE_BYTES
    const newline = bytes.indexOf(LF, from)
    const to = newline === -1 ? bytes.length : newline
    if (this.#line.length + to - from > limit) throw malformedChunk()
    this.#line += bytes.toString('latin1', from, to)
    if (newline === -1) return bytes.length
    if (this.#line.charCodeAt(this.#line.length - 1) !== CR) throw malformedChunk()
    const line = this.#line.slice(0, -1)
    this.#line = ''
    this.#parseFramingLine(line)
    return newline + 1
  }

  /** A size without an extension, or the end of a chunk, if all of its line is here: -1 for anything else. */
  #skipPlainFraming(bytes: Buffer, from: number): number {
    let at = from
    if (this.#state === 'chunk-size') {
      let size = 0
      for (let digit = hexDigit(bytes[at]); digit !== -1; digit = hexDigit(bytes[++at])) size = size * 16 + digit
      // An empty chunk is the last one; too many digits are refused with the line.
      if (size === 0 || at - from > MAX_SIZE_DIGITS || bytes[at] !== CR || bytes[at + 1] !== LF) return -1
      this.#remaining = size
      this.#state = 'chunk-data'
    } else if (this.#state === 'chunk-end' && bytes[at] === CR && bytes[at + 1] === LF) this.#state = 'chunk-size'
    else return -1
    return at + 2
  }

  #parseFramingLine(line: string): void {
    if (this.#state === 'chunk-size') {
      const size = /^([0-9a-fA-F]{1,12})[ \t]*(?:;.*)?$/.exec(line)
      if (size === null) throw malformedChunk()
      this.#remaining = parseInt(size[1]!, 16)
      this.#state = this.#remaining === 0 ? 'trailers' : 'chunk-data'
    } else if (this.#state === 'chunk-end') {
      if (line !== '') throw malformedChunk()
      this.#state = 'chunk-size'
    } else if (line === '') {
      this.#state = 'complete'
    } else {
      this.#trailerBytes += line.length
      if (this.#trailerBytes > MAX_HEAD_BYTES) throw malformedChunk()
    }
  }
}

const protocolError = (message: string): GatewayError => new GatewayError('upstream_error', message)

const malformedChunk = (): GatewayError => protocolError('The provider sent a malformed chunk.')

/** The value of a hexadecimal digit's code; -1 for any other byte, and beyond the end. */
const hexDigit = (code: number | undefined): number => {
  if (code === undefined) return -1
  if (code >= 48 && code <= 57) return code - 48
  const letter = code | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}

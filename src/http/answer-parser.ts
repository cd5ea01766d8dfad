import { GatewayError } from '../error.ts'

/** Longest head (status line and headers), and longest trailer section, in bytes. */
const MAX_HEAD_BYTES = 64 * 1024
/** Longest chunk-size line, extensions included. */
const MAX_SIZE_LINE_BYTES = 1024

const LF = 10
const CR = 13

export type AnswerHead = { status: number; headers: Headers; keepAlive: boolean }

type State = 'head' | 'length' | 'until-close' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailers' | 'complete'

/**
 * One HTTP/1.1 answer (RFC 9112), byte by byte as the socket gives it. Strict where leniency lets two parties disagree
 * on where
 * an answer ends: sizes are plain digits, lines end with CRLF. Throws GatewayError upstream_error on anything else.
 */
export class AnswerParser {
  /** Known once the head is whole; informational heads (1xx) are passed over. */
  head: AnswerHead | undefined
  /** Bytes came after the end of the answer: the connection must not serve another request. */
  surplus = false
  #state: State = 'head'
  #remaining = 0
  #line = ''
  #trailerBytes = 0
  #pendingHead: Buffer | undefined

  get complete(): boolean {
    return this.#state === 'complete'
  }

  /** The body bytes in this piece, or undefined for none. The piece is ours: chunk framing is squeezed out in place. */
  push(piece: Buffer): Buffer | undefined {
    let rest: Buffer | undefined = piece
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

  /** The connection has ended. Throws when the answer was not complete. */
  end(): void {
    if (this.#state === 'until-close') this.#state = 'complete'
    if (this.#state !== 'complete')
      throw broken('The connection to the provider closed before its answer was complete.')
  }

  #readHead(bytes: Buffer): Buffer | undefined {
    const all = this.#pendingHead === undefined ? bytes : Buffer.concat([this.#pendingHead, bytes])
    const end = all.indexOf('\r\n\r\n')
    if ((end === -1 ? all.length : end) > MAX_HEAD_BYTES)
      throw broken("The head of the provider's answer is larger than 64 KiB.")
    if (end === -1) {
      this.#pendingHead = all
      return undefined
    }
    this.#pendingHead = undefined
    this.#begin(all.toString('latin1', 0, end + 2))
    return all.subarray(end + 4)
  }

  /** `text`: the head, each line with its CRLF. `Headers` itself refuses malformed names and values. */
  #begin(text: string): void {
    let at = text.indexOf('\r\n')
    const status = Number(text.slice(9, 12))
    if (!text.startsWith('HTTP/1.') || !(status >= 100) || text[8] !== ' ' || (at !== 12 && text[12] !== ' '))
      throw broken('The provider did not answer in HTTP/1.1.')
    if (status === 101) throw broken('The provider switched protocols without being asked.')
    if (status < 200) return
    const headers = new Headers()
    while (at + 2 < text.length) {
      const from = at + 2
      at = text.indexOf('\r\n', from)
      const colon = text.indexOf(':', from)
      if (colon === -1 || colon > at) throw broken('The provider sent a malformed header.')
      headers.append(text.slice(from, colon), text.slice(colon + 1, at))
    }
    const coding = headers.get('transfer-encoding')?.toLowerCase()
    if (coding !== undefined && coding !== 'chunked')
      throw broken('The provider used a transfer encoding other than chunked.')
    const length = headers.get('content-length') ?? undefined
    // Repeated headers arrive joined by commas, which are no digits either.
    if (length !== undefined && !/^\d{1,15}$/.test(length)) throw broken('The provider sent an invalid content-length.')
    this.#frame(status, length, coding)
    const closing = headers.get('connection')?.toLowerCase().includes('close') ?? text[7] === '0'
    // Both framings at once is how answers are smuggled: the chunks are believed, the connection is not used again.
    const keepAlive = !closing && this.#state !== 'until-close' && (coding === undefined || length === undefined)
    this.head = { status, headers, keepAlive }
  }

  #frame(status: number, length: string | undefined, coding: string | undefined): void {
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
      if (start === -1) start = filled = from
      if (filled !== from) bytes.copyWithin(filled, from, to)
      filled += to - from
      this.#remaining -= to - from
      from = to
      if (this.#remaining === 0) this.#state = 'chunk-end'
    }
    this.surplus = from < bytes.length
    return start === -1 ? undefined : bytes.subarray(start, filled)
  }

  /** Reads one line of framing, or the part of it that is here; gives the position after it. */
  #readFraming(bytes: Buffer, from: number): number {
    const limit = this.#state === 'trailers' ? MAX_HEAD_BYTES : MAX_SIZE_LINE_BYTES
    const newline = bytes.indexOf(LF, from)
    const to = newline === -1 ? bytes.length : newline
    if (this.#line.length + to - from > limit) throw broken('The provider sent a malformed chunk.')
    this.#line += bytes.toString('latin1', from, to)
    if (newline === -1) return bytes.length
    if (this.#line.charCodeAt(this.#line.length - 1) !== CR) throw broken('The provider sent a malformed chunk.')
    const line = this.#line.slice(0, -1)
    this.#line = ''
    this.#framingLine(line)
    return newline + 1
  }

  #framingLine(line: string): void {
    if (this.#state === 'chunk-size') {
      const size = /^([0-9a-fA-F]{1,12})[ \t]*(?:;.*)?$/.exec(line)
      if (size === null) throw broken('The provider sent a malformed chunk.')
      this.#remaining = parseInt(size[1]!, 16)
      this.#state = this.#remaining === 0 ? 'trailers' : 'chunk-data'
    } else if (this.#state === 'chunk-end') {
      if (line !== '') throw broken('The provider sent a malformed chunk.')
      this.#state = 'chunk-size'
    } else if (line === '') this.#state = 'complete'
    else if ((this.#trailerBytes += line.length) > MAX_HEAD_BYTES) throw broken('The provider sent a malformed chunk.')
  }
}

const broken = (message: string): GatewayError => new GatewayError('upstream_error', message)

import { GatewayError } from '../error.ts'

/**
 * One frame of an event stream. `bare`: JSON that stands in the stream without a `data:` field, as Google's servers
 * append
 * an error after a stream has begun.
 */
export type Frame = { event?: string; data: string; bare?: boolean }

/**
 * Longest frame we hold in memory, in UTF-16 units. An image in one frame is a few of these millions; nothing honest is
 * more.
 */
export const MAX_FRAME_LENGTH = 16 * 1024 * 1024

const NEWLINE = 10
const CARRIAGE_RETURN = 13
const COLON = 58
const SPACE = 32

/**
 * Event-stream bytes -> frames, by the parsing rules of the HTML standard (server-sent events), with three liberties
 * that real
 * providers need: a last frame without its blank line counts, bare JSON is a frame, and `id` and `retry` are not kept.
 * Any cut of the bytes gives the same frames. A frame over 16 Mi characters throws GatewayError upstream_error.
 */
export class FrameSplitter {
  #decoder = new TextDecoder()
  #partial = ''
  #afterCarriageReturn = false
  #event: string | undefined
  #data: string | undefined
  #bare = false
  #length = 0
  #frames: Frame[] = []

  /** The frames that these bytes complete, in order. */
  push(bytes: Uint8Array): Frame[] {
    this.#take(this.#decoder.decode(bytes, { stream: true }))
    return this.#drain()
  }

  /** What the end of the bytes completes: a last line, a last frame. Call once. */
  end(): Frame[] {
    this.#take(this.#decoder.decode())
    if (this.#partial !== '') {
      const line = this.#partial
      this.#partial = ''
      this.#line(line, 0, line.length)
    }
    this.#dispatch()
    return this.#drain()
  }

  #drain(): Frame[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }

  #take(decoded: string): void {
    const text = this.#normal(decoded)
    let from = 0
    let at = text.indexOf('\n')
    if (this.#partial !== '' && at !== -1) {
      const line = this.#partial + text.slice(0, at)
      this.#partial = ''
      this.#line(line, 0, line.length)
      from = at + 1
      at = text.indexOf('\n', from)
    }
    while (at !== -1) {
      this.#line(text, from, at)
      from = at + 1
      at = text.indexOf('\n', from)
    }
    // A line that comes in many pieces is only joined, never searched again: a huge frame costs linear time.
    if (from < text.length) this.#partial += from === 0 ? text : text.slice(from)
    this.#bound(this.#partial.length)
  }

  /** Line ends become \n here, once a chunk, so that the loop knows only one; streams without \r pay one search. */
  #normal(decoded: string): string {
    if (decoded === '') return decoded
    const text = this.#afterCarriageReturn && decoded.charCodeAt(0) === NEWLINE ? decoded.slice(1) : decoded
    this.#afterCarriageReturn = decoded.charCodeAt(decoded.length - 1) === CARRIAGE_RETURN
    return text.indexOf('\r') === -1 ? text : text.replace(/\r\n?/g, '\n')
  }

  #line(text: string, from: number, to: number): void {
    if (from === to) return this.#dispatch()
    this.#length += to - from
    this.#bound(0)
    if (this.#bare) {
      if (!text.startsWith('data:', from) && !text.startsWith('event:', from)) {
        this.#data += '\n' + text.slice(from, to)
        return
      }
      this.#dispatch()
    }
    if (text.startsWith('data', from) && to - from >= 4) return this.#dataLine(text, from + 4, to)
    if (text.startsWith('event', from) && to - from >= 5) return this.#eventLine(text, from + 5, to)
    if (this.#data === undefined && this.#event === undefined && (text[from] === '{' || text[from] === '[')) {
      this.#bare = true
      this.#data = text.slice(from, to)
    }
  }

  #dataLine(text: string, colon: number, to: number): void {
    const value = valueAfter(text, colon, to)
    if (value !== undefined) this.#data = this.#data === undefined ? value : this.#data + '\n' + value
  }

  #eventLine(text: string, colon: number, to: number): void {
    const value = valueAfter(text, colon, to)
    if (value !== undefined) this.#event = value
  }

  #dispatch(): void {
    if (this.#data !== undefined) {
      if (this.#bare) this.#frames.push({ data: this.#data, bare: true })
      else if (this.#event === undefined || this.#event === '') this.#frames.push({ data: this.#data })
      else this.#frames.push({ event: this.#event, data: this.#data })
    }
    this.#data = undefined
    this.#event = undefined
    this.#bare = false
    this.#length = 0
  }

  #bound(more: number): void {
    if (this.#length + more > MAX_FRAME_LENGTH)
      throw new GatewayError('upstream_error', 'The provider sent a stream frame of more than 16 MiB.')
  }
}

/** The field's value, when the name ends where it should; a field without a colon has an empty value. */
const valueAfter = (text: string, colon: number, to: number): string | undefined => {
  if (colon === to) return ''
  if (text.charCodeAt(colon) !== COLON) return undefined
  return text.slice(text.charCodeAt(colon + 1) === SPACE && colon + 1 < to ? colon + 2 : colon + 1, to)
}

/** A frame as it stands on the wire, blank line included. Several frames are joined by the caller into one write. */
export const writeFrame = (frame: Frame): string => {
  if (frame.bare === true) return frame.data + '\n\n'
  const event = frame.event === undefined ? '' : 'event: ' + frame.event + '\n'
  if (frame.data.indexOf('\n') === -1 && frame.data.indexOf('\r') === -1) return event + 'data: ' + frame.data + '\n\n'
  return event + 'data: ' + frame.data.split(/\r\n|\r|\n/).join('\ndata: ') + '\n\n'
}

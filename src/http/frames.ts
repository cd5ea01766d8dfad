import { isAscii } from 'node:buffer'
import { GatewayError } from '../error.ts'
import { detachedCopy } from '../json/detached-copy.ts'

/**
 * One frame of an event stream. `unprefixed`: JSON without a `data:` field, the form in which Google's servers append
 * an error to a stream that has started.
 */
export type Frame = { event?: string; data: string; unprefixed?: boolean }

/** Longest frame kept in memory, in UTF-16 units. The longest legitimate ones, images, have a few million. */
export const MAX_FRAME_LENGTH = 16 * 1024 * 1024

const NEWLINE = 10
const CARRIAGE_RETURN = 13
const COLON = 58
const SPACE = 32

/**
 * Event-stream bytes -> frames, by the parsing rules of the HTML standard (server-sent events), with three exceptions
 * that real providers need: a last frame without its blank line counts, JSON without a field name is a frame, and `id`
 * and `retry` are ignored. The frames do not depend on how the bytes are split. A frame over 16 Mi characters throws
 * GatewayError upstream_error.
 */
export class FrameSplitter {
  #decoder = new TextDecoder()
  #partial = ''
  #afterCarriageReturn = false
  #event: string | undefined
  #data: string | undefined
  #unprefixed = false
  #length = 0
  #frames: Frame[] = []
  /** The bytes so far end with a frame; there were some. */
  #isBetween = false

  /** Returns the frames that these bytes complete, in order. */
  push(bytes: Uint8Array): Frame[] {
    const data = this.#isBetween ? loneData(bytes) : undefined
    if (data !== undefined) return [{ data }]
    this.#parse(this.#decoder.decode(bytes, { stream: true }))
    const isEmpty = this.#data === undefined && this.#event === undefined && this.#length === 0
    this.#isBetween = isEmpty && bytes.at(-1) === NEWLINE
    return this.#takeFrames()
  }

  /** Returns the frame that the end of the stream completes, if any. Call once. */
  end(): Frame[] {
    this.#parse(this.#decoder.decode())
    if (this.#partial !== '') this.#parseLine(this.#partial, 0, this.#partial.length)
    this.#completeFrame()
    return this.#takeFrames()
  }

  #takeFrames(): Frame[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }

  #parse(decoded: string): void {
    const text = this.#normalizeLineEnds(decoded)
    let from = 0
    let at = text.indexOf('\n')
    if (this.#partial !== '' && at !== -1) {
      const line = this.#partial + text.slice(0, at)
      this.#partial = ''
      this.#parseLine(line, 0, line.length)
      from = at + 1
      at = text.indexOf('\n', from)
    }
    while (at !== -1) {
      this.#parseLine(text, from, at)
      from = at + 1
      at = text.indexOf('\n', from)
    }
    // A line that arrives in many chunks is only joined, never searched again, so a huge frame takes linear time.
    if (from < text.length) this.#partial += from === 0 ? text : detachedCopy(text.slice(from))
    this.#checkLength(this.#partial.length)
  }

  /** All line ends become \n once per chunk, so that the loop handles one kind; without \r this is a single search. */
  #normalizeLineEnds(decoded: string): string {
    if (decoded === '') return decoded
    const text = this.#afterCarriageReturn && decoded.charCodeAt(0) === NEWLINE ? decoded.slice(1) : decoded
    this.#afterCarriageReturn = decoded.charCodeAt(decoded.length - 1) === CARRIAGE_RETURN
    return text.indexOf('\r') === -1 ? text : text.replace(/\r\n?/g, '\n')
  }

  #parseLine(text: string, from: number, to: number): void {
    if (from === to) return this.#completeFrame()
    this.#length += to - from
    this.#checkLength(0)
    if (this.#unprefixed) {
      if (!text.startsWith('data:', from) && !text.startsWith('event:', from)) {
        this.#data += '\n' + text.slice(from, to)
        return
      }
      this.#completeFrame()
    }
    if (text.startsWith('data', from)) return this.#parseData(text, from + 4, to)
    if (text.startsWith('event', from)) return this.#parseEvent(text, from + 5, to)
    if (this.#data === undefined && this.#event === undefined && (text[from] === '{' || text[from] === '[')) {
      this.#unprefixed = true
      this.#data = text.slice(from, to)
    }
  }

  #parseData(text: string, colon: number, to: number): void {
    const value = valueAfter(text, colon, to)
    if (value !== undefined) this.#data = this.#data === undefined ? value : this.#data + '\n' + value
  }

  #parseEvent(text: string, colon: number, to: number): void {
    const value = valueAfter(text, colon, to)
    if (value !== undefined) this.#event = value
  }

  #completeFrame(): void {
    if (this.#data !== undefined) {
      if (this.#unprefixed) this.#frames.push({ data: this.#data, unprefixed: true })
      else if (this.#event === undefined || this.#event === '') this.#frames.push({ data: this.#data })
      else this.#frames.push({ event: this.#event, data: this.#data })
    }
    this.#data = undefined
    this.#event = undefined
    this.#unprefixed = false
    this.#length = 0
  }

  #checkLength(more: number): void {
    if (this.#length + more > MAX_FRAME_LENGTH)
      throw new GatewayError('upstream_error', 'The provider sent a stream frame larger than 16 MiB.')
  }
}

const PREFIX = Buffer.from('data: ')

/** The data of a single frame in one line of ASCII, as most chunks are; undefined for any others. */
function loneData(bytes: Uint8Array): string | undefined {
  const end = bytes.length - 2
  if (!(bytes instanceof Buffer) || end <= PREFIX.length || bytes[end] !== NEWLINE || bytes[end + 1] !== NEWLINE) return
  for (let i = 0; i < PREFIX.length; i++) if (bytes[i] !== PREFIX[i]) return
  if (!isAscii(bytes)) return
  const data = bytes.toString('latin1', PREFIX.length, end)
  return data.indexOf('\n') === -1 && data.indexOf('\r') === -1 ? data : undefined
}

/** A field's value; undefined if its name is longer than expected. A field without a colon has an empty value. */
const valueAfter = (text: string, colon: number, to: number): string | undefined => {
  if (colon === to) return ''
  if (text.charCodeAt(colon) !== COLON) return undefined
  return text.slice(text.charCodeAt(colon + 1) === SPACE ? colon + 2 : colon + 1, to)
}

/** The text of a frame, blank line included. The caller joins several frames into one write. */
export const writeFrame = (frame: Frame): string => {
  if (frame.unprefixed === true) return frame.data + '\n\n'
  const head = frame.event === undefined ? 'data: ' : 'event: ' + frame.event + '\ndata: '
  const text = head + frame.data + '\n\n'
  // The search joins the pieces of the text, so it is done in what is written, not in a part of it.
  if (text.indexOf('\n', head.length) === text.length - 2 && text.indexOf('\r', head.length) === -1) return text
  return head + frame.data.split(/\r\n|\r|\n/).join('\ndata: ') + '\n\n'
}

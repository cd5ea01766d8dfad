import { writeFrame, type Frame } from '../http/frames.ts'
import type { Chunk } from '../http/stream.ts'

/** Writes frames as text for the client: server-sent events, or the elements of one JSON array. */
export interface Framing {
  /** Frames of one network chunk -> one chunk, '' where there is nothing to write. `isLast`: the stream ends here. */
  write(frames: readonly Frame[], isLast: boolean): Chunk
}

/**
 * Google's SDK recognises an error in a stream only when a network chunk holds nothing else (seen in 3.1.0), so a busy
 * client needs this long to read what came before.
 */
const ERROR_PAUSE_MS = 100

const textOf = (frames: readonly Frame[]): string => {
  if (frames.length === 1) return writeFrame(frames[0]!)
  let text = ''
  for (const frame of frames) text += writeFrame(frame)
  return text
}

/** Server-sent events. All frames of a network chunk leave in one write, except an error without a `data:` field. */
export const eventStream: Framing = {
  write: (frames) => {
    const last = frames.at(-1)
    if (last?.unprefixed !== true) return textOf(frames)
    const error = { text: writeFrame(last), pauseBefore: ERROR_PAUSE_MS }
    return frames.length === 1 ? [error] : [{ text: textOf(frames.slice(0, -1)), pauseBefore: 0 }, error]
  },
}

/** Google's streaming without `alt=sse`: one JSON array, sent element by element. An error is its last element. */
export class JsonArray implements Framing {
  #hasElements = false
  #last = ''

  write(frames: readonly Frame[], isLast: boolean): string {
    let text = ''
    for (const frame of frames) {
      // Clients of event streams get an error in two frames; an array contains it once.
      if (frame.unprefixed === true && frame.data === this.#last) continue
      this.#last = frame.data
      text += (this.#hasElements ? ',\r\n' : '[') + frame.data
      this.#hasElements = true
    }
    if (!isLast) return text
    return this.#hasElements ? text + ']' : '[]'
  }
}

/** The text of a chunk as one piece, for a response that is written at once. */
export const chunkText = (chunk: Chunk): string =>
  typeof chunk === 'string' ? chunk : chunk.map(({ text }) => text).join('')

import { writeFrame, type Frame } from '../http/frames.ts'
import type { Framing } from './relay.ts'

/** Server-sent events: every frame in full, all frames of a network chunk in one write. */
export const eventStream: Framing = {
  write: (frames) => {
    if (frames.length === 1) return writeFrame(frames[0]!)
    let text = ''
    for (const frame of frames) text += writeFrame(frame)
    return text
  },
  end: () => '',
}

/** Google's streaming without `alt=sse`: one JSON array, sent piece by piece. An error is its last element. */
export class JsonArray implements Framing {
  #begun = false
  #last = ''

  write(frames: readonly Frame[]): string {
    let text = ''
    for (const frame of frames) {
      // An error is framed twice for the sake of clients of event streams: an array holds it once.
      if (frame.bare === true && frame.data === this.#last) continue
      this.#last = frame.data
      text += (this.#begun ? ',\r\n' : '[') + frame.data
      this.#begun = true
    }
    return text
  }

  end(): string {
    return this.#begun ? ']' : '[]'
  }
}

/** One unit of a stream on the wire. `atMs`: since the request was sent. */
export type Frame = { atMs: number; event: string | undefined; data: string; raw: string }

/** Cuts server-sent events out of the text of a stream, as it comes. */
export class FrameReader {
  #rest = ''

  push(text: string, atMs: number): Frame[] {
    this.#rest += text
    const frames: Frame[] = []
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.#rest)
      if (end === null) return frames
      const raw = this.#rest.slice(0, end.index)
      this.#rest = this.#rest.slice(end.index + end[0].length)
      if (raw !== '') frames.push(frameOf(raw, atMs))
    }
  }

  /** The rest of a stream that broke off. */
  end(atMs: number): Frame[] {
    const raw = this.#rest.trim()
    this.#rest = ''
    return raw === '' ? [] : [frameOf(raw, atMs)]
  }
}

function frameOf(raw: string, atMs: number): Frame {
  let event: string | undefined
  const data: string[] = []
  for (const line of raw.split(/\r?\n/)) {
    if (line.startsWith('event:')) event = line.slice(6).trim()
    else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5))
  }
  return { atMs, event, data: data.join('\n'), raw }
}

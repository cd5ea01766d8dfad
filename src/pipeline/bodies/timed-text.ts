/** The text from this character on came at this time, in milliseconds since the request. */
export type Arrival = { from: number; atMs: number }

/** A text that came in pieces. What is replaced in it leaves their times where they belong. */
export class TimedText {
  text: string
  times: Arrival[]

  constructor(text: string, times: Arrival[]) {
    this.text = text
    this.times = times
  }

  /** `by`: the text in place of a match; undefined leaves it. */
  replace(pattern: RegExp, by: (match: RegExpExecArray) => string | undefined): void {
    const edits: Edit[] = []
    for (const match of this.text.matchAll(pattern)) {
      const text = by(match)
      if (text !== undefined) edits.push({ from: match.index, to: match.index + match[0].length, text })
    }
    this.#apply(edits)
  }

  /** Replaces a literal text. */
  replaceText(text: string, by: string): void {
    const edits: Edit[] = []
    for (let from = this.text.indexOf(text); from >= 0; from = this.text.indexOf(text, from + text.length))
      edits.push({ from, to: from + text.length, text: by })
    this.#apply(edits)
  }

  /** Cuts the middle out of a text of more bytes. Gives the bytes that were cut. */
  cut(mostBytes: number): number {
    const bytes = Buffer.from(this.text)
    if (bytes.length <= mostBytes) return 0
    const half = Math.floor((mostBytes - MARK_BYTES) / 2)
    // A character that is cut in two decodes to one that is left out.
    const head = bytes.toString('utf8', 0, half).replace(/\uFFFD+$/, '')
    const tail = bytes.toString('utf8', bytes.length - half).replace(/^\uFFFD+/, '')
    const cut = bytes.length - Buffer.byteLength(head) - Buffer.byteLength(tail)
    this.#apply([{ from: head.length, to: this.text.length - tail.length, text: cutMark(cut) }])
    return cut
  }

  /** In the order of the text, without overlaps. */
  #apply(edits: readonly Edit[]): void {
    if (edits.length === 0) return
    const { text, times } = this
    let [written, at, next] = ['', 0, 0]
    const moved: Arrival[] = []
    for (const edit of [...edits, { from: text.length, to: text.length, text: '' }]) {
      const shift = written.length - at
      for (; next < times.length && times[next]!.from <= edit.from; next++)
        moved.push({ from: times[next]!.from + shift, atMs: times[next]!.atMs })
      written += text.slice(at, edit.from) + edit.text
      // Arrivals within the replaced text are at its end.
      for (; next < times.length && times[next]!.from < edit.to; next++)
        moved.push({ from: written.length, atMs: times[next]!.atMs })
      at = edit.to
    }
    this.text = written
    this.times = moved
  }
}

/** The most that the mark of a cut takes. */
const MARK_BYTES = 64

type Edit = { from: number; to: number; text: string }

/** The text in place of what was left out. */
export const cutMark = (bytes: number): string => `\n<${bytes.toLocaleString('en')} bytes left out>\n`

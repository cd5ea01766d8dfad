/**
 * Converts offsets in one text between UTF-16 code units (used here) and a protocol's unit: code points in OpenAI's
 * protocols, bytes of UTF-8 in Google's. Ends of ranges are exclusive.
 */
export class TextOffsets {
  readonly #unit: 'code points' | 'bytes'
  /** Number of code points or bytes before each code unit, and before the end; may be longer than the text. */
  #before = new Uint32Array(1)
  /** Length of the text in code units. */
  #end = 0
  /** A high surrogate at the end, whose low surrogate may come with the next piece. */
  #surrogate = ''

  constructor(text: string, unit: 'code points' | 'bytes') {
    this.#unit = unit
    this.append(text)
  }

  append(more: string): void {
    const piece = this.#surrogate + more
    const start = this.#end - this.#surrogate.length
    this.#end = start + piece.length
    if (this.#end >= this.#before.length) {
      const longer = new Uint32Array(Math.max(this.#end + 1, 2 * start))
      longer.set(this.#before)
      this.#before = longer
    }
    for (let at = 0, before = this.#before[start]!; at < piece.length; ) {
      const point = piece.codePointAt(at)!
      // An offset within a surrogate pair is that of its beginning.
      if (point > 0xffff) this.#before[start + ++at] = before
      before += this.#unit === 'code points' || point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
      this.#before[start + ++at] = before
    }
    const last = piece.charCodeAt(piece.length - 1)
    this.#surrogate = last >= 0xd800 && last < 0xdc00 ? piece.slice(-1) : ''
  }

  /** Length of the text in the protocol's unit. */
  get length(): number {
    return this.#before[this.#end]!
  }

  /** An offset in the protocol's unit; one beyond the end is the end. */
  toProtocol(offset: number): number {
    return this.#before[Math.min(offset, this.#end)]!
  }

  /** A range of the protocol in code units; undefined if it is invalid or not within the text. */
  fromProtocol(start: unknown, end: unknown): { start: number; end: number } | undefined {
    if (!isOffset(start) || !isOffset(end) || start >= end || end > this.length) return undefined
    return { start: this.#unitAt(start), end: this.#unitAt(end) }
  }

  /** The first code unit with this count before it; within a character, its end. */
  #unitAt(count: number): number {
    let [low, high] = [0, this.#end]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#before[middle]! < count) low = middle + 1
      else high = middle
    }
    return low
  }
}

const isOffset = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0

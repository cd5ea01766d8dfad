/** So much text is kept at most: the pieces of a long one would take several times its size. */
const MEASURED_CHARACTERS = 2 * 1024

const SURROGATE = /[\ud800-\udfff]/
/** The range is that of all code units above ASCII. */
const NOT_ASCII = /[\x80-\uffff]/

/**
 * Converts offsets in one text between UTF-16 code units (used here) and a protocol's unit: code points in OpenAI's
 * protocols, bytes of UTF-8 in Google's. Ends of ranges are exclusive.
 */
export class TextOffsets {
  readonly #unit: 'code points' | 'bytes'
  /** Code units at the beginning that count as one each, which is all of most texts: they take no memory. */
  #plain = 0
  /** Number of code points or bytes before each code unit behind those, and before the end; may be longer. */
  #before: Uint32Array | undefined
  /** Length of the text in code units. */
  #end = 0
  /** Text that was not looked at: most texts are never cited. */
  #unmeasured = ''
  /** A high surrogate at the end, whose low surrogate may come with the next piece. */
  #surrogate = ''

  constructor(text: string, unit: 'code points' | 'bytes') {
    this.#unit = unit
    this.append(text)
  }

  append(more: string): void {
    this.#unmeasured += more
    if (this.#unmeasured.length >= MEASURED_CHARACTERS) this.#measureAll()
  }

  #measureAll(): void {
    const piece = this.#surrogate + this.#unmeasured
    this.#unmeasured = ''
    const start = this.#end - this.#surrogate.length
    this.#end = start + piece.length
    if (this.#before === undefined && !(this.#unit === 'bytes' ? NOT_ASCII : SURROGATE).test(piece))
      this.#plain = this.#end
    else this.#measure(piece, start)
    const last = piece.charCodeAt(piece.length - 1)
    this.#surrogate = last >= 0xd800 && last < 0xdc00 ? piece.slice(-1) : ''
  }

  #measure(piece: string, start: number): void {
    if (this.#before === undefined) this.#plain = start
    const known = this.#before ?? new Uint32Array([start])
    const needed = this.#end - this.#plain + 1
    const counts = needed <= known.length ? known : new Uint32Array(Math.max(needed, 2 * known.length))
    if (counts !== known) counts.set(known)
    this.#before = counts
    const from = start - this.#plain
    for (let at = 0, before = counts[from]!; at < piece.length; ) {
      const point = piece.codePointAt(at)!
      // An offset within a surrogate pair is that of its beginning.
      if (point > 0xffff) counts[from + ++at] = before
      before += this.#unit === 'code points' || point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
      counts[from + ++at] = before
    }
  }

  /** Number of code points or bytes before a code unit. */
  #countBefore(offset: number): number {
    return offset <= this.#plain ? offset : this.#before![offset - this.#plain]!
  }

  /** Length of the text in the protocol's unit. */
  get length(): number {
    this.#measureAll()
    return this.#countBefore(this.#end)
  }

  /** An offset in the protocol's unit; one beyond the end is the end. */
  toProtocol(offset: number): number {
    this.#measureAll()
    return this.#countBefore(Math.min(offset, this.#end))
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
      if (this.#countBefore(middle) < count) low = middle + 1
      else high = middle
    }
    return low
  }
}

const isOffset = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0

/** So much text is kept at most: the pieces of a long one would take several times its size. */
const MEASURED_CHARACTERS = 2 * 1024

/** Code units that share a count. */
const BLOCK = 512

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
  /** Count before each block of code units behind those. */
  readonly #counts: number[] = []
  /** Counts of the single code units of each block; undefined for a block in which each counts as one. */
  readonly #widths: (Uint8Array | undefined)[] = []
  /** Length of the text in code units, and in the protocol's unit. */
  #end = 0
  #total = 0
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
    if (this.#surrogate !== '') this.#total -= this.#widthOf(0xd800)
    this.#end -= this.#surrogate.length
    if (!(this.#unit === 'bytes' ? NOT_ASCII : SURROGATE).test(piece)) this.#addPlain(piece.length)
    else this.#measure(piece)
    const last = piece.charCodeAt(piece.length - 1)
    this.#surrogate = isHigh(last) ? piece.slice(-1) : ''
  }

  #addPlain(length: number): void {
    const end = this.#end + length
    if (this.#counts.length === 0) this.#plain = end
    else
      for (let block = Math.ceil((this.#end - this.#plain) / BLOCK); this.#plain + block * BLOCK < end; block++)
        this.#counts[block] = this.#total + this.#plain + block * BLOCK - this.#end
    this.#total += length
    this.#end = end
  }

  #measure(piece: string): void {
    const from = this.#end - this.#plain
    let total = this.#total
    let inPair = false
    for (let index = 0; index < piece.length; index++) {
      const at = from + index
      const block = (at / BLOCK) | 0
      if (at % BLOCK === 0) this.#counts[block] = total
      const code = piece.charCodeAt(index)
      const beginsPair: boolean = !inPair && isHigh(code) && isLow(piece.charCodeAt(index + 1))
      // An offset within a surrogate pair is that of its beginning.
      const width = beginsPair ? 0 : this.#widthOf(inPair ? 0x10000 : code)
      if (width !== 1) this.#setWidth(block, at % BLOCK, width)
      total += width
      inPair = beginsPair
    }
    this.#end += piece.length
    this.#total = total
  }

  #setWidth(block: number, at: number, width: number): void {
    let widths = this.#widths[block]
    if (widths === undefined) this.#widths[block] = widths = new Uint8Array(BLOCK).fill(1)
    widths[at] = width
  }

  #widthOf(point: number): number {
    return this.#unit === 'code points' || point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
  }

  /** Number of code points or bytes before a code unit. */
  #countBefore(offset: number): number {
    if (offset <= this.#plain) return offset
    if (offset === this.#end) return this.#total
    const block = Math.floor((offset - this.#plain) / BLOCK)
    const within = (offset - this.#plain) % BLOCK
    const widths = this.#widths[block]
    let count = this.#counts[block]!
    if (widths === undefined) return count + within
    for (let at = 0; at < within; at++) count += widths[at]!
    return count
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

const isHigh = (code: number): boolean => code >= 0xd800 && code < 0xdc00
const isLow = (code: number): boolean => code >= 0xdc00 && code < 0xe000
const isOffset = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0

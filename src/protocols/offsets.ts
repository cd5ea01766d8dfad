/**
 * Offsets in one text. Ours are UTF-16 units, as strings of this language count; OpenAI's protocols count code points,
 * Google's bytes of UTF-8.
 * A range ends before its second offset.
 */
export class Offsets {
  readonly #unit: 'code points' | 'bytes'
  /** How many code points or bytes stand before each unit, and before the end; there is room for more. */
  #before = new Uint32Array(1)
  /** Length of the text in our units. */
  #end = 0
  /** The first half of a pair, whose second one may come with the next piece. */
  #half = ''

  constructor(text: string, unit: 'code points' | 'bytes') {
    this.#unit = unit
    this.append(text)
  }

  /** The text goes on with this. */
  append(more: string): void {
    const piece = this.#half + more
    const start = this.#end - this.#half.length
    this.#end = start + piece.length
    if (this.#end >= this.#before.length) {
      const longer = new Uint32Array(Math.max(this.#end + 1, 2 * start))
      longer.set(this.#before)
      this.#before = longer
    }
    for (let at = 0, before = this.#before[start]!; at < piece.length; ) {
      const point = piece.codePointAt(at)!
      // Within a pair of units is where it begins.
      if (point > 0xffff) this.#before[start + ++at] = before
      before += this.#unit === 'code points' || point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
      this.#before[start + ++at] = before
    }
    const last = piece.charCodeAt(piece.length - 1)
    this.#half = last >= 0xd800 && last < 0xdc00 ? piece.slice(-1) : ''
  }

  /** All of the text. */
  get length(): number {
    return this.#before[this.#end]!
  }

  /** An offset of ours, on the wire; one behind the end is the end. */
  written(offset: number): number {
    return this.#before[Math.min(offset, this.#end)]!
  }

  /** A range on the wire, as ours; undefined where it is none, or not in the text. */
  read(start: unknown, end: unknown): { start: number; end: number } | undefined {
    if (!isOffset(start) || !isOffset(end) || start >= end || end > this.length) return undefined
    return { start: this.#find(start), end: this.#find(end) }
  }

  /** The first offset with so much before it: within a character, its end. */
  #find(count: number): number {
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

/**
 * Offsets in one text. Ours are UTF-16 units, as strings of this language count; OpenAI's protocols count code points, Google's bytes of UTF-8.
 * A range ends before its second offset.
 */
export class Offsets {
  /** How many code points or bytes stand before each unit, and before the end. */
  readonly #before: Uint32Array

  constructor(text: string, unit: 'code points' | 'bytes') {
    this.#before = new Uint32Array(text.length + 1)
    for (let at = 0, before = 0; at < text.length;) {
      const point = text.codePointAt(at)!
      // Within a pair of units is where it begins.
      if (point > 0xffff) this.#before[++at] = before
      before += unit === 'code points' || point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
      this.#before[++at] = before
    }
  }

  /** All of the text. */
  get length(): number {
    return this.#before.at(-1)!
  }

  /** An offset of ours, on the wire; one behind the end is the end. */
  written(offset: number): number {
    return this.#before[Math.min(offset, this.#before.length - 1)]!
  }

  /** A range on the wire, as ours; undefined where it is none, or not in the text. */
  read(start: unknown, end: unknown): { start: number; end: number } | undefined {
    if (!isOffset(start) || !isOffset(end) || start >= end || end > this.length) return undefined
    return { start: this.#find(start), end: this.#find(end) }
  }

  /** The first offset with so much before it: within a character, its end. */
  #find(count: number): number {
    let [low, high] = [0, this.#before.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#before[middle]! < count) low = middle + 1
      else high = middle
    }
    return low
  }
}

const isOffset = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0

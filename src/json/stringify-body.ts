import type { BodyPieces } from './splice-bytes.ts'
import { sameBeginning } from './same-beginning.ts'

/** Room for elements that follow later, without which each of them would cost a copy of all before. */
const SLACK = 1.25

/** The text of an array that comes again with more elements: the elements, and where each ends. */
export class ArrayText {
  #elements: readonly unknown[] = []
  #ends: number[] = []
  #bytes: Buffer = Buffer.alloc(0)
  /** The bytes that have been written, and may have been given away. */
  #used = 0

  /** The bytes of `[`, the elements with commas between them, and no end. Only elements not known are written. */
  of(elements: readonly unknown[]): Buffer {
    const known = sameBeginning(this.#elements, elements)
    if (known < elements.length) this.#add(elements, known)
    return this.#bytes.subarray(0, elements.length === 0 ? 0 : this.#ends[elements.length - 1])
  }

  #add(elements: readonly unknown[], known: number): void {
    const from = known === 0 ? 0 : this.#ends[known - 1]!
    let end = from
    this.#ends.length = known
    let text = ''
    for (let index = known; index < elements.length; index++) {
      const element = (index === 0 ? '[' : ',') + (JSON.stringify(elements[index]) ?? 'null')
      text += element
      this.#ends.push((end += Buffer.byteLength(element)))
    }
    // Bytes that were given away stay as they are, so that only what follows all of them is written in place.
    if (from < this.#used || end > this.#bytes.length) {
      const bytes = Buffer.allocUnsafeSlow(Math.ceil(end * SLACK))
      this.#bytes.copy(bytes, 0, 0, from)
      this.#bytes = bytes
    }
    this.#bytes.write(text, from)
    this.#used = end
    this.#elements = elements
  }
}

/**
 * The bytes of JSON.stringify of an object. `known`: the text of an array whose elements come again as the same objects
 * and do not change.
 */
export function stringifyBody(
  body: Record<string, unknown>,
  known: (value: unknown) => ArrayText | undefined,
): string | BodyPieces {
  const pieces: (Uint8Array | string)[] = []
  let text = ''
  let isFirst = true
  for (const name of Object.keys(body)) {
    const value = body[name]
    const array = known(value)
    const written = array === undefined ? JSON.stringify(value) : ''
    if (written === undefined) continue
    text += `${isFirst ? '{' : ','}${JSON.stringify(name)}:${written}`
    isFirst = false
    if (array === undefined) continue
    const bytes = array.of(value as readonly unknown[])
    pieces.push(text, bytes)
    text = bytes.length === 0 ? '[]' : ']'
  }
  text += isFirst ? '{}' : '}'
  return pieces.length === 0 ? text : [...pieces, text]
}

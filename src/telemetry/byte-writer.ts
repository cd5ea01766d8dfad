const FIRST_BYTES = 64 * 1024
/** UTF-8 of one UTF-16 unit. */
const BYTES_PER_UNIT = 3

/**
 * UTF-8 of many texts in one memory, which is used again for the next message: strings of that length for each would
 * leave garbage that costs more than writing them.
 */
export class ByteWriter {
  #data = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #length = 0

  /** Begins anew. What `written` gave before is no longer valid. */
  clear(): void {
    this.#length = 0
  }

  text(text: string): void {
    this.#reserve(text.length * BYTES_PER_UNIT)
    this.#length += this.#data.write(text, this.#length)
  }

  bytes(bytes: Uint8Array): void {
    this.#reserve(bytes.length)
    this.#data.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** All since `clear`. */
  get written(): Uint8Array {
    return this.#data.subarray(0, this.#length)
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes
    if (needed <= this.#data.length) return
    const data = Buffer.allocUnsafeSlow(Math.max(needed, this.#data.length * 2))
    data.set(this.written)
    this.#data = data
  }
}

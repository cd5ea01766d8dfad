import { BYTES_PER_UNIT, ByteWriter } from './byte-writer.ts'
import {
  bytesOf,
  type Field,
  ID,
  type Kind,
  KIND_BITS,
  type Template,
  type TemplateWriter,
  TEXT,
  TIME,
  WHOLE,
} from './otlp-writer.ts'

/** The most bytes of a tag and a number. */
const NUMBER_BYTES = 11
const FIXED_BYTES = 8
/** Longer texts are not worth a loop. */
const SHORT = 64
const PREPARED_BYTES = 1024
const NANOSECONDS = 1e6
const TWO_16 = 2 ** 16
const TWO_32 = 2 ** 32
const KIND = (1 << KIND_BITS) - 1

/** Writes protobuf: https://protobuf.dev/programming-guides/encoding/. */
export class ProtobufWriter extends ByteWriter implements TemplateWriter {
  /** Two numbers for each open message: the bytes kept for its length, and where its contents begin after them. */
  readonly #begun: number[] = []
  /** The values that were left out, as in `Template`. */
  readonly #left: number[] = []

  begin({ tag, lengthBytes }: Field): void {
    this.reserve(1 + lengthBytes)
    this.data[this.length++] = tag
    this.length += lengthBytes
    this.#begun.push(lengthBytes, this.length)
  }

  end(): void {
    const start = this.#begun.pop()!
    this.#setLength(start, this.#begun.pop()!)
  }

  text({ tag }: Field, value: string): void {
    this.reserve(NUMBER_BYTES + value.length * BYTES_PER_UNIT)
    this.data[this.length++] = tag
    const start = ++this.length
    if (value.length <= SHORT && this.#putAscii(start, value)) this.length += value.length
    else this.length += this.data.write(value, start)
    this.#setLength(start, 1)
  }

  enumeration(field: Field, value: number): void {
    this.int64(field, value)
  }

  int64({ tag }: Field, value: number): void {
    this.reserve(NUMBER_BYTES)
    this.data[this.length++] = tag
    this.length = this.#putNumber(this.length, value)
  }

  fixed64({ tag }: Field, value: number): void {
    this.reserve(1 + FIXED_BYTES)
    this.data[this.length++] = tag
    this.#writeFixed(value)
  }

  time({ tag }: Field, ms: number): void {
    this.reserve(1 + FIXED_BYTES)
    this.data[this.length++] = tag
    this.#putTime(this.length, ms)
    this.length += FIXED_BYTES
  }

  double({ tag }: Field, value: number): void {
    this.reserve(1 + FIXED_BYTES)
    this.data[this.length++] = tag
    this.#writeDouble(value)
  }

  isTrue(field: Field): void {
    this.int64(field, 1)
  }

  fixed64s(field: Field, values: readonly number[]): void {
    this.begin(field)
    this.reserve(values.length * FIXED_BYTES)
    for (const value of values) this.#writeFixed(value)
    this.end()
  }

  doubles(field: Field, values: readonly number[]): void {
    this.begin(field)
    this.reserve(values.length * FIXED_BYTES)
    for (const value of values) this.#writeDouble(value)
    this.end()
  }

  leave(kind: Kind, { tag }: Field, bytes: number): void {
    this.reserve(2 + bytes)
    this.data[this.length++] = tag
    if (kind === ID || kind === TEXT) this.data[this.length++] = bytes
    this.#left.push((this.length << KIND_BITS) | kind)
    this.data.fill(0, this.length, (this.length += bytes))
  }

  prepare(write: (out: TemplateWriter) => void): Template {
    const out = new ProtobufWriter(PREPARED_BYTES)
    write(out)
    return { left: out.#left, bytes: out.written.slice(), texts: [], list: undefined }
  }

  fill({ left, bytes }: Template, values: readonly (string | number)[]): void {
    const start = this.length
    this.append(bytes)
    for (let i = 0; i < left.length; i++) {
      const place = left[i]!
      const at = start + (place >> KIND_BITS)
      switch (place & KIND) {
        case ID:
          this.#putId(at, values[i] as string)
          break
        case TIME:
          this.#putTime(at, values[i] as number)
          break
        case TEXT:
          this.#putAscii(at, values[i] as string)
          break
        case WHOLE:
          this.#putNumber(at, values[i] as number)
          break
        default:
          this.view.setFloat64(at, values[i] as number, true)
      }
    }
  }

  /** Writes the length of what follows `start` before it, and moves that where another number of bytes was kept. */
  #setLength(start: number, kept: number): void {
    const length = this.length - start
    const more = bytesOf(length) - kept
    if (more !== 0) {
      this.reserve(Math.max(0, more))
      this.data.copyWithin(start + more, start, this.length)
      this.length += more
      const { length: count } = this.#left
      for (let i = count - 1; i >= 0 && this.#left[i]! >> KIND_BITS >= start; i--) this.#left[i]! += more << KIND_BITS
    }
    this.#putNumber(start - kept, length)
  }

  #putId(at: number, hex: string): void {
    const { data } = this
    const { length } = hex
    for (let i = 0; i < length; i += 2) data[at++] = (digit(hex.charCodeAt(i)) << 4) | digit(hex.charCodeAt(i + 1))
  }

  /** False where the text has other characters. A call into the runtime would cost more than most texts. */
  #putAscii(at: number, text: string): boolean {
    const { data } = this
    const { length } = text
    for (let i = 0; i < length; i++) {
      const unit = text.charCodeAt(i)
      if (unit > 127) return false
      data[at++] = unit
    }
    return true
  }

  /** Returns its end. */
  #putNumber(at: number, value: number): number {
    const { data } = this
    let rest = value
    for (; rest > 127; rest = Math.floor(rest / 128)) data[at++] = (rest % 128) | 128
    data[at++] = rest
    return at
  }

  #putTime(at: number, ms: number): void {
    // The product has more digits than a double: it is made of two parts.
    const whole = Math.floor(ms / TWO_16)
    const high = whole * NANOSECONDS
    const top = Math.floor(high / TWO_16)
    const low = (high - top * TWO_16) * TWO_16 + (ms - whole * TWO_16) * NANOSECONDS
    const carried = Math.floor(low / TWO_32)
    this.view.setUint32(at, low - carried * TWO_32, true)
    this.view.setUint32(at + 4, top + carried, true)
  }

  #writeFixed(value: number): void {
    this.view.setUint32(this.length, value, true)
    this.view.setUint32(this.length + 4, Math.floor(value / TWO_32), true)
    this.length += FIXED_BYTES
  }

  #writeDouble(value: number): void {
    this.view.setFloat64(this.length, value, true)
    this.length += FIXED_BYTES
  }
}

/** The value of a hexadecimal digit: letters have a bit more than those of `0` to `9`. */
const digit = (unit: number): number => (unit & 15) + (unit >> 6) * 9

import { BYTES_PER_UNIT, ByteWriter } from './byte-writer.ts'
import type { Field, OtlpWriter, Prepared } from './otlp-writer.ts'

/** The most bytes of a tag and a number. */
const NUMBER_BYTES = 11
const FIXED_BYTES = 8
/** Longer texts are not worth a loop. */
const SHORT = 64
const PREPARED_BYTES = 1024
const NANOSECONDS = 1e6
const TWO_16 = 2 ** 16
const TWO_32 = 2 ** 32

/** Writes protobuf: https://protobuf.dev/programming-guides/encoding/. */
export class ProtobufWriter extends ByteWriter implements OtlpWriter {
  /** Where the contents of open messages begin, after one byte for their length. */
  readonly #begun: number[] = []
  readonly #double = new Float64Array(1)
  readonly #doubleBytes = new Uint8Array(this.#double.buffer)

  begin({ tag }: Field): void {
    this.reserve(2)
    this.data[this.length++] = tag
    this.#begun.push(++this.length)
  }

  end(): void {
    this.#setLength(this.#begun.pop()!)
  }

  text({ tag }: Field, value: string): void {
    this.reserve(NUMBER_BYTES + value.length * BYTES_PER_UNIT)
    this.data[this.length++] = tag
    const start = ++this.length
    if (!this.#writeAscii(value)) this.length = start + this.data.write(value, start)
    this.#setLength(start)
  }

  id({ tag }: Field, hex: string): void {
    const { length } = hex
    this.reserve(2 + length / 2)
    const { data } = this
    let at = this.length
    data[at++] = tag
    data[at++] = length / 2
    for (let i = 0; i < length; i += 2) data[at++] = (DIGITS[hex.charCodeAt(i)]! << 4) | DIGITS[hex.charCodeAt(i + 1)]!
    this.length = at
  }

  enumeration(field: Field, value: number): void {
    this.int64(field, value)
  }

  int64({ tag }: Field, value: number): void {
    this.reserve(NUMBER_BYTES)
    this.data[this.length++] = tag
    this.#writeNumber(value)
  }

  fixed64({ tag }: Field, value: number): void {
    this.reserve(1 + FIXED_BYTES)
    this.data[this.length++] = tag
    this.#writeFixed(value >>> 0, Math.floor(value / TWO_32))
  }

  time({ tag }: Field, ms: number): void {
    this.reserve(1 + FIXED_BYTES)
    this.data[this.length++] = tag
    // The product has more digits than a double: it is made of two parts.
    const whole = Math.floor(ms / TWO_16)
    const high = whole * NANOSECONDS
    const top = Math.floor(high / TWO_16)
    const low = (high - top * TWO_16) * TWO_16 + (ms - whole * TWO_16) * NANOSECONDS
    const carried = Math.floor(low / TWO_32)
    this.#writeFixed(low - carried * TWO_32, top + carried)
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
    for (const value of values) this.#writeFixed(value >>> 0, Math.floor(value / TWO_32))
    this.end()
  }

  doubles(field: Field, values: readonly number[]): void {
    this.begin(field)
    this.reserve(values.length * FIXED_BYTES)
    for (const value of values) this.#writeDouble(value)
    this.end()
  }

  prepare(write: (out: OtlpWriter) => void): Prepared {
    const out = new ProtobufWriter(PREPARED_BYTES)
    write(out)
    return { bytes: out.written.slice(), list: undefined }
  }

  add({ bytes }: Prepared): void {
    this.append(bytes)
  }

  /** Writes the length of what follows `start` before it, and moves that where one byte is too few. */
  #setLength(start: number): void {
    const length = this.length - start
    if (length < 128) {
      this.data[start - 1] = length
      return
    }
    const more = bytesOf(length) - 1
    this.reserve(more)
    this.data.copyWithin(start + more, start, this.length)
    this.length = start - 1
    this.#writeNumber(length)
    this.length += length
  }

  /** False where the text is long or has other characters: a call into the runtime costs more than most texts. */
  #writeAscii(value: string): boolean {
    const { data } = this
    const { length } = value
    if (length > SHORT) return false
    let at = this.length
    for (let i = 0; i < length; i++) {
      const unit = value.charCodeAt(i)
      if (unit > 127) return false
      data[at++] = unit
    }
    this.length = at
    return true
  }

  #writeNumber(value: number): void {
    const { data } = this
    let at = this.length
    let rest = value
    for (; rest > 127; rest = Math.floor(rest / 128)) data[at++] = (rest % 128) | 128
    data[at++] = rest
    this.length = at
  }

  #writeFixed(low: number, high: number): void {
    const { data } = this
    let at = this.length
    for (let rest = low | 0, i = 0; i < 4; i++, rest >>= 8) data[at++] = rest
    for (let rest = high | 0, i = 0; i < 4; i++, rest >>= 8) data[at++] = rest
    this.length = at
  }

  #writeDouble(value: number): void {
    this.#double[0] = value
    const bytes = this.#doubleBytes
    const { data } = this
    let at = this.length
    for (let i = 0; i < FIXED_BYTES; i++) data[at++] = bytes[i]!
    this.length = at
  }
}

/** The values of hexadecimal digits, by their characters. */
const DIGITS = Uint8Array.from({ length: 128 }, (_, unit) => Number.parseInt(String.fromCharCode(unit), 16) || 0)

/** The bytes that a number takes: seven bits in each. */
const bytesOf = (value: number): number => {
  let bytes = 1
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) bytes++
  return bytes
}

import { BYTES_PER_UNIT, ByteWriter } from './byte-writer.ts'
import type { Field, OtlpWriter, Prepared } from './otlp-writer.ts'

const PREPARED_BYTES = 1024
/** Text becomes bytes from this length on: each time is a call into the runtime. */
const FLUSH_LENGTH = 1024

/**
 * Writes the JSON of OTLP, which is that of protobuf but for its ids: https://opentelemetry.io/docs/specs/otlp/
 */
export class JsonWriter extends ByteWriter implements OtlpWriter {
  /** Text that has not become bytes. */
  #text = '{'
  #isEmpty = true
  /** The repeated field whose list is open in the current message, and those in the messages around it. */
  #list: Field | undefined
  readonly #lists: (Field | undefined)[] = []

  override clear(): void {
    super.clear()
    this.#text = '{'
    this.#isEmpty = true
    this.#list = undefined
  }

  /** The outermost message is closed. */
  override get written(): Uint8Array {
    this.#closeList()
    this.#text += '}'
    this.#flush()
    return super.written
  }

  begin(field: Field): void {
    this.#name(field)
    this.#lists.push(this.#list)
    this.#list = undefined
    this.#text += '{'
    this.#isEmpty = true
  }

  end(): void {
    this.#closeList()
    this.#text += '}'
    if (this.#text.length > FLUSH_LENGTH) this.#flush()
    this.#list = this.#lists.pop()
    this.#isEmpty = false
  }

  text(field: Field, value: string): void {
    this.#value(field, JSON.stringify(value))
  }

  id(field: Field, hex: string): void {
    this.#value(field, `"${hex}"`)
  }

  enumeration(field: Field, value: number): void {
    this.#value(field, String(value))
  }

  int64(field: Field, value: number): void {
    this.#value(field, `"${value}"`)
  }

  fixed64(field: Field, value: number): void {
    this.#value(field, `"${value}"`)
  }

  time(field: Field, ms: number): void {
    this.#value(field, `"${ms}000000"`)
  }

  double(field: Field, value: number): void {
    this.#value(field, doubleText(value))
  }

  isTrue(field: Field): void {
    this.#value(field, 'true')
  }

  fixed64s(field: Field, values: readonly number[]): void {
    for (const value of values) this.fixed64(field, value)
  }

  doubles(field: Field, values: readonly number[]): void {
    for (const value of values) this.double(field, value)
  }

  prepare(write: (out: OtlpWriter) => void): Prepared {
    const out = new JsonWriter(PREPARED_BYTES)
    out.#text = ''
    out.#isEmpty = false
    write(out)
    out.#flush()
    return { bytes: out.data.slice(0, out.length), list: out.#list }
  }

  add({ bytes, list }: Prepared): void {
    this.#closeList()
    this.#flush()
    this.append(bytes)
    this.#list = list
  }

  #value(field: Field, json: string): void {
    this.#name(field)
    this.#text += json
  }

  #name(field: Field): void {
    if (this.#list === field) {
      this.#text += ','
      return
    }
    this.#closeList()
    this.#text += `${this.#isEmpty ? '' : ','}"${field.name}":${field.isRepeated ? '[' : ''}`
    this.#isEmpty = false
    if (field.isRepeated) this.#list = field
  }

  #closeList(): void {
    if (this.#list !== undefined) this.#text += ']'
    this.#list = undefined
  }

  #flush(): void {
    this.reserve(this.#text.length * BYTES_PER_UNIT)
    this.length += this.data.write(this.#text, this.length)
    this.#text = ''
  }
}

/** The JSON of protobuf has infinities and NaN as texts. */
const doubleText = (value: number): string => (Number.isFinite(value) ? String(value) : `"${value}"`)

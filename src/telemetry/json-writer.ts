import { BYTES_PER_UNIT, ByteWriter } from './byte-writer.ts'
import { type Field, type Kind, type Template, type TemplateWriter, DOUBLE, TIME } from './otlp-writer.ts'

const PREPARED_BYTES = 1024
/** Text becomes bytes from this length on: each time is a call into the runtime. */
const FLUSH_LENGTH = 1024
/** In place of a value that a template leaves out. JSON has no such character. */
const LEFT_OUT = '\0'
const NO_BYTES = new Uint8Array(0)

/**
 * Writes the JSON of OTLP, which is that of protobuf but for its ids: https://opentelemetry.io/docs/specs/otlp/
 */
export class JsonWriter extends ByteWriter implements TemplateWriter {
  /** Text that has not become bytes. */
  #text = '{'
  #isEmpty = true
  /** The repeated field whose list is open in the current message, and those in the messages around it. */
  #list: Field | undefined
  readonly #lists: (Field | undefined)[] = []
  /** The values that were left out. */
  readonly #left: Kind[] = []

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

  leave(kind: Kind, field: Field): void {
    this.#value(field, LEFT_OUT)
    this.#left.push(kind)
  }

  prepare(write: (out: TemplateWriter) => void): Template {
    const out = new JsonWriter(PREPARED_BYTES)
    out.#text = ''
    write(out)
    out.#flush()
    const texts = out.data.toString('utf8', 0, out.length).split(LEFT_OUT)
    return { left: out.#left, bytes: NO_BYTES, texts, list: out.#list }
  }

  fill({ left, texts, list }: Template, values: readonly (string | number)[]): void {
    let text = texts[0]!
    for (let i = 0; i < left.length; i++) text += valueText(left[i]!, values[i]!) + texts[i + 1]!
    this.#text += text
    this.#isEmpty = false
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

const valueText = (kind: number, value: string | number): string =>
  kind === DOUBLE ? doubleText(value as number) : kind === TIME ? `"${value}000000"` : `"${value}"`

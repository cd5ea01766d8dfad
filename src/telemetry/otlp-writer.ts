/**
 * A field of a message of OTLP. `name`: in JSON; `tag`: number and wire type in protobuf, in one byte; `lengthBytes`:
 * those that the length of a message in it takes as a rule.
 */
export type Field = { name: string; tag: number; isRepeated: boolean; lengthBytes: number }

export type OtlpProtocol = 'http/protobuf' | 'http/json'

/**
 * Kinds of values that a template leaves out: an id in lowercase hexadecimal; Unix milliseconds, which become
 * nanoseconds; at most 127 letters, digits, `-` and `_`; a natural number; any number.
 */
export const ID = 0
export const TIME = 1
export const TEXT = 2
export const WHOLE = 3
export const DOUBLE = 4
export type Kind = typeof ID | typeof TIME | typeof TEXT | typeof WHOLE | typeof DOUBLE

export const KIND_BITS = 3

/**
 * Fields that many messages have but for some values, written once. `left`: the kind of each value left out, with its
 * offset in `bytes` before these bits; `bytes`: in protobuf, with room for them; `texts`: in JSON, before and after
 * each; `list`: the repeated field whose items they end with.
 */
export type Template = {
  left: readonly number[]
  bytes: Uint8Array
  texts: readonly string[]
  list: Field | undefined
}

/** Writes the fields of messages in an encoding of OTLP. Items of a repeated field follow one another. */
export interface OtlpWriter {
  /** Begins anew. What `written` gave before is no longer valid. */
  clear(): void
  /** All since `clear`. */
  readonly written: Uint8Array
  /** Begins a message in a field of the message that is open. */
  begin(field: Field): void
  /** Ends the message that began last. */
  end(): void
  text(field: Field, value: string): void
  enumeration(field: Field, value: number): void
  /** A natural number. */
  int64(field: Field, value: number): void
  fixed64(field: Field, value: number): void
  /** Unix milliseconds, which become nanoseconds. */
  time(field: Field, ms: number): void
  double(field: Field, value: number): void
  isTrue(field: Field): void
  fixed64s(field: Field, values: readonly number[]): void
  doubles(field: Field, values: readonly number[]): void
  /** The fields that `write` writes or leaves out, as the first ones of a message. */
  prepare(write: (out: TemplateWriter) => void): Template
  /** Writes the first fields of a message, with the values that their template leaves out, in their order. */
  fill(template: Template, values: readonly (string | number)[]): void
}

export interface TemplateWriter extends OtlpWriter {
  /** Leaves out a value that takes so many bytes in protobuf. */
  leave(kind: Kind, field: Field, bytes: number): void
}

/** The bytes of a natural number in protobuf: seven bits in each. */
export const bytesOf = (value: number): number => {
  let bytes = 1
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) bytes++
  return bytes
}

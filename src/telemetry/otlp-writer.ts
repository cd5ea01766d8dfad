/** A field of a message of OTLP. `name`: in JSON; `tag`: number and wire type in protobuf, in one byte. */
export type Field = { name: string; tag: number; isRepeated: boolean }

export type OtlpProtocol = 'http/protobuf' | 'http/json'

/** Fields that many messages share, written once. `list`: the repeated field whose items they end with. */
export type Prepared = { bytes: Uint8Array; list: Field | undefined }

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
  /** An id in lowercase hexadecimal. */
  id(field: Field, hex: string): void
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
  /** The fields that `write` writes, to be added to messages that have others already. */
  prepare(write: (out: OtlpWriter) => void): Prepared
  add(prepared: Prepared): void
}

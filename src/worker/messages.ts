import { deserialize, serialize } from 'bun:jsc'

/** A message between the server and its worker process: a value, and bytes that are passed on as they are. */
export type Message = { value: unknown; bytes: Buffer }

/** Lengths of value and bytes, in front of both. */
const HEAD_BYTES = 8

/** A message as it is written. */
export function piecesOf(value: unknown, bytes: readonly Uint8Array[]): Uint8Array[] {
  const data = serialize(value, { binaryType: 'nodebuffer' })
  const head = Buffer.allocUnsafe(HEAD_BYTES)
  head.writeUInt32LE(data.length, 0)
  head.writeUInt32LE(
    bytes.reduce((sum, { length }) => sum + length, 0),
    4,
  )
  return [head, data, ...bytes]
}

/** Reads messages from bytes in chunks of any size. */
export class MessageReader {
  readonly #onMessage: (message: Message) => void
  /** Head, value and bytes of the message that is being read, each complete before the next one begins. */
  #parts: Buffer[] = [Buffer.allocUnsafe(HEAD_BYTES)]
  #filled = 0

  constructor(onMessage: (message: Message) => void) {
    this.#onMessage = onMessage
  }

  push(chunk: Uint8Array): void {
    let from = 0
    while (from < chunk.length) {
      const part = this.#parts.at(-1)!
      const piece = chunk.subarray(from, from + part.length - this.#filled)
      part.set(piece, this.#filled)
      this.#filled += piece.length
      from += piece.length
      while (this.#filled === this.#parts.at(-1)!.length) this.#next()
    }
  }

  #next(): void {
    const [head, data, bytes] = this.#parts
    this.#filled = 0
    if (data === undefined) this.#parts.push(Buffer.allocUnsafe(head!.readUInt32LE(0)))
    else if (bytes === undefined) this.#parts.push(Buffer.allocUnsafe(head!.readUInt32LE(4)))
    else {
      this.#parts = [Buffer.allocUnsafe(HEAD_BYTES)]
      this.#onMessage({ value: deserialize(data), bytes })
    }
  }
}

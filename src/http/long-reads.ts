/** A long read that waits is compressed in pieces of so many bytes, of which one at a time is unpacked. */
const PIECE_BYTES = 64 * 1024

/** The fastest level. Frames of a stream repeat each other: they take an eighth or less, at 1.5 ms a megabyte. */
const LEVEL = 1

/** Bytes of a response that wait for their reader. */
export type Waiting = Uint8Array | PackedBytes

/** Reports whether bytes, however few, keep the memory of a long read. */
export const isLong = (bytes: Uint8Array): boolean => bytes.buffer.byteLength > PIECE_BYTES

/**
 * Frees a long read, of which nothing may be in use any more. Otherwise it would stay until the next collection: while
 * all clients are slow nothing is allocated, and so nothing is collected.
 */
export const free = (bytes: Uint8Array): void => {
  if (isLong(bytes)) (bytes.buffer as ArrayBuffer).transfer(0)
}

/** The same bytes, those of long reads compressed. */
export const packed = (waiting: readonly Waiting[]): Waiting[] =>
  waiting.flatMap((bytes) => {
    if (bytes instanceof PackedBytes || !isLong(bytes)) return [bytes]
    const pieces: PackedBytes[] = []
    for (let from = 0; from < bytes.length; from += PIECE_BYTES)
      pieces.push(new PackedBytes(bytes.subarray(from, from + PIECE_BYTES)))
    free(bytes)
    return pieces
  })

/** Compressed bytes. */
export class PackedBytes {
  /** Number of bytes when they are unpacked. */
  readonly length: number
  readonly #bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.length = bytes.length
    this.#bytes = Bun.zstdCompressSync(bytes, { level: LEVEL })
  }

  unpack(): Uint8Array {
    return Bun.zstdDecompressSync(this.#bytes)
  }
}

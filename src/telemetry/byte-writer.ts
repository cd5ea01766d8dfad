const FIRST_BYTES = 64 * 1024

/**
 * Bytes in one memory, which is used again for the next message: strings of that length for each would leave garbage
 * that costs more than writing them.
 */
export class ByteWriter {
  protected data: Buffer
  /** Numbers of several bytes in `data`. */
  protected view: DataView
  protected length = 0

  constructor(bytes = FIRST_BYTES) {
    this.data = Buffer.allocUnsafeSlow(bytes)
    this.view = viewOf(this.data)
  }

  clear(): void {
    this.length = 0
  }

  /** All since `clear`, until the next write. */
  get written(): Uint8Array {
    return this.data.subarray(0, this.length)
  }

  protected append(bytes: Uint8Array): void {
    this.reserve(bytes.length)
    this.data.set(bytes, this.length)
    this.length += bytes.length
  }

  /** Grows the memory for so many more bytes. */
  protected reserve(bytes: number): void {
    const needed = this.length + bytes
    if (needed <= this.data.length) return
    const data = Buffer.allocUnsafeSlow(Math.max(needed, this.data.length * 2))
    data.set(this.data.subarray(0, this.length))
    this.data = data
    this.view = viewOf(data)
  }
}

const viewOf = ({ buffer, byteOffset, byteLength }: Buffer): DataView => new DataView(buffer, byteOffset, byteLength)

/** UTF-8 of one UTF-16 unit. */
export const BYTES_PER_UNIT = 3

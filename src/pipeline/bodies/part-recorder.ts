import type { BodyWriter } from './body-writer.ts'
import type { PartName } from './record.ts'
import { cutMark } from './timed-text.ts'
import type { Piece, RawPart } from './writing-worker.ts'

/** The bytes of one body that are kept until its request has ended: of a longer one, its beginning and its end. */
const KEPT_BYTES = 8 * 2 ** 20
/** A body in one piece that is longer is shortened at once. */
const LONG_BYTES = 256 * 1024

type Head = Pick<RawPart, 'url' | 'status' | 'headers'>

/** One body, as it is received. */
export class PartRecorder {
  readonly #name: PartName
  #head: Head
  readonly #writer: BodyWriter
  #bytes = 0
  #heldBytes = 0
  /** Left out because too much waits, or by the thread. */
  #cut = 0
  #pieces: Piece[] = []
  /** The end of a long body, which moves on. */
  #end: Piece[] = []
  #endBytes = 0
  #droppedBytes = 0
  #shortening: Promise<void> | undefined
  /** True where something is missing because too much waits. */
  isIncomplete = false

  constructor(name: PartName, head: Partial<Head>, writer: BodyWriter) {
    this.#name = name
    this.#head = { url: null, status: null, headers: [], ...head }
    this.#writer = writer
  }

  /** The head of an answer, which follows its first bytes. */
  setHead(head: Partial<Head>): void {
    this.#head = { ...this.#head, ...head }
  }

  /** A piece of a body, which is copied. */
  add(data: Uint8Array | string, atMs: number): void {
    const bytes = typeof data === 'string' ? Buffer.byteLength(data) : data.length
    if (bytes === 0) return
    this.#bytes += bytes
    if (!this.#hold(bytes)) return
    const piece = { atMs, data: typeof data === 'string' ? data : new Uint8Array(data) }
    if (this.#heldBytes - this.#endBytes <= KEPT_BYTES / 2) {
      this.#pieces.push(piece)
      return
    }
    this.#end.push(piece)
    this.#endBytes += bytes
    this.#dropMiddle()
  }

  /** A body in one piece. */
  addWhole(data: Uint8Array, atMs: number): void {
    if (data.length <= LONG_BYTES) return this.add(data, atMs)
    this.#bytes += data.length
    if (!this.#hold(data.length)) return
    this.#shortening = this.#writer.shorten(new Uint8Array(data)).then(
      ({ text, cut }) => {
        this.#cut += cut
        this.#pieces.push({ atMs, data: text })
      },
      () => {
        this.isIncomplete = true
        this.#cut += data.length
      },
    )
  }

  /** All of it, for the thread. */
  async part(): Promise<RawPart> {
    await this.#shortening
    const dropped = this.#droppedBytes
    const gap: Piece[] = dropped === 0 ? [] : [{ atMs: this.#end[0]?.atMs ?? 0, data: cutMark(dropped) }]
    return {
      name: this.#name,
      ...this.#head,
      bytes: this.#bytes,
      cut: this.#cut + dropped,
      pieces: [...this.#pieces, ...gap, ...this.#end],
    }
  }

  free(): void {
    this.#writer.release(this.#heldBytes)
    this.#heldBytes = this.#endBytes = 0
    this.#pieces = []
    this.#end = []
  }

  #hold(bytes: number): boolean {
    if (!this.#writer.take(bytes)) {
      this.isIncomplete = true
      this.#cut += bytes
      return false
    }
    this.#heldBytes += bytes
    return true
  }

  #dropMiddle(): void {
    while (this.#end.length > 1 && this.#endBytes > KEPT_BYTES / 2) {
      const { data } = this.#end.shift()!
      const bytes = typeof data === 'string' ? Buffer.byteLength(data) : data.length
      this.#endBytes -= bytes
      this.#heldBytes -= bytes
      this.#droppedBytes += bytes
      this.#writer.release(bytes)
    }
  }
}

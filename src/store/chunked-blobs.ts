import { rangeOf } from '../http/content.ts'
import { log } from '../log/log.ts'
import {
  type BlobHealth,
  type BlobStore,
  type BlobWriter,
  type ContentRequest,
  DamagedBlob,
  newBlobName,
} from './blobs.ts'

/** A store of the chunks of blobs: all of a blob but the last have `chunkBytes`. Methods fail as those of BlobStore. */
export interface ChunkStore {
  /** The most of a blob that is in memory at a time. */
  readonly chunkBytes: number
  /** See BlobStore. */
  readonly health?: BlobHealth
  check?(): Promise<void>
  /** Undefined if there is no such chunk. */
  read(name: string, number: number): Promise<Uint8Array | undefined>
  /**
   * Writes the chunk, or writes it again, after a mark with the time: the blob may not have a row of a file yet, or
   * never get one.
   */
  write(name: string, number: number, content: Uint8Array): Promise<void>
  /** Removes all chunks; a mark has another process go on where this one ends. */
  remove(name: string): Promise<void>
  /** Names of marked blobs that must have a row by now, in groups. The marks of a group are removed after it. */
  names(): AsyncIterable<string[]>
}

/** Blobs in chunks, which each process can read. */
export class ChunkedBlobs implements BlobStore {
  readonly #chunks: ChunkStore

  constructor(chunks: ChunkStore) {
    this.#chunks = chunks
  }

  get health(): BlobHealth | undefined {
    return this.#chunks.health
  }

  async check(): Promise<void> {
    await this.#chunks.check?.()
  }

  async create(name = newBlobName()): Promise<BlobWriter> {
    return new ChunkWriter(this.#chunks, name)
  }

  async read(name: string, size: number): Promise<Uint8Array | undefined> {
    const { chunkBytes } = this.#chunks
    const bytes = new Uint8Array(size)
    for (let at = 0; at < size; at += chunkBytes) {
      const chunk = await this.#piece(name, at, Math.min(size, at + chunkBytes), size)
      if (chunk === undefined) return undefined
      bytes.set(chunk, at)
    }
    return bytes
  }

  async respond(name: string, size: number, { range, headers }: ContentRequest): Promise<Response | undefined> {
    const asked = rangeOf(range, size)
    const { from, to } = asked ?? { from: 0, to: size }
    if (asked !== undefined && from === to)
      return new Response(null, { status: 416, headers: { ...headers, 'content-range': `bytes */${size}` } })
    const first = from === to ? new Uint8Array() : await this.#piece(name, from, to, size)
    if (first === undefined) return undefined
    return new Response(first.length === to - from ? first : this.#stream(name, size, first, from + first.length, to), {
      ...(asked === undefined ? {} : { status: 206 }),
      headers: {
        ...headers,
        'accept-ranges': 'bytes',
        ...(asked === undefined ? {} : { 'content-range': `bytes ${from}-${to - 1}/${size}` }),
      },
    })
  }

  /** The bytes of one chunk from a position on. Throws GatewayError store_unavailable for one that is damaged. */
  async #piece(name: string, from: number, to: number, size: number): Promise<Uint8Array | undefined> {
    const { chunkBytes } = this.#chunks
    const number = Math.floor(from / chunkBytes)
    const chunk = await this.#chunks.read(name, number)
    const expected = Math.min(chunkBytes, size - number * chunkBytes)
    if (chunk !== undefined && chunk.length !== expected)
      throw new DamagedBlob(
        `The content of the file is damaged: a part has ${chunk.length} bytes instead of ${expected}.`,
      )
    return chunk?.subarray(from - number * chunkBytes, to - number * chunkBytes)
  }

  /** A reader takes a connection for each chunk, and none while its client is slow. */
  #stream(name: string, size: number, first: Uint8Array, second: number, to: number): ReadableStream<Uint8Array> {
    let at = second
    let next: Uint8Array | undefined = first
    return new ReadableStream(
      {
        pull: async (controller) => {
          const piece = next ?? (await this.#piece(name, at, to, size))
          if (piece === undefined) throw new Error('the file was deleted while it was sent')
          if (next === undefined) at += piece.length
          next = undefined
          controller.enqueue(piece)
          if (at >= to) controller.close()
        },
      },
      { highWaterMark: 0 },
    )
  }

  remove(name: string): Promise<void> {
    return this.#chunks.remove(name)
  }

  names(): AsyncIterable<string[]> {
    return this.#chunks.names()
  }
}

/** Collects the bytes of a chunk, which is written when it is full. */
class ChunkWriter implements BlobWriter {
  readonly name: string
  readonly #chunks: ChunkStore
  #chunk: Uint8Array | undefined
  #length = 0
  #number = 0
  #isKept = false
  #hasFailed = false

  constructor(chunks: ChunkStore, name: string) {
    this.#chunks = chunks
    this.name = name
  }

  async write(bytes: Uint8Array): Promise<void> {
    const { chunkBytes } = this.#chunks
    for (let from = 0; from < bytes.length; ) {
      this.#chunk ??= new Uint8Array(chunkBytes)
      const piece = bytes.subarray(from, from + chunkBytes - this.#length)
      this.#chunk.set(piece, this.#length)
      this.#length += piece.length
      from += piece.length
      if (this.#length === chunkBytes) await this.#flush()
    }
  }

  async keep(): Promise<void> {
    if (this.#length > 0) await this.#flush()
    this.#chunk = undefined
    this.#isKept = true
  }

  async discard(): Promise<void> {
    this.#chunk = undefined
    if (this.#isKept || this.#number === 0) return
    // The mark has what is left removed, also what a write that failed may still become.
    if (this.#hasFailed) return
    await this.#chunks
      .remove(this.name)
      .catch((error: unknown) => log.warn(`What an upload left is removed later: ${String(error)}`))
  }

  async #flush(): Promise<void> {
    const content = this.#chunk!.subarray(0, this.#length)
    this.#length = 0
    try {
      await this.#chunks.write(this.name, this.#number++, content)
    } catch (error) {
      this.#hasFailed = true
      throw error
    }
  }
}

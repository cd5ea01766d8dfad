import { GatewayError } from '../error.ts'
import { DamagedBlob } from '../store/blobs.ts'
import type { BlobStore, FileStore, FileUsage, StoredContent } from '../store/store.ts'

/** Contents that are moved at a time. */
const AT_ONCE = 4

type MoveContentsOptions = {
  store: Pick<FileStore, 'contents' | 'contentUsage' | 'knownBlobs'>
  source: BlobStore
  target: BlobStore
  /** Called for each piece and each content. `done`: what is at the target, or was found to be there. */
  onProgress: (done: Readonly<FileUsage>, all: FileUsage) => void
}

/**
 * `files`, `bytes`: contents that are at the target with the right hash, `copied` of them by this run. `missing`: blobs
 * that the source does not have. `damaged`: those of which it has other bytes, or bytes that cannot be read.
 */
export type MovedContents = FileUsage & { copied: number; missing: string[]; damaged: string[] }

type Hashed = { bytes: number; sha256: string }

/**
 * Copies the bytes of all files and outputs that the target does not have, and reads every one of them back. What a
 * run before left is found by its hash, so that a run may be broken off anywhere. The source stays as it is.
 */
export async function moveContents(options: MoveContentsOptions): Promise<MovedContents> {
  const move = new ContentMove(options, await options.store.contentUsage())
  const contents = eachContent(options.store)
  // One that fails ends the iteration for the others, too, after what they are at.
  const workers = Array.from({ length: AT_ONCE }, async () => {
    for await (const content of contents) await move.move(content)
  })
  for (const settled of await Promise.allSettled(workers)) if (settled.status === 'rejected') throw settled.reason
  return move.moved
}

async function* eachContent(store: MoveContentsOptions['store']): AsyncGenerator<StoredContent> {
  for (let after = ''; ; ) {
    const page = await store.contents(after)
    yield* page
    const last = page.at(-1)
    if (last === undefined) return
    after = last.blob
  }
}

class ContentMove {
  readonly moved: MovedContents = { files: 0, bytes: 0, copied: 0, missing: [], damaged: [] }
  readonly #options: MoveContentsOptions
  readonly #all: FileUsage
  /** Bytes of copies that have not ended. */
  #underWay = 0

  constructor(options: MoveContentsOptions, all: FileUsage) {
    this.#options = options
    this.#all = all
  }

  async move(content: StoredContent): Promise<void> {
    const { store } = this.#options
    const result = (await this.#isThere(content)) ? 'there' : await this.#copy(content)
    if (result === 'there' || result === 'copied') {
      this.moved.files += 1
      this.moved.bytes += content.bytes
      if (result === 'copied') this.moved.copied += 1
      this.#report()
    } else if ((await store.knownBlobs([content.blob])).size > 0) this.moved[result].push(content.blob)
  }

  /** An output has no hash of its own: it is compared with the source, if that has it. */
  async #isThere({ blob, bytes, sha256 }: StoredContent): Promise<boolean> {
    const { source, target } = this.#options
    const found = await hashIn(target, blob, bytes)
    if (found?.bytes !== bytes) return false
    const expected = sha256 ?? (await hashIn(source, blob, bytes))?.sha256 ?? found.sha256
    return found.sha256 === expected
  }

  async #copy({ blob, bytes, sha256 }: StoredContent): Promise<'copied' | 'missing' | 'damaged'> {
    const { source, target } = this.#options
    const writer = await target.create(blob)
    let read: Hashed | undefined
    try {
      read = await this.#read(source, { blob, bytes }, (piece) => writer.write(piece))
      if (read === undefined) return 'missing'
      if (read.bytes !== bytes || read.sha256 !== (sha256 ?? read.sha256)) return 'damaged'
      await writer.keep()
    } catch (error) {
      if (error instanceof UnreadableBlob) return 'damaged'
      throw error
    } finally {
      await writer.discard()
    }
    const copied = await hashIn(target, blob, bytes)
    if (copied?.sha256 === read.sha256) return 'copied'
    await target.remove(blob)
    throw new Error(`the copy of ${blob} is not what was written: nothing of it is left; run the command again`)
  }

  async #read(
    source: BlobStore,
    { blob, bytes }: Pick<StoredContent, 'blob' | 'bytes'>,
    write: (piece: Uint8Array) => Promise<void>,
  ): Promise<Hashed | undefined> {
    let done = 0
    try {
      return await hashOf(source, blob, bytes, async (piece) => {
        await write(piece)
        done += piece.length
        this.#underWay += piece.length
        this.#report()
      })
    } finally {
      this.#underWay -= done
    }
  }

  #report(): void {
    const { files, bytes } = this.moved
    this.#options.onProgress({ files, bytes: bytes + this.#underWay }, this.#all)
  }
}

/** Thrown for a content that cannot be read to its end, though its store is there. */
class UnreadableBlob extends Error {}

/** Undefined for a content that is not there, or not whole. */
const hashIn = (blobs: BlobStore, blob: string, bytes: number): Promise<Hashed | undefined> =>
  hashOf(blobs, blob, bytes, async () => {}).catch((error: unknown) => {
    if (error instanceof UnreadableBlob) return undefined
    throw error
  })

/** Reads a content piece by piece; undefined if it is not there. Throws UnreadableBlob, or what its store throws. */
async function hashOf(
  blobs: BlobStore,
  blob: string,
  bytes: number,
  use: (piece: Uint8Array) => Promise<void>,
): Promise<Hashed | undefined> {
  const response = await readable(() => blobs.respond(blob, bytes, { range: null, headers: {} }))
  if (response === undefined) return undefined
  const hash = new Bun.CryptoHasher('sha256')
  let length = 0
  const reader = response.body?.getReader()
  try {
    for (;;) {
      const { value: piece } = (await readable(async () => reader?.read())) ?? {}
      if (piece === undefined) return { bytes: length, sha256: hash.digest('hex') }
      hash.update(piece)
      length += piece.length
      await use(piece)
    }
  } finally {
    await reader?.cancel().catch(() => {})
  }
}

async function readable<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof GatewayError && !(error instanceof DamagedBlob)) throw error
    throw new UnreadableBlob((error as Error).message, { cause: error })
  }
}

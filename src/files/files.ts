import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { BunFile } from 'bun'
import { GatewayError } from '../error.ts'
import { Blobs, unanswered, type BlobWriter } from './blobs.ts'
import type { FileQuery, FileUsage, Store, StoredFile, StoredOutput } from '../store/store.ts'

export type FilesOptions = {
  store: Store
  /** The data folder. */
  folder: string
  /** Of all files of one account. */
  quotaBytes: number
  mostFiles?: number
  /** How long an output is there. */
  outputKeepMs: number
  now?: () => number
}

/** Of one account: they are counted at every upload. */
const MOST_FILES = 20_000

/** Files of clients and outputs of models: rows in the store, bytes in the data folder. */
export class Files {
  readonly #store: Store
  readonly #blobs: Blobs
  readonly #outputKeepMs: number
  readonly #room: Room
  readonly #now: () => number
  /** Blobs that are kept and have no row yet. */
  readonly #rowless = new Set<string>()
  #swept: Promise<void> = Promise.resolve()
  #stopped = false

  private constructor(
    { store, quotaBytes, mostFiles = MOST_FILES, outputKeepMs, now = Date.now }: FilesOptions,
    blobs: Blobs,
  ) {
    this.#store = store
    this.#blobs = blobs
    this.#outputKeepMs = outputKeepMs
    this.#now = now
    this.#room = new Room({ bytes: quotaBytes, files: mostFiles }, (accountId) => store.files.usage(accountId, now()))
  }

  /** What an earlier process left half done is removed in the background. */
  static async open(options: FilesOptions): Promise<Files> {
    const files = new Files(options, await Blobs.open(join(options.folder, 'files')))
    files.#swept = files.#sweep().catch(() => {})
    return files
  }

  /** Keeps what a model made; resolves, when it is durable, to the token of its address. */
  async publish(accountId: string, { mediaType, data }: { mediaType: string; data: Uint8Array }): Promise<string> {
    const token = randomBytes(32).toString('base64url')
    const blob = await this.#blobs.create()
    try {
      await blob.write(data)
      await this.#keep(blob, () =>
        this.#store.files.addOutput({
          token,
          accountId,
          blob: blob.name,
          mediaType,
          bytes: data.length,
          expiresAt: this.#now() + this.#outputKeepMs,
        }),
      )
    } finally {
      await blob.discard()
    }
    return token
  }

  /**
   * A file on its way in; `declaredBytes`: what its client says it will send at most, where it says so.
   * GatewayError quota_exceeded where there is no room for it, at once, at a write, or when it is kept.
   */
  async upload(accountId: string, declaredBytes = 0): Promise<Upload> {
    const room = await this.#room.enter(accountId, declaredBytes)
    try {
      const blob = await this.#blobs.create()
      const add = (file: Omit<StoredFile, 'blob'>): Promise<void> =>
        this.#keep(blob, async () => {
          if (!(await this.#store.files.add({ ...file, blob: blob.name }, this.#room.most)))
            throw await this.#room.full(accountId)
        })
      return new Upload({ accountId, blob, room, add, now: this.#now })
    } catch (error) {
      room.leave(false)
      throw error
    }
  }

  /** Its bytes first, its row second: a row without bytes is never seen. */
  async #keep(blob: BlobWriter, addRow: () => Promise<void>): Promise<void> {
    this.#rowless.add(blob.name)
    try {
      await blob.keep()
      await addRow()
    } catch (error) {
      // A disk that failed while it flushed may have the row all the same.
      const known = await this.#store.files.knownBlobs([blob.name]).catch(() => undefined)
      if (known?.size === 0) await this.#blobs.remove(blob.name)
      throw error
    } finally {
      this.#rowless.delete(blob.name)
    }
  }

  find(accountId: string, id: string): Promise<StoredFile | undefined> {
    return this.#store.files.find(accountId, id, this.#now())
  }

  /** `after`: an id of a file, which may be deleted by now. Undefined where it cannot be one. */
  async list(
    accountId: string,
    { after, ...query }: Omit<FileQuery, 'now' | 'after'> & { after?: string | undefined },
  ): Promise<StoredFile[] | undefined> {
    const createdAt = after === undefined ? undefined : instantOf(after)
    if (after !== undefined && createdAt === undefined) return undefined
    return this.#store.files.list(accountId, {
      ...query,
      now: this.#now(),
      after: createdAt === undefined ? undefined : { id: after!, createdAt },
    })
  }

  /** Undefined: there is none, or it has expired. */
  findOutput(token: string): Promise<StoredOutput | undefined> {
    return this.#store.files.findOutput(token, this.#now())
  }

  /**
   * To be answered in this same turn of the event loop: what is open then is read to its end, whoever deletes it.
   * GatewayError not_found where it was deleted since it was found.
   */
  content({ blob, mediaType }: Pick<StoredFile, 'blob' | 'mediaType'>): BunFile {
    const path = this.#blobs.path(blob)
    if (!existsSync(path)) throw deleted()
    return Bun.file(path, { type: mediaType })
  }

  /** All bytes in memory. Fails as `content` does; GatewayError store_unavailable where the disk does not give them. */
  async bytes(file: Pick<StoredFile, 'blob' | 'mediaType'>): Promise<Uint8Array> {
    return this.content(file)
      .bytes()
      .catch((cause: NodeJS.ErrnoException) => {
        throw cause.code === 'ENOENT' ? deleted(cause) : unanswered(cause)
      })
  }

  /** Gives what was deleted. */
  async delete(accountId: string, id: string): Promise<StoredFile | undefined> {
    const deleted = await this.#store.files.delete(accountId, id, this.#now())
    if (deleted === undefined) return undefined
    this.#room.free(accountId, deleted.bytes)
    await this.#blobs.remove(deleted.blob)
    return deleted
  }

  /** Removes what has expired. */
  async purge(): Promise<void> {
    for (const blob of await this.#store.files.purge(this.#now())) await this.#blobs.remove(blob)
  }

  /** Removes blobs without a row: those of a process that ended between the two. */
  async #sweep(): Promise<void> {
    for await (const names of this.#blobs.names()) {
      if (this.#stopped) return
      // Before the rows are read: what gets its row meanwhile is then known by it.
      const candidates = names.filter((name) => !this.#rowless.has(name))
      const known = await this.#store.files.knownBlobs(candidates)
      for (const name of candidates) if (!known.has(name)) await this.#blobs.remove(name)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#swept
  }
}

/** An id tells its place in a list to whoever goes on after a file that is deleted. */
const idAt = (createdAt: number): string =>
  `file-${createdAt.toString(16).padStart(12, '0')}${randomBytes(10).toString('hex')}`

const instantOf = (id: string): number | undefined => {
  const [, instant] = /^file-([0-9a-f]{12})[0-9a-f]{20}$/.exec(id) ?? []
  return instant === undefined ? undefined : parseInt(instant, 16)
}

const deleted = (cause?: unknown): GatewayError =>
  new GatewayError('not_found', 'The file was deleted meanwhile.', { cause })

type UploadParts = {
  accountId: string
  blob: BlobWriter
  room: Place
  add: (file: Omit<StoredFile, 'blob'>) => Promise<void>
  now: () => number
}

/** What an upload is known by when all of it has come. `expiresAfterMs`: absent, it stays until it is deleted. */
export type FileFacts = {
  filename: string
  purpose: string
  mediaType: string
  metadata: string | null
  expiresAfterMs: number | undefined
}

/** A file on its way to the disk. It must be kept or discarded. */
export class Upload {
  readonly #parts: UploadParts
  readonly #hash = new Bun.CryptoHasher('sha256')
  #bytes = 0
  #kept = false

  constructor(parts: UploadParts) {
    this.#parts = parts
  }

  get bytes(): number {
    return this.#bytes
  }

  async write(piece: Uint8Array): Promise<void> {
    await this.#parts.room.take(piece.length)
    this.#bytes += piece.length
    this.#hash.update(piece)
    await this.#parts.blob.write(piece)
  }

  /** Resolves when it is durable. */
  async keep({ filename, purpose, mediaType, metadata, expiresAfterMs }: FileFacts): Promise<StoredFile> {
    const { accountId, blob, add, now } = this.#parts
    const createdAt = now()
    const file = {
      id: idAt(createdAt),
      accountId,
      filename,
      purpose,
      bytes: this.#bytes,
      mediaType,
      sha256: this.#hash.digest('hex'),
      metadata,
      createdAt,
      expiresAt: expiresAfterMs === undefined ? null : createdAt + expiresAfterMs,
    }
    await add(file)
    this.#kept = true
    return { ...file, blob: blob.name }
  }

  /** Gives back what it took, unless it was kept. Never fails. */
  async discard(): Promise<void> {
    this.#parts.room.leave(this.#kept)
    await this.#parts.blob.discard()
  }
}

/**
 * Bytes of one account: those of its files when the first of its uploads began, changed since by what was kept and
 * deleted, and those under way.
 */
type Use = { kept: number; underWay: number; uploads: number }

/** The part of an upload in its account's room. */
type Place = { take(bytes: number): Promise<void>; leave(kept: boolean): void }

/**
 * What uploads under way take together with the files that are there, so that they cannot fill the disk before the
 * store refuses them.
 */
class Room {
  readonly most: FileUsage
  readonly #kept: (accountId: string) => Promise<FileUsage>
  readonly #uses = new Map<string, Use>()

  constructor(most: FileUsage, kept: (accountId: string) => Promise<FileUsage>) {
    this.most = most
    this.#kept = kept
  }

  async enter(accountId: string, declaredBytes: number): Promise<Place> {
    const kept = await this.#kept(accountId)
    const use = this.#uses.get(accountId) ?? { kept: kept.bytes, underWay: 0, uploads: 0 }
    if (use.kept + use.underWay + declaredBytes > this.most.bytes || kept.files >= this.most.files)
      throw await this.full(accountId)
    this.#uses.set(accountId, use)
    use.uploads += 1
    return this.#place(accountId, use)
  }

  #place(accountId: string, use: Use): Place {
    let taken = 0
    return {
      take: async (bytes) => {
        if (use.kept + use.underWay + bytes > this.most.bytes) throw await this.full(accountId)
        use.underWay += bytes
        taken += bytes
      },
      leave: (kept) => {
        use.underWay -= taken
        if (kept) use.kept += taken
        if ((use.uploads -= 1) === 0) this.#uses.delete(accountId)
      },
    }
  }

  free(accountId: string, bytes: number): void {
    const use = this.#uses.get(accountId)
    if (use !== undefined) use.kept -= bytes
  }

  async full(accountId: string): Promise<GatewayError> {
    const { files, bytes } = await this.#kept(accountId)
    const uploading = this.#uses.get(accountId)?.underWay ?? 0
    const others = uploading === 0 ? '' : `, and uploads under way ${uploading}`
    return new GatewayError(
      'quota_exceeded',
      `There is no room for this file: the account's files use ${bytes} of ${this.most.bytes} bytes${others}, and are ${files} of ${this.most.files}. Delete some, or wait until some expire.`,
      { shouldRetry: false },
    )
  }
}

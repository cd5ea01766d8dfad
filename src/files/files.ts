import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { GatewayError } from '../error.ts'
import { log } from '../log/log.ts'
import type {
  BlobHealth,
  BlobStore,
  BlobWriter,
  ContentRequest,
  FileQuery,
  FileStore,
  StoredFile,
  StoredOutput,
} from '../store/store.ts'
import { FolderBlobs } from './blobs.ts'
import { UploadQuota, type UploadLimits } from './quota.ts'
import { createdAtOf, Upload } from './upload.ts'

type FilesOptions = {
  store: FileStore
  /** The data folder. */
  folder: string
  /** The store of the bytes; absent, the data folder. */
  blobs?: BlobStore | undefined
  /** Several processes may use the store of the bytes. */
  isShared?: boolean
  /** The limit for all files of one account together. */
  quotaBytes: number
  maxFiles?: number
  /** The lifetime of outputs. */
  outputKeepMs: number
  limits?: UploadLimits
  now?: () => number
}

/** Files per account: each upload counts them. */
const MAX_FILES = 20_000

const NO_LIMITS: UploadLimits = {
  checkUpload: () => Promise.resolve(),
  checkChunk: () => {},
  limitOf: () => Promise.resolve(Infinity),
}

type ListOptions = Omit<FileQuery, 'now' | 'after'> & { after?: string | undefined }

/** A file or output whose bytes are read. */
type Content = Pick<StoredFile, 'blob' | 'bytes'>

/** Where several processes may use the store of the bytes, each looks so often for what another one left. */
const SWEEP_EVERY_MS = 3_600_000

/** Uploaded files and generated outputs: rows in the store, bytes in the data folder, in the store or in S3. */
export class Files {
  readonly #store: FileStore
  readonly #blobs: BlobStore
  #outputKeepMs: number
  readonly #quota: UploadQuota
  readonly #limits: UploadLimits
  readonly #now: () => number
  /** Names of blobs whose row is being written. */
  readonly #pendingRows = new Set<string>()
  readonly #isShared: boolean
  #swept: Promise<void> = Promise.resolve()
  #sweptAt = performance.now()
  #stopped = false

  private constructor(
    { store, isShared = false, quotaBytes, maxFiles = MAX_FILES, outputKeepMs, limits = NO_LIMITS, now }: FilesOptions,
    blobs: BlobStore,
  ) {
    this.#store = store
    this.#isShared = isShared
    this.#blobs = blobs
    this.#outputKeepMs = outputKeepMs
    this.#limits = limits
    this.#now = now ?? Date.now
    this.#quota = new UploadQuota(
      { bytes: quotaBytes, files: maxFiles },
      (accountId) => limits.limitOf(accountId),
      (accountId) => store.usage(accountId),
      () => this.purge(),
    )
  }

  /** Other limits for files that come from now on. */
  setLimits({ quotaBytes, outputKeepMs }: Pick<FilesOptions, 'quotaBytes' | 'outputKeepMs'>): void {
    this.#outputKeepMs = outputKeepMs
    this.#quota.max = { ...this.#quota.max, bytes: quotaBytes }
  }

  /** Opens the file storage. Leftovers of a crashed process are removed in the background. */
  static async open(options: FilesOptions): Promise<Files> {
    const { folder, isShared = false } = options
    const blobs = options.blobs ?? (await FolderBlobs.open(join(folder, 'files'), isShared))
    const files = new Files(options, blobs)
    files.#swept = files.#sweep().catch(() => {})
    return files
  }

  /** Stores a generated output. Resolves, when it is durable, to the token of its URL. */
  async publish(accountId: string, { mediaType, data }: { mediaType: string; data: Uint8Array }): Promise<string> {
    const token = randomBytes(32).toString('base64url')
    const blob = await this.#blobs.create()
    try {
      await blob.write(data)
      await this.#keep(blob, () =>
        this.#store.addOutput({
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
   * Begins an upload. `declaredBytes`: the size that the client announced, if it did. Throws GatewayError
   * quota_exceeded if the quota does not suffice for it, either here or in the methods of the upload.
   */
  async upload(accountId: string, declaredBytes = 0): Promise<Upload> {
    await this.#limits.checkUpload(declaredBytes)
    const reservation = await this.#quota.reserve(accountId, declaredBytes)
    try {
      const blob = await this.#blobs.create()
      const add = (file: Omit<StoredFile, 'blob'>): Promise<void> =>
        this.#keep(blob, async () => {
          await this.#limits.checkUpload(file.bytes)
          // Other things may have been kept for the account since the upload began.
          const max = await this.#quota.maxOf(accountId)
          const added = await this.#store.add({ ...file, blob: blob.name }, max)
          if (!added) throw await this.#quota.exceeded(accountId, max)
        })
      return new Upload({ accountId, blob, reservation, limits: this.#limits, add, now: this.#now })
    } catch (error) {
      reservation.release(false)
      throw error
    }
  }

  /** Bytes first, row second, so that there is never a row without bytes. */
  async #keep(blob: BlobWriter, addRow: () => Promise<void>): Promise<void> {
    this.#pendingRows.add(blob.name)
    try {
      await blob.keep()
      await this.#add(blob.name, addRow)
    } finally {
      this.#pendingRows.delete(blob.name)
    }
  }

  async #add(blob: string, addRow: () => Promise<void>): Promise<void> {
    try {
      await addRow()
    } catch (error) {
      // After a failed flush, the row may nevertheless have been written.
      const known = await this.#store.knownBlobs([blob]).catch(() => undefined)
      if (known?.size === 0) await this.#remove(blob)
      throw error
    }
  }

  find(accountId: string, id: string): Promise<StoredFile | undefined> {
    return this.#store.find(accountId, id, this.#now())
  }

  /** `after`: a file id, whose file may have been deleted. Undefined if it cannot be a file id. */
  async list(accountId: string, { after, ...query }: ListOptions): Promise<StoredFile[] | undefined> {
    const createdAt = after === undefined ? undefined : createdAtOf(after)
    if (after !== undefined && createdAt === undefined) return undefined
    return this.#store.list(accountId, {
      ...query,
      now: this.#now(),
      after: createdAt === undefined ? undefined : { id: after!, createdAt },
    })
  }

  /** Undefined if there is none, or if it has expired. */
  findOutput(token: string): Promise<StoredOutput | undefined> {
    return this.#store.findOutput(token, this.#now())
  }

  /** The content as a response. Throws GatewayError not_found if it was deleted since it was found. */
  async respond({ blob, bytes }: Content, request: ContentRequest): Promise<Response> {
    return (await this.#blobs.respond(blob, bytes, request)) ?? deleted()
  }

  /** The content in memory. Throws as `respond` does, and GatewayError store_unavailable if it cannot be read. */
  async bytes({ blob, bytes }: Content): Promise<Uint8Array> {
    return (await this.#blobs.read(blob, bytes)) ?? deleted()
  }

  /** Returns the file it deleted. */
  async delete(accountId: string, id: string): Promise<StoredFile | undefined> {
    const deleted = await this.#store.delete(accountId, id, this.#now())
    if (deleted === undefined) return undefined
    this.#quota.free(accountId, deleted.bytes)
    if (await this.#remove(deleted.blob)) await this.#store.endRemovals([deleted.blob]).catch(() => {})
    return deleted
  }

  /** False, and a line in the log, where that fails. */
  #remove(blob: string): Promise<boolean> {
    return this.#blobs.remove(blob).then(
      () => true,
      (error: unknown) => {
        log.warn(`The bytes of a deleted file are removed later: ${String(error)}`)
        return false
      },
    )
  }

  /** Removes files and outputs that have expired, and bytes of deleted ones that any process has left. */
  async purge(): Promise<void> {
    await this.#store.purge(this.#now())
    await this.#removeNoted()
    if (this.#isShared && performance.now() - this.#sweptAt > SWEEP_EVERY_MS)
      this.#swept = this.#swept.then(() => this.#sweep()).catch(() => {})
  }

  /** Finds out whether the store of the bytes can be reached; `health` has the result. */
  async check(): Promise<void> {
    await this.#blobs.check?.().catch(() => {})
  }

  /** The state of a store of the bytes that can be away while the database is not. */
  get health(): BlobHealth | undefined {
    return this.#blobs.health
  }

  /** Ends with the first that fails: the others are due again later. */
  async #removeNoted(): Promise<void> {
    for (;;) {
      const blobs = await this.#store.takeRemovals(this.#now())
      if (blobs.length === 0) return
      const removed: string[] = []
      for (const blob of blobs) {
        if (this.#stopped || !(await this.#remove(blob))) break
        removed.push(blob)
      }
      await this.#store.endRemovals(removed)
      if (removed.length < blobs.length) return
    }
  }

  /** Removes blobs without a row, left by a process that ended between writing the two. */
  async #sweep(): Promise<void> {
    this.#sweptAt = performance.now()
    for await (const names of this.#blobs.names()) {
      if (this.#stopped) return
      // Computed before the rows are read: a row that is written meanwhile then protects its blob.
      const candidates = names.filter((name) => !this.#pendingRows.has(name))
      const known = await this.#store.knownBlobs(candidates)
      for (const name of candidates) if (!known.has(name)) await this.#remove(name)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#swept
  }
}

const deleted = (): never => {
  throw new GatewayError('not_found', 'The file was deleted while it was being read.')
}

import { constants, existsSync } from 'node:fs'
import { access, mkdir, open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../error.ts'
import { descriptorReserve } from '../http/descriptor-limit.ts'
import { log } from '../log/log.ts'
import { newBlobName } from '../store/blobs.ts'
import type { BlobStore, BlobWriter, ContentRequest } from '../store/store.ts'

/** The age of what no upload of another process can be under way to any more. */
const ABANDONED_MS = 3_600_000

/**
 * File contents in the data folder under random names: `<2 hex>/<32 hex>`, and `uploads/<32 hex>` of another name while
 * they are being written.
 */
export class FolderBlobs implements BlobStore {
  readonly #folder: string
  readonly #uploads: string
  /** Other processes may write to the folder, too. */
  readonly #isShared: boolean

  private constructor(folder: string, isShared: boolean) {
    this.#folder = folder
    this.#uploads = join(folder, 'uploads')
    this.#isShared = isShared
  }

  /**
   * Creates the folder, for this user only, and removes incomplete uploads of an earlier process. One that cannot be
   * written is reported in the log: all but new files goes on.
   */
  static async open(folder: string, isShared: boolean): Promise<FolderBlobs> {
    const blobs = new FolderBlobs(folder, isShared)
    try {
      await mkdir(blobs.#uploads, { recursive: true, mode: 0o700 })
      await access(blobs.#uploads, constants.W_OK)
      for (const name of await blobs.#abandonedIn(blobs.#uploads))
        await rm(join(blobs.#uploads, name), { recursive: true, force: true })
    } catch (error) {
      const reason = REASONS[(error as NodeJS.ErrnoException).code ?? ''] ?? `: ${(error as Error).message}`
      log.warn(`The folder ${folder} cannot be written${reason}. Until it can be, uploads and images are refused.`)
    }
    return blobs
  }

  /** For reading alone: nothing is created or removed. */
  static in(folder: string): FolderBlobs {
    return new FolderBlobs(folder, true)
  }

  /** A new blob, which is not visible before `keep`. */
  async create(name = newBlobName()): Promise<BlobWriter> {
    const temporary = join(this.#uploads, newBlobName())
    descriptorReserve.take()
    const handle = await onDisk(this.#begun(temporary)).catch((error: unknown) => {
      descriptorReserve.giveBack()
      throw error
    })
    return new FileWriter(name, handle, { temporary, path: this.#path(name) }, (paths) => this.#publish(paths))
  }

  /** The folder is created where the start could not do so, or where it was removed. */
  async #begun(temporary: string): Promise<FileHandle> {
    try {
      return await open(temporary, 'wx', 0o600)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      await mkdir(this.#uploads, { recursive: true, mode: 0o700 })
      return await open(temporary, 'wx', 0o600)
    }
  }

  async #publish({ temporary, path }: Paths): Promise<void> {
    const folder = join(path, '..')
    const isNew = (await mkdir(folder, { recursive: true, mode: 0o700 })) !== undefined
    await rename(temporary, path)
    await flushFolder(folder)
    if (isNew) await flushFolder(this.#folder)
  }

  #path(name: string): string {
    return join(this.#folder, name.slice(0, 2), name)
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    return Bun.file(this.#path(name))
      .bytes()
      .catch((cause: NodeJS.ErrnoException) => {
        if (cause.code === 'ENOENT') return undefined
        throw diskError(cause)
      })
  }

  /** Bun sends the range that the request asks for. Once open, the file can be read on to its end, even if removed. */
  async respond(name: string, _size: number, { headers }: ContentRequest): Promise<Response | undefined> {
    const path = this.#path(name)
    return existsSync(path) ? new Response(Bun.file(path), { headers }) : undefined
  }

  async remove(name: string): Promise<void> {
    await onDisk(rm(this.#path(name), { force: true }))
  }

  /** One folder at a time. */
  async *names(): AsyncGenerator<string[]> {
    for (const folder of await readdir(this.#folder)) {
      if (/^[0-9a-f]{2}$/.test(folder))
        yield (await this.#abandonedIn(join(this.#folder, folder))).filter((name) => /^[0-9a-f]{32}$/.test(name))
    }
  }

  /** Names in a folder; where others may be writing, of those alone that are old. */
  async #abandonedIn(folder: string): Promise<string[]> {
    const names = await readdir(folder)
    if (!this.#isShared) return names
    const oldest = Date.now() - ABANDONED_MS
    const ages = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)))
    return names.filter((_, index) => (ages[index]?.mtimeMs ?? Infinity) < oldest)
  }
}

/** Where a blob is while it is being written, and then. */
type Paths = { temporary: string; path: string }

/** A blob that is being written. */
class FileWriter implements BlobWriter {
  readonly name: string
  readonly #handle: FileHandle
  readonly #paths: Paths
  readonly #publish: (paths: Paths) => Promise<void>
  #open = true
  #isKept = false

  constructor(name: string, handle: FileHandle, paths: Paths, publish: (paths: Paths) => Promise<void>) {
    this.name = name
    this.#handle = handle
    this.#paths = paths
    this.#publish = publish
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) from += (await onDisk(this.#handle.write(bytes, from))).bytesWritten
  }

  async keep(): Promise<void> {
    await onDisk(this.#handle.sync())
    await this.#close()
    await onDisk(this.#publish(this.#paths))
    this.#isKept = true
  }

  async discard(): Promise<void> {
    await this.#close().catch(() => {})
    if (this.#isKept) return
    for (const path of Object.values(this.#paths)) await rm(path, { force: true }).catch(() => {})
  }

  async #close(): Promise<void> {
    if (!this.#open) return
    this.#open = false
    try {
      await onDisk(this.#handle.close())
    } finally {
      descriptorReserve.giveBack()
    }
  }
}

/** A new name is durable only after its folder is flushed. Windows has no such operation. */
async function flushFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Causes that an operator can fix. */
const REASONS: Record<string, string> = {
  ENOSPC: ': its disk is full',
  EDQUOT: ': its disk is full',
  EIO: ': disk I/O error',
  EROFS: ': it is read-only',
  EACCES: ': Sluice may not write there',
  EPERM: ': Sluice may not write there',
}

const diskError = (cause: NodeJS.ErrnoException): GatewayError =>
  new GatewayError('store_unavailable', `The file store is unavailable${REASONS[cause.code ?? ''] ?? ''}; try again.`, {
    cause,
    retryAfterSeconds: 5,
    shouldRetry: true,
  })

const onDisk = <T>(done: Promise<T>): Promise<T> =>
  done.catch((cause: NodeJS.ErrnoException) => {
    throw diskError(cause)
  })

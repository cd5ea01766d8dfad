import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../error.ts'

/**
 * File contents in the data folder under random names: `<2 hex>/<32 hex>`, and `uploads/<32 hex>` while they are
 * being written.
 */
export class Blobs {
  readonly #folder: string
  readonly #uploads: string

  private constructor(folder: string) {
    this.#folder = folder
    this.#uploads = join(folder, 'uploads')
  }

  /** Creates the folder, for this user only, and removes incomplete uploads of an earlier process. */
  static async open(folder: string): Promise<Blobs> {
    const blobs = new Blobs(folder)
    await rm(blobs.#uploads, { recursive: true, force: true })
    await mkdir(blobs.#uploads, { recursive: true, mode: 0o700 })
    return blobs
  }

  /** A new blob, which is not visible before `keep`. */
  async create(): Promise<BlobWriter> {
    const name = randomBytes(16).toString('hex')
    const temporary = join(this.#uploads, name)
    const handle = await onDisk(open(temporary, 'wx', 0o600))
    return new BlobWriter(name, handle, temporary, () => this.#publish(name, temporary))
  }

  async #publish(name: string, temporary: string): Promise<void> {
    const path = this.path(name)
    const folder = join(path, '..')
    const isNew = (await mkdir(folder, { recursive: true, mode: 0o700 })) !== undefined
    await rename(temporary, path)
    await flushFolder(folder)
    if (isNew) await flushFolder(this.#folder)
  }

  path(name: string): string {
    return join(this.#folder, name.slice(0, 2), name)
  }

  /** Open readers can read on to the end. Never fails: what remains is removed at the next start. */
  async remove(name: string): Promise<void> {
    await rm(this.path(name), { force: true }).catch(() => {})
  }

  /** The names of all blobs, one folder at a time. */
  async *names(): AsyncGenerator<string[]> {
    for (const folder of await readdir(this.#folder)) {
      if (/^[0-9a-f]{2}$/.test(folder))
        yield (await readdir(join(this.#folder, folder))).filter((name) => /^[0-9a-f]{32}$/.test(name))
    }
  }
}

/** A blob that is being written. Methods throw GatewayError store_unavailable if the disk fails. */
export class BlobWriter {
  readonly name: string
  readonly #handle: FileHandle
  readonly #temporary: string
  readonly #publish: () => Promise<void>
  #open = true

  constructor(name: string, handle: FileHandle, temporary: string, publish: () => Promise<void>) {
    this.name = name
    this.#handle = handle
    this.#temporary = temporary
    this.#publish = publish
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) from += (await onDisk(this.#handle.write(bytes, from))).bytesWritten
  }

  /** Resolves when the blob is durable under its name. */
  async keep(): Promise<void> {
    await onDisk(this.#handle.sync())
    await this.#close()
    await onDisk(this.#publish())
  }

  /** Removes the incomplete blob; does nothing after `keep`. Never fails. */
  async discard(): Promise<void> {
    await this.#close().catch(() => {})
    await rm(this.#temporary, { force: true }).catch(() => {})
  }

  async #close(): Promise<void> {
    if (!this.#open) return
    this.#open = false
    await onDisk(this.#handle.close())
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
}

export const diskError = (cause: NodeJS.ErrnoException): GatewayError =>
  new GatewayError('store_unavailable', `The file store is unavailable${REASONS[cause.code ?? ''] ?? ''}; try again.`, {
    cause,
    retryAfterSeconds: 5,
    shouldRetry: true,
  })

const onDisk = <T>(done: Promise<T>): Promise<T> =>
  done.catch((cause: NodeJS.ErrnoException) => {
    throw diskError(cause)
  })

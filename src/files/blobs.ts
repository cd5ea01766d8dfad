import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../error.ts'

/**
 * Bytes in the data folder, under random names that say nothing of what they are: `<2 hex>/<32 hex>`, and `uploads/<32
 * hex>` while they are written.
 */
export class Blobs {
  readonly #folder: string
  readonly #uploads: string

  private constructor(folder: string) {
    this.#folder = folder
    this.#uploads = join(folder, 'uploads')
  }

  /** Creates the folder, for this user only, and removes what was being written when the process before ended. */
  static async open(folder: string): Promise<Blobs> {
    const blobs = new Blobs(folder)
    await rm(blobs.#uploads, { recursive: true, force: true })
    await mkdir(blobs.#uploads, { recursive: true, mode: 0o700 })
    return blobs
  }

  /** A new blob, which nobody sees before it is kept. */
  async create(): Promise<BlobWriter> {
    const name = randomBytes(16).toString('hex')
    const temporary = join(this.#uploads, name)
    const handle = await onDisk(open(temporary, 'wx', 0o600))
    return new BlobWriter(name, handle, temporary, () => this.#place(name, temporary))
  }

  async #place(name: string, temporary: string): Promise<void> {
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

  /** Whoever has it open reads on to its end. Never fails: what stays is removed at the next start. */
  async remove(name: string): Promise<void> {
    await rm(this.path(name), { force: true }).catch(() => {})
  }

  /** The names of all blobs, a folder at a time. */
  async *names(): AsyncGenerator<string[]> {
    for (const folder of await readdir(this.#folder)) {
      if (/^[0-9a-f]{2}$/.test(folder))
        yield (await readdir(join(this.#folder, folder))).filter((name) => /^[0-9a-f]{32}$/.test(name))
    }
  }
}

/** A blob on its way to the disk. GatewayError store_unavailable where the disk does not take it. */
export class BlobWriter {
  readonly name: string
  readonly #handle: FileHandle
  readonly #temporary: string
  readonly #place: () => Promise<void>
  #open = true

  constructor(name: string, handle: FileHandle, temporary: string, place: () => Promise<void>) {
    this.name = name
    this.#handle = handle
    this.#temporary = temporary
    this.#place = place
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) from += (await onDisk(this.#handle.write(bytes, from))).bytesWritten
  }

  /** Resolves when the disk has it under its name. */
  async keep(): Promise<void> {
    await onDisk(this.#handle.sync())
    await this.#close()
    await onDisk(this.#place())
  }

  /** Never fails; nothing where it was kept. */
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

/** A name is on the disk only when its folder is. Windows knows no such thing. */
async function flushFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** What an operator can see to. */
const REASONS: Record<string, string> = {
  ENOSPC: ': its disk is full',
  EDQUOT: ': its disk is full',
  EIO: ': disk I/O error',
  EROFS: ': it is read-only',
}

export const unanswered = (cause: NodeJS.ErrnoException): GatewayError =>
  new GatewayError('store_unavailable', `The file store is unavailable${REASONS[cause.code ?? ''] ?? ''}; try again.`, {
    cause,
    retryAfterSeconds: 5,
    shouldRetry: true,
  })

const onDisk = <T>(done: Promise<T>): Promise<T> =>
  done.catch((cause: NodeJS.ErrnoException) => {
    throw unanswered(cause)
  })

import { randomBytes } from 'node:crypto'
import type { BlobWriter, StoredFile } from '../store/store.ts'
import type { UploadReservation, UploadLimits } from './quota.ts'

/** Details of an upload that are known when all of it has arrived. `expiresAfterMs`: absent, it never expires. */
export type FileDetails = {
  filename: string
  purpose: string
  mediaType: string
  metadata: string | null
  expiresAfterMs: number | undefined
}

type UploadOptions = {
  accountId: string
  blob: BlobWriter
  reservation: UploadReservation
  limits: Pick<UploadLimits, 'checkChunk'>
  /** Makes the blob and its row durable. */
  add: (file: Omit<StoredFile, 'blob'>) => Promise<void>
  now: () => number
}

/** A file that is being uploaded. The caller calls `keep`, and in any case `discard`. */
export class Upload {
  readonly #options: UploadOptions
  readonly #hash = new Bun.CryptoHasher('sha256')
  #bytes = 0
  #kept = false

  constructor(options: UploadOptions) {
    this.#options = options
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Throws GatewayError quota_exceeded or store_unavailable. */
  async write(chunk: Uint8Array): Promise<void> {
    this.#options.limits.checkChunk(chunk.length)
    await this.#options.reservation.add(chunk.length)
    this.#bytes += chunk.length
    this.#hash.update(chunk)
    await this.#options.blob.write(chunk)
  }

  /** Resolves when the file is durable. Throws GatewayError quota_exceeded or store_unavailable. */
  async keep({ filename, purpose, mediaType, metadata, expiresAfterMs }: FileDetails): Promise<StoredFile> {
    const { accountId, blob, add, now } = this.#options
    const createdAt = now()
    const file = {
      id: newFileId(createdAt),
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

  /** Releases its resources and, unless it was kept, its bytes. Never fails. */
  async discard(): Promise<void> {
    this.#options.reservation.release(this.#kept)
    await this.#options.blob.discard()
  }
}

/** Ids contain the creation time, so that the id of a deleted file still works as the cursor of a listing. */
const newFileId = (createdAt: number): string =>
  `file-${createdAt.toString(16).padStart(12, '0')}${randomBytes(10).toString('hex')}`

/** The creation time in a file id; undefined if it is not one. */
export const createdAtOf = (id: string): number | undefined => {
  const [, instant] = /^file-([0-9a-f]{12})[0-9a-f]{20}$/.exec(id) ?? []
  return instant === undefined ? undefined : parseInt(instant, 16)
}

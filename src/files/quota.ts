import { GatewayError } from '../error.ts'
import type { FileUsage } from '../store/store.ts'

/**
 * The usage of one account with uploads in progress. `stored`: bytes of its files when the first of these uploads
 * began, updated since by uploads that completed and files that were deleted.
 */
type ActiveUsage = { stored: number; uploading: number; uploads: number; max: FileUsage }

/** Limits on uploads beside the file quota. The checks throw a GatewayError where so many bytes more cannot be kept. */
export type UploadLimits = {
  checkUpload(bytes: number): Promise<void>
  checkChunk(bytes: number): void
  /** The most bytes of files that may be kept for this account; Infinity where only its file quota counts. */
  limitOf(accountId: string): Promise<number>
}

/** The space that a file takes on the disk at least. */
const BLOCK_BYTES = 4096

/** The quota of one upload. `release` must be called once; `kept`: the upload became a file. */
export type UploadReservation = { add(bytes: number): Promise<void>; release(kept: boolean): void }

/**
 * The file quota of each account, checked while an upload arrives: without it, uploads in progress could fill the disk
 * before the store refuses their rows.
 */
export class UploadQuota {
  /** Another one holds for uploads that begin later. */
  max: FileUsage
  readonly #limitOf: UploadLimits['limitOf']
  readonly #storedUsage: (accountId: string) => Promise<FileUsage>
  readonly #removeExpired: () => Promise<void>
  readonly #active = new Map<string, ActiveUsage>()

  /** `removeExpired`: frees what the stored usage includes of expired files. */
  constructor(
    max: FileUsage,
    limitOf: UploadLimits['limitOf'],
    storedUsage: (accountId: string) => Promise<FileUsage>,
    removeExpired: () => Promise<void>,
  ) {
    this.max = max
    this.#limitOf = limitOf
    this.#storedUsage = storedUsage
    this.#removeExpired = removeExpired
  }

  /** The most files and bytes that this account may have now. */
  async maxOf(accountId: string): Promise<FileUsage> {
    const limit = await this.#limitOf(accountId)
    return limit >= this.max.bytes
      ? this.max
      : { bytes: limit, files: Math.min(this.max.files, Math.ceil(limit / BLOCK_BYTES)) }
  }

  /** Throws GatewayError quota_exceeded, as `add` of the reservation does. */
  async reserve(accountId: string, declaredBytes: number): Promise<UploadReservation> {
    const max = await this.maxOf(accountId)
    let stored = await this.#storedUsage(accountId)
    if (!this.#fits(accountId, stored, max, declaredBytes)) {
      await this.#removeExpired()
      stored = await this.#storedUsage(accountId)
      if (!this.#fits(accountId, stored, max, declaredBytes)) throw await this.exceeded(accountId, max)
    }
    const usage = this.#active.get(accountId) ?? { stored: stored.bytes, uploading: 0, uploads: 0, max }
    this.#active.set(accountId, usage)
    usage.max = max
    usage.uploads += 1
    return this.#reservation(accountId, usage)
  }

  #fits(accountId: string, { bytes, files }: FileUsage, max: FileUsage, declaredBytes: number): boolean {
    const { stored, uploading } = this.#active.get(accountId) ?? { stored: bytes, uploading: 0 }
    // An upload of unknown size has at least one byte.
    return stored + uploading + Math.max(1, declaredBytes) <= max.bytes && files < max.files
  }

  #reservation(accountId: string, usage: ActiveUsage): UploadReservation {
    let reserved = 0
    return {
      add: async (bytes) => {
        if (usage.stored + usage.uploading + bytes > usage.max.bytes) throw await this.exceeded(accountId, usage.max)
        usage.uploading += bytes
        reserved += bytes
      },
      release: (kept) => {
        usage.uploading -= reserved
        if (kept) usage.stored += reserved
        if ((usage.uploads -= 1) === 0) this.#active.delete(accountId)
      },
    }
  }

  /** Reports the deletion of a stored file. */
  free(accountId: string, bytes: number): void {
    const usage = this.#active.get(accountId)
    if (usage !== undefined) usage.stored -= bytes
  }

  async exceeded(accountId: string, max: FileUsage): Promise<GatewayError> {
    const { files, bytes } = await this.#storedUsage(accountId)
    const uploading = this.#active.get(accountId)?.uploading ?? 0
    const inProgress = uploading === 0 ? '' : `, uploads in progress ${uploading}`
    const advice =
      max === this.max
        ? ''
        : ' Little is kept for an account without credit (store.quotaWithoutCredit), files, responses, predictions ' +
          'and outputs together: add credit.'
    return new GatewayError(
      'quota_exceeded',
      `The file quota of this account is exceeded: ${bytes} of ${max.bytes} bytes used${inProgress}; ` +
        `${files} of ${max.files} files. Delete files, or wait until some expire.${advice}`,
      { shouldRetry: false },
    )
  }
}

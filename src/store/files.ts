/** An uploaded file. Its bytes are in the data folder under `blob`. `metadata`: the client's own, as JSON. */
export type StoredFile = {
  id: string
  accountId: string
  blob: string
  filename: string
  purpose: string | null
  bytes: number
  mediaType: string
  sha256: string
  metadata: string | null
  createdAt: number
  expiresAt: number | null
}

/** A number of files, and the sum of their bytes. */
export type FileUsage = { files: number; bytes: number }

/** A page of an account's files by creation time. `after`: a cursor; that file may have been deleted. */
export type FileQuery = {
  purpose?: string | undefined
  after?: Pick<StoredFile, 'id' | 'createdAt'> | undefined
  limit: number
  order: 'asc' | 'desc'
  now: number
}

/** A file that a model generated. Anyone with the token may read it until it expires. */
export type StoredOutput = {
  token: string
  accountId: string
  blob: string
  mediaType: string
  bytes: number
  expiresAt: number
}

/** The bytes of a file or an output. `sha256`: in hex; null for outputs, whose rows have none. */
export type StoredContent = { blob: string; bytes: number; sha256: string | null }

/** The time that a process has for the bytes of a row that it deleted, and for the first try of another one. */
export const REMOVAL_AFTER_MS = 60_000
export const REMOVAL_AT_MOST_MS = 3_600_000
export const REMOVALS_TAKEN = 100

/** Rows of files and outputs. A row that has expired is not found, whether or not it has been purged. */
export interface FileStore {
  /** False, and nothing written, if the account would then have more than `max`. */
  add(file: StoredFile, max: FileUsage): Promise<boolean>
  find(accountId: string, id: string, now: number): Promise<StoredFile | undefined>
  list(accountId: string, query: FileQuery): Promise<StoredFile[]>
  /** Expired files are included until they are purged. */
  usage(accountId: string): Promise<FileUsage>
  /** Returns the row it deleted, whose blob is noted; undefined, and nothing changed, where there is none. */
  delete(accountId: string, id: string, now: number): Promise<StoredFile | undefined>
  addOutput(output: StoredOutput): Promise<void>
  findOutput(token: string, now: number): Promise<StoredOutput | undefined>
  /** Removes expired rows of files and outputs. Their blobs are noted. */
  purge(now: number): Promise<void>
  /**
   * Blobs without a row whose bytes are to be removed now, at most REMOVALS_TAKEN. Each is due again later, after a
   * time that doubles from REMOVAL_AFTER_MS to REMOVAL_AT_MOST_MS, unless `endRemovals` has its name before.
   */
  takeRemovals(now: number): Promise<string[]>
  /** The bytes of these blobs are gone. */
  endRemovals(blobs: readonly string[]): Promise<void>
  /** Those of `blobs` that a file or an output has. */
  knownBlobs(blobs: readonly string[]): Promise<Set<string>>
  /** Contents of files and outputs in the order of their blobs, some of those after `blob`; empty at the end. */
  contents(after: string): Promise<StoredContent[]>
  /** The number and the bytes of all files and outputs. */
  contentUsage(): Promise<FileUsage>
}

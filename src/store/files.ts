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

/** Rows of files and outputs. A row that has expired is not found, whether or not it has been purged. */
export interface FileStore {
  /** False, and nothing written, if the account would then have more than `max`. */
  add(file: StoredFile, max: FileUsage): Promise<boolean>
  find(accountId: string, id: string, now: number): Promise<StoredFile | undefined>
  list(accountId: string, query: FileQuery): Promise<StoredFile[]>
  /** Expired files are included until they are purged. */
  usage(accountId: string): Promise<FileUsage>
  /** Returns the row it deleted. */
  delete(accountId: string, id: string, now: number): Promise<StoredFile | undefined>
  addOutput(output: StoredOutput): Promise<void>
  findOutput(token: string, now: number): Promise<StoredOutput | undefined>
  /** Removes expired rows of files and outputs. Returns their blobs. */
  purge(now: number): Promise<string[]>
  /** Those of `blobs` that a file or an output has. */
  knownBlobs(blobs: readonly string[]): Promise<Set<string>>
}

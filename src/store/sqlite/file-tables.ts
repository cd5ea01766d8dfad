import type { FileQuery, FileStore, FileUsage, StoredFile, StoredOutput } from '../files.ts'
import { BATCH_ROWS, type Connection } from './connection.ts'

const FILE =
  'id, account_id AS accountId, blob, filename, purpose, bytes, media_type AS mediaType, sha256, metadata, ' +
  'created_at AS createdAt, expires_at AS expiresAt'
const OUTPUT = 'token, account_id AS accountId, blob, media_type AS mediaType, bytes, expires_at AS expiresAt'
const UNEXPIRED = '(expires_at IS NULL OR expires_at > ?)'

/** The tables of files and outputs. The bytes are in the data folder. */
export class FileTables implements FileStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async add(file: StoredFile, max: FileUsage): Promise<boolean> {
    let added = false
    await this.#connection.commit(() => {
      // One statement, so that of two uploads that end together only one can use the last of the quota.
      added =
        this.#connection.run(
          `INSERT INTO files (id, account_id, blob, filename, purpose, bytes, media_type, sha256, metadata, created_at,
             expires_at)
           SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
           WHERE coalesce((SELECT bytes FROM kept WHERE account_id = ? AND kind = 'files'), 0) + ? <= ?
             AND coalesce((SELECT things FROM kept WHERE account_id = ? AND kind = 'files'), 0) < ?`,
          file.id,
          file.accountId,
          file.blob,
          file.filename,
          file.purpose,
          file.bytes,
          file.mediaType,
          file.sha256,
          file.metadata,
          file.createdAt,
          file.expiresAt,
          file.accountId,
          file.bytes,
          max.bytes,
          file.accountId,
          max.files,
        ).changes > 0
    })
    return added
  }

  async find(accountId: string, id: string, now: number): Promise<StoredFile | undefined> {
    return this.#connection.one<StoredFile>(
      `SELECT ${FILE} FROM files WHERE account_id = ? AND id = ? AND ${UNEXPIRED}`,
      accountId,
      id,
      now,
    )
  }

  async list(accountId: string, { purpose, after, limit, order, now }: FileQuery): Promise<StoredFile[]> {
    const cursor = after === undefined ? '' : `AND (created_at, id) ${order === 'asc' ? '>' : '<'} (?, ?)`
    const purposes = purpose === undefined ? '' : 'AND purpose = ?'
    return this.#connection.all<StoredFile>(
      `SELECT ${FILE} FROM files WHERE account_id = ? AND ${UNEXPIRED} ${cursor} ${purposes}
       ORDER BY created_at ${order}, id ${order} LIMIT ?`,
      accountId,
      now,
      ...(after === undefined ? [] : [after.createdAt, after.id]),
      ...(purpose === undefined ? [] : [purpose]),
      limit,
    )
  }

  async usage(accountId: string): Promise<FileUsage> {
    return (
      this.#connection.one<FileUsage>(
        "SELECT things AS files, bytes FROM kept WHERE account_id = ? AND kind = 'files'",
        accountId,
      ) ?? { files: 0, bytes: 0 }
    )
  }

  async delete(accountId: string, id: string, now: number): Promise<StoredFile | undefined> {
    let deleted: StoredFile | undefined
    await this.#connection.commit(() => {
      deleted = this.#connection.one<StoredFile>(
        `DELETE FROM files WHERE account_id = ? AND id = ? AND ${UNEXPIRED} RETURNING ${FILE}`,
        accountId,
        id,
        now,
      )
    })
    return deleted
  }

  async addOutput({ token, accountId, blob, mediaType, bytes, expiresAt }: StoredOutput): Promise<void> {
    await this.#connection.commit(() => {
      this.#connection.run(
        'INSERT INTO outputs (token, account_id, blob, media_type, bytes, expires_at) VALUES (?, ?, ?, ?, ?, ?)',
        token,
        accountId,
        blob,
        mediaType,
        bytes,
        expiresAt,
      )
    })
  }

  async findOutput(token: string, now: number): Promise<StoredOutput | undefined> {
    return this.#connection.one<StoredOutput>(
      `SELECT ${OUTPUT} FROM outputs WHERE token = ? AND expires_at > ?`,
      token,
      now,
    )
  }

  async purge(now: number): Promise<string[]> {
    return [...(await this.#purge('files', 'id', now)), ...(await this.#purge('outputs', 'token', now))]
  }

  async #purge(table: 'files' | 'outputs', key: 'id' | 'token', now: number): Promise<string[]> {
    const purged = await this.#connection.inBatches(() =>
      this.#connection.all<{ blob: string }>(
        `DELETE FROM ${table} WHERE ${key} IN (SELECT ${key} FROM ${table} WHERE expires_at <= ? LIMIT ?)
         RETURNING blob`,
        now,
        BATCH_ROWS,
      ),
    )
    return purged.map(({ blob }) => blob)
  }

  async knownBlobs(blobs: readonly string[]): Promise<Set<string>> {
    const known = new Set<string>()
    for (let from = 0; from < blobs.length; from += BATCH_ROWS) {
      const batch = blobs.slice(from, from + BATCH_ROWS)
      const listed = JSON.stringify(batch)
      const rows = this.#connection.all<{ blob: string }>(
        `SELECT blob FROM files WHERE blob IN (SELECT value FROM json_each(?))
         UNION ALL SELECT blob FROM outputs WHERE blob IN (SELECT value FROM json_each(?))`,
        listed,
        listed,
      )
      for (const { blob } of rows) known.add(blob)
    }
    return known
  }
}

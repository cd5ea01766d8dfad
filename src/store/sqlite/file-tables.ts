import { CONTENT_USAGE, FILE_COLUMNS, OUTPUT_COLUMNS } from '../columns.ts'
import {
  type FileQuery,
  type FileStore,
  type FileUsage,
  REMOVAL_AFTER_MS,
  REMOVAL_AT_MOST_MS,
  REMOVALS_TAKEN,
  type StoredContent,
  type StoredFile,
  type StoredOutput,
} from '../files.ts'
import { unlessRefused } from '../refused.ts'
import { BATCH_ROWS } from './batch-rows.ts'
import type { Connection } from './connection.ts'

/** Blobs whose row was deleted, until their bytes are gone. */
export const REMOVALS = `
  CREATE TABLE removed_blobs (
    name TEXT PRIMARY KEY,
    tries INTEGER NOT NULL,
    due_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX removed_blobs_by_time ON removed_blobs (due_at);
`

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
      `SELECT ${FILE_COLUMNS} FROM files WHERE account_id = ? AND id = ? AND ${UNEXPIRED}`,
      accountId,
      id,
      now,
    )
  }

  async list(accountId: string, { purpose, after, limit, order, now }: FileQuery): Promise<StoredFile[]> {
    const cursor = after === undefined ? '' : `AND (created_at, id) ${order === 'asc' ? '>' : '<'} (?, ?)`
    const purposes = purpose === undefined ? '' : 'AND purpose = ?'
    return this.#connection.all<StoredFile>(
      `SELECT ${FILE_COLUMNS} FROM files WHERE account_id = ? AND ${UNEXPIRED} ${cursor} ${purposes}
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
    const sql = `DELETE FROM files WHERE account_id = ? AND id = ? AND ${UNEXPIRED} RETURNING ${FILE_COLUMNS}`
    await unlessRefused((refusal) =>
      this.#connection.commit(() => {
        deleted = this.#connection.one<StoredFile>(sql, accountId, id, now)
        if (deleted === undefined) throw refusal
        this.#note([deleted.blob], now + REMOVAL_AFTER_MS)
      }),
    )
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
      `SELECT ${OUTPUT_COLUMNS} FROM outputs WHERE token = ? AND expires_at > ?`,
      token,
      now,
    )
  }

  async purge(now: number): Promise<void> {
    await this.#purge('files', 'id', now)
    await this.#purge('outputs', 'token', now)
  }

  async #purge(table: 'files' | 'outputs', key: 'id' | 'token', now: number): Promise<void> {
    await this.#connection.inBatches(() => {
      const purged = this.#connection.all<{ blob: string }>(
        `DELETE FROM ${table} WHERE ${key} IN (SELECT ${key} FROM ${table} WHERE expires_at <= ? LIMIT ?)
         RETURNING blob`,
        now,
        BATCH_ROWS,
      )
      this.#note(
        purged.map(({ blob }) => blob),
        now,
      )
      return purged
    })
  }

  #note(blobs: readonly string[], dueAt: number): void {
    this.#connection.run(
      `INSERT INTO removed_blobs (name, tries, due_at) SELECT value, 0, ? FROM json_each(?) WHERE true
       ON CONFLICT DO NOTHING`,
      dueAt,
      JSON.stringify(blobs),
    )
  }

  async takeRemovals(now: number): Promise<string[]> {
    if (this.#connection.one('SELECT 1 FROM removed_blobs WHERE due_at <= ? LIMIT 1', now) === undefined) return []
    let taken: { name: string }[] = []
    await this.#connection.commit(() => {
      taken = this.#connection.all<{ name: string }>(
        `UPDATE removed_blobs SET tries = tries + 1, due_at = ?1 + min(?2, ?3 << min(tries, 20))
         WHERE name IN (SELECT name FROM removed_blobs WHERE due_at <= ?1 ORDER BY due_at LIMIT ?4) RETURNING name`,
        ...[now, REMOVAL_AT_MOST_MS, REMOVAL_AFTER_MS, REMOVALS_TAKEN],
      )
    })
    return taken.map(({ name }) => name)
  }

  async endRemovals(blobs: readonly string[]): Promise<void> {
    await this.#connection.commit(() => {
      this.#connection.run(
        'DELETE FROM removed_blobs WHERE name IN (SELECT value FROM json_each(?))',
        JSON.stringify(blobs),
      )
    })
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

  async contents(after: string): Promise<StoredContent[]> {
    return this.#connection.all<StoredContent>(
      `SELECT blob, bytes, sha256 FROM files WHERE blob > ?1
       UNION ALL SELECT blob, bytes, NULL FROM outputs WHERE blob > ?1 ORDER BY blob LIMIT ?2`,
      after,
      BATCH_ROWS,
    )
  }

  async contentUsage(): Promise<FileUsage> {
    return this.#connection.one<FileUsage>(CONTENT_USAGE)!
  }
}
